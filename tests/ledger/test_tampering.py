"""What a ledger notices on opening: altered, removed and moved rows, lost ends, foreign and damaged files."""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from dptally import Ledger
from dptally.errors import InvalidParameter, UnreadableLedger
from dptally.ledger.history import COLUMNS, Row, row_hash
from dptally.privacy.spending import Spending


def event() -> Spending:
    """A quarter of the budget."""
    return Spending("stability", Fraction(1, 4), Fraction(1, 10**7))


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A ledger with two published entries and a reserved one, with labels; nobody has it open."""
    file = tmp_path / "budget.db"
    ledger = Ledger(file, epsilon=1, delta="1e-6")
    for part in ("it", "fr"):
        ledger.account(source="s", partitioning="country", part=part, who="ada").reserve(event(), note="n").published()
    ledger.reserve(event())
    ledger.disconnect()
    return file


def change(place: Path, *statements: str) -> None:
    """Act as somebody who can write the file and knows SQL."""
    with closing(sqlite3.connect(place, isolation_level=None)) as connection:
        triggers = connection.execute("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'").fetchall()
        for name, _ in triggers:
            connection.execute(f"DROP TRIGGER {name}")
        for statement in statements:
            connection.execute(statement)
        for _, sql in triggers:
            connection.execute(sql)


@pytest.mark.parametrize("column", [*COLUMNS, "hash"])
@pytest.mark.parametrize("row", [0, 1, 3, 7])
def test_every_altered_field_is_noticed(place: Path, column: str, row: int) -> None:
    """Whatever field of whatever row is changed, opening names a row and refuses."""
    kind = (
        "sequence + 100"
        if column == "sequence"
        else "entry + 1"
        if column == "entry"
        else f"coalesce({column}, '') || '0'"
    )
    change(place, f"UPDATE history SET {column} = {kind} WHERE sequence = {row}")  # noqa: S608
    with pytest.raises(UnreadableLedger, match="altered"):
        Ledger(place)


def test_an_epsilon_made_smaller_is_noticed(place: Path) -> None:
    """The number that somebody would like to change cannot be changed."""
    change(place, """UPDATE history SET spending = replace(spending, '"1/4"', '"1/400"')""")
    with pytest.raises(UnreadableLedger, match="row 1 does not follow"):
        Ledger(place)


@pytest.mark.parametrize("row", [0, 2, 4, 7])
def test_a_removed_row_is_noticed(place: Path, row: int) -> None:
    """Also the first one, and the last one."""
    change(place, f"DELETE FROM history WHERE sequence = {row}")  # noqa: S608
    with pytest.raises(UnreadableLedger, match="altered"):
        Ledger(place)


def test_moved_rows_are_noticed(place: Path) -> None:
    """Two rows that change places do not follow."""
    change(
        place,
        "UPDATE history SET sequence = 99 WHERE sequence = 2",
        "UPDATE history SET sequence = 2 WHERE sequence = 3",
        "UPDATE history SET sequence = 3 WHERE sequence = 99",
    )
    with pytest.raises(UnreadableLedger, match="row 2 does not follow"):
        Ledger(place)


def cut_end(place: Path, keep: int) -> None:
    """Remove the end of the history and name the row before it as the last one."""
    change(
        place,
        f"DELETE FROM history WHERE sequence > {keep}",  # noqa: S608
        f"UPDATE head SET sequence = {keep}, hash = (SELECT hash FROM history WHERE sequence = {keep})",  # noqa: S608
    )


def test_a_lost_end_is_noticed_by_the_note_beside_it(place: Path) -> None:
    """Cutting the end, and mending the second table, shows in the note."""
    cut_end(place, 3)
    with pytest.raises(UnreadableLedger, match=r"ends before, or differs from, what budget\.db-head has noted"):
        Ledger(place)


def test_a_hash_kept_elsewhere_shows_everything(place: Path) -> None:
    """Mending the note too, as anyone can who may write it, shows by a hash that was noted elsewhere."""
    ledger = Ledger(place)
    head = ledger.head[1]
    ledger.disconnect()
    cut_end(place, 3)
    shorter = Ledger.restore_note(place, reason="rows that nobody needs")
    assert len(shorter.history()) == 1
    with pytest.raises(UnreadableLedger, match="does not have the row that was noted"):
        shorter.verify(head)
    assert shorter.verify(shorter.head[1]) == shorter.head


def test_an_older_copy_is_noticed(place: Path, tmp_path: Path) -> None:
    """A copy of the file from yesterday cannot take its place."""
    shutil.copy(place, tmp_path / "yesterday.db")
    ledger = Ledger(place)
    ledger.reserve(event())
    ledger.disconnect()
    shutil.copy(tmp_path / "yesterday.db", place)
    with pytest.raises(UnreadableLedger, match="older copy"):
        Ledger(place)


def test_a_history_rewritten_in_use_is_noticed(place: Path) -> None:
    """A process that has the ledger open refuses to go on with a history that is not the one it knows."""
    ledger = Ledger(place)
    last = ledger.head[0]
    change(place, f"UPDATE history SET hash = 'x' WHERE sequence = {last}")  # noqa: S608
    with pytest.raises(UnreadableLedger, match="was rewritten while it was in use"):
        ledger.reserve(event())
    with pytest.raises(UnreadableLedger):
        ledger.verify()


def test_rows_cannot_be_changed_by_mistake(place: Path) -> None:
    """Plain SQL that updates or deletes is refused by the file itself."""
    with closing(sqlite3.connect(place)) as connection:
        for statement in ("UPDATE history SET who = 'eve'", "DELETE FROM history"):
            with pytest.raises(sqlite3.IntegrityError, match="append-only"):
                connection.execute(statement)


def forge(place: Path, **columns: Any) -> None:
    """Append a row with the right hash: what a newer version, or a careful forger, may write."""
    with closing(sqlite3.connect(place, isolation_level=None)) as connection:
        last = connection.execute("SELECT * FROM history ORDER BY sequence DESC LIMIT 1").fetchone()
        row = Row(**{**dict(zip(COLUMNS, last, strict=False)), "sequence": last[0] + 1, **columns})
        key = bytes.fromhex(json.loads(connection.execute("SELECT spending FROM history").fetchone()[0])["key"])
        digest = row_hash(last[-1], row, key)
        marks = ", ".join("?" * (len(COLUMNS) + 1))
        connection.execute(f"INSERT INTO history VALUES ({marks})", (*(getattr(row, n) for n in COLUMNS), digest))  # noqa: S608
        connection.execute("UPDATE head SET sequence = ?, hash = ?", (row.sequence, digest))


@pytest.mark.parametrize(
    "columns",
    [
        {"state": "refunded", "entry": 3},
        {"state": "void", "entry": 1},  # published before
        {"state": "published", "entry": 3},  # only reserved
        {"state": "void", "entry": 77},
        {"state": "reserved", "entry": 4, "spending": '{"mechanism": "new"}', "release_id": "0" * 32},
        {"state": "reserved", "entry": 4, "spending": "[" * 100_000, "release_id": "0" * 32},
        {"state": "reserved", "entry": 5},
        {"latest": "1999"},
    ],
    ids=range(8),
)
def test_rows_that_say_what_is_unknown_are_refused(place: Path, columns: dict[str, Any]) -> None:
    """A row with a good hash and an unknown event, state or order is refused, not ignored."""
    forge(place, **columns)
    with pytest.raises(UnreadableLedger, match="does not know"):
        Ledger(place)


# ---- files that are no ledgers ----


def _text(place: Path) -> None:
    place.write_text("this is not a database, but it is long enough to look at" * 20)


def _empty(place: Path) -> None:
    place.write_bytes(b"")


def _other(place: Path) -> None:
    place.unlink()
    with closing(sqlite3.connect(place)) as connection:
        connection.execute("CREATE TABLE t (x)")


def _newer(place: Path) -> None:
    with closing(sqlite3.connect(place)) as connection:
        connection.execute("PRAGMA user_version = 9")


def _no_tables(place: Path) -> None:
    with closing(sqlite3.connect(place)) as connection:
        connection.execute("DROP TABLE history")


def _no_head(place: Path) -> None:
    with closing(sqlite3.connect(place)) as connection:
        connection.execute("DELETE FROM head")
        connection.commit()


def _cut(place: Path) -> None:
    place.write_bytes(place.read_bytes()[:9000])


def _garbled(place: Path) -> None:
    content = bytearray(place.read_bytes())
    content[4096:] = bytes(len(content) - 4096)
    place.write_bytes(content)


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (_text, "damaged or foreign"),
        (_empty, "is not a dptally ledger"),
        (_other, "is not a dptally ledger"),
        (_newer, "has format version 9, and this dptally reads versions up to 3"),
        (_no_tables, "its tables are not those of one"),
        (_no_head, "rows are missing"),
        (_cut, "damaged"),
        (_garbled, "damaged"),
    ],
)
def test_foreign_and_damaged_files(place: Path, damage: Callable[[Path], None], message: str) -> None:
    """One sentence for each, and no traceback of SQLite."""
    damage(place)
    with pytest.raises(UnreadableLedger, match=message) as caught:
        Ledger(place)
    assert str(caught.value).endswith(".") and caught.value.__cause__ is None


def test_a_directory_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where nothing can be written no ledger is made, and one that is there does not spend."""
    import os

    if os.geteuid() == 0:
        real = os.open

        def refuse(path: object, flags: int, *rest: object, **named: Any) -> int:
            if flags & os.O_CREAT:
                raise PermissionError(13, "Permission denied", str(path))
            return real(path, flags, *rest, **named)  # type: ignore[arg-type]

        monkeypatch.setattr(os, "open", refuse)
    else:
        tmp_path.chmod(0o500)
    with pytest.raises(InvalidParameter, match="cannot be made: Permission denied"):
        Ledger(tmp_path / "budget.db", epsilon=1, delta=0)
    assert not list(tmp_path.iterdir())
