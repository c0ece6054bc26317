"""Rational bounds of the exponential from both sides, to any precision.

Fixed-point integers with directed rounding: every lower bound is only ever rounded down, every upper bound only ever
up, so the bounds hold whatever the precision; precision decides how close they are.
"""

from __future__ import annotations

from fractions import Fraction


def exp_bounds(exponent: Fraction, bits: int) -> tuple[Fraction, Fraction]:
    """Return rational numbers below and above e^exponent, dyadic when the exponent is not negative.

    The exponent is halved until it is at most 1/2, the Taylor polynomial is summed with a geometric bound of its
    remainder, and the result is squared back. Postcondition: ``low <= e^exponent <= high`` and ``high / low <= 1 +
    2^-bits``, for bits of at least 1.

    >>> low, high = exp_bounds(Fraction(1), 30)
    >>> low < high and float(low), float(high - low) < 3 * 2**-30
    (2.718281828459045, True)
    """
    if exponent < 0:
        below, above = exp_bounds(-exponent, bits)
        return 1 / above, 1 / below
    halvings = 0
    while exponent * 2 > 2**halvings:
        halvings += 1
    # Each squaring doubles the relative width; what the sum starts with is a few units in the last place.
    scale = bits + 2 * halvings + 24
    reduced = exponent / 2**halvings
    low, high = _taylor(reduced, scale)
    one = 1 << scale
    for _ in range(halvings):
        low = (low * low) >> scale
        high = -((-high * high) >> scale)
    return Fraction(low, one), Fraction(high, one)


def _taylor(exponent: Fraction, scale: int) -> tuple[int, int]:
    """Bounds of 2^scale e^exponent for 0 <= exponent <= 1/2."""
    low_exponent = (exponent.numerator << scale) // exponent.denominator
    high_exponent = -((-exponent.numerator << scale) // exponent.denominator)
    low = high = low_term = high_term = 1 << scale
    order = 0
    # Invariant: low_term <= 2^scale exponent^order / order! <= high_term, and low, high bound the sum up to order.
    while high_term > 1:
        order += 1
        low_term = (low_term * low_exponent >> scale) // order
        high_term = -((-high_term * high_exponent >> scale) // order)
        low += low_term
        high += high_term
    # The terms left out are at most the last one times 1/2 + 1/4 + ...
    return low, high + high_term
