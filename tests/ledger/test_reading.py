"""Once a row may have been read a failure is an answer: it stays paid for, and tells nothing to later releases."""

from __future__ import annotations

import hashlib
import hmac
import json
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from fractions import Fraction
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import dptally
from dptally import BudgetExceeded, Ledger
from dptally.cli import main
from dptally.errors import DptallyError, InvalidParameter, InvalidSource, PrivacyViolation
from dptally.ledger.history import COLUMNS
from dptally.ledger.paying import paying, spent_by
from dptally.privacy.spending import Spending
from dptally.randomness import SystemBits
from dptally.sources.requests import check_request_for
from tests.ledger.test_paying import PRIVACY, RELEASES, SOURCES

HALF = Spending("dense", Fraction(1, 2), Fraction(0))


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    """A budget for four releases."""
    return Ledger(tmp_path / "budget.db", epsilon=1, delta="1e-6")


# ---- after reading ----


@pytest.mark.parametrize("name", SOURCES)
def test_what_fails_while_rows_are_read_stays_spent(name: str, ledger: Ledger, tmp_path: Path) -> None:
    """Every kind of release: a damaged row deep in a file costs what a release costs, and the error says what to do."""
    release, _, options = RELEASES[name]
    place = tmp_path / "rows.csv"
    place.write_text("x,n\n" + "".join(f"{number},1\n" for number in range(1000)) + "1,1,1\n")
    column = {"value": "x"} if name in ("quantiles", "quantiles_dense", "search") else {"key": "x"}
    count = {"count": "n"} if name == "sanitize" else {}
    with pytest.raises(InvalidSource) as caught:
        release(place, **column, **count, **options, ledger=ledger)
    (entry,) = ledger.history()
    assert (entry.state, entry.note) == ("failed", None)
    assert ledger.remaining()[0] == Fraction(3, 4)
    said = spent_by(caught.value)
    assert said is not None and f"dptally ledger void {ledger.path} 1 --reason" in said
    assert said in caught.value.__notes__


def test_bisection_costs_a_release_for_every_question(ledger: Ledger, tmp_path: Path) -> None:
    """Asking "is there a row beyond this line?" by failures ends when the budget does."""
    place = tmp_path / "rows.csv"
    place.write_text("x\n" + "a\n" * 100 + '"\n')
    asked = 0
    with pytest.raises(BudgetExceeded):
        while asked < 100:
            asked += 1
            try:
                dptally.publish(place, key="x", **PRIVACY, ledger=ledger)
            except InvalidSource:
                continue
    assert asked == 5 and {entry.state for entry in ledger.history()} == {"failed"}


def _raising() -> Iterator[str]:
    yield from ["a"] * 100_000
    raise OSError("gone")


def _interrupted() -> Iterator[str]:
    yield from ["a"] * 100_000
    raise KeyboardInterrupt


def _in_json(place: Path) -> Path:
    (place / "rows.jsonl").write_text('{"x": "a"}\n[1]\n')
    return place / "rows.jsonl"


# What is looked at when it is opened counts as read: Python objects, and whatever has no declared types.
LOOKED_AT: dict[str, Callable[[Path], tuple[Any, dict[str, Any]]]] = {
    "counts": lambda _: ({"a": 5, "b": -1}, {}),
    "generator": lambda _: (_raising(), {}),
    "interruption": lambda _: (_interrupted(), {}),
    "json": lambda place: (_in_json(place), {"key": "x"}),
    "counts in sqlite": lambda place: (_in_sqlite(place), {"key": "y", "count": "n", "table": "events"}),
}


@pytest.mark.parametrize("kind", LOOKED_AT)
def test_values_that_are_looked_at_have_been_read(kind: str, ledger: Ledger, tmp_path: Path) -> None:
    """A refusal for a value of an object in memory is spent, also one that comes before anything is counted."""
    source, options = LOOKED_AT[kind](tmp_path)
    with pytest.raises((DptallyError, KeyboardInterrupt)):
        dptally.publish(source, **options, **PRIVACY, ledger=ledger)
    assert [entry.state for entry in ledger.history()] == ["failed"]


@pytest.mark.parametrize(
    ("source", "declared"),
    [
        (pa.table({"x": ["a"]}), True),
        (pl.LazyFrame({"x": ["a"]}), True),
        ("postgresql://host/database", True),
        (pd.DataFrame({"x": ["a"]}), False),
        (pd.Series(["a"]), False),
        (np.array(["a"]), False),
        ({"a": 1}, False),
        (["a"], False),
        (iter("a"), False),
        (object(), False),
    ],
    ids=lambda source: type(source).__name__,
)
def test_what_is_not_known_to_be_declared_is_read(source: Any, declared: bool) -> None:
    """Only kinds of sources that are listed are opened without a look at their values."""
    request: dict[str, Any] = {"key": "x", "unit": None, "count": None, "nulls": "drop", "format": None}
    place = {"table": "t"} if isinstance(source, str) else {}
    assert check_request_for(source, **request, **place) is declared


