"""Databases and engines on the command line."""

from __future__ import annotations

import csv
import io
import sqlite3
from pathlib import Path

import pytest

from tests.cli.conftest import MARKER, PRIVACY, Run

PASSWORD = "pass%40word-7"  # noqa: S105 - of nothing


@pytest.fixture
def database(tmp_path: Path) -> str:
    """The URL of a SQLite file with a table of fruit."""
    with sqlite3.connect(tmp_path / "events.db") as connection:
        connection.execute("CREATE TABLE events (fruit TEXT)")
        rows = ["apple"] * 500 + ["pear"] * 400 + [MARKER]
        connection.executemany("INSERT INTO events VALUES (?)", [(row,) for row in rows])
    connection.close()
    return f"sqlite:///{tmp_path / 'events.db'}"


def fruit(text: str) -> list[str]:
    """The keys of a printed table."""
    return [row["fruit"] for row in csv.DictReader(io.StringIO(text))]


def test_tables_and_queries(database: str, run: Run) -> None:
    """--table and --query read a database."""
    for place in (("--table", "events"), ("--query", "SELECT fruit FROM events WHERE fruit <> 'pear'")):
        done = run("publish", database, *place, "--key", "fruit", *PRIVACY)
        assert (done.status, fruit(done.out)) == (0, ["apple", "pear"] if place[0] == "--table" else ["apple"])
        assert MARKER not in done.out + done.err


def test_refusals_are_one_sentence(database: str, run: Run) -> None:
    """What is missing or contradictory is said in one sentence, with the right status."""
    for arguments, status, sentence in (
        ((), 2, "a database needs either table"),
        (("--table", "nothing"), 1, "there is no table 'nothing' in the database."),
        (("--table", "events", "--engine", "polars"), 2, "the engine 'polars' does not read databases"),
        (("--table", "events", "--engine", "pandas"), 2, "invalid choice"),
    ):
        done = run("publish", database, *arguments, "--key", "fruit", *PRIVACY)
        assert done.status == status and done.err.startswith("dptally: ") and sentence in done.err
        assert done.err.count("\n") == 1 and done.out == ""


@pytest.mark.parametrize(
    "command",
    [
        ("heavy-hitters", "--key", "fruit", "--levels", "1,5"),
        ("quantile", "--value", "weight", "--low", 0, "--high", 99, "-q", "0.5"),
    ],
)
def test_trees_of_databases(command: tuple[object, ...], database: str, run: Run, tmp_path: Path) -> None:
    """So do the commands that publish trees, with the same sentences for what they refuse."""
    name, *options = command
    query = ("--query", "SELECT fruit, length(fruit) AS weight FROM events")
    done = run(name, database, *query, *options, *PRIVACY)
    assert done.status == 0 and "differential privacy" in done.err
    assert "apple,2,true," in done.out if name == "heavy-hitters" else 4 <= float(done.out.split(",")[4]) <= 6
    for inputs, sentence in (
        ((database,), "a database needs either table"),
        ((database, "more.csv", *query), "a database must be the only input."),
        ((tmp_path / "more.csv", *query), "query is for databases"),
    ):
        refused = run(name, *inputs, *options, *PRIVACY)
        assert refused.status == 2 and sentence in refused.err and refused.out == ""


@pytest.mark.parametrize("command", ["publish", "sanitize", "show", "quantile", "heavy-hitters", "plot"])
def test_passwords_are_not_shown(command: str, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Wherever the URL of a database is put, its password is not printed."""
    monkeypatch.delenv("PGPASSWORD", raising=False)
    url = f"postgresql://user:{PASSWORD}@127.0.0.1:1/events"
    for arguments in (("--key", "fruit", *PRIVACY, "--table", "events"), ("--key", "fruit", *PRIVACY, url), ()):
        done = run(command, url, *arguments)
        assert done.status in (1, 2)
        assert PASSWORD not in done.out + done.err
        assert PASSWORD not in run(command, url, *arguments, "--explain").out


def test_an_explanation_names_the_table(database: str, run: Run) -> None:
    """It says what of the database would be read."""
    for place, said in ((("--table", "events"), ", table 'events' (private)"), (("--query", "SELECT"), ", a query")):
        assert f"{database}{said}" in run("publish", database, *place, "--key", "fruit", *PRIVACY, "--explain").out


def test_help_warns_of_passwords(run: Run) -> None:
    """The help says where passwords belong."""
    for command in ("publish", "quantile", "heavy-hitters"):
        assert "PGPASSFILE" in run(command, "--help").out


def test_engines(tmp_path: Path, events: Path, run: Run) -> None:
    """--engine polars publishes Parquet and refuses CSV; Spark says what it needs or works."""
    import polars as pl

    pl.read_csv(events).write_parquet(tmp_path / "events.parquet")
    request = ("--key", "fruit", *PRIVACY, "--engine", "polars")
    assert fruit(run("publish", tmp_path / "events.parquet", *request).out) == ["apple", "pear", "plum"]
    assert "reads CSV and JSON by rules of its own" in run("publish", events, *request).err
