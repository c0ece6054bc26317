"""The law of a value in a tree of prefixes, for plans: found if all of its prefixes are."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from dptally.exact.searching import first_from
from dptally.laws.base import Reporting
from dptally.laws.key_errors import KeyErrors
from dptally.laws.sample_and_threshold import SampleAndThreshold

_FARTHEST = 1 << 40


class AllLevels(Reporting):
    """A tree of prefixes: a value is found if all of its prefixes are, each in a fresh sample.

    A prefix occurs at least as often as the value. So P[found] >= P[Binomial(w, rate) >= threshold]^levels.
    """

    at_least = True
    endless = True
    independent = False

    def __init__(self, law: SampleAndThreshold, levels: int) -> None:
        self.level, self.levels = law, levels

    def reporting_probability(self, true_frequency: int) -> Fraction:
        """A lower bound of the probability that a value of this frequency is found."""
        # Rounded down to a multiple of 2^-256, as powers would have thousands of digits, and lowered by 2^-240, which
        # is more than what chances may be off.
        found = self.level.chance(true_frequency) ** self.levels
        return Fraction(max(0, (found.numerator << 256) // found.denominator - (1 << 16)), 1 << 256)

    def first_frequency(self, probability: Fraction) -> int | None:
        """The smallest frequency with at least this lower bound, or None for 1."""
        if probability >= 1:
            return None
        found = first_from(lambda w: self.reporting_probability(w) >= probability, 1, _FARTHEST + 1)
        return found if found <= _FARTHEST else None

    def key_errors(self, frequencies: NDArray[np.float64]) -> KeyErrors | None:
        """Those of the last level."""
        return self.level.key_errors(frequencies)

    def interval_width(self, frequency: int | None, beta: Fraction) -> int | None:
        """That of the last level."""
        return self.level.interval_width(frequency, beta)
