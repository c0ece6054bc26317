"""The slow reference: privacy loss of two laws that are written out, outcome by outcome, in exact numbers.

Nothing here is taken from the verifiers; bounds of the exponential are from the balls of FLINT, not from the series of
laws and verifiers. A law is a mapping from outcomes to whole numbers, its masses, in units of one over their sum.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np
from flint import arb, fmpq
from numpy.typing import NDArray

from dptally.verifiers.gaussian import working_precision

Law = Mapping[Any, int]
_CELLS = 300  # of the grid of losses, for one epsilon
_WINDOW = 5 * _CELLS  # losses beyond so many epsilons are cut, which can only lower what is found
_FLOAT_ERROR = 1e-10
PRECISION = 768  # bits: more than any builder or verifier has, so that a tie they settled is settled the same way here


def ball(number: Fraction | int) -> arb:
    """A ball around a fraction."""
    exact = Fraction(number)
    return arb(fmpq(exact.numerator, exact.denominator))


def ends(found: arb) -> tuple[Fraction, Fraction]:
    """The two ends of a ball, as exact fractions."""
    return _exact(found.lower()), _exact(found.upper())


def _exact(point: arb) -> Fraction:
    mantissa, exponent = (int(part) for part in point.man_exp())
    return Fraction(mantissa) * Fraction(2) ** exponent


@lru_cache(maxsize=256)
def exponential(exponent: Fraction) -> tuple[Fraction, Fraction]:
    """A fraction below e^exponent and one above, within 2^-700 of it."""
    with working_precision(PRECISION):
        return ends(ball(exponent).exp())


def as_masses(row: Mapping[Any, Fraction], whole: int) -> dict[Any, int]:
    """The row of a law in units of one over `whole`, without outcomes of no mass; or ValueError."""
    masses = {}
    for outcome, chance in row.items():
        share, rest = divmod(whole, chance.denominator)
        if rest or chance < 0:
            raise ValueError("a probability is negative, or not a multiple of the unit")
        if chance:
            masses[outcome] = chance.numerator * share
    if sum(masses.values()) != whole:
        raise ValueError("probabilities do not sum to one")
    return masses


def excess(first: Law, second: Law, epsilon: Fraction) -> Fraction:
    """Upper bound, within 2^-600, of the sum of max(0, P(v) - e^epsilon Q(v)) over all outcomes v.

    A lower bound of e^epsilon is used, which can only make it larger.
    """
    low, _ = exponential(epsilon)
    whole, other = sum(first.values()), sum(second.values())
    here, there = low.denominator * other, low.numerator * whole
    over = 0
    for outcome, mass in first.items():
        more = mass * here - second.get(outcome, 0) * there
        if more > 0:
            over += more
    return Fraction(over, low.denominator * whole * other)


def product(laws: Sequence[Law]) -> dict[Any, int]:
    """The law of independent draws from each, written out."""
    together: dict[Any, int] = {(): 1}
    for law in laws:
        together = {
            (*before, outcome): mass * more for before, mass in together.items() for outcome, more in law.items()
        }
    return together


def composed(key_epsilon: Fraction, key_delta: Fraction, copies: int, epsilon: Fraction) -> Fraction:
    """Upper bound of the delta at `epsilon` of `copies` mechanisms that are (key_epsilon, key_delta)-private each.

    Written from the mechanism that attains it [KOV15, Thm. 3.3]: with probability key_delta it gives its input away,
    otherwise it answers one bit, right with probability e^e / (1 + e^e). The laws of how many bits are right, for the
    two inputs, are compared term by term, in balls.
    """
    with working_precision(PRECISION):
        grown = ball(key_epsilon).exp()
        right, wrong = grown / (1 + grown), 1 / (1 + grown)
        factor = ball(epsilon).exp()
        over = ball(0)
        for hits in range(copies + 1):
            ways = math.comb(copies, hits)
            gain = ways * (right**hits * wrong ** (copies - hits) - factor * right ** (copies - hits) * wrong**hits)
            over += gain.max(ball(0))
        silent = (1 - ball(key_delta)) ** copies
        return ends(1 - silent * (1 - over))[1]


def composed_at_least(pairs: Sequence[tuple[Law, Law, int]], epsilon: Fraction) -> float:
    """A lower bound, in floating point with 1e-10 to spare, of the divergence of many independent draws.

    Each pair of laws (P, Q) comes with how often it is drawn. Privacy losses log(P / Q) are rounded *down* to a grid,
    so that what is found is no more than what is there: an audit that exceeds a claim has found a violation.
    """
    limit = float(epsilon)
    losses = []
    for first, second, copies in pairs:
        whole, other = sum(first.values()), sum(second.values())
        known = [
            (math.log(mass / whole) - math.log(second[outcome] / other), mass / whole)
            for outcome, mass in first.items()
            if second.get(outcome, 0) and mass / whole > 1e-300 and second[outcome] / other > 1e-300
        ]
        sure = sum(mass / whole for outcome, mass in first.items() if not second.get(outcome, 0))
        losses.append((known, sure, copies))
    step = max(limit, 1e-9) / _CELLS
    total = _Losses(0, np.ones(1))
    kept = 1.0
    for known, sure, copies in losses:
        cells = [max(-_WINDOW, min(_WINDOW, math.floor(loss / step))) for loss, _ in known]
        lowest = min(cells, default=0)
        masses = np.zeros(max(cells, default=0) - lowest + 1)
        np.add.at(masses, np.array(cells, dtype=np.int64) - lowest, [mass for _, mass in known])
        one = _Losses(lowest, masses)
        for digit in f"{copies:b}"[::-1]:  # the powers of two of which `copies` is the sum
            if digit == "1":
                total = total.added_to(one)
            one = one.added_to(one)
        kept *= (1 - sure) ** copies
    places = (total.lowest + np.arange(len(total.masses))) * step
    gain = float((total.masses * np.maximum(0.0, -np.expm1(np.minimum(0.0, limit - places)))).sum())
    return (1 - kept) + gain - _FLOAT_ERROR


@dataclass(frozen=True)
class _Losses:
    """Masses of losses on a grid, from cell `lowest` on."""

    lowest: int
    masses: NDArray[np.float64]

    def added_to(self, other: _Losses) -> _Losses:
        """The sum of two independent losses; cells beyond the window are left out below and moved down above."""
        lowest, masses = self.lowest + other.lowest, np.convolve(self.masses, other.masses)
        cut = max(0, -_WINDOW - lowest)
        lowest, masses = lowest + cut, masses[cut:]
        size = max(0, _WINDOW - lowest + 1)
        if len(masses) > size > 0:
            masses = np.concatenate([masses[: size - 1], [masses[size - 1 :].sum()]])
        return _Losses(lowest, masses if len(masses) else np.zeros(1))
