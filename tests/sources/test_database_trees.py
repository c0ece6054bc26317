"""Quantiles, ranges and heavy hitters of databases: the same trees as from files, from one reading of the rows."""

from __future__ import annotations

import datetime
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dptally
from dptally.errors import DptallyError
from dptally.heavy_hitters import publish_heavy_hitters
from dptally.randomness import SeededBits
from dptally.sources import sqlite_files
from dptally.sources.adbc_streams import Stream
from tests.sources.conftest import Server

Publish = Callable[..., object]
PRIVACY: dict[str, Any] = {"epsilon": 1, "delta": "1e-6"}


def quantiles(source: object, **options: Any) -> object:
    """All counts of a tree over an interval."""
    return dptally.publish_quantiles(source, value="x", low=0, high=99, **PRIVACY, **options).table().rows()


def one_quantile(source: object, **options: Any) -> object:
    """What a search for the median finds."""
    return dptally.find_quantile(source, "0.5", value="x", low=0, high=99, **PRIVACY, **options)


def prefixes(source: object, **options: Any) -> object:
    """All rows of a tree of prefixes."""
    return publish_heavy_hitters(source, key="word", levels=[1, 3, 6], **PRIVACY, **options).table().rows()


KINDS: dict[str, Publish] = {"quantiles": quantiles, "one quantile": one_quantile, "prefixes": prefixes}


def events() -> pa.Table:
    """6,000 rows of 900 units: numbers and words, some missing, and some rows without a unit."""
    random = np.random.default_rng(5)
    words = ["apple", "apricot", "Apple", "pear", "plum", "é", None]
    return pa.table(
        {
            "x": [None if number % 31 == 7 else number for number in random.normal(50, 20, 6000).round(1).tolist()],
            "word": [words[place] for place in random.zipf(1.6, 6000).clip(1, 7) - 1],
            "u": [None if unit == 5 else unit for unit in random.integers(0, 900, 6000).tolist()],
        }
    )


@pytest.fixture
def databases(tmp_path: Path) -> dict[str, Any]:
    """The same rows as a Parquet file, a SQLite file and a DuckDB file."""
    table = events()
    pq.write_table(table, tmp_path / "events.parquet")
    with sqlite3.connect(tmp_path / "lite.db") as connection:
        connection.execute("CREATE TABLE events (x REAL, word TEXT COLLATE NOCASE, u INTEGER)")
        rows = zip(*(table[name].to_pylist() for name in ("x", "word", "u")), strict=True)
        connection.executemany("INSERT INTO events VALUES (?, ?, ?)", rows)
    connection.close()
    with duckdb.connect(tmp_path / "duck.db") as made:
        made.register("source", table)
        made.execute("CREATE TABLE events (x DOUBLE, word VARCHAR COLLATE NOCASE, u BIGINT)")
        made.execute("INSERT INTO events SELECT * FROM source ORDER BY random()")
    return {
        "parquet": tmp_path / "events.parquet",
        "sqlite": f"sqlite:///{tmp_path / 'lite.db'}",
        "duckdb": f"duckdb:///{tmp_path / 'duck.db'}",
    }


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("unit", [None, "u"])
def test_same_tree_as_from_a_file(kind: str, unit: str | None, databases: dict[str, Any]) -> None:
    """The same rows give the same seeded tree from Parquet, SQLite and DuckDB, whatever their order and collation."""
    publish = KINDS[kind]
    expected = publish(databases["parquet"], unit=unit, randomness=SeededBits(9))
    assert expected
    for name in ("sqlite", "duckdb"):
        for place in ({"table": "events"}, {"query": "SELECT u, word, x FROM events; -- all"}):
            assert publish(databases[name], unit=unit, **place, randomness=SeededBits(9)) == expected


@pytest.mark.parametrize("unit", [None, "u"])
def test_same_tree_from_a_server(unit: str | None, databases: dict[str, Any], postgresql: Server) -> None:
    """So they do from PostgreSQL."""
    with postgresql.connect() as connection, connection.cursor() as cursor:
        cursor.adbc_ingest("trees", events(), mode="replace")
    for publish in KINDS.values():
        expected = publish(databases["parquet"], unit=unit, randomness=SeededBits(9))
        assert publish(postgresql.url, table="trees", unit=unit, randomness=SeededBits(9)) == expected


def test_infinite_dates_of_a_server(postgresql: Server) -> None:
    """They are left out, and are not taken for the distant past."""
    columns = "SELECT v::date AS day, v::timestamp AS moment, v::timestamptz AS zoned"
    query = f"{columns} FROM unnest(ARRAY['2024-01-20', 'infinity', '-infinity']) AS v, generate_series(1, 1000)"
    for column in ("day", "moment", "zoned"):
        tree = dptally.publish_quantiles(
            postgresql.url, query=query, value=column, low=datetime.date(2024, 1, 1), high=datetime.date(2024, 1, 31),
            epsilon=4, mechanism="dense",
        )  # fmt: skip
        assert tree.quantile("0.05").estimate == tree.quantile("0.95").estimate == datetime.date(2024, 1, 20)
        release = dptally.publish(postgresql.url, query=query, key=column, **PRIVACY)
        assert len(release) == 1


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("unit", [None, "u"])
def test_rows_are_read_once(
    kind: str, unit: str | None, databases: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another reading may find other rows, so that there is none, with a memory limit either."""
    readings = []

    class Counted(Stream):
        def __init__(self, *arguments: Any) -> None:
            readings.append(self)
            super().__init__(*arguments)

    monkeypatch.setattr(sqlite_files, "Stream", Counted)
    KINDS[kind](databases["sqlite"], table="events", unit=unit, memory_limit="200MB")
    assert len(readings) == 1


@pytest.mark.parametrize("kind", KINDS)
def test_refusals_spend_nothing(kind: str, databases: dict[str, Any], tmp_path: Path) -> None:
    """What `publish` refuses is refused in the same words, and the ledger has its budget back."""
    ledger = dptally.Ledger(tmp_path / "budget.db", epsilon=1, delta="1e-6")
    for source, place, message in (
        ("sqlite", {}, "a database needs either table"),
        ("duckdb", {"table": "events", "query": "SELECT 1"}, "a database needs either table"),
        ("duckdb", {"table": "nothing"}, "there is no table 'nothing' in the database"),
        ("duckdb", {"query": "SELECT 1 AS other"}, "is not in the source; it has: other"),
        ("sqlite", {"table": "events", "format": "csv"}, "format is for files; this source is a database"),
        ("parquet", {"table": "events"}, "table is for databases; the source must be a URL"),
    ):
        with pytest.raises(DptallyError, match=message):
            KINDS[kind](databases[source], ledger=ledger, **place)
    assert ledger.remaining() == (ledger.epsilon, ledger.delta)
    KINDS[kind](databases["duckdb"], table="events", ledger=ledger)
    assert ledger.remaining() == (0, 0)


def test_a_database_needs_the_name_of_a_column(databases: dict[str, Any]) -> None:
    """Without one, that is said, and not that the URL is none."""
    with pytest.raises(DptallyError, match="key must name the key column of a table"):
        publish_heavy_hitters(databases["sqlite"], table="events", **PRIVACY)
