"""The estimator of sparse pure releases: a value stands for itself where it is too large for a key nobody has."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, NoReturn

import numpy as np

from dptally.errors import InvalidParameter
from dptally.laws.base import FrequencyFunction

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["SignificantValues"]


class SignificantValues:
    """The weight g(j) for a value j from `real_from` on, and 0 below.

    Whether a key is released depends on all others, so there is no expectation over the law of one key; what one key
    may be off is `TopKNoise.key_error`.

    Args:
        real_from: the first value that counts.
        of: the function g with g(0) = 0, None for the frequency itself.
    """

    def __init__(self, real_from: int, of: FrequencyFunction | None) -> None:
        self._real_from = real_from
        self._of = of

    def __call__(self, value: int) -> Fraction:
        """The weight of a value."""
        if value < self._real_from:
            return Fraction(0)
        return Fraction(int(value) if self._of is None else self._of(int(value)))

    def weights(self, values: NDArray[np.int64]) -> NDArray[np.float64]:
        """The weights of many values, as floats."""
        distinct, places = np.unique(values, return_inverse=True)
        return np.array([float(self(int(value))) for value in distinct], dtype=np.float64)[places]

    def expectation(self, true_frequency: int) -> Fraction:
        """Not defined for one key alone."""
        _refuse()

    def bias(self, true_frequency: int) -> Fraction:
        """Not defined for one key alone."""
        _refuse()

    def variance(self, true_frequency: int) -> Fraction:
        """Not defined for one key alone."""
        _refuse()

    def mse(self, true_frequency: int) -> Fraction:
        """Not defined for one key alone."""
        _refuse()


def _refuse() -> NoReturn:
    raise InvalidParameter(
        "in a sparse release an estimate depends on all other keys; law.key_error(beta, frequency) bounds its error."
    )
