"""The stability-based histogram with whole-number noise: the classical baseline, in exact integers."""

from __future__ import annotations

import hashlib
import math
from bisect import bisect_left
from dataclasses import replace
from fractions import Fraction
from functools import cached_property
from itertools import accumulate
from typing import TYPE_CHECKING, cast

import numpy as np

from dptally.errors import InvalidParameter
from dptally.exact import as_delta, as_epsilon, exp_bounds
from dptally.observation_models.base import LARGEST_FREQUENCY, EstimatorKind, FrequencyFunction
from dptally.observation_models.certified_table import CertifiedShiftTable
from dptally.privacy.certifier import Band, Certificate, certify_bands

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dptally.observation_models.base import Estimator
    from dptally.observation_models.weighted_sample import WeightedSample
    from dptally.randomness import BitSource

__all__ = ["LARGEST_REACH", "Stability", "noise_masses"]

_BITS = 128
_ENTRY = _BITS // 8
_WHOLE = 1 << _BITS
_SPARE_BITS = 64  # the noise is cut where its tail is below 2^-64 of delta
_PRECISION = 256  # of e^epsilon, from below
LARGEST_REACH = 1 << 21  # of the noise; 64 MB of thresholds


class Stability:
    """Noise is added to each frequency, and what falls below a threshold is not reported.

    A key of frequency w >= 1 is reported with value w + Z if that is at least T, and not at all otherwise. Z is one
    fixed symmetric law on -R .. R whose masses shrink by a factor e^epsilon with every step away from 0 (the two-sided
    geometric law, cut where its tail is below 2^-64 of delta; see `noise_masses`). T is the smallest threshold, of 1
    and above, that keeps delta. Keys of frequency 0 are never reported.

    Why finitely many rows suffice. Put D = R - Z, which has a law on 0 .. 2R, and s = R - T + 1. Row w of this law is
    then "report w + s - D if positive", with T - 1 added to the value, which renames outcomes and changes no
    divergence. So rows i and i - 1 for i >= 2 are rows i + s and i + s - 1 of the law "report w - D if positive", all
    of whose neighbouring rows are judged by `certify_shift_table`, which also has the argument for rows so high that a
    key is always reported. One pair is left: row 1 beside row 0, where nothing is reported. It is judged on its own,
    and it is the one that decides T.

    Guarantee:
        (epsilon, delta)-differential privacy for adding or removing one unit that counts once for one key, certified in
        integers on the table that is drawn from, before the first draw.

    Error:
        Keys of frequency i are reported with probability P[Z >= T - i]. `WeightedSample` reports every frequency at
        least as often, for the same guarantee.
    Cost:
        A table of 2R numbers, R = 0.7 (64 + log2(1 / delta)) / epsilon.

    References:
        [CGSS21] section 8.1, Algorithm 6, which has real-valued noise and a threshold that leaves half of delta unused;
        `dptally.evaluation.stability_baseline` has that one.

    Args:
        epsilon: positive; see `dptally.exact.as_fraction` for how numbers are read.
        delta: from 2^-64 to below 1.
        values: whether values are reported with the keys.

    >>> law = Stability("1", "1/1000000")
    >>> law.threshold, float(law.reporting_probability(law.threshold))
    (15, 0.7310585786300049)
    """

    scheme = None
    likely_drop = 0  # the frequency that makes a value most likely is the value itself

    def __init__(self, epsilon: object, delta: object, values: bool = True) -> None:
        self.epsilon = as_epsilon(epsilon)
        self.delta = as_delta(delta)
        self.values = bool(values)

    def __repr__(self) -> str:
        return f"Stability(epsilon={self.epsilon}, delta={self.delta}, values={self.values})"

    # ---- the table ----

    @cached_property
    def table(self) -> bytes:
        """P[D <= d] for d = 0 .. 2R-1 in units of 2^-128, as little-endian 128-bit integers."""
        half = noise_masses(self.epsilon, self.delta)
        masses = [*reversed(half), *half[1:-1]]  # of D = 0 .. 2R-1; the last one is what is missing
        return b"".join(reached.to_bytes(_ENTRY, "little") for reached in accumulate(masses))

    @cached_property
    def cumulative(self) -> tuple[int, ...]:
        """P[D <= d] for d = 0 .. 2R, in units of 2^-128; the last one is 2^128."""
        entries = (int.from_bytes(self.table[at : at + _ENTRY], "little") for at in range(0, len(self.table), _ENTRY))
        return (*entries, _WHOLE)

    @property
    def reach(self) -> int:
        """R: the largest noise."""
        return len(self.cumulative) // 2

    @cached_property
    def threshold(self) -> int:
        """T: the smallest value that is reported, the smallest that keeps delta.

        Row 1 reports a key with probability P[Z >= T - 1] = P[D <= R - T + 1], and row 0 does not: this must be at most
        delta. It is the only constraint on T, and what remains of delta at T is what a step of the table leaves over.
        """
        allowed = self.delta * _WHOLE
        low, high = 1, self.reach + 1
        while low < high:  # invariant: `high` keeps delta (R is far beyond it), all below `low` do not
            middle = (low + high) // 2
            low, high = (low, middle) if self.cumulative[self.reach - middle + 1] <= allowed else (middle + 1, high)
        return low

    @property
    def _shift(self) -> int:
        return self.reach - self.threshold + 1

    @property
    def width(self) -> int:
        """T + R: the smallest frequency that is always reported."""
        return self.threshold + self.reach

    @cached_property
    def noise_law(self) -> dict[int, Fraction]:
        """P[Z = z] for z = -R .. R."""
        masses = (here - before for before, here in zip((0, *self.cumulative), self.cumulative, strict=False))
        return {drop - self.reach: Fraction(mass, _WHOLE) for drop, mass in enumerate(masses)}  # symmetric

    # ---- the contract ----

    def reporting_probability(self, true_frequency: int) -> Fraction:
        """The exact probability that a key of this frequency is reported: P[Z >= T - w]."""
        frequency = _as_frequency(true_frequency)
        if frequency == 0:
            return Fraction(0)
        return Fraction(self.cumulative[min(frequency + self._shift - 1, 2 * self.reach)], _WHOLE)

    def first_frequency(self, probability: Fraction) -> int:
        """The smallest frequency that is reported with at least this probability."""
        return max(1, bisect_left(self.cumulative, probability * _WHOLE) + 1 - self._shift)

    def row(self, true_frequency: int) -> dict[int | None, Fraction]:
        """The exact law of what is reported for a key of this frequency; None is "not reported". Sums to 1."""
        frequency = _as_frequency(true_frequency)
        reported = self.reporting_probability(frequency)
        law: dict[int | None, Fraction] = {None: 1 - reported}
        if frequency and self.values:
            lowest = max(self.threshold, frequency - self.reach)
            law.update(
                (value, self.noise_law[value - frequency]) for value in range(lowest, frequency + self.reach + 1)
            )
        elif frequency:
            law[1] = reported
        return law

    @cached_property
    def _certified(self) -> CertifiedShiftTable:
        return CertifiedShiftTable(self.table, values=self.values, epsilon=self.epsilon, delta=self.delta)

    @cached_property
    def _certificate(self) -> Certificate:
        others = self._certified.certificate
        first = certify_bands([self._first_band()], epsilon=self.epsilon, delta=self.delta)
        # Each mass is at most a times its neighbours, so other pairs differ by P[Z = R] only, a part of what row 1 has.
        worst_delta, pair = first.worst_delta, first.worst_pair
        if others.worst_delta > worst_delta:
            higher, lower = others.worst_pair
            worst_delta, pair = others.worst_delta, (max(1, higher - self._shift), max(1, lower - self._shift))
        digest = hashlib.sha256(b"%d;" % self.threshold + self.table).hexdigest()
        return replace(
            first,
            worst_delta=worst_delta,
            worst_pair=pair,
            rows_checked=others.rows_checked + 1,
            table_sha256=digest,
            total_delta=worst_delta,
        )

    def _first_band(self) -> Band:
        """Row 1 as it is drawn from: the first s + 1 thresholds, beyond which nothing is reported."""
        reported = self.table[: _ENTRY * (self._shift + 1)]
        if self.values:
            return Band(1, 1 + self.reach, reported, sure=False)
        return Band(1, 1, reported[-_ENTRY:], sure=False)

    def certify(self) -> Certificate:
        """Judge the table that is drawn from, with its threshold.

        Raises:
            PrivacyViolation: with the offending pair of frequencies.
        """
        return self._certificate

    def draw(self, frequencies: NDArray[np.int64], bits: BitSource) -> NDArray[np.int64]:
        """One independent draw for each frequency; 0 means not reported.

        Postcondition: for frequencies from 0 to 2^62 and uniform words, results are independent and follow the
        certified rows exactly. Each draw takes 128 random bits, for frequency 0 too.

        Raises:
            InvalidParameter: if a frequency is not a whole number from 0 to 2^62.
        """
        given = np.asarray(frequencies)
        if given.dtype.kind not in "iu" or given.ndim != 1:
            raise InvalidParameter("frequencies must be a one-dimensional array of whole numbers.")
        if given.size and (given.min() < 0 or given.max() > LARGEST_FREQUENCY):
            raise InvalidParameter("frequencies must be from 0 to 2^62.")
        self.certify()
        present = given > 0
        moved = np.ascontiguousarray((given.astype(np.int64) + self._shift) * present)
        reported = self._certified.draw(moved, bits)
        if self.values:
            reported += (self.threshold - 1) * (reported > 0)
        return reported

    def estimator(self, kind: EstimatorKind = "mle", of: FrequencyFunction | None = None) -> Estimator:
        """Weights that turn reported values into estimates of sums of a function of frequency.

        The value j is most likely for frequency j, so that its weight is g(j) / P[a key of frequency j is reported].
        Without values the weight is g(T + R), as for the smallest frequency that is certain to be reported.

        Args:
            kind: "mle", the only one this law has.
            of: the function g with g(0) = 0, None for the frequency itself.
        """
        from dptally.observation_models.estimators import make_estimator

        if kind != "mle":
            raise InvalidParameter(f"the law 'stability' has estimators of kind 'mle' only, got {kind!r}.")
        # The estimator needs rows, reporting probabilities, `likely_drop` and `width`, which mean the same here.
        return make_estimator(cast("WeightedSample", self), kind, of)


