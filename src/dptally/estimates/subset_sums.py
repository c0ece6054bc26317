"""Sums of a function of frequency over keys, from the released ones, with bounds."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from dptally.estimates.frequencies import as_confidence, bound_heaviest, estimate_frequencies
from dptally.estimates.functions import frequency_function
from dptally.observation_models.heaviest_noise import HeaviestNoise
from dptally.observation_models.weighted_sample import WeightedSample

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dptally.estimates.shortfall import Shortfall
    from dptally.observation_models.base import EstimatorKind, FrequencyFunction
    from dptally.observation_models.reading import ReleasedLaw

__all__ = ["Sum", "estimate_sum"]

_LOWER_STEPS = 2.0 ** np.arange(-24, 5, 2)  # steepness of the lower bound, tried together and paid for together


@dataclass(frozen=True)
class Sum:
    """An estimate of a sum over keys.

    Attributes:
        estimate: of the sum over all keys of the selection, released or not.
        lower: the whole sum is at least this, with probability (1 + confidence) / 2 over the draw of the release;
            minus infinity where a factor is negative, since nothing bounds what keys that were not released take away.
        upper: the released keys' part of the sum is at most `upper - unreleased`, with the same probability. What keys
            that were not released add cannot be bounded by anything in a release; it enters `upper` as estimated.
        unreleased: the part of `estimate` that stands for keys like the released ones that were not released.
        keys: how many released keys were added up.
        confidence: of `lower` and `upper` together.
        by_value: whether the question looks at what was drawn (value, estimate or bounds of keys). Its bounds then hold
            for all released keys at once, which mostly makes them wider.
    """

    estimate: float
    lower: float
    upper: float
    unreleased: float
    keys: int
    confidence: float
    by_value: bool = False

    @property
    def upper_released(self) -> float:
        """The released keys' part of the sum is at most this, with probability (1 + confidence) / 2."""
        return self.upper - self.unreleased

    def __str__(self) -> str:
        return self.in_words()

    def in_words(self, *, parts: bool = False) -> str:
        """One sentence; with `parts` also how much of the estimate stands for keys that were not released, if any."""
        sure = f"({50 * (1 + self.confidence):.6g} % sure)"
        others = f"{self.unreleased:,.1f}"
        told = parts and others not in ("0.0", "-0.0")
        text = f"{self.estimate:,.1f} estimated" + (f", of which {others} for keys not released," if told else "")
        text += f" from {self.keys:,} released keys; "
        text += "no lower bound" if self.lower == -float("inf") else f"at least {self.lower:,.1f} {sure}"
        if self.upper == float("inf"):
            text += "; no upper bound"
        else:
            text += f"; the released keys carry at most {self.upper_released:,.1f} {sure}, "
            text += "others may add to that"
        return text + ("; bounds for questions that look at what was drawn." if self.by_value else ".")


def estimate_sum(
    law: ReleasedLaw,
    values: NDArray[np.int64],
    *,
    shortfall: Shortfall | None = None,
    of: FrequencyFunction | str | None = None,
    factors: NDArray[np.float64] | float | None = None,
    chosen_among: int | None = None,
    kind: EstimatorKind = "mle",
    confidence: object = 0.95,
) -> Sum:
    """Estimate sum_x L(x) g(w_x) over all keys of a selection from the values of its released keys [CGSS21, (10)].

    where w_x is the frequency of key x, g is `of` and L(x) are the `factors`.

    Args:
        law: the law the values were drawn from.
        values: of the released keys of the selection.
        shortfall: by how much frequencies may exceed what noise was added to; None if they do not.
        of: the non-decreasing function g, with g(0) = 0, or its name; None for the frequency itself. See
            `dptally.estimates.functions`.
        factors: one per value; a number where all keys there may be, released or not, have the same; None for 1.
        chosen_among: None when selection and factors depend on keys alone. When they depend on values, the number of
            released keys they were chosen from: bounds must then hold for all of those together, and errors of the
            chosen ones cannot be trusted to cancel.
        kind: which weights, see `WeightedSample.estimator`.
        confidence: of the bounds together.
    """
    level = as_confidence(confidence)
    wanted = frequency_function(of)
    by_value = chosen_among is not None
    alike = None if isinstance(factors, np.ndarray) else 1.0 if factors is None else float(factors)
    times = factors if isinstance(factors, np.ndarray) else np.full(len(values), alike)
    estimate = float((law.estimator(kind, wanted).weights(values) * times).sum())
    if not len(values):
        return Sum(estimate, 0.0, 0.0, 0.0, 0, float(level), by_value)
    signed = bool((times < 0).any())
    if not law.values:
        lower = -np.inf if signed else float(_apply(wanted, np.ones_like(values)) @ times)
        return Sum(estimate, lower, np.inf, 0.0, len(values), float(level), by_value)
    likely = estimate_frequencies(law, values, level).estimate
    unreleased = 0.0 if likely is None else estimate - float((_apply(wanted, likely) * times).sum())
    if not signed:
        unreleased = max(0.0, unreleased)
    # Each key gets an equal part of the allowed error: then all bounds hold together, whatever g is. For g = w half of
    # the error goes to bounds that know that independent errors cancel; the better ones are taken. A positive factor
    # that all keys have scales the sum, and so its bounds. One that only the released keys share does not: which keys
    # are released is drawn, and the lower bound is for a selection that is not. Nor does a negative one: the lower
    # bound is for all keys, and does not bound the released ones' part.
    linear = wanted is None and alike is not None and alike > 0 and not by_value
    linear = linear and isinstance(law, WeightedSample) and law.scheme is None
    # How far a sketch falls short was told once, for all keys: a tenth of the error is enough for all of them.
    beta, missing = 1 - level, 0
    if shortfall is not None:
        beta, missing = beta * Fraction(9, 10), shortfall.upper(beta / 10)
    error = beta / (2 if linear else 1)
    if isinstance(law, HeaviestNoise):
        # What is released was chosen by value: the bounds must hold for all keys there may be in the data.
        each = bound_heaviest(law, values, error, keys=law.keep)
    else:
        each = estimate_frequencies(law, values, 1 - error / (chosen_among or len(values)))
    least = _apply(wanted, each.lower)
    most = np.full(len(values), np.inf) if each.upper is None else _apply(wanted, each.upper + missing)
    lower = -np.inf if signed else float((least * times).sum())
    upper = float((np.where(times < 0, least, most) * times).sum())
    if linear and alike is not None and isinstance(law, WeightedSample):
        together = _linear_bounds(law, values, float(error))
        lower = max(lower, alike * together[0])
        upper = min(upper, alike * (together[1] + missing * len(values)))
    return Sum(estimate, lower, upper + unreleased, unreleased, len(values), float(level), by_value)


