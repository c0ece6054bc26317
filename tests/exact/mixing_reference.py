"""From nearly private to purely private, on rows of fractions: what the package does with coins, to compare with.

[BV19, Algorithm 3.1]: with probability 1 - w release what a law M' draws, otherwise an outcome from a fixed
distribution D. If M' is close to a purely private law, or merely has no ratio that D cannot cover, the mixture is
purely private. The price is w: with that probability the outcome says nothing.

Laws are given as rows of exact fractions, rows[i][v] = P_i(v), where rows i and i + 1 are neighbours.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from dptally.errors import InvalidParameter
from dptally.exact import exp_bounds

__all__ = ["mix_rows", "smallest_weight", "statistical_distance", "sufficient_weight"]

_PRECISION = 256
Law = Sequence[Fraction]


def sufficient_weight(distance: Fraction, epsilon: Fraction, least_chance: Fraction) -> Fraction:
    """The smallest w for which [BV19, Lemma 3.2] proves the mixture epsilon-private.

    The lemma: let M be epsilon-private and M' within statistical distance Delta of it for every input. The mixture of
    M' with D is epsilon-private if

        Delta <= (a - 1) / (a + 1)  w / (1 - w)  min_v D(v),

    for a = e^epsilon. The right side grows with a, so a rational a <= e^epsilon is safe. Hence
    w = x / (1 + x) with x = Delta (a + 1) / ((a - 1) min D).

    Args:
        distance: Delta, at least 0 and below 1.
        epsilon: positive.
        least_chance: min_v D(v), positive; 1 / (number of outcomes) for the uniform distribution.
    """
    if not 0 <= distance < 1:
        raise InvalidParameter("distance must be at least 0 and below 1.")
    if not 0 < least_chance <= 1:
        raise InvalidParameter("least_chance must be above 0 and at most 1.")
    growth = _growth(epsilon)
    odds = distance * (growth + 1) / ((growth - 1) * least_chance)
    return odds / (1 + odds)


def smallest_weight(rows: Sequence[Law], epsilon: Fraction, base: Law) -> Fraction:
    """The smallest w for which the mixture of these very rows with `base` is epsilon-private, up to rounding of e^eps.

    For neighbouring rows P, Q, in both orders, and an outcome v the mixture keeps the ratio a if and only if

        (1 - w) P(v) + w D(v) <= a ((1 - w) Q(v) + w D(v)),  that is  w / (1 - w) >= (P(v) - a Q(v)) / ((a - 1) D(v)),

    so the largest right side x decides, w = x / (1 + x). It is never more than what the lemma asks for, and often much
    less: the lemma knows the distance only. a <= e^epsilon is rational, within 2^-256 of it.

    Args:
        rows: a law for each input, all over the same outcomes.
        epsilon: positive.
        base: D, with a positive chance for every outcome.
    """
    if any(len(row) != len(base) for row in rows):
        raise InvalidParameter("rows and base must have the same outcomes.")
    if min(base) <= 0 or sum(base) != 1:
        raise InvalidParameter("base must be a distribution that gives every outcome a chance.")
    growth = _growth(epsilon)
    odds = Fraction(0)
    for upper in range(1, len(rows)):
        for first, second in ((rows[upper], rows[upper - 1]), (rows[upper - 1], rows[upper])):
            for here, there, chance in zip(first, second, base, strict=True):
                odds = max(odds, (here - growth * there) / ((growth - 1) * chance))
    return odds / (1 + odds)


def mix_rows(rows: Sequence[Law], weight: Fraction, base: Law) -> list[list[Fraction]]:
    """Rows of the mixture: (1 - weight) P_i + weight D."""
    return [[(1 - weight) * here + weight * chance for here, chance in zip(row, base, strict=True)] for row in rows]


def statistical_distance(first: Law, second: Law) -> Fraction:
    """Half the sum of absolute differences: the largest difference of the probabilities of one event."""
    return sum((abs(here - there) for here, there in zip(first, second, strict=True)), Fraction(0)) / 2


def _growth(epsilon: Fraction) -> Fraction:
    low, _ = exp_bounds(epsilon, _PRECISION)
    if low <= 1:
        raise InvalidParameter("epsilon must be positive, and not so small that e^epsilon is 1 to 256 bits.")
    return low
