"""Counts of a sample of raw rows: each row is kept by a coin of its own while the source is read, once.

Counting comes after sampling, so the engine's table holds the sampled keys only. A key with k rows gets the count
Binomial(k, rate), independently of all others, as if it had been drawn after counting.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dptally.errors import InvalidParameter, InvalidSource
from dptally.exact.integer_columns import integers
from dptally.randomness import BitSource
from dptally.randomness.thinning import RATE_BITS
from dptally.sources import Rows
from dptally.sources.engine import check_memory_limit
from dptally.summaries.counting import Counting, Progress

__all__ = ["SampledRows", "sample_rows"]


class SampledRows(Counting):
    """Keys with the number of their rows in a sample. Private: nothing of the data shows in its `repr`.

    Sampling starts when `batches` is first advanced, and its result can be read once: reading again would draw again.

    Attributes:
        key: names of the key columns.
        unit: None: every row is its own unit.
        max_keys_per_unit: 1, for the same reason.
        scheme: None: no scheme that takes whole keys.
        sampled_at: the probability with which each row was kept.
    """

    def __init__(
        self, rows: Rows, rate: Fraction, *, bits: BitSource, memory_limit: str | None, progress: Progress | None
    ) -> None:
        super().__init__(rows, bits=bits, memory_limit=memory_limit, progress=progress)
        self.unit: str | None = None
        self.max_keys_per_unit = 1
        self.scheme = None
        self.sampled_at = rate

    def batches(self) -> Iterator[tuple[pa.RecordBatch, NDArray[np.int64]]]:
        """Yield sampled keys and how many of their rows were kept, in no particular order; each key comes once.

        Raises:
            InvalidParameter: they have been read already.
            InvalidSource: the data cannot be read as asked, or memory or disk do not suffice.
        """
        self._take()
        try:
            reading, counting = self._open(share=1 / 2), self._open(share=1 / 2)
            rows = self._rows.select(reading)
            schema = reading.schema(rows)
            counting.register_stream("kept", schema, self._kept(reading.batches(rows)))
            columns = ", ".join(f"k{i}" for i in range(len(self.key)))
            sql = f"SELECT {columns}, count(*) AS n FROM kept GROUP BY {columns}"  # noqa: S608
            names = list(self.key)
            for batch in self._run(counting, sql, "sampling rows"):
                keys = batch.select(range(len(names))).rename_columns(names)
                _check_text(keys)
                yield keys, integers(batch.column(len(names)))
        finally:
            self.close()

    def _kept(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Rows whose 32 random bits are below the rate."""
        limit = np.uint32(self.sampled_at * (1 << RATE_BITS))
        for batch in batches:
            coins = self._bits.words(-(-batch.num_rows // 2)).view(np.uint32)[: batch.num_rows]
            kept = np.flatnonzero(coins < limit)
            if len(kept):
                yield batch.take(pa.array(kept))

    def __repr__(self) -> str:
        return f"SampledRows(key={self.key!r}, sampled_at={self.sampled_at})"


def sample_rows(
    rows: Rows,
    rate: Fraction,
    *,
    bits: BitSource,
    memory_limit: str | None = None,
    progress: Progress | None = None,
) -> SampledRows:
    """Count a sample of raw rows in one pass; nothing is read before `SampledRows.batches` is advanced.

    Postcondition: a key with k rows has the count Binomial(k, rate), independently of all other keys; keys of which no
    row was kept are missing.

    Args:
        rows: what to sample; every row is its own unit.
        rate: a multiple of 2^-32 strictly between 0 and 1, such as `SampleAndThreshold.rate`.
        bits: where the coins come from.
        memory_limit: what DuckDB may take before it spills to disk, such as "4GB".
        progress: called with the stage and how much of it is done (None when unknown).

    Raises:
        InvalidParameter: the rows cannot be sampled one by one, or the rate is none.
    """
    if not 0 < rate < 1 or (rate * (1 << RATE_BITS)).denominator != 1:
        raise InvalidParameter("rate must be a multiple of 2^-32 between 0 and 1.")
    if rows.unit is not None:
        raise InvalidParameter("sampling rows takes every row for its own unit; with a unit, count the keys first.")
    if rows.count is not None:
        raise InvalidParameter("sampling rows needs raw rows; this source holds counts, sample those instead.")
    check_memory_limit(memory_limit)
    return SampledRows(rows, rate, bits=bits, memory_limit=memory_limit, progress=progress)


def _check_text(batch: pa.RecordBatch) -> None:
    valid = True
    try:
        batch.validate(full=True)  # DuckDB passes the text of Arrow tables on without a look at its encoding
    except pa.ArrowInvalid:
        valid = False
    if not valid:
        raise InvalidSource("the source holds text that is not valid UTF-8.")
