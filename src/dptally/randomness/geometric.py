"""Exact geometric numbers in bulk: integers and lazily drawn bits only."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from dptally.exact.powers import power_bounds
from dptally.randomness.bits import BitSource
from dptally.randomness.lazy_uniforms import Thresholds

LARGEST = 1 << 62
_WORD = 64
_WORK = 192  # binary places while tables are made
_LONGEST = 4096  # a table that still fits the fastest cache


class Geometric:
    """G on 0, 1, 2, ... with P[G >= g] = r^g, cut off at 2^62.

    With a step s, G = s H + L where H and L are independent, P[H >= h] = r^(s h), and L on 0 .. s - 1 has
    P[L >= l] = (r^l - r^s) / (1 - r^s): the masses multiply to (1 - r) r^(s h + l). So two tables of about sqrt(11 /
    epsilon) entries serve where one would be long. The table of H ends where about 2^-16 of the mass is left; whoever
    reaches its end draws again and adds, since H beyond the end is distributed as H itself.

    Args:
        ratio: r, above 0 and below 1, with P[G >= 1] at least 2^-64 and at most 1 - 2^-64.
    """

    def __init__(self, ratio: Fraction) -> None:
        self.ratio = ratio
        steps = math.ceil(16 * math.log(2) / -math.log1p(float(ratio - 1)))  # only a choice: any number will do
        self._step = 1 if steps <= _LONGEST else 1 << (steps.bit_length() // 2)
        missing = _missing(ratio, self._step, -(-steps // self._step))
        self._upper = Thresholds(self._upper_bounds, [low >> (_WORK - _WORD) for low, _ in missing])
        self._lower = Thresholds(self._lower_bounds, self._lower_lows())

    def draw(self, count: int, bits: BitSource) -> NDArray[np.int64]:
        """Draw `count` times.

        Postcondition: for uniform words the results are independent, and P[result >= g] = r^g for g <= 2^62, exactly.
        """
        total = np.zeros(count, dtype=np.int64)
        going: NDArray[np.intp] | slice = slice(None)
        left = count
        while left:
            drawn = self._upper.draw(left, bits)
            total[going] = np.minimum(total[going] + drawn * self._step, LARGEST)
            more = np.flatnonzero(drawn == len(self._upper))
            going = more if isinstance(going, slice) else going[more]
            left = len(more)
        if self._step > 1:
            total = np.minimum(total + self._lower.draw(count, bits), LARGEST)
        return total

    # The tables hold 1 - P[H >= h] for h = 1, 2, ... and 1 - P[L >= l] for l = 1 .. s - 1.

    def _upper_bounds(self, place: int, bits: int) -> tuple[int, int]:
        low, high = power_bounds(self.ratio, self._step * (place + 1), bits)
        return (1 << bits) - high, (1 << bits) - low

    def _lower_bounds(self, place: int, bits: int) -> tuple[int, int]:
        # (1 - r^l) / (1 - r^s) >= 1 / s, so that both have few leading zeros.
        work = bits + self._step.bit_length() + 8
        some_low, some_high = power_bounds(self.ratio, place + 1, work + 2 * _WORD)
        all_low, all_high = power_bounds(self.ratio, self._step, work + 2 * _WORD)
        one = 1 << (work + 2 * _WORD)
        return ((one - some_high) << bits) // (one - all_low), -((-(one - some_low) << bits) // (one - all_high))

    def _lower_lows(self) -> list[int]:
        missing = _missing(self.ratio, 1, self._step)
        _, whole = missing[-1]
        return [(low << _WORD) // whole for low, _ in missing[:-1]]


def _missing(ratio: Fraction, step: int, count: int) -> list[tuple[int, int]]:
    """Bounds of 2^192 (1 - r^(step k)) for k = 1 .. count, at most 3 k + 2 units apart."""
    one = 1 << _WORK
    factor_low, factor_high = power_bounds(ratio, step, _WORK)
    low = high = one
    found = []
    for _ in range(count):
        low, high = low * factor_low >> _WORK, -(-high * factor_high >> _WORK)
        found.append((one - high, one - low))
    return found
