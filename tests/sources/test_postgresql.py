"""PostgreSQL: the same counts as from files, in a read-only transaction, without a word about credentials."""

from __future__ import annotations

import tempfile
import threading
import time
import traceback
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dptally
from dptally.errors import DptallyError, InvalidParameter, InvalidSource, MissingDependency
from dptally.randomness import SeededBits
from dptally.sources import open_rows
from dptally.sources.filters import read_filter
from tests.sources.conftest import Server
from tests.sources.counting import counts_of

MARKER = "SECRETMARKER"


@pytest.fixture(scope="module")
def server(postgresql: Server) -> Server:
    """The server, with a few tables."""
    postgresql.run(
        "CREATE COLLATION anycase (provider = icu, locale = 'und-u-ks-level2', deterministic = false)",
        "CREATE TYPE mood AS ENUM ('glad', 'sad')",
        "CREATE DOMAIN address AS varchar(40)",
        "CREATE SCHEMA odd",
        'CREATE TABLE odd."a.b ""c" ("K;--" text)',
        """INSERT INTO odd."a.b ""c" VALUES ('x'), ('x')""",
        """CREATE TABLE kinds (
            small smallint, middle integer, large bigint, truth boolean, number double precision, single real,
            text text COLLATE anycase, short char(5), label mood, place address, identity uuid, bytes bytea, day date,
            moment timestamptz, clock timestamp, hour time, price numeric(10, 2), total numeric, document jsonb,
            list integer[], span interval)""",
        """INSERT INTO kinds VALUES
            (-1, 7, 9223372036854775807, true, '-0', 'nan', 'Straße', 'ab', 'sad', 'here',
             'A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11', '\\x00ff', '2024-02-29', '2024-01-01 00:30:00+02',
             '2024-01-01 00:30:00', '12:00:00.5', 1.50, 3, '{"a": 1}', '{1}', '1 day'),
            (-1, 7, 9223372036854775807, true, '0', 'nan', 'straße', 'ab', 'sad', 'here',
             'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11', '\\x00ff', '2024-02-29', '2023-12-31 22:30:00+00',
             '2024-01-01 00:30:00', '12:00:00.5', 1.5, 4, '{"a":1}', '{1}', '1 day'),
            (NULL, NULL, NULL, NULL, NULL, NULL, '', '', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 0,
             NULL, NULL, NULL)""",
        "CREATE TABLE empty (k text, u bigint)",
        "CREATE ROLE outsider LOGIN PASSWORD 'outside'",
    )
    return postgresql


def test_same_release_as_from_a_file(server: Server, tmp_path: Path) -> None:
    """The same rows give the same seeded release from the server and from Parquet, with and without units."""
    random = np.random.default_rng(3)
    keys = [None if i % 50 == 7 else f"é {'Aa'[i % 2]}{i}" for i in random.zipf(1.4, 5000).clip(1, 200)]
    table = pa.table({"k": keys, "u": random.integers(0, 900, 5000)})
    pq.write_table(table, tmp_path / "events.parquet")
    with server.connect() as connection, connection.cursor() as cursor:
        cursor.adbc_ingest("events", table, mode="replace")
    for unit, bound, nulls in ((None, 1, "drop"), ("u", 2, "keep")):
        request: dict[str, Any] = {"key": "k", "unit": unit, "max_keys_per_unit": bound, "nulls": nulls}
        request |= {"epsilon": 1, "delta": "1e-6"}
        expected = dptally.publish(tmp_path / "events.parquet", **request, randomness=SeededBits(9))
        query = "SELECT u, k FROM events -- all"
        places: list[dict[str, Any]] = [{"table": "events"}, {"table": "public.events"}, {"query": query}]
        for place in places:
            release = dptally.publish(server.url, **place, **request, randomness=SeededBits(9))
            assert isinstance(release, dptally.TableRelease) and isinstance(expected, dptally.TableRelease)
            assert len(release) > 10 and release.table().equals(expected.table())


