"""What can be said about a source before any of its rows is looked at.

The names and types of columns are public where they are declared: in the first line of a CSV or TSV file, the footer of
a Parquet file, the schema of a table of Arrow, Polars, DuckDB, Spark, PostgreSQL or SQLite (where a declaration leaves
the type of a column open, it is text). Elsewhere they come from values: Python objects, pandas columns, JSON lines.
There, opening is reading.

A ledger gives a reservation back only for what fails before a row was looked at. So a kind of source that is not listed
here counts as read when it is opened.
"""

from __future__ import annotations

import glob
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePath
from typing import Any

from dptally.errors import InvalidParameter
from dptally.sources.databases import file_of_url, is_database, is_url
from dptally.sources.rows import _is_list_of_paths, check_request

__all__ = ["check_request_for"]

_DECLARED_FORMATS = frozenset({"csv", "tsv", "parquet"})
_DECLARED_DATABASES = frozenset({"postgresql", "postgres", "duckdb", "sqlite"})
_DECLARED_TABLES = frozenset({
    ("polars", "DataFrame"), ("polars", "LazyFrame"), ("pyarrow", "Table"), ("pyarrow", "RecordBatch"),
    ("pyarrow", "RecordBatchReader"), ("duckdb", "DuckDBPyRelation"), ("_duckdb", "DuckDBPyRelation"),
    ("pyspark", "DataFrame"),
})  # fmt: skip


def check_request_for(
    source: Any,
    *,
    key: str | Sequence[str] | None,
    unit: str | None,
    count: str | None,
    nulls: str,
    format: str | None,  # noqa: A002 - the public name
    table: str | None = None,
    query: str | None = None,
    engine: str = "auto",
    types: object = None,
    assumed: object = None,
) -> bool:
    """Refuse what can be refused without looking at a row: a request that contradicts itself, files that are not there.

    Args:
        source: as in `open_rows`, like all that follow.
        key: columns.
        unit: column.
        count: column.
        nulls: "drop" or "keep".
        format: of files.
        table: of a database.
        query: of a database.
        engine: that reads.
        types: what is stated about columns; checked when the source is opened.
        assumed: as `types`.

    Returns:
        bool: whether its columns and types are declared, so that opening it does not look at a row either.

    Raises:
        InvalidParameter: the request is contradictory.
        InvalidSource: a file is missing.
    """
    names = check_request(key, unit, count, nulls)
    if is_url(source):
        return _check_database(source, names, format, table, query)
    for role, given in (("table", table), ("query", query)):
        if given is not None:
            raise InvalidParameter(f"{role} is for databases; the source must be a URL such as sqlite:///events.db.")
    if isinstance(source, str | PurePath) or (names is not None and _is_list_of_paths(source)):
        return _check_files(source, format)
    home, name = type(source).__module__.split(".")[0], type(source).__name__
    if home == "pyarrow" and engine == "polars":
        return False  # Polars looks at what it takes over
    if (home, name) in _DECLARED_TABLES or (home == "pyarrow" and name.endswith("Dataset")):
        return True
    if isinstance(source, Mapping | list | tuple) and (unit is not None or count is not None):
        raise InvalidParameter("unit and count name columns of a table; this source holds keys only.")
    return False


def _check_database(
    source: str, names: tuple[str, ...] | None, format_name: str | None, table: str | None, query: str | None
) -> bool:
    if names is None:
        raise InvalidParameter("key must name the key column of a table.")
    if format_name is not None:
        raise InvalidParameter("format is for files; this source is a database.")
    if (table is None) == (query is None):
        raise InvalidParameter("a database needs either table, the name of one, or query, a SELECT statement.")
    kind = source.partition("://")[0].lower()
    if is_database(source) and kind not in ("postgresql", "postgres"):
        file_of_url(source)
    return kind in _DECLARED_DATABASES or not is_database(source)  # what cannot be read will not be


def _check_files(source: Any, format_name: str | None) -> bool:
    from dptally.sources.files import find_files, format_of_name

    if isinstance(source, list | tuple):
        patterns = [str(item) for item in source]
        if not all(glob.has_magic(name) or Path(name).exists() for name in patterns):
            return True  # refused by its number when it is opened, before any file is: the name may be a key
    else:
        patterns = [str(source)]
        if patterns == ["-"]:
            return (format_name or "csv") in _DECLARED_FORMATS
    formats = {format_name or format_of_name(name) for name in find_files(patterns)}
    return formats <= {*_DECLARED_FORMATS, None}  # a name that does not tell is refused, and not opened
