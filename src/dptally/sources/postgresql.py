"""Tables and queries of PostgreSQL, through ADBC: the server counts, in a read-only transaction.

Without a unit the server sends each distinct key with its count; with one, each distinct pair of unit and key, and the
random choice of keys is made here, by secret bits: the server decides nothing that privacy rests on. Keys are compared
by their bytes (collation "C"), because other collations, citext and char(n) take different texts for equal.
"""

from __future__ import annotations

import os
import re
from contextlib import closing
from functools import partial
from typing import Any

import pyarrow as pa

from dptally.errors import DptallyError, InvalidParameter, InvalidSource, attempt
from dptally.sources.adbc_streams import Stream, driver, fetch, schema_of
from dptally.sources.columns import MAXIMUM_COUNT, quote_identifier, quote_literal, require_columns, unsupported
from dptally.sources.engine import Session, describe
from dptally.sources.scan import Scan
from dptally.sources.selection import Selection

_AS_THEY_ARE = frozenset({
    "bool", "int2", "int4", "int8", "float4", "float8", "bytea", "date", "time", "timestamp", "timestamptz"
})  # fmt: skip
_WITH_INFINITY = frozenset({"date", "timestamp", "timestamptz"})
_JSON = frozenset({"json", "jsonb"})
_AS_TEXT = frozenset({"text", "varchar", "bpchar", "name", "citext", "uuid"}) | _JSON
_SETTINGS = (
    "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY",
    "SET LOCAL client_encoding = 'UTF8'",
    "SET LOCAL lock_timeout = '10s'",
)
_CONNECT_SECONDS = 15
_WIDEST_DECIMAL = 38
_STATES: tuple[tuple[tuple[str, ...], type[InvalidParameter | InvalidSource], str], ...] = (  # the first that fits
    (("42703",), InvalidSource, "the query names a column that the database does not have."),
    (("42501",), InvalidSource, "the database does not let this user read that table."),
    (("55P03",), InvalidSource, "the table is locked by another transaction; try again later."),
    (
        ("57014", "57P01", "57P02", "57P03", "08"),
        InvalidSource,
        "the connection to the database was lost, or the server stopped the statement.",
    ),
    (("42",), InvalidParameter, "PostgreSQL does not accept the query (SQLSTATE {})."),
    (("25",), InvalidParameter, "the query would change the database, and it is opened for reading only."),
    (("53",), InvalidSource, "the database server has too little memory or disk for the work (SQLSTATE {})."),
)
_REFUSED = re.compile(r"authentication failed|no password supplied|pg_hba|role .* does not exist|28P01|28000")


def open_postgresql(url: str, selection: Selection) -> Scan:
    """Look up the columns of a table or query and plan the statement that reads it."""
    source = _Source(url, selection)
    with closing(source.connect()) as connection:
        expressions, sent_as_text = source.expressions(connection)
        plain = selection.plain
        sql = selection.distinct(expressions) if selection.pairs else selection.rows(expressions)
        schema = _without_metadata(schema_of(connection, sql, source.explain))
        counted = selection.counted(expressions) if plain else ""
    types = tuple(sent_as_text[i] or kind for i, kind in enumerate(describe(schema)))
    # A decimal may be NaN or infinite, which is null; JSON stays text, so that its numbers stay as they are written.
    columns = ", ".join(
        f"TRY_CAST(c{i} AS {kind}) AS c{i}" if kind not in (None, "JSON") else f"c{i}"
        for i, kind in enumerate(sent_as_text)
    )

    def attach(session: Session, *, counts: bool = False) -> str:
        fields = schema.append(pa.field("w", pa.int64())) if counts else schema
        stream = Stream(source.connect, counted if counts else sql, fields, source.explain)
        session.keep(stream)
        session.register_stream("source", fields, stream.batches())
        return f"SELECT {columns}{', w' if counts else ''} FROM source"  # noqa: S608

    with_counts = partial(attach, counts=True) if plain else None
    return Scan(types=types, attach=attach, attach_counted=with_counts, unordered=True)


def _without_metadata(schema: pa.Schema) -> pa.Schema:
    return pa.schema([pa.field(field.name, field.type) for field in schema])


