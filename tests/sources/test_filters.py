"""Filters of rows: each row decides about itself, on every kind of source, and the release records the filter."""

from __future__ import annotations

import datetime
import sqlite3
import sys
from collections.abc import Callable
from io import BytesIO, TextIOWrapper
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pyarrow.dataset as ds
import pytest

import dptally
from dptally.cli import main
from dptally.errors import InvalidParameter, InvalidSource
from dptally.randomness import SeededBits
from dptally.sketches import load_sketch, merge_sketches
from dptally.sources import open_rows
from dptally.sources.filters import FUNCTIONS, read_filter
from dptally.summaries.frequencies import count_keys

ROWS = pl.DataFrame({
    "k": ["a", "a", "a", "b", "b", "c"],
    "u": ["u0", "u1", "u2", "u0", "u1", "u0"],
    "day": ["2026-11-15", "2026-11-16", "junk", "2026-11-15", None, "2026-11-15T23:59:59.999999"],
    "x": [1, 2, 3, 4, 5, 6],
})  # fmt: skip


def counts(source: Any, where: str | None = None, *, unit: str | None = "u", **given: Any) -> dict[str, int]:
    """Exact counts of the rows that a filter leaves."""
    place = {name: given.pop(name) for name in ("table", "query", "format", "types") if name in given}
    rows = open_rows(source, key="k", unit=unit, where=read_filter(where, **given), **place)
    with count_keys(rows, max_keys_per_unit=10, bits=SeededBits(1)) as found:
        return {
            str(key): int(count)
            for keys, numbers in found.batches()
            for key, count in zip(keys.column(0).to_pylist(), numbers, strict=True)
        }


def _sqlite(folder: Path) -> tuple[Any, dict[str, Any]]:
    with sqlite3.connect(folder / "a.db") as connection:
        connection.execute("CREATE TABLE t (k TEXT, u, day, x INTEGER)")
        connection.executemany("INSERT INTO t VALUES (?, ?, ?, ?)", ROWS.rows())
    connection.close()
    return f"sqlite:///{folder / 'a.db'}", {"table": "t"}


def _duckdb(folder: Path) -> tuple[Any, dict[str, Any]]:
    ROWS.write_parquet(folder / "t.parquet")
    with duckdb.connect(folder / "a.duckdb") as connection:
        connection.from_parquet(str(folder / "t.parquet")).create("t")
    return f"duckdb:///{folder / 'a.duckdb'}", {"table": "t"}


def _file(ending: str, write: str) -> Callable[[Path], tuple[Any, dict[str, Any]]]:
    def made(folder: Path) -> tuple[Any, dict[str, Any]]:
        getattr(ROWS.head(3), write)(folder / f"1.{ending}")
        getattr(ROWS.tail(3), write)(folder / f"2.{ending}")
        return str(folder / f"*.{ending}"), {}

    return made


SOURCES: dict[str, Callable[[Path], tuple[Any, dict[str, Any]]]] = {
    "csv": _file("csv", "write_csv"),
    "parquet": _file("parquet", "write_parquet"),
    "jsonl": _file("jsonl", "write_ndjson"),
    "polars": lambda _: (ROWS, {}),
    "lazy": lambda _: (ROWS.lazy(), {}),
    "pandas": lambda _: (ROWS.to_pandas(), {}),
    "objects": lambda _: (ROWS.to_pandas().astype(object), {}),
    "arrow": lambda _: (ROWS.to_arrow(), {}),
    "relation": lambda _: (duckdb.connect().from_arrow(ROWS.to_arrow()), {}),
    "dataset": lambda folder: (ds.dataset(ROWS.to_arrow()), {}),
    "sqlite": _sqlite,
    "duckdb": _duckdb,
}


