"""Slow, obvious versions of what the package computes fast. Nothing here is imported from the builders."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from mpmath import mp, mpf


def growth(epsilon: Fraction, bits: int = 700) -> Fraction:
    """e^epsilon to `bits` bits, by mpmath."""
    with mp.workprec(bits):
        number = mp.exp(mpf(epsilon.numerator) / epsilon.denominator)
        return Fraction(int(mp.floor(number * mpf(2) ** (bits - 60))), 2 ** (bits - 60))


def optimal_probabilities(epsilon: Fraction, delta: Fraction, bits: int = 400) -> list[Fraction]:
    """pi_1, pi_2, ... up to the first 1, by Algorithm 3 of [CGSS21] in fixed point with `bits` bits."""
    one = 1 << bits
    factor = int(growth(epsilon) * one)
    slack = int(delta * one)
    reached, found = 0, []
    while reached < one:
        up = (factor * reached >> bits) + slack
        down = one + ((reached + slack - one) << bits) // factor
        reached = min(one, up, down)
        found.append(Fraction(reached, one))
    return found


def divergence(first: dict[Any, Fraction], second: dict[Any, Fraction], factor: Fraction) -> Fraction:
    """Hockey-stick divergence of two laws given as dictionaries."""
    return sum(
        (max(Fraction(0), chance - factor * second.get(x, Fraction(0))) for x, chance in first.items()), Fraction(0)
    )
