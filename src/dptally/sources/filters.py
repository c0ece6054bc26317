"""Which rows are read: a public condition on each row, that no other row has a say in.

A filter keeps the guarantee as long as it looks at one row at a time: then adding or removing a unit adds or removes
rows of that unit after the filter, too, and nothing else. So a text is parsed by DuckDB (`json_serialize_sql`, which
looks nothing up), and written again from the nodes and functions that are listed here; what is not listed is refused.
There is no aggregate, window, subquery, clock, random number or file among them, and none that makes texts longer than
its arguments together.

**An operation that fails is null.** A cast or an overflow that fails must not be an error, which would tell that the
value is there. `TRY` around the whole condition is not enough: whether ``x >= 0 OR 1 // y = 1`` meets a zero in y
depends on which part an engine looks at first, and DuckDB leaves the second part out where the file's statistics say
that no x is negative. One row with a negative x would then decide about all rows with a zero. So each operation is
tried by itself, and AND, OR and NOT see truth values and nulls, never an error. A condition that is null is not met.

**Times.** `since` and `until` have one reading for each type of a column (UTC; text as ISO 8601), whatever else a
condition says: two releases of disjoint intervals read disjoint rows.
"""

from __future__ import annotations

import datetime
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dptally.errors import InvalidParameter, attempt
from dptally.estimates.sql_text import check_sql
from dptally.ledger.renewal import Interval
from dptally.sources.columns import quote_identifier, quote_literal
from dptally.sources.stated_types import read_as

__all__ = ["Filter", "parsed", "read_filter"]

FUNCTIONS = frozenset(
    "abs ceil char_length coalesce concat contains date_part date_trunc day dayofmonth dayofweek dayofyear ends_with "  # noqa: SIM905
    "extract floor greatest hour ifnull isodow isoyear least left length lower ltrim minute mod month nullif position "
    "prefix quarter regexp_full_match regexp_matches right round rtrim second sign starts_with strpos substr substring "
    "suffix trim try_cast cast upper week weekday year".split()
)
"""Functions a filter may call: of one row, always the same for the same arguments."""

_OPERATORS = frozenset(("+", "-", "*", "/", "//", "%", "||", "~~", "!~~", "~~*", "!~~*"))
_OTHER_NAMES = {"position": "strpos"}  # what is not written with commas
_CONSTANT_ARGUMENT = {"regexp_matches": 1, "regexp_full_match": 1, "date_part": 0, "date_trunc": 0}
_COMPARISONS = {
    "COMPARE_EQUAL": "=", "COMPARE_NOTEQUAL": "<>", "COMPARE_LESSTHAN": "<", "COMPARE_GREATERTHAN": ">",
    "COMPARE_LESSTHANOREQUALTO": "<=", "COMPARE_GREATERTHANOREQUALTO": ">=",
    "COMPARE_DISTINCT_FROM": "IS DISTINCT FROM", "COMPARE_NOT_DISTINCT_FROM": "IS NOT DISTINCT FROM",
}  # fmt: skip
_TYPES = frozenset({
    "BOOLEAN", "TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT", "FLOAT",
    "DOUBLE", "DECIMAL", "VARCHAR", "DATE", "TIME", "TIMESTAMP", "TIMESTAMPTZ", "TIMESTAMP WITH TIME ZONE",
})  # fmt: skip
_NUMBER = re.compile(r"-?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?")
_LONGEST, _DEEPEST, _LONGEST_WRITTEN = 20_000, 60, 400_000
_TIMES = frozenset({"DATE", "TIMESTAMP", "TIMESTAMP_S", "TIMESTAMP_MS", "TIMESTAMP_NS"})
_ZONED = frozenset({"TIMESTAMP WITH TIME ZONE", "TIMESTAMPTZ"})