class _Source:
    """A server and what is read of it. Its `repr` shows nothing: the URL may hold a password."""

    def __init__(self, url: str, selection: Selection) -> None:
        self._url = _with_timeout(url)
        self._selection = selection

    def connect(self) -> Any:
        """A connection inside a transaction that may only read."""
        dbapi = driver("postgresql", "PostgreSQL")
        connection = attempt(lambda: dbapi.connect(self._url, autocommit=False), _explain_connecting)
        try:
            for setting in _SETTINGS:
                fetch(connection, setting, self.explain)
        except DptallyError:
            connection.close()
            raise
        return connection

    def expressions(self, connection: Any) -> tuple[list[str], list[str | None]]:
        """SQL for the canonical form of each wanted column, and the type of a decimal or JSON that is sent as text."""
        everything = f"SELECT * FROM {self._selection.relation} AS q"  # noqa: S608
        schema = schema_of(connection, everything, self.explain)
        require_columns(self._selection.columns, schema.names)
        expressions: list[str] = []
        sent_as_text: list[str | None] = []
        for name in self._selection.columns:
            metadata = schema.field(name).metadata or {}
            kind = metadata.get(b"POSTGRESQL:type", b"unknown").decode()
            column = f"q.{quote_identifier(name)}"
            sent = "JSON" if kind in _JSON else None
            if kind == "numeric" and name == self._selection.count:
                column = _count(column)
            elif kind == "numeric" and name in self._selection.values:
                column = f"CAST({column} AS pg_catalog.float8)"
            elif kind == "numeric":
                sent = _decimal_type(name, metadata.get(b"POSTGRESQL:typmod"))
                column = f"CAST({column} AS pg_catalog.text)"
            elif kind in _WITH_INFINITY:  # which the driver would make a time of the distant past
                column = f"CASE WHEN pg_catalog.isfinite({column}) THEN {column} END"
            elif kind in _AS_TEXT or (kind not in _AS_THEY_ARE and self._is_enumeration(connection, kind)):
                column = f'CAST({column} AS pg_catalog.text) COLLATE "C"'
            elif kind not in _AS_THEY_ARE:
                raise unsupported(name, kind.removeprefix("_") + ("[]" if kind.startswith("_") else ""))
            expressions.append(column)
            sent_as_text.append(sent)
        return expressions, sent_as_text

    def _is_enumeration(self, connection: Any, kind: str) -> bool:
        sql = f"SELECT 1 AS found FROM pg_catalog.pg_type WHERE typtype = 'e' AND typname = {quote_literal(kind)}"  # noqa: S608
        return bool(fetch(connection, sql, self.explain))

    def explain(self, error: BaseException) -> DptallyError:
        """Turn an error of the driver or the server into a sentence without data and without credentials."""
        state = str(getattr(error, "sqlstate", None) or "")
        if state in ("42P01", "3F000"):
            return self._selection.missing()
        if state in ("", "00000"):
            return InvalidSource("the connection to the database was lost.")
        for beginnings, kind, sentence in _STATES:
            if state.startswith(beginnings):
                return kind(sentence.format(state))
        return InvalidSource(f"the database could not be read as asked (SQLSTATE {state}).")


def _explain_connecting(error: BaseException) -> DptallyError:
    text = str(error)
    if _REFUSED.search(text):
        return InvalidSource("the PostgreSQL server refused the user name or the password.")
    if "does not exist" in text:
        return InvalidSource("the PostgreSQL server has no database of that name.")
    return InvalidSource(
        "the PostgreSQL server could not be reached; check host and port, and that special characters of the URL are "
        "written as %40 and the like."
    )


def _with_timeout(url: str) -> str:
    # Without one, a host that does not answer is waited for without end.
    if "connect_timeout=" in url or "PGCONNECT_TIMEOUT" in os.environ:
        return url
    return f"{url}{'&' if '?' in url else '?'}connect_timeout={_CONNECT_SECONDS}"


def _count(column: str) -> str:
    whole = f"{column} >= 0 AND {column} = pg_catalog.trunc({column})"
    return f"CASE WHEN {whole} THEN CAST(LEAST({column}, {MAXIMUM_COUNT + 1}) AS int8) ELSE -1 END"


def _decimal_type(name: str, modifier: bytes | None) -> str:
    """DuckDB's type for numeric(precision, scale); numeric alone has no fixed scale, so 1.5 and 1.50 would differ."""
    packed = int(modifier or b"-1") - 4
    precision, scale = packed >> 16 & 0xFFFF, packed & 0x7FF
    if packed < 0 or not 1 <= precision <= _WIDEST_DECIMAL or scale > precision:
        raise InvalidSource(
            f"column '{name}' has the type numeric without a fixed number of digits; "
            "cast it to bigint, text or numeric(precision, scale) in a query."
        )
    return f"DECIMAL({precision},{scale})"