def noise_masses(epsilon: Fraction, delta: Fraction) -> list[int]:
    """P[Z = 0], P[Z = 1], ..., P[Z = R] in units of 2^-128; Z is symmetric and the units add up to 2^128.

    With rational a <= e^epsilon, the masses are made from 1 outward and the middle last:

        m_z = ceil(m_{z-1} / a) for z = 2 .. R,  m_0 = 2^128 - 2 (m_1 + ... + m_R),

    with m_1 the smallest number for which m_0 <= a m_1. Rounding up gives m_{z-1} <= a m_z, and m_z <= m_{z-1}; so no
    mass exceeds a times a neighbour's and rounding costs nothing: pairs of rows differ by m_R at the end of the support
    alone, and by the mass at and above the threshold in row 1.

    Raises:
        InvalidParameter: if the support would be too long.
    """
    # 0.7 > ln 2, so e^(-epsilon R) < 2^-64 delta.
    halvings = _SPARE_BITS + (math.ceil(1 / delta) - 1).bit_length()
    reach = math.ceil(Fraction(7 * halvings, 10) / epsilon)
    if reach > LARGEST_REACH:
        raise InvalidParameter(
            f"epsilon is too small: the noise would have more than {2 * LARGEST_REACH} values, "
            f"and no key below {float(Fraction(7 * (halvings - _SPARE_BITS), 10) / epsilon):.2g} occurrences would be "
            "likely to be reported."
        )
    low, _ = exp_bounds(epsilon, _PRECISION)
    growth, one = low.numerator, low.denominator

    def outward(first: int) -> list[int]:
        masses = [first]
        for _ in range(reach - 1):
            masses.append(-(-masses[-1] * one // growth))
        return masses

    # Without rounding, m_0 + 2 (m_1 + ...) = m_1 slope; rounding adds less than 2R / (1 - 1/a). This gives a bracket.
    shrink = one / Fraction(growth)
    slope = low + 2 * (1 - exp_bounds(-epsilon * reach, _PRECISION)[0]) / (1 - shrink)
    above = math.floor(_WHOLE / slope) + 2
    below = max(1, above - math.ceil((2 * reach / (1 - shrink) + 2) / slope) - 4)
    while below < above:
        middle = (below + above) // 2
        if growth * middle // one + 2 * sum(outward(middle)) >= _WHOLE:
            above = middle
        else:
            below = middle + 1
    sides = outward(above)
    return [_WHOLE - 2 * sum(sides), *sides]


def _as_frequency(number: int) -> int:
    frequency = int(number)
    if frequency != number or not 0 <= frequency <= LARGEST_FREQUENCY:
        raise InvalidParameter("true_frequency must be a whole number from 0 to 2^62.")
    return frequency
