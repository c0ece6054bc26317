"""Budgets over time: which epsilon each of many releases may have, so that all of them fit into a budget."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from dptally.errors import InvalidParameter
from dptally.exact import as_count, as_epsilon, as_fraction
from dptally.exact.searching import first_where
from dptally.ledger.accounting import optimal_total
from dptally.privacy.spending import Spending

__all__ = ["ReleasePlan", "plan_releases"]

_DIGITS = 4
_MOST_RELEASES = 100_000


@dataclass(frozen=True)
class ReleasePlan:
    """Which epsilon each of equal releases may have. All numbers are exact, and rounded down to four digits.

    Attributes:
        releases: how many there will be.
        epsilon: of the budget.
        delta: of the budget.
        delta_each: of each release.
        basic: the epsilon of each release in a ledger with basic accounting, which holds however releases are chosen.
        tight: the same with tight accounting, for releases whose parameters are fixed without looking at earlier ones.
            It rests on each release's epsilon and delta alone; mechanisms whose profile is known may fit more.
    """

    releases: int
    epsilon: Fraction
    delta: Fraction
    delta_each: Fraction
    basic: Fraction
    tight: Fraction

    def __str__(self) -> str:
        each = f"{self.releases:,} releases at delta {float(self.delta_each):.6g} each"
        return (
            f"{each} fit into epsilon {float(self.epsilon):.6g}, delta {float(self.delta):.6g} with epsilon "
            f"{float(self.basic):.6g} each under basic accounting, {float(self.tight):.6g} under tight "
            "accounting, where all parameters are fixed without looking at earlier releases."
        )


def plan_releases(releases: int, *, epsilon: object, delta: object, delta_each: object = None) -> ReleasePlan:
    """Which epsilon each of so many releases may have; see `Ledger.plan`.

    Basic: epsilon / releases. Tight: the largest epsilon, of four digits, for which optimal composition of as many
    (epsilon, delta_each)-private mechanisms stays within the budget [KOV15, Thm. 3.3], in integers that are rounded up.
    """
    number = as_count("releases", releases, largest=_MOST_RELEASES)
    whole, most = as_epsilon(epsilon), as_fraction("delta", delta)
    if not 0 <= most < 1:
        raise InvalidParameter(f"delta must be at least 0 and below 1, got {delta}.")
    each = most / (2 * number) if delta_each is None else as_fraction("delta_each", delta_each)
    if each < 0 or number * each > most:
        raise InvalidParameter(
            f"delta_each must be at least 0 and at most {float(most / number):.6g}: deltas of all releases add up."
        )
    step = Fraction(10) ** (math.floor(math.log10(whole / number)) + 1 - _DIGITS)
    basic = math.floor(whole / number / step)

    def refused(steps: int) -> bool:
        one = Spending("release", steps * step, each)
        return not optimal_total([one] * number, epsilon=whole, delta=most).within(most)

    largest = math.floor(whole / step)
    tight = basic if number == 1 or not most else max(basic, first_where(refused, basic + 1, largest + 1) - 1)
    return ReleasePlan(number, whole, most, each, basic * step, tight * step)
