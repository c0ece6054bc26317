"""Results of a database driver as a stream of Arrow batches that can be left at any time.

A driver may wait for its database for minutes inside one call. The call is made in a thread of its own; when the work
is stopped, the statement is cancelled where the driver can do that, and otherwise the thread closes its connection as
soon as the call returns.
"""

from __future__ import annotations

import contextlib
import importlib
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa

from dptally.errors import DptallyError, InvalidSource, MissingDependency, attempt
from dptally.sources.background import in_background

Explain = Callable[[BaseException], DptallyError]
_PATIENCE = 2.0  # seconds that closing waits for a call of the driver to return


def driver(name: str, database: str) -> Any:
    """Import the DB-API module of an ADBC driver."""
    try:
        return importlib.import_module(f"adbc_driver_{name}.dbapi")
    except ImportError:
        pass
    raise MissingDependency(f"reading {database} needs its driver: pip install 'dptally[databases]'.")


def fetch(connection: Any, sql: str, explain: Explain) -> list[dict[str, Any]]:
    """Run a statement with a small result, or with none."""

    def rows() -> Any:
        with connection.cursor() as cursor:
            cursor.execute(sql)
            return cursor.fetch_arrow_table().to_pylist()

    found: list[dict[str, Any]] = attempt(rows, explain)  # drivers raise more than their own errors
    return found


def schema_of(connection: Any, sql: str, explain: Explain) -> pa.Schema:
    """The columns of a query's result, without running it."""

    def schema() -> pa.Schema:
        with connection.cursor() as cursor:
            return cursor.adbc_execute_schema(sql)

    return attempt(schema, explain)


def _reader(cursor: Any) -> Any:
    # The driver's own reader raises its own errors, which carry a code; the Arrow reader inside it only has their text.
    own = getattr(getattr(cursor, "_results", None), "reader", None)
    return cursor.fetch_record_batch() if own is None else own


class Stream:
    """The result of one statement, on a connection of its own, from the first batch that is asked for on.

    `explain` turns the driver's errors into ours; batches whose columns differ from `schema` are an error.
    """

    def __init__(self, connect: Callable[[], Any], sql: str, schema: pa.Schema, explain: Explain) -> None:
        self._connect, self._sql, self._schema, self._explain = connect, sql, schema, explain
        self._stopped = threading.Event()
        self._cursor: Any = None
        self._lock = threading.Lock()  # a cursor must not be cancelled while it is closed
        self._running: Any = None

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the batches as they come, once; fails if the stream is stopped."""
        self._running = in_background(
            self._rows(), interrupt=self.cancel, waiting=self._check_running, patience=_PATIENCE
        )
        return self._running  # type: ignore[no-any-return]

    def _check_running(self) -> None:
        if self._stopped.is_set():
            raise InvalidSource("reading the database was stopped.")

    def _rows(self) -> Iterator[pa.RecordBatch]:
        connection = cursor = None
        failure: DptallyError | None = None
        try:
            connection = self._connect()
            cursor = connection.cursor()
            with self._lock:
                self._cursor = cursor
            cursor.execute(self._sql)
            for batch in _reader(cursor):
                if batch.schema.types != self._schema.types:
                    raise InvalidSource("the columns of the database changed while it was read.")
                yield pa.RecordBatch.from_arrays(batch.columns, schema=self._schema)
        except DptallyError as error:
            failure = error
        except Exception as error:  # drivers raise more than their own errors
            failure = self._explain(error)
        finally:
            with self._lock:
                self._cursor = None
            for opened in (cursor, connection):
                if opened is not None:
                    with contextlib.suppress(Exception):  # a lost connection cannot be closed in order
                        opened.close()
        if failure is not None:
            raise failure

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
        if self._running is not None:
            with contextlib.suppress(ValueError):  # another thread is reading: it sees that it has to stop
                self._running.close()
