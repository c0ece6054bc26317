"""Builders of the optimal table for a histogram, in integers.

In what follows N = 2^128, a <= e^epsilon is rational, Delta = floor(N delta), and P_i / N is the probability that a key
of frequency i is reported. Both builders return P_1, P_2, ..., P_{W-1}, the entries below N, as the sampler wants them:
with D the number of entries that are at most a uniform u in 0 .. N-1, the key is reported when i - D is positive.
"""

from __future__ import annotations

import math
from fractions import Fraction

from dptally.errors import InvalidParameter
from dptally.exact import exp_bounds

__all__ = ["LARGEST_TABLE", "build_table", "key_thresholds", "value_thresholds"]

_BITS = 128
_WHOLE = 1 << _BITS
_GROWTH_BITS = 256
LARGEST_TABLE = 1 << 22  # rows; 64 MB of thresholds


def build_table(epsilon: Fraction, delta: Fraction, *, values: bool) -> bytes:
    """Thresholds of the optimal law as little-endian 128-bit integers.

    Raises:
        InvalidParameter: if the table would be too long, foreseen from its length 2 ceil(L) + 1 without building it.
    """
    rate, chance = float(epsilon), float(delta)
    turn = math.log((math.expm1(rate) + 2 * chance) / (chance * (math.expm1(rate) + 2))) / rate
    if 2 * turn > LARGEST_TABLE:
        raise InvalidParameter(
            f"epsilon is too small: the table of the law would need more than {LARGEST_TABLE} rows, "
            f"and no key below {turn:.2g} occurrences would be likely to be reported."
        )
    thresholds = value_thresholds(epsilon, delta) if values else key_thresholds(epsilon, delta)
    return b"".join(threshold.to_bytes(_BITS // 8, "little") for threshold in thresholds)


def key_thresholds(epsilon: Fraction, delta: Fraction) -> list[int]:
    """Algorithm 3 of [CGSS21] for q = 1, rounded down: the largest P_i that the row before allows.

        P_i = min(N, floor(a P_{i-1}) + Delta, N - ceil((N - P_{i-1} - Delta) / a)),  P_0 = 0.

    The second term is the constraint that a reported key must not betray the unit, the third that a missing key must
    not. Rounding down keeps both.
    """
    growth, shift = _growth(epsilon)
    slack = _slack(delta)
    thresholds: list[int] = []
    reached = 0
    while True:
        missing = _WHOLE - reached - slack
        if missing <= 0:
            return thresholds
        reached = min(((growth * reached) >> shift) + slack, _WHOLE + ((-missing << shift) // growth))
        if reached >= _WHOLE:
            return thresholds
        thresholds.append(reached)


def value_thresholds(epsilon: Fraction, delta: Fraction) -> list[int]:
    """The same law with values, G_i(j) = P_{i-j}: report w - D if positive, P[D = d] = (P_{d+1} - P_d) / N.

    With real numbers the thresholds of Algorithm 3 serve as they are (Algorithm 4 of [CGSS21] for q = 1, any L). With
    integers, the masses p_d = P_{d+1} - P_d must themselves not grow faster than by a factor a, nor fall faster:

    - on the way up p_d = floor(a p_{d-1}), p_0 = Delta, so that only value w itself exceeds, by exactly Delta;
    - on the way down the missing mass falls as in Algorithm 3, run with a Delta smaller by a few units per row, because
      each p_d - a p_{d+1} may exceed 0 by less than a through rounding.

    What is lost is below 2^-60 in every reporting probability.
    """
    width = len(key_thresholds(epsilon, delta)) + 1
    growth, shift = _growth(epsilon)
    slack = _slack(delta)
    slack_down = slack - 2 * ((growth >> shift) + 1) * (width + 8)
    if slack_down <= 0:
        raise InvalidParameter("epsilon is too large for so small a delta: the table would need more than 128 bits.")
    thresholds: list[int] = []
    reached = 0
    step = slack
    while True:
        missing = _WHOLE - reached - slack_down
        if missing <= 0:
            return thresholds
        following = min(reached + step, _WHOLE + ((-missing << shift) // growth))
        if following >= _WHOLE:
            return thresholds
        step = (growth * (following - reached)) >> shift
        reached = following
        thresholds.append(reached)


def _growth(epsilon: Fraction) -> tuple[int, int]:
    """Integers g, s with g / 2^s <= e^epsilon."""
    low, _ = exp_bounds(epsilon, _GROWTH_BITS)
    shift = _GROWTH_BITS
    return (low.numerator << shift) // low.denominator, shift


def _slack(delta: Fraction) -> int:
    return (delta.numerator << _BITS) // delta.denominator
