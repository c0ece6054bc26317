"""Results of a database driver as a stream of Arrow batches that can be left at any time.

A driver may wait for its database for minutes inside one call. The call is made in a thread of its own, and whoever
reads the stream waits for that thread in small steps: when the work is stopped, the statement is cancelled where the
driver can do that, and otherwise the thread closes its connection as soon as the call returns.
"""

from __future__ import annotations

import contextlib
import importlib
import queue
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa

from dptally.errors import DptallyError, InvalidSource, MissingDependency

__all__ = ["Explain", "Stream", "driver", "fetch", "schema_of"]

Explain = Callable[[BaseException], DptallyError]
_AHEAD = 2  # batches read before they are asked for
_PATIENCE = 2.0  # seconds that closing waits for a call of the driver to return


def driver(name: str, database: str) -> Any:
    """Import the DB-API module of an ADBC driver.

    Raises:
        MissingDependency: it is not installed.
    """
    try:
        return importlib.import_module(f"adbc_driver_{name}.dbapi")
    except ImportError:
        pass
    raise MissingDependency(f"reading {database} needs its driver: pip install 'dptally[databases]'.")


def fetch(connection: Any, sql: str, explain: Explain) -> list[dict[str, Any]]:
    """Run a statement with a small result, or with none."""
    failure: DptallyError | None = None
    try:
        with connection.cursor() as cursor:
            cursor.execute(sql)
            rows: list[dict[str, Any]] = cursor.fetch_arrow_table().to_pylist()
            return rows
    except Exception as error:  # drivers raise more than their own errors
        failure = explain(error)
    raise failure


def schema_of(connection: Any, sql: str, explain: Explain) -> pa.Schema:
    """The columns of a query's result, without running it."""
    failure: DptallyError | None = None
    try:
        with connection.cursor() as cursor:
            return cursor.adbc_execute_schema(sql)
    except Exception as error:
        failure = explain(error)
    raise failure


def _reader(cursor: Any) -> Any:
    # The driver's own reader raises its own errors, which carry a code; the Arrow reader inside it only has their text.
    own = getattr(getattr(cursor, "_results", None), "reader", None)
    return cursor.fetch_record_batch() if own is None else own


class Stream:
    """The result of one statement, on a connection of its own, from the first batch that is asked for on.

    Args:
        connect: makes the connection.
        sql: the statement.
        schema: what its columns must be; batches that differ are an error.
        explain: turns the driver's errors into ours.
    """

    def __init__(self, connect: Callable[[], Any], sql: str, schema: pa.Schema, explain: Explain) -> None:
        self._connect = connect
        self._sql = sql
        self._schema = schema
        self._explain = explain
        self._ready: queue.Queue[pa.RecordBatch | DptallyError | None] = queue.Queue(maxsize=_AHEAD)
        self._stopped = threading.Event()
        self._cursor: Any = None
        self._lock = threading.Lock()  # a cursor must not be cancelled while it is closed
        self._thread: threading.Thread | None = None

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the batches as they come, once.

        Raises:
            InvalidSource: the database failed, or the stream was stopped.
        """
        self._thread = threading.Thread(target=self._read, name="dptally-database", daemon=True)
        self._thread.start()
        try:
            while True:
                item = self._next()
                if item is None:
                    return
                if isinstance(item, DptallyError):
                    raise item
                yield item
        finally:
            self.close()

    def _next(self) -> pa.RecordBatch | DptallyError | None:
        while not self._stopped.is_set():
            with contextlib.suppress(queue.Empty):
                return self._ready.get(timeout=0.1)
        return InvalidSource("reading the database was stopped.")

    def _read(self) -> None:
        connection = cursor = None
        outcome: DptallyError | None = None
        try:
            connection = self._connect()
            cursor = connection.cursor()
            with self._lock:
                self._cursor = cursor
            cursor.execute(self._sql)
            for batch in _reader(cursor):
                if batch.schema.types != self._schema.types:
                    raise InvalidSource("the columns of the database changed while it was read.")
                self._offer(pa.RecordBatch.from_arrays(batch.columns, schema=self._schema))
                if self._stopped.is_set():
                    break
        except DptallyError as error:
            outcome = error
        except Exception as error:  # drivers raise more than their own errors
            outcome = self._explain(error)
        with self._lock:
            self._cursor = None
        for opened in (cursor, connection):
            if opened is not None:
                with contextlib.suppress(Exception):  # a lost connection cannot be closed in order
                    opened.close()
        self._offer(outcome)

    def _offer(self, item: pa.RecordBatch | DptallyError | None) -> None:
        while not self._stopped.is_set():
            with contextlib.suppress(queue.Full):
                self._ready.put(item, timeout=0.1)
                return

    def cancel(self) -> None:
        """Stop, from any thread."""
        self._stopped.set()
        with self._lock:
            if self._cursor is not None:
                with contextlib.suppress(Exception):  # not every driver can; the thread ends after its call then
                    self._cursor.adbc_cancel()

    def close(self) -> None:
        """Stop, and wait a moment for the connection to be closed. May be called again."""
        self._stopped.set()
        thread, deadline = self._thread, time.monotonic() + _PATIENCE
        while thread is not None and thread.is_alive() and time.monotonic() < deadline:
            self.cancel()  # again and again: a statement that had not started yet does not hear the first one
            thread.join(timeout=0.05)
