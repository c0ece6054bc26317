"""The slow, obvious sparse histogram: laws of whole releases by enumeration, as fractions."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from fractions import Fraction
from itertools import product
from math import comb

Histogram = frozenset[tuple[int, int]]
Row = Callable[[int], Mapping[int, Fraction]]


def keep_heavy(noisy: Mapping[int, int], keep: int) -> Histogram:
    """Keys whose noisy count is above the (keep + 1)-th largest, or above 0 if there are not so many keys."""
    ordered = sorted(noisy.values(), reverse=True)
    cut = ordered[keep] if len(ordered) > keep else 0
    return frozenset((key, value) for key, value in noisy.items() if value > cut)


def dense_law(size: int, counts: Mapping[int, int], keep: int, row: Row) -> dict[Histogram, Fraction]:
    """KeepHeavy [BV19, Alg. 6.1] with a cap: noise for every key of the universe, then the heaviest."""
    law: dict[Histogram, Fraction] = defaultdict(Fraction)
    rows = [row(counts.get(key, 0)) for key in range(size)]
    for values in product(*(list(one) for one in rows)):
        chance = Fraction(1)
        for one, value in zip(rows, values, strict=True):
            chance *= one[value]
        law[keep_heavy(dict(enumerate(values)), keep)] += chance
    return dict(law)


def order_statistics_law(row: Mapping[int, Fraction], draws: int, count: int) -> dict[tuple[int, ...], Fraction]:
    """The largest of so many draws, decreasing, by going through all draws."""
    law: dict[tuple[int, ...], Fraction] = defaultdict(Fraction)
    for values in product(row, repeat=draws):
        chance = Fraction(1)
        for value in values:
            chance *= row[value]
        law[tuple(sorted(values, reverse=True)[:count])] += chance
    return dict(law)


def chained_order_statistics_law(
    row: Mapping[int, Fraction], draws: int, count: int
) -> dict[tuple[int, ...], Fraction]:
    """[BV19, Alg. 6.7]: from the largest value down, a binomial number of the draws that are left."""
    wanted = min(count, draws)
    law: dict[tuple[int, ...], Fraction] = defaultdict(Fraction)

    def go_on(value: int, found: tuple[int, ...], chance: Fraction) -> None:
        if value == 0:
            law[found + (0,) * (wanted - len(found))] += chance
            return
        here = row[value] / sum(row[lower] for lower in range(value + 1))
        cap, left = wanted - len(found), draws - len(found)
        masses = [comb(left, n) * here**n * (1 - here) ** (left - n) for n in range(cap)]
        for number, mass in enumerate([*masses, 1 - sum(masses)]):
            go_on(value - 1, found + (value,) * number, chance * mass)

    go_on(max(row), (), Fraction(1))
    return {outcome: chance for outcome, chance in law.items() if chance}
