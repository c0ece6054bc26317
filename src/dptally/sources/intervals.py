"""The interval of times that a condition keeps to, for ledgers that renew with the calendar.

Only what a condition says at its top counts: comparisons of the column with constants, joined by AND. The interval may
be wider than what the condition keeps. It is then enforced beside the condition, by the one reading of times of
`dptally.sources.filters`: a condition that is misread here loses rows, and never reads others.
"""

from __future__ import annotations

import datetime
from typing import TYPE_CHECKING, Any

from dptally.ledger.paying import as_account
from dptally.sources.filters import Filter, parsed, read_filter

if TYPE_CHECKING:
    from dptally.ledger.paying import AnyLedger

__all__ = ["read_filter_for"]

_TURNED = {"<": ">", ">": "<", "<=": ">=", ">=": "<=", "=": "="}
_SIGNS = {
    "COMPARE_EQUAL": "=", "COMPARE_LESSTHAN": "<", "COMPARE_GREATERTHAN": ">", "COMPARE_LESSTHANOREQUALTO": "<=",
    "COMPARE_GREATERTHANOREQUALTO": ">=",
}  # fmt: skip
_DAY, _MOMENT = datetime.timedelta(days=1), datetime.timedelta(microseconds=1)


def read_filter_for(
    ledger: AnyLedger | None,
    where: str | None = None,
    *,
    time_column: str | None = None,
    since: object = None,
    until: object = None,
) -> Filter | None:
    """Read a filter as `read_filter` does; for a ledger that renews, with the interval that its condition implies."""
    found = read_filter(where, time_column=time_column, since=since, until=until)
    if ledger is None or found is None or found.time_column is not None:
        return found
    renewal = as_account(ledger).ledger.renewal
    if renewal is None:
        return found
    first, end = _interval(parsed(found.text), renewal.time_column)
    if first is None and end is None:
        return found
    return read_filter(where, time_column=renewal.time_column, since=first, until=end)


def _interval(node: Any, column: str) -> tuple[datetime.datetime | None, datetime.datetime | None]:
    """The first moment, and the one to end before, that conditions joined by AND leave for a column."""
    firsts: list[datetime.datetime] = []
    ends: list[datetime.datetime] = []
    for sign, constant in _comparisons(node, column):
        moment, wide = _moment(constant)
        if moment is None:
            continue
        if sign in ("=", ">", ">="):
            firsts.append(moment)
        if sign in ("=", "<="):
            ends.append(moment + wide)
        if sign == "<":
            ends.append(moment)
    return max(firsts, default=None), min(ends, default=None)


def _comparisons(node: Any, column: str) -> list[tuple[str, Any]]:
    if node["type"] == "CONJUNCTION_AND":
        return [found for child in node["children"] for found in _comparisons(child, column)]
    if node["class"] == "BETWEEN" and _is_column(node["input"], column):
        return [(">=", node["lower"]), ("<=", node["upper"])]
    sign = _SIGNS.get(node["type"])
    if sign is None:
        return []
    if _is_column(node["left"], column):
        return [(sign, node["right"])]
    return [(_TURNED[sign], node["left"])] if _is_column(node["right"], column) else []


def _is_column(node: Any, column: str) -> bool:
    return bool(node["class"] == "COLUMN_REF" and node["column_names"] == [column])


def _moment(node: Any) -> tuple[datetime.datetime | None, datetime.timedelta]:
    """The moment that a constant begins with, and how long it lasts; None for what is none."""
    inner = node["child"] if node["class"] == "CAST" else node
    literal = inner.get("literal") or {}
    if inner["class"] != "CONSTANT" or literal.get("kind") != "STRING":
        return None, _MOMENT
    text = str(literal["text"])
    try:
        found = datetime.datetime.fromisoformat(text)
    except ValueError:
        return None, _MOMENT
    if found.tzinfo is not None:
        found = found.astimezone(datetime.UTC).replace(tzinfo=None)
    return found, _DAY if len(text) <= len("2026-11-15") else _MOMENT
