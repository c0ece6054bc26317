"""Tables and queries of databases: which database a URL names, which statement reads it, and what may be said about it.

A URL may hold a password, and a query may hold constants of the data. Neither is ever in an error, a `repr` or a log:
errors of drivers and servers, which quote both, are turned into fixed sentences and dropped, not chained.
"""

from __future__ import annotations

import os
import re
from contextlib import closing
from pathlib import Path

from dptally.errors import DptallyError, InvalidParameter, InvalidSource, attempt
from dptally.sources.columns import quote_identifier, require_columns
from dptally.sources.engine import Session
from dptally.sources.postgresql import open_postgresql
from dptally.sources.scan import Scan
from dptally.sources.selection import Selection
from dptally.sources.sqlite_files import open_sqlite

_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.\-]*)://")
_ALIAS = "dptally_source"  # of the tables of a DuckDB file, attached read-only to the session that counts them
_KINDS = {"postgresql": "postgresql", "postgres": "postgresql", "duckdb": "duckdb", "sqlite": "sqlite"}


def is_url(source: object) -> bool:
    """Whether a source is written as a URL, of a database or of something that cannot be read."""
    return isinstance(source, str) and _URL.match(source) is not None


def is_database(source: object) -> bool:
    """Whether a source is the URL of a database that can be read."""
    found = _URL.match(source) if isinstance(source, str) else None
    return found is not None and found[1].lower() in _KINDS


def open_database(url: str, selection: Selection, *, identified: int | None = None) -> Scan:
    """Look up the columns of a table or query; its rows are read later, by a connection of their own.

    The texts of the column at the position `identified`, if it is declared without a type, tell units apart.
    """
    kind = kind_of_url(url)
    if kind == "postgresql":
        return open_postgresql(url, selection)
    path = file_of_url(url)
    if kind == "sqlite":
        return open_sqlite(path, selection, identified=identified)
    return open_duckdb_file(path, selection)


def kind_of_url(url: str) -> str:
    """Which database a URL names.

    Raises:
        InvalidParameter: it is none that can be read.
    """
    found = _URL.match(url)
    kind = _KINDS.get(found[1].lower()) if found else None
    if kind is None:  # the rest of the URL may hold a password
        scheme = found[1] if found else ""
        raise InvalidParameter(
            f"URLs of the kind {scheme}:// cannot be read; databases are postgresql://, duckdb:/// and sqlite:///."
        )
    return kind


def file_of_url(url: str) -> Path:
    """The file a duckdb or sqlite URL names.

    After ``duckdb:///`` comes a path, as elsewhere: ``duckdb:///data/a.db`` is relative, ``duckdb:////data/a.db``
    absolute. Two slashes do as well as three, and where there is no such relative file an absolute one is taken.
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


def open_duckdb_file(path: Path, selection: Selection) -> Scan:
    """Open a table or query of a DuckDB file; counting runs in DuckDB itself, so nothing has to be pushed down."""
    paths = (str(path), f"{path}.wal")
    with closing(Session(paths=paths)) as session:
        _attach(session, path)
        described = _described(session, selection)
    require_columns(selection.columns, [name for name, _ in described])
    known = dict(described)
    expressions = []
    for name in selection.columns:
        # A column may bring a collation that takes different keys for equal.
        collation = ' COLLATE "C"' if known[name] == "VARCHAR" else ""
        expressions.append(f"q.{quote_identifier(name)}{collation}")
    sql = selection.rows(expressions)

    def attach(session: Session) -> str:
        _attach(session, path)
        return sql

    return Scan(types=tuple(known[name] for name in selection.columns), attach=attach, paths=paths, unordered=True)


def _attach(session: Session, path: Path) -> None:
    session.attach(str(path), _ALIAS)
    session.execute(f"USE {_ALIAS}")


def _described(session: Session, selection: Selection) -> list[tuple[str, str]]:
    def explained(_: Exception) -> InvalidSource:
        if selection.table is not None:
            return selection.missing()
        return InvalidSource(
            "the query could not be run by DuckDB: check its SQL and the tables and columns it names; "
            "it may read the tables of this file only."
        )

    return attempt(lambda: session.types(f"SELECT * FROM {selection.relation} AS q"), explained, DptallyError)  # noqa: S608