def test_a_step_that_says_nothing_is_spent(ledger: Ledger) -> None:
    """Whatever fails outside of `opening` costs its price, whoever forgot to say that reading began."""
    for error in (RuntimeError, KeyboardInterrupt, SystemExit):
        with pytest.raises(error), paying(ledger, HALF, SystemBits(), unit=None) as paid:
            with paid.opening():
                pass
            raise error
        assert [entry.state for entry in ledger.history()] == ["failed"]
        ledger.void(1, reason="test")
        assert ledger.remaining()[0] == 1
        ledger = Ledger(ledger.path.with_name(f"{error.__name__}.db"), epsilon=1, delta=0)


# ---- before reading ----


def _parquet(place: Path) -> Path:
    pl.DataFrame({"y": ["a"]}).write_parquet(place / "rows.parquet")
    return place / "rows.parquet"


def _csv(place: Path) -> Path:
    (place / "rows.csv").write_text("y\na\n")
    return place / "rows.csv"


def _in_duckdb(place: Path) -> str:
    with closing(duckdb.connect(str(place / "rows.duckdb"))) as connection:
        connection.execute("CREATE TABLE events (y VARCHAR)")
    return f"duckdb:///{place / 'rows.duckdb'}"


def _in_sqlite(place: Path) -> str:
    with closing(sqlite3.connect(place / "rows.db")) as connection:
        connection.execute("CREATE TABLE events (y TEXT, n)")
        connection.execute("INSERT INTO events VALUES ('a', -1)")
        connection.commit()
    return f"sqlite:///{place / 'rows.db'}"


DECLARED: dict[str, Callable[[Path], tuple[Any, dict[str, Any]]]] = {
    "csv": lambda place: (_csv(place), {"key": "x"}),
    "parquet": lambda place: (_parquet(place), {"key": "x"}),
    "parquet, polars": lambda place: (_parquet(place), {"key": "x", "engine": "polars"}),
    "no such json": lambda place: (place / "none.jsonl", {"key": "x"}),
    "no such sqlite": lambda place: (f"sqlite:///{place / 'none.db'}", {"key": "x", "table": "t"}),
    "no such list": lambda place: ([str(_csv(place)), str(place / "none.csv")], {"key": "x"}),
    "arrow": lambda _: (pa.table({"y": ["a"]}), {"key": "x"}),
    "polars": lambda _: (pl.DataFrame({"y": ["a"]}), {"key": "x"}),
    "lazy": lambda _: (pl.LazyFrame({"y": ["a"]}), {"key": "x"}),
    "relation": lambda _: (duckdb.sql("SELECT 'a' AS y"), {"key": "x"}),
    "duckdb": lambda place: (_in_duckdb(place), {"key": "x", "table": "events"}),
    "sqlite": lambda place: (_in_sqlite(place), {"key": "x", "table": "events"}),
    "sqlite, no such table": lambda place: (_in_sqlite(place), {"key": "y", "table": "none"}),
    "sqlite, no such count": lambda place: (_in_sqlite(place), {"key": "y", "count": "m", "table": "events"}),
    "request": lambda _: ({"a": 5}, {"key": []}),
    "unit of a mapping": lambda _: ({"a": 5}, {"unit": "u"}),
    "table of a list": lambda _: (["a"], {"table": "t"}),
    "reserved": lambda place: (_csv(place), {"key": "value"}),
    "once": lambda _: (pa.table({"x": ["a"]}).to_reader(), {"key": "x", "sampling": dptally.Ppswor(size=5)}),
}


@pytest.mark.parametrize("kind", DECLARED)
def test_what_fails_before_a_row_is_read_is_void(kind: str, ledger: Ledger, tmp_path: Path) -> None:
    """A file that is not there, or a column that is not declared: the budget is back, by a fixed sentence."""
    source, options = DECLARED[kind](tmp_path)
    with pytest.raises(DptallyError) as caught:
        dptally.publish(source, **options, **PRIVACY, ledger=ledger)
    assert [(entry.state, entry.note) for entry in ledger.history()] == [("void", "failed before any row was read")]
    assert ledger.remaining() == (1, Fraction(1, 10**6)) and spent_by(caught.value) is None


# ---- void by hand ----


