"""Tables and queries of databases: which database a URL names, which statement reads it, and what may be said about it.

A URL may hold a password, and a query may hold constants of the data. Neither is ever in an error, a `repr` or a log:
errors of drivers and servers, which quote both, are turned into fixed sentences and dropped, not chained.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from dptally.errors import InvalidParameter, InvalidSource
from dptally.sources.columns import quote_identifier
from dptally.sources.scan import Scan

__all__ = [
    "Selection",
    "check_only_one_statement",
    "file_of_url",
    "is_database",
    "is_url",
    "open_database",
    "table_parts",
]

_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.\-]*)://")
_KINDS = {"postgresql": "postgresql", "postgres": "postgresql", "duckdb": "duckdb", "sqlite": "sqlite"}
_NAME = re.compile(r'"((?:[^"]|"")+)"|([^".]+)')
_QUOTED = re.compile(
    r"""'(?:[^']|'')*' | "(?:[^"]|"")*" | --[^\n]* | /\*.*?\*/ | \$([A-Za-z_]*)\$.*?\$\1\$""", re.DOTALL | re.VERBOSE
)


@dataclass(frozen=True, repr=False)
class Selection:
    """What is read of a database: SQL to read from, and the columns in their roles.

    Attributes:
        relation: a quoted table name, or a query in parentheses.
        table: the table as it was named, or None for a query.
        key: names of the key columns.
        unit: name of the unit's column, or None.
        count: name of the column of counts, or None.
    """

    relation: str
    table: str | None
    key: tuple[str, ...]
    unit: str | None
    count: str | None

    @property
    def columns(self) -> tuple[str, ...]:
        """All wanted columns, in the order of a `Scan`."""
        return (*self.key, *(name for name in (self.unit, self.count) if name is not None))

    def missing(self) -> InvalidSource:
        """The error for a table or a query that names something the database does not have."""
        if self.table is None:
            return InvalidSource("the query names a table or a column that the database does not have.")
        return InvalidSource(f"there is no table '{self.table}' in the database.")

    def rows(self, expressions: Sequence[str]) -> str:
        """SQL for the wanted columns as c0, c1, ..., one row for each of the table."""
        columns = ", ".join(f"{expression} AS c{i}" for i, expression in enumerate(expressions))
        return f"SELECT {columns} FROM {self.relation} AS q"  # noqa: S608 - quoted names, or the caller's own query

    def distinct(self, expressions: Sequence[str]) -> str:
        """SQL for each pair of a unit and its keys once; rows without a unit are left out."""
        names = ", ".join(f"c{i}" for i in range(len(expressions)))
        unit = f"c{len(self.key)}"
        return f"SELECT {names} FROM ({self.rows(expressions)}) AS r WHERE {unit} IS NOT NULL GROUP BY {names}"  # noqa: S608

    def counted(self, expressions: Sequence[str]) -> str:
        """SQL for each key once, with the number of its rows as w."""
        names = ", ".join(f"c{i}" for i in range(len(expressions)))
        return f"SELECT {names}, count(*) AS w FROM ({self.rows(expressions)}) AS r GROUP BY {names}"  # noqa: S608


def is_url(source: object) -> bool:
    """Whether a source is written as a URL, of a database or of something that cannot be read."""
    return isinstance(source, str) and _URL.match(source) is not None


def is_database(source: object) -> bool:
    """Whether a source is the URL of a database that can be read."""
    found = _URL.match(source) if isinstance(source, str) else None
    return found is not None and found[1].lower() in _KINDS


