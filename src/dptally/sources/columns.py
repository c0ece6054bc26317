"""Which columns can be keys, units and counts, and the one form each value is brought into.

Two values are the same key exactly when their canonical forms have the same bytes. DuckDB (which groups) and
Arrow (which compares neighbours when contributions are bounded) disagree on NaN and on the two zeros; after
`canonical` they cannot, so a unit never adds two to one key.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Sequence

from dptally.errors import InvalidParameter, InvalidSource

_MOST_STEPS = f"{2.0**60!r}::DOUBLE"  # of one row
MAXIMUM_COUNT = 1 << 62  # most units one key may have: leaves room to add without wrapping around

_INTEGERS = frozenset({
    "TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT"
})  # fmt: skip
_AS_THEY_ARE = _INTEGERS | {
    "VARCHAR", "BOOLEAN", "DATE", "BLOB", "TIME", "TIME_NS", "TIMESTAMP", "TIMESTAMP_S", "TIMESTAMP_MS",
    "TIMESTAMP_NS", "TIMESTAMP WITH TIME ZONE", "TIMESTAMPTZ", "TIMESTAMPTZ_NS",
}  # fmt: skip
_AS_TEXT = frozenset({"UUID", '"NULL"', "NULL"})  # a column of nulls alone has no type: text serves
_FLOATS = frozenset({"FLOAT", "DOUBLE"})
_DECIMAL = re.compile(r"DECIMAL\(\d+,\s*(\d+)\)")


def quote_identifier(name: str) -> str:
    """Write a column name for SQL."""
    return '"' + name.replace('"', '""') + '"'


def quote_literal(text: str) -> str:
    """Write a string constant for SQL."""
    return "'" + text.replace("'", "''") + "'"


def require_columns(
    wanted: Iterable[str], present: Sequence[str], *, where: str = "the source", read_from: str | None = None
) -> None:
    """Refuse a request for a column that is missing or ambiguous.

    `read_from` is, for text, the part of it that names were read from. Of a file without a header that is data, so that
    only a name much like the wanted one is shown.
    """
    for name in wanted:
        if name not in present and read_from is not None:
            close = difflib.get_close_matches(name, present, 1, 0.75)
            meant = f"did you mean '{close[0]}'?" if close else "the names there are not shown, as they may be data."
            raise InvalidParameter(f"column '{name}' is not named in {read_from}; {meant}")
        if name not in present:
            has = f"it has: {', '.join(present)}" if present else "it has no columns"
            raise InvalidParameter(f"column '{name}' is not in {where}; {has}.")
        if list(present).count(name) > 1:
            raise InvalidParameter(f"column '{name}' is in {where} more than once; give each column its own name.")


def canonical(expression: str, name: str, duckdb_type: str) -> str:
    """Return SQL for the canonical form of a key or unit column.

    Text, integers, booleans, dates, times, timestamps, decimals and binary stay as they are; enumerations
    and UUIDs become text (a dictionary would carry keys that are not released); NaN becomes one NaN and -0.0
    becomes 0.0. For JSON see `dptally.sources.undeclared`.
    """
    if duckdb_type in _AS_THEY_ARE or _DECIMAL.fullmatch(duckdb_type):
        return expression
    if duckdb_type in _AS_TEXT or duckdb_type.startswith("ENUM"):
        return f"CAST({expression} AS VARCHAR)"
    if duckdb_type in _FLOATS:
        zero, nan = f"CAST(0 AS {duckdb_type})", f"CAST('nan' AS {duckdb_type})"
        cases = f"WHEN isnan({expression}) THEN {nan} WHEN {expression} = 0 THEN {zero}"
        return f"CASE {cases} ELSE {expression} END"
    raise unsupported(name, duckdb_type)


def unsupported(name: str, type_name: str) -> InvalidSource:
    """Return the refusal of a column whose type cannot be a key or a unit."""
    family = re.sub(r"[^A-Za-z0-9_].*", "", type_name.removeprefix("STRUCT(").split("(")[0]) or "nested"
    if type_name.endswith("]"):
        family = "list"
    elif type_name.startswith(("STRUCT", "MAP", "UNION")):
        family = type_name.split("(")[0].lower()
    return InvalidSource(
        f"column '{name}' has the type {family}, which cannot be a key or a unit; "
        "convert it to text, numbers, dates or times first."
    )


def fine_expression(expression: str, name: str, duckdb_type: str, scale: float) -> str:
    """Return SQL for a number in fine steps, of which `scale` are worth 1; null where it is null or NaN.

    A row counts at most 2^60 steps either way, infinities too, so that integers can be added up in any order.
    """
    numbers = _INTEGERS | _FLOATS | {"HUGEINT", "UHUGEINT", "BOOLEAN", '"NULL"', "NULL"}
    if duckdb_type not in numbers and not _DECIMAL.fullmatch(duckdb_type):
        family = "text" if duckdb_type == "VARCHAR" else duckdb_type.split("(")[0]
        raise InvalidSource(f"column '{name}' must hold numbers to be summed or averaged, not {family}.")
    number = f"CAST({expression} AS DOUBLE)"
    steps = f"round(greatest(least({number} * {scale!r}::DOUBLE, {_MOST_STEPS}), -{_MOST_STEPS}))"
    return f"CASE WHEN {number} IS NOT NULL AND NOT isnan({number}) THEN CAST({steps} AS BIGINT) END"


def count_expression(expression: str, name: str, duckdb_type: str, *, text: bool) -> str:
    """Return SQL for a column of counts: null where the value is no count, capped just above `MAXIMUM_COUNT`."""
    scale = _DECIMAL.fullmatch(duckdb_type)
    if text:
        # Digits only: a cast would round '1.5' and accept '1e3'.
        value = f"CASE WHEN regexp_full_match({expression}, '0*[0-9]{{1,19}}') THEN {expression} END"
        value = f"TRY_CAST(TRY_CAST({value} AS DECIMAL(38, 0)) AS HUGEINT)"
    elif duckdb_type in _INTEGERS | {"HUGEINT", "UHUGEINT"} or (scale and scale[1] == "0"):
        value = f"TRY_CAST({expression} AS HUGEINT)"
    elif duckdb_type in {'"NULL"', "NULL"}:
        value = "CAST(NULL AS HUGEINT)"
    else:
        raise InvalidSource(f"column '{name}' must hold integers to be a count, not {duckdb_type.split('(')[0]}.")
    return f"CASE WHEN {value} >= 0 THEN CAST(least({value}, {MAXIMUM_COUNT + 1}) AS BIGINT) END"
