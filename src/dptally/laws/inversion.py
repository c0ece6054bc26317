"""The true count of a key from its reported value: the most likely one, and bounds by exact tails of the law."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class FrequencyEstimates:
    """Per reported key: the most likely frequency and its bounds; None where the law says nothing."""

    estimate: NDArray[np.int64] | None
    lower: NDArray[np.int64]
    upper: NDArray[np.int64] | None


@lru_cache(maxsize=64)
def noise_offsets(cumulative: tuple[int, ...], beta: Fraction) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """lower - value and upper - value for the values 1 .. W.

    With c_d = P[D <= d] in units of 1/N, the two tails at w = value + d are c_d / c_{w-1} and 1 - c_{d-1} / c_{w-1}.
    For a larger value c_{w-1} is larger or equal at the same d, so the first d to pass the lower test, and the last d
    to pass the upper test, never fall: two pointers find all of them in one sweep.
    """
    width = len(cumulative)
    share, scale = beta.numerator, 2 * beta.denominator
    below = np.empty(width, dtype=np.int64)
    above = np.empty(width, dtype=np.int64)
    low = high = 0
    for value in range(1, width + 1):
        while scale * cumulative[low] <= share * cumulative[min(low + value, width) - 1]:
            low += 1
        while (
            high < width and (scale - share) * cumulative[min(high + 1 + value, width) - 1] > scale * cumulative[high]
        ):
            high += 1
        below[value - 1], above[value - 1] = low, high
    return below, above


@lru_cache(maxsize=64)
def value_offsets(
    tails: tuple[int, ...], reports: tuple[int, ...], beta: Fraction
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """lower - value and upper - value for the values 1 .. W + 1 of the optimal law.

    A key of frequency w = value - 1 + d, d >= 0, has this value or a larger one with probability P[D <= d], or pi_w if
    the value is 1; it has a larger one with probability P[D < d]. Both are compared with pi_w, as in `noise_offsets`.
    """
    width, reach = len(reports), len(tails)
    share, scale = beta.numerator, 2 * beta.denominator
    below = np.empty(width + 1, dtype=np.int64)
    above = np.empty(width + 1, dtype=np.int64)

    def reported(frequency: int) -> int:
        return reports[min(frequency, width) - 1]

    low = high = 0
    for value in range(1, width + 2):
        if value == 1:
            below[0], high = 0, 1  # the smallest frequency that has the value 1 at all
        else:
            while value - 1 + low < 1 or scale * tails[low] <= share * reported(value - 1 + low):
                low += 1
            below[value - 1] = low - 1
        while high < reach and (scale - share) * reported(value + high) > scale * tails[high]:
            high += 1
        above[value - 1] = high - 1
    return below, above
