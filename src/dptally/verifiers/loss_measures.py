"""Measures above privacy profiles, and how they add up: the arithmetic of exact composition.

A profile. For a factor a > 0 let h(a) be the largest divergence H_a(P, Q) = sum of max(0, P(v) - a Q(v)) over all pairs
of laws (P, Q) of what is released about two neighbouring data sets, in one order, and h'(a) that of the other order.
Both are convex, do not grow with a, and are 1 at a = 0. As H_a(P, Q) = 1 - a + a H_{1/a}(Q, P), it suffices to know
both for a >= 1.

A measure above a profile. Let a_j = e^(j g) for whole j from i to n, and u_j >= h(a_j). Between neighbouring a_j (and
from (0, 1) to (a_i, u_i)) draw straight lines, and a level one from a_n on: by convexity they lie above h. They are

    G(a) = u_n + sum_j w_j max(0, a_j - a) / a_j,   where, with d_j = u_{j-1} - u_j and c = 1 / (1 - e^-g),
    w_j = c d_j - (c - 1) d_{j+1} for i < j < n,   w_n = c d_n,   w_i = 1 - u_i - (c - 1) d_{i+1},

the w_j being jumps of the slope, times a_j. Where rounding makes one negative, 0 only raises G.

One after another. Let the first release have the laws (P, Q) with ratio r = P / Q, within a measure G_1 = (w', u'), and
let the second, after the outcome y of the first, be within G: H_b(P_y, Q_y) <= G(b) for all b. Then the divergence of
both together is

    sum_y P(y) H_{a / r(y)}(P_y, Q_y) <= sum_y P(y) (u_n + sum_j w_j max(0, 1 - a / (r(y) a_j)))
                                       = u_n + sum_j w_j H_{a / a_j}(P, Q) <= u_n + sum_j w_j G_1(a / a_j),

which is again a measure: weights are convolved, and what is beyond all factors becomes u_n + u' sum_j w_j. So, by
induction, for any number of releases with the measures that they have one by one,

    delta(epsilon) <= U + sum over s with s g > epsilon of W_s (1 - e^(epsilon - s g)).

What a release asks may depend on the outcomes of earlier ones, as long as it stays within its measure, and the unit may
have no part in it: a pair of equal laws has divergence max(0, 1 - a) <= h(a). What may not be is that its coins depend
on the coins of earlier ones, or that which *measure* it has depends on earlier outcomes. All releases compare the same
two data sets in the same order, so h and h' are composed separately, never mixed.

Profiles that bound every pair of neighbours, and their composition, are those of [ZDW22]; straight lines between points
of a profile those of [DGKKM22].

Every number enters with a sign that lets it be rounded up: w, u and the last factor up, e^-x in u_{-j} down. Numbers
are integers in units of 2^-320.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise

from dptally.verifiers.tables import exp_lower, exp_upper

SCALE = 320
ONE = 1 << SCALE


@dataclass(frozen=True)
class LossMeasure:
    """w_j for j = `first`, `first` + 1, ..., and u_n as `beyond`, in units of 2^-320."""

    first: int
    weights: list[int]
    beyond: int

    def clipped(self, lowest: int, highest: int) -> LossMeasure:
        """A measure above this one, on places from `lowest` to `highest` only.

        max(0, 1 - a / a_s) grows with s and is at most 1: weight may be moved to a larger s, and from the largest to
        u_n.
        """
        weights, first, beyond = self.weights, self.first, self.beyond
        if first + len(weights) - 1 > highest:
            keep = max(0, highest - first + 1)
            beyond += sum(weights[keep:])
            weights = weights[:keep]
        if first < lowest and len(weights) > lowest - first:
            merged = lowest - first
            weights = [sum(weights[: merged + 1]), *weights[merged + 1 :]]
            first = lowest
        return LossMeasure(first, weights, beyond)


def measure_above(forth: Sequence[int], back: Sequence[int], step: Fraction) -> LossMeasure:
    """The measure above a profile.

    `forth` are upper bounds of h at e^(j step), j = 0, 1, ..., that do not grow; `back` the same of the other order,
    for factors below 1; `step` is g.
    """
    lower = []
    for j in range(len(back) - 1, 0, -1):
        growth, one = exp_upper(j * step, SCALE)
        lower.append(ONE - (ONE - back[j]) * one // growth)  # 1 - e^(-j g) (1 - h')
    bounds = [*lower, *forth]
    for j in range(1, len(bounds)):
        bounds[j] = min(bounds[j], bounds[j - 1])
    below, below_one = exp_lower(step, SCALE)
    above, above_one = exp_upper(step, SCALE)
    rest_up = -(-(below_one << SCALE) // (below - below_one))  # c - 1 = 1 / (e^g - 1)
    rest_down = (above_one << SCALE) // (above - above_one)
    drops = [ONE - bounds[0], *(before - here for before, here in pairwise(bounds)), 0]
    weights = [max(0, drops[0] - (rest_down * drops[1] >> SCALE))]
    for j in range(1, len(bounds)):
        weights.append(max(0, -(-(ONE + rest_up) * drops[j] >> SCALE) - (rest_down * drops[j + 1] >> SCALE)))
    return LossMeasure(-len(lower), weights, bounds[-1])


def two_point_measure(places: int, delta: Fraction, step: Fraction) -> LossMeasure:
    """The measure of everything that is (`places` * `step`, delta)-differentially private [KOV15, Thm. 3.3].

    Such a profile is at most the straight line between e^-x and e^x, x = places * step, where it is at most
    1 - e^-x (1 - delta) and delta: so w is (1 - delta) e^x / (1 + e^x) at x, (1 - delta) / (1 + e^x) at -x, and delta
    is beyond.
    """
    low, low_one = exp_lower(places * step, SCALE)
    high, high_one = exp_upper(places * step, SCALE)
    kept = math.ceil((1 - delta) * ONE)
    more = -(-kept * high // (high + high_one))
    less = -(-kept * low_one // (low + low_one))
    return LossMeasure(-places, [less, *([0] * (2 * places - 1)), more], math.ceil(delta * ONE))


def composed(first: LossMeasure, second: LossMeasure) -> LossMeasure:
    """The measure of both, one after the other."""
    from flint import fmpz_poly

    product = fmpz_poly(first.weights) * fmpz_poly(second.weights)
    weights = [-(-int(number) >> SCALE) for number in product.coeffs()]
    weights += [0] * (len(first.weights) + len(second.weights) - 1 - len(weights))  # flint drops zeros at the end
    beyond = second.beyond - (-first.beyond * sum(second.weights) >> SCALE)
    return LossMeasure(first.first + second.first, weights, beyond)


def repeated(one: LossMeasure, times: int, lowest: int, highest: int) -> LossMeasure:
    """The measure of `times` releases of one measure, cut to places from `lowest` to `highest` on the way."""
    result = one.clipped(lowest, highest)
    for digit in f"{times:b}"[1:]:
        result = composed(result, result).clipped(lowest, highest)
        if digit == "1":
            result = composed(result, one).clipped(lowest, highest)
    return result


def delta_at(measure: LossMeasure, step: Fraction, epsilon: Fraction) -> int:
    """delta(epsilon), in units of 2^-320, rounded up."""
    total, first, weights = measure.beyond, measure.first, measure.weights
    start = max(math.floor(epsilon / step) + 1, first)
    grown, grown_one = exp_upper(start * step - epsilon, SCALE)
    left = (grown_one << SCALE) // grown  # e^(epsilon - s g), rounded down
    growth, whole = exp_upper(step, SCALE)
    for s in range(start, first + len(weights)):
        total -= -weights[s - first] * (ONE - left) >> SCALE
        left = left * whole // growth
    return min(total, ONE)
