"""What runs on the executors: the choice of a unit's keys, and the draw.

Both are functions of the rows of a partition and of secrets that are the same in every attempt, whatever order the rows
come in. A task that is lost and run again, or run twice at once, gives the same rows again.

A secret reaches the executors in two halves, each of which is uniform by itself: one inside the task, which Spark keeps
in memory, and one in a broadcast, whose files Spark writes to its local directories. Once the broadcast is destroyed
the other half tells nothing.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from dptally.contributions import bound_contributions
from dptally.errors import InvalidSource, PrivacyViolation
from dptally.exact.integer_columns import integers
from dptally.laws.registry import law_from_facts
from dptally.mechanisms.independent_keys import draw_batch
from dptally.randomness.keyed import KeyedWords
from dptally.sources.columns import MAXIMUM_COUNT
from dptally.summaries.counting import check_text

if TYPE_CHECKING:
    from dptally.laws.base import Law

__all__ = ["BoundUnits", "DrawKeys", "Halves", "certified_law", "draw_partition", "rows_in_order"]


class Halves:
    """A secret in two halves, of which the executors add up to it.

    Args:
        near: the half that goes with the task.
        far: the broadcast of the other half.
        private: whether the secret is one.
    """

    def __init__(self, near: bytes, far: Any, *, private: bool) -> None:
        self._near, self._far, self._private = near, far, private

    def keyed(self) -> KeyedWords:
        """The words that belong to rows under this secret."""
        whole = bytes(one ^ other for one, other in zip(self._near, self._far.value, strict=True))
        return KeyedWords(whole, private=self._private)

    def __repr__(self) -> str:
        return "Halves()"


class BoundUnits:
    """Keep at most so many keys of each unit, chosen uniformly; see `dptally.contributions`.

    Takes batches with a column of hashes of the unit, the unit, and its keys, sorted in this order; gives back keys.

    Args:
        max_keys_per_unit: how many.
        secret: of the tags.
    """

    def __init__(self, max_keys_per_unit: int, secret: Halves) -> None:
        self._limit, self._secret = max_keys_per_unit, secret

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Go through one partition."""
        in_order = rows_in_order(batches, "Spark did not keep the order of units; contributions cannot be bounded.")
        yield from bound_contributions(in_order, max_keys_per_unit=self._limit, bits=self._secret.keyed())


def rows_in_order(batches: Iterable[pa.RecordBatch], otherwise: str) -> Iterator[pa.RecordBatch]:
    """The rows without their first column, a hash, once it is certain that it does not fall."""
    last = np.iinfo(np.int64).min
    for batch in batches:
        if not batch.num_rows:
            continue
        hashes = integers(batch.column(0))
        if hashes[0] < last or (hashes[1:] < hashes[:-1]).any():
            raise InvalidSource(otherwise)
        last = hashes[-1]
        yield batch.select(range(1, batch.num_columns))


class DrawKeys:
    """One draw for each key; only what is reported goes on.

    Takes batches of key columns and a count, each key once; gives back the key columns and a value.

    Args:
        facts: of the law, as JSON.
        table: the hash in the certificate of the table that must be drawn from.
        secret: of the draws.
        count: the name of the column of counts, for errors; None where rows were counted.
        sampled: whether rows or keys were sampled already, so that only the rest of the law is left to draw.
    """

    def __init__(self, facts: str, table: str, secret: Halves, count: str | None, *, sampled: bool = False) -> None:
        self._facts, self._table, self._secret, self._count = facts, table, secret, count
        self._sampled = sampled

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Go through one partition."""
        law = certified_law(self._facts, self._table)
        yield from draw_partition(law, batches, self._secret, self._count, sampled=self._sampled)


def draw_partition(
    law: Law, batches: Iterable[pa.RecordBatch], secret: Halves, count: str | None, *, sampled: bool = False
) -> Iterator[pa.RecordBatch]:
    """One draw for each key of a partition, with the words that belong to it; see `DrawKeys`."""
    keyed = secret.keyed()
    for batch in batches:
        if not batch.num_rows:
            continue
        width = batch.num_columns - 1
        keys, counts = batch.select(range(width)), integers(batch.column(width))
        _check(keys, counts, count)
        drawn = draw_batch(law, keys, counts, keyed.of_rows(keys.columns), sampled=sampled)
        yield from drawn.combine_chunks().to_batches()


def _check(keys: pa.RecordBatch, counts: np.ndarray[Any, np.dtype[np.int64]], count: str | None) -> None:
    check_text(keys)
    if (counts < 0).any():
        raise InvalidSource(f"column '{count}' must hold non-negative integers; some rows do not.")
    if (counts > MAXIMUM_COUNT).any():
        raise InvalidSource(f"column '{count}' adds up to more than 2^62 for a key.")


@lru_cache(maxsize=8)
def certified_law(facts: str, table: str) -> Law:
    """Make the law again from its parameters, verify it here, and compare its table with the driver's.

    Once for each Python worker. Nothing that is drawn from travels, so nothing can be exchanged on the way.
    """
    law = law_from_facts(json.loads(facts))
    if law.certify().table_sha256 != table:
        raise PrivacyViolation(
            "an executor makes another table than the driver; use one version of dptally everywhere."
        )
    return law
