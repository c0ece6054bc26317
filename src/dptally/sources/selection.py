"""What is read of a database: the table or query, and its columns in their roles."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from dptally.errors import InvalidParameter, InvalidSource
from dptally.sources.columns import quote_identifier

_NAME = re.compile(r'"((?:[^"]|"")+)"|([^".]+)')
_QUOTED = re.compile(
    r"""'(?:[^']|'')*' | "(?:[^"]|"")*" | --[^\n]* | /\*.*?\*/ | \$([A-Za-z_]*)\$.*?\$\1\$""", re.DOTALL | re.VERBOSE
)


@dataclass(frozen=True, repr=False)
class Selection:
    """What is read of a database: SQL to read from, and the columns in their roles."""

    relation: str  # a quoted table name, or a query in parentheses
    table: str | None  # the table as it was named, or None for a query
    key: tuple[str, ...]  # names of the key columns
    unit: str | None  # name of the unit's column, or None
    count: str | None  # name of the column of counts, or None
    values: tuple[str, ...] = ()  # names of columns that are summed
    every_row: bool = False  # whether equal rows of a unit count one by one
    also: tuple[str, ...] = ()  # names of the columns that a filter looks at

    @property
    def columns(self) -> tuple[str, ...]:
        """All wanted columns, in the order of a `Scan`."""
        return (*self.key, *(name for name in (self.unit, self.count) if name is not None), *self.values, *self.also)

    @property
    def plain(self) -> bool:
        """Whether keys can be counted where they are."""
        return self.unit is None and self.count is None and not self.every_row

    @property
    def pairs(self) -> bool:
        """Whether each pair of a unit and its keys is enough."""
        return self.unit is not None and not self.every_row

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


def selection_of(
    key: tuple[str, ...],
    unit: str | None,
    count: str | None,
    table: str | None,
    query: str | None,
    values: tuple[str, ...] = (),
    also: tuple[str, ...] = (),
    *,
    every_row: bool = False,
) -> Selection:
    """Read a request for a table or a query.

    A table is a name such as "events" or "schema.events", where a part in double quotes may hold a dot.
    """
    if (table is None) == (query is None):
        raise InvalidParameter("a database needs either table, the name of one, or query, a SELECT statement.")
    for role, given in (("table", table), ("query", query)):
        if given is not None and (not isinstance(given, str) or not given.strip() or "\0" in given):
            raise InvalidParameter(f"{role} must be text that is not empty.")
    if query is not None:
        # On lines of its own, so that a comment at its end does not hide the parenthesis.
        return Selection(f"(\n{check_only_one_statement(query)}\n)", None, key, unit, count, values, every_row, also)
    assert table is not None  # noqa: S101 - for the type checker
    name = ".".join(map(quote_identifier, table_parts(table)))
    return Selection(name, table, key, unit, count, values, every_row, also)


def table_parts(table: str) -> tuple[str, ...]:
    """Split "schema.table" at the dot; parts in double quotes are taken as they are."""
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
    """Return a query without the semicolon at its end."""
    end = len(query)
    # The same length as the query: what is quoted or a comment is blanked out.
    bare = _QUOTED.sub(lambda found: " " * len(found[0]), query)
    while bare[:end].rstrip().endswith(";"):
        end = len(bare[:end].rstrip()) - 1
    if ";" in bare[:end]:
        raise InvalidParameter("query must be one statement: it has a semicolon before its end.")
    return query[:end]
