"""Two-sided geometric noise over a power of two, drawn from a fixed number of bits."""

from __future__ import annotations

import math
from bisect import bisect_right
from fractions import Fraction
from functools import cached_property
from itertools import accumulate, pairwise

from dptally.exact import as_count, exp_bounds

_WORD = 64
_LARGEST_BOUND = 1 << 12


class FixedBitsNoise:
    """Symmetric noise Z on -bound .. bound, where +-bound stands for all that is beyond: masses over 2^D.

    With rational a <= e^epsilon the masses are m_z = ceil(m_(z-1) / a) from m_1 outward, the last, which is all that
    reaches `bound`, ceil(m_(bound-1) / (a - 1)), and m_0 what is left. Then m_(z-1) <= a m_z and t_(z-1) <= a t_z by
    induction from the end. m_1 is rounded up from its value without any rounding, so m_0 <= a m_1. The length D leaves
    64 bits for the smallest mass, which is what the roundings cost. `dptally.verifiers.pure` checks all of it. Epsilon
    is that of one count; the bound, the largest count and value, is up to 4096.
    """

    def __init__(self, epsilon: Fraction, bound: int) -> None:
        self.bound = as_count("bound", bound, largest=_LARGEST_BOUND)
        growth, _ = exp_bounds(epsilon, 128)
        self.length = 2 * _WORD + math.ceil(Fraction(3, 2) * epsilon * bound)
        shrink = 1 / growth
        masses = [math.ceil((1 << self.length) * (1 - shrink) * shrink / (1 + shrink)) + 1]
        for _ in range(bound - 2):
            masses.append(math.ceil(masses[-1] * shrink))
        # For bound = 1 all that is not 0 is in the last mass: 2^D / (1 + a).
        last = math.ceil(masses[-1] / (growth - 1)) if bound > 1 else math.ceil((1 << self.length) / (1 + growth))
        outward = [*masses, last] if bound > 1 else [last]
        beyond = list(accumulate(reversed(outward)))[::-1]
        self.tails: list[int] = [(1 << self.length) - beyond[0], *beyond]  # P[Z >= z], z = 0 .. bound, times 2^D

    @cached_property
    def masses(self) -> list[int]:
        """2^D P[Z = z] for z = bound, ..., 0, ..., -bound."""
        outward = [here - there for here, there in pairwise([*self.tails[1:], 0])]
        return [*reversed(outward), (1 << self.length) - 2 * self.tails[1], *outward]

    @cached_property
    def _cumulative(self) -> list[int]:
        below = list(reversed(self.tails[1:]))  # P[Z <= -bound], ..., P[Z <= -1]
        return below + [(1 << self.length) - tail for tail in self.tails[1:]]  # P[Z <= 0], ..., P[Z <= bound - 1]

    def from_uniform(self, uniform: int) -> int:
        """Z from a uniform number below 2^D: how many of P[Z <= z], z = -bound .. bound - 1, are at most it."""
        return bisect_right(self._cumulative, uniform) - self.bound

    def tail_bounds(self, value: int, bits: int) -> tuple[int, int]:
        """Bounds of 2^bits P[Z >= value] for value >= 0, at most 1 apart."""
        scaled = (self.tails[value] if value <= self.bound else 0) << bits
        return scaled >> self.length, -(-scaled >> self.length)