@pytest.mark.parametrize("name", SOURCES)
def test_every_source_leaves_the_same_rows(name: str, tmp_path: Path) -> None:
    """Conditions on other columns, on the key and on the unit, and intervals, mean the same for every source."""
    source, place = SOURCES[name](tmp_path)
    asked = {"unit": None, **place}
    assert counts(source, **asked) == {"a": 3, "b": 2, "c": 1}
    assert counts(source, "TRY_CAST(day AS DATE) = DATE '2026-11-15'", **asked) == {"a": 1, "b": 1, "c": 1}
    assert counts(source, "CAST(day AS DATE) < DATE '2026-11-16'", **place) == {"a": 1, "b": 1, "c": 1}
    assert counts(source, "u = 'u0' AND k <> 'c'", **place) == {"a": 1, "b": 1}
    assert counts(source, "CAST(x AS INTEGER) BETWEEN 2 AND 5", **place) == {"a": 2, "b": 2}
    interval: dict[str, Any] = {"since": "2026-11-15", "until": datetime.date(2026, 11, 16), "time_column": "day"}
    assert counts(source, **asked, **interval) == {"a": 1, "b": 1, "c": 1}
    assert counts(source, "k <> 'b'", **place, **interval) == {"a": 1, "c": 1}
    assert counts(source, **place, since="2026-11-16", time_column="day") == {"a": 1}


def test_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    """Standard input is filtered as files are, with stated types."""
    monkeypatch.setattr(sys, "stdin", TextIOWrapper(BytesIO(ROWS.write_csv().encode())))
    assert counts("-", "x > 3", types={"x": "int64"}) == {"b": 2, "c": 1}


@pytest.mark.parametrize(
    ("where", "kept"),
    [
        ("CAST(day AS DATE) = DATE '2026-11-15'", {1, 4, 6}),
        ("NOT CAST(day AS DATE) = DATE '2026-11-15'", {2}),
        ("day = DATE '2026-11-15'", {1, 4, 6}),
        ("x * 9223372036854775807 > 0", {1}),
        ("x // (x - 3) > 0", {4, 5, 6}),
        ("CAST(x AS TINYINT) * CAST(100 AS TINYINT) > 0", {1}),
        ("day LIKE '2026%' OR x = 3", {1, 2, 3, 4, 6}),
        ("day IS NULL", {5}),
        ("day IN ('junk', 'other')", {3}),
        ("day NOT IN ('junk')", {1, 2, 4, 6}),
        ("coalesce(day, 'x') = 'x'", {5}),
        ("extract(day FROM CAST(day AS DATE)) = 15", {1, 4, 6}),
        ("lower(k) || u = 'cu0'", {6}),
        ("day ~ '^2026' AND length(k) = 1", {1, 2, 4, 6}),
        ("x > 2.5 IS TRUE", {3, 4, 5, 6}),
        ("x = x OR NULL", {1, 2, 3, 4, 5, 6}),
        ("x = NULL", set()),
        ("\"x\" IS DISTINCT FROM 1 AND -x < -4", {5, 6}),
        ("position('7' IN day) = 0 AND starts_with(u, 'u')", {1, 2, 3, 4, 6}),
    ],
)  # fmt: skip
def test_what_conditions_mean(where: str, kept: set[int]) -> None:
    """An operation that fails on a row is null there, and a condition that is null is not met."""
    frame = ROWS.with_columns(number=pl.col("x").cast(pl.String))
    rows = open_rows(frame, key="number", unit=None, where=read_filter(where))
    with count_keys(rows, max_keys_per_unit=1, bits=SeededBits(1)) as found:
        assert {int(key) for keys, _ in found.batches() for key in keys.column(0).to_pylist()} == kept


