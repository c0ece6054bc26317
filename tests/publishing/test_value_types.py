"""The declared type of a column decides what its quantiles are answered in, not how an end is written, nor a value."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dptally
from dptally.errors import InvalidParameter, InvalidSource
from dptally.randomness import SeededBits

MEDIAN = 2.08
PRICES = [0.5] * 400 + [MEDIAN] * 600 + [12.75] * 400
WHOLE = [0] * 400 + [2] * 600 + [13] * 400
TYPES: dict[str, Any] = {
    "float": pa.array(PRICES, pa.float64()),
    "single": pa.array(PRICES, pa.float32()),
    "decimal": pa.array([Decimal(str(price)) for price in PRICES], pa.decimal128(10, 2)),
    "text": pa.array(list(map(str, PRICES))),
    "integer": pa.array(WHOLE, pa.int32()),
    "unsigned": pa.array(WHOLE, pa.uint8()),
    "whole decimal": pa.array(list(map(Decimal, WHOLE)), pa.decimal128(10, 0)),
}
INTEGERS = ("integer", "unsigned", "whole decimal")


def ask(source: Any, **options: Any) -> dptally.RangeRelease:
    """A tree over 0 to 50."""
    request = {"low": 0, "high": 50, "epsilon": 1, "mechanism": "dense", "randomness": SeededBits(1)}
    return dptally.publish_quantiles(source, **{**request, **options})


@pytest.mark.parametrize("ends", [(0, 50), (0.0, 50.0), (0, 50.0)])
@pytest.mark.parametrize("name", TYPES)
def test_the_declared_type_decides(name: str, ends: tuple[Any, Any], tmp_path: Path) -> None:
    """A column of a Parquet file has the same grid whichever way the interval is written, and the median is in it."""
    place = tmp_path / "values.parquet"
    pq.write_table(pa.table({"price": TYPES[name]}), place)
    release = ask(place, value="price", low=ends[0], high=ends[1])
    found = release.quantile("0.5")
    if name in INTEGERS:
        assert (release.grid.kind, release.grid.bins, found.estimate) == ("integer", 51, 2)
        return
    assert (release.grid.kind, release.grid.bins) == ("number", 1024)
    assert found.lower <= MEDIAN <= found.upper  # type: ignore[operator]
    assert found.upper - found.lower < 0.1  # type: ignore[operator]
    one = dptally.find_quantile(
        place, "0.5", value="price", low=ends[0], high=ends[1], epsilon=20, mechanism="dense", randomness=SeededBits(1)
    )
    assert one.lower <= MEDIAN <= one.upper and isinstance(one.estimate, float)  # type: ignore[operator]


def test_the_resolution_is_kept() -> None:
    """Bins are as many as asked for, rounded up to a power of the branching."""
    frame = pl.DataFrame({"price": PRICES})
    assert [ask(frame, value="price", resolution=bins).grid.bins for bins in (4, 100, 4096)] == [4, 256, 4096]
    whole = pl.DataFrame({"price": WHOLE})
    assert [ask(whole, value="price", resolution=bins).grid.bins for bins in (4, 1000)] == [4, 51]


@pytest.mark.parametrize(
    ("source", "kind"),
    [
        (pl.DataFrame({"price": WHOLE}), "integer"),
        (pl.DataFrame({"price": PRICES}).lazy(), "number"),
        (pd.DataFrame({"price": WHOLE}), "integer"),
        (pd.DataFrame({"price": PRICES}), "number"),
        (pd.DataFrame({"price": pd.Series(WHOLE, dtype=object)}), "number"),
        (pa.table({"price": WHOLE}), "integer"),
        (duckdb.sql("SELECT (range / 100)::DECIMAL(9, 2) AS price FROM range(1000)"), "number"),
    ],
    ids=lambda given: given if isinstance(given, str) else type(given).__name__,
)
def test_tables(source: Any, kind: str) -> None:
    """Tables declare their types; columns of Python objects declare none."""
    assert ask(source, value="price").grid.kind == kind


def test_arrays_and_python_values() -> None:
    """Arrays declare a type; values of a list or a mapping may not decide one, so decimals are expected."""
    assert ask(np.array(WHOLE)).grid.kind == ask(pa.array(WHOLE)).grid.kind == "integer"
    assert ask(pl.Series(WHOLE)).grid.kind == ask(pd.Series(WHOLE)).grid.kind == "integer"
    assert ask(np.array(PRICES)).grid.kind == "number"
    undeclared = [WHOLE, PRICES, {1: 300, 2: 500}, {1.5: 300}, iter(WHOLE), np.array(WHOLE, dtype=object), [], {}]
    assert {ask(source).grid.kind for source in undeclared} == {"number"}
    assert len({ask(source).grid for source in undeclared if not isinstance(source, type(iter([])))}) == 1


@pytest.mark.parametrize("ending", ["csv", "jsonl"])
def test_text_files_declare_nothing(ending: str, tmp_path: Path) -> None:
    """Whole numbers in CSV and JSON lines are read as decimals, as one row with a decimal must change nothing."""
    grids = []
    columns: list[list[Any]] = [WHOLE, [*WHOLE, 2.5]]
    for number, values in enumerate(columns):
        place = tmp_path / f"{number}.{ending}"
        lines = [f'{{"price": {value}}}' if ending == "jsonl" else str(value) for value in values]
        place.write_text("\n".join(lines if ending == "jsonl" else ["price", *lines]) + "\n")
        grids.append(ask(place, value="price").grid)
    assert grids[0] == grids[1] and grids[0].kind == "number"


def test_ends_that_no_whole_number_is() -> None:
    """Ends of a column of integers are rounded inwards; what is left of the interval must hold two numbers."""
    frame = pl.DataFrame({"price": WHOLE})
    grid = ask(frame, value="price", low=0.5, high=9.5).grid
    assert (grid.kind, grid.start, grid.end) == ("integer", 1, 9)
    with pytest.raises(InvalidParameter, match=r"low must be below high, with whole numbers .* got 0\.2 and 1\.5"):
        ask(frame, value="price", low=0.2, high=1.5)


def test_a_wrong_type_is_refused_before_anything_is_spent(tmp_path: Path) -> None:
    """A column that does not fit the interval costs nothing."""
    ledger = dptally.Ledger(tmp_path / "budget.db", epsilon=1, delta="1e-6")
    with pytest.raises(InvalidSource, match="column 'price' must hold numbers for this interval"):
        ask(pl.DataFrame({"price": [True, False]}), value="price", ledger=ledger)
    assert not ledger.history()
