"""Polars counts what DuckDB counts, and engines refuse what they cannot do."""

from __future__ import annotations

import datetime as dt
import decimal
import struct
import sys
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dptally
from dptally.errors import InvalidParameter, MissingDependency
from dptally.randomness import SeededBits
from dptally.sources import open_rows
from dptally.summaries import count_keys

QUIET = float("nan")
LOUD = struct.unpack("<d", struct.pack("<Q", 0xFFF0000000000001))[0]  # another NaN
ZONE = dt.timezone(dt.timedelta(hours=2))
SECONDS = [dt.datetime(2024, 1, 1, 0, 0, second) for second in range(3)]
NASTY: dict[str, tuple[pa.DataType, list[Any]]] = {
    "text": (pa.string(), ["", "a", "A", "é", "e\u0301", "\U0001f600", "x" * 13, "\x00", " a", "a "]),
    "large text": (pa.large_string(), ["", "a", "ab"]),
    "labels": (pa.dictionary(pa.int32(), pa.string()), ["a", "b", "é"]),
    "whole": (pa.int64(), [0, 1, -1, 2**63 - 1, -(2**63)]),
    "small": (pa.int8(), [-128, 127, 0]),
    "natural": (pa.uint64(), [0, 1, 2**64 - 1]),
    "float": (pa.float64(), [0.0, -0.0, QUIET, LOUD, 1.5, float("inf"), 5e-324]),
    "single": (pa.float32(), [0.0, -0.0, QUIET, 1.5]),
    "truth": (pa.bool_(), [True, False]),
    "bytes": (pa.binary(), [b"", b"\x00", b"\xff\xfe"]),
    "day": (pa.date32(), [dt.date(1, 1, 1), dt.date(1969, 12, 31), dt.date(9999, 12, 31)]),
    "moment": (pa.timestamp("us"), SECONDS),
    "coarse moment": (pa.timestamp("ms"), SECONDS),
    "fine moment": (pa.timestamp("ns"), SECONDS),
    "zoned": (pa.timestamp("us", "Europe/Berlin"), [SECONDS[0].replace(tzinfo=zone) for zone in (dt.UTC, ZONE)]),
    "decimal": (pa.decimal128(10, 2), [decimal.Decimal("1.50"), decimal.Decimal("-0.00")]),
}


def counted(source: Any, engine: str, **request: Any) -> dict[Any, int]:
    """Counts by the bytes of the keys, with their Arrow types."""
    rows = open_rows(source, engine=engine, nulls="keep", **{"key": "k", "unit": None, **request})
    found: dict[Any, int] = {}
    with count_keys(rows, max_keys_per_unit=2, bits=SeededBits(1)) as frequencies:
        for keys, counts in frequencies.batches():
            for row, count in zip(keys.to_pylist(), counts.tolist(), strict=True):
                values = tuple(struct.pack("<d", v) if isinstance(v, float) else v for v in row.values())
                assert (values, *keys.schema.types) not in found
                found[(values, *keys.schema.types)] = count
    return found


