"""Which calls a node has answered, and what that has spent: counted over its lifetime, not over one run.

An answer is written down before a coin is flipped. A process that is killed in between has spent without answering; no
call is ever answered twice. Several processes may share the file.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import sqlite3
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

from dptally.errors import DptallyError, InvalidParameter, InvalidSource
from dptally.federated.limits import Limits
from dptally.federated.messages import Call

__all__ = ["Answers", "default_place"]

_SCHEMA = (
    "CREATE TABLE IF NOT EXISTS answers (attempt BLOB PRIMARY KEY) WITHOUT ROWID",
    "CREATE TABLE IF NOT EXISTS spent (answers INTEGER, epsilon TEXT, delta TEXT)",
    "INSERT INTO spent SELECT 0, '0', '0' WHERE NOT EXISTS (SELECT 1 FROM spent)",
)


class Answers:
    """The record of what was answered.

    Args:
        path: its file, made with mode 0600 if it is missing; None to keep it in memory, as simulations do.

    Raises:
        InvalidSource: the file is no such record, or cannot be written. A node that does not know what it has answered
            does not answer.
    """

    def __init__(self, path: str | Path | None = None) -> None:
        self._path = None if path is None else Path(path)
        self._memory = sqlite3.connect(":memory:", isolation_level=None) if path is None else None
        if self._path is not None:
            try:
                self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                os.close(os.open(self._path, os.O_RDWR | os.O_CREAT, 0o600))
            except OSError:
                raise self._unusable() from None
        with self._transaction() as connection:
            for statement in _SCHEMA:
                connection.execute(statement)

    def record(self, call: Call, limits: Limits) -> None:
        """Write down that a call is answered, if limits allow it.

        Raises:
            InvalidParameter: it was answered before, or is one too many.
            InvalidSource: it cannot be written down.
        """
        with self._transaction() as connection:
            if connection.execute("SELECT 1 FROM answers WHERE attempt = ?", (call.attempt,)).fetchone():
                raise InvalidParameter(
                    "this call was answered before: a second look at fresh coins would not be private."
                )
            answers, *parts = connection.execute("SELECT answers, epsilon, delta FROM spent").fetchone()
            if answers >= limits.answers:
                raise InvalidParameter(f"the node has answered {answers} calls, and may answer no more.")
            epsilon, delta = Fraction(parts[0]) + call.asked.epsilon, Fraction(parts[1]) + call.asked.delta
            if epsilon > limits.epsilon or delta > limits.delta:
                raise InvalidParameter(
                    f"the node may spend epsilon {float(limits.epsilon):.6g} and delta {float(limits.delta):.6g} in "
                    "all, and this call would exceed that."
                )
            connection.execute("INSERT INTO answers VALUES (?)", (call.attempt,))
            spent = (answers + 1, str(epsilon), str(delta))
            connection.execute("UPDATE spent SET answers = ?, epsilon = ?, delta = ?", spent)

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        """All of the block, on disk, or nothing; one process at a time."""
        try:
            with self._connection() as connection:
                connection.execute("BEGIN IMMEDIATE")
                try:
                    yield connection
                except BaseException:
                    connection.execute("ROLLBACK")
                    raise
                connection.execute("COMMIT")
        except DptallyError:
            raise
        except (sqlite3.Error, OSError, TypeError, ValueError):
            raise self._unusable() from None

    @contextlib.contextmanager
    def _connection(self) -> Iterator[sqlite3.Connection]:
        if self._memory is not None:
            yield self._memory
            return
        with contextlib.closing(sqlite3.connect(str(self._path), isolation_level=None, timeout=30)) as connection:
            yield connection

    def _unusable(self) -> InvalidSource:
        return InvalidSource(f"{self._path} cannot be used as the record of what this node has answered.")


def default_place(source: str, table: str | None) -> Path:
    """Where the record of a node is kept that was given no other place: one for each table, whatever is asked of it."""
    home = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    name = hashlib.sha256(f"{Path(source).resolve()}\0{table or ''}".encode()).hexdigest()[:32]
    return Path(home) / "dptally" / "answers" / f"{name}.db"
