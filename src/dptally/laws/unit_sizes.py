"""Released numbers of units by how many keys they have: the bins, what is more than noise, and which share is kept.

Everything here is public: only what was released of sizes enters.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

__all__ = ["SIZES", "kept_share", "likely_units"]

SIZES = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512)
"""Upper ends of the bins of unit sizes; the last bin has all larger units, too."""
_NOISE, _SURELY = 2.0, 4.0  # deviations up to which a tail of bins counts as empty


def likely_units(counts: Sequence[int], deviation: float, *, surely: bool = False) -> NDArray[np.float64]:
    """Units by size, about: the largest bin is the last from which on more units are counted than noise explains.

    Single bins of large sizes would be taken for units where they are noise; whole tails are not. With `surely`, noise
    is hardly ever taken for units of large sizes, for which all others would pay.
    """
    noisy = np.array(counts, dtype=np.float64)
    tails = np.cumsum(noisy[::-1])[::-1]
    expected = deviation * np.sqrt(np.arange(len(noisy), 0, -1))
    beyond = np.flatnonzero(tails > (_SURELY if surely else _NOISE) * expected)
    units = np.zeros(len(noisy))
    if len(beyond):
        last = int(beyond[-1])
        units[:last] = np.maximum(noisy[:last], 0)
        units[last] = tails[last]
    return units


def kept_share(counts: Sequence[int], deviation: float, kept: int) -> float | None:
    """About which share of all pairs of unit and key counts, if a unit keeps at most so many; None if noise is all.

    Units have as many keys as their bin ends with.

    >>> kept_share([0, 1000, 0, 0, 0, 500, *[0] * 12], 1.0, kept=4)
    0.6666666666666666
    """
    units, sizes = likely_units(counts, deviation, surely=True), np.array(SIZES[: len(counts)])
    return float(units @ np.minimum(sizes, kept) / (units @ sizes)) if units.any() else None
