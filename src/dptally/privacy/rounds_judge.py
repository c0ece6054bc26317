"""The judge of sample-and-threshold in several rounds: the exact profile of one round, composed exactly.

One round is judged by `dptally.privacy.sampling_judge` at one factor. Here it is judged at many, which says far more
than "(e, d)-private": nearly all of the privacy loss of a round is close to 0, and that is what adds up slowly.

The profile. For a factor a > 0 let h(a) be the largest divergence H_a(P, Q) = sum of max(0, P(v) - a Q(v)) over all
pairs of rows (P, Q) = (row k, row k - 1), for every k, of one round; and h'(a) that of the pairs (row k - 1, row k).
Both are convex, do not grow with a, and are 1 at a = 0. As H_a(P, Q) = 1 - a + a H_{1/a}(Q, P), it suffices to know
both for a >= 1. At a = 1 the divergence is p B_{k-1}(m - 1) with m = max(t, floor(k p) + 1). For k p < t this is at
most p times the largest B_n(t - 1), which is attained at n = floor((t - 1) / p); for larger k it is at most p times the
largest probability of B_{k-1}, which never grows with k.

A measure above the profile. Let a_j = e^(j g) for whole j from i to n, and u_j >= h(a_j). Between neighbouring a_j (and
from (0, 1) to (a_i, u_i)) draw straight lines, and a level one from a_n on: by convexity they lie above h. They are

    G(a) = u_n + sum_j w_j max(0, a_j - a) / a_j,   where, with d_j = u_{j-1} - u_j and c = 1 / (1 - e^-g),
    w_j = c d_j - (c - 1) d_{j+1} for i < j < n,   w_n = c d_n,   w_i = 1 - u_i - (c - 1) d_{i+1},

the w_j being jumps of the slope, times a_j. Where rounding makes one negative, 0 only raises G.

Rounds. Let the first round have the laws (P, Q) with ratio r = P / Q, and let the second, after the outcome y of the
first, be within G: H_b(P_y, Q_y) <= G(b) for all b. Then the divergence of both together is

    sum_y P(y) H_{a / r(y)}(P_y, Q_y) <= sum_y P(y) (u_n + sum_j w_j max(0, 1 - a / (r(y) a_j)))
                                       = u_n + sum_j w_j H_{a / a_j}(P, Q) <= u_n + sum_j w_j G(a / a_j).

So, by induction, the l rounds are within the l-fold sum: with W the l-fold convolution of w over j,

    delta(epsilon) <= U_l + sum over s with s g > epsilon of W_s (1 - e^(epsilon - s g)),   U_1 = u_n,
    U_{l+1} = u_n + U_l sum_j w_j.

What a round asks may depend on the outcomes of earlier rounds, and the unit may have no part in it: a pair of equal
laws has divergence max(0, 1 - a) <= h(a). What may not be is that its coins depend on the coins of earlier rounds.
All rounds compare the same two data sets in the same order, so h and h' are composed separately, never mixed.

Profiles that bound every pair of neighbours, and their composition, are those of [ZDW22]; straight lines between points
of a profile those of [DGKKM22].

Every number enters with a sign that lets it be rounded up: w, u and the last factor up, e^-x in u_{-j} down.
"""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise

from dptally.errors import PrivacyViolation
from dptally.privacy.certifier import Certificate, exp_lower, exp_upper
from dptally.privacy.sampling_judge import largest_divergence, sampling_digest

__all__ = ["LARGEST_ROUNDS", "STEPS", "certify_rounds", "composed_delta"]

LARGEST_ROUNDS = 64
STEPS = 24  # epsilon is this many steps g: more make the bound tighter, and the judge slower
_FARTHEST = 12 * STEPS
_SCALE = 320
_ONE = 1 << _SCALE
_RATE_ONE = 1 << 32
_LOWEST, _HIGHEST = 6, 12  # times epsilon: losses beyond are merged
_MOST_TRIALS = 1 << 17  # whole powers beyond are too long
_SLOT = 2 * _SCALE + 64  # bits of one coefficient of a product of polynomials


