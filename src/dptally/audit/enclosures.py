"""Rational bounds of the exponential for audits, from the balls of FLINT, not from the series of laws and verifiers."""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache

from flint import arb, fmpq

from dptally.verifiers.gaussian import working_precision

__all__ = ["PRECISION", "ball", "ends", "exponential"]

PRECISION = 768  # bits: more than any builder or verifier has, so that a tie they settled is settled the same way here


def ball(number: Fraction | int) -> arb:
    """A ball around a fraction."""
    exact = Fraction(number)
    return arb(fmpq(exact.numerator, exact.denominator))


def ends(found: arb) -> tuple[Fraction, Fraction]:
    """The two ends of a ball, as exact fractions."""
    return _exact(found.lower()), _exact(found.upper())


def _exact(point: arb) -> Fraction:
    mantissa, exponent = (int(part) for part in point.man_exp())
    return Fraction(mantissa) * Fraction(2) ** exponent


@lru_cache(maxsize=256)
def exponential(exponent: Fraction) -> tuple[Fraction, Fraction]:
    """A fraction below e^exponent and one above, within 2^-700 of it."""
    with working_precision(PRECISION):
        return ends(ball(exponent).exp())
