"""Tables and queries of a SQLite file, through ADBC: SQLite counts, on a connection that may only read.

SQLite gives each value a type of its own. A column is read as the one type it is declared to have, and a value of
another is null. Where a declaration leaves the type open (none, BLOB, DATE, DECIMAL, an expression) the values become
text by the rule of `dptally.sources.undeclared`. No value decides how others are read.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pyarrow as pa
import pyarrow.compute as pc

from dptally.errors import DptallyError, InvalidParameter, InvalidSource, attempt
from dptally.sources.adbc_streams import Stream, driver, fetch
from dptally.sources.columns import quote_identifier, require_columns
from dptally.sources.engine import Session
from dptally.sources.scan import Scan
from dptally.sources.selection import Selection
from dptally.sources.undeclared import define_functions, float_expression

_VIEW = "dptally_source"
_ARROW = {"integer": pa.int64(), "real": pa.float64(), "text": pa.string(), "blob": pa.string()}
_DUCKDB = {"integer": "BIGINT", "real": "DOUBLE", "text": "VARCHAR"}
# The driver takes the type of a column from the first values it meets: these come first, and are dropped.
_FIRST = {"integer": "1", "real": "0.5", "text": "'x'", "blob": "'x'"}
_BUSY_MILLISECONDS = 10_000


def open_sqlite(path: Path, selection: Selection, *, identified: int | None = None) -> Scan:
    """Look up the columns of a table or query and plan the statement that reads it.

    The texts of the column at the position `identified`, if it is declared without a type, tell units apart.
    """
    source = _Source(path, selection)
    with closing(source.connect()) as connection:
        kinds = source.kinds(connection)
    columns = [_Column(i, kind) for i, kind in enumerate(kinds)]
    plain = selection.plain
    forms = [f"{column.form(identities=i == identified)} AS c{i}" for i, column in enumerate(columns)]

    def attach(session: Session, *, counted: bool = False) -> str:
        define_functions(session)
        source.stream(session, columns, counted=counted)
        return f"SELECT {', '.join([*forms, 'w'] if counted else forms)} FROM source"  # noqa: S608

    return Scan(
        types=tuple("VARCHAR" if kind is None else _DUCKDB[kind] for kind in kinds),
        attach=attach,
        undeclared=frozenset(i for i, kind in enumerate(kinds) if kind is None),
        attach_counted=partial(attach, counted=True) if plain else None,
        unordered=True,
    )


class _Column:
    """A wanted column as it is sent: one part for each storage class that counts, all others are null in it."""

    def __init__(self, position: int, kind: str | None) -> None:
        kinds = (kind,) if kind is not None else ("integer", "real", "text", "blob")
        self.parts = {f"p{position}_{one}": one for one in kinds}
        self._position, self._declared = position, kind is not None

    def sent(self, column: str) -> list[str]:
        """SQL of SQLite for the parts; bytes are sent as hexadecimal text."""
        return [
            f"CASE WHEN typeof({column}) = '{kind}' THEN {f'lower(hex({column}))' if kind == 'blob' else column} END "
            f"AS {part}"
            for part, kind in self.parts.items()
        ]

    def form(self, *, identities: bool) -> str:
        """SQL of DuckDB for the value: as declared, or as text."""
        if self._declared:
            return next(iter(self.parts))
        whole, number, text, binary = self.parts
        as_text = float_expression(number, identities=identities)
        if identities:
            return f"coalesce('t' || {text}, 'n' || CAST({whole} AS VARCHAR), {as_text}, 'x' || {binary})"
        return f"coalesce({text}, CAST({whole} AS VARCHAR), {as_text}, {binary})"


class _Source:
    def __init__(self, path: Path, selection: Selection) -> None:
        self._path = path
        self._selection = selection

    def connect(self) -> Any:
        dbapi = driver("sqlite", "SQLite")
        connection = attempt(
            lambda: dbapi.connect(f"file:{quote(str(self._path))}?mode=ro"),
            lambda _: InvalidSource(f"the SQLite database '{self._path}' cannot be opened."),
        )
        try:
            fetch(connection, f"PRAGMA busy_timeout = {_BUSY_MILLISECONDS}", self.explain)
        except DptallyError:
            connection.close()
            raise
        return connection

    def kinds(self, connection: Any) -> tuple[str | None, ...]:
        """The storage class that each wanted column is declared to have, or None where that is open."""
        # A view in this connection's own temporary schema: SQLite tells the declared types of its columns.
        view = f"CREATE TEMP VIEW {_VIEW} AS SELECT * FROM {self._selection.relation} AS q"  # noqa: S608
        fetch(connection, view, self.explain)
        described = fetch(connection, f"PRAGMA temp.table_xinfo('{_VIEW}')", self.explain)
        require_columns(self._selection.columns, [row["name"] for row in described])
        declared = {row["name"]: _declared_class(row["type"] or "") for row in described}
        return tuple(declared[name] for name in self._selection.columns)

    def stream(self, session: Session, columns: Sequence[_Column], *, counted: bool) -> None:
        """Register the rows, or the counted keys, as the table "source"."""
        fields = [pa.field(part, _ARROW[kind]) for column in columns for part, kind in column.parts.items()]
        if counted:
            fields.append(pa.field("w", pa.int64()))
        received = pa.schema([*fields, pa.field("first", pa.int64())])
        stream = Stream(self.connect, self._statement(columns, counted=counted), received, self.explain)
        session.keep(stream)
        session.register_stream("source", pa.schema(fields), _without_first(stream.batches()))

    def _statement(self, columns: Sequence[_Column], *, counted: bool) -> str:
        selection = self._selection
        quoted = [f"q.{quote_identifier(name)}" for name in selection.columns]
        values = [part for column, name in zip(columns, quoted, strict=True) for part in column.sent(name)]
        rows = f"SELECT {', '.join(values)} FROM {selection.relation} AS q"  # noqa: S608
        parts = {part: kind for column in columns for part, kind in column.parts.items()}
        names = ", ".join(parts)
        # Bytes decide: the collation of a column may take different texts for equal.
        exact = ", ".join(f"{part} COLLATE BINARY" for part in parts)
        first = ", ".join(f"{_FIRST[kind]} AS {part}" for part, kind in parts.items())
        if counted:
            body = f"SELECT {names}, count(*), 0 FROM ({rows}) GROUP BY {exact}"  # noqa: S608
            return f"SELECT {first}, 0 AS w, 1 AS first UNION ALL {body}"
        body = f"SELECT {names}, 0 FROM ({rows})"  # noqa: S608
        if selection.pairs:
            there = " OR ".join(f"{part} IS NOT NULL" for part in columns[len(selection.key)].parts)
            body = f"SELECT {names}, 0 FROM ({rows}) WHERE {there} GROUP BY {exact}"  # noqa: S608
        return f"SELECT {first}, 1 AS first UNION ALL {body}"

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


def _without_first(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        last = batch.num_columns - 1
        yield batch.filter(pc.equal(batch.column(last), 0)).select(range(last))


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
