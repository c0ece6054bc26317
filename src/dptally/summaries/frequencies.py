"""Exact integer frequency of every key: how many units have it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dptally.contributions import HashCollision, bound_contributions, check_max_keys_per_unit
from dptally.errors import InvalidParameter, InvalidSource
from dptally.laws.sampling_schemes import Scheme
from dptally.randomness import BitSource, SystemBits
from dptally.randomness.keyed import KeyedWords, draw_secret
from dptally.sources import Rows
from dptally.sources.columns import MAXIMUM_COUNT
from dptally.sources.engine import OutOfMemory, Session
from dptally.summaries.counting import MOST_PARTS, Counting, Progress

_REPEATED, _NOTHING = -2, -3


class Frequencies(Counting):
    """Distinct keys with their true counts. Private: nothing of the data shows in its `repr`.

    Where counts came aggregated, `max_keys_per_unit` is what the caller states about them; `scheme` says how the keys
    were sampled, where they are a sample that was drawn before.
    """

    def __init__(self, rows: Rows, max_keys_per_unit: int, scheme: Scheme | None, **engine: Any) -> None:
        check_max_keys_per_unit(max_keys_per_unit)
        super().__init__(rows, **engine)
        self.scheme, self.unit = scheme, rows.unit
        own_units = rows.unit is None and rows.count is None
        self.max_keys_per_unit = 1 if own_units else max_keys_per_unit

    def _counted(self) -> Iterator[pa.RecordBatch]:
        return self._count_unbounded() if self.unit is None else self._count_bounded()

    def _check(self, keys: pa.RecordBatch, counts: NDArray[np.int64]) -> None:
        super()._check(keys, counts)
        if self._rows.count is None:
            return
        if (counts == _REPEATED).any():
            raise InvalidSource("a key is in the sample more than once; each key must come with its whole count.")
        if (counts == _NOTHING).any():
            raise InvalidSource(f"column '{self._rows.count}' must hold counts of at least 1: a sample has no others.")
        if (counts < 0).any():
            raise InvalidSource(f"column '{self._rows.count}' must hold non-negative integers; some rows do not.")
        if (counts > MAXIMUM_COUNT).any():
            raise InvalidSource(f"column '{self._rows.count}' adds up to more than 2^62 for a key.")

    def _count_unbounded(self) -> Iterator[pa.RecordBatch]:
        if self._memory_limit is not None and self._rows.repeatable:
            yield from self._count_in_parts()
            return
        session = self._open(share=1.0)
        yield from self._run(session, self._grouped(session), "counting keys")

    def _count_in_parts(self) -> Iterator[pa.RecordBatch]:
        """Count all keys at once if memory allows, else those of a quarter of all hashes after the other, and so on.

        DuckDB spills rows, but needs memory for the keys of a group-by. Counts go to a table of its own, which may be
        spilled, so that running out of memory shows before anything is yielded.
        """
        parts = [(1, 0)]
        while parts:
            modulus, rest = parts.pop()
            session = self._open(share=1.0)
            sql = self._grouped(session, f"WHERE hash({self._columns}) % {modulus} = {rest}" if modulus > 1 else "")
            counted = self._run(
                session, "SELECT * FROM counted", "counting keys", f"CREATE TEMP TABLE counted AS {sql}"
            )
            try:
                first = next(counted)
            except OutOfMemory:
                self._stop()
                if modulus >= MOST_PARTS:
                    raise
                parts += [(4 * modulus, rest + modulus * part) for part in range(4)]
                continue
            yield first
            yield from counted
            self._stop()
            if modulus > 1:
                self._rows.check_unchanged()

    def _grouped(self, session: Session, where: str = "") -> str:
        keys = self._columns
        counted = self._rows.select_counted(session)
        if counted is not None:
            return f"SELECT {keys}, CAST(sum(w) AS BIGINT) AS n FROM ({counted}) {where} GROUP BY {keys}"  # noqa: S608
        if self._rows.count is None:
            count = "count(*)"
        else:  # negative numbers mark groups with values that are no counts: an error raised in SQL would quote them
            sample = f"WHEN count(*) > 1 THEN {_REPEATED} WHEN min(n) < 1 THEN {_NOTHING}" if self.scheme else ""
            count = f"CASE WHEN count(n) < count(*) THEN -1 {sample} ELSE least(sum(n), {MAXIMUM_COUNT + 1}) END"
        rows = self._rows.select(session)
        sql = f"SELECT {keys}, CAST({count} AS BIGINT) AS n FROM ({rows}) {where} GROUP BY {keys}"  # noqa: S608
        return sql if self._rows.count is None else f"SELECT * FROM ({sql}) WHERE n <> 0"  # noqa: S608

    def _count_bounded(self) -> Iterator[pa.RecordBatch]:
        # Sorting by hashes alone is faster than by values, and as good unless two hashes collide. Then, and
        # where the source cannot be read again, rows are sorted by hashes and values. Nothing has been
        # yielded at that point: the counts of a key are known only when all rows are.
        # A seed must choose alike whatever the order of rows.
        tags = self._bits if self._bits.private else KeyedWords(draw_secret(self._bits), private=False)
        if not self._rows.once:
            try:
                yield from self._count_sorted(tags, hashed=True)
                return
            except HashCollision:
                self._stop()
        yield from self._count_sorted(tags, hashed=False)

    def _count_sorted(self, tags: BitSource | KeyedWords, *, hashed: bool) -> Iterator[pa.RecordBatch]:
        sorting, counting = self._open(share=2 / 3), self._open(share=1 / 3)
        keys = self._columns
        rows = self._rows.select(sorting)
        schema = sorting.schema(f"SELECT {keys} FROM ({rows})")  # noqa: S608
        with_hashes = f"SELECT u, {keys}, hash(u) AS h, hash({keys}) AS g FROM ({rows})"  # noqa: S608
        if hashed:
            ordered = f"{with_hashes} ORDER BY h, g"
        else:
            ordered = f"SELECT u, {keys} FROM ({with_hashes}) ORDER BY h, u, g, {keys}"  # noqa: S608
        chosen = bound_contributions(
            sorting.batches(ordered), max_keys_per_unit=self.max_keys_per_unit, bits=tags, hashed=hashed
        )
        counting.register_stream("chosen", schema, chosen)
        sql = f"SELECT {keys}, count(*) AS n FROM chosen GROUP BY {keys}"  # noqa: S608
        yield from self._run(counting, sql, "bounding contributions")

    def __repr__(self) -> str:
        return f"Frequencies(key={self.key!r}, unit={self.unit!r}, max_keys_per_unit={self.max_keys_per_unit})"


def count_keys(
    rows: Rows,
    *,
    max_keys_per_unit: int,
    bits: BitSource,
    memory_limit: str | None = None,
    progress: Progress | None = None,
    sampled_by: Scheme | None = None,
) -> Frequencies:
    """Count the units of every key, after each unit has been held to `max_keys_per_unit` keys.

    A unit with more keys keeps a uniform random choice; where rows hold counts already, `max_keys_per_unit` is the
    caller's statement about how they were made. `sampled_by` is the scheme that drew the rows, where they are a sample
    with counts already; then a key that comes twice, or with a count below 1, is an error.
    """
    return Frequencies(rows, max_keys_per_unit, sampled_by, bits=bits, memory_limit=memory_limit, progress=progress)


def check_repeated(rows: Rows) -> None:
    """Refuse rows that can be read only once, for a sample size."""
    if rows.once:
        raise InvalidParameter(
            "a sample size needs a source that can be read twice: once for the total, once for the keys."
        )


def count_occurrences(rows: Rows, *, memory_limit: str | None = None) -> int:
    """The number of occurrences that `count_keys` would count, without a unit. Private, and exact."""
    check_repeated(rows)
    with count_keys(rows, max_keys_per_unit=1, bits=SystemBits(), memory_limit=memory_limit) as frequencies:
        return sum(int(counts.sum()) for _, counts in frequencies.batches())