@dataclass(frozen=True)
class Filter:
    """A condition on each row, read and checked; which columns it looks at, before any source is opened."""

    text: str  # as it is recorded: public
    columns: tuple[str, ...]  # by name, in the order of f0, f1, ... in `condition`
    condition: str | None  # SQL over f0, f1, ..., without errors on any value
    time_column: str | None = None  # the last of `columns`, where an interval was asked for
    since: datetime.datetime | None = None  # in UTC, without a zone; included
    until: datetime.datetime | None = None  # not included

    @property
    def interval(self) -> Interval | None:
        """Which times are read, of which column; None where no interval was asked for."""
        return None if self.time_column is None else Interval(self.time_column, self.since, self.until)

    def sql(self, types: Sequence[str]) -> str:
        """SQL that is true for the rows to read, false for all others; `types` are those of its columns.

        Raises:
            InvalidParameter: if the column of times has another type.
        """
        parts = [] if self.condition is None else [self.condition]
        if self.time_column is not None:
            moment = _moment(f"f{len(self.columns) - 1}", self.time_column, types[-1])
            ends = ((">=", self.since), ("<", self.until))
            parts += [f"{moment} {sign} {_literal(end)}" for sign, end in ends if end is not None]
        return f"coalesce({' AND '.join(f'({part})' for part in parts)}, false)"


def read_filter(
    where: str | None = None, *, time_column: str | None = None, since: object = None, until: object = None
) -> Filter | None:
    """Read a condition and an interval of times; None where neither is given.

    Args:
        where: SQL of one condition on the columns of a row.
        time_column: the column that `since` and `until` are about.
        since: first moment, included: a date, a datetime, or either as ISO 8601 text; in UTC unless it says another.
        until: the moment to end before.

    Raises:
        InvalidParameter: it is anything but a condition on one row, or an interval that is none.

    >>> found = read_filter("price > 3", time_column="day", since="2026-11-15", until="2026-11-16")
    >>> found.columns, str(found.until)
    (('price', 'day'), '2026-11-16 00:00:00')
    """
    if (since is None and until is None) != (time_column is None):
        raise InvalidParameter(
            "since and until need `time_column`, the column they are about, and it needs one of them.",
            parameter="since",
        )
    if where is None and time_column is None:
        return None
    columns: list[str] = []
    parts, condition = [], None
    if where is not None:
        condition = _read_condition(where, columns)
        parts.append(where.strip() if time_column is None else f"({where.strip()})")
    if time_column is None:
        return Filter(parts[0], tuple(columns), condition)
    if not isinstance(time_column, str):
        raise InvalidParameter(f"time_column must be a column name, got {type(time_column).__name__}.")
    first, end = _as_moment("since", since), _as_moment("until", until)
    if first is not None and end is not None and first >= end:
        raise InvalidParameter("since must be before `until`, which is not included.")
    name = quote_identifier(time_column)
    parts += [f"{name} {sign} {_literal(at)}" for sign, at in ((">=", first), ("<", end)) if at is not None]
    return Filter(" AND ".join(parts), (*columns, time_column), condition, time_column, first, end)


# ---- times ----


def _as_moment(name: str, given: object) -> datetime.datetime | None:
    found = given
    if isinstance(given, str):
        try:
            found = datetime.datetime.fromisoformat(given.strip())
        except ValueError:
            found = given
    if given is not None and not isinstance(found, datetime.date):
        raise InvalidParameter(f"{name} must be a date or a time such as 2026-11-15T12:00, got {str(given)[:40]!r}.")
    if isinstance(found, datetime.datetime):
        if found.tzinfo is not None:
            found = found.astimezone(datetime.UTC).replace(tzinfo=None)
        return found
    return None if found is None else datetime.datetime.combine(found, datetime.time())  # type: ignore[arg-type]


def _literal(moment: datetime.datetime) -> str:
    return f"TIMESTAMP '{moment.isoformat(sep=' ')}'"


def _moment(column: str, name: str, kind: str) -> str:
    """SQL for the one reading of a time, in UTC without a zone; null where it is none."""
    if kind in _TIMES:
        return f"TRY_CAST({column} AS TIMESTAMP)"
    if kind == "VARCHAR":
        column, kind = read_as(column, "TIMESTAMP WITH TIME ZONE"), "TIMESTAMPTZ"
    if kind in _ZONED:
        return f"TRY(make_timestamp(epoch_us({column})))"
    raise InvalidParameter(f"time_column '{name}' must hold dates, timestamps or text, not {kind.split('(')[0]}.")


