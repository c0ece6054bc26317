"""Bounds from both sides of powers of a fraction, to any precision."""

from __future__ import annotations

from fractions import Fraction

_SPARE = 4


def power_bounds(base: Fraction, exponent: int, bits: int) -> tuple[int, int]:
    """Return whole numbers ``(low, high)`` with ``low <= 2^bits base^exponent <= high`` and ``high - low <= 2``.

    Repeated squaring in fixed point: lower bounds are only ever rounded down, upper bounds up. A product of numbers
    from [0, 1] whose bounds are d and e units apart has bounds at most d + e + 2 units apart (one unit for each of the
    two roundings). Hence, by induction, bounds of base^k are at most 3k - 2 units apart, and 2 + log2(exponent) spare
    bits make that less than one unit of the result; rounding outward to the result's own unit adds less than one. The
    base is from 0 to 1, the exponent at least 0.

    >>> power_bounds(Fraction(1, 2), 10, 12), power_bounds(Fraction(2, 3), 10**6, 64)
    ((4, 4), (0, 1))
    """
    work = bits + exponent.bit_length() + _SPARE
    one = 1 << work
    base_low = (base.numerator << work) // base.denominator
    base_high = -((-base.numerator << work) // base.denominator)
    low = high = one
    # Invariant: low <= 2^work base^e <= high, e the number that the bits read so far spell.
    for digit in bin(exponent)[2:] if exponent else "":
        low, high = (low * low) >> work, -((-high * high) >> work)
        if digit == "1":
            low, high = (low * base_low) >> work, -((-high * base_high) >> work)
    drop = work - bits
    return low >> drop, -((-high) >> drop)
