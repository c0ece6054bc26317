"""Tables of a DuckDB database file, attached read-only to the locked session that counts them."""

from __future__ import annotations

from pathlib import Path

from dptally.errors import DptallyError, InvalidSource, attempt
from dptally.sources.columns import quote_identifier, require_columns
from dptally.sources.engine import Session
from dptally.sources.scan import Scan
from dptally.sources.selection import Selection

__all__ = ["open_duckdb_file"]

_ALIAS = "dptally_source"


def open_duckdb_file(path: Path, selection: Selection) -> Scan:
    """Open a table or query of a DuckDB file; counting runs in DuckDB itself, so nothing has to be pushed down."""
    paths = (str(path), f"{path}.wal")
    session = Session(paths=paths)
    try:
        _attach(session, path)
        described = _described(session, selection)
    finally:
        session.close()
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