def _apply(of: FrequencyFunction | None, frequencies: NDArray[np.int64]) -> NDArray[np.float64]:
    if of is None:
        return frequencies.astype(np.float64)
    distinct, places = np.unique(frequencies, return_inverse=True)
    found = [float(of(int(frequency))) if frequency else 0.0 for frequency in distinct]  # g(0) = 0
    return np.array(found, dtype=np.float64)[places]


def _linear_bounds(law: WeightedSample, values: NDArray[np.int64], beta: float) -> tuple[float, float]:
    """Chernoff bounds for g(w) = w, each missed with probability at most beta / 2.

    Upper. Given which keys are released, the released key x has w_x = value - 1 + D_x. Being released means that the
    random number lies below pi_w, and D grows with it, so that E[e^{t D} | released] <= E[e^{t D}] for t > 0. Hence the
    released frequencies sum to at most sum of (value - 1) + (n ln E[e^{t D}] + ln(2 / beta)) / t, for any t fixed by n
    alone.

    Lower. If for every frequency i >= 1

        sum_j P[j | i] e^{t (j + m)} + P[not reported | i] <= e^{t i},

    then the sum of all frequencies is at least sum (j + m) - ln(1 / error) / t over released keys. The largest such m,
    for a given t, is the minimum below over i = 1 .. W + 1 (from there on all i give the same). The steepness t may not
    depend on the release, so a fixed list is tried and the error is divided among its members.
    """
    masses = np.array([float(mass) for mass in law.drop_law])
    drops = np.arange(len(masses), dtype=np.float64)
    count, total = len(values), float(values.sum())
    spread = max(float(np.sqrt(masses @ (drops - masses @ drops) ** 2)), 1e-9)

    best = np.inf
    for factor in 2.0 ** np.arange(-4, 5):
        steep = factor * np.sqrt(2 * np.log(2 / beta) / count) / spread
        best = min(best, (count * _log_mean(masses, steep * drops) + np.log(2 / beta)) / steep)
    upper = total - count + min(best, count * drops[-1])

    rows = np.arange(1, law.width + 2, dtype=np.float64)  # frequencies i
    reported = np.array([float(law.reporting_probability(int(row))) for row in rows])
    lowest = np.array([float(law.lowest_value(int(row))) for row in rows])
    lower = float(count)  # every released key occurs at least once
    for steep in _LOWER_STEPS / spread:
        # e^{-t i} sum_j P[j | i] e^{t j}: the values i + 1 - d for d < i, and the value 1
        seen = np.cumsum(masses * np.exp(steep * (1 - drops)))[np.minimum(rows, len(masses)).astype(int) - 1]
        seen += lowest * np.exp(steep * (1 - rows))
        unseen = np.maximum(0.0, 1 - reported) * np.exp(-steep * rows)
        shift = float(np.min(np.log1p(-unseen) - np.log(seen))) / steep
        lower = max(lower, total + count * shift - np.log(2 * len(_LOWER_STEPS) / beta) / steep)
    return float(lower), float(upper)


def _log_mean(masses: NDArray[np.float64], exponents: NDArray[np.float64]) -> float:
    top = exponents.max()
    return float(top + np.log(masses @ np.exp(exponents - top)))
