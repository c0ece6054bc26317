"""What the database of a ledger consists of, and nothing else: checked before anything is read from it.

A file that an attacker made may call anything `history`: a view that computes for ever, a table with a trigger or a
generated column. So the definitions in the file must be those below, letter by letter, before a row is asked for; then
rows come from plain tables, in the order of their numbers, and SQLite neither computes nor sorts. What a plain table
can still hold is bounded too: the size of the file, of a value, the number of rows and of SQLite's steps.
"""

from __future__ import annotations

import sqlite3
from pathlib import Path

from dptally.errors import UnreadableLedger
from dptally.ledger.history import COLUMNS

APPLICATION = 0x6470746C  # "dptl", in the file's header
LARGEST_FILE = 1 << 30
LARGEST_TEXT = 1 << 18  # bytes of a value
_STATEMENTS = {  # of all formats so far
    ("table", "history", "history"): """CREATE TABLE history (
    sequence INTEGER PRIMARY KEY, time TEXT NOT NULL, latest TEXT NOT NULL, state TEXT NOT NULL, entry INTEGER NOT NULL,
    who TEXT, source TEXT, unit TEXT, partitioning TEXT, part TEXT, spending TEXT, release_id TEXT, note TEXT,
    hash TEXT NOT NULL
) STRICT""",
    ("table", "head", "head"): (
        "CREATE TABLE head (one INTEGER PRIMARY KEY CHECK (one = 1), sequence INTEGER NOT NULL, hash TEXT NOT NULL) "
        "STRICT"
    ),
    ("trigger", "never_changed", "history"): (
        "CREATE TRIGGER never_changed BEFORE UPDATE ON history BEGIN SELECT RAISE(ABORT, 'history is append-only'); END"
    ),
    ("trigger", "never_removed", "history"): (
        "CREATE TRIGGER never_removed BEFORE DELETE ON history BEGIN SELECT RAISE(ABORT, 'history is append-only'); END"
    ),
}
CREATE = ";\n".join([*_STATEMENTS.values(), f"PRAGMA application_id = {APPLICATION}"])
SELECT = f"SELECT {', '.join(COLUMNS)}, hash FROM history WHERE sequence >= ? ORDER BY sequence"  # noqa: S608 - our names
INSERT = f"INSERT INTO history VALUES ({', '.join('?' * (len(COLUMNS) + 1))})"  # noqa: S608
_LIMITS = {
    sqlite3.SQLITE_LIMIT_LENGTH: LARGEST_TEXT + (1 << 12),
    sqlite3.SQLITE_LIMIT_SQL_LENGTH: 1 << 14,
    sqlite3.SQLITE_LIMIT_ATTACHED: 0,
    sqlite3.SQLITE_LIMIT_TRIGGER_DEPTH: 1,
    sqlite3.SQLITE_LIMIT_WORKER_THREADS: 0,
}
_STEPS = 1 << 16  # of SQLite between two looks at the count
_LOOKS_AT_SCHEMA, _LOOKS_AT_ROWS = 16, 1 << 12  # hundreds of steps for each row of the longest history


class _Steps:
    """Ends a transaction that takes more of SQLite's steps than any on a ledger does."""

    def __init__(self, looks: int) -> None:
        self._left = looks

    def __call__(self) -> bool:
        self._left -= 1
        return self._left < 0


def harden(connection: sqlite3.Connection) -> None:
    """Set a new connection up for a file that an attacker may have made; before its first statement."""
    for limit, most in _LIMITS.items():
        connection.setlimit(limit, most)
    for setting in ("trusted_schema = OFF", "cell_size_check = ON", "mmap_size = 0", "automatic_index = OFF"):
        connection.execute(f"PRAGMA {setting}")


def check_schema(connection: sqlite3.Connection, path: Path) -> None:
    """Refuse a database that holds anything but the tables of a ledger; first in every transaction."""
    connection.set_progress_handler(_Steps(_LOOKS_AT_SCHEMA), _STEPS)
    found = connection.execute("SELECT type, name, tbl_name, sql FROM sqlite_master").fetchmany(len(_STATEMENTS) + 1)
    if len(found) != len(_STATEMENTS) or {row[:3]: row[3] for row in found} != _STATEMENTS:
        raise UnreadableLedger(f"{path} is not a readable ledger: its tables are not those of one.")
    connection.set_progress_handler(_Steps(_LOOKS_AT_ROWS), _STEPS)
