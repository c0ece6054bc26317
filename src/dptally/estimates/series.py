"""Running totals, increments and windows of a series, with intervals, from the noisy numbers of published keys.

B y = A x + B z: the error of any linear question is a known combination of Gaussian noise, rounded to steps of a grid.
For weights r of the noise z the error is below sigma ||r|| q + (|r_1| + |r_2| + ..) / 2 with q the quantile of the
Gaussian law, and half a count for the rounding of what is released.

The intervals are for a key that is asked for beforehand. A key that was published only because its noise was high has a
total that is too high: among keys that barely passed their threshold, intervals of the first periods fail more often.
"""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from dptally.estimates.frequencies import as_confidence

if TYPE_CHECKING:
    from dptally.laws.series import SeriesLaw

__all__ = ["half_width", "window_totals"]


def window_totals(law: SeriesLaw, y: NDArray[np.int64], first: int, last: int) -> NDArray[np.float64]:
    """Estimates of what each key got from period `first` to `last`, both included, from 1 on."""
    weights = _weights(law, first, last)
    found = np.zeros(len(y))
    for place in range(last):  # term by term, so that a key's number does not depend on how many others there are
        found += weights[place] * y[:, place]
    return found


def half_width(
    law: SeriesLaw, first: int, last: int, confidence: object, *, keys: int = 1, less: int | None = None
) -> int:
    """How far such an estimate, rounded to whole counts, is from the truth at most, with this confidence.

    For all of `keys` keys at once, where there are several; for the difference to the period `less` where one is given.
    """
    weights = _weights(law, first, last)
    if less is not None:
        other = _weights(law, less, less)
        weights = np.pad(weights, (0, max(0, less - last))) - np.pad(other, (0, max(0, last - less)))
    share = float(1 - as_confidence(confidence)) / (2 * max(1, keys))
    spread = float(law.sigma) * math.sqrt(float(weights @ weights))
    return math.ceil(spread * -NormalDist().inv_cdf(share) + float(np.abs(weights).sum()) / 2 + 0.5)


def _weights(law: SeriesLaw, first: int, last: int) -> NDArray[np.float64]:
    """Of y_1 .. y_last in the estimate: row `last` of B less row `first` - 1."""
    weights = law.totals[:last][::-1].copy()
    weights[: first - 1] -= law.totals[: first - 1][::-1]
    return weights