def certify_rounds(
    rate: Fraction, threshold: int, *, rounds: int, epsilon: Fraction, delta: Fraction, steps: int = STEPS
) -> Certificate:
    """Judge `rounds` rounds of "keep each unit with probability `rate`, report counts from `threshold` on".

    In each round a unit counts once for at most one key, and is kept by a coin of its own for this round.

    Args:
        rate: a multiple of 2^-32 strictly between 0 and 1.
        threshold: at least 1.
        rounds: at most 64.
        epsilon: for all rounds together.
        delta: what must be kept by all rounds together.
        steps: how finely the profile is taken.

    Returns:
        Certificate: `worst_delta` and `total_delta` are for all rounds together.

    Raises:
        PrivacyViolation: if the rounds exceed delta.
    """
    if (rate * _RATE_ONE).denominator != 1 or not 0 < rate < 1 or threshold < 1:
        raise PrivacyViolation("the law does not have a rate in units of 2^-32 and a threshold of at least 1.")
    total, checked = composed_delta(rate, threshold, rounds=rounds, epsilon=epsilon, delta=delta, steps=steps)
    if total > delta:
        raise PrivacyViolation(
            f"{rounds} rounds exceed their delta: {float(total):.17g} where {float(delta):.17g} is allowed at epsilon "
            f"{float(epsilon):.17g}."
        )
    return Certificate(
        epsilon=epsilon,
        delta=delta,
        worst_delta=total,
        worst_pair=(0, 0),
        rows_checked=checked,
        table_sha256=hashlib.sha256(f"{rounds} rounds of {sampling_digest(rate, threshold)};".encode()).hexdigest(),
        copies=rounds,
        total_epsilon=epsilon,
        total_delta=total,
        judge=f"{rounds} rounds of sampling",
    )


def composed_delta(
    rate: Fraction, threshold: int, *, rounds: int, epsilon: Fraction, delta: Fraction, steps: int = STEPS
) -> tuple[Fraction, int]:
    """An upper bound of the delta of all rounds together, and the number of divergences it was computed from.

    `delta` says how far the profile is worth computing; the bound is right whatever it is.
    """
    negligible = math.floor(delta * _ONE) // (1024 * rounds)
    step = epsilon / steps
    up = _profile(rate, threshold, step, "up", negligible)
    down = _profile(rate, threshold, step, "down", negligible)
    both = [_compose(_measure(*pair, step), rounds, step, steps) for pair in ((up, down), (down, up))]
    return Fraction(max(both), _ONE), len(up) + len(down) - 1


def _profile(rate: Fraction, threshold: int, step: Fraction, order: str, negligible: int) -> list[int]:
    """Upper bounds of the profile at e^(j step), j = 0, 1, ..., to where it is negligible; they never grow."""
    found = [_total_variation(rate, threshold)]
    while len(found) < 2 or (found[-1] > negligible and len(found) <= _FARTHEST):
        worst, _, _ = largest_divergence(rate, threshold, epsilon=len(found) * step, enough=Fraction(1), orders=order)
        found.append(min(found[-1], math.ceil(worst * _ONE)))
    return found


def _total_variation(rate: Fraction, threshold: int) -> int:
    """An upper bound of the profile at 1, which is the same for both orders."""
    if threshold / rate > _MOST_TRIALS:
        return math.ceil(rate * _ONE)  # no probability is above 1
    at_threshold = _mass_up(math.floor((threshold - 1) / rate), threshold - 1, rate)
    trials = math.ceil(threshold / rate) - 1
    beyond = _mass_up(trials, math.floor((trials + 1) * rate), rate)
    return math.ceil(rate * max(at_threshold, beyond))


def _mass_up(trials: int, hits: int, rate: Fraction) -> int:
    """P[Binomial(trials, rate) = hits], rounded up, from whole powers."""
    kept = int(rate * _RATE_ONE)
    ways: int = math.comb(trials, hits) * kept**hits * (_RATE_ONE - kept) ** (trials - hits)
    return -(-(ways << _SCALE) >> (32 * trials))