# ---- conditions ----


def _read_condition(where: str, columns: list[str]) -> str:
    """SQL for a condition, written from its parts; `columns` gets the names that f0, f1, ... stand for."""
    if not isinstance(where, str) or not where.strip():
        raise InvalidParameter("where must be a condition on one row, such as \"day = DATE '2026-11-15'\".")
    if len(where) > _LONGEST:
        raise InvalidParameter(f"where must have at most {_LONGEST:,} characters: it is recorded in the release.")
    check_sql("where", where, functions=FUNCTIONS, over="one row")
    try:
        condition = _Writer(columns).truth(parsed(where), 0)
    except RecursionError:
        raise InvalidParameter(_TOO_DEEP) from None
    if not columns:
        raise InvalidParameter("where must look at a column of the row.")
    return condition


_TOO_DEEP = f"where must not be nested deeper than {_DEEPEST} levels."


def parsed(where: str) -> Any:
    """The one expression that a text holds, as DuckDB's parser has it; nothing is looked up or run."""
    import duckdb

    def statement(text: str) -> Any:
        with duckdb.connect() as connection:
            row = connection.execute("SELECT json_serialize_sql(CAST(? AS VARCHAR))", [f"SELECT {text}"]).fetchone()
        found = json.loads(row[0] if row else "{}")
        return {} if found.get("error", True) or len(found["statements"]) != 1 else found["statements"][0]

    refused = InvalidParameter("where is not one SQL condition: DuckDB's parser does not read it as an expression.")
    plain, found = statement("1"), attempt(lambda: statement(where), lambda _: refused, duckdb.Error)
    around = [{**each.get("node", {}), "select_list": None} for each in (found, plain)]
    if around[0] != around[1] or found["named_param_map"] or len(found["node"]["select_list"]) != 1:
        raise refused
    if found["node"]["select_list"][0]["alias"]:
        raise refused
    return found["node"]["select_list"][0]


