"""Whether a budget holds what was spent, for every unit there may be.

A unit is in every source, and in one part of each partitioning. So what it can have lost is what was spent on the whole
data, and on one part of each partitioning: a history for each choice of parts. A budget holds if it holds for each of
them (parallel composition [McSherry09]); that no unit is in two parts of a partitioning is the statement of the one
who names parts.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import lru_cache
from typing import Literal

from dptally.exact.searching import first_where
from dptally.ledger.accounting import Total, basic_total, optimal_total, short_above, tight_total
from dptally.privacy.spending import Spending

Accounting = Literal["basic", "tight"]
Group = tuple[str, str] | None
"""A partitioning and a part of it, or None for the whole data."""
_NOTHING = Fraction(0), Fraction(0)
_SHARES = 1000
MOST_FITTING = 10_000
"""Beyond which nobody counts how many releases still fit."""
_MOST_HISTORIES = 256  # for rules that look at each; beyond it, sums of the largest parts


@dataclass(frozen=True)
class Budget:
    """What may be spent in all, in exact numbers; delta is 0 for pure differential privacy.

    Accounting is "basic", where epsilons and deltas are added up, which holds however releases are chosen; or "tight",
    the best of basic, optimal and tight composition, which holds for releases whose parameters are fixed without
    looking at earlier releases: that they are is the statement of the one who makes such a ledger.
    """

    epsilon: Fraction
    delta: Fraction
    accounting: Accounting = "basic"


@dataclass
class Spent:
    """What counts as spent, by group."""

    groups: dict[Group, Counter[Spending]] = field(default_factory=dict)
    sums: dict[Group, tuple[Fraction, Fraction]] = field(default_factory=dict)

    def add(self, group: Group, spending: Spending, times: int = 1) -> None:
        """Count a spending, or with -1 take it back."""
        events = self.groups.setdefault(group, Counter())
        events[spending] += times
        if not events[spending]:
            del events[spending]
        epsilon, delta = self.sums.get(group, _NOTHING)
        self.sums[group] = short_above(epsilon + times * spending.epsilon), short_above(delta + times * spending.delta)
        if not events:
            del self.groups[group], self.sums[group]

    def largest(self, group: Group = None) -> tuple[Fraction, Fraction]:
        """Sums of epsilon and delta, each for the unit that lost most of it; in a group, for units of that part."""
        epsilon, delta = self.sums.get(None, _NOTHING)
        for parts in self._partitionings(group).values():
            epsilon += max(self.sums.get(part, _NOTHING)[0] for part in parts)
            delta += max(self.sums.get(part, _NOTHING)[1] for part in parts)
        return epsilon, delta

    def histories(self, group: Group = None) -> list[Counter[Spending]] | None:
        """What units may have lost, each history once; in a group, for units of that part; None if it is too many."""
        partitionings = list(self._partitionings(group).values())
        if math.prod(map(len, partitionings)) > _MOST_HISTORIES:
            return None
        found: dict[frozenset[tuple[Spending, int]], Counter[Spending]] = {}
        for chosen in itertools.product(*partitionings):
            history = Counter(self.groups.get(None, Counter()))
            for part in chosen:
                history.update(self.groups.get(part, Counter()))
            found.setdefault(frozenset(history.items()), history)
        return list(found.values())

    def _partitionings(self, group: Group) -> dict[str, list[Group]]:
        found: dict[str, list[Group]] = {} if group is None else {group[0]: [group]}
        for part in self.groups:
            if part is not None and (group is None or part[0] != group[0]):
                found.setdefault(part[0], []).append(part)
        return found

    def allows(self, budget: Budget, spending: Spending, group: Group, times: int = 1) -> bool:
        """Whether one more spending, or several, keep the budget for every unit concerned; others lose nothing more."""
        epsilon, delta = self.largest(group)
        if epsilon + times * spending.epsilon <= budget.epsilon and delta + times * spending.delta <= budget.delta:
            return True
        histories = self.histories(group)
        if histories is None:
            return False
        # Not `all(...)` over largest sums: the part with most epsilon need not be the one with most delta.
        return all(_holds(budget, frozenset((history + Counter({spending: times})).items())) for history in histories)

    def left(self, budget: Budget, group: Group) -> tuple[Fraction, Fraction]:
        """Epsilon and delta of one more spending that the budget allows; in a group, for units of that part.

        With basic accounting there is nothing larger: whatever is spent in several pieces adds up to it. With tight
        accounting epsilon and delta can be exchanged for each other, and this is one of many pairs: at half of the
        delta that is left at the budget's epsilon, the largest epsilon up to a thousandth of the budget's; or what is
        left by basic composition, if that is more.
        """
        epsilon, delta = self.largest(group)
        best = budget.epsilon - epsilon, budget.delta - delta
        if min(best) < 0:
            best = _NOTHING
        histories = self.histories(group) if budget.accounting == "tight" else None
        if histories is None or not epsilon:
            return best
        reached = max(_reached(budget, frozenset(history.items())) for history in histories)
        room = (budget.delta - reached) / 2
        if room < 0:
            return best
        room = Fraction(math.floor(room / budget.delta * _SHARES), _SHARES) * budget.delta if budget.delta else room
        known = next(event for events in self.groups.values() for event in events)

        def refused(shares: int) -> bool:
            # Of one more release nothing is known but epsilon and delta.
            one_more = replace(known, epsilon=budget.epsilon * shares / _SHARES, delta=room, parts=())
            return not self.allows(budget, one_more, group)

        found = budget.epsilon * (first_where(refused, 1, _SHARES + 1) - 1) / _SHARES
        return (found, room) if found > best[0] else best

    def fitting(self, budget: Budget, spending: Spending, group: Group) -> int:
        """How many more of a spending the budget allows, up to `MOST_FITTING`."""
        return first_where(lambda times: not self.allows(budget, spending, group, times), 1, MOST_FITTING + 1) - 1

    def totals(self, budget: Budget) -> list[Total] | None:
        """Basic, optimal and tight totals for the units that lost most; None if there are too many to look at."""
        histories = self.histories()
        if histories is None:
            return None
        worst: dict[str, Total] = {}
        for history in histories:
            for total in _totals(budget, frozenset(history.items()), True):
                before = worst.get(total.method, total)
                unknown = before.epsilon is None or total.epsilon is None
                epsilon = None if unknown else max(before.epsilon, total.epsilon)  # type: ignore[type-var]
                worst[total.method] = Total(total.method, max(before.delta, total.delta), epsilon)
        return list(worst.values())


@lru_cache(maxsize=1024)
def _holds(budget: Budget, history: frozenset[tuple[Spending, int]]) -> bool:
    """Whether one unit's history is within the budget; by the cheapest rule that says so."""
    events = list(Counter(dict(history)).elements())
    rules = (basic_total,) if budget.accounting == "basic" else (basic_total, optimal_total, tight_total)
    return any(rule(events, epsilon=budget.epsilon, delta=budget.delta).within(budget.delta) for rule in rules)


@lru_cache(maxsize=64)
def _reached(budget: Budget, history: frozenset[tuple[Spending, int]]) -> Fraction:
    """The delta of one unit's history at the budget's epsilon, by the rule that says least."""
    return min(total.delta for total in _totals(budget, history, False))


@lru_cache(maxsize=64)
def _totals(budget: Budget, history: frozenset[tuple[Spending, int]], with_epsilon: bool) -> tuple[Total, ...]:
    events = list(Counter(dict(history)).elements())
    epsilon, delta = budget.epsilon, budget.delta
    return (
        basic_total(events, epsilon=epsilon, delta=delta),
        optimal_total(events, epsilon=epsilon, delta=delta, with_epsilon=with_epsilon),
        tight_total(events, epsilon=epsilon, delta=delta, with_epsilon=with_epsilon),
    )
