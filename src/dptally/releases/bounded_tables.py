"""Parquet files that anyone may have written, read in bounded memory and time, whatever their bytes say.

A Parquet file can say in a few bytes that a value repeats a billion times, that a page unpacks to two gigabytes, or
that its footer lists a million columns. So two libraries read it, each within limits of its own: Arrow the footer,
with a limit on the lengths in it; then DuckDB the pages, with a limit on the memory it may take. How many rows there
are and how many bytes their texts have is counted before a copy is made of any.
"""

from __future__ import annotations

import contextlib
import glob
from pathlib import Path
from typing import TYPE_CHECKING

from dptally.errors import UnreadableRelease
from dptally.privacy.stored_facts import DAMAGE

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa

_LONGEST_TEXT = 1 << 24  # bytes of one text in a footer, such as the metadata of a release
_LONGEST_LIST = 1 << 14  # columns, row groups, or other entries of one list in a footer
_ROWS, _ROWS_PER_BYTE = 1 << 20, 16
_BYTES, _BYTES_PER_BYTE = 1 << 26, 256
_COLUMNS = 1000
_MEMORY = 1 << 28  # bytes that unpacking may take, besides what it unpacks to


def read_table(place: Path) -> pa.Table:
    """A Parquet file as a table, its metadata kept.

    A file of n bytes may hold up to 2^20 + 16 n rows, and unpack to 64 MB + 256 n bytes.

    Raises:
        UnreadableRelease: if it is missing, damaged, or unpacks to more; or has columns within columns, which no
            release has.
    """
    import duckdb
    import pyarrow as pa
    import pyarrow.parquet as pq

    if not place.is_file():
        raise UnreadableRelease(f"{place} is not a file.")
    in_footer = {"thrift_string_size_limit": _LONGEST_TEXT, "thrift_container_size_limit": _LONGEST_LIST}
    try:
        with pq.ParquetFile(place, **in_footer) as file:
            schema, rows = file.schema_arrow, file.metadata.num_rows
    except (pa.ArrowException, MemoryError, *DAMAGE):
        raise _unreadable(place) from None
    size = place.stat().st_size
    most_rows, most_bytes = _ROWS + _ROWS_PER_BYTE * size, _BYTES + _BYTES_PER_BYTE * size
    if rows > most_rows or len(schema) > _COLUMNS:
        raise _too_large(place)
    if not len(schema) or any(pa.types.is_nested(field.type) for field in schema):
        raise _unreadable(place)
    limits: dict[str, str | bool | int | float | list[str]] = {
        "memory_limit": f"{_MEMORY + most_bytes}B",
        "temp_directory": "",
        "threads": 1,
        "arrow_large_buffer_size": True,
        "autoinstall_known_extensions": False,
        "autoload_known_extensions": False,
    }
    try:
        with duckdb.connect(config=limits) as connection:
            found = _read(connection, place, schema, most_rows, most_bytes)
    except duckdb.OutOfMemoryException:
        found = None
    except (duckdb.Error, pa.ArrowException, MemoryError, *DAMAGE):
        raise _unreadable(place) from None
    if found is None:
        raise _too_large(place)
    return found


def _read(
    connection: duckdb.DuckDBPyConnection, place: Path, schema: pa.Schema, most_rows: int, most_bytes: int
) -> pa.Table | None:
    """The table; None if it is too large."""
    import duckdb
    import pyarrow as pa

    names = [f"c{number}" for number in range(len(schema))]
    rows, file = f"FROM read_parquet(?) AS held({', '.join(names)})", [glob.escape(str(place.absolute()))]
    connection.execute("SET TimeZone = 'UTC'")
    with contextlib.suppress(duckdb.Error):  # in a notebook without ipywidgets there is no bar, and no setting of one
        connection.execute("SET enable_progress_bar = false")
    kinds = [kind for _, kind, *_ in connection.execute(f"DESCRIBE SELECT * {rows}", file).fetchall()]
    lengths = {"VARCHAR": "strlen({})", "BLOB": "octet_length({})"}
    each = [lengths.get(kind, "16").format(name) for name, kind in zip(names, kinds, strict=True)]
    total = " + ".join(f"coalesce({length}, 0) + 8" for length in each)
    counted = connection.execute(f"SELECT count(*), sum({total}) {rows}", file).fetchall()[0]
    if counted[0] > most_rows or (counted[1] or 0) > most_bytes:
        return None
    found = connection.sql(f"SELECT * {rows}", params=file).to_arrow_table()
    columns = [column.cast(field.type) for column, field in zip(found.columns, schema, strict=True)]
    return pa.table(columns, schema)


def _unreadable(place: Path) -> UnreadableRelease:
    return UnreadableRelease(f"{place} is not a readable Parquet file.")


def _too_large(place: Path) -> UnreadableRelease:
    return UnreadableRelease(f"{place} unpacks to far more than its size, and is not read.")