@pytest.mark.parametrize("kind", NASTY)
def test_same_counts(kind: str, tmp_path: Path) -> None:
    """Keys of every type, nasty ones among them, have the same canonical form, type and count from both engines."""
    arrow_type, values = NASTY[kind]
    column = [None, *values, *values[::2], None]
    units = [place // 4 for place in range(len(column))]
    table = pa.table({"k": pa.array(column, type=arrow_type), "u": units})
    pq.write_table(table, tmp_path / "a.parquet")
    for source in (table, tmp_path / "a.parquet", pl.from_arrow(table)):
        expected = counted(source, "duckdb")
        assert sum(expected.values()) == len(column)
        assert counted(source, "polars") == expected
    assert counted(table, "polars", unit="u") == counted(table, "duckdb", unit="u")


ROW = st.tuples(st.none() | st.text(max_size=2), st.sampled_from([None, 0.0, -0.0, QUIET, LOUD, 1.0]))


@settings(max_examples=10, deadline=None, derandomize=True)
@given(rows=st.lists(ROW, min_size=1, max_size=40))
def test_same_counts_of_several_columns(rows: list[tuple[str | None, float | None]]) -> None:
    """Any rows of text and floats are counted alike by pairs."""
    text, number = zip(*rows, strict=True)
    frame = pl.DataFrame({"k": text, "f": number}, schema={"k": pl.Categorical, "f": pl.Float64})
    assert counted(frame, "polars", key=["k", "f"]) == counted(frame, "duckdb", key=["k", "f"])


def test_pandas_and_counts() -> None:
    """Tables of pandas, and columns of counts, are read alike."""
    frame = pa.table({"k": ["a", None, "a"], "n": [1, 2, 3]}).to_pandas()
    assert counted(frame, "polars") == counted(frame, "duckdb")
    assert counted(frame, "polars", count="n") == counted(frame, "duckdb", count="n")


def test_same_release(tmp_path: Path) -> None:
    """The same seed gives the same release from every engine, with and without units."""
    random = np.random.default_rng(5)
    frame = pl.DataFrame({"k": random.zipf(1.3, 5000).clip(1, 300).astype(str), "u": random.integers(0, 800, 5000)})
    frame.write_parquet(tmp_path / "a.parquet")
    for unit, bound in ((None, 1), ("u", 2)):
        tables = [
            dptally.publish(
                source, key="k", unit=unit, max_keys_per_unit=bound, epsilon=1, delta="1e-6", engine=engine,
                randomness=SeededBits(2),
            ).table()
            for source in (frame, tmp_path / "a.parquet")
            for engine in ("auto", "duckdb", "polars")
        ]  # fmt: skip
        assert len(tables[0]) > 5 and all(table.equals(tables[0]) for table in tables)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"engine": "pandas"}, "engine must be one of 'auto', 'polars', 'duckdb', 'spark', got 'pandas'"),
        (
            {"engine": "polars", "memory_limit": "1GB"},
            "memory_limit needs the engine 'duckdb': Polars keeps to no limit",
        ),
        ({"engine": "spark", "memory_limit": "1GB"}, "memory_limit needs the engine 'duckdb': Spark"),
        ({"engine": "spark"}, "the engine 'spark' reads files and Spark DataFrames"),
    ],
)
def test_refused_requests(options: dict[str, Any], message: str) -> None:
    """What an engine cannot do is refused before anything is read."""
    with pytest.raises(InvalidParameter, match=message):
        dptally.publish(pl.DataFrame({"k": ["a"]}), key="k", epsilon=1, delta="1e-6", **options)


def test_spark_reads_no_databases() -> None:
    """A database is refused for Spark without its URL being shown or passed on."""
    with pytest.raises(InvalidParameter, match="this source is neither") as caught:
        dptally.publish("sqlite:///secret.db", table="t", key="k", epsilon=1, delta="1e-6", engine="spark")
    assert "secret" not in str(caught.value)


def test_sources_polars_does_not_read(tmp_path: Path) -> None:
    """Text files follow rules of their own, streams and relations are DuckDB's, and types must be the same."""
    (tmp_path / "a.csv").write_text("k\n007\n")
    table = pa.table({"k": ["a"]})
    connection = duckdb.connect()
    connection.register("t", table)
    times = pa.table({"k": pa.array([dt.time(1)], pa.time64("us"))})
    pq.write_table(times, tmp_path / "times.parquet")
    for source, message in (
        (tmp_path / "a.csv", "reads CSV and JSON by rules of its own"),
        (table.to_reader(), "reads Parquet files and tables"),
        (connection.sql("SELECT * FROM t"), "reads Parquet files and tables"),
        (["a", "b"], "does not read keys and counts of Python"),
        ({"a": 1}, "does not read keys and counts of Python"),
        (tmp_path / "times.parquet", "reads column 'k' in another type"),
    ):
        with pytest.raises(InvalidParameter, match=message):
            open_rows(source, key="k", unit=None, engine="polars")


def test_spark_is_an_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without Spark, files cannot be read by it, and the sentence says what to install."""
    pl.DataFrame({"k": ["x"]}).write_parquet(tmp_path / "a.parquet")
    for module in ("pyspark", "pyspark.sql", "pyspark.errors"):
        monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(MissingDependency, match=r"Spark is not installed; pip install 'dptally\[spark\]' brings it"):
        dptally.publish(tmp_path / "a.parquet", key="k", epsilon=1, delta="1e-6", engine="spark")
