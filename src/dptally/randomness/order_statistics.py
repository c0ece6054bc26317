"""The largest of very many independent draws, without making the draws.

Let V_1, ..., V_m be independent draws from a law on 0, 1, 2, ... with upper tail G(v) = P[V >= v]. Each is a function
of a uniform number on [0, 1), V = max {v : W < G(v)}, which decreases in W. So the largest draws belong to the smallest
uniform numbers, and these can be had a cell at a time: the number of W below p is binomial (m, p), and given the number
they are independent and uniform on [0, p). With p a little above count / m that is all there is to do; in the rare case
of too few, the next cell [p, 2p) is opened, where the number is binomial (m - found, p / (1 - p)), and so on.

Why not spacings. The smallest of m uniform numbers can also be had from sums of exponential numbers, -ln(1 - W_(i)) =
E_1 / m + ... + E_i / (m - i + 1). That needs logarithms of random numbers, hence rounded ones, with an error bound for
a library's logarithm that no standard promises. One binomial number and a geometric one per draw need integers only.

References:
    [BV19, Prop. 6.6, Alg. 6.7 and 6.20], who draw a binomial number for every value of the law, exactly in time linear
    in m, or within a distance exponentially small in the number of draws in time quadratic in it. Same law here, m up
    to 2^128 and more, and time linear in `count`.
"""

from __future__ import annotations

from fractions import Fraction
from math import isqrt
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from dptally.randomness.binomial import draw_binomial
from dptally.randomness.bits import BitSource


class Tail(Protocol):
    """A law on 0, 1, 2, ... through its upper tail G(v) = P[V >= v]."""

    def draw_between(self, low: Fraction, high: Fraction, count: int, bits: BitSource) -> NDArray[np.int64]:
        """Draw max {v : W < G(v)} for `count` independent W, uniform on [low, high), exactly."""


def top_order_statistics(tail: Tail, draws: int, count: int, bits: BitSource) -> NDArray[np.int64]:
    """The min(count, draws) largest of `draws` independent draws from a law, in decreasing order.

    Postcondition: for uniform words the result has the joint law of the order statistics exactly.

    Cost:
        Expected time linear in `count` (and the time to sort); about count + 6 sqrt(count) + 12 draws from the tail.
    """
    wanted = min(count, draws)
    if not wanted:
        return np.empty(0, dtype=np.int64)
    low, high = Fraction(0), _first_cell(draws, wanted)
    found: list[NDArray[np.int64]] = []
    have = 0
    # Invariant: `have` of the uniform numbers are below `low`; their draws are found, and none above is larger.
    while have < wanted:
        inside = draws - have if high == 1 else draw_binomial(draws - have, (high - low) / (1 - low), bits)
        found.append(tail.draw_between(low, high, inside, bits))
        have += inside
        low, high = high, min(Fraction(1), 2 * high)
    return np.sort(np.concatenate(found))[::-1][:wanted]


def _first_cell(draws: int, wanted: int) -> Fraction:
    """Where the first cell ends: a multiple of a power of two that leaves too few with a chance of about 1e-9."""
    target = wanted + 6 * isqrt(wanted) + 12
    if 2 * target >= draws:
        return Fraction(1)
    length = draws.bit_length() + 32
    return Fraction(-(-(target << length) // draws), 1 << length)
