"""Types that the caller states for columns that declare none."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

import dptally
from dptally.errors import InvalidParameter
from dptally.sources import open_rows
from tests.sources.counting import counts_of

PRICES = {Decimal("1.50"): 3, Decimal("0.50"): 1}
NINE = dt.datetime(2024, 1, 31, 9)


@pytest.mark.parametrize(
    ("stated", "arrow", "written", "expected"),
    [
        ("text", pa.large_string(), "007 7 x", {"007": 1, "7": 1, "x": 1}),
        ("int64", pa.int64(), "007 7 +7 7.0 7. -0 1.5 1e3 x 9223372036854775808 0x10", {7: 5, 0: 1}),
        ("float64", pa.float64(), "1.5 15e-1 -0.0 0 nan inf x", {1.5: 2, 0.0: 2}),
        ("decimal(4,2)", pa.decimal128(4, 2), "1.5 1.50 01.500 .5 0.125 123.4 x", PRICES),
        ("decimal(3,0)", pa.decimal128(3, 0), "5 5.0 5.5 1000", {Decimal(5): 2}),
        ("bool", pa.bool_(), "true True FALSE 1 yes", {True: 2, False: 1}),
        ("date", pa.date32(), "2024-01-31 2024-02-30 2024-1-31 infinity x", {dt.date(2024, 1, 31): 1}),
        ("time", pa.time64("us"), "09:00 09:00:00.000 25:00 9", {dt.time(9): 2}),
        ("timestamp", pa.timestamp("us"), "2024-01-31T09:00 2024-01-31T09:00:00.0 2024-01-31T09:00:00Z x", {NINE: 2}),
        (
            "timestamptz",
            pa.timestamp("us", "UTC"),
            "2024-01-31T09:00Z 2024-01-31T10:00:00+01:00 2024-01-31T08:00:00-0100 2024-01-31T09:00 now",
            {NINE.replace(tzinfo=dt.UTC): 4},
        ),
        ("bytes", pa.large_binary(), "00ff 00FF 0 xy", {b"\x00\xff": 2}),
    ],
)  # fmt: skip
def test_text_is_read_as_a_type(
    stated: str, arrow: pa.DataType, written: str, expected: dict[Any, int], tmp_path: Path
) -> None:
    """What is written as a value of the type is one, and everything else is null; the type is told beforehand."""
    values = written.split(" ")
    (tmp_path / "a.csv").write_text("k\n" + "".join(f"{value}\n" for value in values))
    frame = pd.DataFrame({"k": pd.Series(values, dtype=object)})
    for source in (tmp_path / "a.csv", frame):
        assert counts_of(source, key="k", types={"k": stated}) == expected
        rest = len(values) - sum(expected.values())
        kept = counts_of(source, key="k", types={"k": stated.upper()}, nulls="keep")
        assert kept == ({**expected, None: rest} if rest else expected)
        assert open_rows(source, key="k", unit=None, types={"k": stated}).key_schema == pa.schema([("k", arrow)])
    assert counts_of(values, types={"key": stated}) == expected


@pytest.mark.parametrize(
    ("types", "message"),
    [
        ({"x": "int64"}, "types names 'x', which is neither a key nor the unit"),
        ({"n": "int64"}, "types names 'n', which is neither a key nor the unit"),
        ({"k": "integer"}, "the type of column 'k' must be one of text, int64, float64, bool, date, time, timestamp"),
        ({"k": 7}, "the type of column 'k' must be one of text"),
        ({"k": "decimal(39,2)"}, "must be one of"),
        ({"k": "decimal(2,3)"}, "must be one of"),
        (["k"], "types must be a mapping of columns to types, got list"),
    ],
)
def test_bad_types(types: Any, message: str, tmp_path: Path) -> None:
    """What is no type, or no column that has one, is refused before anything is read."""
    (tmp_path / "a.csv").write_text("k,n\n")
    with pytest.raises(InvalidParameter, match=message):
        open_rows(tmp_path / "a.csv", key="k", unit=None, count="n", types=types)


def test_declared_columns_have_their_type() -> None:
    """A type that is stated for a declared column is refused, unless it is the same; rows or no rows."""
    for rows in (1, 0):
        table = pa.table({"k": pa.array([7], pa.int64()), "u": ["a"]}).slice(0, rows)
        assert sum(counts_of(table, key="k", unit="u", types={"k": "int64", "u": "text"}).values()) == rows
        for types in ({"k": "text"}, {"u": "int64"}):
            with pytest.raises(InvalidParameter, match="is declared with a type of its own; types is for"):
                open_rows(table, key="k", unit="u", types=types)


def test_every_flow_takes_types(tmp_path: Path) -> None:
    """Publishing, quantiles and heavy hitters: units that are written differently are one where they are numbers."""
    from dptally.heavy_hitters import publish_heavy_hitters

    (tmp_path / "a.csv").write_text("k,u\n" + "".join(f"{i % 5},{i:04}\n{i % 5},{i}\n" for i in range(400)))
    options: dict[str, Any] = {"unit": "u", "types": {"u": "int64"}, "epsilon": 8, "delta": "1e-3"}
    release = dptally.publish(tmp_path / "a.csv", key="k", mechanism="stability", **options)
    assert sum(release.table()["value"]) < 500
    tree = publish_heavy_hitters(tmp_path / "a.csv", key="k", levels=1, **options)
    assert 0 < sum(tree.frequencies().values()) < 500
    del options["delta"]
    options["types"]["k"] = "int64"
    quantiles = dptally.publish_quantiles(tmp_path / "a.csv", value="k", low=0, high=4, mechanism="dense", **options)
    assert quantiles.quantile(0.5).estimate == 2
