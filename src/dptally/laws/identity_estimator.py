"""The estimator of laws that report every count: the value stands for itself."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from dptally.errors import InvalidParameter
from dptally.laws.base import FrequencyFunction

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dptally.laws.clamped_noise import ClampedNoise

__all__ = ["IdentityEstimator"]


class IdentityEstimator:
    """The weight g(j) for a value j, with exact expectations over the law of one key.

    The noise is symmetric, so for g(w) = w the bias is what the clamp at 0 and at the bound does, plus the pull of
    uniform values to the middle of the range.

    Args:
        law: the law the values come from.
        of: the function g with g(0) = 0, None for the frequency itself.

    Raises:
        InvalidParameter: by the expectations, if `of` is given and the bound is so large that summing g over all
            uniform values is out of reach.
    """

    def __init__(self, law: ClampedNoise, of: FrequencyFunction | None) -> None:
        self._law = law
        self._of = of

    def __call__(self, value: int) -> Fraction:
        """The weight of a value, 0 and above."""
        if value < 0:
            raise InvalidParameter("value must be at least 0.")
        return self._wanted(int(value))

    def _wanted(self, frequency: int) -> Fraction:
        if frequency == 0:
            return Fraction(0)
        return Fraction(frequency if self._of is None else self._of(frequency))

    def weights(self, values: NDArray[np.int64]) -> NDArray[np.float64]:
        """The weights of many values, as floats."""
        if self._of is None:
            return np.asarray(values, dtype=np.float64)
        distinct, places = np.unique(values, return_inverse=True)
        return np.array([float(self(int(value))) for value in distinct], dtype=np.float64)[places]

    def expectation(self, true_frequency: int) -> Fraction:
        """Expected weight of a key of this frequency."""
        top = self._law.bound
        return self._mean(true_frequency, self._wanted, Fraction(top * (top + 1), 2))

    def bias(self, true_frequency: int) -> Fraction:
        """Expectation minus g(frequency)."""
        return self.expectation(true_frequency) - self._wanted(true_frequency)

    def mse(self, true_frequency: int) -> Fraction:
        """Mean squared error."""
        wanted, top = self._wanted(true_frequency), self._law.bound
        squares = Fraction(top * (top + 1) * (2 * top + 1), 6) - wanted * top * (top + 1) + (top + 1) * wanted**2
        return self._mean(true_frequency, lambda value: (self._wanted(value) - wanted) ** 2, squares)

    def variance(self, true_frequency: int) -> Fraction:
        """Mean squared error minus squared bias."""
        return self.mse(true_frequency) - self.bias(true_frequency) ** 2

    def _mean(self, true_frequency: int, function: Callable[[int], Fraction], over_all: Fraction) -> Fraction:
        """Expectation of a function of the value; `over_all` is its sum over all values where g(w) = w."""
        law = self._law
        count = min(int(true_frequency), law.bound)
        noise = law.noise_masses(count)
        found = sum((mass * function(value) for value, mass in noise.items()), Fraction(0))
        if law.uniform_mass:
            if self._of is not None:
                law.check_row()
                over_all = sum((function(value) for value in range(law.bound + 1)), Fraction(0))
            found += law.uniform_mass * over_all
        return found / law.whole