class _Writer:
    """Writes SQL from the nodes that a filter may have; each operation is tried by itself."""

    def __init__(self, columns: list[str]) -> None:
        self._columns = columns

    def truth(self, node: Any, depth: int) -> str:
        """SQL for a truth value or null."""
        return f"TRY_CAST({self.value(node, depth)} AS BOOLEAN)"

    def value(self, node: Any, depth: int) -> str:
        """SQL for a value or null."""
        if depth > _DEEPEST:
            raise InvalidParameter(_TOO_DEEP)
        write = getattr(self, f"_{node['class'].lower()}", None)
        if write is None:
            raise _refused(node["class"])
        written: str = write(node, depth + 1)
        if (
            len(written) > _LONGEST_WRITTEN
        ):  # each constant of IN and each end of BETWEEN repeats what it is compared with
            raise InvalidParameter("where compares too long an expression with too many constants.")
        return written

    def _constant(self, node: Any, _: int) -> str:
        literal = node.get("literal") or {}
        kind, text = literal.get("kind"), str(literal.get("text", ""))
        if kind == "STRING":
            return quote_literal(text)
        if kind == "NULL_LITERAL" or (kind == "BOOLEAN" and text in ("true", "false")):
            return text or "NULL"
        if kind in ("INTEGER", "NUMERIC") and _NUMBER.fullmatch(text):
            return f"({text})"
        raise _refused("a constant of this kind")

    def _column_ref(self, node: Any, _: int) -> str:
        if len(node["column_names"]) != 1:
            raise InvalidParameter("where must name columns without a table; put a name with a dot in double quotes.")
        name = node["column_names"][0]
        if name not in self._columns:
            self._columns.append(name)
        return f"f{self._columns.index(name)}"

    def _comparison(self, node: Any, depth: int) -> str:
        return self._compared(node["left"], _COMPARISONS[node["type"]], node["right"], depth)

    def _compared(self, left: Any, sign: str, right: Any, depth: int) -> str:
        return f"TRY({self.value(left, depth)} {sign} {self.value(right, depth)})"

    def _between(self, node: Any, depth: int) -> str:
        ends = ((">=", "lower"), ("<=", "upper"))
        return f"({' AND '.join(self._compared(node['input'], sign, node[end], depth) for sign, end in ends)})"

    def _conjunction(self, node: Any, depth: int) -> str:
        sign = {"CONJUNCTION_AND": " AND ", "CONJUNCTION_OR": " OR "}[node["type"]]
        return f"({sign.join(self.truth(child, depth) for child in node['children'])})"

    def _operator(self, node: Any, depth: int) -> str:
        kind, children = node["type"], node["children"]
        if kind == "OPERATOR_NOT":
            return f"(NOT {self.truth(children[0], depth)})"
        values = [self.value(child, depth) for child in children]
        if kind in ("OPERATOR_IS_NULL", "OPERATOR_IS_NOT_NULL"):
            return f"({values[0]} {kind.removeprefix('OPERATOR_').replace('_', ' ')})"
        if kind == "COMPARE_IN" and all(_is_constant(child) for child in children[1:]):
            # Not IN: of many constants DuckDB makes a join, which casts the value where no TRY is around it.
            return f"({' OR '.join(f'TRY({values[0]} = {constant})' for constant in values[1:])})"
        if kind == "OPERATOR_COALESCE":
            return f"TRY(coalesce({', '.join(values)}))"
        raise _refused("a list after IN with anything but constants" if kind == "COMPARE_IN" else kind)

    def _cast(self, node: Any, depth: int) -> str:
        kind = node["type_expr"]
        name, sizes = (
            str(kind["type_name"]).upper(),
            [str(each.get("literal", {}).get("text")) for each in kind["children"]],
        )
        if name not in _TYPES or kind["schema"] or kind["catalog"] or not all(size.isdecimal() for size in sizes):
            raise _refused(f"the type {name[:40]}")
        written = f"{name}({', '.join(sizes)})" if sizes else name
        sql = f"TRY_CAST({self.value(node['child'], depth)} AS {written})"
        if _is_constant(node):
            _check_constant(sql, name)
        return sql

    def _function(self, node: Any, depth: int) -> str:
        name, arguments = _OTHER_NAMES.get(node["function_name"], node["function_name"]), node["arguments"]
        plain = not (node["schema"] or node["catalog"] or node["filter"] or node["distinct"] or node["export_state"])
        plain = plain and not node["order_bys"]["orders"] and not any(each["name"] for each in arguments)
        if not plain or name not in (_OPERATORS if node["is_operator"] else FUNCTIONS):
            raise _refused(name[:40])
        constant = _CONSTANT_ARGUMENT.get(name)
        if constant is not None and not _is_constant(arguments[constant]["expression"]):
            raise InvalidParameter(f"where must call {name} with a constant pattern or part, not with one of the data.")
        values = [self.value(each["expression"], depth) for each in arguments]
        if not node["is_operator"]:
            return f"TRY({name}({', '.join(values)}))"
        return f"TRY({values[0]} {name} {values[1]})" if len(values) == 2 else f"TRY({name} {values[0]})"


def _refused(what: str) -> InvalidParameter:
    return InvalidParameter(
        f"where must not hold {what.replace('_', ' ')}: it is a condition on one row, with comparisons, AND, OR, NOT, "
        "IN, LIKE, casts and functions of one row."
    )


def _is_constant(node: Mapping[str, Any]) -> bool:
    return "CONSTANT" in (node["class"], node["class"] == "CAST" and node["child"]["class"])


def _check_constant(sql: str, kind: str) -> None:
    """Refuse a constant that is no value of its type: it would silently match nothing."""
    import duckdb

    with duckdb.connect() as connection:
        row = attempt(
            lambda: connection.execute(f"SELECT {sql} IS NULL").fetchone(),
            lambda _: InvalidParameter(f"where has a constant that is no {kind}."),
            duckdb.Error,
        )
    if row and row[0]:
        raise InvalidParameter(f"where has a constant that is no {kind}.")
