"""Sums of a function of frequency over keys, from the released ones, with bounds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from dptally.estimates.frequencies import as_confidence, estimate_frequencies

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dptally.observation_models import WeightedSample
    from dptally.observation_models.base import EstimatorKind, FrequencyFunction

__all__ = ["Sum", "estimate_sum"]

_LOWER_STEPS = 2.0 ** np.arange(-24, 5, 2)  # steepness of the lower bound, tried together and paid for together


@dataclass(frozen=True)
class Sum:
    """An estimate of a sum over keys.

    Attributes:
        estimate: of the sum over all keys of the selection, released or not.
        lower: the whole sum is at least this, with probability (1 + confidence) / 2 over the draw of the release.
        upper: the released keys' part of the sum is at most `upper - unreleased`, with the same probability. What keys
            that were not released add cannot be bounded by anything in a release; it enters `upper` as estimated.
        unreleased: the part of `estimate` that stands for keys like the released ones that were not released.
        keys: how many released keys were added up.
        confidence: of `lower` and `upper` together.
    """

    estimate: float
    lower: float
    upper: float
    unreleased: float
    keys: int
    confidence: float

    def __str__(self) -> str:
        ways = (1 + self.confidence) / 2
        text = f"{self.estimate:,.1f} estimated from {self.keys} released keys; "
        text += f"at least {self.lower:,.1f} ({ways:.1%} sure)"
        if self.upper == float("inf"):
            return text + "; no upper bound."
        released = self.upper - self.unreleased
        return text + f"; the released keys carry at most {released:,.1f} ({ways:.1%} sure), others may add to that."


def estimate_sum(
    law: WeightedSample,
    values: NDArray[np.int64],
    *,
    of: FrequencyFunction | None = None,
    kind: EstimatorKind = "mle",
    confidence: object = 0.95,
) -> Sum:
    """Estimate the sum of g(frequency) over all keys of a selection from the values of its released keys.

    Args:
        law: the law the values were drawn from.
        values: of the released keys of the selection.
        of: the non-decreasing function g, with g(0) = 0; None for the frequency itself.
        kind: which weights, see `WeightedSample.estimator`.
        confidence: of the bounds together.
    """
    level = as_confidence(confidence)
    estimate = float(law.estimator(kind, of).weights(values).sum())
    if not len(values):
        return Sum(estimate, 0.0, 0.0, 0.0, 0, float(level))
    if not law.values:
        lower = float(len(values)) if of is None else float(of(1)) * len(values)
        return Sum(estimate, lower, float("inf"), 0.0, len(values), float(level))
    likely = estimate_frequencies(law, values, level).estimate
    unreleased = 0.0 if likely is None else max(0.0, estimate - float(_apply(of, likely).sum()))
    # Each key gets an equal part of the allowed error: then all bounds hold together, whatever g is. For g = w half of
    # the error goes to bounds that know that independent errors cancel; the better ones are taken.
    linear = of is None and law.scheme is None
    error = (1 - level) / (2 if linear else 1)
    each = estimate_frequencies(law, values, 1 - error / len(values))
    lower = float(_apply(of, each.lower).sum())
    upper = float(_apply(of, each.upper).sum()) if each.upper is not None else float("inf")
    if linear:
        together = _linear_bounds(law, values, float(error))
        lower, upper = max(lower, together[0]), min(upper, together[1])
    return Sum(estimate, lower, upper + unreleased, unreleased, len(values), float(level))


def _apply(of: FrequencyFunction | None, frequencies: NDArray[np.int64]) -> NDArray[np.float64]:
    if of is None:
        return frequencies.astype(np.float64)
    distinct, places = np.unique(frequencies, return_inverse=True)
    return np.array([float(of(int(frequency))) for frequency in distinct], dtype=np.float64)[places]


def _linear_bounds(law: WeightedSample, values: NDArray[np.int64], beta: float) -> tuple[float, float]:
    """Chernoff bounds for g(w) = w, each missed with probability at most beta / 2.

    Upper. Given which keys are released, the released key x has w_x = value + D_x with D_x conditioned on D_x < w_x,
    and E[e^{t D} | D < w] <= E[e^{t D}] for t > 0. Hence the released frequencies sum to at most
    sum of values + (n ln E[e^{t D}] + ln(2 / beta)) / t, for any t fixed by n alone.

    Lower. If for every frequency i >= 1

        sum_j P[j | i] e^{t (j + m)} + P[not reported | i] <= e^{t i},

    then the sum of all frequencies is at least sum (j + m) - ln(1 / error) / t over released keys. The largest such m,
    for a given t, is the minimum below over i = 1 .. W (from W on all i give the same). The steepness t may not depend
    on the release, so a fixed list is tried and the error is divided among its members.
    """
    masses = np.array([float(mass) for mass in law.drop_law])
    drops = np.arange(law.width, dtype=np.float64)
    count, total = len(values), float(values.sum())
    spread = max(float(np.sqrt(masses @ (drops - masses @ drops) ** 2)), 1e-9)

    best = np.inf
    for factor in 2.0 ** np.arange(-4, 5):
        steep = factor * np.sqrt(2 * np.log(2 / beta) / count) / spread
        best = min(best, (count * _log_mean(masses, steep * drops) + np.log(2 / beta)) / steep)
    upper = total + min(best, count * drops[-1])

    reported = np.cumsum(masses)  # pi_i for i = 1 .. W
    lower = float(count)  # every released key occurs at least once
    for steep in _LOWER_STEPS / spread:
        seen = np.cumsum(masses * np.exp(-steep * drops))
        unseen = np.maximum(0.0, 1 - reported) * np.exp(-steep * (drops + 1))
        shift = float(np.min(np.log1p(-unseen) - np.log(seen))) / steep
        lower = max(lower, total + count * shift - np.log(2 * len(_LOWER_STEPS) / beta) / steep)
    return float(lower), float(upper)


def _log_mean(masses: NDArray[np.float64], exponents: NDArray[np.float64]) -> float:
    top = exponents.max()
    return float(top + np.log(masses @ np.exp(exponents - top)))