def open_database(
    url: str,
    *,
    key: Sequence[str],
    unit: str | None,
    count: str | None,
    table: str | None,
    query: str | None,
    identified: str | None = None,
) -> Scan:
    """Look up the columns of a table or query; its rows are read later, by a connection of their own.

    Args:
        url: postgresql://..., duckdb:///file or sqlite:///file.
        key: key columns.
        unit: the unit's column, or None.
        count: the column of counts, or None.
        table: a name such as "events" or "schema.events"; a part in double quotes may hold a dot.
        query: one SELECT statement instead.
        identified: the column whose text, if it is declared without a type, must tell units apart.

    Raises:
        InvalidParameter: the request is contradictory, or a column is not there.
        InvalidSource: the database cannot be reached or opened, or has no such table.
        MissingDependency: the driver is not installed.
    """
    found = _URL.match(url)
    kind = _KINDS.get(found[1].lower()) if found else None
    if kind is None:  # the rest of the URL may hold a password
        scheme = found[1] if found else ""
        raise InvalidParameter(
            f"URLs of the kind {scheme}:// cannot be read; databases are postgresql://, duckdb:/// and sqlite:///."
        )
    selection = _selection(tuple(key), unit, count, table, query)
    if kind == "postgresql":
        from dptally.sources.postgresql import open_postgresql

        return open_postgresql(url, selection)
    path = file_of_url(url)
    if kind == "sqlite":
        from dptally.sources.sqlite_files import open_sqlite

        return open_sqlite(path, selection, identified=identified)
    from dptally.sources.duckdb_files import open_duckdb_file

    return open_duckdb_file(path, selection)


def _selection(
    key: tuple[str, ...], unit: str | None, count: str | None, table: str | None, query: str | None
) -> Selection:
    if (table is None) == (query is None):
        raise InvalidParameter("a database needs either table, the name of one, or query, a SELECT statement.")
    for role, given in (("table", table), ("query", query)):
        if given is not None and (not isinstance(given, str) or not given.strip() or "\0" in given):
            raise InvalidParameter(f"{role} must be text that is not empty.")
    if query is not None:
        # On lines of its own, so that a comment at its end does not hide the parenthesis.
        return Selection(f"(\n{check_only_one_statement(query)}\n)", None, key, unit, count)
    assert table is not None  # noqa: S101 - for the type checker
    return Selection(".".join(map(quote_identifier, table_parts(table))), table, key, unit, count)


def table_parts(table: str) -> tuple[str, ...]:
    """Split "schema.table" at the dot; parts in double quotes are taken as they are.

    Raises:
        InvalidParameter: it is not written that way.
    """
    parts: list[str] = []
    position = 0
    while found := _NAME.match(table, position):
        parts.append(found[1].replace('""', '"') if found[1] is not None else found[2])
        position = found.end()
        if position == len(table) and len(parts) <= 2:
            return tuple(parts)
        if table[position : position + 1] != ".":
            break
        position += 1
    raise InvalidParameter('table must be a name such as events, schema.events or schema."odd.name".')


def check_only_one_statement(query: str) -> str:
    """Return a query without the semicolon at its end.

    Raises:
        InvalidParameter: there is more than one statement.
    """
    end = len(query)
    # The same length as the query: what is quoted or a comment is blanked out.
    bare = _QUOTED.sub(lambda found: " " * len(found[0]), query)
    while bare[:end].rstrip().endswith(";"):
        end = len(bare[:end].rstrip()) - 1
    if ";" in bare[:end]:
        raise InvalidParameter("query must be one statement: it has a semicolon before its end.")
    return query[:end]


def file_of_url(url: str) -> Path:
    """The file a duckdb or sqlite URL names.

    After ``duckdb:///`` comes a path, as elsewhere: ``duckdb:///data/a.db`` is relative, ``duckdb:////data/a.db``
    absolute. Two slashes do as well as three, and where there is no such relative file an absolute one is taken.

    Raises:
        InvalidParameter: it names none.
        InvalidSource: there is no such file.
    """
    kind, _, rest = url.partition("://")
    name = rest.removeprefix("/") if not rest.startswith("//") else rest[1:]
    if not name or name == ":memory:" or "\0" in name:
        raise InvalidParameter(f"a {kind} URL must name a file, as {kind}:///events.db does.")
    path = Path(name)
    if not path.exists() and rest.startswith("/") and Path(rest).exists():
        path = Path(rest)
    if not path.exists():
        raise InvalidSource(f"there is no file '{name}'.")
    if not path.is_file():
        raise InvalidSource(f"'{name}' is not a file.")
    # Not by opening it: closing a file drops every lock that other connections of this process hold on it.
    if not os.access(path, os.R_OK):
        raise InvalidSource(f"'{name}' cannot be opened; check that you may read it.")
    return path.absolute()
