"""What is on disk, read without the code under test: SQLite, SHA-256, Parquet and plain files.

Every function returns violations, one sentence each; none is good.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import shutil
import sqlite3
import stat
from contextlib import closing
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any

__all__ = [
    "Books",
    "LedgerWatch",
    "hidden_files",
    "left_in",
    "read_books",
    "read_release",
    "read_sketch",
    "written_files",
]

_NEXT = {
    "reserved": {"drawn", "failed", "void"},
    "drawn": {"published", "failed"},
    "failed": {"void"},
    "published": set[str](),
    "void": set[str](),
}
_OF_THE_LEDGER = {"closed", "upgraded", "note restored"}
_NEED_NOT_WAIT = {"published", "failed", "void"}
_SECOND_SLOT, _SLOT = 4096, 512


@dataclass
class Spent:
    """A spending as the rows say it."""

    state: str
    epsilon: Fraction
    delta: Fraction
    release_id: str
    entry_hash: str


@dataclass
class Books:
    """A ledger's history, added up here.

    Attributes:
        ledger_id: its name.
        budget: epsilon and delta.
        spent: every spending by its number.
        rows: how many rows there are.
        late: rows whose time is before that of an earlier row.
        violations: what is wrong with it.
    """

    ledger_id: str = ""
    budget: tuple[Fraction, Fraction] = (Fraction(0), Fraction(0))
    spent: dict[int, Spent] = field(default_factory=dict)
    rows: int = 0
    late: int = 0
    violations: list[str] = field(default_factory=list)

    @property
    def total(self) -> tuple[Fraction, Fraction]:
        """What counts: all but what is void."""
        counted = [one for one in self.spent.values() if one.state != "void"]
        return (
            sum((one.epsilon for one in counted), Fraction(0)),
            sum((one.delta for one in counted), Fraction(0)),
        )

    def states(self) -> list[str]:
        """The states, in order."""
        return [self.spent[number].state for number in sorted(self.spent)]


def read_books(ledger: Path, scratch: Path) -> Books:
    """Copy a ledger that no process has open, as it was left, and add up the copy by plain SQL."""
    copy = scratch / "copy.db"
    for suffix in ("", "-journal", "-head"):
        copy.with_name(copy.name + suffix).unlink(missing_ok=True)
    for suffix in ("", "-journal", "-head"):
        if (part := ledger.with_name(ledger.name + suffix)).exists():
            shutil.copyfile(part, copy.with_name(copy.name + suffix))
    books = Books()
    try:
        with closing(sqlite3.connect(copy)) as connection:
            if connection.execute("PRAGMA integrity_check").fetchall() != [("ok",)]:
                books.violations.append("SQLite finds the ledger damaged")
            rows = connection.execute("SELECT * FROM history ORDER BY sequence").fetchall()
            head = connection.execute("SELECT sequence, hash FROM head").fetchall()
            names = [column[1] for column in connection.execute("PRAGMA table_info(history)")]
    except sqlite3.Error as error:
        books.violations.append(f"SQLite cannot read the ledger: {error}")
        return books
    _follow(books, [dict(zip(names, row, strict=True)) for row in rows])
    if head != [(rows[-1][0], rows[-1][-1])]:
        books.violations.append("the ledger's second table does not name its last row")
    books.violations += _check_note(copy.with_name(copy.name + "-head"), rows)
    if books.total[0] > books.budget[0] or books.total[1] > books.budget[1]:
        books.violations.append("more was spent than the budget holds")
    return books


def _check_note(note: Path, rows: list[Any]) -> list[str]:
    """Whether the newer of the two slots names the last row, but for rows that need not wait for the disk."""
    if not note.exists():
        return ["the note is missing"]
    content, slots = note.read_bytes(), []
    for place in (0, _SECOND_SLOT):
        words = content[place : place + _SLOT].decode("ascii", "replace").split()
        if len(words) == 7 and hashlib.sha256(" ".join(words[:6]).encode()).hexdigest() == words[6]:
            slots.append((int(words[1]), {(int(words[2]), words[3]), (int(words[4]), words[5])}))
    if not slots:
        return ["the note is not readable"]
    named, last = max(slots, key=lambda slot: slot[0])[1], len(rows) - 1
    while rows[last][3] in _NEED_NOT_WAIT and (last, rows[last][-1]) not in named:
        last -= 1
    return [] if (last, rows[last][-1]) in named else ["the note names another row than the last one"]


def _follow(books: Books, rows: list[dict[str, Any]]) -> None:
    previous, key = "0" * 64, b""
    for number, row in enumerate(rows):
        columns = json.dumps([value for name, value in row.items() if name != "hash"], separators=(",", ":"))
        covered = bytes.fromhex(previous) + columns.encode()
        previous = (hmac.new(key, covered, "sha256") if key else hashlib.sha256(covered)).hexdigest()
        if row["hash"] != previous or row["sequence"] != number:
            books.violations.append(f"row {number} does not follow from the rows before it")
            return
        books.late += row["time"] < row["latest"]
        facts = json.loads(row["spending"] or "{}")
        key = bytes.fromhex(facts["key"]) if "key" in facts else key
        if row["state"] == "created":
            books.ledger_id = facts["ledger_id"]
            books.budget = Fraction(facts["epsilon"]), Fraction(facts["delta"])
        elif row["state"] == "reserved":
            amount = Fraction(facts["epsilon"]), Fraction(facts["delta"])
            books.spent[row["entry"]] = Spent("reserved", *amount, row["release_id"], row["hash"])
        elif row["state"] in _OF_THE_LEDGER:
            continue
        elif row["state"] in _NEXT[books.spent[row["entry"]].state]:
            books.spent[row["entry"]].state = row["state"]
        else:
            books.violations.append(f"row {number} has a state that cannot follow")
    books.rows = len(rows)


def read_release(path: Path, books: Books, marker: str) -> tuple[list[str], int]:
    """Whether a file is a complete release that the ledger has paid for, without the marker; and its rows."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    packed = path.read_bytes()
    if packed[:4] != b"PAR1" or packed[-4:] != b"PAR1":
        return [f"{path.name} is half a file"], 0
    try:
        table = pq.read_table(pa.BufferReader(packed))
        facts = json.loads(table.schema.metadata[b"dptally"])["guarantee"]
    except (pa.ArrowException, OSError, ValueError, KeyError):
        return [f"{path.name} cannot be read"], 0
    found = []
    record = facts["record"]
    spent = next((one for one in books.spent.values() if one.release_id == record["release_id"]), None)
    if (
        spent is None
        or spent.state not in ("drawn", "published")
        or (record["ledger_id"], record["release_id"], record["entry_hash"])
        != (books.ledger_id, spent.release_id, spent.entry_hash)
        or (Fraction(facts["epsilon"]), Fraction(facts["delta"])) != (spent.epsilon, spent.delta)
    ):
        found.append(f"{path.name} was published, and the ledger has no spending for it")
    if record["entry"] is not None:
        found.append(f"{path.name} tells how many entries there were before it")
    if marker.encode() in packed or any(marker in map(str, column.to_pylist()) for column in table.columns):
        found.append(f"{path.name} has the rare key")
    return found, table.num_rows


