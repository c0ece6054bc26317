"""A value for every key of a public set, under pure differential privacy."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from dptally.errors import InvalidParameter
from dptally.laws.spec import Question
from dptally.mechanisms.base import Counted
from dptally.randomness import BitSource
from dptally.universes.listed_keys import ListedKeys

if TYPE_CHECKING:
    import pyarrow as pa

_PART = 1 << 16


def draw(question: Question, summary: Counted, bits: BitSource) -> pa.Table:
    """Draw once for every key of the set, in the order of keys; the value 0 is a value like any other."""
    import pyarrow as pa

    listed: ListedKeys = question.parameters["keys"]
    if summary.scheme is not None:
        raise InvalidParameter("a dense histogram needs all keys, but these are a sample.")
    if tuple(summary.key) != tuple(listed.schema.names):
        raise InvalidParameter(
            f"keys must have the columns {', '.join(map(repr, summary.key))}, in this order, "
            f"got {', '.join(map(repr, listed.schema.names))}."
        )
    counts = np.zeros(len(listed), dtype=np.int64)
    for keys, found in _large_parts(summary.batches(), max(_PART, len(listed))):
        places = listed.places(keys)
        inside = places >= 0
        counts[places[inside]] = found[inside]  # each distinct key comes once
    values = question.law.draw(counts, bits)
    return listed.table.append_column("value", pa.array(values, type=pa.int64()))


def _large_parts(
    batches: Iterator[tuple[pa.RecordBatch, NDArray[np.int64]]], rows: int
) -> Iterator[tuple[pa.Table, NDArray[np.int64]]]:
    """Batches put together until they have this many rows: every lookup reads the whole set of keys."""
    import pyarrow as pa

    keys: list[pa.RecordBatch] = []
    counts: list[NDArray[np.int64]] = []
    for batch, found in batches:
        keys.append(batch)
        counts.append(found)
        if sum(map(len, counts)) >= rows:
            yield pa.Table.from_batches(keys), np.concatenate(counts)
            keys, counts = [], []
    if keys:
        yield pa.Table.from_batches(keys), np.concatenate(counts)
