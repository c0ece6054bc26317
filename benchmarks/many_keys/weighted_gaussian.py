"""Weighted Gaussian and DP-SIPS: every unit spreads a vector of norm 1 evenly over its keys."""

from __future__ import annotations

import numpy as np
from accounting import Round, plan_rounds
from data import DataSet
from numpy.typing import NDArray
from pairs import Pairs, all_pairs, cap_keys

__all__ = ["CAP", "SIPS_SHARES", "dp_sips", "weighted_gaussian"]

CAP = 100  # keys that a unit keeps at most: the default of Gopi and others (2020) and Chen and others (2025)
SIPS_SHARES = (0.05, 0.15, 0.8)


def weighted_gaussian(data: DataSet, epsilon: float, delta: float, rng: np.random.Generator) -> int:
    """Number of keys that the weighted Gaussian mechanism releases.

    Statement: a unit keeps at most 100 of its keys, chosen uniformly at random, and adds 1 / sqrt(k) to each of the k
    that it keeps. Gaussian noise is added to every sum, and keys above the threshold are released.

    Accounting: one Gaussian mechanism, see `accounting`. The paper halves delta; here the whole of it counts twice.

    Default: 100 keys per unit, as in the paper's main experiments.

    Reference: Gopi, Gulhane, Kulkarni, Shen, Shokouhi, Yekhanin: "Differentially Private Set Union", ICML 2020.
    """
    [only] = plan_rounds(epsilon, delta, (1.0,), CAP)
    return int(_found(all_pairs(data), only, data, rng).sum())


def dp_sips(data: DataSet, epsilon: float, delta: float, rng: np.random.Generator) -> int:
    """Number of keys that DP-SIPS releases in three rounds.

    Statement: the weighted Gaussian mechanism, three times with a growing budget. Keys that a round releases are public
    and are removed from all units before the next, so that units spend the next round on the rest of their keys.

    Accounting: the rounds compose to one Gaussian mechanism, see `accounting`; the delta for keys of one unit alone is
    split between the rounds as the budget is.

    Default: three rounds with shares .05, .15 and .8, here of mu^2, and 100 keys per unit and round. The full paper
    was not at hand; the shares are from memory. Others were looked at afterwards and not used: growing by a factor of
    3 from round to round finds 2 to 5 % more keys of customers and baskets at epsilon 3 and fewer elsewhere;
    splitting epsilon itself in the same shares finds fewer everywhere.

    Reference: Swanberg, Desfontaines, Haney: "DP-SIPS: A simpler, more scalable mechanism for differentially private
    partition selection", PoPETs 2023.
    """
    remaining = all_pairs(data)
    released = 0
    for each in plan_rounds(epsilon, delta, SIPS_SHARES, CAP):
        found = _found(remaining, each, data, rng)
        released += int(found.sum())
        remaining = remaining.keep(~found[remaining.keys])
    return released


def _found(pairs: Pairs, only: Round, data: DataSet, rng: np.random.Generator) -> NDArray[np.bool_]:
    kept = cap_keys(pairs, CAP, rng)
    present = np.bincount(kept.keys, minlength=data.key_count) > 0
    sums = np.bincount(kept.keys, weights=1 / np.sqrt(kept.sizes), minlength=data.key_count)
    return present & (sums + rng.normal(0, only.sigma, data.key_count) > only.threshold)
