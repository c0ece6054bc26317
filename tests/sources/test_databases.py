"""SQLite and DuckDB files, URLs, table names and queries: the same counts as from other files, or a clear refusal."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dptally
from dptally.errors import DptallyError, InvalidParameter, InvalidSource, MissingDependency
from dptally.randomness import SeededBits
from dptally.sources import open_rows
from dptally.sources.databases import file_of_url
from dptally.sources.selection import check_only_one_statement, table_parts
from tests.sources.counting import counts_of

MARKER = "SECRETMARKER"


def make_sqlite(path: Path, *statements: str) -> str:
    """A SQLite file, and its URL."""
    connection = sqlite3.connect(path)
    for statement in statements:
        connection.execute(statement)
    connection.commit()
    connection.close()
    return f"sqlite:///{path}"


def make_duckdb(path: Path, *statements: str) -> str:
    """A DuckDB file, and its URL."""
    with duckdb.connect(path) as connection:
        for statement in statements:
            connection.execute(statement)
    return f"duckdb:///{path}"


MAKERS = {"sqlite": make_sqlite, "duckdb": make_duckdb}
Maker = Callable[..., str]


@pytest.mark.parametrize(("unit", "bound", "nulls"), [(None, 1, "drop"), ("u", 2, "keep")])
def test_same_release_as_from_a_file(tmp_path: Path, unit: str | None, bound: int, nulls: Any) -> None:
    """The same rows give the same seeded release from Parquet, SQLite and DuckDB, whatever the collation."""
    random = np.random.default_rng(3)
    keys = [None if i % 50 == 7 else f"é {'Aa'[i % 2]}{i}" for i in random.zipf(1.4, 5000).clip(1, 200)]
    table = pa.table({"k": keys, "u": random.integers(0, 900, 5000)})
    pq.write_table(table, tmp_path / "events.parquet")
    lite = make_sqlite(tmp_path / "lite.db", "CREATE TABLE events (u INTEGER, k TEXT COLLATE NOCASE)")
    with sqlite3.connect(tmp_path / "lite.db") as connection:
        connection.executemany("INSERT INTO events VALUES (?, ?)", zip(table["u"].to_pylist(), keys, strict=True))
    connection.close()
    duck = f"duckdb:///{tmp_path / 'duck.db'}"
    with duckdb.connect(tmp_path / "duck.db") as made:
        made.register("source", table)
        made.execute("CREATE TABLE events (k VARCHAR COLLATE NOCASE, u BIGINT)")
        made.execute("INSERT INTO events SELECT k, u FROM source")
    request: dict[str, Any] = {"key": "k", "unit": unit, "max_keys_per_unit": bound, "nulls": nulls}
    request |= {"epsilon": 1, "delta": "1e-6"}
    expected = dptally.publish(tmp_path / "events.parquet", **request, randomness=SeededBits(9))
    assert isinstance(expected, dptally.TableRelease)
    for url in (lite, duck):
        places: list[dict[str, Any]] = [{"table": "events"}, {"query": "SELECT u, k FROM events; -- all"}]
        for place in places:
            release = dptally.publish(url, **place, **request, randomness=SeededBits(9))
            assert isinstance(release, dptally.TableRelease)
            assert len(release) > 10 and release.table().equals(expected.table())


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_counts_and_several_keys(make: Maker, tmp_path: Path) -> None:
    """Aggregated tables, several keys, nulls, and names with anything in them."""
    url = make(
        tmp_path / "a.db",
        'CREATE TABLE "odd; ""name" ("K;--" TEXT, j INTEGER, n INTEGER)',
        """INSERT INTO "odd; ""name" VALUES ('x', 1, 5), ('x', 2, 3), (NULL, 1, 2), ('y', NULL, 0)""",
    )
    place: dict[str, Any] = {"table": '"odd; ""name"'}
    assert counts_of(url, key="K;--", **place) == {"x": 2, "y": 1}
    assert counts_of(url, key="K;--", count="n", nulls="keep", **place) == {"x": 8, None: 2}
    assert counts_of(url, key=["K;--", "j"], nulls="keep", **place) == {
        ("x", 1): 1, ("x", 2): 1, (None, 1): 1, ("y", None): 1
    }  # fmt: skip


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
@pytest.mark.parametrize(
    ("place", "message"),
    [
        ({}, "needs either table, the name of one, or query"),
        ({"table": "t", "query": "SELECT 1"}, "needs either table, the name of one, or query"),
        ({"table": " "}, "table must be text that is not empty"),
        ({"table": "a.b.c"}, "table must be a name such as events"),
        ({"table": "nowhere"}, "there is no table 'nowhere' in the database"),
        ({"table": "nowhere.t"}, "there is no table 'nowhere.t' in the database"),
        ({"table": "t", "key": "x"}, "column 'x' is not in the source; it has: k"),
        ({"query": "SELECT k FROM t; DROP TABLE t"}, "query must be one statement"),
        ({"query": "SELECT k FROM t) UNION (SELECT 1"}, "the query|query"),
        ({"query": "SELEC"}, "the query|query"),
        ({"query": "SELECT nothing FROM t"}, "query"),
        ({"query": "DELETE FROM t RETURNING k"}, "query"),
        ({"table": "t", "format": "csv"}, "format is for files; this source is a database"),
        ({"table": "t", "engine": "polars"}, "the engine 'polars' does not read databases"),
    ],
)
def test_refusals(make: Maker, place: dict[str, Any], message: str, tmp_path: Path) -> None:
    """What cannot be read is refused in one sentence, and the file stays as it was."""
    url = make(tmp_path / "a.db", "CREATE TABLE t (k TEXT)", f"INSERT INTO t VALUES ('{MARKER}')")  # noqa: S608
    before = (tmp_path / "a.db").read_bytes()
    with pytest.raises(DptallyError, match=message) as caught:
        counts_of(url, **{"key": "k", **place})
    assert MARKER not in str(caught.value) and caught.value.__cause__ is None
    assert (tmp_path / "a.db").read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["a.db"]


@pytest.mark.parametrize("kind", MAKERS)
def test_files_that_are_none(kind: str, tmp_path: Path) -> None:
    """Missing files, directories and files of other kinds are named."""
    (tmp_path / "other").write_text("something else entirely, and long enough to be looked at")
    for name, message in (
        ("missing.db", "there is no file"),
        ("", "is not a file"),
        ("other", "is not a (SQLite|DuckDB) database"),
    ):
        with pytest.raises(InvalidSource, match=message):
            counts_of(f"{kind}:///{tmp_path / name}", table="t", key="k")
    for url in (f"{kind}://", f"{kind}:///", f"{kind}:///:memory:"):
        with pytest.raises(InvalidParameter, match="must name a file"):
            counts_of(url, table="t", key="k")


def test_a_locked_sqlite_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file under an exclusive lock is waited for a while, and no longer."""
    from dptally.sources import sqlite_files

    monkeypatch.setattr(sqlite_files, "_BUSY_MILLISECONDS", 100)
    url = make_sqlite(tmp_path / "a.db", "CREATE TABLE t (k TEXT)")
    program = (
        "import sqlite3, sys; c = sqlite3.connect(sys.argv[1], isolation_level=None); "
        "c.execute('BEGIN EXCLUSIVE'); print('locked', flush=True); sys.stdin.read()"
    )
    command = [sys.executable, "-c", program, str(tmp_path / "a.db")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as writer:
        assert writer.stdout is not None and writer.stdout.readline() == b"locked\n"
        with pytest.raises(InvalidSource, match="is locked by another connection"):
            counts_of(url, table="t", key="k")
        writer.communicate()
    assert counts_of(url, table="t", key="k") == {}


def test_a_duckdb_file_in_use(tmp_path: Path) -> None:
    """A file that is open for writing is refused with the reason, and readable afterwards."""
    url = make_duckdb(tmp_path / "a.db", "CREATE TABLE t (k TEXT)", "INSERT INTO t VALUES ('a')")
    with (
        duckdb.connect(tmp_path / "a.db"),
        pytest.raises(InvalidSource, match="another connection may be writing to it"),
    ):
        counts_of(url, table="t", key="k")
    assert counts_of(url, table="t", key="k") == {"a": 1}


def test_a_duckdb_query_reads_nothing_else(tmp_path: Path) -> None:
    """A query cannot read files beside the database, nor can a view of the database."""
    (tmp_path / "other.csv").write_text("k\nx\n")
    read = f"SELECT k FROM read_csv('{tmp_path / 'other.csv'}')"  # noqa: S608
    url = make_duckdb(tmp_path / "a.db", "CREATE SCHEMA s", f"CREATE VIEW s.v AS {read}")
    with pytest.raises(InvalidSource, match="it may read the tables of this file only"):
        counts_of(url, query=read, key="k")
    with pytest.raises(InvalidSource, match=r"there is no table 's\.v'"):
        counts_of(url, table="s.v", key="k")


def test_types_of_duckdb(tmp_path: Path) -> None:
    """Enumerations become text, -0 and 0 are one key, and so are moments in two zones."""
    url = make_duckdb(
        tmp_path / "a.db",
        "CREATE TABLE t (e ENUM ('x', 'y'), f DOUBLE, z TIMESTAMPTZ)",
        "INSERT INTO t VALUES ('x', 0.0, '2024-01-01 00:00:00+00'), ('x', -0.0, '2024-01-01 01:00:00+01')",
    )
    assert counts_of(url, table="t", key="e") == {"x": 2}
    assert counts_of(url, table="t", key="f") == {0.0: 2}
    assert list(counts_of(url, table="t", key="z").values()) == [2]


@pytest.mark.parametrize(
    ("declared", "values", "expected"),
    [
        ("INTEGER", "(1), (1), (NULL), (9223372036854775807)", {1: 2, 2**63 - 1: 1}),
        ("TEXT", "('é'), ('007'), ('')", {"é": 1, "007": 1, "": 1}),
        ("VARCHAR(3) COLLATE NOCASE", "('a'), ('A'), ('a')", {"a": 2, "A": 1}),
        ("CHAR(3) COLLATE RTRIM", "('a'), ('a ')", {"a": 1, "a ": 1}),
        ("REAL", "(1), (-0.0), (0.0)", {1.0: 1, 0.0: 2}),
        ("BLOB", "(x'00ff'), (x'00FF')", {"00ff": 2}),
        ("DATE", "('2024-01-01'), (NULL)", {"2024-01-01": 1}),
        ("", "(5), (5.0), ('5'), (2.5)", {"5": 3, "2.5": 1}),
        ("DECIMAL(10, 2)", "(1.5), (1.5), (NULL), (1e300)", {"1.5": 2, "1e+300": 1}),
        ("INTEGER", f"(1), ('{MARKER}'), (1.5)", {1: 1}),
        ("TEXT", f"('a'), (CAST('{MARKER}' AS BLOB))", {"a": 1}),
        ("NUMERIC", "(1), (1.5), ('x')", {"1": 1, "1.5": 1, "x": 1}),
        ("DATE", "(NULL)", {}),
    ],
)
def test_types_of_sqlite(declared: str, values: str, expected: dict[Any, int], tmp_path: Path) -> None:
    """A column has the type it is declared with, and other values are null; without one it is text."""
    url = make_sqlite(tmp_path / "a.db", f"CREATE TABLE t (k {declared}, u INTEGER)")
    make_sqlite(tmp_path / "a.db", f"INSERT INTO t (k) VALUES {values}", "UPDATE t SET u = 1")  # noqa: S608
    assert counts_of(url, table="t", key="k") == expected
    by_unit = counts_of(url, query="SELECT * FROM t", key="k", unit="u", max_keys_per_unit=9)
    assert by_unit == dict.fromkeys(expected, 1)


def test_no_values_of_one_type_first(tmp_path: Path) -> None:
    """The type of a column does not come from its first rows: two thousand nulls before a text change nothing."""
    url = make_sqlite(tmp_path / "a.db", "CREATE TABLE t (k TEXT, n INTEGER)")
    with sqlite3.connect(tmp_path / "a.db") as connection:
        connection.executemany("INSERT INTO t VALUES (?, ?)", [(None, i) for i in range(2000)] + [("x", 1)])
    connection.close()
    assert counts_of(url, table="t", key="k", count="n", nulls="keep") == {None: sum(range(2000)), "x": 1}


def test_stopped_by_the_caller(tmp_path: Path) -> None:
    """Ctrl-C is heard at once, also while SQLite works and cannot be told; its thread ends by itself."""
    url = make_sqlite(tmp_path / "a.db", "CREATE TABLE t (k TEXT)")
    count = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 8000000)"
    query = f"{count} SELECT CAST(sum(i) AS TEXT) AS k FROM n"  # noqa: S608
    started = time.monotonic()

    def progress(stage: str, fraction: float | None) -> None:
        if time.monotonic() - started > 0.3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        dptally.publish(url, query=query, key="k", epsilon=1, delta="1e-6", progress=progress)
    assert time.monotonic() - started < 10
    for thread in threading.enumerate():
        if thread.name.startswith("dptally"):
            thread.join(60)
            assert not thread.is_alive()