@dataclass(frozen=True)
class _Measure:
    """w_j for j = `first`, `first` + 1, ..., and u_n."""

    first: int
    weights: list[int]
    beyond: int


def _measure(forth: list[int], back: list[int], step: Fraction) -> _Measure:
    """The measure above the profile `forth`; `back` is that of the other order, for factors below 1."""
    lower = []
    for j in range(len(back) - 1, 0, -1):
        growth, one = exp_upper(j * step, _SCALE)
        lower.append(_ONE - (_ONE - back[j]) * one // growth)  # 1 - e^(-j g) (1 - h')
    bounds = lower + forth
    for j in range(1, len(bounds)):
        bounds[j] = min(bounds[j], bounds[j - 1])
    below, below_one = exp_lower(step, _SCALE)
    above, above_one = exp_upper(step, _SCALE)
    rest_up = -(-(below_one << _SCALE) // (below - below_one))  # c - 1 = 1 / (e^g - 1)
    rest_down = (above_one << _SCALE) // (above - above_one)
    drops = [_ONE - bounds[0], *(before - here for before, here in pairwise(bounds)), 0]
    weights = [max(0, drops[0] - (rest_down * drops[1] >> _SCALE))]
    for j in range(1, len(bounds)):
        weights.append(max(0, -(-(_ONE + rest_up) * drops[j] >> _SCALE) - (rest_down * drops[j + 1] >> _SCALE)))
    return _Measure(-len(lower), weights, bounds[-1])


def _compose(one: _Measure, rounds: int, step: Fraction, steps: int) -> int:
    """delta(epsilon) of `rounds` rounds, with epsilon = `steps` steps, in units of 2^-320."""
    every = sum(one.weights)
    all_rounds = one
    for _ in range(rounds - 1):
        beyond = one.beyond - (-all_rounds.beyond * every >> _SCALE)
        weights = _convolve(all_rounds.weights, one.weights)
        all_rounds = _clipped(_Measure(all_rounds.first + one.first, weights, beyond), steps)
    total, first, weights = all_rounds.beyond, all_rounds.first, all_rounds.weights
    decay, whole = exp_upper(step, _SCALE)
    left = _ONE  # e^-((s - steps) g), rounded down
    for s in range(steps + 1, first + len(weights)):
        left = left * whole // decay
        if s >= first:
            total += -(-weights[s - first] * (_ONE - left) >> _SCALE)
    return min(total, _ONE)


def _clipped(measure: _Measure, steps: int) -> _Measure:
    """A measure above the given one, on fewer places.

    max(0, 1 - a / a_s) grows with s and is at most 1: weight may be moved to a larger s, and from the largest to u_n.
    """
    lowest, highest = -_LOWEST * steps, _HIGHEST * steps
    weights, first, beyond = measure.weights, measure.first, measure.beyond
    if first + len(weights) - 1 > highest:
        keep = max(0, highest - first + 1)
        beyond += sum(weights[keep:])
        weights = weights[:keep]
    if first < lowest and len(weights) > lowest - first:
        merged = lowest - first
        weights = [sum(weights[: merged + 1]), *weights[merged + 1 :]]
        first = lowest
    return _Measure(first, weights, beyond)


def _convolve(first: list[int], second: list[int]) -> list[int]:
    """The convolution, each number rounded up; by one product of long integers.

    Weights add up to little more than 1, so a coefficient of the product is below 2^(2 * 320 + 64).
    """
    packed = (
        int.from_bytes(b"".join(number.to_bytes(_SLOT // 8, "little") for number in numbers), "little")
        for numbers in (first, second)
    )
    product = math.prod(packed)
    length = len(first) + len(second) - 1
    data = product.to_bytes(length * _SLOT // 8 + 8, "little")
    width = _SLOT // 8
    return [-(-int.from_bytes(data[at * width : (at + 1) * width], "little") >> _SCALE) for at in range(length)]
