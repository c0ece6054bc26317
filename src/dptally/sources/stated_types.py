"""Types that the caller states for columns without a declared one: how text is read as one of them.

A value that is not written as one of its type is read as null, on its own: an error would tell that it is there.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from dptally.errors import InvalidParameter

_DUCKDB = {
    "text": "VARCHAR",
    "int64": "BIGINT",
    "float64": "DOUBLE",
    "bool": "BOOLEAN",
    "date": "DATE",
    "time": "TIME",
    "timestamp": "TIMESTAMP",
    "timestamptz": "TIMESTAMP WITH TIME ZONE",
    "bytes": "BLOB",
}
TYPE_NAMES = (*_DUCKDB, "decimal(precision,scale)")
_DECIMAL = re.compile(r"decimal\(\s*([0-9]{1,2})\s*,\s*([0-9]{1,2})\s*\)", re.IGNORECASE)
_WIDEST = 38
_DAY = "[0-9]{4}-[0-9]{2}-[0-9]{2}"
_CLOCK = r"[0-9]{2}:[0-9]{2}(:[0-9]{2}([.][0-9]{1,6})?)?"
_FORMS = {
    "BOOLEAN": "(?i:true|false)",
    "DATE": _DAY,
    "TIME": _CLOCK,
    "TIMESTAMP": f"{_DAY}([T ]{_CLOCK})?",
    "TIMESTAMP WITH TIME ZONE": f"{_DAY}([T ]{_CLOCK}(Z|[+-][0-9]{{2}}(:?[0-9]{{2}})?)?)?",
}
_FLOAT = "[+-]?([0-9]+[.]?[0-9]*|[.][0-9]+)([eE][+-]?[0-9]+)?"
_INTEGERS = frozenset({
    "TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT"
})  # fmt: skip


def read_types(types: Mapping[str, str] | None, columns: Iterable[str]) -> dict[str, str]:
    """Check stated types and return DuckDB's name of each.

    >>> read_types({"k": "int64", "price": "decimal(10,2)"}, ["k", "price"])
    {'k': 'BIGINT', 'price': 'DECIMAL(10,2)'}
    """
    if types is None:
        return {}
    if not isinstance(types, Mapping):
        raise InvalidParameter(f"types must be a mapping of columns to types, got {type(types).__name__}.")
    known, found = list(columns), {}
    for name, stated in types.items():
        if name not in known:
            raise InvalidParameter(f"types names '{name}', which is neither a key nor the unit, nor in a filter.")
        found[name] = _duckdb_type(name, stated)
    return found


def _duckdb_type(name: str, stated: Any) -> str:
    plain = stated.strip().lower() if isinstance(stated, str) else ""
    if plain in _DUCKDB:
        return _DUCKDB[plain]
    decimal = _DECIMAL.fullmatch(plain)
    if decimal and 1 <= int(decimal[1]) <= _WIDEST and int(decimal[2]) <= int(decimal[1]):
        return f"DECIMAL({int(decimal[1])},{int(decimal[2])})"
    raise InvalidParameter(f"the type of column '{name}' must be one of {', '.join(TYPE_NAMES)}, got {stated!r}.")


def read_as(expression: str, duckdb_type: str) -> str:
    """Return SQL that reads text as a type: null where it is not written as a value of that type.

    Numbers are never rounded to fit: ``1.5`` is no int64, and ``0.125`` no decimal(4,2).
    """
    if duckdb_type == "VARCHAR":
        return expression
    scale = re.fullmatch(r"DECIMAL\(\d+,\s*(\d+)\)", duckdb_type)
    if duckdb_type in _INTEGERS:
        form, value = "[+-]?[0-9]+([.]0*)?", f"split_part({expression}, '.', 1)"
    elif scale:
        form, value = f"[+-]?([0-9]+([.][0-9]{{0,{scale[1]}}}0*)?|[.][0-9]{{1,{scale[1]}}}0*)", expression
        if scale[1] == "0":
            form = "[+-]?[0-9]+([.]0*)?"
    elif duckdb_type == "BLOB":
        return f"CASE WHEN regexp_full_match({expression}, '([0-9a-fA-F]{{2}})*') THEN from_hex({expression}) END"
    elif duckdb_type in ("DOUBLE", "FLOAT"):
        number = f"TRY_CAST({expression} AS {duckdb_type})"
        # By its form first: of a bare cast DuckDB may make the type of a CSV column, and other text an error.
        return f"CASE WHEN regexp_full_match({expression}, '{_FLOAT}') AND isfinite({number}) THEN {number} END"
    else:
        form, value = _FORMS.get(duckdb_type, ".*"), expression
    return f"CASE WHEN regexp_full_match({expression}, '{form}') THEN TRY_CAST({value} AS {duckdb_type}) END"
