"""Binomial probabilities as exact fractions where they are short, and to 256 binary digits where they are not."""

from __future__ import annotations

from fractions import Fraction

_DIGITS = 256
_WORK = 512


def binomial_row(trials: int, rate: Fraction) -> tuple[list[int], int]:
    """P[B = v] for v = 0 .. trials, exactly: whole numbers, and what they are to be divided by."""
    p, s, whole = rate.numerator, rate.denominator - rate.numerator, rate.denominator**trials
    masses = [s**trials]
    for v in range(trials):
        masses.append(masses[-1] * (trials - v) * p // ((v + 1) * s))  # divides without remainder
    return masses, whole


def binomial_at_least(trials: int, hits: int, rate: Fraction) -> Fraction:
    """P[B >= hits] for any number of trials, within 2^-250.

    The tail that does not hold the mean is summed from its largest term outwards: terms fall ever faster, and end when
    they are below 2^-512.
    """
    if hits <= 0:
        return Fraction(1)
    if hits > trials:
        return Fraction(0)
    p, s = rate.numerator, rate.denominator - rate.numerator
    upper = hits * rate.denominator > trials * p
    at = hits if upper else hits - 1
    term = total = _mass(trials, at, rate)
    while term and 0 <= at <= trials:
        if upper:
            factor, divisor = (trials - at) * p, (at + 1) * s
            at += 1
        else:
            factor, divisor = at * s, (trials - at + 1) * p
            at -= 1
        term = term * factor // divisor
        total += term
    total >>= _WORK - _DIGITS
    tail = Fraction(min(total, 1 << _DIGITS), 1 << _DIGITS)
    return tail if upper else 1 - tail


def _mass(trials: int, hits: int, rate: Fraction) -> int:
    """P[B = hits] in units of 2^-512: a product of numbers with 640 digits each."""
    p, s, whole = rate.numerator, rate.denominator - rate.numerator, rate.denominator
    few = min(hits, trials - hits)
    mantissa, exponent = _power(p, whole, hits)
    other, more = _power(s, whole, trials - hits)
    mantissa, exponent = _trim(mantissa * other, exponent + more)
    for i in range(1, few + 1):
        mantissa, exponent = _trim(mantissa * (trials - few + i) // i, exponent)
    shift = exponent + _WORK
    return mantissa << shift if shift >= 0 else mantissa >> -shift


def _power(numerator: int, denominator: int, exponent: int) -> tuple[int, int]:
    """(numerator / denominator)^exponent as mantissa and binary exponent."""
    base = (numerator << 700) // denominator
    result, shift = 1 << 640, -640
    for digit in f"{exponent:b}":
        result, shift = _trim(result * result, 2 * shift)
        if digit == "1":
            result, shift = _trim(result * base, shift - 700)
    return result, shift


def _trim(mantissa: int, exponent: int) -> tuple[int, int]:
    excess = mantissa.bit_length() - 640
    return (mantissa >> excess if excess > 0 else mantissa << -excess), exponent + excess
