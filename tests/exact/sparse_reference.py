"""The slow, obvious sparse histogram: laws of whole releases by enumeration, as fractions."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction
from itertools import permutations, product
from math import comb, factorial

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


def label_sequences(free: Sequence[int], count: int) -> Iterator[tuple[tuple[int, ...], Fraction]]:
    """Uniformly random sequences of distinct labels: what Algorithm A.3 must return."""
    chance = Fraction(factorial(len(free) - count), factorial(len(free)))
    return ((labels, chance) for labels in permutations(free, count))


def sorted_labels(free: Sequence[int], count: int) -> Iterator[tuple[tuple[int, ...], Fraction]]:
    """What Algorithm A.3 returns as printed, a set, read out in increasing order."""
    return ((tuple(sorted(labels)), chance) for labels, chance in label_sequences(free, count))


def lazy_law(
    size: int,
    counts: Mapping[int, int],
    keep: int,
    row: Row,
    labelled: Callable[[Sequence[int], int], Iterator[tuple[tuple[int, ...], Fraction]]] = label_sequences,
) -> dict[Histogram, Fraction]:
    """KH' [BV19, Alg. 6.4] with a cap: noise for keys in the data, order statistics and labels for the others."""
    free = [key for key in range(size) if key not in counts]
    count = min(keep + 1, len(free))
    others = chained_order_statistics_law(row(0), len(free), keep + 1)
    law: dict[Histogram, Fraction] = defaultdict(Fraction)
    for own in product(*(row(count_of).items() for count_of in counts.values())):
        chance = Fraction(1)
        for _, mass in own:
            chance *= mass
        noisy = dict(zip(counts, (value for value, _ in own), strict=True))
        for values, mass in others.items():
            for labels, share in labelled(free, count):
                law[keep_heavy(noisy | dict(zip(labels, values, strict=True)), keep)] += chance * mass * share
    return dict(law)