@pytest.mark.parametrize(
    ("column", "expected"),
    [
        ("small", {-1: 2}),
        ("middle", {7: 2}),
        ("large", {2**63 - 1: 2}),
        ("truth", {True: 2}),
        ("number", {0.0: 2}),
        ("text", {"Straße": 1, "straße": 1, "": 1}),
        ("short", {"ab": 2, "": 1}),
        ("label", {"sad": 2}),
        ("place", {"here": 2}),
        ("identity", {"a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11": 2}),
        ("bytes", {b"\x00\xff": 2}),
        ("price", {Decimal("1.50"): 2}),
        ("document", {'{"a":1}': 2}),
    ],
)
def test_types(server: Server, column: str, expected: dict[Any, int]) -> None:
    """Each type is one kind of key, equal values are one key, and collations merge nothing."""
    assert counts_of(server.url, table="kinds", key=column) == expected
    if column != "short":
        query = "SELECT *, 1 AS unit FROM kinds"
        by_unit = counts_of(server.url, query=query, key=column, unit="unit", max_keys_per_unit=9)
        assert by_unit == dict.fromkeys(expected, 1)


def test_filters(server: Server) -> None:
    """A condition on other columns, on the unit and on times is met by the same rows as elsewhere."""
    server.run(
        "DROP TABLE IF EXISTS days",
        "CREATE TABLE days (k text, u text, day date, at timestamptz, price numeric(8, 2))",
        "INSERT INTO days SELECT 'k' || i % 3, 'u' || i, date '2026-11-15' + i % 2, "
        "timestamptz '2026-11-15 23:30+00' + i * interval '1 hour', i FROM generate_series(0, 11) AS i",
    )
    where: dict[str, dict[str, int]] = {
        "day = DATE '2026-11-15'": {"k0": 2, "k1": 2, "k2": 2},
        "price BETWEEN 2.5 AND 4": {"k0": 1, "k1": 1},
        "u IN ('u1', 'u4') AND 1 // (price - 4) IS NOT NULL": {"k1": 1},
    }
    for condition, expected in where.items():
        asked: dict[str, Any] = {"table": "days", "key": "k", "where": read_filter(condition)}
        assert counts_of(server.url, **asked) == expected, condition
        assert counts_of(server.url, **asked, unit="u", max_keys_per_unit=3) == expected, condition
    interval = read_filter(time_column="at", since="2026-11-15", until="2026-11-16")
    assert counts_of(server.url, table="days", key="k", where=interval) == {"k0": 1}


def test_times(server: Server) -> None:
    """Timestamps with a zone are moments in UTC; dates and times stay what they are."""
    for column, kind in (
        ("moment", pa.timestamp("us", "UTC")),
        ("clock", pa.timestamp("us")),
        ("day", pa.date32()),
        ("hour", pa.time64("us")),
        ("single", pa.float32()),
    ):
        release = dptally.publish(
            server.url, query=f"SELECT {column} FROM kinds, generate_series(1, 500)", key=column,  # noqa: S608
            epsilon=1, delta="1e-6",
        )  # fmt: skip
        assert isinstance(release, dptally.TableRelease)
        assert len(release) == 1 and release._rows.schema.field(column).type == kind


def test_counts_of_the_server(server: Server) -> None:
    """A column of counts may be a sum, which PostgreSQL makes numeric; parts and negative ones are refused."""
    request: dict[str, Any] = {"key": "k", "count": "n"}
    query = "SELECT k, sum(n) AS n FROM (VALUES ('a', 2::bigint), ('a', 3), ('b', 1)) AS t (k, n) GROUP BY k"
    assert counts_of(server.url, query=query, **request) == {"a": 5, "b": 1}
    for bad in ("1.5", "-1", "NULL", "'NaN'"):
        with pytest.raises(InvalidSource, match=r"column 'n' (must hold non-negative integers|adds up to more)"):
            counts_of(server.url, query=f"SELECT 'a' AS k, CAST({bad} AS numeric) AS n", **request)


def test_names_are_quoted(server: Server) -> None:
    """Names of tables and columns are taken as they are, whatever is in them."""
    assert counts_of(server.url, table='odd."a.b ""c"', key="K;--") == {"x": 2}


def test_an_empty_table(server: Server) -> None:
    """No rows, no keys, with and without units."""
    assert counts_of(server.url, table="empty", key="k") == {}
    assert counts_of(server.url, table="empty", key="k", unit="u") == {}


