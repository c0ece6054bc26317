"""Misra-Gries sketches of streams in which every element is its own unit of privacy [LT25, Algorithms 1 and 3]."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dptally.errors import InvalidParameter, InvalidSource
from dptally.exact.integer_columns import integers
from dptally.randomness import BitSource
from dptally.sources import Rows
from dptally.sources.engine import Session
from dptally.sources.filters import read_filter
from dptally.summaries.counter_sketch import CounterSketch
from dptally.summaries.counting import Progress
from dptally.summaries.sketch_files import SketchContents
from dptally.summaries.sketch_keys import ARROW_TYPES, Kind, as_arrow, key_buffers, kind_of, read_values, readable


class MisraGries(CounterSketch):
    """The most frequent keys of a stream in bounded memory, by [LT25, Algorithm 1] exactly.

    An element that has a counter raises it; else, if a counter is zero, the smallest key among those at zero gives up
    its place; else all counters are lowered by one. Counters at zero stay until their place is needed.

    The order of keys is that of their bytes (text as UTF-8), or of their values for integers. It is the same for
    all streams, as the proof of privacy needs. The dummy keys that Algorithm 1 starts with are slots without a key;
    they are smaller than every key, so they are taken first, and they are equal to none.

    Guarantee:
        Sketches of two streams, one of which has one element more, share all but two keys, and either one counter of
        the longer is higher by one, or all are lower by one [LT25, Lem. 8]. That holds for streams read in one order:
        take the rows of a source in an order that does not depend on any one of them. Threads that share a sketch do
        not: how long a batch takes depends on what is in it.

    Error:
        A counter is never above its key's true frequency, and below it by at most `shortfall` <= total / (capacity +
        1).

    Cost:
        At most 69 bytes for each counter (47 for integers) with keys of up to 16 bytes in it, longer ones beside it.
        Time, amortised and whatever the stream: O(1) for an update. Which keys are evicted need not be known before
        somebody looks, so they are not put in order while the stream is read; the first look after an eviction takes
        O(capacity).

    References:
        [LT25], [MG82].
    """

    _BY_UNIT: ClassVar[bool] = False

    def update(self, batch: Any) -> None:
        """Take in the keys of a batch, in their order. Nulls are left out.

        What keys are must not depend on them, since the type of a released column shows. An array or a series declares
        it by its type, with or without rows, and all of them must declare the same. A list (or an array of Python
        objects, or a column of nulls alone) declares nothing: its values are read as what this sketch holds, and as
        text if that has not been declared or stated yet, so that 7 becomes "7". A value that cannot be read so (such as
        text where there are integers) is left out, like a null.

        A batch is taken in whole or, where it cannot be read, not at all; of an Arrow array in chunks, chunk by chunk.

        Args:
            batch: a list, a NumPy array of integers, text or bytes, an Arrow array or chunked array of text, bytes,
                integers or a dictionary of these, or a Polars or pandas series.

        Raises:
            InvalidParameter: it is no collection of keys, or this sketch was merged or imported.
            InvalidSource: the batch declares another kind of keys than this sketch has, or one that is none of keys.
        """
        self._check_open()
        keys = as_arrow(batch, self._kind)
        self._begin(keys.type)
        for found in key_buffers(keys):
            self._take(found, "update")

    def update_file(
        self,
        path: Any,
        *,
        key: str,
        format: str | None = None,  # noqa: A002 - the public name
        memory_limit: str | None = None,
        progress: Progress | None = None,
        checkpoint: str | Path | None = None,
        where: str | None = None,
        since: object = None,
        until: object = None,
        time_column: str | None = None,
    ) -> None:
        """Take in a column of files, in the order of names and rows, a batch at a time.

        If it is stopped, the sketch holds the rows up to some batch. What keys are comes from the declared type of
        their column. CSV and JSON lines declare none: their values are read as lists are, see `update`.

        Args:
            path: path, glob or list of paths of CSV, TSV, JSON lines or Parquet files, also .gz and .zst; "-" is
                standard input.
            key: the column of keys.
            format: "csv", "tsv", "jsonl" or "parquet" when the file name does not tell.
            memory_limit: what DuckDB may take, such as "4GB".
            progress: called with the stage and how much of it is done (None when unknown).
            checkpoint: a file to save the sketch to every few seconds and at the end; it is always a complete sketch.
            where: which rows are read, as in `dptally.publish`.
            since: as in `dptally.publish`.
            until: as in `dptally.publish`.
            time_column: as in `dptally.publish`.

        Raises:
            InvalidParameter: the request is contradictory or names a column that is not there.
            InvalidSource: the data cannot be read as asked.
        """
        rows = read_filter(where, since=since, until=until, time_column=time_column)
        self._read(path, key, None, format, memory_limit, progress, checkpoint, rows)

    def _select(self, rows: Rows, session: Session) -> str:
        """In their order, or by their keys where they come in one that may depend on them."""
        sql = rows.select(session)
        return f"SELECT k0 FROM ({sql}) ORDER BY hash(k0), k0" if rows.unordered else sql  # noqa: S608 - no value of the data

    def _taking(self) -> Callable[[pa.RecordBatch | None], None]:
        return lambda batch: None if batch is None else self.update(batch.column(0))

    def reduced(self) -> tuple[pa.Array, NDArray[np.int64]]:
        """[LT25, Algorithm 3] in integers: keys with (capacity + 1) * counter - sum of counters, if positive.

        These are capacity + 1 times the numbers of Algorithm 3, which subtracts the sum divided by capacity + 1 without
        rounding; rounding it down would raise the sensitivity from below 2 to capacity.

        Guarantee:
            For streams that differ in one element, the numbers (zero for keys that are not there) differ by at most
            2 capacity - 1 in all, so the numbers of Algorithm 3 by (2k - 1) / (k + 1) < 2 [LT25, Lem. 16; the
            constant is exact].

        Returns:
            The keys in order, and as many positive numbers.

        Raises:
            InvalidParameter: the sketch was merged, so that the guarantee does not hold, or the numbers exceed 64 bits.
        """
        if self.merged:
            raise InvalidParameter("a merged sketch cannot be reduced; reduce the sketches it was merged from.")
        keys, counts = self._stored()
        if len(counts) and (int(counts.max()) + 1) * (self.capacity + 1) >= 1 << 63:
            raise InvalidParameter("the counters times capacity + 1 do not fit in 64 bits.")
        scaled = counts * np.int64(self.capacity + 1) - counts.sum()
        kept = (scaled > 0) & readable(keys)
        return keys.filter(pa.array(kept)), scaled[kept]

    def reduced_contents(self) -> SketchContents:
        """What a mechanism with delta = 0 reads. Private."""
        keys, scaled = self.reduced()
        return SketchContents(keys, scaled, self.total, self.capacity + 1)

    @classmethod
    def from_counters(
        cls, counters: Any, capacity: int, total: int, *, kind: Kind | None = None, bits: BitSource | None = None
    ) -> Self:
        """Import a Misra-Gries sketch of another tool, which drops counters at zero ("standard" in [LT25, Sec. 5.1]).

        That the counters were made by such a sketch of that capacity cannot be seen from them: it is the caller's
        statement, and what is released from them is private only if it is true. Each import counts as a stream of its
        own: that the same counters are not imported twice is the caller's statement, too.

        Args:
            counters: a mapping of keys to counts, or an Arrow table with the columns key and count.
            capacity: the number of counters the other sketch could hold.
            total: the number of elements it has seen.
            kind: as for a new sketch. A mapping declares none, so that its keys are text if this is left out.
            bits: as for a new sketch.

        Raises:
            InvalidParameter: capacity or total are out of range.
            InvalidSource: there are more counters than `capacity`, a key comes twice, a count is not positive, or the
                counts add up to more than `total`.
        """
        sketch = cls(capacity, kind=kind, bits=bits)
        sketch.standard = True
        if isinstance(total, bool) or not isinstance(total, int) or not 0 <= total < 1 << 47:
            raise InvalidParameter(f"total must be an integer between 0 and 2^47, got {total!r}.")
        keys, counts = _columns(counters, kind)
        if len(counts) > capacity:
            raise InvalidSource("there are more counters than the capacity.")
        if (counts < 1).any():
            raise InvalidSource("the counts must be positive integers.")
        lost = total - sum(counts.tolist())
        if lost < 0:
            raise InvalidSource("the counts add up to more than total.")
        sketch._begin(keys.type)
        if keys.null_count:
            raise InvalidSource("a key is missing.")
        if not sketch._restore(keys, counts, total, lost // (capacity + 1)):
            raise InvalidSource("a key comes twice.")
        return sketch

    def _empty_like(self, others: tuple[Self, ...]) -> Self:
        del others
        return type(self)(self.capacity, bits=self._bits)


def _columns(counters: Any, kind: Kind | None) -> tuple[pa.Array, NDArray[np.int64]]:
    """The keys, of a type in `ARROW_TYPES`, and as many counts."""
    if isinstance(counters, Mapping):
        keys, values = as_arrow(list(counters.keys()), kind), list(counters.values())
    elif isinstance(counters, pa.Table | pa.RecordBatch):
        if not {"key", "count"} <= set(counters.schema.names):
            raise InvalidParameter("a table of counters needs the columns key and count.")
        keys, values = as_arrow(counters["key"], kind), counters["count"].to_pylist()
    else:
        raise InvalidParameter(f"counters must be a mapping or an Arrow table, got {type(counters).__name__}.")
    counts = read_values(values, "integer")
    if counts.null_count:
        raise InvalidSource("the counts must be positive integers.")
    if isinstance(keys, pa.ChunkedArray):
        keys = keys.combine_chunks()
    if pa.types.is_dictionary(keys.type):
        keys = keys.dictionary_decode()
    return keys.cast(ARROW_TYPES[kind_of(keys.type)]), integers(counts)
