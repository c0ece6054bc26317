"""Budgets that renew with the calendar: each period of a time column has the whole budget, for its own rows.

**What is protected** is all rows of one unit within one period. A release that reads rows of one period, and no others,
sees such rows as a whole unit: what it spends is drawn from the budget of that period alone (parallel composition over
disjoint rows). Which rows it reads is decided row by row by the time in the column, never by the date of the release:
two releases in different months may read the same rows.

**Several periods.** A release that reads rows of several periods draws on each of them, and, with units, on each more
than it states. Its own guarantee is for adding or removing a whole unit. Removing the rows of one period alone changes
a unit that stays in the data: that is removing one unit and adding another, two steps, and so
(2 epsilon, (1 + e^epsilon) delta) by group privacy. Where every row is a unit of its own, a row is in one period, and
the release draws what it states.
"""

from __future__ import annotations

import datetime
from dataclasses import dataclass, replace
from fractions import Fraction

from dptally.errors import InvalidParameter
from dptally.exact.exponential import exp_bounds
from dptally.ledger.history import EACH_ROW
from dptally.privacy.spending import Spending

__all__ = ["PERIODS", "Interval", "Renewal"]

PERIODS = ("day", "month", "year")
_MOST_PERIODS = 4000
_PRECISION = 64
_LONGEST_NAME = 200


@dataclass(frozen=True)
class Interval:
    """The times that a release reads, of one column: from `since` on, before `until`; None where it has no end."""

    column: str
    since: datetime.datetime | None
    until: datetime.datetime | None


@dataclass(frozen=True)
class Renewal:
    """By which periods of which column a budget renews."""

    period: str
    time_column: str

    def __post_init__(self) -> None:
        if self.period not in PERIODS:
            raise InvalidParameter(f"renew must be one of {', '.join(PERIODS)}, got {str(self.period)[:40]!r}.")
        if not isinstance(self.time_column, str) or not 0 < len(self.time_column) <= _LONGEST_NAME:
            raise InvalidParameter("a budget that renews needs time_column, the column whose times tell the period.")

    def __str__(self) -> str:
        return (
            f"Renews every {self.period} of {self.time_column!r} (UTC). What is guaranteed is for all rows of one unit "
            f"within one {self.period}; a unit with rows in several has a budget for each of them."
        )

    def part(self, interval: Interval | None) -> str:
        """The periods that an interval touches, as a ledger writes them: the first one, or first/last.

        Raises:
            InvalidParameter: without an interval of the right column, or one without an end.
        """
        if interval is None or interval.column != self.time_column or None in (interval.since, interval.until):
            raise InvalidParameter(
                f"this ledger renews every {self.period} of {self.time_column!r}: say which rows are read, by since "
                "and until (--since 2026-11-15 --until 2026-11-16), or, where it holds dates, by a condition such as "
                f"\"{self.time_column} = DATE '2026-11-15'\"."
            )
        assert interval.since is not None and interval.until is not None  # noqa: S101 - for the type checker
        # The end is not included: a release until midnight reads nothing of the next day.
        first, last = self._number(interval.since), self._number(interval.until - datetime.timedelta(microseconds=1))
        if last - first >= _MOST_PERIODS:
            raise InvalidParameter(f"a release may read at most {_MOST_PERIODS:,} periods of a ledger that renews.")
        return self._name(first) if first == last else f"{self._name(first)}/{self._name(last)}"

    def drawn(self, part: str, unit: str | None, spending: Spending) -> list[tuple[str, Spending]]:
        """Which periods a release draws on, and what it spends of each; ValueError for what `part` never wrote."""
        first, _, last = part.partition("/")
        numbers = range(self._read(first), self._read(last or first) + 1)
        if not 1 <= len(numbers) <= _MOST_PERIODS or (last and len(numbers) == 1):
            raise ValueError("not periods")
        if len(numbers) > 1 and unit != EACH_ROW:
            spending = _twice(spending)
        return [(self._name(number), spending) for number in numbers]

    def _number(self, moment: datetime.date) -> int:
        if self.period == "day":
            return moment.toordinal()
        return moment.year if self.period == "year" else 12 * moment.year + moment.month - 1

    def _name(self, number: int) -> str:
        if self.period == "day":
            return datetime.date.fromordinal(number).isoformat()
        return f"{number:04d}" if self.period == "year" else f"{number // 12:04d}-{number % 12 + 1:02d}"

    def _read(self, name: str) -> int:
        start = {"day": "", "month": "-01", "year": "-01-01"}[self.period]
        number = self._number(datetime.date.fromisoformat(name + start))
        if self._name(number) != name:
            raise ValueError("not a period")
        return number


def _twice(spending: Spending) -> Spending:
    """What a change of one unit costs that stays in the data: two steps, by group privacy."""
    growth = exp_bounds(spending.epsilon, _PRECISION)[1]
    delta = min(Fraction(1) - Fraction(1, 1 << _PRECISION), (1 + growth) * spending.delta)
    return replace(spending, epsilon=2 * spending.epsilon, delta=delta, parts=())
