"""Privacy from sampling alone: keep each unit with some probability, and report the counts that are large enough."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import cached_property
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from dptally.errors import InvalidParameter
from dptally.exact import as_count, as_delta, as_epsilon, as_fraction
from dptally.exact.binomial import binomial_at_least, binomial_row
from dptally.exact.searching import first_from
from dptally.laws.base import (
    LARGEST_FREQUENCY,
    LARGEST_VALUE,
    EstimatorKind,
    FrequencyFunction,
    Law,
    Parameters,
    as_frequencies,
    as_frequency,
)
from dptally.laws.binomial_bounds import bounds_of_sampled
from dptally.laws.estimators import Estimator, MostLikely
from dptally.laws.inversion import FrequencyEstimates
from dptally.laws.key_errors import NOTHING, Reports
from dptally.laws.node_sums import NodeSums, SampledNodes
from dptally.laws.sampling_parameters import LARGEST_THRESHOLD, RATE_UNIT, best_pair, largest_rate, smallest_threshold
from dptally.randomness import BitSource
from dptally.randomness.keyed import WordsOfRows
from dptally.randomness.thinning import thin_counts
from dptally.verifiers.loss_measures import ONE
from dptally.verifiers.profiles import Profile
from dptally.verifiers.rounds import sampling_profile
from dptally.verifiers.sampling import certify_sampling
from dptally.verifiers.tables import Certificate

_SMALLEST_EPSILON = Fraction(1, 1000)
_LARGEST_ROW = 1024  # exact fractions beyond have tens of thousands of digits


def _read_threshold(stored: object) -> object:
    if stored is None:  # which would mean the best one
        raise InvalidParameter("the threshold is missing.")
    return stored


class SampleAndThreshold(Law):
    """Each unit is kept with probability p; a key of which v >= t units were kept is reported with the value v.

    No noise is added: a value is the true count in a sample. Coins of different units, and of one unit for different
    keys, are independent (one coin for all keys of a unit is not private, see `mechanisms.sample_and_threshold`).

    Of the three, (epsilon, delta), p and t, two decide the third: the largest p for a given t, the smallest t for a
    given p. With neither, the pair is taken that makes t / p smallest, which is about the frequency that is reported
    half of the time. All are settled by the exact divergence of binomial rows, for every frequency; see
    `dptally.verifiers.sampling`. In particular p may exceed 1 - e^-epsilon. With both, they are verified as given.

    Guarantee:
        (epsilon, delta)-differential privacy for adding or removing one unit that counts once for one key.

    Error:
        A key of frequency w is reported with probability P[Binomial(w, p) >= t]. Then w is v / p but for a standard
        deviation of sqrt(w (1 - p) / p). `WeightedSample` reports every frequency at least as often, with a smaller
        error; this law is for sampling that takes place anyway, such as among devices, and for values without noise.
    Cost:
        No table. About two random bits per unit of a key with up to 2^22 units, below a millisecond for larger ones.

    References:
        [BC22] sections 2 and 3.

    Args:
        epsilon: at least 1/1000; see `dptally.exact.as_fraction` for how numbers are read.
        delta: from 2^-64 to below 1.
        rate: p, between 0 and 1, rounded down to a multiple of 2^-32; None for the best one.
        threshold: t, from 1 to a million; None for the best one.

    >>> law = SampleAndThreshold("1", "1e-8")
    >>> law.threshold, round(float(law.rate), 4)
    (19, 0.2403)
    >>> SampleAndThreshold("1", "1e-8", rate="0.1").threshold
    10
    """

    name = "sample and threshold"
    stored_as = "SampleAndThreshold"
    parameters: ClassVar[Parameters] = {"epsilon": str, "delta": str, "rate": str, "threshold": _read_threshold}
    endless = True

    def __init__(self, epsilon: object, delta: object, rate: object = None, threshold: object = None) -> None:
        self.epsilon = as_epsilon(epsilon)
        if self.epsilon < _SMALLEST_EPSILON:
            raise InvalidParameter(
                f"epsilon must be at least {_SMALLEST_EPSILON} for the law 'sample_and_threshold', got {epsilon}: "
                "below, too many rows would have to be verified."
            )
        self.delta = as_delta(delta)
        self._rate = None if rate is None else as_rate(rate)
        self._threshold = None if threshold is None else as_count("threshold", threshold, largest=LARGEST_THRESHOLD)

    @cached_property
    def _pair(self) -> tuple[Fraction, int]:
        if self._rate is None and self._threshold is None:
            return best_pair(self.epsilon, self.delta)
        if self._rate is None:
            assert self._threshold is not None  # noqa: S101 - for the type checker
            return largest_rate(self.epsilon, self.delta, self._threshold), self._threshold
        if self._threshold is None:
            return self._rate, smallest_threshold(self.epsilon, self.delta, self._rate)
        return self._rate, self._threshold

    @property
    def rate(self) -> Fraction:  # type: ignore[override]
        """p: a multiple of 2^-32."""
        return self._pair[0]

    @property
    def threshold(self) -> int:  # type: ignore[override]
        """t: the smallest value that is reported."""
        return self._pair[1]

    @property
    def largest_value(self) -> int:
        """What is kept of the largest count, and more than chance adds to it."""
        return math.floor(self.rate * LARGEST_VALUE) + (1 << 36)

    # ---- the contract ----

    def row(self, true_frequency: int) -> dict[int | None, Fraction]:
        """The exact law of what is reported for a key of this frequency; None is "not reported". Sums to 1."""
        frequency = as_frequency(true_frequency)
        if frequency < self.threshold:
            return {None: Fraction(1)}
        if frequency > _LARGEST_ROW:
            raise InvalidParameter(f"rows are exact fractions for frequencies up to {_LARGEST_ROW} only.")
        masses, whole = binomial_row(frequency, self.rate)
        law: dict[int | None, Fraction] = {None: Fraction(sum(masses[: self.threshold]), whole)}
        law.update((value, Fraction(masses[value], whole)) for value in range(self.threshold, frequency + 1))
        return law

    def reporting_probability(self, true_frequency: int) -> Fraction:
        """The probability that a key of this frequency is reported: exact up to 1024, within 2^-250 beyond."""
        frequency = as_frequency(true_frequency)
        if frequency <= _LARGEST_ROW:
            masses, whole = binomial_row(frequency, self.rate)
            return Fraction(sum(masses[self.threshold :]), whole)
        return binomial_at_least(frequency, self.threshold, self.rate)

    def first_frequency(self, probability: Fraction) -> int | None:
        """The smallest frequency that is reported with at least this probability; None for 1: no frequency has it."""
        if probability >= 1:
            return None
        found = first_from(lambda w: self.chance(w) >= probability, 1, LARGEST_FREQUENCY + 1)
        return found if found <= LARGEST_FREQUENCY else None

    @cached_property
    def _certificate(self) -> Certificate:
        return certify_sampling(self.rate, self.threshold, epsilon=self.epsilon, delta=self.delta)

    def certify(self) -> Certificate:
        """Judge rate and threshold for all frequencies."""
        return self._certificate

    def profile(self, step: Fraction) -> Profile:
        """Of binomial rows, up to what is negligible beside delta."""
        negligible = math.floor(self.delta * ONE) // 1024
        up, down = (sampling_profile(self.rate, self.threshold, step, order, negligible) for order in ("up", "down"))
        return up, down

    def draw(self, frequencies: NDArray[np.int64], bits: BitSource) -> NDArray[np.int64]:
        """One independent draw for each frequency; 0 means not reported.

        Postcondition: for frequencies from 0 to 2^62 and uniform words, results are independent and follow the rows
        exactly; see `dptally.randomness.thinning`. Frequencies below the threshold need no bits.
        """
        given = as_frequencies(frequencies)
        self.certify()
        reported = np.zeros(len(given), dtype=np.int64)
        possible = np.flatnonzero(given >= self.threshold)
        rate = int(self.rate * RATE_UNIT)
        # How many bits a key takes is not known before, so where words belong to keys each has its own stream.
        source = bits.streams(possible) if isinstance(bits, WordsOfRows) else bits
        reported[possible] = self.report(thin_counts(given[possible], rate, source))
        return reported

    def report(self, sampled: NDArray[np.int64]) -> NDArray[np.int64]:
        """What is reported for counts of kept units, where sampling has taken place already."""
        return np.where(sampled >= self.threshold, sampled, 0)

    def draw_given_sampled(self, frequencies: NDArray[np.int64], bits: BitSource) -> NDArray[np.int64]:
        """What is reported for counts of kept units; no bits are needed."""
        return self.report(frequencies)

    def estimator(self, kind: EstimatorKind = "mle", of: FrequencyFunction | None = None) -> Estimator:
        """Weights that turn reported values into estimates of sums of a function of frequency.

        "mle": g(i) / P[a key of frequency i is reported], with i = floor(v / p), the frequency that makes v most likely
        (P[v | i] / P[v | i - 1] = (1 - p) i / (i - v) is at least 1 up to there). "lower": v / p, for the frequency
        itself: as E[Binomial(w, p)] = w p, and hidden keys count 0, its expectation never exceeds w. There are no
        unbiased weights: frequencies below the threshold are never reported.
        """
        if kind == "mle":
            return _OfSample(self, of)
        if kind == "lower" and of is None:
            return _Scaled(self, of)
        if kind == "lower":
            raise InvalidParameter("the law 'sample_and_threshold' has weights of kind 'lower' for frequencies only.")
        raise InvalidParameter(f"the law 'sample_and_threshold' has kinds 'mle' and 'lower' only, got {kind!r}.")

    def invert(self, values: NDArray[np.int64], beta: Fraction) -> FrequencyEstimates:
        """Most likely frequencies, and bounds of binomial values, in floating point with room for its errors."""
        distinct, places = np.unique(values, return_inverse=True)
        if len(distinct) and int(distinct[0]) < self.threshold:
            raise InvalidParameter("a value of the release cannot have come from its law.")
        estimate = np.array([self.most_likely(value) for value in distinct.tolist()], dtype=np.int64)
        lower, upper = bounds_of_sampled(distinct, float(self.rate), self.threshold, float(beta))
        return FrequencyEstimates(estimate[places], lower[places], upper[places])

    def likely_value(self, frequency: int) -> int:
        """The kept part of the frequency."""
        return max(self.threshold, math.floor(frequency * self.rate))

    def chance(self, frequency: int) -> Fraction:
        """The reporting probability within 2^-250: exact fractions have tens of thousands of digits."""
        return binomial_at_least(frequency, self.threshold, self.rate)

    def reports(self, frequency: int) -> Reports:
        """Binomial masses within twelve deviations of their mean."""
        rate, threshold = float(self.rate), self.threshold
        mean, spread = frequency * rate, math.sqrt(frequency * rate * (1 - rate))
        low = max(threshold, math.floor(mean - 12 * spread))
        high = min(frequency, math.ceil(mean + 12 * spread) + 12)
        if high < low:
            return NOTHING
        values = np.arange(low, high + 1)
        start = math.lgamma(frequency + 1) - math.lgamma(low + 1) - math.lgamma(frequency - low + 1)
        start += low * math.log(rate) + (frequency - low) * math.log1p(-rate)
        steps = np.log((frequency - values[:-1]) / (values[:-1] + 1)) + math.log(rate) - math.log1p(-rate)
        masses = np.exp(start + np.concatenate(([0.0], np.cumsum(steps))))
        estimates = np.floor(values / rate).astype(np.int64)
        curve = self._curve
        weights = estimates / curve[np.minimum(estimates, len(curve) - 1)]
        return estimates.astype(np.float64), masses, weights

    @cached_property
    def _curve(self) -> NDArray[np.float64]:
        """P[Binomial(i, p) >= t] for i = 0, 1, ... until 1 - 2^-40: P[the t-th hit comes at trial n] summed up."""
        rate, threshold = float(self.rate), self.threshold
        last = max(threshold, self.first_frequency(1 - Fraction(1, 1 << 40)) or threshold)
        trials = np.arange(threshold, last)
        steps = np.log(trials / (trials - threshold + 1)) + math.log1p(-rate)
        reached = np.cumsum(np.exp(threshold * math.log(rate) + np.concatenate(([0.0], np.cumsum(steps)))))
        return np.concatenate((np.zeros(threshold), np.minimum(reached, 1.0)))

    def node_sums(self) -> NodeSums:
        """Kept units of nodes."""
        return SampledNodes(self)

    def most_likely(self, value: int) -> int:
        """The frequency that makes a value most likely: floor(value / p)."""
        return math.floor(value / self.rate)


class _OfSample(MostLikely):
    """g(i) / P[i is reported], i = floor(v / p); expectations are exact for frequencies up to 1024."""

    _law: SampleAndThreshold

    def __call__(self, value: int) -> Fraction:
        """The weight of a reported value."""
        if value < self._law.threshold:
            raise InvalidParameter("value must be at least the threshold: nothing below it is reported.")
        return self._weight(int(value))


class _Scaled(_OfSample):
    """v / p."""

    def _weight(self, value: int) -> Fraction:
        return value / self._law.rate


def as_rate(number: object) -> Fraction:
    """Read a sampling rate: between 0 and 1, rounded down to a multiple of 2^-32."""
    rate = as_fraction("rate", number)
    if not 0 < rate < 1:
        raise InvalidParameter(f"rate must be between 0 and 1, got {number}.")
    units = math.floor(rate * RATE_UNIT)
    if not units:
        raise InvalidParameter(f"rate must be at least 2^-32 (about 2.3e-10), got {number}.")
    return Fraction(units, RATE_UNIT)
