"""Uniform real numbers whose bits are drawn only as far as a question about them needs.

A uniform number on [0, 1) is an endless string of coin flips. Comparing it with a real threshold needs, but for a
chance of about 2^-63, no more than its first 64 bits and a 64-bit lower bound of the threshold. Where these do not
decide, more bits of the *same* number are drawn and the threshold is bounded more closely, until they do. What is
returned therefore follows the exact law of an infinitely precise comparison, and no floating-point number takes part.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from dptally.randomness.bits import BitSource

_WORD = 64


class Thresholds:
    """Real numbers t_0 <= t_1 <= ... in [0, 1], and where independent uniform numbers fall between them.

    Args:
        bounds: given i and k, whole numbers low <= 2^k t_i <= high whose distance does not grow with k.
        lows: for each threshold a whole number f with f <= 2^64 t <= f + 2, in the order of the thresholds.
    """

    def __init__(self, bounds: Callable[[int, int], tuple[int, int]], lows: list[int]) -> None:
        # 2^64 itself has no place in a word; 2^64 - 1 is within the two units that are allowed.
        self._lows: NDArray[np.uint64] = np.array([min(low, (1 << _WORD) - 1) for low in lows], dtype=np.uint64)
        self._bounds = bounds

    def __len__(self) -> int:
        return len(self._lows)

    def draw(self, count: int, bits: BitSource) -> NDArray[np.int64]:
        """For `count` independent uniform numbers U on [0, 1): how many thresholds are at most U.

        Postcondition: for uniform words the results are independent and P[result >= i + 1] = 1 - t_i exactly.
        """
        words = bits.words(count)
        # f > w means t >= (w + 1) / 2^64 > U: not at most U. Those with f <= w - 2 are at most U. f = w - 1 and f = w
        # leave it open.
        places = np.searchsorted(self._lows, words, side="right")
        if len(self._lows):
            below = self._lows[np.maximum(places, 1) - 1]
            for at in np.flatnonzero((places > 0) & (words - below <= np.uint64(1))):
                places[at] = self._refine(int(words[at]), int(places[at]), bits)
        return places

    def _refine(self, known: int, place: int, bits: BitSource) -> int:
        """How many of the first `place` thresholds are at most the number that starts with the 64 bits `known`."""
        length = _WORD
        while place:
            low, high = self._bounds(place - 1, length)
            if known >= high:
                return place
            if known + 1 <= low:
                place -= 1
            else:
                known = known << _WORD | int(bits.words(1)[0])
                length += _WORD
        return 0
