"""Ledgers and releases of earlier versions stay readable, verifiable and usable."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

import dptally
from dptally import Ledger
from dptally.errors import PrivacyViolation, UnreadableLedger
from dptally.privacy.guarantee import Record
from dptally.privacy.spending import Spending

OLD = Path(__file__).with_name("format_1")
QUARTER = Spending("stability", Fraction(1, 4), Fraction(1, 10**7))


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A copy of what the earlier version made."""
    for file in OLD.iterdir():
        shutil.copy(file, tmp_path / file.name)
    return tmp_path / "format-1.db"


def test_an_old_ledger_is_read_as_it_is(place: Path) -> None:
    """Looking changes nothing of it; its release, which names an entry, is found."""
    before = place.read_bytes()
    ledger = Ledger(place, read_only=True)
    assert [entry.state for entry in ledger.history()] == ["published", "void", "reserved"]
    assert ledger.remaining() == (Fraction(3, 2), Fraction(8, 10**7)) and ledger.verify()[0] == 6
    release = dptally.load(place.with_name("format-1.parquet"))
    assert isinstance(release, dptally.Release)
    assert release.guarantee.record is not None and release.guarantee.record.entry == 1
    assert ledger.find(release.guarantee).number == 1
    ledger.disconnect()
    assert place.read_bytes() == before


def test_an_old_ledger_is_spent_from(place: Path) -> None:
    """The first spending gives it a key and gives up its log; old and new releases are found, and others are not."""
    ledger = Ledger(place)
    made = dptally.publish({"common": 1000}, epsilon="1/4", delta="1e-7", ledger=ledger)
    ledger.disconnect()
    assert sorted(file.name for file in place.parent.glob("format-1.db*")) == [
        "format-1.db",
        "format-1.db-head",
        "format-1.db-journal",
    ]
    again = Ledger(place)
    old = dptally.load(place.with_name("format-1.parquet"))
    assert made.guarantee.record is not None and made.guarantee.record.entry is None
    assert (again.find(old.guarantee).number, again.find(made.guarantee).number) == (1, 4)
    assert [row.state for row, _ in again._storage.rows(7)] == ["upgraded", "reserved", "drawn", "published"]
    with closing(sqlite3.connect(place)) as connection:
        assert connection.execute("PRAGMA user_version").fetchone() == (2,)
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("delete",)
    wrong = Record(old.guarantee.record.release_id, again.ledger_id, 3, old.guarantee.record.entry_hash)
    from dataclasses import replace

    with pytest.raises(PrivacyViolation, match="not recorded"):
        again.find(replace(old.guarantee, record=wrong))


def test_an_old_ledger_without_spendings_has_no_note_yet(place: Path) -> None:
    """The first note is written with the first spending; from then on it must be there."""
    fresh = place.with_name("fresh-1.db")
    assert Ledger(fresh, read_only=True).history() == []
    Ledger(fresh).reserve(Spending("dense", Fraction(1, 2), Fraction(0)))
    note = fresh.with_name("fresh-1.db-head")
    assert note.exists() and len(Ledger(fresh).history()) == 1
    note.unlink()
    with pytest.raises(UnreadableLedger, match="has no readable note"):
        Ledger(fresh)


@pytest.mark.parametrize("content", [None, b"", b"\x00\x00"])
def test_an_old_note_that_was_written_must_be_there(place: Path, content: bytes | None) -> None:
    """A ledger of format 1 with entries had a note too; the owner can accept it without."""
    note = place.with_name("format-1.db-head")
    note.unlink()
    if content is not None:
        note.write_bytes(content)
    for read_only in (True, False):
        with pytest.raises(UnreadableLedger, match="has no readable note"):
            Ledger(place, read_only=read_only)
    Ledger.restore_note(place, reason="the note was never copied")
    Ledger(place).reserve(QUARTER)
    assert len(Ledger(place).history()) == 4


def test_an_old_log_is_taken_in(place: Path, tmp_path: Path) -> None:
    """Rows that a killed process of the earlier version left in its log count; without the log they are missed."""
    busy, left = tmp_path / "busy.db", tmp_path / "left.db"
    shutil.copy(place, busy)
    rows = [(name, value) for name, value in _columns(place).items()]
    with closing(sqlite3.connect(busy, isolation_level=None)) as connection:
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        connection.execute("PRAGMA wal_autocheckpoint = 0")
        connection.execute(f"INSERT INTO history VALUES ({', '.join('?' * 14)})", [value for _, value in rows])  # noqa: S608
        connection.execute("UPDATE head SET sequence = 7, hash = ?", (dict(rows)["hash"],))
        shutil.copy(busy, left)
        shutil.copy(busy.with_name("busy.db-wal"), left.with_name("left.db-wal"))
        left.with_name("left.db-head").write_text(f"{7:020d} {dict(rows)['hash']}\n")
    assert [entry.state for entry in Ledger(left, read_only=True).history()][2] == "drawn"
    assert [entry.state for entry in Ledger(left).history()][2] == "drawn"
    assert not left.with_name("left.db-wal").exists()
    shutil.copy(place, left)
    with pytest.raises(UnreadableLedger, match="rows were lost"):
        Ledger(left)


def _columns(place: Path) -> dict[str, Any]:
    """A row that the earlier version would have appended: the reserved entry is drawn."""
    from dptally.ledger.history import COLUMNS, Row, row_hash

    ledger = Ledger(place, read_only=True)
    number, previous = ledger.head
    latest = ledger._accounts.latest
    ledger.disconnect()
    row = Row(number + 1, latest, latest, "drawn", 3)
    return {**{name: getattr(row, name) for name in COLUMNS}, "hash": row_hash(previous, row, None)}
