"""How far the estimate of one key is from its true count, on average: what plans show. Floating point."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Reports = tuple[Floats, Floats, Floats]
"""For each value that a key may have: its estimate, its probability, its weight in a sum."""
NOTHING: Reports = (np.empty(0), np.empty(0), np.empty(0))


@dataclass(frozen=True)
class KeyErrors:
    """Errors at given frequencies, as floats; the first two among reported keys."""

    absolute: Floats  # mean absolute error of `estimate`
    square: Floats  # mean square error of it
    bias: Floats  # of what the key adds to an estimated sum ("mle"), reported or not
    variance: Floats  # of the same


def errors_of_reports(reports: Callable[[int], Reports], frequencies: Floats) -> KeyErrors:
    """Errors at each frequency, from what a key of that frequency may have reported."""
    return KeyErrors(*np.array([_moments(*reports(int(frequency)), frequency) for frequency in frequencies]).T)


def _moments(estimates: Floats, masses: Floats, weights: Floats, frequency: float) -> tuple[float, ...]:
    """Absolute and square error among reported keys, bias and variance in a sum."""
    reported = float(masses.sum())
    off = estimates - frequency
    # A frequency that is never reported has no error of its own; it weighs nothing either.
    absolute = float(masses @ np.abs(off)) / reported if reported > 0 else 0.0
    square = float(masses @ off**2) / reported if reported > 0 else 0.0
    mean = float(masses @ weights)
    # Around the mean, so that large frequencies lose no digits; what is not reported adds 0.
    variance = float(masses @ (weights - mean) ** 2) + max(0.0, 1 - reported) * mean**2
    return absolute, square, mean - frequency, variance


def errors_of_noise(beyond: Floats, frequencies: Floats) -> KeyErrors:
    """Errors of noise that does not depend on the frequency; that values are not below 0 is left out."""
    ones = np.ones(len(frequencies))
    absolute, square = float(beyond.sum()), float((2 * np.arange(len(beyond)) + 1) @ beyond)
    return KeyErrors(absolute * ones, square * ones, 0 * ones, square * ones)


def float_table(reached: Sequence[int], cumulative: Sequence[int]) -> tuple[Floats, Floats]:
    """P[D = d] from P[D <= d], and the second sequence, both in units of the first one's last entry, as floats."""
    whole, before = reached[-1], (0, *reached)
    masses = [(here - less) / whole for less, here in zip(before, reached, strict=False)]
    return np.array(masses), np.array([here / whole for here in cumulative])
