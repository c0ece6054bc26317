"""Tables and queries of a SQLite file, through ADBC: SQLite counts, on a connection that may only read.

SQLite gives each value a type of its own. A column is read as the one type it is declared to have; where a declaration
leaves that open (none, DATE, DECIMAL, an expression) the column must hold values of one type. Anything else is refused.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pyarrow as pa
import pyarrow.compute as pc

from dptally.errors import DptallyError, InvalidParameter, InvalidSource
from dptally.sources.adbc_streams import Stream, driver, fetch
from dptally.sources.columns import quote_identifier, require_columns
from dptally.sources.databases import Selection
from dptally.sources.engine import Session
from dptally.sources.scan import Scan

__all__ = ["open_sqlite"]

_VIEW = "dptally_source"
_ARROW = {"integer": pa.int64(), "real": pa.float64(), "text": pa.string(), "blob": pa.binary()}
_DUCKDB = {"integer": "BIGINT", "real": "DOUBLE", "text": "VARCHAR", "blob": "BLOB"}
# The driver takes the type of a column from the first values it meets: these come first, and are dropped.
_FIRST = {"integer": "1", "real": "0.5", "text": "'x'", "blob": "x'00'"}
_GOOD, _OTHER_TYPE, _FIRST_ROW = 0, 1, 2
_BUSY_MILLISECONDS = 10_000


def open_sqlite(path: Path, selection: Selection) -> Scan:
    """Look up the columns of a table or query and plan the statement that reads it.

    Raises:
        InvalidParameter: a column is not there.
        InvalidSource: the file is no SQLite database, is locked, has no such table, or a column of several types.
        MissingDependency: the driver is not installed.
    """
    source = _Source(path, selection)
    connection = source.connect()
    try:
        kinds = source.kinds(connection)
    finally:
        connection.close()
    plain = selection.unit is None and selection.count is None

    def attach(session: Session) -> str:
        source.stream(session, kinds, counted=False)
        return "SELECT * FROM source"

    def attach_counted(session: Session) -> str:
        source.stream(session, kinds, counted=True)
        return "SELECT * FROM source"

    return Scan(
        types=tuple(_DUCKDB[kind] for kind in kinds),
        attach=attach,
        attach_counted=attach_counted if plain else None,
        unordered=True,
    )


class _Source:
    """A file and what is read of it."""

    def __init__(self, path: Path, selection: Selection) -> None:
        self._path = path
        self._selection = selection

    def connect(self) -> Any:
        """A connection that may only read the file."""
        dbapi = driver("sqlite", "SQLite")
        failure: DptallyError | None = None
        try:
            connection = dbapi.connect(f"file:{quote(str(self._path))}?mode=ro")
        except Exception:
            failure = InvalidSource(f"the SQLite database '{self._path}' cannot be opened.")
        if failure is not None:
            raise failure
        try:
            fetch(connection, f"PRAGMA busy_timeout = {_BUSY_MILLISECONDS}", self.explain)
        except DptallyError:
            connection.close()
            raise
        return connection

    def kinds(self, connection: Any) -> tuple[str, ...]:
        """The storage class of each wanted column: declared, or else the only one there is."""
        # A view in this connection's own temporary schema: SQLite tells the declared types of its columns.
        view = f"CREATE TEMP VIEW {_VIEW} AS SELECT * FROM {self._selection.relation} AS q"  # noqa: S608
        fetch(connection, view, self.explain)
        described = fetch(connection, f"PRAGMA temp.table_xinfo('{_VIEW}')", self.explain)
        require_columns(self._selection.columns, [row["name"] for row in described])
        declared = {row["name"]: _declared_class(row["type"] or "") for row in described}
        kinds = []
        for name in self._selection.columns:
            kinds.append(declared[name] or self._only_class(connection, name))
        return tuple(kinds)

    def _only_class(self, connection: Any, name: str) -> str:
        column = quote_identifier(name)
        sql = f"SELECT DISTINCT typeof({column}) AS kind FROM {_VIEW} WHERE {column} IS NOT NULL"  # noqa: S608
        found = [row["kind"] for row in fetch(connection, sql, self.explain)]
        if len(found) == 1:
            return str(found[0])
        # Not taken for text where there are none: the type of a release must not depend on whether there is a row.
        problem = "values of several types" if found else "no value, so that its type is unknown"
        raise InvalidSource(
            f"column '{name}' is declared without one type and holds {problem}; read CAST({name} AS TEXT) in a query."
        )

    def stream(self, session: Session, kinds: tuple[str, ...], *, counted: bool) -> None:
        """Register the rows, or the counted keys, as the table "source"."""
        names = [f"c{i}" for i in range(len(kinds))]
        sql = self._statement(kinds, counted=counted)
        fields = [pa.field(name, _ARROW[kind]) for name, kind in zip(names, kinds, strict=True)]
        if counted:
            fields.append(pa.field("w", pa.int64()))
        received = pa.schema([*fields, pa.field("state", pa.int64())])
        stream = Stream(self.connect, sql, received, self.explain)
        session.keep(stream)
        session.register_stream("source", pa.schema(fields), self._checked(stream.batches()))

    def _statement(self, kinds: tuple[str, ...], *, counted: bool) -> str:
        selection = self._selection
        columns = [f"q.{quote_identifier(name)}" for name in selection.columns]
        values = [
            f"CASE WHEN typeof({column}) = '{kind}' THEN {column} END"
            for column, kind in zip(columns, kinds, strict=True)
        ]
        other = [f"typeof({column}) NOT IN ('{kind}', 'null')" for column, kind in zip(columns, kinds, strict=True)]
        listed = ", ".join(f"{value} AS c{i}" for i, value in enumerate(values))
        rows = f"SELECT {listed}, {' OR '.join(other)} AS state FROM {selection.relation} AS q"  # noqa: S608
        names = ", ".join(f"c{i}" for i in range(len(kinds)))
        # Bytes decide: the collation of a column may take different texts for equal.
        exact = ", ".join(f"c{i} COLLATE BINARY" for i in range(len(kinds)))
        first = ", ".join(f"{_FIRST[kind]} AS c{i}" for i, kind in enumerate(kinds))
        if counted:
            body = f"SELECT {names}, count(*), max(state) FROM ({rows}) GROUP BY {exact}"  # noqa: S608
            return f"SELECT {first}, 0 AS w, {_FIRST_ROW} AS state UNION ALL {body}"
        body = f"SELECT {names}, state FROM ({rows})"  # noqa: S608
        if selection.unit is not None:
            unit = f"c{len(selection.key)}"
            where = f"WHERE {unit} IS NOT NULL OR state"
            body = f"SELECT {names}, max(state) FROM ({rows}) {where} GROUP BY {exact}"  # noqa: S608
        return f"SELECT {first}, {_FIRST_ROW} AS state UNION ALL {body}"

    def _checked(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            state = batch.column(batch.num_columns - 1)
            if pc.any(pc.equal(state, _OTHER_TYPE)).as_py():
                raise InvalidSource(
                    "a column of the SQLite database holds values of other types than it is declared to have; "
                    "read CAST(... AS TEXT) in a query."
                )
            rows = batch.filter(pc.equal(state, _GOOD))
            yield rows.select(range(batch.num_columns - 1))

    def explain(self, error: BaseException) -> DptallyError:
        """Turn an error of the driver into a sentence without data."""
        text = str(error).split("\nquery:")[0]  # what follows is the caller's own
        if "not a database" in text or "malformed" in text or "disk image" in text:
            return InvalidSource(f"'{self._path}' is not a SQLite database, or it is damaged.")
        if "locked" in text or "busy" in text:
            return InvalidSource(
                f"the SQLite database '{self._path}' is locked by another connection; try again later."
            )
        if "no such table" in text or "unknown database" in text:
            return self._selection.missing()
        if "no such column" in text:
            return InvalidSource("the query names a column that the database does not have.")
        if "syntax error" in text or "incomplete input" in text or "unrecognized token" in text:
            return InvalidParameter("SQLite does not accept the query: its SQL is not one SELECT statement.")
        return InvalidSource(f"the SQLite database '{self._path}' could not be read as asked.")


def _declared_class(declared: str) -> str | None:
    """The one storage class that SQLite's rules of affinity lead to, or None where they leave it open."""
    upper = declared.upper()
    if "INT" in upper:
        return "integer"
    if any(part in upper for part in ("CHAR", "CLOB", "TEXT")):
        return "text"
    if any(part in upper for part in ("REAL", "FLOA", "DOUB")):
        return "real"
    return None
