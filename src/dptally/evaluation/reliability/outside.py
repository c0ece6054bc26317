"""What is on disk, read without the code under test: SQLite, SHA-256, Parquet and plain files.

Every function returns violations, one sentence each; none is good.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import sqlite3
import stat
from contextlib import closing
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any

__all__ = ["Books", "LedgerWatch", "hidden_files", "left_in", "read_books", "read_release", "read_sketch"]

_NEXT = {"reserved": {"drawn", "void"}, "drawn": {"published"}, "published": set[str](), "void": set[str]()}


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
    for suffix in ("", "-wal", "-shm", "-head"):
        copy.with_name(copy.name + suffix).unlink(missing_ok=True)
    for suffix in ("", "-wal", "-head"):
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
    if (noted := copy.with_name(copy.name + "-head")).exists() and (text := noted.read_text().split()):
        place = int(text[0])
        if place >= len(rows) or rows[place][-1] != text[1]:
            books.violations.append("the head file is ahead of the ledger")
    if books.total[0] > books.budget[0] or books.total[1] > books.budget[1]:
        books.violations.append("more was spent than the budget holds")
    return books


def _follow(books: Books, rows: list[dict[str, Any]]) -> None:
    previous = "0" * 64
    for number, row in enumerate(rows):
        columns = json.dumps([value for name, value in row.items() if name != "hash"], separators=(",", ":"))
        previous = hashlib.sha256(bytes.fromhex(previous) + columns.encode()).hexdigest()
        if row["hash"] != previous or row["sequence"] != number:
            books.violations.append(f"row {number} does not follow from the rows before it")
            return
        books.late += row["time"] < row["latest"]
        facts = json.loads(row["spending"] or "{}")
        if row["state"] == "created":
            books.ledger_id = facts["ledger_id"]
            books.budget = Fraction(facts["epsilon"]), Fraction(facts["delta"])
        elif row["state"] == "reserved":
            amount = Fraction(facts["epsilon"]), Fraction(facts["delta"])
            books.spent[row["entry"]] = Spent("reserved", *amount, row["release_id"], row["hash"])
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
    record, spent = facts["record"], books.spent.get(facts["record"]["entry"])
    if (
        spent is None
        or spent.state not in ("drawn", "published")
        or (record["ledger_id"], record["release_id"], record["entry_hash"])
        != (books.ledger_id, spent.release_id, spent.entry_hash)
        or (Fraction(facts["epsilon"]), Fraction(facts["delta"])) != (spent.epsilon, spent.delta)
    ):
        found.append(f"{path.name} was published, and the ledger has no spending for it")
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
        """Number and state of the last row."""
        found: tuple[int, str] = self._connection.execute(
            "SELECT sequence, state FROM history ORDER BY sequence DESC LIMIT 1"
        ).fetchone()
        return found

    def close(self) -> None:
        """Let go of it."""
        self._connection.close()