@pytest.mark.parametrize("one_more", [False, True])
@pytest.mark.parametrize(
    ("where", "kept"),
    [
        ("x >= 0 OR 1 // y = 1", 1000),
        ("1 // y = 1 OR x >= 0", 1000),
        ("NOT (x < 0 AND 1 // y = 1)", 1000),
        ("x NOT BETWEEN -9 AND -1 OR 1 // y = 1", 1000),
        ("1 // y IS NULL", 500),
        ("CAST('v' || y AS INTEGER) IS NULL", 1000),
        ("coalesce(1 // y, 7) = 7", 500),
    ],
)
def test_no_row_decides_about_another(where: str, kept: int, one_more: bool, tmp_path: Path) -> None:
    """One row more, which changes what a file's statistics say, changes nothing for the other rows."""
    rows = pl.DataFrame({"k": ["a"] * 1000, "x": [1] * 1000, "y": [0] * 500 + [1] * 500})
    if one_more:
        rows = pl.concat([rows, pl.DataFrame({"k": ["other"], "x": [-1], "y": [5]})])
    rows.write_parquet(tmp_path / "rows.parquet")
    assert counts(tmp_path / "rows.parquet", where, unit=None).get("a", 0) == kept
    assert counts(rows, where, unit=None).get("a", 0) == kept


def test_a_value_that_is_no_constant_of_a_long_list_is_no_error() -> None:
    """Text that cannot be cast to the constants after IN does not match, however many constants there are."""
    table = pl.DataFrame({"k": ["a", "a", "b"], "u": ["1", "2", "3"], "code": ["10115", "D-10115", "10117"]})
    for where in ("code IN (10115, 10117)", "code IN (10115, 10117, 10119, 10178, 10179, 10180)"):
        assert counts(table, where) == {"a": 1, "b": 1}
    assert counts(table, "code NOT IN (10115, 1, 2, 3, 4, 5, 6)") == {"b": 1}


def test_times_have_one_reading() -> None:
    """An interval is half-open, in UTC, whatever type a column of times has; what is no time is left out."""
    moments = [
        datetime.datetime(2026, 11, 15, tzinfo=datetime.UTC) + datetime.timedelta(hours=h) for h in (-1, 0, 23, 24)
    ]
    plain = [moment.replace(tzinfo=None) for moment in moments]
    zone = datetime.timezone(datetime.timedelta(hours=5))
    columns = {
        "utc": pl.Series(moments),
        "plain": pl.Series(plain),
        "text": pl.Series([moment.astimezone(zone).isoformat() for moment in moments]),
        "date": pl.Series([moment.date() for moment in moments]),
    }
    frame = pl.DataFrame({"k": ["a", "b", "c", "d"], **columns})
    for name in columns:
        kept = counts(frame, unit=None, since="2026-11-15", until="2026-11-16T00:00+00:00", time_column=name)
        assert sorted(kept) == ["b", "c"], name
    with pytest.raises(InvalidParameter, match="must hold dates, timestamps or text, not BIGINT"):
        counts(ROWS, since="2026-11-15", time_column="x")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"since": "2026-11-15"}, "need time_column"),
        ({"time_column": "day"}, "need time_column"),
        ({"since": "2026-11-15", "until": "2026-11-15", "time_column": "day"}, "since must be before until"),
        ({"since": "yesterday", "time_column": "day"}, "since must be a date or a time"),
        ({"since": 3, "time_column": "day"}, "since must be a date or a time"),
        ({"since": "2026-11-15", "time_column": 3}, "time_column must be a column name"),
        ({"where": ""}, "where must be a condition"),
        ({"where": 3}, "where must be a condition"),
        ({"where": "TRUE"}, "where must look at a column"),
        ({"where": "day = DATE '2026-02-30'"}, "where has a constant that is no DATE"),
        ({"where": "nope = 1"}, "column 'nope' is not in the source"),
        ({"where": "year(day) = 2026"}, "where does not fit the types of its columns"),
        ({"where": "regexp_matches(day, '[')"}, "where does not fit the types of its columns"),
    ],
)
def test_bad_filters_are_refused(given: dict[str, Any], said: str) -> None:
    """What is no filter gets one sentence."""
    with pytest.raises(InvalidParameter, match=said):
        counts(ROWS, **given)


def test_nested_columns_are_refused() -> None:
    """A filter looks at plain columns only."""
    with pytest.raises(InvalidSource, match="has the type list"):
        counts(ROWS.with_columns(many=pl.concat_list("k", "u")), "many IS NULL")