def test_sketches_take_rows_in_an_order_of_their_own(tmp_path: Path) -> None:
    """A sketch's guarantee compares streams in one order, which databases do not promise: they are sorted by key."""
    found = []
    for name, rows in (
        ("a", ["x"] * 60 + ["y"] * 50 + ["z"] * 40),
        ("b", ["x", "y", "z"] * 40 + ["y", "x"] * 10 + ["x"] * 10),
    ):
        url = make_sqlite(tmp_path / f"{name}.db", "CREATE TABLE t (k TEXT)")
        with sqlite3.connect(tmp_path / f"{name}.db") as connection:
            connection.executemany("INSERT INTO t VALUES (?)", [(key,) for key in rows])
        sketch = dptally.MisraGriesSketch(2)
        sketch.update_rows(open_rows(url, table="t", key="k", unit=None))
        found.append(sketch.items())
    assert found[0].equals(found[1])
    release = dptally.publish(url, table="t", key="k", epsilon=8, delta="1e-3", mechanism="misra_gries", capacity=2)
    assert 0 < len(release) <= 2


def test_sampling_and_ranges_count_at_the_source(tmp_path: Path) -> None:
    """Mechanisms that sample rows of files take the counts of a database instead."""
    url = make_sqlite(tmp_path / "a.db", "CREATE TABLE t (k TEXT)")
    with sqlite3.connect(tmp_path / "a.db") as connection:
        connection.executemany("INSERT INTO t VALUES (?)", [("common",)] * 50_000 + [("rare",)])
    connection.close()
    for options in ({"sampling": dptally.Ppswor("0.005")}, {"mechanism": "sample_and_threshold"}):
        release = dptally.publish(url, table="t", key="k", epsilon=1, delta="1e-6", **options)
        assert isinstance(release, dptally.TableRelease)
        assert release.table()["k"].to_list() == ["common"]


