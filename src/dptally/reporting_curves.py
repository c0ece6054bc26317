"""The chance that a key appears in a release, as a curve over its true frequency: for pictures of laws.

Every point is the law's own probability, turned into a float; which points are drawn is chosen so that few suffice.
"""

from __future__ import annotations

import heapq
import math
from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from statistics import NormalDist
from typing import Protocol

from dptally.exact.binomial import binomial_at_least
from dptally.observation_models import SampleAndThreshold, WeightedSample
from dptally.observation_models.gaussian_histogram import GaussianHistogram
from dptally.observation_models.heaviest_noise import HeaviestNoise

__all__ = ["LIKELY", "SURELY", "ReportingCurve", "reporting_curve"]

LIKELY = Fraction(95, 100)
SURELY = Fraction(999, 1000)
_EVEN = 8  # points at equal distances, before more are placed where the curve bends
_WIDE = 500  # deviation of Gaussian noise from which its table is not written out for a picture
_FEW = 26  # points of a law that takes long for each
_FARTHEST = 1000  # end of the curve where no frequency is likely to be reported


class _Law(Protocol):
    """What a curve is drawn from."""

    def reporting_probability(self, true_frequency: int) -> Fraction:
        """The chance of one frequency."""

    def first_frequency(self, probability: Fraction) -> int | None:
        """The smallest frequency with at least this chance."""


@dataclass(frozen=True)
class ReportingCurve:
    """The chance that a key is reported, by its true frequency.

    Attributes:
        points: frequency and chance, by frequency, from 0 on.
        half: the smallest frequency that is reported with at least 50 %; None if there is none.
        likely: the same for 95 %.
        surely: the same for 99.9 %.
        always: the smallest frequency that is reported with certainty, for laws that have one worth naming.
        at_least: whether chances are lower bounds, because they depend on other keys.
    """

    points: tuple[tuple[int, float], ...]
    half: int | None
    likely: int | None
    surely: int | None
    always: int | None
    at_least: bool

    @property
    def hides(self) -> bool:
        """Whether there are keys that the law may not report."""
        return any(chance < 1 for _, chance in self.points)

    def chance(self, frequency: float) -> float:
        """The chance at any frequency, by straight lines between the points; beyond them as at the last one."""
        place = bisect_left(self.points, frequency, key=lambda point: point[0])
        if place == len(self.points):
            return self.points[-1][1]
        after, reached = self.points[place]
        if place == 0 or after == frequency:
            return reached
        before, low = self.points[place - 1]
        return low + (reached - low) * (frequency - before) / (after - before)


def reporting_curve(law: _Law, *, points: int = 60, proceed: Callable[[], None] | None = None) -> ReportingCurve:
    """The curve of a law from frequency 0 to a little beyond where keys are reported with 99.9 %.

    Args:
        law: any law of `dptally.observation_models`.
        points: how many, about.
        proceed: called before every evaluation of the law; may raise to stop a curve that nobody waits for any more.
    """

    def chance(frequency: int) -> float:
        if proceed is not None:
            proceed()
        if isinstance(law, SampleAndThreshold):  # within 2^-250 of the exact one, and much faster
            return float(binomial_at_least(frequency, law.threshold, law.rate)) if frequency else 0.0
        return float(law.reporting_probability(frequency))

    if isinstance(law, GaussianHistogram) and law.sigma > _WIDE:
        law = _WideGaussian(law.threshold, float(law.sigma))
    marks: list[int | None] = []
    for share in (Fraction(1, 2), LIKELY, SURELY):
        if proceed is not None:
            proceed()
        marks.append(law.first_frequency(share))
    half, likely, surely = marks
    always = law.first_frequency(Fraction(1)) if isinstance(law, WeightedSample) and law.scheme is None else None
    last = always or surely or likely or half or _FARTHEST
    end = last + max(2, last // 6)
    even = {end * step // _EVEN for step in range(_EVEN + 1)}
    known = {
        frequency: chance(frequency)
        for frequency in sorted({0, 1, end, *even, *(mark for mark in (*marks, always) if mark)})
    }
    _refine(known, chance, min(points, _FEW) if isinstance(law, HeaviestNoise) else points)
    return ReportingCurve(tuple(sorted(known.items())), half, likely, surely, always, isinstance(law, HeaviestNoise))


class _WideGaussian:
    """The law of `GaussianHistogram` in floating point, where its table would take seconds to write out.

    P[Z >= T - w] for Gaussian noise that is rounded: Phi((w - T + 1/2) / sigma). The table differs from it by less than
    2^-60, more than a picture shows.
    """

    def __init__(self, threshold: int, sigma: float) -> None:
        self._threshold, self._noise = threshold, NormalDist(0.0, sigma)

    def reporting_probability(self, true_frequency: int) -> Fraction:
        chance = self._noise.cdf(true_frequency - self._threshold + 0.5) if true_frequency else 0.0
        return Fraction(chance)

    def first_frequency(self, probability: Fraction) -> int | None:
        if probability >= 1:
            return None
        return max(1, math.ceil(self._threshold - 0.5 + self._noise.inv_cdf(float(probability))))


def _refine(known: dict[int, float], chance: Callable[[int], float], points: int) -> None:
    """Halve the interval with the largest step, again and again."""
    places = sorted(known)
    steps = [(known[low] - known[high], low, high) for low, high in pairwise(places)]
    heapq.heapify(steps)
    while steps and len(known) < points:
        step, low, high = heapq.heappop(steps)
        if high - low < 2:
            continue
        if not step:
            break
        middle = (low + high) // 2
        known[middle] = chance(middle)
        heapq.heappush(steps, (known[low] - known[middle], low, middle))
        heapq.heappush(steps, (known[middle] - known[high], middle, high))