def test_the_server_counts(server: Server) -> None:
    """Without a unit a million rows of ten keys arrive as ten."""
    rows = open_rows(server.url, query="SELECT g % 10 AS k FROM generate_series(1, 1000000) g", key="k", unit=None)
    from dptally.sources.engine import Session

    session = Session()
    try:
        sql = rows.select_counted(session)
        assert sql is not None
        assert sum(batch.num_rows for batch in session.batches(sql)) == 10
    finally:
        session.close()


@pytest.mark.parametrize(
    ("request_", "kind", "message"),
    [
        ({"table": "nowhere"}, InvalidSource, "there is no table 'nowhere' in the database"),
        ({"table": "nowhere.events"}, InvalidSource, "there is no table 'nowhere.events'"),
        (
            {"table": "kinds", "key": "nothing"},
            InvalidParameter,
            "column 'nothing' is not in the source; it has: small",
        ),
        ({"table": "kinds", "key": "list"}, InvalidSource, "column 'list' has the type list"),
        ({"table": "kinds", "key": "span"}, InvalidSource, "column 'span' has the type interval"),
        ({"table": "kinds", "key": "total"}, InvalidSource, "type numeric without a fixed number of digits"),
        ({"query": "SELECT nothing FROM kinds"}, InvalidSource, "a column that the database does not have"),
        ({"query": "SELECT text FROM nowhere"}, InvalidSource, "a table or a column that the database does not have"),
        ({"query": "SELEC"}, InvalidParameter, r"does not accept the query \(SQLSTATE 42601\)"),
        ({"query": "SELECT text FROM kinds) AS q; SELECT ("}, InvalidParameter, "must be one statement"),
        ({"query": "SELECT 'x' AS text; DROP TABLE kinds;"}, InvalidParameter, "must be one statement"),
        ({"query": "DELETE FROM kinds RETURNING text"}, InvalidParameter, "does not accept the query"),
        ({"query": "SELECT setval('s', 1)::text AS text"}, InvalidParameter, "opened for reading only"),
        (
            {"query": f"SELECT CAST('{MARKER}' || g AS int)::text AS text FROM generate_series(1, 2) g"},  # noqa: S608
            InvalidSource,
            "22P02",
        ),
    ],
)
def test_refusals(server: Server, request_: dict[str, Any], kind: type[Exception], message: str) -> None:
    """What cannot be read is refused in one sentence, without data, and the database stays as it was."""
    server.run("CREATE SEQUENCE IF NOT EXISTS s")
    with pytest.raises(kind, match=message) as caught:
        counts_of(server.url, **{"key": "text", **request_})
    _check_silent(caught.value, server)
    assert server.run("SELECT count(*) FROM kinds") == [(3,)]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda server: f"postgresql://owner:{MARKER}@{server.address}", "refused the user name or the password"),
        (lambda server: f"postgresql://nobody:{MARKER}@{server.address}", "refused the user name or the password"),
        (lambda server: f"postgresql://owner@{server.address}", "refused the user name or the password"),
        (lambda server: f"{server.url.removesuffix('postgres')}{MARKER}", "no database of that name"),
        (lambda server: f"postgresql://owner:{MARKER}/x@{server.address}", "could not be reached"),
        (lambda server: f"postgresql://owner:{MARKER}@127.0.0.1:1/postgres", "could not be reached"),
        (lambda server: f"postgresql://owner:{MARKER}@127.0.0.1:x/postgres", "could not be reached"),
        (lambda server: f"mysql://owner:{MARKER}@{server.address}", "URLs of the kind mysql:// cannot be read"),
    ],
)
def test_credentials_stay_secret(
    server: Server, change: Callable[[Server], str], message: str, capfd: pytest.CaptureFixture[str]
) -> None:
    """Whatever is wrong with a URL, neither it nor its password is in the error or on the terminal."""
    with pytest.raises(DptallyError, match=message) as caught:
        dptally.publish(change(server), table="kinds", key="text", epsilon=1, delta="1e-6")
    _check_silent(caught.value, server)
    output = capfd.readouterr()
    assert MARKER not in output.out + output.err


