"""Sums of a function of frequency over released keys, with confidence intervals."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from dptally.estimates.frequencies import as_confidence, estimate_frequencies, estimate_together
from dptally.estimates.functions import frequency_function, one_per_key
from dptally.laws.base import EstimatorKind, FrequencyFunction, Law
from dptally.laws.shortfall import Shortfall


@dataclass(frozen=True)
class Sum:
    """A sum over the released keys of a selection.

    Keys that were not released are not in it. How many they are, and what they add up to, a release does not tell: a
    thousand keys that occur once each leave no trace in it. Where factors and function are not negative, `lower` is
    also a lower bound for all keys of the selection, released or not.

    Attributes:
        estimate: of the sum over the released keys; not a number where values were not released.
        lower: the sum over the released keys is at least this, with probability (1 + confidence) / 2.
        upper: it is at most this, with the same probability; infinite where values were not released.
        keys: how many released keys were added up.
        confidence: that the sum is between `lower` and `upper`.
        by_value: whether the question looks at what was drawn (value, estimate or bounds of keys). The interval then
            comes from those that hold for all released keys at once, which are wider; the estimate is not corrected for
            the selection.
        complete: whether all keys there may be are released, as those of a public list are.
        counters: whether counts are those of a sketch that fall short of frequencies by an amount that is not told.
        extrapolation: None unless asked for by `kind`: the sum of weights that would also stand for keys that were not
            released. It has no interval; see `dptally.estimates.subset_sums.estimate_sum`.
        total: estimate, lower and upper bound for all keys, released or not, where a release has totals; else None.
    """

    estimate: float
    lower: float
    upper: float
    keys: int
    confidence: float
    by_value: bool = False
    complete: bool = False
    counters: bool = False
    extrapolation: float | None = None
    total: tuple[float, float, float] | None = None

    def __str__(self) -> str:
        return self.in_words()

    def in_words(self) -> str:
        """What is known about the released keys, and that the others are not in it."""
        keys = f"{self.keys:,} released {'key' if self.keys == 1 else 'keys'}"
        sure = f"{100 * self.confidence:.6g} % confidence"
        if self.lower == self.upper == self.estimate:
            text = f"{_number(self.estimate)} exactly, over {keys}."
        elif math.isfinite(self.lower) and math.isfinite(self.upper):
            interval = f"{sure} interval {_number(self.lower)} to {_number(self.upper)}"
            text = f"{_number(self.estimate)}, {interval}, over {keys}."
        else:
            known = "unknown" if math.isinf(self.lower) else f"at least {_number(self.lower)}"
            text = f"{known}, over {keys}; counts were not released."
        if self.by_value:
            text += " The interval holds after selection by value; the estimate is not corrected for it."
        if self.counters:
            text += " Counts are those of a sketch; by how much true counts may exceed them is not told."
        if self.extrapolation is not None:
            text += (
                f" Extrapolated by reporting probabilities: {_number(self.extrapolation)}, which has no interval, and "
                "is far too small where many keys are too rare to be released."
            )
        if self.complete:
            return text + " No key is left out: all keys of the public list are released."
        if self.total is not None:
            estimate, lower, upper = map(_number, self.total)
            known = f"{estimate}, {sure} interval {lower} to {upper}"
            return f"{text} All pairs that were counted, released or not, add up to {known}."
        return text + (
            " Keys that were not released are not included: this release does not tell how many there are, or what "
            "they add up to."
        )


def estimate_sum(
    law: Law,
    values: NDArray[np.int64],
    *,
    shortfall: Shortfall | None = None,
    of: FrequencyFunction | str | None = None,
    factors: NDArray[np.float64] | None = None,
    chosen_among: int | None = None,
    kind: EstimatorKind | None = None,
    confidence: object = 0.95,
) -> Sum:
    """Estimate sum of L(x) g(w_x) over the released keys x of a selection.

    where w_x is the frequency of key x, g is `of` and L(x) are the `factors`. Each key is taken at its most likely
    frequency. Over a public list (`ClampedNoise`), of which most keys may not occur at all, the estimate is the sum of
    `unclamped` values instead, which has no bias, unless the question looks at values.

    The interval. Each key gets an equal part of the allowed error: then the bounds of all of them hold together, and
    those of the sum, whatever g and L are. For g(w) = w and equal factors half of the error goes to bounds that know
    that independent errors cancel (`dptally.laws.sum_bounds`), and the better ones are taken. All of them hold for
    every set of released keys, so that a question may look at which keys there are, but not at their values.

    Extrapolation. [CGSS21, (10)] estimates the sum over all keys, released or not, by weights a_j for values j: with
    g(i) / pi_i, i the most likely frequency, a key also stands for 1 / pi_i - 1 keys like it that were not released.
    The expectation is right for frequencies of which some keys appear in every release. Keys of frequency 1 appear with
    probability delta: a million of them add, on average, what they should, as one release in a million holds one of
    them, with a weight of a million. Any other release says nothing about them, so the number is no estimate of what is
    hidden, and has no interval.

    Most parameters are those of `Release.sum`. `factors` has one for each value, None for 1. `chosen_among` is None
    when selection and factors depend on keys alone; when they depend on values, it is the number of released keys they
    were chosen from: bounds must then hold for all of those together, and errors of the chosen ones cannot be trusted
    to cancel. `kind` is None, or the weights to extrapolate with, see `WeightedSample.estimator`.
    """
    level = as_confidence(confidence)
    wanted = frequency_function(of)
    by_value = chosen_among is not None
    times = np.ones(len(values)) if factors is None else factors
    beyond = None if kind is None else float((law.estimator(kind, wanted).weights(values) * times).sum())

    def found(estimate: float, lower: float, upper: float) -> Sum:
        return Sum(estimate, lower, upper, len(values), float(level), by_value, law.complete, extrapolation=beyond)

    if not len(values):
        return found(0.0, 0.0, 0.0)
    if not law.values:
        # A key that is released occurs, and nothing else is known; that is enough to count keys.
        least = _apply(wanted, np.ones_like(values)) * times
        if wanted is one_per_key:
            return found(float(least.sum()), float(least.sum()), float(least.sum()))
        bounds = (float(least.sum()), math.inf) if (times > 0).all() else (-math.inf, math.inf)
        return found(math.nan, *bounds)
    likely = estimate_frequencies(law, values, level).estimate
    estimate = float((_apply(wanted, values if likely is None else likely) * times).sum())
    unbiased = None if by_value else law.unbiased(values, lambda counts: _apply(wanted, counts))
    if unbiased is not None:
        estimate = float((unbiased * times).sum())
    linear = wanted is None and not by_value and bool(times[0] > 0) and bool((times == times[0]).all())
    linear = linear and law.bounds_sums
    # How far a sketch falls short was told once, for all keys: a tenth of the error is enough for all of them.
    beta, missing = 1 - level, 0
    if shortfall is not None:
        beta, missing = beta * Fraction(9, 10), shortfall.upper(beta / 10)
    error = beta / (2 if linear else 1)
    each = estimate_together(law, values, 1 - error, among=chosen_among)
    least = _apply(wanted, each.lower)
    most = _apply(wanted, (values if each.upper is None else each.upper) + missing)
    lower = float((np.where(times < 0, most, least) * times).sum())
    upper = float((np.where(times < 0, least, most) * times).sum())
    together = law.bound_sum(values, float(error)) if linear else None
    if together is not None:
        lower = max(lower, float(times[0]) * together[0])
        upper = min(upper, float(times[0]) * (together[1] + missing * len(values)))
    return found(min(max(estimate, lower), upper), lower, upper)


def _apply(of: FrequencyFunction | None, frequencies: NDArray[np.int64]) -> NDArray[np.float64]:
    if of is None:
        return frequencies.astype(np.float64)
    distinct, places = np.unique(frequencies, return_inverse=True)
    found = [float(of(int(frequency))) if frequency else 0.0 for frequency in distinct]  # g(0) = 0
    return np.array(found, dtype=np.float64)[places]


def _number(amount: float) -> str:
    """A number for a sentence, with a decimal only where it has one."""
    return f"{amount:,.0f}" if amount == round(amount) else f"{amount:,.1f}"
