"""Bounds of a frequency from the number of its units in a sample.

Floating point: estimates, not guarantees. The allowed error is lowered by one part in a million, which is more than
the arithmetic is off by.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

_LARGEST = float(1 << 62)
_SAFE = 1 - 1e-6
_SUMMED = 100_000  # larger values get bounds by Chernoff's inequality
_MOST_STEPS = 20_000
_ACCURATE = 1e-14


def bounds_of_sampled(values: Integers, rate: float, threshold: int, error: float) -> tuple[Integers, Integers]:
    """Lower and upper bounds of w where v ~ Binomial(w, rate) was reported because it is at least the threshold.

    With pi_w = P[v >= threshold | w]:

        lower = smallest w with P[`value` or more | w] > error/2 pi_w,
        upper = largest w with P[threshold .. `value` | w] > error/2 pi_w.

    Both conditions change once as w grows: given that v is reported, larger w make larger v likelier (the ratio of
    their probabilities grows with v). So w is found by halving. For values above 100,000 both probabilities are
    replaced by Chernoff's upper bound of them, and pi_w by 1 where the threshold is below half the value: bounds then
    are somewhat wider than need be.
    """
    share = error / 2 * _SAFE
    v = values.astype(np.float64)
    spread = np.sqrt(v * math.log(4 / share)) + math.log(4 / share)
    ends = np.minimum(np.ceil((v + 4 * spread + 4) / rate), _LARGEST).astype(np.int64)
    rough = (values > _SUMMED) & (2 * threshold < values)

    def tails(w: Integers, chosen: NDArray[np.bool_]) -> tuple[Floats, Floats]:
        """P[v or more] / pi and P[threshold .. v] / pi."""
        f, x = w.astype(np.float64), v[chosen]
        over, _ = _tails(f, x, rate)
        over_next, under_next = _tails(f, np.minimum(x + 1, f + 1), rate)
        reported, hidden = _tails(f, np.full_like(f, threshold), rate)
        # The difference of the smaller tails has the smaller rounding errors.
        between = np.where(over_next < 0.5, reported - over_next, under_next - hidden)
        return over / reported, np.maximum(between, 0) / reported

    def chernoff(w: Integers, chosen: NDArray[np.bool_]) -> tuple[Floats, Floats]:
        f, x = w.astype(np.float64), v[chosen]
        bound = np.exp(-_distance(f, x, rate))
        likely = f * rate
        return np.where(likely < x, bound, 1.0), np.where(likely > x, bound, 1.0)

    lower, upper = values.copy(), values.copy()
    for chosen, evaluate in ((~rough, tails), (rough, chernoff)):
        if chosen.any():
            between = values[chosen], ends[chosen]
            lower[chosen] = _smallest(*between, lambda w: evaluate(w, chosen)[0] > share)  # noqa: B023 - used at once
            upper[chosen] = _largest(*between, lambda w: evaluate(w, chosen)[1] > share)  # noqa: B023
    return lower, upper


def upper_of_binomial(values: Integers, rate: float, error: float) -> Floats:
    """The largest w for which v or less of Binomial(w, rate) is not known to be less likely than `error`.

    With z the normal quantile of the error, D the relative entropy and s(k, w) = sign(k - p w) sqrt(2 w D(k/w || p)),
    P[v or less] <= Phi(s(v + 1, w)) for all w [ZS13, Theorem 1]; s falls as w grows. So this is the largest w with
    s(v + 1, w) > z, and it is below the truth with probability at most `error`.
    """
    v = np.asarray(values, dtype=np.float64)
    z = NormalDist().inv_cdf(error * _SAFE)

    def passes(w: Integers) -> NDArray[np.bool_]:
        return _signed(np.minimum(v + 1, w), w.astype(np.float64), rate) > z

    return _largest(v.astype(np.int64), _end(v, rate, z), passes).astype(np.float64)


def lower_of_binomial(values: Integers, rate: float, error: float) -> Floats:
    """The smallest w for which v or more of Binomial(w, rate) is not known to be less likely than `error`.

    As in `upper_of_binomial`, P[v or more] <= 1 - Phi(s(v - 1, w)): the smallest w with s(v - 1, w) < -z. It exceeds
    the truth with probability at most `error`.
    """
    v = np.asarray(values, dtype=np.float64)
    z = NormalDist().inv_cdf(error * _SAFE)

    def passes(w: Integers) -> NDArray[np.bool_]:
        trials = np.maximum(w, 1).astype(np.float64)
        # P[at least one] is known: 1 - (1 - p)^w.
        known = (v == 0) | (-np.expm1(trials * math.log1p(-rate)) > error * _SAFE)
        return np.where(v <= 1, known, _signed(np.maximum(v - 1, 0), trials, rate) < -z)

    return _smallest(v.astype(np.int64), _end(v, rate, z), passes).astype(np.float64)


def _end(v: Floats, rate: float, z: float) -> Integers:
    """Beyond all w that come into question."""
    reach = abs(z) + 2
    end = np.ceil((v + 1 + 4 * reach * (np.sqrt(v + 1) + reach)) / rate) + 1
    return np.asarray(np.minimum(end, _LARGEST), dtype=np.int64)


def _signed(hits: Floats, trials: Floats, rate: float) -> Floats:
    return np.asarray(np.sign(hits - rate * trials) * np.sqrt(2 * np.maximum(_distance(trials, hits, rate), 0.0)))


def _smallest(low: Integers, high: Integers, passes: Callable[[Integers], NDArray[np.bool_]]) -> Integers:
    """The smallest numbers from low to high that pass, where larger ones pass too; else `high`.

    Whole numbers, as floats beyond 2^53 have none between them and the next.
    """
    while (low < high).any():  # invariant: `high` passes or is the end, all below `low` do not
        middle = low + (high - low) // 2
        found = passes(middle)
        low, high = np.where(found, low, np.minimum(middle + 1, high)), np.where(found, middle, high)
    return low


def _largest(low: Integers, high: Integers, passes: Callable[[Integers], NDArray[np.bool_]]) -> Integers:
    """The largest numbers from low to high that pass, where smaller ones pass too; else `low`."""
    while (low < high).any():  # invariant: `low` passes or is the first, all above `high` do not
        middle = low + (high - low + 1) // 2
        found = passes(middle)
        low, high = np.where(found, middle, low), np.where(found, high, np.maximum(middle - 1, low))
    return low


def _tails(trials: Floats, hits: Floats, rate: float) -> tuple[Floats, Floats]:
    """P[B >= hits] and P[B < hits], the smaller one to full relative precision.

    P[B >= h] = I_p(h, n - h + 1) and P[B < h] = I_{1-p}(n - h + 1, h), incomplete beta functions, by the continued
    fraction on the side where it converges fast.
    """
    upper_small = rate < (hits + 1) / (trials + 3)
    a = np.where(upper_small, hits, trials - hits + 1)
    b = np.where(upper_small, trials - hits + 1, hits)
    x = np.where(upper_small, rate, 1 - rate)
    impossible = hits > trials  # nothing is left to count
    a, b = np.where(impossible, 1.0, a), np.where(impossible, 1.0, b)
    # x^a (1 - x)^b / (a B(a, b)) = b_n(h) h (1 - p) / a with n = a + b - 1 trials.
    with np.errstate(over="ignore", invalid="ignore"):
        log_mass = _log_mass(trials, np.minimum(hits, trials), rate)
        factor = np.exp(log_mass) * np.minimum(hits, trials) * (1 - rate) / a
        small = np.minimum(factor * _continued_fraction(a, b, x), 1.0)
    small = np.where(impossible, 0.0, small)
    upper_small = upper_small | impossible
    return np.where(upper_small, small, 1 - small), np.where(upper_small, 1 - small, small)


def _continued_fraction(a: Floats, b: Floats, x: Floats) -> Floats:
    """By Lentz's method, until all have settled."""
    c, d = np.ones_like(a), 1 / (1 - (a + b) * x / (a + 1))
    result = d.copy()
    for m in range(1, _MOST_STEPS):
        for step in (
            m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)),
            -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1)),
        ):
            d = 1 / (1 + step * d)
            c = 1 + step / c
            change = c * d
            result = result * change
        if np.abs(change - 1).max() < _ACCURATE:
            break
    return result


