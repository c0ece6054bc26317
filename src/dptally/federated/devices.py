"""What the devices of a node hold: one value each, from a local table.

The column named `unit` says whose row it is, and a device with several distinct values keeps one of them, chosen
uniformly with secret bits; without it every row is a device of its own. Rows without a value or without a unit are left
out.
"""

from __future__ import annotations

import math
import sqlite3
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from dptally.errors import InvalidParameter, InvalidSource
from dptally.randomness import BitSource, SystemBits
from dptally.randomness.integers import draw_integer
from dptally.sources.columns import quote_identifier

_SQLITE = (".sqlite", ".sqlite3", ".db")


def read_devices(
    source: str | Path,
    *,
    key: str | None = None,
    unit: str | None = None,
    table: str | None = None,
    bits: BitSource | None = None,
) -> list[Any]:
    """The value of each device.

    The source is a file (CSV, TSV, JSON lines, Parquet, .gz, .zst; SQLite by its ending .sqlite, .sqlite3 or .db, with
    the table or view in it) or a glob of files. `bits` choose among a device's values; None for secret bits of the
    operating system.
    """
    if key is None:
        raise InvalidParameter("key must name the column of values.")
    if str(source).lower().endswith(_SQLITE):
        rows = _from_sqlite(Path(source), key, unit, table)
    elif table is not None:
        raise InvalidParameter("table is for SQLite files, which end in .sqlite, .sqlite3 or .db.")
    else:
        rows = _from_files(source, key, unit)
    if unit is None:
        return [value for value, _ in rows if value is not None]
    return _one_each(rows, SystemBits() if bits is None else bits)


def _one_each(rows: Iterable[tuple[Any, Any]], bits: BitSource) -> list[Any]:
    held: dict[Any, dict[Any, None]] = {}
    for value, unit in rows:
        if value is not None and unit is not None:
            held.setdefault(_itself(unit), {})[_itself(value)] = None
    return [list(values)[draw_integer(len(values), bits)] for values in held.values()]


def _itself(value: Any) -> Any:
    """The value; one and the same object for all NaN, as no two of them are equal."""
    return math.nan if isinstance(value, float) and math.isnan(value) else value


def _from_files(source: str | Path, key: str, unit: str | None) -> Iterable[tuple[Any, Any]]:
    from dptally.sources import open_rows
    from dptally.sources.engine import Session

    rows = open_rows(source, key=key, unit=unit)
    session = Session(paths=rows.paths, in_order=True)
    try:
        for batch in session.batches(rows.select(session)):
            values = batch.column(0).to_pylist()
            yield from zip(values, batch.column(1).to_pylist() if unit is not None else values, strict=True)
    finally:
        session.close()


def _from_sqlite(path: Path, key: str, unit: str | None, table: str | None) -> Iterable[tuple[Any, Any]]:
    if table is None:
        raise InvalidParameter("table must name the table or view of an SQLite file.")
    if not path.is_file():
        raise InvalidSource(f"'{path}' is not a file.")
    names = [key, key if unit is None else unit]
    connection = sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)
    failed = False
    try:
        known = [row[1] for row in connection.execute("SELECT * FROM pragma_table_info(?)", (table,)).fetchall()]
        for name in names:
            if known and name not in known:  # SQLite would take an unknown name in quotes for a text
                raise InvalidParameter(f"there is no column '{name}' in the table.")
        columns = ", ".join(quote_identifier(name) for name in names)
        yield from connection.execute(f"SELECT {columns} FROM {quote_identifier(table)}")  # noqa: S608 - quoted names
    except sqlite3.Error:
        failed = True  # its text may hold data
    finally:
        connection.close()
    if failed:
        raise InvalidSource(f"'{path}' cannot be read as an SQLite file with this table.")
