"""What is asked for beside keys and counts: sums and means of columns, totals, counts of rows; read and checked.

All of it is public, and fixed before data is read: columns, their ranges, how rows of one unit are combined, and which
share of the budget each part has.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, Literal

from dptally.errors import InvalidParameter
from dptally.exact import as_count, as_fraction

__all__ = ["FINE", "Clipped", "Statistic", "Statistics", "read_statistics"]

FINE = 1 << 30
"""A unit adds at most so many fine steps to the sum of a column."""
_LARGEST_ROWS = 1_000_000
_NARROWEST = 1 << 28  # half ranges that a range may be away from 0
_LARGEST_END = 10**30
_MOST_COLUMNS = 16
_SELECTION, _TOTALS = Fraction(3, 4), Fraction(1, 50)
_SELECTION_WITH_COLUMNS = Fraction(1, 4)  # few keys are lost, and all numbers gain
Combine = Literal["add", "average"]


@dataclass(frozen=True)
class Clipped:
    """What a unit adds for a key: its rows of a column, added up or averaged, clipped into a range, from a centre on.

    Attributes:
        column: its name.
        low: of the range.
        high: of the range.
        combine: what becomes of several rows.
        centre: what a sum counts from: the middle of the range, or 0.
    """

    column: str
    low: Fraction
    high: Fraction
    combine: Combine
    centre: Fraction

    @property
    def reach(self) -> Fraction:
        """The largest distance from the centre: so much is `FINE` steps."""
        return max(self.high - self.centre, self.centre - self.low)

    def fine(self, number: Fraction) -> int:
        """A number of the column in fine steps, rounded."""
        return round(number * FINE / self.reach)

    @property
    def step(self) -> float:
        """What one fine step is worth."""
        return float(self.reach / FINE)

    def facts(self) -> dict[str, str]:
        """As plain data."""
        ends = {"low": str(self.low), "high": str(self.high), "centre": str(self.centre)}
        return {"column": self.column, "combine": self.combine, **ends}


@dataclass(frozen=True)
class Statistic:
    """A sum or a mean of a column, for every released key."""

    kind: Literal["sum", "mean"]
    column: str
    low: Fraction
    high: Fraction
    combine: Combine

    @property
    def name(self) -> str:
        """Of its column in a table: sum_amount, mean_rating."""
        return f"{self.kind}_{self.column}"

    @property
    def _range(self) -> tuple[str, Fraction, Fraction, Combine]:
        return self.column, self.low, self.high, self.combine

    def shares_with(self, other: Statistic) -> bool:
        """Whether both come from the same noisy sum."""
        return self._range == other._range


@dataclass(frozen=True)
class Statistics:
    """Everything that is asked for beside keys and counts of units.

    Attributes:
        asked: sums and means, in the order of columns of a table.
        totals: whether the number of units and of what was not found is released.
        rows: how many rows of a unit and key count at most; None where units are counted.
        shares: of the budget, by name of the part; those that are left out share the rest.
    """

    asked: tuple[Statistic, ...] = ()
    totals: bool = False
    rows: int | None = None
    shares: tuple[tuple[str, Fraction], ...] = ()

    @property
    def reads_values(self) -> bool:
        """Whether rows are looked at beyond their unit and key."""
        return bool(self.asked) or self.rows is not None

    @cached_property
    def parts(self) -> dict[str, Fraction]:
        """The share of the whole budget that each part has, by name. They add up to 1.

        "selection" finds keys; "counts", "totals" and each sum and mean are parts of the last stage. Without `shares`:
        selection 3/4, or 1/4 where sums or means are asked for; totals 1/50; counts half of the rest, the columns the
        other half in equal parts.
        """
        selection = _SELECTION_WITH_COLUMNS if self.asked else _SELECTION
        rest = 1 - selection - (_TOTALS if self.totals else 0)
        usual = {"selection": selection, "counts": rest / 2 if self.asked else rest}
        usual |= {each.name: rest / 2 / len(self.asked) for each in self.asked}
        if self.totals:
            usual["totals"] = _TOTALS
        stated = dict(self.shares)
        unknown = next((name for name in stated if name not in usual), None)
        if unknown is not None:
            raise InvalidParameter(f"shares names {unknown!r}, which is none of {', '.join(usual)}.")
        left = sum((part for name, part in usual.items() if name not in stated), Fraction(0))
        free = 1 - sum(stated.values(), Fraction(0))
        if min(stated.values(), default=Fraction(1)) <= 0 or free < 0 or (free == 0) != (left == 0):
            raise InvalidParameter(
                "shares must be positive and add up to less than 1, or to 1 where all parts are named."
            )
        return {name: stated.get(name, part * free / left if left else part) for name, part in usual.items()}

    @cached_property
    def columns(self) -> tuple[Clipped, ...]:
        """What a unit adds to, one for each range of a column; sums and means of one range share it.

        A mean counts from the middle c of its range, which makes the largest distance D, and so the noise, smallest;
        a sum that counts from there is S + c n with the noise of the count n, so it counts from 0 where that is less.
        """
        found: list[Clipped] = []
        for first in self.asked:
            alike = [each for each in self.asked if each.shares_with(first)]
            if alike[0] is first:
                middle = (first.low + first.high) / 2
                centre = middle if any(each.kind == "mean" for each in alike) else self._centre_of_sum(first)
                found.append(Clipped(first.column, first.low, first.high, first.combine, centre))
        return tuple(found)

    def _centre_of_sum(self, sum_of: Statistic) -> Fraction:
        middle, half = (sum_of.low + sum_of.high) / 2, (sum_of.high - sum_of.low) / 2
        own, counts = 1 / self.share_of(sum_of), (2 if self.rows else 1) / self.parts["counts"]  # of variances
        from_middle = half**2 * own + middle**2 * (own + counts)
        from_zero = max(abs(sum_of.low), abs(sum_of.high)) ** 2 * own
        return middle if from_middle < from_zero else Fraction(0)

    def share_of(self, statistic: Statistic) -> Fraction:
        """The share of the noisy sum that a statistic comes from."""
        return sum((self.parts[each.name] for each in self.asked if each.shares_with(statistic)), Fraction(0))

    def share_of_column(self, place: int) -> Fraction:
        """The same for one of `columns`."""
        return next(self.share_of(each) for each in self.asked if self.place_of(each) == place)

    def place_of(self, statistic: Statistic) -> int:
        """Which of `columns` a statistic comes from."""
        firsts = [each for i, each in enumerate(self.asked) if not any(e.shares_with(each) for e in self.asked[:i])]
        return next(i for i, each in enumerate(firsts) if each.shares_with(statistic))

    @property
    def counts_units(self) -> bool:
        """Whether units of each key are counted beside rows: for means, for sums from a middle, and for totals."""
        centred = any(column.centre for column in self.columns) or any(each.kind == "mean" for each in self.asked)
        return self.rows is not None and (centred or self.totals)

    def facts(self) -> dict[str, Any]:
        """As plain data."""
        asked = [
            {"kind": each.kind, "column": each.column, "low": str(each.low), "high": str(each.high),
             "combine": each.combine}
            for each in self.asked
        ]  # fmt: skip
        shares = {name: str(share) for name, share in self.shares}
        return {"asked": asked, "totals": self.totals, "rows": self.rows, "shares": shares}

    @classmethod
    def from_facts(cls, facts: dict[str, Any]) -> Statistics:
        """Back from plain data; refuses what `read_statistics` would."""
        asked = [
            _statistic(each["kind"], each["column"], (each["low"], each["high"]), each["combine"])
            for each in facts["asked"]
        ]
        rows = None if facts["rows"] is None else as_count("rows", facts["rows"], largest=_LARGEST_ROWS)
        if not isinstance(facts["totals"], bool):
            raise InvalidParameter("totals must be true or false.")
        made = cls(tuple(asked), facts["totals"], rows, _read_shares(facts["shares"]))
        return _checked(made)


def read_statistics(
    *,
    sums: object = None,
    means: object = None,
    totals: bool = False,
    count: str | None = None,
    max_rows_per_unit_and_key: int | None = None,
    combine_rows: str | None = None,
    shares: object = None,
    unit: str | None = None,
    taken: tuple[str, ...] = (),
) -> Statistics | None:
    """What `publish` was asked for beside keys and counts; None where that is nothing.

    Args:
        sums: ranges of columns, by name.
        means: ranges of columns, by name.
        totals: as in `publish`.
        count: "units" or "rows" where there is a unit.
        max_rows_per_unit_and_key: as in `publish`.
        combine_rows: "add" or "average"; None to add for sums and average for means.
        shares: of the budget, by part.
        unit: the column of the unit.
        taken: columns that are keys or the unit.

    Raises:
        InvalidParameter: says which parameter, and what it must be.
    """
    if combine_rows not in (None, "add", "average"):
        raise InvalidParameter(f"combine_rows must be 'add' or 'average', got {combine_rows!r}.")
    rows = None
    if unit is not None and count == "rows":
        if max_rows_per_unit_and_key is None:
            raise InvalidParameter("max_rows_per_unit_and_key is missing: count='rows' needs a bound that is public.")
        rows = as_count("max_rows_per_unit_and_key", max_rows_per_unit_and_key, largest=_LARGEST_ROWS)
    elif max_rows_per_unit_and_key is not None:
        raise InvalidParameter("max_rows_per_unit_and_key is for count='rows' and a `unit`.")
    asked = []
    for kind, given in (("sum", sums), ("mean", means)):
        usual = "add" if kind == "sum" and unit is not None else "average"  # of one row both are the row
        for column, ends in _ranges(kind, given).items():
            if column in taken:
                raise InvalidParameter(f"column '{column}' is a key or the unit, and has no {kind}.")
            asked.append(_statistic(kind, column, ends, combine_rows or usual))
    found = Statistics(tuple(asked), bool(totals), rows, _read_shares(shares))
    if not (asked or found.totals or rows):
        if found.shares:
            raise InvalidParameter("shares are for sums, means, totals and count='rows'.")
        return None
    return _checked(found)


def _checked(found: Statistics) -> Statistics:
    if len(found.asked) > _MOST_COLUMNS:
        raise InvalidParameter(f"at most {_MOST_COLUMNS} sums and means can be asked for at once.")
    names = [each.name for each in found.asked]
    if len(set(names)) != len(names):
        raise InvalidParameter("a sum or mean is asked for twice.")
    found.parts  # noqa: B018 - refuses shares
    return found


def _ranges(kind: str, given: object) -> dict[str, Any]:
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        raise InvalidParameter(
            f"{kind}s must map columns to ranges, such as {{'amount': (0, 100)}}; where the range is not known, "
            "publish_quantiles of the column, with the same ledger, finds one privately."
        )
    if not all(isinstance(name, str) for name in given):
        raise InvalidParameter(f"{kind}s must name columns by text.")
    return dict(given)


def _statistic(kind: Any, column: str, ends: Any, combine: Any) -> Statistic:
    if kind not in ("sum", "mean") or combine not in ("add", "average") or not isinstance(column, str):
        raise InvalidParameter("there is no such statistic.")
    pair = list(ends) if isinstance(ends, tuple | list) else []
    if len(pair) != 2 or any(end is None for end in pair):
        raise InvalidParameter(
            f"the {kind} of '{column}' needs a range of two numbers, such as (0, 100); where it is not known, "
            "publish_quantiles of the column, with the same ledger, finds one privately."
        )
    low, high = (as_fraction(f"the range of '{column}'", end) for end in pair)
    if not low < high:
        raise InvalidParameter(f"the range of '{column}' must go from a smaller to a larger number.")
    middle, half = (low + high) / 2, (high - low) / 2
    if max(abs(low), abs(high)) > _LARGEST_END or half * _LARGEST_END < 1 or abs(middle) > _NARROWEST * half:
        raise InvalidParameter(
            f"the range of '{column}' must lie within 1e30 of 0 and be at least 1e-30 wide, and no narrower than "
            "2^-27 of its distance from 0."
        )
    return Statistic(kind, column, low, high, combine)


def _read_shares(given: object) -> tuple[tuple[str, Fraction], ...]:
    if given is None:
        return ()
    if not isinstance(given, Mapping):
        raise InvalidParameter("shares must map parts to shares of the budget, such as {'counts': 0.2}.")
    return tuple((str(name), as_fraction(f"the share of {name!r}", share)) for name, share in given.items())
