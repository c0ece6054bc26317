"""Builders of the optimal table for a histogram, in integers.

In what follows N = 2^128, a <= e^epsilon is rational, Delta = floor(N delta), and P_i / N is the probability that a key
of frequency i is reported. Tables are as the sampler wants them: numbers that do not fall, each below N, and what is
reported depends on how many of them are at most a uniform u in 0 .. N-1.

Without values the table is P_1, P_2, ..., P_{W-1}: a key of frequency i is reported unless i of them are at most u.

With values it is H_1, P_1, H_2, P_2, ..., where H_k / N is the probability that a key of any frequency i >= k has a
value above i + 1 - k. If c of these numbers are at most u, a key of frequency i is reported when c < 2i, and its value
is then i + 1 - ceil(c / 2).
"""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import zip_longest

from dptally.errors import InvalidParameter
from dptally.exact import exp_bounds

_BITS = 128
_WHOLE = 1 << _BITS
_GROWTH_BITS = 256
LARGEST_TABLE = 1 << 22  # rows; 64 MB of thresholds


def build_table(epsilon: Fraction, delta: Fraction, *, values: bool, centred: bool = True) -> bytes:
    """Thresholds of the optimal law as little-endian 128-bit integers."""
    rate, chance = float(epsilon), float(delta)
    turn = math.log((math.expm1(rate) + 2 * chance) / (chance * (math.expm1(rate) + 2))) / rate
    if 2 * turn > LARGEST_TABLE:
        raise InvalidParameter(
            f"epsilon is too small: the table of the law would need more than {LARGEST_TABLE} rows, "
            f"and no key below {turn:.2g} occurrences would be likely to be reported."
        )
    if values:
        thresholds = value_thresholds(epsilon, delta, first_tail(epsilon, delta) if centred else 0)
    else:
        thresholds = key_thresholds(epsilon, delta)
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


def value_thresholds(epsilon: Fraction, delta: Fraction, first: int) -> list[int]:
    """The same law with values: H_1, P_1, H_2, P_2, ...

    In real numbers both sequences follow the recursion of Algorithm 3,

        G -> min(1, a G + delta, 1 - (1 - G - delta) / a),

    P from P_0 = 0 and H from H_1 = `first`, anything from 0 to delta. A key of frequency i is reported with probability
    P_i and has a value above x >= 1 with probability H_{i+1-x}. Each x is one column of Algorithm 5 of [CGSS21] for
    q = 1, G_i(x') with x' = x - first / delta, and columns do not influence each other; so keys are reported as often
    as any mechanism can, whatever `first` is. With first = 0 one has H_{k+1} = P_k, and the value i - D with
    P[D = d] = P_{d+1} - P_d: Algorithm 4 for q = 1.

    With integers, masses must themselves not grow faster than by a factor a, nor fall faster:

    - on the way up h_k = H_{k+1} - H_k is floor(a h_{k-1}), so that only h_0 and h_1 exceed, together by Delta, and
      likewise for P. The mass of the value 1, P_i - H_i, may then exceed a times the one before by less than one unit
      per row, for which Delta is lowered in advance;
    - on the way down the missing mass falls as in Algorithm 3, run with a Delta smaller by a few units per row, because
      each h_k - a h_{k+1} may exceed 0 by less than a through rounding.

    What is lost is below 2^-60 in every reporting probability.
    """
    width = len(key_thresholds(epsilon, delta)) + 1
    growth, shift = _growth(epsilon)
    slack = _slack(delta)
    rise = slack - (width + 8) if first else slack
    fall = slack - 4 * ((growth >> shift) + 1) * (width + 8)
    if fall <= 0:
        raise InvalidParameter("epsilon is too large for so small a delta: the table would need more than 128 bits.")
    first = min(first, rise)

    def climb(start: int, second: int) -> list[int]:
        """From 0 over `start`: the step after it is `second`, later steps are as large as they may be."""
        reached, following, step, found = 0, start, second, []
        while following < _WHOLE:
            found.append(following)
            missing = _WHOLE - following - fall
            if missing <= 0:
                break
            reached, following = following, min(following + step, _WHOLE + ((-missing << shift) // growth))
            step = (growth * (following - reached)) >> shift
        return found

    reports = climb(rise, (growth * rise) >> shift)
    tails = climb(first, ((growth * first) >> shift) + rise - first)
    thresholds: list[int] = []
    largest = 0
    for tail, report in zip_longest(tails, reports, fillvalue=_WHOLE):
        for number in (tail, report):
            largest = max(largest, number)  # rounding may exchange neighbours that are equal
            if largest < _WHOLE:
                thresholds.append(largest)
    return thresholds


def first_tail(epsilon: Fraction, delta: Fraction) -> int:
    """H_1 for values whose errors are symmetric: two-sided geometric noise, cut off at both ends.

    While they grow, P_k = Delta (a^k - 1) / (a - 1) and H_{k+1} = P_k + H_1 a^k. P grows as long as P_k + P_{k+1} <= N;
    let L be the last such k. Masses h_k rise by the factor a up to k = L + 1 and fall by it afterwards if
    H_{L+1} + H_{L+2} = N, which is solved for H_1 here. The value is then i plus geometric noise of this epsilon, the
    noise of least expected error; the law with H_1 = 0 has a flatter top unless it has N = P_L + P_{L+1}.
    """
    growth, shift = _growth(epsilon)
    slack = _slack(delta)
    power, here, following = 1 << shift, 0, slack
    while True:
        later = ((growth * following) >> shift) + slack
        if following + later > _WHOLE:
            break
        here, following, power = following, later, (power * growth) >> shift
    room = max(0, _WHOLE - here - following)
    return min(slack, (room << shift) // (power + ((power * growth) >> shift)))


def _growth(epsilon: Fraction) -> tuple[int, int]:
    """Integers g, s with g / 2^s <= e^epsilon."""
    low, _ = exp_bounds(epsilon, _GROWTH_BITS)
    shift = _GROWTH_BITS
    return (low.numerator << shift) // low.denominator, shift


def _slack(delta: Fraction) -> int:
    return (delta.numerator << _BITS) // delta.denominator
