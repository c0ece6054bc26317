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


RETAIL = FLIGHTS.with_name("online_retail_2010_2011.parquet")


@pytest.mark.skipif(not RETAIL.is_file(), reason="../shared/data is not there")
def test_prices_have_pence_however_the_interval_is_written() -> None:
    """The median price of half a million lines of invoices, 2.08, is within bounds for 0 to 50 and for 0.0 to 50.0."""
    true = pl.read_parquet(RETAIL, columns=["unit_price"]).get_column("unit_price").cast(pl.Float64).median()
    for low, high in ((0, 50), (0.0, 50.0)):
        release = dptally.publish_quantiles(
            RETAIL, value="unit_price", low=low, high=high, epsilon=1, delta="1e-6", randomness=SeededBits(1)
        )
        found = release.quantile("0.5")
        assert found.lower <= true <= found.upper  # type: ignore[operator]
        assert release.grid.bins == 1024
