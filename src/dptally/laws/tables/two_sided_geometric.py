"""Noise on whole numbers whose masses shrink by one factor with every step away from 0, as a table of integers."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import accumulate

from dptally.errors import InvalidParameter
from dptally.exact import exp_bounds
from dptally.exact.powers import power_bounds
from dptally.exact.searching import first_where
from dptally.laws.thresholded_noise import ENTRY_BYTES

_WHOLE = 1 << 8 * ENTRY_BYTES
_SPARE_BITS = 64  # the noise is cut where its tail is below 2^-64 of delta
_PRECISION = 256  # of e^epsilon, from below
LARGEST_REACH = 1 << 21  # of the noise; 64 MB of thresholds


def noise_masses(epsilon: Fraction, delta: Fraction) -> list[int]:
    """`two_sided_masses` that shrink by e^epsilon, rounded down, and end where the tail is below 2^-64 delta."""
    return two_sided_masses(exp_bounds(epsilon, _PRECISION)[0], reach_of_noise(epsilon, delta))


def reach_of_noise(epsilon: Fraction, delta: Fraction) -> int:
    """Where noise that shrinks by e^epsilon per step has a tail below 2^-64 of delta."""
    # 0.7 > ln 2, so e^(-epsilon R) < 2^-64 delta.
    halvings = _SPARE_BITS + (math.ceil(1 / delta) - 1).bit_length()
    reach = math.ceil(Fraction(7 * halvings, 10) / epsilon)
    if reach > LARGEST_REACH:
        raise InvalidParameter(
            f"epsilon is too small: the noise would have more than {2 * LARGEST_REACH} values, "
            f"and no key below {float(Fraction(7 * (halvings - _SPARE_BITS), 10) / epsilon):.2g} occurrences would be "
            "likely to be reported."
        )
    return reach


def two_sided_masses(growth: Fraction, reach: int) -> list[int]:
    """P[Z = 0], P[Z = 1], ..., P[Z = R] in units of 2^-128; Z is symmetric and the units add up to 2^128.

    With a = `growth` > 1, the masses are made from 1 outward and the middle last:

        m_z = ceil(m_{z-1} / a) for z = 2 .. R,  m_0 = 2^128 - 2 (m_1 + ... + m_R),

    with m_1 the smallest number for which m_0 <= a m_1. Rounding up gives m_{z-1} <= a m_z, and m_z <= m_{z-1}; so no
    mass exceeds a times a neighbour's and rounding costs nothing: where noise is added to counts, pairs of rows differ
    by m_R at the end of the support alone.
    """
    top, one = growth.numerator, growth.denominator

    def outward(first: int) -> list[int]:
        masses = [first]
        for _ in range(reach - 1):
            masses.append(-(-masses[-1] * one // top))
        return masses

    # Without rounding, m_0 + 2 (m_1 + ...) = m_1 slope; rounding adds less than 2R / (1 - 1/a). This gives a bracket.
    shrink = one / Fraction(top)
    slope = growth + 2 * (1 - Fraction(power_bounds(shrink, reach, 512)[1], 1 << 512)) / (1 - shrink)
    above = math.floor(_WHOLE / slope) + 2
    below = max(1, above - math.ceil((2 * reach / (1 - shrink) + 2) / slope) - 4)
    sides = outward(first_where(lambda m: top * m // one + 2 * sum(outward(m)) >= _WHOLE, below, above))
    return [_WHOLE - 2 * sum(sides), *sides]


def noise_table(half: list[int]) -> bytes:
    """P[D <= d] for d = 0 .. 2R-1 in units of 2^-128, where D = R - Z, as little-endian 128-bit integers."""
    masses = [*reversed(half), *half[1:-1]]  # of D = 0 .. 2R-1; the last one is what is missing
    return b"".join(reached.to_bytes(ENTRY_BYTES, "little") for reached in accumulate(masses))
