"""What can be said about a request and its source before any row is looked at.

The names and types of columns are public where they are declared: in the first line of a CSV or TSV file, the footer of
a Parquet file, the schema of a table of Arrow, Polars, DuckDB, Spark, PostgreSQL or SQLite (where a declaration leaves
the type of a column open, it is text). Elsewhere they come from values: Python objects, pandas columns, JSON lines.
There, opening is reading.

A ledger gives a reservation back only for what fails before a row was looked at. So a kind of source that is not listed
here counts as read when it is opened.
"""

from __future__ import annotations

import glob
from collections.abc import Sequence
from pathlib import Path, PurePath
from typing import Any, Literal

from dptally.errors import InvalidParameter
from dptally.sources.databases import file_of_url, is_database, is_url
from dptally.sources.files import find_files, format_of_name

_DECLARED_FORMATS = frozenset({"csv", "tsv", "parquet"})
_DECLARED_TABLES = frozenset({
    ("polars", "DataFrame"), ("polars", "LazyFrame"), ("pyarrow", "Table"), ("pyarrow", "RecordBatch"),
    ("pyarrow", "RecordBatchReader"), ("duckdb", "DuckDBPyRelation"), ("_duckdb", "DuckDBPyRelation"),
    ("pyspark", "DataFrame"),
})  # fmt: skip


def check_request(
    key: str | Sequence[str] | None, unit: str | None, count: str | None, nulls: str
) -> tuple[str, ...] | None:
    """Refuse a request that contradicts itself, whatever the source, and return the names of the key columns."""
    names = None if key is None else (key,) if isinstance(key, str) else tuple(key)
    if names is not None and not names:
        raise InvalidParameter("key must name at least one column.")
    for name in names or ():
        if not isinstance(name, str):
            raise InvalidParameter(f"key must be a column name or several, got {type(name).__name__}.")
        if names is not None and names.count(name) > 1:
            raise InvalidParameter(f"column '{name}' is named twice in key.")
    if nulls not in ("drop", "keep"):
        raise InvalidParameter(f"nulls must be 'drop' or 'keep', got {nulls!r}.")
    if unit is not None and count is not None:
        raise InvalidParameter(
            "unit and count cannot be given together: counts no longer tell the units apart; with a unit, count is "
            "'units' or 'rows'."
        )
    for role, column in (("unit", unit), ("count", count)):
        if column is not None and not isinstance(column, str):
            raise InvalidParameter(f"{role} must be a column name, got {type(column).__name__}.")
        if column is not None and column in (names or ()):
            raise InvalidParameter(f"column '{column}' cannot be a key and the {role} at once.")
    return names


def kind_of_source(
    source: Any,
    names: tuple[str, ...] | None,
    *,
    unit: str | None,
    count: str | None,
    format_name: str | None,
    table: str | None,
    query: str | None,
    filtered: bool,
) -> Literal["database", "files", "table", "keys"]:
    """What a source is; refuses what is for sources of another kind."""
    if is_url(source):
        if names is None:
            raise InvalidParameter("key must name the key column of a table.")
        if format_name is not None:
            raise InvalidParameter("format is for files; this source is a database.")
        return "database"
    for role, given in (("table", table), ("query", query)):
        if given is not None:
            raise InvalidParameter(f"{role} is for databases; the source must be a URL such as sqlite:///events.db.")
    is_path = isinstance(source, str | PurePath) or (names is not None and _is_list_of_paths(source))
    if format_name is not None and not is_path:
        raise InvalidParameter("format is for files; this source is not a path.")
    if not is_path and not _is_table(source):
        if unit is not None or count is not None or filtered:
            raise InvalidParameter("unit, count and where name columns of a table; this source holds keys only.")
        return "keys"
    if names is None:
        raise InvalidParameter("key must name the key column of a table.")
    return "files" if is_path else "table"


def _is_list_of_paths(source: object) -> bool:
    # A list of text is a list of keys, unless all of it is written like names of files that can be read.
    if not isinstance(source, list | tuple) or not source or len(source) > 100_000:
        return False
    if isinstance(source[0], PurePath):
        return True
    return all(isinstance(item, str | PurePath) and format_of_name(str(item)) is not None for item in source)


def _has_declared_columns(source: object) -> bool:
    home, name = type(source).__module__.split(".")[0], type(source).__name__
    return (home, name) in _DECLARED_TABLES or (home == "pyarrow" and name.endswith("Dataset"))


def _is_table(source: object) -> bool:
    home, name = type(source).__module__.split(".")[0], type(source).__name__
    return (home, name) == ("pandas", "DataFrame") or _has_declared_columns(source)


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
    where: object = None,
    **when_opened: object,
) -> bool:
    """Refuse what can be refused without looking at a row: a request that contradicts itself, files that are not there.

    Parameters are those of `open_rows`; `when_opened` says what is checked when the source is opened. Returns whether
    columns and types are declared, so that opening the source does not look at a row either.
    """
    names = check_request(key, unit, count, nulls)
    place: dict[str, Any] = {"format_name": format, "table": table, "query": query, "filtered": where is not None}
    kind = kind_of_source(source, names, unit=unit, count=count, **place)
    if kind == "database":
        if (table is None) == (query is None):
            raise InvalidParameter("a database needs either table, the name of one, or query, a SELECT statement.")
        if is_database(source) and not source.lower().startswith("postgres"):
            file_of_url(source)
        return True  # what cannot be read will not be
    if kind == "files":
        return _files_are_declared(source, format)
    polars_looks = type(source).__module__.split(".")[0] == "pyarrow" and engine == "polars"
    return _has_declared_columns(source) and not polars_looks


def _files_are_declared(source: Any, format_name: str | None) -> bool:
    patterns = [str(item) for item in source] if isinstance(source, list | tuple) else [str(source)]
    if isinstance(source, list | tuple) and not all(glob.has_magic(name) or Path(name).exists() for name in patterns):
        return True  # refused by its number when it is opened, before any file is: the name may be a key
    if patterns == ["-"] and not isinstance(source, list | tuple):
        return (format_name or "csv") in _DECLARED_FORMATS
    formats = {format_name or format_of_name(name) for name in find_files(patterns)}
    return formats <= {*_DECLARED_FORMATS, None}  # a name that does not tell is refused, and not opened
