"""The sparse histogram with rounded Gaussian noise: for units that touch several keys.

FLINT, which the verifier and the table need, is imported with the first use: other laws do without its 10 MB.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import cached_property
from itertools import pairwise
from statistics import NormalDist
from typing import ClassVar

from dptally.errors import InvalidParameter
from dptally.exact import as_count, as_delta, as_epsilon
from dptally.laws.base import Parameters, Reporting, as_given, read_flag
from dptally.laws.tables.certified_table import CertifiedTable
from dptally.laws.tables.two_sided_geometric import noise_table
from dptally.laws.thresholded_noise import ThresholdedNoise
from dptally.verifiers.tables import TABLE_BITS

LARGEST_DIFFERING = 100_000
LARGEST_REACH = 1 << 20  # of the noise; 32 MB of thresholds
_WHOLE = 1 << TABLE_BITS
_SPARE_BITS = 70  # the noise is cut where its tails cost less than 2^-70 of delta
_ROOM_BITS = 20  # 2^-20 of delta is kept for rounding, of which far less is used
_WIDE = 500  # deviation of noise from which its table is not written out for a picture
_SIGMA_BITS = 24
_BLOCK = 256  # entries that are computed with the same precision


class GaussianHistogram(ThresholdedNoise):
    """Rounded Gaussian noise is added to each frequency, and what falls below a threshold is not reported.

    A key of frequency w >= 1 is reported with value w + Z if that is at least T, and not at all otherwise. Z is the
    Gaussian law of mean 0 and deviation sigma, rounded to whole numbers and cut at -R and R where its tails cost less
    than 2^-70 of delta. Keys of frequency 0 are never reported. sigma and T are chosen by `calibrate` for all l keys of
    a unit together, so nothing is composed: noise grows with the root of l.

    Guarantee:
        (epsilon, delta)-differential privacy for adding or removing one unit that counts once for each of at most
        `differing` keys. It is certified in ball arithmetic on the table that is drawn from, before the first draw; see
        `dptally.verifiers.gaussian` for the statement and its proof. Without values the guarantee is the same:
        leaving values out is done to what is already private.

    Error:
        Keys of frequency i are reported with probability P[Z >= T - i], and values have deviation sqrt(sigma^2 + 1/12).
    Cost:
        A table of 2R numbers, R = sigma sqrt(2 (70 ln 2 + ln(l / delta) + epsilon)).

    References:
        [LT25, Thm. 23], [WKZK24, Thm. 5.4], there with real noise; [BW18] for sigma.

    Args:
        epsilon: positive, for the unit; see `dptally.exact.as_fraction` for how numbers are read.
        delta: from 2^-64 to below 1, for the unit.
        differing: l, how many keys a unit may touch.
        values: whether values are reported with the keys.

    >>> law = GaussianHistogram("0.1", "1e-6", 10)
    >>> law.threshold, round(float(law.sigma), 1), float(law.reporting_probability(law.threshold)) > 0.5
    (599, 114.8, True)
    """

    name = "gaussian_histogram"
    stored_as = "GaussianHistogram"
    parameters: ClassVar[Parameters] = {"epsilon": str, "delta": str, "differing": as_given, "values": read_flag}
    judged_for_unit = True

    def __init__(self, epsilon: object, delta: object, differing: int = 1, *, values: bool = True) -> None:
        self.epsilon = as_epsilon(epsilon)
        self.delta = as_delta(delta)
        self.differing = as_count("differing", differing, largest=LARGEST_DIFFERING)
        self.values = bool(values)
        self.sigma, self.threshold = calibrate(self.epsilon, self.delta, self.differing)
        self._reach = _reach(self.sigma, self.threshold, self.epsilon, self.delta, self.differing)

    # ---- the table ----

    @cached_property
    def table(self) -> bytes:
        """P[D <= d] for d = 0 .. 2R-1 in units of 2^-128, as little-endian 128-bit integers; D = R - Z."""
        return noise_table(noise_masses(self.sigma, self._reach))

    # ---- the contract ----

    @cached_property
    def _certified(self) -> CertifiedTable:
        from dptally.verifiers.gaussian import certify_gaussian_table

        certificate = certify_gaussian_table(
            self.table,
            reach=self.reach,
            sigma=self.sigma,
            threshold=self.threshold,
            differing=self.differing,
            epsilon=self.epsilon,
            delta=self.delta,
        )
        return CertifiedTable(self.table, certificate)

    def for_charts(self) -> Reporting:
        """Without the table, where it is long."""
        return _WideGaussian(self.threshold, float(self.sigma)) if self.sigma > _WIDE else self


class _WideGaussian(Reporting):
    """The law of `GaussianHistogram` in floating point, where its table would take seconds to write out.

    P[Z >= T - w] for Gaussian noise that is rounded: Phi((w - T + 1/2) / sigma). The table differs from it by less than
    2^-60, more than a picture shows.
    """

    endless = True

    def __init__(self, threshold: int, sigma: float) -> None:
        self._threshold, self._noise = threshold, NormalDist(0.0, sigma)

    def reporting_probability(self, true_frequency: int) -> Fraction:
        return Fraction(self._noise.cdf(true_frequency - self._threshold + 0.5) if true_frequency else 0)

    def first_frequency(self, probability: Fraction) -> int | None:
        if probability >= 1:
            return None
        return max(1, math.ceil(self._threshold - 0.5 + self._noise.inv_cdf(float(probability))))


def noise_masses(sigma: Fraction, reach: int) -> list[int]:
    """P[Z = 0], P[Z = 1], ..., P[Z = R] in units of 2^-128; Z is symmetric and the units add up to 2^128.

    P[Z = z] is P[z - 1/2 < N < z + 1/2], rounded up except at 0, which takes what is left. Rounding up means that only
    the middle has less than its share, by less than one part in 2^80, and the judge counts that as a change of epsilon
    instead of multiplying it by e^epsilon.
    """
    from flint import arb, fmpq

    from dptally.verifiers.gaussian import working_precision

    masses: list[int] = []
    for start in range(1, reach + 1, _BLOCK):
        # The masses of this block are below 2^-leading: P[N > x sigma] < exp(-x^2 / 2), and 10 / 7 < 1 / ln 2.
        leading = (2 * start - 1) ** 2 * 10 // (7 * 8 * sigma**2)
        with working_precision(max(32, TABLE_BITS + 16 - leading)):
            scale = arb(fmpq(sigma.denominator, sigma.numerator)) / arb(8).sqrt()
            half_whole = arb((1, TABLE_BITS - 1))
            stop = min(start + _BLOCK, reach + 1)
            tails = [half_whole * (odd * scale).erfc() for odd in range(2 * start - 1, 2 * stop, 2)]
            masses += [int((here - after).upper().ceil().fmpz()) for here, after in pairwise(tails)]
    return [_WHOLE - 2 * sum(masses), *masses]


def calibrate(epsilon: object, delta: object, differing: int) -> tuple[Fraction, int]:
    """Choose the least noise and the lowest threshold for units of up to `differing` keys; both at once.

    Each end of [LT25, Thm. 23] demands something of its own. Where all l keys have other units too, sigma must be at
    least that of the Gaussian mechanism for vectors that are sqrt(l) apart [BW18, Thm. 8]. Where none has, the
    threshold T must be at least 3/2 + k sigma with k = Phi^-1((1 - delta)^(1/l)). So if the pair that meets both with
    equality is private, neither can be lowered, and there is nothing to trade: what lies between the ends was found to
    be less demanding in every setting tried (8,464 of them, see `docs/mechanisms/gaussian-histogram.md`). Were it not
    so somewhere, the threshold would be raised until it is, since a higher threshold can only leave out more.

    sigma is found in floating point with 2^-20 of delta to spare and rounded up; T is the smallest threshold of 2 and
    above for which the verifier finds the untabulated law within that delta. (T = 1 would report keys of a single unit
    more often than not.) Whether the table is private is for the verifier to say again. Epsilon and delta, from 2^-64
    to below 1, are for the unit; l, `differing`, is at most `LARGEST_DIFFERING`. Returns sigma, of 24 bits, and T.
    Raises InvalidParameter if a parameter is out of its range.

    >>> sigma, threshold = calibrate("1", "1e-6", 1)
    >>> sigma, threshold
    (Fraction(8859795, 2097152), 22)
    """
    exact_epsilon, allowed = as_epsilon(epsilon), as_delta(delta) * (1 - Fraction(1, 1 << _ROOM_BITS))
    keys = as_count("differing", differing, largest=LARGEST_DIFFERING)
    sigma = round_up(math.sqrt(keys) / largest_step(float(exact_epsilon), float(allowed)))
    quantile = -NormalDist().inv_cdf(-math.expm1(math.log1p(-float(allowed)) / keys))
    threshold = max(2, math.floor(1.5 + quantile * float(sigma)))  # at most one too low

    from dptally.verifiers.gaussian import thresholded_gaussian_delta

    def exceeds(threshold: int) -> bool:
        found, _ = thresholded_gaussian_delta(
            sigma=sigma, threshold=threshold, differing=keys, epsilon=exact_epsilon, allowed=allowed
        )
        return found > allowed

    while exceeds(threshold):
        threshold += 1
    return sigma, threshold


# ---- floating point from here on: used to choose, never to guarantee ----


def largest_step(epsilon: float, allowed: float) -> float:
    """How far the means of two Gaussian laws of deviation 1 may be apart, for divergence `allowed` at epsilon."""
    low, high = 2.0**-60, 2.0**10
    while high > low * (1 + 2**-50):
        step = math.sqrt(low * high)
        found = _phi(step / 2 - epsilon / step) - math.exp(epsilon) * _phi(-step / 2 - epsilon / step)
        low, high = (step, high) if found <= allowed else (low, step)
    return low


def _phi(point: float) -> float:
    return math.erfc(-point / math.sqrt(2)) / 2


def round_up(sigma: float) -> Fraction:
    """The smallest number of 24 bits that is not below sigma."""
    _, exponent = math.frexp(sigma)
    scale = Fraction(2) ** (_SIGMA_BITS - exponent)
    return math.ceil(Fraction(sigma) * scale) / scale


def _reach(sigma: Fraction, threshold: int, epsilon: Fraction, delta: Fraction, keys: int) -> int:
    """Where the noise is cut: P[|N| > x sigma] < exp(-x^2 / 2), which costs l e^epsilon times as much."""
    spread = math.sqrt(2 * (_SPARE_BITS * math.log(2) + math.log(keys / delta) + epsilon))
    reach = max(threshold, math.ceil(float(sigma) * spread) + 1)
    if reach > LARGEST_REACH:
        raise InvalidParameter(
            f"epsilon is too small: the noise would have more than {2 * LARGEST_REACH} values, "
            f"and no key below {threshold:.2g} occurrences would be likely to be reported."
        )
    return reach