def test_table_and_query_are_for_databases(tmp_path: Path) -> None:
    """Files have neither tables nor queries, and other URLs are refused without being shown."""
    places: list[dict[str, Any]] = [{"table": "t"}, {"query": "SELECT 1"}]
    for place in places:
        with pytest.raises(InvalidParameter, match="is for databases; the source must be a URL"):
            open_rows(tmp_path / "a.csv", key="k", unit=None, **place)
    with pytest.raises(InvalidParameter, match="URLs of the kind s3:// cannot be read") as caught:
        open_rows(f"s3://user:{MARKER}@host/a.parquet", key="k", unit=None)
    assert MARKER not in str(caught.value)


def test_a_missing_driver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the extra, the sentence says how to install it; DuckDB files need none."""
    monkeypatch.setitem(sys.modules, "adbc_driver_sqlite.dbapi", None)
    url = make_sqlite(tmp_path / "a.db", "CREATE TABLE t (k TEXT)")
    with pytest.raises(MissingDependency, match=r"reading SQLite needs its driver: pip install 'dptally\[databases\]'"):
        counts_of(url, table="t", key="k")


@pytest.mark.parametrize(
    ("written", "parts"),
    [
        ("events", ("events",)),
        ("a.b", ("a", "b")),
        ('"a.b"', ("a.b",)),
        ('a."b ""c"', ("a", 'b "c')),
        ("é x", ("é x",)),
    ],
)
def test_table_parts(written: str, parts: tuple[str, ...]) -> None:
    """A dot splits, unless it is in quotes."""
    assert table_parts(written) == parts


@pytest.mark.parametrize("written", ["", ".", "a.", ".a", '"a', 'a"b', "a..b", "a.b.c"])
def test_table_names_that_are_none(written: str) -> None:
    """What is not a name is refused."""
    with pytest.raises(InvalidParameter, match="table must be a name"):
        table_parts(written)


@pytest.mark.parametrize(
    ("query", "kept"),
    [
        ("SELECT 1 ; ;", "SELECT 1 "),
        ("SELECT ';' AS k", "SELECT ';' AS k"),
        ('SELECT ";" -- ; done', 'SELECT ";" -- ; done'),
        ("SELECT $a$;$a$ /* ; */", "SELECT $a$;$a$ /* ; */"),
        ("SELECT 'it''s;' ;-- done", "SELECT 'it''s;' "),
    ],
)
def test_semicolons(query: str, kept: str) -> None:
    """Semicolons at the end are dropped, those in texts and comments are left alone."""
    assert check_only_one_statement(query) == kept


def test_files_of_urls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Three slashes are relative, four absolute, two do as well, and an absolute file is found without the fourth."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.db").write_bytes(b"x")
    for url in ("duckdb:///a.db", "duckdb://a.db", f"duckdb:///{tmp_path}/a.db", f"duckdb://{tmp_path}/a.db"):
        assert file_of_url(url) == tmp_path / "a.db"
