"""The chance that a key is reported, by its frequency, for several laws at once: what charts are drawn from."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from typing import Protocol

from dptally.exact.binomial import binomial_at_least
from dptally.observation_models.sample_and_threshold import SampleAndThreshold

__all__ = ["Reporting", "chance", "reporting_curves", "useful_frequencies"]

_NEARLY = Fraction(999, 1000)
_LIKELY = Fraction(95, 100)
_FARTHEST = 1 << 20


class Reporting(Protocol):
    """What a curve needs of a law."""

    def reporting_probability(self, true_frequency: int) -> Fraction:
        """The probability that a key of this frequency is reported."""

    def first_frequency(self, probability: Fraction) -> int | None:
        """The smallest frequency reported with at least this probability, or None."""


def chance(law: Reporting, frequency: int) -> Fraction:
    """The probability that a key of this frequency is reported: exact, for `SampleAndThreshold` within 2^-250.

    That law's own fractions have tens of thousands of digits, which nobody can see in a chart.
    """
    if isinstance(law, SampleAndThreshold):
        return binomial_at_least(frequency, law.threshold, law.rate)
    return law.reporting_probability(frequency)


def reporting_curves(mechanisms: Mapping[str, Reporting], frequencies: Iterable[int]) -> dict[str, list[float]]:
    """For each law, the probability that a key of each frequency is reported.

    Each probability is rounded to a float once, when it is known exactly.

    Args:
        mechanisms: laws by name, such as those of `dptally.planning.planned_laws`, or ``{"release": release.law}``.
        frequencies: at least 0.

    >>> from dptally.observation_models import WeightedSample
    >>> reporting_curves({"best": WeightedSample(1, "1e-6")}, [1, 28])
    {'best': [1e-06, 1.0]}
    """
    points = list(frequencies)
    return {name: [float(chance(law, point)) for point in points] for name, law in mechanisms.items()}


def useful_frequencies(laws: Iterable[Reporting], points: int = 160) -> Sequence[int]:
    """Evenly spaced frequencies from 0 to a little beyond where every law reports keys with 99.9 % probability.

    Where a law never gets there, 95 % will do. A law that takes more than four times as many units as the median one
    does not stretch the axis: it runs out of the picture.
    """
    ends = []
    for law in laws:
        end = law.first_frequency(_NEARLY)
        ends.append((law.first_frequency(_LIKELY) if end is None else end) or 0)
    found = sorted(end for end in ends if end > 0)
    if not found:
        return range(21)
    last = min(found[-1], 4 * found[(len(found) - 1) // 2], _FARTHEST)
    last += max(2, last // 12)
    return range(0, last + 1, max(1, -(-last // points)))
