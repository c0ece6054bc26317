"""The private state of a series: one SQLite file of its owner alone, and a note beside it.

What it holds: the secret that noise is made from, identities of the (unit, key) pairs that have counted (128 bits of
AES under that secret, no names of units), every key that has counted with its counts by period, sums of noisy numbers
by which hidden keys are tested, and the noisy numbers of published keys. Everything is in blobs of Arrow, each with its
SHA-256; `head` is a hash of all that was ever written, in order, keyed with the secret. Releases name it, and without
a key anyone could try which rows give it.

A period is one transaction: it is there wholly or not at all, whatever happens to the process or the disk. The note
``FILE-head`` says which head the state had last. It is written before anything of a period is handed out, while a lock
keeps the state from getting another head, so a state that is older than its note was restored from a copy, and is
refused: other rows in a period that was released already would be a second release of it. A state that is one period
ahead of its note was interrupted between the two. Who restores both together cannot be found out.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import json
import os
import secrets
import sqlite3
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

from dptally.errors import DptallyError, InvalidParameter

__all__ = ["FORMAT_VERSION", "State"]

FORMAT_VERSION = 1
_APPLICATION = 0x64707473
_WAIT = 60  # seconds for another process
_START = "0" * 64
_SCHEMA = """
CREATE TABLE facts (name TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE secrets (name TEXT PRIMARY KEY, value BLOB NOT NULL);
CREATE TABLE periods (number INTEGER PRIMARY KEY, name TEXT NOT NULL, digest BLOB NOT NULL, head TEXT NOT NULL,
                      added INTEGER NOT NULL, delivered INTEGER NOT NULL);
CREATE TABLE blobs (kind TEXT NOT NULL, period INTEGER NOT NULL, hash BLOB NOT NULL, body BLOB NOT NULL,
                    PRIMARY KEY (kind, period));
"""


class State:
    """An open state. Reading and writing happen inside of `writing` or `reading`."""

    def __init__(self, path: Path) -> None:
        self.path = path
        if not path.is_file():
            raise InvalidParameter(f"{path} is not a file; dptally series create makes one.")
        if stat.S_IMODE(path.stat().st_mode) & 0o077:
            raise InvalidParameter(f"{path} may be read by others, and it is private: chmod 600 it first.")
        self._note = path.resolve().with_name(f"{path.resolve().name}-head")
        with _explained(path):
            self._connection = _connect(path)
            told = [self._connection.execute(f"PRAGMA {name}").fetchone()[0] for name in _ABOUT]
        if told[0] != _APPLICATION:
            raise InvalidParameter(f"{path} is a database, but not a series.")
        if told[1] != FORMAT_VERSION:
            raise InvalidParameter(f"{path} was written by a newer version of dptally; update this one.")

    @classmethod
    def create(cls, path: Path, facts: dict[str, Any], secret: bytes) -> State:
        """Make a state, complete or not at all, for its owner alone (mode 0600)."""
        file = path.resolve()
        check_free(path)
        hidden = file.with_name(f".{file.name}.{secrets.token_hex(8)}")
        try:
            os.close(os.open(hidden, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
            with _explained(path), contextlib.closing(_connect(hidden)) as made:
                made.executescript(f"BEGIN;{_SCHEMA}COMMIT;")
                made.execute(f"PRAGMA application_id = {_APPLICATION}")
                made.execute(f"PRAGMA user_version = {FORMAT_VERSION}")
                made.execute("INSERT INTO facts VALUES ('series', ?)", (json.dumps(facts),))
                made.execute("INSERT INTO secrets VALUES ('seed', ?)", (secret,))
            os.link(hidden, file)
        except OSError as error:
            raise InvalidParameter(f"{path} cannot be made: {error.strerror}.") from None
        finally:
            for suffix in ("", "-journal"):
                hidden.with_name(hidden.name + suffix).unlink(missing_ok=True)
        made_state = cls(path)
        with made_state.reading():
            made_state._write_note(_START)
        return made_state

    def close(self) -> None:
        """Close the file. May be called again."""
        self._connection.close()

    # ---- transactions ----

    @contextlib.contextmanager
    def writing(self) -> Iterator[None]:
        """One change, seen by nobody before it is complete, and by nobody at all if it fails; one at a time."""
        with _explained(self.path):
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield
                self._connection.execute("COMMIT")
            except BaseException:
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
                raise

    @contextlib.contextmanager
    def reading(self) -> Iterator[None]:
        """A view that does not change."""
        with _explained(self.path):
            self._connection.execute("BEGIN")
            try:
                yield
            finally:
                self._connection.execute("ROLLBACK")

    # ---- facts and periods ----

    def facts(self) -> dict[str, Any]:
        """What the series is: all of it is public."""
        found: dict[str, Any] = json.loads(self._one("SELECT value FROM facts WHERE name = 'series'")[0])
        return found

    def put_facts(self, facts: dict[str, Any]) -> None:
        """Write them again."""
        self._connection.execute("UPDATE facts SET value = ? WHERE name = 'series'", (json.dumps(facts),))

    def seed(self) -> bytes:
        """The secret of all noise, identities and choices."""
        return bytes(self._one("SELECT value FROM secrets WHERE name = 'seed'")[0])

    def periods(self) -> list[tuple[int, str, bytes, bool]]:
        """Number, name, digest of the bounded rows, and whether it was added or left out; in order."""
        rows = self._connection.execute("SELECT number, name, digest, added FROM periods ORDER BY number")
        return [(number, name, bytes(digest), bool(added)) for number, name, digest, added in rows]

    def head(self) -> str:
        """The keyed hash of all that was written."""
        return self._heads()[0]

    def head_of(self, number: int) -> str:
        """The head that the state had after a period."""
        return str(self._one("SELECT head FROM periods WHERE number = ?", number)[0])

    def _heads(self) -> tuple[str, str]:
        """The head, and the one before."""
        rows = self._connection.execute(
            "SELECT head FROM periods WHERE added ORDER BY number DESC LIMIT 2",
        ).fetchall()
        found = [row[0] for row in rows] + [_START, _START]
        return found[0], found[1]

    def delivered(self, number: int) -> bool:
        """Whether what was released in a period has been handed out."""
        return bool(self._one("SELECT delivered FROM periods WHERE number = ?", number)[0])

    def put_delivered(self, number: int) -> None:
        """Say that it has; a transaction of its own."""
        with self.writing():
            self._connection.execute("UPDATE periods SET delivered = 1 WHERE number = ?", (number,))

    def put_period(self, number: int, name: str, digest: bytes, *, added: bool) -> None:
        """Write a period after its blobs."""
        parts = [self.head().encode(), str(number).encode(), name.encode(), digest]
        rows = self._connection.execute("SELECT kind, hash FROM blobs WHERE period = ? ORDER BY kind", (number,))
        parts += [kind.encode() + bytes(found) for kind, found in rows]
        secret = hmac.digest(self.seed(), b"head", "sha256")
        head = hmac.digest(secret, b"".join(hashlib.sha256(part).digest() for part in parts), "sha256").hex()
        row = (number, name, digest, head if added else _START, added)
        self._connection.execute("INSERT INTO periods VALUES (?, ?, ?, ?, ?, 0)", row)

    # ---- blobs ----

    def put(self, kind: str, period: int, table: pa.Table, *, compressed: bool = True) -> None:
        """Write a table of a kind for a period."""
        sink = pa.BufferOutputStream()
        options = pa.ipc.IpcWriteOptions(compression="zstd" if compressed else None)
        with pa.ipc.new_stream(sink, table.schema, options=options) as writer:
            writer.write_table(table)
        body = sink.getvalue()
        row = (kind, period, _hash(kind, period, body), memoryview(body))
        self._connection.execute("INSERT INTO blobs VALUES (?, ?, ?, ?)", row)

    def get(self, kind: str) -> Iterator[tuple[int, pa.Table]]:
        """Tables of a kind with their periods, in order, each checked."""
        rows = self._connection.execute("SELECT period, hash, body FROM blobs WHERE kind = ? ORDER BY period", (kind,))
        for period, expected, body in rows:
            if _hash(kind, period, body) != bytes(expected):
                raise DptallyError(f"{self.path} is damaged: restore it together with its note, or begin a new series.")
            yield period, pa.ipc.open_stream(pa.py_buffer(body)).read_all()

    def drop(self, kind: str, *, before: int | None = None) -> None:
        """Remove the tables of a kind, of all periods or of those before one."""
        limit = (1 << 60) if before is None else before
        self._connection.execute("DELETE FROM blobs WHERE kind = ? AND period < ?", (kind, limit))

    def forget_secret(self) -> None:
        """Remove the seed."""
        self._connection.execute("DELETE FROM secrets")

    def shrink(self) -> None:
        """Write the file again without what was removed."""
        with _explained(self.path):
            self._connection.execute("VACUUM")

    def _one(self, sql: str, *values: object) -> Any:
        found = self._connection.execute(sql, values).fetchone()
        if found is None:
            raise DptallyError(f"{self.path} is damaged: restore it together with its note, or begin a new series.")
        return found

    # ---- the note ----

    def keep_note(self) -> None:
        """Refuse a state that is older than what was handed out, and note the head it has; inside a transaction.

        Before anything of the state is handed out. The transaction, of either kind, keeps others from changing the head
        meanwhile.
        """
        head, before = self._heads()
        try:
            noted = json.loads(self._note.read_text())["head"]
        except (OSError, ValueError, KeyError, TypeError):
            raise InvalidParameter(
                f"{self._note} is missing or damaged, and without it a restored copy cannot be told from the series: "
                "put it back beside the state."
            ) from None
        if noted not in (head, before):
            raise InvalidParameter(
                f"{self.path} was restored from a copy or exchanged: its note says that later periods were released, "
                "and adding them again would use the noise of one period twice. Restore the latest state."
            )
        if noted != head:
            self._write_note(head)

    def _write_note(self, head: str) -> None:
        # Not by `complete_or_absent`, which never replaces what belongs to a database.
        hidden = self._note.with_name(f".{self._note.name}.{secrets.token_hex(8)}")
        try:
            descriptor = os.open(hidden, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
            with os.fdopen(descriptor, "wb") as file:
                file.write(json.dumps({"head": head}).encode())
                file.flush()
                os.fsync(descriptor)
            hidden.replace(self._note)
        except OSError as error:
            raise DptallyError(f"{self._note} could not be written: {error.strerror}.") from None
        finally:
            hidden.unlink(missing_ok=True)


_ABOUT = ("application_id", "user_version")


def check_free(path: Path) -> None:
    """Refuse to make a state where a file is."""
    note = path.resolve().with_name(f"{path.resolve().name}-head")
    for taken in (path, note):
        if taken.exists() or taken.is_symlink():
            raise InvalidParameter(f"{taken} already exists; a series is never replaced.")
    if not path.parent.is_dir():
        raise InvalidParameter(f"{path.parent} is not a directory.")


def _connect(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path, isolation_level=None, timeout=_WAIT, check_same_thread=False)
    for setting in ("synchronous = EXTRA", "secure_delete = ON", "trusted_schema = OFF", "mmap_size = 0"):
        connection.execute(f"PRAGMA {setting}")
    return connection


def _hash(kind: str, period: int, body: Any) -> bytes:
    found = hashlib.sha256(f"{kind} {period};".encode())
    found.update(body)
    return found.digest()


@contextlib.contextmanager
def _explained(path: Path) -> Iterator[None]:
    """Say in a sentence what SQLite found, without anything of the data."""
    try:
        yield
    except sqlite3.Error as error:
        text = str(error)
        if "locked" in text:
            failure: DptallyError = InvalidParameter(f"{path} is in use by another process; try again when it is done.")
        elif "full" in text or "disk I/O" in text:
            failure = DptallyError(f"the disk of {path} is full or cannot be written; nothing was added.")
        elif "readonly" in text or "unable to open" in text:
            failure = InvalidParameter(f"{path} cannot be written.")
        elif isinstance(error, sqlite3.DataError) or "too big" in text:
            failure = DptallyError(f"a period has more pairs than {path} can hold at once; nothing was added.")
        else:
            failure = DptallyError(f"{path} is damaged, or no series.")
    else:
        return
    raise failure
