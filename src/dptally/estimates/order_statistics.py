"""How well the order of reported values follows the order of frequencies: exact probabilities over the law.

A key that is not reported has the value 0, and of two keys with the same value each comes first with probability 1/2
[CGSS21, section 6]. Frequencies are given, as in `dptally.estimates.accuracy`; no release is looked at.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from dptally.errors import InvalidParameter
from dptally.estimates.accuracy import Frequencies, count_frequencies
from dptally.laws.base import Law

__all__ = ["expected_kendall_tau", "pair_concordance"]


def pair_concordance(law: Law, higher: int, lower: int) -> Fraction:
    """The exact probability that two keys are ordered rightly by their reported values.

        P[V > U] + P[V = U] / 2

    where V is the value of a key of frequency `higher`, and U that of one of frequency `lower`, independent of it. One
    walk over both rows with running sums.
    """
    if lower < 1:
        raise InvalidParameter(f"lower must be at least 1, got {lower}.")
    if higher <= lower:
        raise InvalidParameter(f"higher must be above lower, got {higher} and {lower}.")
    above, above_unit = _masses(law, higher)
    below, below_unit = _masses(law, lower)
    found = passed = 0  # twice the probability so far; the mass of `lower` at smaller values
    for value in sorted({*above, *below}):
        here = below.get(value, 0)
        found += above.get(value, 0) * (2 * passed + here)
        passed += here
    return Fraction(found, 2 * above_unit * below_unit)


def _masses(law: Law, frequency: int) -> tuple[dict[int, int], int]:
    """A row as whole numbers over a common denominator; "not reported" is the value 0."""
    row = law.row(frequency)
    unit = math.lcm(*(chance.denominator for chance in row.values()))
    return {value or 0: int(chance * unit) for value, chance in row.items()}, unit


def expected_kendall_tau(law: Law, frequencies: Frequencies) -> float:
    """The expected rank correlation (Kendall's tau) of true frequencies and reported values in a population.

        tau = E[concordant pairs - discordant pairs] / pairs,

    over the pairs of keys whose frequencies differ. A pair with equal values is neither concordant nor discordant,
    which is what counting it half each comes to; pairs with equal frequencies have no right order and are left out of
    numerator and denominator. So 1 is reached when, and only when, every pair that has an order is ordered rightly, and
    tau = sum (2 c - 1) / pairs with c the `pair_concordance`. (Kendall's tau-a divides by all pairs; multiply by the
    share of pairs whose frequencies differ. Tau-b divides by a number that depends on the draw.)

    Frequencies are taken in ascending order, with the masses of all smaller ones added up by value: the work is one
    pass over the rows and not one over all pairs. In floating point.

    Args:
        law: the law of the release.
        frequencies: one per key, or a mapping from frequency to number of keys.

    Returns:
        float: from -1 to 1; not a number when no two frequencies differ.
    """
    population = count_frequencies(frequencies)
    rows = [_sorted_row(law, frequency) for frequency in population]
    values = np.unique(np.concatenate([[0], *(reported for reported, _ in rows)]))
    smaller = np.zeros(len(values))  # by value: how many keys of smaller frequencies have it, expected
    concordant = 0.0
    seen = pairs = 0
    for (reported, chances), keys in zip(rows, population.values(), strict=True):
        places = np.searchsorted(values, reported)
        # The first place is "not reported", the others lie close together; what is below them needs only its sum.
        first = int(places[1]) if len(places) > 1 else 1
        window = smaller[first : int(places[-1]) + 1]
        ordered = smaller[:first].sum() + np.cumsum(window) - window / 2
        concordant += keys * float(chances[0] * smaller[0] / 2 + chances[1:] @ ordered[places[1:] - first])
        smaller[places] += keys * chances
        pairs += keys * seen
        seen += keys
    return 2 * concordant / pairs - 1 if pairs else math.nan


def _sorted_row(law: Law, frequency: int) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Values, ascending from 0 for "not reported", and their probabilities."""
    row = law.row(frequency)
    reported = sorted(value for value in row if value is not None)
    chances = [row.get(None, Fraction(0)), *(row[value] for value in reported)]
    return np.array([0, *reported], dtype=np.int64), np.array(chances, dtype=np.float64)
