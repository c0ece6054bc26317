"""Quantile errors beside their bounds, for each mechanism, on uniform, lognormal and real data.

    python benchmarks/ranges.py [--units 1000000]

Prints the table of docs/mechanisms/ranges.md: largest error in rank of seven quantiles, largest half width of their
bounds in rank, whether all bounds hold, and seconds.
"""

from __future__ import annotations

import argparse
import datetime
import time
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

import dptally
from dptally.randomness import SeededBits

FLIGHTS = Path(__file__).parents[2] / "shared" / "data" / "nyc_flights_2013.parquet"
SHARES = (0.01, 0.1, 0.25, 0.5, 0.75, 0.9, 0.99)


def data(units: int) -> dict[str, tuple[Any, Any, Any]]:
    """Values and their public interval."""
    chance = np.random.default_rng(1)
    found: dict[str, tuple[Any, Any, Any]] = {
        "uniform": (chance.random(units), 0.0, 1.0),
        "lognormal": (chance.lognormal(0, 1, units), 0.0, 50.0),
    }
    if FLIGHTS.is_file():
        flights = pl.read_parquet(FLIGHTS)
        found["flight distances"] = (flights.get_column("distance").to_numpy(), 0, 5000)
        days = flights.get_column("date").to_list()
        found["flight dates"] = (days, datetime.date(2013, 1, 1), datetime.date(2013, 12, 31))
    return found


def main() -> None:
    """Run all."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--units", type=int, default=1_000_000)
    units = parser.parse_args().units
    print("| data | mechanism | error in rank | bounds in rank | hold | seconds |")
    print("| --- | --- | --- | --- | --- | --- |")
    for name, (values, low, high) in data(units).items():
        ordered = sorted(values)
        for mechanism, rate in (
            ("sample_and_threshold", None),
            ("sample_and_threshold", "0.25"),
            ("weighted_sample", None),
            ("dense", None),
        ):
            started = time.perf_counter()
            release = dptally.publish_quantiles(
                values,
                low=low,
                high=high,
                epsilon=1,
                delta=None if mechanism == "dense" else "1e-6",
                mechanism=mechanism,
                rate=rate,
                randomness=SeededBits(1),
                progress=False,
            )
            seconds = time.perf_counter() - started
            error = width = 0.0
            hold = True
            for q in SHARES:
                true = ordered[max(0, int(np.ceil(q * len(ordered))) - 1)]
                found = release.quantile(q)
                hold &= found.lower <= true <= found.upper
                error = max(error, distance(ordered, found.estimate, q))
                below, above = (np.searchsorted(ordered, end) / len(ordered) for end in (found.lower, found.upper))
                width = max(width, float(above - below) / 2)
            label = mechanism if rate is None else f"{mechanism}, rate {rate}"
            print(f"| {name} | {label} | {error:.5f} | {width:.5f} | {hold} | {seconds:.1f} |")


def distance(ordered: list[Any], value: Any, q: float) -> float:
    """How far q is from the shares below and up to a value."""
    below = np.searchsorted(ordered, value, side="left") / len(ordered)
    reached = np.searchsorted(ordered, value, side="right") / len(ordered)
    return float(max(0.0, below - q, q - reached))


if __name__ == "__main__":
    main()
