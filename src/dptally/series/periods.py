"""Names of periods: days, weeks, months, or plain numbers, one after the other."""

from __future__ import annotations

import datetime
import re
from dataclasses import dataclass

from dptally.errors import InvalidParameter

_WEEK, _MONTH = re.compile(r"(\d{4})-W(\d{2})"), re.compile(r"(\d{4})-(\d{2})")
_MONTHS = 12


@dataclass(frozen=True)
class Period:
    """A period as it is named, and its place on the calendar of its kind."""

    kind: str  # day, week, month or number
    place: int  # counted from some start of the kind

    def __str__(self) -> str:
        if self.kind == "day":
            return datetime.date.fromordinal(self.place).isoformat()
        if self.kind == "week":
            year, week, _ = datetime.date.fromordinal(7 * self.place + 1).isocalendar()
            return f"{year}-W{week:02}"
        if self.kind == "month":
            return f"{self.place // _MONTHS:04}-{self.place % _MONTHS + 1:02}"
        return str(self.place)


def read_period(period: object) -> Period:
    """Read a date, ``"2026-11-16"``, a week, ``"2026-W47"``, a month, ``"2026-11"``, or a whole number.

    >>> [(each.kind, str(each)) for each in map(read_period, ("2026-11-16", "2026-W47", "2026-11", 7))]
    [('day', '2026-11-16'), ('week', '2026-W47'), ('month', '2026-11'), ('number', '7')]
    """
    if isinstance(period, datetime.date) and not isinstance(period, datetime.datetime):
        return Period("day", period.toordinal())
    if isinstance(period, int) and not isinstance(period, bool) and period >= 0:
        return Period("number", period)
    text = period if isinstance(period, str) else ""
    try:
        if text.isascii() and text.isdigit() and len(text) < 10:
            return Period("number", int(text))
        if found := _WEEK.fullmatch(text):
            return Period("week", (datetime.date.fromisocalendar(int(found[1]), int(found[2]), 1).toordinal() - 1) // 7)
        if found := _MONTH.fullmatch(text):
            return Period("month", datetime.date(int(found[1]), int(found[2]), 1).year * _MONTHS + int(found[2]) - 1)
        return Period("day", datetime.date.fromisoformat(text).toordinal())
    except ValueError:
        raise InvalidParameter(
            "period must be a date such as 2026-11-16, a week such as 2026-W47, a month such as 2026-11, or a whole "
            f"number, got {str(period)[:40]!r}."
        ) from None
