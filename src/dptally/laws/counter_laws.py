"""The law for counters of which one unit may change all, each by one and in the same direction.

Parameters alone decide, so that the planner shows the law that a release would have.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Literal

from dptally.errors import InvalidParameter
from dptally.laws.gaussian_histogram import GaussianHistogram
from dptally.laws.weighted_sample import WeightedSample
from dptally.privacy.composition import LARGEST_UNIT, share_between_keys

__all__ = ["choose_counter_law"]

_MOST_SHARED_KEYS = 300  # above, Gaussian noise is better for every epsilon and delta that are allowed


def choose_counter_law(
    epsilon: Fraction, delta: Fraction, capacity: int, minimise: Literal["threshold", "error"] = "threshold"
) -> WeightedSample | GaussianHistogram:
    """The better of two laws: Gaussian noise on all counters, or the optimal law for each with a share of the budget.

    "threshold" is for the law that reports a key half of the time at the smallest counter, "error" for the one with the
    smallest standard deviation.
    """
    gaussian = GaussianHistogram(epsilon, delta, capacity)
    if capacity > min(_MOST_SHARED_KEYS, LARGEST_UNIT):
        return gaussian
    shared = WeightedSample(*share_between_keys(epsilon, delta, capacity))
    if minimise == "threshold":
        return shared if _half(shared) <= _half(gaussian) else gaussian
    return shared if _variance(shared) <= gaussian.sigma**2 else gaussian


def _half(law: WeightedSample | GaussianHistogram) -> int:
    """The smallest counter that is reported at least half of the time."""
    found = law.first_frequency(Fraction(1, 2))
    if found is None:
        raise InvalidParameter("no counter would be reported half of the time.")
    return found


def _variance(law: WeightedSample) -> Fraction:
    """Of the difference between a counter that is always reported and its value."""
    mean = sum((drop * chance for drop, chance in enumerate(law.drop_law)), Fraction(0))
    return sum((drop**2 * chance for drop, chance in enumerate(law.drop_law)), Fraction(0)) - mean**2
