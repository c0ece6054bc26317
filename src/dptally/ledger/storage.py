"""The file of a ledger: an SQLite database that several processes may use at once.

Write-ahead log, ``synchronous=FULL``: "reserved", "drawn" and "closed" are on disk before the call that appended them
returns. "published" and "void" need not be: if the power fails, "drawn" and "reserved" stand, which count as spent.
Rows are appended in immediate transactions, so a writer sees all rows of others before it decides.

What is noticed on opening, beside an edited, removed or moved row, which the chain of hashes shows:

- rows missing at the end: a second table names the last row and its hash, in the same transaction;
- a log that was lost, or an older copy of the file: a small file beside the ledger, ``<name>-head``, names a row that
  was on disk; a ledger that ends before it has lost rows. It is written after each append, without waiting for the
  disk, so it may be behind, never ahead.

Whoever can write the ledger, its head file and everything that was noted elsewhere can write another history. Against
them only a hash helps that is kept where they cannot write: every release made with a ledger carries one.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import secrets
import sqlite3
import threading
from collections.abc import Iterator
from pathlib import Path

from dptally.errors import DptallyError, InvalidParameter, UnreadableLedger
from dptally.ledger.history import COLUMNS, FORMAT_VERSION, START, Row, row_hash

__all__ = ["Storage"]

_APPLICATION = 0x6470746C  # "dptl", in the file's header
_PATIENCE = 60.0  # seconds to wait for other writers
_SCHEMA = f"""
CREATE TABLE history (
    sequence INTEGER PRIMARY KEY, time TEXT NOT NULL, latest TEXT NOT NULL, state TEXT NOT NULL, entry INTEGER NOT NULL,
    who TEXT, source TEXT, unit TEXT, partitioning TEXT, part TEXT, spending TEXT, release_id TEXT, note TEXT,
    hash TEXT NOT NULL
) STRICT;
CREATE TABLE head (one INTEGER PRIMARY KEY CHECK (one = 1), sequence INTEGER NOT NULL, hash TEXT NOT NULL) STRICT;
CREATE TRIGGER never_changed BEFORE UPDATE ON history BEGIN SELECT RAISE(ABORT, 'history is append-only'); END;
CREATE TRIGGER never_removed BEFORE DELETE ON history BEGIN SELECT RAISE(ABORT, 'history is append-only'); END;
PRAGMA application_id = {_APPLICATION};
PRAGMA user_version = {FORMAT_VERSION};
"""
_SELECT = f"SELECT {', '.join(COLUMNS)}, hash FROM history WHERE sequence >= ? ORDER BY sequence"  # noqa: S608 - our names
_INSERT = f"INSERT INTO history VALUES ({', '.join('?' * (len(COLUMNS) + 1))})"  # noqa: S608


class Storage:
    """An open ledger file. May be used by several threads, and by a forked child, which opens it anew.

    Args:
        path: of an existing file.

    Raises:
        UnreadableLedger: if it is not a ledger that this version reads.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.RLock()
        self._process = 0
        self._connection: sqlite3.Connection | None = None
        self._left_behind: list[sqlite3.Connection] = []
        self._connect()

    # ---- making one ----

    @staticmethod
    def create(path: Path, header: Row) -> bool:
        """Make a ledger with its first row, complete or not at all, for its owner alone (mode 0600).

        Returns:
            bool: False if there was a file of that name, by now or before; it is left as it is.

        Raises:
            InvalidParameter: if the directory cannot be written.
        """
        directory = path.parent
        if not directory.is_dir():
            raise InvalidParameter(f"{directory} is not a directory.")
        hidden = directory / f".{path.name}.{secrets.token_hex(8)}"
        try:
            os.close(os.open(hidden, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
        except OSError as error:
            raise InvalidParameter(f"{path} cannot be made: {error.strerror}.") from None
        try:
            with _plain_errors(path), contextlib.closing(sqlite3.connect(hidden, isolation_level=None)) as made:
                made.execute("PRAGMA journal_mode = WAL")
                made.execute("PRAGMA synchronous = FULL")
                made.executescript(_SCHEMA)
                Storage._insert(made, header, row_hash(START, header))
            try:
                os.link(hidden, path)
            except FileExistsError:
                return False
            except OSError as error:
                raise InvalidParameter(f"{path} cannot be made: {error.strerror}.") from None
            _sync_directory(directory)
        finally:
            for suffix in ("", "-wal", "-shm"):
                hidden.with_name(hidden.name + suffix).unlink(missing_ok=True)
        return True

    # ---- reading and appending ----

    def rows(self, start: int) -> list[tuple[Row, str]]:
        """Rows from a number on, in order, with their hashes; not yet verified."""
        with self._held(), _plain_errors(self.path):
            found = self._connect().execute(_SELECT, (start,)).fetchall()
        return [(Row(*columns[:-1]), columns[-1]) for columns in found]

    def head(self) -> tuple[int, str] | None:
        """Number and hash of the last row, as the second table has them."""
        with self._held(), _plain_errors(self.path):
            found: list[tuple[int, str]] = self._connect().execute("SELECT sequence, hash FROM head").fetchall()
        return found[0] if len(found) == 1 else None

    @contextlib.contextmanager
    def writing(self, *, wait: bool = True) -> Iterator[None]:
        """A transaction in which no other process writes; on disk when it ends, undone if it fails.

        Args:
            wait: False for what may be lost with the power, as what it says is not needed to be safe: the row before it
                then stands. No row is ever on disk without all before it.
        """
        with self._held(), self._turn() as note, _plain_errors(self.path):
            connection = self._connect()
            connection.execute(f"PRAGMA synchronous = {'FULL' if wait else 'NORMAL'}")
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield
                connection.execute("COMMIT")
            except BaseException:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                raise
            if wait:
                self._note_head(note)

    @contextlib.contextmanager
    def reading(self) -> Iterator[None]:
        """A transaction that sees one state of the file."""
        with self._held(), _plain_errors(self.path):
            connection = self._connect()
            connection.execute("BEGIN")
            try:
                yield
            finally:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")

    def append(self, row: Row, digest: str) -> None:
        """Append a row, inside `writing`."""
        with self._held():
            self._insert(self._connect(), row, digest)
            self._appended = (row.sequence, digest)

    @staticmethod
    def _insert(connection: sqlite3.Connection, row: Row, digest: str) -> None:
        connection.execute(_INSERT, (*(getattr(row, name) for name in COLUMNS), digest))
        connection.execute("INSERT OR REPLACE INTO head VALUES (1, ?, ?)", (row.sequence, digest))

    # ---- the head file ----

    @property
    def head_file(self) -> Path:
        """The file beside the ledger."""
        return self.path.with_name(self.path.name + "-head")

    def noted_head(self) -> tuple[int, str] | None:
        """Number and hash of a row that was on disk at some time; None if there is no readable note."""
        try:
            number, digest = self.head_file.read_text("ascii").split()
            return int(number), digest
        except (OSError, ValueError):
            return None

    @contextlib.contextmanager
    def _turn(self) -> Iterator[int]:
        """The head file, open, when it is this process's turn to write.

        SQLite's own lock is what keeps writers apart, but it has no queue: among many a process may wait for minutes.
        The lock on the head file is handed on in order.
        """
        try:
            descriptor = os.open(self.head_file, os.O_CREAT | os.O_RDWR, 0o600)
        except OSError as error:
            raise DptallyError(f"{self.head_file} cannot be written: {error.strerror}.") from None
        try:
            with contextlib.suppress(OSError):  # a file system without such locks: then without a queue
                fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield descriptor
        finally:
            os.close(descriptor)

    def _note_head(self, descriptor: int) -> None:
        number, digest = self._appended
        try:
            # One short write of always the same length: never half of it.
            os.pwrite(descriptor, f"{number:020d} {digest}\n".encode(), 0)
        except OSError as error:
            raise DptallyError(f"{self.head_file} cannot be written: {error.strerror}.") from None

    # ---- the connection ----

    def _held(self) -> threading.RLock:
        """The lock of this process; another thread of the parent may have held its lock when the child was forked."""
        if self._process != os.getpid():
            self._lock = threading.RLock()
        return self._lock

    def _connect(self) -> sqlite3.Connection:
        if self._connection is not None and self._process == os.getpid():
            return self._connection
        if self._connection is not None:  # after a fork: the parent's connection must be neither used nor closed here
            self._left_behind.append(self._connection)
        with _plain_errors(self.path):
            connection = sqlite3.connect(
                f"{self.path.absolute().as_uri()}?mode=rw",
                uri=True,
                isolation_level=None,
                timeout=_PATIENCE,
                check_same_thread=False,
            )
            (application,) = connection.execute("PRAGMA application_id").fetchone()
            (version,) = connection.execute("PRAGMA user_version").fetchone()
            if application != _APPLICATION:
                connection.close()
                raise UnreadableLedger(f"{self.path} is not a dptally ledger.")
            if version != FORMAT_VERSION:
                connection.close()
                raise UnreadableLedger(
                    f"{self.path} has format version {version}, and this dptally reads version {FORMAT_VERSION}; "
                    "a newer dptally may read it."
                )
        self._connection, self._process = connection, os.getpid()
        return connection

    def disconnect(self) -> None:
        """Give the file back; the next use opens it again."""
        with self._held():
            if self._connection is not None and self._process == os.getpid():
                self._connection.close()
            self._connection = None


@contextlib.contextmanager
def _plain_errors(path: Path) -> Iterator[None]:
    """Errors of SQLite as one sentence."""
    try:
        yield
    except sqlite3.Error as error:
        code = getattr(error, "sqlite_errorcode", None)
        primary = None if code is None else code & 0xFF
        if primary in (sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT):
            raise UnreadableLedger(f"{path} is not a readable ledger: the file is damaged or foreign.") from None
        if primary in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
            raise DptallyError(f"{path} is in use: another process has not let go of it for {_PATIENCE:g} s.") from None
        if primary in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM):
            raise InvalidParameter(f"{path} cannot be opened for writing, and a ledger must be.") from None
        if primary in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR):
            raise DptallyError(f"{path} could not be written: the disk is full or failing.") from None
        if isinstance(error, sqlite3.OperationalError | sqlite3.DatabaseError):
            raise UnreadableLedger(f"{path} is not a readable ledger: its tables are not those of one.") from None
        raise


def _sync_directory(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
