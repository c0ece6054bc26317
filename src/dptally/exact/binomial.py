"""Binomial probabilities as exact fractions where they are short, and to 256 binary digits where they are not."""

from __future__ import annotations

import math
from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal, localcontext
from fractions import Fraction

_DIGITS = 256
_WORK = 512
_LONG = Context(prec=180, Emin=MIN_EMIN, Emax=MAX_EMAX, traps=[])


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
    """P[B = hits] in units of 2^-512: a product of numbers with 180 decimal digits each."""
    with localcontext(_LONG):
        chance = Decimal(rate.numerator) / rate.denominator
        mass = chance**hits * (1 - chance) ** (trials - hits)
        few = min(hits, trials - hits)
        for i in range(0, few, 8):
            step = range(i + 1, min(i + 8, few) + 1)
            mass = mass * math.prod(trials - few + j for j in step) / math.prod(step)
        return int(mass * (1 << _WORK))
