"""Counts of a sample of raw rows: each row is kept by a coin of its own while the source is read, once.

Counting comes after sampling, so the engine's table holds the sampled keys only. A key with k rows gets the count
Binomial(k, rate), independently of all others, as if it had been drawn after counting.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dptally.errors import InvalidParameter
from dptally.exact.integer_columns import integer_column
from dptally.randomness import BitSource
from dptally.randomness.thinning import RATE_BITS
from dptally.sources import Rows
from dptally.summaries.counting import Counting, Progress


class SampledRows(Counting):
    """Keys with the number of their rows in a sample. Private: nothing of the data shows in its `repr`."""

    def __init__(self, rows: Rows, rate: Fraction, **engine: Any) -> None:
        super().__init__(rows, **engine)
        self.sampled_at = rate  # the probability with which each row was kept

    def _counted(self) -> Iterator[pa.RecordBatch]:
        reading, counting = self._open(share=1 / 2), self._open(share=1 / 2)
        rows = self._rows.select(reading)
        counting.register_stream("kept", reading.schema(rows), self._kept(reading.batches(rows)))
        sql = f"SELECT {self._columns}, count(*) AS n FROM kept GROUP BY {self._columns}"  # noqa: S608
        return self._run(counting, sql, "sampling rows")

    def _kept(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            kept = kept_rows(batch.num_rows, self.sampled_at, self._bits)
            if len(kept):
                yield batch.take(integer_column(kept))

    def __repr__(self) -> str:
        return f"SampledRows(key={self.key!r}, sampled_at={self.sampled_at})"


def kept_rows(rows: int, rate: Fraction, bits: BitSource) -> NDArray[np.int64]:
    """Which of so many rows are kept: those whose 32 random bits are below the rate."""
    coins = bits.words(-(-rows // 2)).view(np.uint32)[:rows]
    return np.flatnonzero(coins < np.uint32(rate * (1 << RATE_BITS))).astype(np.int64, copy=False)


def sample_rows(
    rows: Rows, rate: Fraction, *, bits: BitSource, memory_limit: str | None = None, progress: Progress | None = None
) -> SampledRows:
    """Count a sample of raw rows in one pass.

    Postcondition: a key with k rows has the count Binomial(k, rate), independently of all other keys; keys of which no
    row was kept are missing. Every row is its own unit; the rate is a multiple of 2^-32 strictly between 0 and 1, such
    as `SampleAndThreshold.rate`.
    """
    if not 0 < rate < 1 or (rate * (1 << RATE_BITS)).denominator != 1:
        raise InvalidParameter("rate must be a multiple of 2^-32 between 0 and 1.")
    if rows.unit is not None:
        raise InvalidParameter("sampling rows takes every row for its own unit; with a unit, count the keys first.")
    if rows.count is not None:
        raise InvalidParameter("sampling rows needs raw rows; this source holds counts, sample those instead.")
    return SampledRows(rows, rate, bits=bits, memory_limit=memory_limit, progress=progress)
