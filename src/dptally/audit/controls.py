"""Positive controls: releases that exceed a claim, which an audit must find.

An audit that finds nothing shows little unless it is known to find something. A control is an ordinary law, verified
and released as any other, but made for more than is claimed: for twice epsilon, or for four times delta. Only the claim
that it is held against is wrong. Nothing here changes a law or a verifier; faults in those are injected by the tests.
"""

from __future__ import annotations

from fractions import Fraction

__all__ = ["DELTA_TIMES_4", "EPSILON_TIMES_2", "made_for"]

DELTA_TIMES_4 = "delta x 4"
EPSILON_TIMES_2 = "epsilon x 2"


def made_for(epsilon: Fraction, delta: Fraction, control: str) -> tuple[Fraction, Fraction]:
    """The epsilon and delta that a law is made for, where the given ones are claimed."""
    if control == EPSILON_TIMES_2:
        return 2 * epsilon, delta
    if control == DELTA_TIMES_4:
        return epsilon, min(4 * delta, Fraction(9, 10))
    return epsilon, delta
