"""The file of a ledger: an SQLite database that several processes may use at once.

Rollback journal (``journal_mode=TRUNCATE``), ``synchronous=FULL``: what was committed is in the file itself, whatever
name it is opened by, and SQLite's locks are on the file, not on its name. Rows are appended in immediate transactions,
so a writer sees all rows of others before it decides. "published", "failed" and "void" do not wait for the disk to the
end: if the power fails, "drawn" and "reserved" stand, which count as spent. A journal that a killed process left behind
is rolled back by the next one, under the same name. Under another name it is not seen: so a file with two names (hard
links) is refused, and one that is mounted elsewhere without its note, or with a copy of it, is refused for the note
(`dptally.ledger.note`), which also shows lost rows and older copies.

Ledgers of format 1 had a write-ahead log, which does depend on the name; it is written into the file, and given up,
when such a ledger is opened for writing.

Anyone who can write the ledger, its note and everything that was noted elsewhere can write another history. Against
them only a hash helps that is kept where they cannot write: every release made with a ledger carries one.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import sqlite3
import stat
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

from dptally.errors import DptallyError, InvalidParameter, UnreadableLedger
from dptally.files import sync_directory
from dptally.ledger.history import COLUMNS, FORMAT_VERSION, READABLE, START, Row, row_hash
from dptally.ledger.note import Note, Noted, Place, Turn
from dptally.ledger.schema import APPLICATION, CREATE, INSERT, LARGEST_FILE, SELECT, check_schema, harden

_PATIENCE, _ONE_WAIT = 60.0, 0.25  # seconds to wait for other processes, in all and inside of SQLite
_Answer = TypeVar("_Answer")
_SUPER_JOURNAL = bytes.fromhex("d9d505f920a163d7")  # the end of a journal that names another one, to be deleted with it


class Storage:
    """An open ledger file. May be used by several threads, and by a forked child, which opens it again."""

    def __init__(self, path: Path, *, read_only: bool = False) -> None:
        self.path = path
        self.read_only = read_only
        self._file = path.resolve()  # the note and the journal are beside the file, not beside a link to it
        self.note = Note(self._file)
        self._lock = threading.RLock()
        self._process = 0
        self._opened: os.stat_result | None = None
        self._connection: sqlite3.Connection | None = None
        self._left_behind: list[sqlite3.Connection] = []
        self._appended: Place | None = None
        self._has_log = False
        self._connect()

    # ---- making one ----

    @staticmethod
    def create(path: Path, header: Row, version: int = FORMAT_VERSION) -> bool:
        """Make a ledger with its first row and its note, complete or not at all, for its owner alone (mode 0600).

        False if there was a file of that name, by now or before; it is left as it is.
        """
        file = path.resolve()
        directory = file.parent
        if not directory.is_dir():
            raise InvalidParameter(f"{path.parent} is not a directory.")
        hidden = directory / f".{file.name}.{secrets.token_hex(8)}"
        try:
            os.close(os.open(hidden, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
        except OSError as error:
            raise InvalidParameter(f"{path} cannot be made: {error.strerror}.") from None
        note, digest = Note(file), row_hash(START, header, None)
        try:
            with _plain_errors(path), contextlib.closing(sqlite3.connect(hidden, isolation_level=None)) as made:
                made.execute("PRAGMA synchronous = EXTRA")
                made.executescript(f"BEGIN;\n{CREATE};\nPRAGMA user_version = {version};\nCOMMIT;")
                Storage._insert(made, header, digest)
            with note.turn(create=True) as turn:
                if turn is None or file.exists():  # another process was faster
                    return False
                before = turn.read()
                if not turn.empty and (before is None or before.old != (0, START)):
                    raise InvalidParameter(
                        f"{note.path} is there without its ledger, which was moved or removed: put the ledger back; "
                        "or, if nothing more may be said about its data, move the note away too."
                    )
                try:
                    turn.write((0, START), (0, digest), wait=True)
                    hidden.rename(file)  # nobody else makes one while the note is locked
                except BaseException:
                    if not file.exists():  # a note without a ledger would be in the way of the next attempt
                        note.path.unlink(missing_ok=True)
                    raise
                sync_directory(directory)
                turn.write((0, digest), (0, digest), wait=True)
        except OSError as error:
            raise InvalidParameter(f"{path} cannot be made: {error.strerror}.") from None
        finally:
            for suffix in ("", "-journal"):
                hidden.with_name(hidden.name + suffix).unlink(missing_ok=True)
        return True

    # ---- reading and appending ----

    def rows(self, start: int) -> Iterator[tuple[Row, str]]:
        """Rows from a number on, in order, with their hashes; not yet verified; inside a transaction."""
        with _plain_errors(self.path):
            for columns in self._connect().execute(SELECT, (start,)):
                yield Row(*columns[:-1]), columns[-1]

    def head(self) -> Place | None:
        """Number and hash of the last row, as the second table has them; inside a transaction."""
        with _plain_errors(self.path):
            found: list[Place] = self._connect().execute("SELECT sequence, hash FROM head").fetchmany(2)
        return found[0] if len(found) == 1 else None

    @contextlib.contextmanager
    def writing(self, *, wait: bool = True, create_note: bool = False) -> Iterator[Noted | None]:
        """A transaction in which no other process writes; on disk when it ends, undone if it fails.

        `wait` is False for what may be lost with the power, as what it says is not needed to be safe: the row before it
        then stands. No row is ever on disk without all before it. A note is made if there is none (`create_note`) only
        for ledgers that never had one, and for owners who ask for it. Yields what the note said before.
        """
        if self.read_only:
            raise InvalidParameter(f"{self.path} was opened for reading only.")
        with self._held(), _plain_errors(self.path):
            connection = self._connect()
            with self.note.turn(create=create_note) as turn:
                self._check_place()
                noted = None if turn is None else turn.read()
                connection.execute(f"PRAGMA synchronous = {'FULL' if wait else 'NORMAL'}")
                _patiently(lambda: connection.execute("BEGIN IMMEDIATE"))
                self._appended = None
                try:
                    check_schema(connection, self.path)
                    before = self.head()
                    yield noted
                    if wait and self._appended is not None and before is not None:
                        self._turn_of(turn).write(before, self._appended, wait=True)
                    _patiently(lambda: connection.execute("COMMIT"))
                except BaseException:
                    if connection.in_transaction:
                        connection.execute("ROLLBACK")
                    raise
                if wait and self._appended is not None:
                    self._turn_of(turn).write(self._appended, self._appended, wait=False)

    @contextlib.contextmanager
    def reading(self) -> Iterator[Noted | None]:
        """A transaction that sees one state of the file; yields what the note said before it began."""
        with self._held(), _plain_errors(self.path):
            connection = self._connect()
            with self.note.turn(write=False) as turn:
                self._check_place()
                noted = None if turn is None else turn.read()
                connection.execute("BEGIN")
                try:
                    _patiently(lambda: check_schema(connection, self.path))
                    yield noted
                finally:
                    if connection.in_transaction:
                        connection.execute("ROLLBACK")
                    if self._has_log:
                        self.disconnect()

    def append(self, row: Row, digest: str) -> None:
        """Append a row, inside `writing`."""
        self._insert(self._connect(), row, digest)
        self._appended = (row.sequence, digest)

    def upgrade(self) -> None:
        """Say in the file's header that it has the newest format, inside `writing`."""
        self._connect().execute(f"PRAGMA user_version = {FORMAT_VERSION}")

    @staticmethod
    def _insert(connection: sqlite3.Connection, row: Row, digest: str) -> None:
        connection.execute(INSERT, (*(getattr(row, name) for name in COLUMNS), digest))
        connection.execute("INSERT OR REPLACE INTO head VALUES (1, ?, ?)", (row.sequence, digest))

    def _turn_of(self, turn: Turn | None) -> Turn:
        if turn is None:
            raise UnreadableLedger(f"{self.path} has no note beside it.")
        return turn

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
            self._connection = None
        with _plain_errors(self.path), self.note.turn(write=not self.read_only):
            found = self._stat()
            _refuse_super_journal(self._file, self.path)
            if self.read_only:
                connection = self._open_for_reading()
            else:
                connection = self._open("rw")
                self._give_up_log(connection)
        self._connection, self._process, self._opened = connection, os.getpid(), found
        return connection

    def _open(self, mode: str) -> sqlite3.Connection:
        connection = sqlite3.connect(
            f"{self._file.as_uri()}?mode={mode}",
            uri=True,
            isolation_level=None,
            timeout=_ONE_WAIT,
            check_same_thread=False,
        )
        try:
            harden(connection)
            (application,) = _patiently(lambda: connection.execute("PRAGMA application_id").fetchone())
            (version,) = _patiently(lambda: connection.execute("PRAGMA user_version").fetchone())
            if application != APPLICATION:
                raise UnreadableLedger(f"{self.path} is not a dptally ledger.")
            if version not in READABLE:
                raise UnreadableLedger(
                    f"{self.path} has format version {version}, and this dptally reads versions up to "
                    f"{READABLE[-1]}; a newer dptally may read it."
                )
        except BaseException:
            connection.close()
            raise
        return connection

    def _open_for_reading(self) -> sqlite3.Connection:
        try:
            connection = self._open("ro")
        except sqlite3.OperationalError as error:
            if getattr(error, "sqlite_errorcode", None) != sqlite3.SQLITE_READONLY_ROLLBACK:
                raise
            self._open("rw").close()  # rolls back what a killed process has left half-written, as any writer would
            connection = self._open("ro")
        connection.execute("PRAGMA query_only = ON")
        # Of format 1: as long as a connection is open nobody can give up the log.
        self._has_log = connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        return connection

    def _give_up_log(self, connection: sqlite3.Connection) -> None:
        try:
            connection.execute("BEGIN")
            _patiently(lambda: check_schema(connection, self.path))
            connection.execute("ROLLBACK")
            for mode in ("DELETE", "TRUNCATE"):
                _patiently(lambda: connection.execute(f"PRAGMA journal_mode = {mode}"))  # noqa: B023
        except BaseException:
            connection.close()
            raise

    def _stat(self) -> os.stat_result:
        """What is at the path. Not by opening it: closing a file drops all locks that this process holds on it."""
        try:
            found = self._file.stat()
        except OSError as error:
            raise InvalidParameter(f"{self.path} cannot be opened: {error.strerror}.") from None
        if not stat.S_ISREG(found.st_mode):
            raise UnreadableLedger(f"{self.path} is not a file.")
        if found.st_nlink != 1:
            raise UnreadableLedger(
                f"{self.path} has {found.st_nlink} names (hard links): under each of them a crash would be noticed "
                "under that name only. Remove all names but one."
            )
        if found.st_size > LARGEST_FILE:
            raise UnreadableLedger(f"{self.path} is larger than a ledger can be ({LARGEST_FILE >> 20} MiB).")
        return found

    def _check_place(self) -> None:
        """Refuse to go on with a file that is no longer the one at the path."""
        if self._opened is None or not os.path.samestat(self._stat(), self._opened):
            raise UnreadableLedger(f"{self.path} was replaced by another file while it was in use.")

    def disconnect(self) -> None:
        """Give the file back; the next use opens it again."""
        with self._held():
            if self._connection is not None and self._process == os.getpid():
                self._connection.close()
            self._connection = None


