"""Taking rows with an irrational probability, exactly.

Inclusion probabilities such as 1 - e^-x are compared with a uniform number that is drawn digit by digit, only as far as
needed: leading binary digits are held against rational bounds of q, and where those cannot tell, more digits are drawn
and the bounds tightened. What is taken therefore has probability exactly q, for uniform bits.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from functools import partial

import numpy as np
from numpy.typing import NDArray

from dptally.laws.sampling_schemes import Ppswor
from dptally.randomness import BitSource

Bounds = Callable[[int], tuple[Fraction, Fraction]]

_WORD = 64
_BYTE = 8


def _between(bounds: Bounds, digits: int) -> tuple[int, int]:
    """Integers low and high with low <= 2^digits q <= high, at most 2 apart."""
    low, high = bounds(digits + 16)
    one = 1 << digits
    return max(0, math.floor(low * one)), min(one, math.ceil(high * one))


def _settle(bounds: Bounds, prefix: int, digits: int, bits: BitSource) -> bool:
    """Go on with a comparison that `digits` digits left undecided.

    Postcondition: for a uniform number that starts with the digits `prefix`, whether it is below q. Each further word
    decides with a chance of at least 1 - 2^-63, unless q is 0 or 1 up to there; those cannot reach this place.
    """
    while True:
        prefix, digits = prefix << _WORD | int(bits.words(1)[0]), digits + _WORD
        low, high = _between(bounds, digits)
        # The number lies in [prefix, prefix + 1) / 2^digits.
        if prefix < low:
            return True
        if prefix >= high:
            return False


def _compare(words: NDArray[np.uint64], low: int, high: int) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Which words are surely below q, and which cannot be told, for low <= 2^64 q <= high."""
    # Against the last word below, since 2^64 does not fit into a word; 0 has none.
    below = words <= np.uint64(low - 1) if low else np.zeros(len(words), dtype=bool)
    possible = words <= np.uint64(high - 1) if high else np.zeros(len(words), dtype=bool)
    return below, possible & ~below


class RowHits:
    """Draws which rows hit, each independently with probability exactly q_1 of the scheme.

    The first eight digits decide nearly every row; where they do not, 64 more are drawn, and so on.
    """

    def __init__(self, scheme: Ppswor, bits: BitSource) -> None:
        self._bits = bits
        self._bounds: Bounds = partial(scheme.bounds, 1)
        self._first = _between(self._bounds, _BYTE)
        self._second = _between(self._bounds, _BYTE + _WORD)

    def expected(self, rows: int) -> int:
        """About how many of so many rows hit."""
        return rows * self._second[1] >> (_BYTE + _WORD)

    def draw(self, rows: int) -> NDArray[np.int64]:
        """Return which of `rows` rows hit, in order."""
        digits = self._bits.words(-(-rows // 8)).view(np.uint8)[:rows]
        low, high = self._first
        found = np.flatnonzero(digits < high) if high < 1 << _BYTE else np.arange(rows)
        leading = digits[found]
        hits = leading < low
        undecided = np.flatnonzero(~hits)
        words = self._bits.words(len(undecided))
        for digit in range(low, high):
            # These rows start with `digit`: what is left to compare are the digits after it.
            places = np.flatnonzero(leading[undecided] == digit)
            bounds = (min(max(bound - (digit << _WORD), 0), 1 << _WORD) for bound in self._second)
            below, still = _compare(words[places], *bounds)
            for place in np.flatnonzero(still).tolist():
                prefix = digit << _WORD | int(words[places[place]])
                below[place] = _settle(self._bounds, prefix, _BYTE + _WORD, self._bits)
            hits[undecided[places]] = below
        return found[hits]