def test_functions_are_those_of_one_row() -> None:
    """Every function of the list is a scalar function of DuckDB whose result depends on its arguments alone."""
    found = duckdb.sql(
        "SELECT function_name, function_type, stability FROM duckdb_functions() WHERE schema_name = 'main'"
    ).fetchall()
    syntax = {"cast", "try_cast", "coalesce", "ifnull", "extract", "position"}  # written otherwise once they are parsed
    for name in FUNCTIONS - syntax:
        kinds = {(kind, stability) for each, kind, stability in found if each == name}
        assert kinds, name
        assert all(kind in ("scalar", "macro") and stability in ("CONSISTENT", None) for kind, stability in kinds), name


def test_the_release_says_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The filter is in the guarantee, in the file, in what is shown, and passes verification."""
    rows = pl.DataFrame({"k": ["a"] * 900, "day": ["2026-11-15"] * 600 + ["2026-11-16"] * 300})
    where = "day = DATE '2026-11-15'"
    release = dptally.publish(rows, key="k", epsilon=1, delta="1e-6", where=where)
    release.save(tmp_path / "r.parquet")
    again = dptally.load(tmp_path / "r.parquet")
    assert again.guarantee == release.guarantee
    assert again.guarantee.where == where
    assert f"Only rows with {where!r} were read" in str(again.guarantee)
    again.verify()
    assert main(["verify", str(tmp_path / "r.parquet")]) == 0
    assert f"only rows with {where!r} were read" in capsys.readouterr().out
    assert 550 < release.table().get_column("estimate").item() < 650
    assert "where" not in dptally.publish(rows, key="k", epsilon=1, delta="1e-6").describe()["guarantee"]


def test_other_releases_say_it(tmp_path: Path) -> None:
    """Quantiles, heavy hitters and sketches filter and record as tables do."""
    rows = pl.DataFrame({"k": ["tomato"] * 900, "v": [1] * 500 + [9] * 400, "day": ["2026-11-15"] * 500 + ["x"] * 400})
    asked: dict[str, Any] = {"since": "2026-11-15", "until": "2026-11-16", "time_column": "day"}
    tree = dptally.publish_quantiles(rows, value="v", low=0, high=10, epsilon=5, mechanism="dense", **asked)
    assert tree.quantile(0.9).upper <= 2
    prefixes = dptally.publish_heavy_hitters(rows, key="k", epsilon=1, delta="1e-6", levels=[6], **asked)
    stated = {tree.guarantee.where, prefixes.guarantee.where}
    rows.write_csv(tmp_path / "rows.csv")
    sketches = [dptally.MisraGriesSketch(10) for _ in range(3)]
    for sketch, where in zip(sketches, ("v = 1", "v = 9", None), strict=True):
        sketch.update_file(tmp_path / "rows.csv", key="k", where=where)
    assert [sketch.total for sketch in sketches] == [500, 400, 900]
    sketches[0].save(tmp_path / "s.sketch")
    saved = load_sketch(tmp_path / "s.sketch")
    stated.add(saved.publish(1, "1e-6").guarantee.where)
    interval = "\"day\" >= TIMESTAMP '2026-11-15 00:00:00' AND \"day\" < TIMESTAMP '2026-11-16 00:00:00'"
    assert stated == {interval, "v = 1"}
    both = merge_sketches([sketches[0], sketches[1]])
    assert both.names.where == "(v = 1) OR (v = 9)"
    assert merge_sketches([both, sketches[2]]).names.where is None


def test_refusals_where_no_filter_goes() -> None:
    """Keys without columns and the engine of Polars take no filter, and say what to do."""
    with pytest.raises(InvalidParameter, match="this source holds keys only"):
        dptally.publish(["a", "b"], epsilon=1, delta="1e-6", where="key = 'a'")
    with pytest.raises(InvalidParameter, match="leave engine at 'auto', or filter first"):
        dptally.publish(ROWS, key="k", epsilon=1, delta="1e-6", where="x = 1", engine="polars")
    with pytest.raises(InvalidParameter, match="filter the Spark DataFrame first"):
        dptally.publish("a.parquet", key="k", epsilon=1, delta="1e-6", where="x = 1", engine="spark")
