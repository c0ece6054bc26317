"""Noise and thresholds for Gaussian noise on weights, in floating point.

Every Gaussian method here adds noise of deviation sigma to a vector of weights that one unit changes by at most 1 in
Euclidean norm, and releases keys above a threshold. Two things are demanded of it:

- Where all keys of a unit have other units too, the noise alone must be (epsilon, delta)-private. Rounds with
  deviations s_1, ..., s_k are together exactly one Gaussian mechanism with mu^2 = 1 / s_1^2 + ... + 1 / s_k^2 (Dong,
  Roth, Su: "Gaussian Differential Privacy", 2022), and that is (epsilon, delta)-private if and only if Phi(mu / 2 -
  epsilon / mu)
  - e^epsilon Phi(-mu / 2 - epsilon / mu) <= delta (Balle, Wang: "Improving the Gaussian Mechanism for Differential
  Privacy: Analytical Calibration and Optimal Denoising", 2018, Thm. 8).
- Where no other unit has them, the probability that any of them is released must be at most delta.

The papers give half of delta to each. Here each is met with all of delta. Both are necessary, since each is a pair of
neighbouring data sets, so no valid accounting with the same shares of rounds can give a method more keys: whatever is
compared with these figures, the accounting is not what makes them small. What lies between the two ends is less
demanding for one round (`mixed_delta`, checked in the tests); for several rounds it is not proved here.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from statistics import NormalDist

__all__ = ["Round", "even_weight", "gaussian_delta", "largest_mu", "lowest_threshold", "mixed_delta", "plan_rounds"]


@dataclass(frozen=True)
class Round:
    """Deviation of the noise and threshold of one round."""

    sigma: float
    threshold: float


def gaussian_delta(mu: float, epsilon: float) -> float:
    """Delta at epsilon of two Gaussian distributions of deviation 1 whose means are mu apart."""
    if mu == 0:
        return max(0.0, -math.expm1(epsilon))
    return _phi(mu / 2 - epsilon / mu) - math.exp(epsilon) * _phi(-mu / 2 - epsilon / mu)


def largest_mu(epsilon: float, delta: float) -> float:
    """The largest mu for which a Gaussian mechanism is (epsilon, delta)-private."""
    low, high = 2.0**-40, 2.0**10
    while high > low * (1 + 2**-45):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if gaussian_delta(middle, epsilon) <= delta else (low, middle)
    return low


def even_weight(count: int) -> float:
    """The largest weight of each of `count` keys that only one unit has, where a unit weighs all its keys alike."""
    return 1 / math.sqrt(count)


def lowest_threshold(sigma: float, delta: float, cap: int, weight: Callable[[int], float] = even_weight) -> float:
    """The lowest threshold at which any key of one unit alone is released with probability at most delta.

    It is the maximum over t from 1 to `cap` of weight(t) + sigma Phi^-1((1 - delta)^(1 / t)), where weight(t) is the
    largest weight of each of t keys that only this unit has (Gopi and others: "Differentially Private Set Union",
    2020).
    """
    normal = NormalDist()
    return max(
        weight(count) - sigma * normal.inv_cdf(-math.expm1(math.log1p(-delta) / count)) for count in range(1, cap + 1)
    )


def plan_rounds(
    epsilon: float,
    delta: float,
    shares: tuple[float, ...],
    cap: int,
    weight: Callable[[int], float] = even_weight,
) -> list[Round]:
    """Noise and threshold of each round; `shares` are those of mu^2 and of the delta for keys of one unit alone."""
    mu = largest_mu(epsilon, delta)
    rounds = []
    for share in shares:
        sigma = 1 / (mu * math.sqrt(share))
        rounds.append(Round(sigma, lowest_threshold(sigma, share * delta, cap, weight)))
    return rounds


def mixed_delta(only: Round, epsilon: float, keys: int, alone: int) -> float:
    """Delta of one round for a unit that weighs `keys` keys alike, of which `alone` have no other unit.

    With p the probability that any of those is released, the two directions are p + (1 - p) D(epsilon - ln(1 - p)) and
    D(epsilon + ln(1 - p)), D the delta of the noise on the other keys, whose weights are sqrt(1 - alone / keys) apart.
    """
    gap = (only.threshold - even_weight(keys)) / only.sigma
    log_none = alone * math.log1p(-_phi(-gap))
    mu = math.sqrt(1 - alone / keys) / only.sigma
    without = math.exp(log_none) * gaussian_delta(mu, epsilon - log_none)
    return max(-math.expm1(log_none) + without, gaussian_delta(mu, epsilon + log_none))


def _phi(point: float) -> float:
    return math.erfc(-point / math.sqrt(2)) / 2
