"""Quantiles of real data, compared with the truth."""

from __future__ import annotations

import datetime
from pathlib import Path

import polars as pl
import pytest

import dptally
from dptally.randomness import SeededBits

FLIGHTS = Path(__file__).parents[3] / "shared" / "data" / "nyc_flights_2013.parquet"
pytestmark = pytest.mark.skipif(not FLIGHTS.is_file(), reason="../shared/data is not there")

INTERVALS = {"distance": (0, 5000), "date": (datetime.date(2013, 1, 1), datetime.date(2013, 12, 31))}


@pytest.mark.parametrize("mechanism", ["sample_and_threshold", "weighted_sample", "dense"])
@pytest.mark.parametrize("column", ["distance", "date"])
def test_quantiles_of_flights_are_within_their_bounds(column: str, mechanism: str) -> None:
    """Distances and dates of 336,776 flights: true quantiles are within bounds at 99.99 %, estimates near in rank."""
    low, high = INTERVALS[column]
    release = dptally.publish_quantiles(
        FLIGHTS,
        value=column,
        low=low,
        high=high,
        epsilon=1,
        delta=None if mechanism == "dense" else "1e-6",
        mechanism=mechanism,  # type: ignore[arg-type]
        randomness=SeededBits(1),
    )
    values = pl.read_parquet(FLIGHTS).get_column(column).drop_nulls().sort()
    total = release.total(confidence="0.9999")
    assert total.lower <= len(values) <= total.upper
    for q in (0.01, 0.1, 0.25, 0.5, 0.75, 0.9, 0.99):
        true = values[max(0, -int(-q * len(values) // 1) - 1)]
        found = release.quantile(q, confidence="0.9999")
        assert found.lower <= true <= found.upper
        assert found.estimate is not None and found.lower <= found.estimate <= found.upper