def read_sketch(path: Path) -> list[str]:
    """Whether a file is a complete sketch that its owner alone can read."""
    packed, found = path.read_bytes(), []
    if not packed.startswith(b"dptally sketch\0\0") or hashlib.sha256(packed[:-32]).digest() != packed[-32:]:
        found.append(f"{path.name} is half a sketch")
    if stat.S_IMODE(path.stat().st_mode) != 0o600:
        found.append(f"{path.name} can be read by others")
    return found


def hidden_files(directory: Path) -> list[Path]:
    """Files with hidden names: what a file is written under before it has its own."""
    return [path for path in directory.iterdir() if path.name.startswith(".")]


def written_files(directory: Path) -> list[Path]:
    """All files but hidden ones with nothing in them: names that were being tried, before anything was paid for."""
    return [path for path in directory.iterdir() if path.stat().st_size or not path.name.startswith(".")]


def left_in(directory: Path, marker: str) -> list[str]:
    """Files with something in them below a temporary directory, which must be none after a start."""
    found = []
    for path in directory.rglob("*"):
        if path.is_file() and (size := path.stat().st_size):
            rare = marker.encode() in path.read_bytes()
            found.append(f"{size} bytes were left in the temporary directory" + (", the rare key among them" * rare))
    return found


class LedgerWatch:
    """Follows a ledger while a process writes to it."""

    def __init__(self, ledger: Path) -> None:
        self._connection = sqlite3.connect(f"{ledger.absolute().as_uri()}?mode=ro", uri=True, isolation_level=None)

    def last(self) -> tuple[int, str]:
        """Number and state of the last row; -1 as long as the file cannot be read.

        A journal that a killed process has left is rolled back by the next one that writes, not by one that watches.
        """
        try:
            found: tuple[int, str] = self._connection.execute(
                "SELECT sequence, state FROM history ORDER BY sequence DESC LIMIT 1"
            ).fetchone()
        except sqlite3.OperationalError:
            return -1, ""
        return found

    def close(self) -> None:
        """Let go of it."""
        self._connection.close()
