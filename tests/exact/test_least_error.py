"""No noise on whole numbers with the same guarantee has a smaller expected error than that of the optimal histogram."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy.optimize import linprog

from dptally.laws.weighted_sample import WeightedSample


def least_error(epsilon: float, delta: float, reach: int) -> float:
    """The smallest E|Z| of all Z on -R .. R for which count + Z is (epsilon, delta)-private: a linear program.

    Unknown are the masses of Z and, for each outcome, by how much it exceeds e^epsilon times the one that a count one
    larger, or smaller, gives; each kind of excess sums to at most delta.
    """
    size, factor = 2 * reach + 1, math.exp(epsilon)
    outcomes = np.arange(size + 1)
    masses = np.zeros((size + 1, size))  # of each outcome under the larger count, then under the smaller one
    masses[outcomes[:-1], outcomes[:-1]] = 1
    moved = np.roll(masses, 1, axis=0)
    excess, nothing = np.eye(size + 1), np.zeros((size + 1, size + 1))
    rows = np.block([[masses - factor * moved, -excess, nothing], [moved - factor * masses, nothing, -excess]])
    sums = np.kron(np.eye(2), np.ones(size + 1))
    found = linprog(
        np.concatenate([abs(np.arange(-reach, reach + 1)), np.zeros(2 * size + 2)]),
        A_ub=np.vstack([rows, np.hstack([np.zeros((2, size)), sums])]),
        b_ub=np.concatenate([np.zeros(2 * size + 2), [delta, delta]]),
        A_eq=np.concatenate([np.ones(size), np.zeros(2 * size + 2)])[np.newaxis],
        b_eq=[1],
        method="highs",
    )
    assert found.success
    return float(found.fun)


@pytest.mark.parametrize(
    ("epsilon", "delta", "reach"),
    [("1", "1/100", 25), ("1", "1/1000", 25), ("1/2", "1/20", 25), ("2", "1/1000", 20), ("3", "1/31", 12),
     ("1/10", "1/50", 60), ("1", "1/5", 12), ("4", "1/10000", 12)],
)  # fmt: skip
def test_no_noise_has_a_smaller_error(epsilon: str, delta: str, reach: int) -> None:
    """The linear program finds no smaller error, and Algorithm 4's grouping of values has a larger one."""
    least = least_error(float(Fraction(epsilon)), float(Fraction(delta)), reach)
    errors = []
    for centred in (True, False):
        law = WeightedSample(epsilon, delta, centred=centred)
        assert len(law.drop_law) <= 2 * reach + 1
        off = (chance * abs(drop - 1 - law.likely_drop) for drop, chance in enumerate(law.drop_law))
        errors.append(float(sum(off)))
    assert errors[0] == pytest.approx(least, rel=1e-7)
    assert errors[1] > least * 1.0001
