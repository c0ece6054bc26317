"""Releases in rounds, enumerated from their definition: the exact divergence of the worst neighbours, in integers.

Nothing here comes from `dptally.verifiers.key_rounds`, and there is no likelihood ratio, no grid and no interpolation.
A history has the probability p with the unit (or without it) and q without it (or with it). A stage is a list of laws
of which an adversary takes one after every history; the adversary also chooses the sums that all other units give to
the unit's keys, again after every history. All sums up to the end of the table are tried, and all outcomes are written
out, each subset of keys with its own probability.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from itertools import combinations, combinations_with_replacement, product

__all__ = ["Coin", "Noise", "Round", "exp_above", "worst_divergence"]

WHOLE = 1 << 128


@lru_cache(maxsize=256)
def exp_above(exponent: Fraction) -> Fraction:
    """At least e^exponent, by less than 2^-90 of it: the series, and twice its last term for the rest."""
    total = term = Fraction(1)
    order = 0
    while order < 4 * exponent or term > Fraction(1, 1 << 100):
        order += 1
        term *= exponent / order
        total += term
    total += 2 * term
    return Fraction(-(-total.numerator * (1 << 96) // total.denominator), 1 << 96)


@dataclass(frozen=True)
class Coin:
    """A count of units with two-sided geometric noise of this ratio.

    With the unit the count is one higher. All values above it are 1/r times as likely with the unit, and all others r
    times, so that what is seen is whether the value is above: with chance 1/(1 + r) with the unit, r/(1 + r) without.
    """

    ratio: Fraction

    def outcomes(self, keys: int) -> Iterator[list[tuple[int, int, int]]]:
        """For each choice of the rest of the data: (probability with the unit, without it, keys left) of outcomes."""
        top, bottom = self.ratio.numerator, self.ratio.denominator
        yield [(bottom, top, keys), (top, bottom, keys)]
        yield [(self.whole(keys), self.whole(keys), keys)]  # a unit without keys is in no bin

    def whole(self, keys: int) -> int:
        """What probabilities add up to."""
        return self.ratio.numerator + self.ratio.denominator


@dataclass(frozen=True)
class Round:
    """Weights and chances of a round; from the length of the table on, sums are reported for certain."""

    low: int
    high: int
    multiple: int
    chances: tuple[int, ...]

    @property
    def table(self) -> bytes:
        """As it is drawn from."""
        return b"".join(chance.to_bytes(16, "little") for chance in self.chances)

    @property
    def sums(self) -> list[int]:
        """What other units may have given a key: nothing, or at least the smallest weight; the last is certain."""
        return [0, *range(self.multiple, len(self.chances) + 1)]

    def chance(self, total: int) -> int:
        """In units of 2^-128."""
        return self.chances[total] if total < len(self.chances) else WHOLE

    def whole(self, keys: int) -> int:
        """What probabilities add up to."""
        return int(WHOLE**keys * math.comb(keys, min(keys, self.high)))

    def outcomes(self, keys: int) -> Iterator[list[tuple[int, int, int]]]:
        """For each choice of other units' sums: every subset of the unit's keys that may be reported."""
        return iter(self._worlds(keys))

    @cached_property
    def _known(self) -> dict[int, list[list[tuple[int, int, int]]]]:
        return {}

    def _worlds(self, keys: int) -> list[list[tuple[int, int, int]]]:
        if keys in self._known:
            return self._known[keys]
        kept = min(keys, self.high)
        weight = math.isqrt(self.multiple**2 * self.high // max(kept, self.low)) if keys else 0
        worlds = []
        for others in combinations_with_replacement(self.sums, keys):
            without = [self.chance(total) for total in others]
            more = [self.chance(total + weight) for total in others]
            world = []
            for reported in product((False, True), repeat=keys):
                alone = _all_of(without, reported) * math.comb(keys, kept)
                joined = 0
                for chosen in combinations(range(keys), kept):  # the keys that the unit keeps, uniformly
                    chances = [more[key] if key in chosen else without[key] for key in range(keys)]
                    joined += _all_of(chances, reported)
                if joined or alone:
                    world.append((joined, alone, keys - sum(reported)))
            worlds.append(world)
        self._known[keys] = worlds
        return worlds


def _all_of(chances: Sequence[int], reported: Sequence[bool]) -> int:
    found = 1
    for chance, seen in zip(chances, reported, strict=True):
        found *= chance if seen else WHOLE - chance
    return found


@dataclass(frozen=True)
class Noise:
    """Counts with noise of these masses (in units of 2^-128), where a unit moves at most so many counts by one."""

    masses: tuple[int, ...]
    differing: int

    def whole(self, keys: int) -> int:
        """What probabilities add up to."""
        return int(WHOLE**self.differing)

    def outcomes(self, keys: int) -> Iterator[list[tuple[int, int, int]]]:
        """As many counts as differ; whatever is left of the unit's keys, others may have been found before."""
        lower, higher = (*self.masses, 0), (0, *self.masses)
        every = [range(len(lower))] * self.differing
        yield [
            (math.prod(higher[at] for at in places), math.prod(lower[at] for at in places), keys)
            for places in product(*every)
        ]


Stage = Sequence[Coin | Round | Noise]


def worst_divergence(stages: Sequence[Stage], keys: int, epsilon: Fraction) -> Fraction:
    """The largest divergence of two neighbours at epsilon, of both orders, where the unit has at most so many keys.

    It is rounded down by less than 2^-90, so that what exceeds a bound does so for certain.
    """
    growth = exp_above(epsilon)
    found = [_value(stages, 1, 1, held, growth, order) for held in range(keys + 1) for order in (0, 1)]
    return max(found)


def _value(stages: Sequence[Stage], first: int, second: int, keys: int, growth: Fraction, order: int) -> Fraction:
    """What a history of these probabilities adds, in their unit, if the rest goes as badly as it may."""
    if not stages or not first:
        return Fraction(max(0, first * growth.denominator - second * growth.numerator), growth.denominator)
    if not second:
        return Fraction(first)
    best = Fraction(0)
    for law in stages[0]:
        whole = law.whole(keys)
        for world in law.outcomes(keys):
            if len(stages) == 1:
                gained = 0
                for one, other, _ in world:
                    here, there = (one, other) if order == 0 else (other, one)
                    gained += max(0, first * here * growth.denominator - second * there * growth.numerator)
                best = max(best, Fraction(gained, whole * growth.denominator))
                continue
            total = Fraction(0)
            for one, other, left in world:
                here, there = (one, other) if order == 0 else (other, one)
                total += _value(stages[1:], first * here, second * there, left, growth, order)
            best = max(best, total / whole)
    return best
