"""Series: error of running totals, time of an `add` early and late, and size of the state.

``python -m benchmarks.series`` prints a table; ``--rows`` and ``--days`` make it smaller.
"""

from __future__ import annotations

import argparse
import math
import tempfile
import time
from pathlib import Path

import numpy as np
import polars as pl

import dptally
from dptally.laws.gaussian_histogram import GaussianHistogram
from dptally.laws.series import plan_series

_UNITS, _KEYS, _BOUND = 400_000, 100_000, 20


def errors() -> None:
    """Deviation of the last running total against one release at the same budget, from the laws."""
    law, single = plan_series(2, "1e-6", differing=_BOUND, periods=365), GaussianHistogram(2, "1e-6", _BOUND)
    last = float(law.sigma) * math.sqrt(float(law.totals @ law.totals))
    each = float(single.sigma) * math.sqrt(365)
    tree = float(single.sigma) * math.sqrt((365).bit_length() * max(t.bit_count() for t in range(1, 366)))
    noise = law.draw_noise(365 * 20_000, dptally.randomness.SeededBits(1)).reshape(20_000, 365)
    measured, one = float(np.std(noise @ law.totals[::-1])), float(single.sigma)
    print(f"deviation of the last total: series {last:.1f} (measured {measured:.1f}), one release {one:.1f},")
    print(f"ratio {measured / one:.2f}; days added up {each:.1f}; binary tree {tree:.1f}")


def day(number: int, rows: int) -> pl.DataFrame:
    """Rows of one day: Zipf keys, users at random."""
    chance = np.random.default_rng(number)
    keys = np.minimum(chance.zipf(1.3, rows), _KEYS)
    return pl.DataFrame({"query": keys, "user": chance.integers(0, _UNITS, rows)})


def times(rows: int, days: int) -> None:
    """Add some days, the last of them as day 300, and compare times; the size of the state by pairs."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "year.series"
        series = dptally.Series.create(
            place, key="query", unit="user", max_keys_per_unit=_BOUND, periods=365, epsilon=2, delta="1e-6"
        )
        series.add(day(0, 1000).clear(), period=1)  # what is loaded and certified once
        taken = []
        for number in range(days):
            frame = day(number, rows)
            start = time.perf_counter()
            release = series.add(frame, period=2 + number if number < days - 1 else 300)
            taken.append(time.perf_counter() - start)
        with series._state.reading():
            pairs = sum(table.num_rows for _, table in series._state.get("units"))
            keys = sum(table.num_rows for _, table in series._state.get("keys"))
        size = place.stat().st_size
    print(f"{rows:,} rows a day, {days} days added: first {taken[0]:.2f} s, last but one {taken[-2]:.2f} s,")
    print(f"as day 300 after a gap {taken[-1]:.2f} s; {pairs:,} pairs, {keys:,} keys, {len(release):,} published,")
    print(f"{size / 1e6:.1f} MB: {size / pairs * 5:.1f} MB for 5 million pairs")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--days", type=int, default=20)
    asked = parser.parse_args()
    errors()
    times(asked.rows, asked.days)