def _log_mass(trials: Floats, hits: Floats, rate: float) -> Floats:
    """ln P[B = hits] as a distance and Stirling's remainders, so that large terms do not cancel."""
    misses = trials - hits
    inner = np.where((hits > 0) & (misses > 0), hits * misses, 1.0)
    remainders = _stirling(trials) - _stirling(hits) - _stirling(misses)
    usual = remainders - _distance(trials, hits, rate) + 0.5 * np.log(trials / (2 * math.pi * inner))
    return np.where(misses <= 0, trials * math.log(rate), np.where(hits <= 0, trials * math.log1p(-rate), usual))


def _distance(trials: Floats, hits: Floats, rate: float) -> Floats:
    """n times the relative entropy of hits / n and the rate."""
    result = np.zeros_like(trials)
    for seen, expected in ((hits, trials * rate), (trials - hits, trials * (1 - rate))):
        off = (seen - expected) / expected
        result += expected * (np.where(seen > 0, (1 + off) * np.log1p(np.where(seen > 0, off, 0.0)), 0.0) - off)
    return result


def _stirling(number: Floats) -> Floats:
    """ln(n!) - (n + 1/2) ln n + n - ln(2 pi) / 2, for n >= 1; anything for n = 0."""
    known = [0.0] + [
        math.lgamma(n + 1) - (n + 0.5) * math.log(n) + n - 0.5 * math.log(2 * math.pi) for n in range(1, 32)
    ]
    n = np.maximum(number, 1.0)
    square = 1 / (n * n)
    series = (1 / 12 - square * (1 / 360 - square * (1 / 1260 - square / 1680))) / n
    return np.where(number < 32, np.array(known)[np.minimum(number, 31).astype(np.int64)], series)