def test_password_of_the_environment(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """PGPASSWORD does instead of a password in the URL."""
    monkeypatch.setenv("PGPASSWORD", server.password)
    assert len(counts_of(f"postgresql://owner@{server.address}", table="kinds", key="text")) == 3


def test_a_user_without_rights(server: Server) -> None:
    """A table that the user may not read is refused by name of the reason."""
    with pytest.raises(InvalidSource, match="does not let this user read that table"):
        counts_of(f"postgresql://outsider:outside@{server.address}", table="kinds", key="text")


def test_a_locked_table(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """A table under an exclusive lock is waited for a while, and no longer."""
    from dptally.sources import postgresql

    settings = (*postgresql._SETTINGS[:2], "SET LOCAL lock_timeout = '200ms'")
    assert "lock_timeout" in postgresql._SETTINGS[2]
    monkeypatch.setattr(postgresql, "_SETTINGS", settings)
    with server.connect() as connection, connection.cursor() as cursor:
        connection.adbc_connection.set_autocommit(False)
        cursor.execute("LOCK TABLE empty IN ACCESS EXCLUSIVE MODE")
        with pytest.raises(InvalidSource, match="locked by another transaction"):
            counts_of(server.url, table="empty", key="k")
        connection.rollback()


@pytest.mark.parametrize("unit", [None, "u"])
def test_connection_lost(server: Server, unit: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A connection that is killed while rows come is one sentence; nothing is drawn and nothing is left behind."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    killed: list[Any] = []

    def kill() -> None:
        deadline = time.monotonic() + 60
        busy = "SELECT pg_terminate_backend(pid) FROM pg_stat_progress_copy WHERE tuples_processed > 20000"
        while not killed and time.monotonic() < deadline:
            killed.extend(server.run(busy))
            time.sleep(0.01)

    thread = threading.Thread(target=kill)
    thread.start()
    series = f"generate_series(1, {1_000_000 if unit else 3_000_000}) g"
    query = f"SELECT md5(g::text) AS k, g AS u, 1 AS n FROM {series}"  # noqa: S608
    request: dict[str, Any] = {"unit": unit} if unit else {"count": "n"}
    with pytest.raises(InvalidSource, match="the connection to the database was lost") as caught:
        dptally.publish(server.url, query=query, key="k", epsilon=1, delta="1e-6", randomness=SeededBits(1), **request)
    thread.join()
    assert killed
    _check_silent(caught.value, server)
    assert list(tmp_path.iterdir()) == []
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("dptally")]


def test_stopped_by_the_caller(server: Server) -> None:
    """Ctrl-C while the server works cancels its statement at once."""
    started = time.monotonic()
    active = "query LIKE 'COPY%pg_sleep%' AND state = 'active' AND pid <> pg_backend_pid()"
    running = f"SELECT 1 FROM pg_stat_activity WHERE {active}"  # noqa: S608

    def progress(stage: str, fraction: float | None) -> None:
        if server.run(running):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        dptally.publish(
            server.url, query="SELECT 'a' AS k FROM pg_sleep(100)", key="k", epsilon=1, delta="1e-6", progress=progress
        )
    assert time.monotonic() - started < 20
    assert server.run(running) == []


def test_reprs_are_silent(server: Server) -> None:
    """Rows and their scan show neither the URL nor the query."""
    rows = open_rows(server.url, query=f"SELECT text, '{MARKER}' AS m FROM kinds", key="text", unit=None)  # noqa: S608
    shown = repr(rows) + repr(rows._scan) + str(rows)
    assert MARKER not in shown and server.password not in shown


def test_a_missing_driver(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the extra, the sentence says how to install it."""
    monkeypatch.setitem(__import__("sys").modules, "adbc_driver_postgresql.dbapi", None)
    with pytest.raises(
        MissingDependency, match=r"reading PostgreSQL needs its driver: pip install 'dptally\[databases\]'"
    ):
        open_rows(server.url, table="kinds", key="text", unit=None)


def _check_silent(error: BaseException, server: Server) -> None:
    shown = "".join(traceback.format_exception(error))
    chained: BaseException | None = error
    while chained is not None:
        shown += str(chained) + repr(chained)
        chained = chained.__cause__ or chained.__context__
    # The lines of this file quote the marker; only what was raised counts.
    shown = "\n".join(line for line in shown.splitlines() if not line.startswith("    "))
    assert MARKER not in shown and server.password not in shown