def test_an_owner_can_void_a_failure_and_has_to_say_why(ledger: Ledger, tmp_path: Path) -> None:
    """Reserved and failed entries can be void; the reason stays; published and drawn ones cannot."""
    with pytest.raises(DptallyError):
        dptally.publish({"a": 5, "b": -1}, **PRIVACY, ledger=ledger)
    ledger.reserve(HALF)
    release = dptally.publish({"a": 500}, **PRIVACY, ledger=ledger)
    for reason in ("", "  ", None, "two\nlines", "\u202e", "x" * 501):
        with pytest.raises(InvalidParameter, match="reason must"):
            ledger.void(1, reason=reason)  # type: ignore[arg-type]
    ledger.void(1, reason="the list was a typo of mine", who="ada")
    ledger.void(2, reason="the process was killed")
    again = Ledger(ledger.path)
    assert [(entry.state, entry.note) for entry in again.history()][:2] == [
        ("void", "by hand: the list was a typo of mine"),
        ("void", "by hand: the process was killed"),
    ]
    assert again.remaining()[0] == Fraction(3, 4)
    for number in (1, 3):
        with pytest.raises(InvalidParameter, match=f"entry {number} of .* (void|published), and stays so"):
            ledger.void(number, reason="once more")
    with pytest.raises(InvalidParameter, match="has no entry 9"):
        ledger.void(9, reason="which one?")
    drawn = ledger.reserve(Spending("dense", Fraction(1, 8), Fraction(0)))
    drawn.drawn()
    with pytest.raises(InvalidParameter, match="is drawn, and stays so"):
        ledger.void(4, reason="nobody has seen it, I think")
    assert ledger.find(release.guarantee).state == "published"


def test_a_void_entry_pays_for_nothing(ledger: Ledger) -> None:
    """A process whose reservation was made void by hand cannot draw any more."""
    reservation = ledger.reserve(HALF)
    Ledger(ledger.path).void(1, reason="taken for dead")
    with pytest.raises(InvalidParameter, match="cannot become drawn"):
        reservation.drawn()


def test_the_command_says_what_stays_spent_and_voids_it(
    ledger: Ledger, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One line on standard error, whose command works; the reason is in the history."""
    place = tmp_path / "rows.csv"
    place.write_text("x\na\n1,1\n")
    failing = ["publish", place, "--key", "x", "--epsilon", "1/4", "--delta", "1e-7", "--ledger", ledger.path]
    assert main([*map(str, failing), "--quiet"]) == 1
    said = capsys.readouterr().err
    assert said.count("\n") == 1 and "The budget stays spent, as entry 1 of the ledger" in said
    assert f"dptally ledger void {ledger.path} 1 --reason TEXT." in said
    assert main(["ledger", "void", str(ledger.path), "1", "--reason", "a broken file", "--who", "ada"]) == 0
    assert "Entry 1 is void." in capsys.readouterr().out
    assert main(["ledger", "history", str(ledger.path), "--json"]) == 0
    (entry,) = json.loads(capsys.readouterr().out)
    assert (entry["state"], entry["note"]) == ("void", "by hand: a broken file")
    assert main(["ledger", "void", str(ledger.path), "one", "--reason", "x"]) == 2
    assert "must be the number of an entry" in capsys.readouterr().err


# ---- what a release tells ----


def test_a_release_tells_nothing_about_earlier_entries(ledger: Ledger, tmp_path: Path) -> None:
    """No number of an entry, and no hash that a guessed history could be tested with, reach a release file."""
    with pytest.raises(DptallyError):
        dptally.publish({"a": 5, "b": -1}, **PRIVACY, ledger=ledger)
    release = dptally.publish({"a": 500}, **PRIVACY, ledger=ledger)
    release.save(tmp_path / "r.parquet")
    facts = dptally.load(tmp_path / "r.parquet").describe()["guarantee"]["record"]
    assert set(facts) == {"release_id", "ledger_id", "entry", "entry_hash"} and facts["entry"] is None
    rows = list(ledger._storage.rows(0))
    number = next(n for n, (row, digest) in enumerate(rows) if digest == facts["entry_hash"])
    row, previous = rows[number][0], rows[number - 1][1]
    columns = json.dumps([getattr(row, name) for name in COLUMNS], separators=(",", ":")).encode()
    # All of the history is not enough to work the hash out: the key that is needed is in no release.
    assert hashlib.sha256(bytes.fromhex(previous) + columns).hexdigest() != facts["entry_hash"]
    key = bytes.fromhex(rows[0][0].facts()["key"])
    assert hmac.new(key, bytes.fromhex(previous) + columns, "sha256").hexdigest() == facts["entry_hash"]
    assert len(key) == 32 and key.hex().encode() not in (tmp_path / "r.parquet").read_bytes()


def test_a_release_binds_the_history_before_it(ledger: Ledger, tmp_path: Path) -> None:
    """A release is found by its id, and only in the history that it was made with."""
    release = dptally.publish({"a": 500}, **PRIVACY, ledger=ledger)
    assert ledger.find(release.guarantee).number == 1
    with closing(sqlite3.connect(ledger.path)) as connection:
        rows = connection.execute("SELECT * FROM history").fetchall()
    assert [row[-1] for row in rows].count(release.guarantee.record.entry_hash) == 1
    other = Ledger(tmp_path / "other.db", epsilon=1, delta="1e-6")
    with pytest.raises(PrivacyViolation, match="another ledger"):
        other.find(release.guarantee)
