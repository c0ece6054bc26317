"""Bounds of a probability from how often something happened, right with a stated probability [CP34]."""

from __future__ import annotations

import math

from flint import arb

from dptally.verifiers.gaussian import working_precision

__all__ = ["probability_at_least", "probability_at_most"]

_NEAR = 1e-10
_DEVIATIONS = 7
_BITS = 96


def probability_at_least(hits: int, runs: int, alpha: float) -> float:
    """A number that exceeds the true probability with probability `alpha` at most: the lower Clopper-Pearson bound.

    The largest p, up to one part in 10^10, for which `hits` or more of `runs` independent runs have probability
    `alpha` at most. That probability is a regularised incomplete beta function, enclosed by a ball; a p is taken only
    if the whole ball is below `alpha`, so rounding goes to the safe side.

    >>> round(probability_at_least(90, 100, 0.05), 4), probability_at_least(0, 100, 0.05)
    (0.8363, 0.0)
    """
    if hits <= 0:
        return 0.0
    with working_precision(_BITS):

        def safe(p: float) -> bool:
            return bool(arb(p).beta_lower(arb(hits), arb(runs - hits + 1), 1) <= arb(alpha))

        high = hits / runs
        # Where to begin: any safe p will do.
        low = max(0.0, high - _DEVIATIONS * math.sqrt(high * (1 - high) / runs))
        if not safe(low):
            low = 0.0
        while high - low > _NEAR * high:  # invariant: `low` is safe
            middle = (low + high) / 2
            low, high = (middle, high) if safe(middle) else (low, middle)
    return low


def probability_at_most(hits: int, runs: int, alpha: float) -> float:
    """A number that is below the true probability with probability `alpha` at most: the upper bound.

    >>> round(probability_at_most(0, 100, 0.05), 4)
    0.0295
    """
    return 1.0 - probability_at_least(runs - hits, runs, alpha)