def _refuse_super_journal(file: Path, path: Path) -> None:
    """Refuse a journal that names another one: rolling it back would delete whatever file it names.

    A transaction on one database, as all of a ledger are, never leaves one.
    """
    journal = file.with_name(file.name + "-journal")
    try:
        descriptor = os.open(journal, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    except OSError as error:
        raise InvalidParameter(f"{journal} cannot be read: {error.strerror}.") from None
    try:
        found = os.fstat(descriptor)
        journal_of_one = stat.S_ISREG(found.st_mode) and (
            os.pread(descriptor, len(_SUPER_JOURNAL), max(0, found.st_size - len(_SUPER_JOURNAL))) != _SUPER_JOURNAL
        )
    finally:
        os.close(descriptor)
    if not journal_of_one:
        raise UnreadableLedger(f"{journal.name} is not the journal of {path}; move it away.")


def _patiently(action: Callable[[], _Answer]) -> _Answer:
    """Do what needs a lock, as soon as others let go of it; in pieces, as SQLite hears no signal while it waits."""
    deadline = time.monotonic() + _PATIENCE
    while True:
        try:
            return action()
        except sqlite3.OperationalError as error:
            code = getattr(error, "sqlite_errorcode", 0)
            if code & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                raise


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
        if primary in (sqlite3.SQLITE_INTERRUPT, sqlite3.SQLITE_TOOBIG):
            raise UnreadableLedger(f"{path} is not a readable ledger: it holds more than a ledger can.") from None
        if primary in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
            raise DptallyError(f"{path} is in use: another process has not let go of it for {_PATIENCE:g} s.") from None
        if primary in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM):
            raise InvalidParameter(f"{path} cannot be opened for writing, and a ledger must be.") from None
        if primary in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR):
            raise DptallyError(f"{path} could not be written: the disk is full or failing.") from None
        if isinstance(error, sqlite3.OperationalError | sqlite3.DatabaseError):
            raise UnreadableLedger(f"{path} is not a readable ledger: its tables are not those of one.") from None
        raise
