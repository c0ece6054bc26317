"""The bounds of [BC22] as printed, for comparison with the exact ones. NOT CERTIFIED, floating point throughout.

Nothing can be drawn or published from this module; `dptally.observation_models.SampleAndThreshold` is what is drawn
from. Notation: p is the sampling rate, t the threshold, q = 1 - e^-epsilon (1 - p), D(q||p) the relative entropy.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Literal

from dptally.errors import InvalidParameter
from dptally.exact.binomial import binomial_at_least

__all__ = [
    "lemma_3_constant",
    "lemma_3_threshold",
    "lemma_5_omission",
    "omission",
    "relative_entropy",
    "suggested_delta",
    "theorem_2_delta",
    "theorem_2_threshold",
]

Neighbours = Literal["add/remove", "replace"]


def relative_entropy(q: float, p: float) -> float:
    """D(q||p) of two coins."""
    rest = (1 - q) * math.log((1 - q) / (1 - p)) if q < 1 else 0.0
    return (q * math.log(q / p) if q > 0 else 0.0) + rest


def theorem_2_delta(rate: float, threshold: float, epsilon: float, neighbours: Neighbours = "add/remove") -> float:
    """exp(-t / q D(q||p)): the delta that Theorem 2 gives.

    Read with delta at least this (the printed inequality points the other way) it is right for adding or removing a
    unit. For replacing one, which the paper defines, a unit leaves one key and enters another. Leaving costs a factor
    of at most 1 / (1 - p), so what is left for entering is epsilon - ln(1 / (1 - p)), and q becomes 1 - e^-epsilon.

    Raises:
        InvalidParameter: unless p <= 1 - e^-epsilon, p < 1 - e^-epsilon for replacing.
    """
    limit = -math.expm1(-epsilon)
    if neighbours == "replace":
        if not 0 < rate < limit:
            raise InvalidParameter("Theorem 2 for replacing a unit needs a rate below 1 - e^-epsilon.")
        q = limit
    else:
        if not 0 < rate <= limit:
            raise InvalidParameter("Theorem 2 needs a rate of at most 1 - e^-epsilon.")
        q = 1 - math.exp(-epsilon) * (1 - rate)
    return math.exp(-threshold / q * relative_entropy(q, rate))


def theorem_2_threshold(rate: float, epsilon: float, delta: float, neighbours: Neighbours = "add/remove") -> int:
    """The smallest whole threshold that Theorem 2 accepts."""
    steep = -math.log(theorem_2_delta(rate, 1.0, epsilon, neighbours))
    return max(1, math.ceil(math.log(1 / delta) / steep - 1e-12))


def lemma_3_constant(alpha: float) -> float:
    """C = ln(1 / alpha) - 1 / (1 + alpha); Lemma 3 says nothing where it is not positive, from alpha = .5173 on."""
    return math.log(1 / alpha) - 1 / (1 + alpha)


def lemma_3_threshold(alpha: float, delta: float) -> int:
    """ln(1 / delta) / C, rounded up: for the rate alpha (1 - e^-epsilon), epsilon at most 1.

    Raises:
        InvalidParameter: where the constant is not positive.
    """
    constant = lemma_3_constant(alpha)
    if constant <= 0:
        raise InvalidParameter("Lemma 3 gives no threshold for alpha of .5173 and above.")
    return max(1, math.ceil(math.log(1 / delta) / constant - 1e-12))


def suggested_delta(rate: Fraction, threshold: int, epsilon: float) -> Fraction:
    """P[Binomial(k, p) > t] at k = t / q, rounded down: what is suggested below Theorem 2 as the best delta. WRONG.

    It leaves out the value t itself, which is reported too, and looks at one k where another may be worse.
    """
    q = 1 - math.exp(-epsilon) * (1 - float(rate))
    return binomial_at_least(math.floor(threshold / q), threshold + 1, rate)


def lemma_5_omission(frequency: int, rate: float, threshold: int) -> float:
    """exp(-(w - t)^2 / (2 w)) with w = W p: Lemma 5's bound of the chance to miss a key of frequency W.

    Raises:
        InvalidParameter: unless W p > t, without which the bound is no bound.
    """
    expected = frequency * rate
    if expected <= threshold:
        raise InvalidParameter("Lemma 5 needs an expected count above the threshold.")
    return math.exp(-((expected - threshold) ** 2) / (2 * expected))


def omission(frequency: int, rate: Fraction, threshold: int) -> Fraction:
    """P[Binomial(W, p) < t]: the chance itself, within 2^-250."""
    return 1 - binomial_at_least(frequency, threshold, rate)
