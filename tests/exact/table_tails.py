"""Order statistics of any law, to compare with: one that is given by a table of its upper tail."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from dptally.randomness import BitSource
from dptally.randomness.lazy_uniforms import Thresholds


class TableTail:
    """A law given by a table of its upper tail.

    Args:
        tail: G(1) >= G(2) >= ... >= G(k) as whole numbers in units of 2^-length; G(k + 1) = 0.
        length: of the unit.
    """

    def __init__(self, tail: Sequence[int], length: int = 128) -> None:
        self._rising = list(reversed(tail))
        self._length = length

    def draw_between(self, low: Fraction, high: Fraction, count: int, bits: BitSource) -> NDArray[np.int64]:
        """Draw max {v : W < G(v)} for `count` independent W, uniform on [low, high), exactly."""
        unit = Fraction(1, 1 << self._length)
        first = bisect_left(self._rising, low / unit)  # tails below this one are at most W whatever W is
        last = bisect_left(self._rising, high / unit)  # tails from this one on are above W whatever W is
        places = [(tail * unit - low) / (high - low) for tail in self._rising[first:last]]

        def bounds(place: int, precision: int) -> tuple[int, int]:
            scaled = places[place] * (1 << precision)
            return scaled.numerator // scaled.denominator, -(-scaled.numerator // scaled.denominator)

        at_most = Thresholds(bounds, [bounds(place, 64)[0] for place in range(len(places))])
        return len(self._rising) - first - at_most.draw(count, bits)
