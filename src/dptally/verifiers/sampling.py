"""The verifier of sample-and-threshold: an upper bound, exact to 2^-200, of the divergence of all neighbouring rows.

Like `dptally.verifiers.tables`, this shares no code with what chooses rates and thresholds or draws. A row here is a
binomial law whose parameters are the whole table: a rate p, a multiple of 2^-32, and a threshold t.

The law. Of a key with k units each is kept with probability p; if v >= t are kept, v is reported, and otherwise
nothing. Write B_k for the binomial law of k trials, s = 1 - p, T_k(m) = P[B_k >= m], and a <= e^epsilon for the factor
in the divergence H(P, Q) = sum of max(0, P(v) - a Q(v)) over outcomes.

One pair of rows. Splitting off one trial, B_k(v) = s B_{k-1}(v) + p B_{k-1}(v - 1), hence

    B_k(v) / B_{k-1}(v) = s k / (k - v),   which grows with v, and   T_k(m) = T_{k-1}(m) + p B_{k-1}(m - 1).

- H(row k, row k-1). The ratio exceeds a exactly for v > k q, q = 1 - s / a. "Not reported" has no part in it, since
  P[B_k < t] <= P[B_{k-1} < t]. With m the smallest v that is at least t and above k q,

      H = T_k(m) - a T_{k-1}(m) = p B_{k-1}(m - 1) - (a - 1) T_{k-1}(m).

- H(row k-1, row k). The ratio (k - v) / (s k) exceeds a exactly for v < k q', q' = 1 - a s, which happens only for
  a s < 1; otherwise every ratio is at most 1 / s <= a, that of "not reported" too, and H = 0. With m the larger of t
  and the smallest v that is not below k q', the outcomes that can exceed are "not reported" and v < m, all together:

      H = max(0, P[B_{k-1} < m] - a P[B_k < m]) = max(0, a p B_{k-1}(m - 1) - (a - 1) (1 - T_{k-1}(m))).

All pairs. Row k - 1 and row k are computed for k = first .. last, and the others are bounded:

- k < t: nothing is ever reported, H = 0. k <= f, where f <= t / q is the first row computed: H(row k, row k-1) <=
  T_k(t) <= T_f(t), since T_k(t) grows with k; and for the other order, H <= max(0, 1 - a (1 - T_f(t))), because there
  k q' < t.
- k >= n, up: H <= P[B_k > k q] <= r^k <= r^n with r = (s + p z) z^-q for any z >= 1 that makes r < 1 (Markov's
  inequality for z^B_k).
- k >= n, down: H <= P[B_{k-1} < max(t, k q')]. This is P[B_{k-1} < t] <= P[B_{n-1} < t], or P[B_{k-1} < k q'] <=
  r'^k / (s + p / z) <= r'^n / (s + p / z) with r' = (s + p / z) z^q' for any z >= 1 that makes r' < 1.

Rows are added until these bounds are below the largest divergence found, or below 2^-200. So the result covers every
frequency, and where it is above 2^-200 it is the divergence of a pair up to rounding.

Arithmetic. Integers in units of 2^-768, each quantity with a lower and an upper bound; a lower one is only ever rounded
down, an upper one only ever up. No floats decide anything: they place f and z, where any choice is right.
"""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass
from fractions import Fraction

from dptally.errors import PrivacyViolation
from dptally.verifiers.tables import Certificate, exp_lower

__all__ = ["certify_sampling", "largest_divergence", "sampling_digest"]

_SCALE = 768
_ONE = 1 << _SCALE
_RATE_BITS = 32
_RATE_ONE = 1 << _RATE_BITS
_NEGLIGIBLE = 1 << (_SCALE - 200)
_GROWTH_BITS = 512


def sampling_digest(rate: Fraction, threshold: int) -> str:
    """What identifies the law: the two numbers that it is drawn from."""
    return hashlib.sha256(b"sample and threshold %d/2^32 %d;" % (rate * _RATE_ONE, threshold)).hexdigest()


def certify_sampling(rate: Fraction, threshold: int, *, epsilon: Fraction, delta: Fraction) -> Certificate:
    """Verify "keep each unit with probability `rate`, report counts from `threshold` on"; see the top of this file.

    The rate is a multiple of 2^-32 strictly between 0 and 1, the threshold at least 1. The certificate is for one key,
    where units keep or drop each of their keys by a coin of its own. Raises PrivacyViolation if a pair of rows exceeds
    delta; the message names the pair.
    """
    kept = rate * _RATE_ONE
    if kept.denominator != 1 or not 0 < rate < 1 or threshold < 1:
        raise PrivacyViolation("the law does not have a rate in units of 2^-32 and a threshold of at least 1.")
    worst_delta, pair, checked = largest_divergence(rate, threshold, epsilon=epsilon, enough=delta)
    if worst_delta > delta:
        raise PrivacyViolation(
            f"the law exceeds its delta: rows {pair[0]} and {pair[1]} differ by {float(worst_delta):.17g} where "
            f"{float(delta):.17g} is allowed at epsilon {float(epsilon):.17g}."
        )
    return Certificate(
        epsilon=epsilon,
        delta=delta,
        worst_delta=worst_delta,
        worst_pair=pair,
        rows_checked=checked + 1,
        table_sha256=sampling_digest(rate, threshold),
        copies=1,
        total_epsilon=epsilon,
        total_delta=worst_delta,
    )


def largest_divergence(
    rate: Fraction, threshold: int, *, epsilon: Fraction, enough: Fraction, orders: str = "up and down"
) -> tuple[Fraction, tuple[int, int], int]:
    """Largest divergence, its pair of rows, and how many pairs were computed.

    Stops early at a pair that exceeds `enough`; otherwise the number bounds all pairs, from above. `orders` is "up",
    "down" or both, for tests of one at a time: "up" is H(row k, row k-1).
    """
    growth, one = exp_lower(epsilon, _GROWTH_BITS)
    p = int(rate * _RATE_ONE)
    s = _RATE_ONE - p
    # v > k (1 - s / a) and v >= k (1 - a s), solved for whole v.
    up_drop, up_whole = s * one, growth * _RATE_ONE  # s / a
    down_drop, down_whole = s * growth, one * _RATE_ONE  # a s
    allowed = math.floor(enough * _ONE)
    up_done, down_done = "up" not in orders, "down" not in orders or down_drop >= down_whole

    first = _first_row(p / _RATE_ONE, threshold, 1 - s / _RATE_ONE * math.exp(-float(epsilon)))
    # The float may be off: the walk must start where the threshold alone decides, m = t.
    while first > threshold and _above(first, up_drop, up_whole) > threshold:
        first -= 1
    up = _start(first, threshold, p, s)
    down = _Tail(up.mass, up.over)
    up_base = _decay_above(p, s, Fraction(up_drop, up_whole))
    down_base, down_factor = (0, 0) if down_done else _decay_below(p, s, Fraction(down_drop, down_whole))
    up_rest, down_rest = _power_up(up_base, first), _power_up(down_base, first)

    # Rows up to the first.
    before = min(_ONE, up.over[1] + _up(p * up.mass[1]))  # T_f(t)
    worst, pair, up_at, down_at = 0, (first, first - 1), threshold, threshold
    if not up_done:
        worst = before
    if not down_done:
        found = _ONE - growth * (_ONE - before) // one
        if found > worst:
            worst, pair = found, (first - 1, first)
    k = first
    while not (up_done and down_done) and worst <= allowed:
        if not up_done:
            m = max(threshold, _above(k, up_drop, up_whole))
            if m > up_at:  # by one: q < 1
                up.raise_threshold(k, up_at, p, s)
                up_at = m
            found = _up(p * up.mass[1]) - (growth - one) * up.over[0] // one
            if found > worst:
                worst, pair = found, (k, k - 1)
        if not down_done:
            m = max(threshold, k - k * down_drop // down_whole)
            if m > down_at:
                down.raise_threshold(k, down_at, p, s)
                down_at = m
            hidden = (growth - one) * max(0, _ONE - down.over[1]) // one
            found = -(-growth * _up(p * down.mass[1]) // one) - hidden
            if found > worst:
                worst, pair = found, (k - 1, k)
        negligible = max(worst, _NEGLIGIBLE)
        if not up_done:
            up.add_trial(k, up_at, p, s)
            up_rest = (up_rest * up_base >> _SCALE) + 1
            up_done = up_rest <= negligible
        if not down_done:
            down.add_trial(k, down_at, p, s)
            down_rest = (down_rest * down_base >> _SCALE) + 1
            hidden = _ONE - down.over[0] if down_at == threshold else 0  # at least P[B_k < t]; 0 once k q' > t
            down_done = max((down_rest * down_factor >> _SCALE) + 1, hidden) <= negligible
        k += 1
    # All that was left out is below the worst, or below this.
    return Fraction(max(worst, _NEGLIGIBLE), _ONE), pair, k - first


def _above(k: int, drop: int, whole: int) -> int:
    """The smallest whole v with v > k (1 - drop / whole)."""
    return k - -(-k * drop // whole) + 1


@dataclass
class _Tail:
    """B_{k-1}(m - 1) and T_{k-1}(m), each with a lower and an upper bound."""

    mass: tuple[int, int]
    over: tuple[int, int]

    def add_trial(self, k: int, m: int, p: int, s: int) -> None:
        """From k to k + 1: T_k(m) = T_{k-1}(m) + p B_{k-1}(m - 1), B_k(v) = B_{k-1}(v) s k / (k - v)."""
        low, high = self.mass
        self.over = self.over[0] + (p * low >> _RATE_BITS), min(_ONE, self.over[1] + _up(p * high))
        factor, divisor = s * k, (k - m + 1) << _RATE_BITS
        self.mass = low * factor // divisor, -(-high * factor // divisor)

    def raise_threshold(self, k: int, m: int, p: int, s: int) -> None:
        """From m to m + 1: B_{k-1}(m) = B_{k-1}(m - 1) (k - m) / m p / s, T_{k-1}(m + 1) = T_{k-1}(m) - B_{k-1}(m)."""
        factor, divisor = (k - m) * p, m * s
        low, high = self.mass[0] * factor // divisor, -(-self.mass[1] * factor // divisor)
        self.mass = low, high
        self.over = max(0, self.over[0] - high), max(0, self.over[1] - low)


def _first_row(rate: float, threshold: int, q: float) -> int:
    """About the largest k up to t / q for which P[B_k >= t] is below 2^-210, at least t. Any answer is right."""
    low, high = threshold, max(threshold, math.floor(threshold / q) if q > 0 else threshold)

    def negligible(k: int) -> bool:
        share = threshold / k
        if share <= rate:
            return False
        entropy = share * math.log(share / rate) + (
            (1 - share) * math.log((1 - share) / (1 - rate)) if k > threshold else 0
        )
        return k * entropy > 210 * math.log(2)

    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if negligible(middle) else (low, middle - 1)
    return low


def _start(k: int, m: int, p: int, s: int) -> _Tail:
    """B_{k-1}(m - 1) and T_{k-1}(m) from nothing, for (k - 1) p < m: terms beyond m fall by a factor of at most one.

    Terms are added until they fall by a factor below 1/2 and are below one unit, which bounds what is left by the last.
    """
    low, high = (_mass(k - 1, m - 1, p, s, up) for up in (False, True))
    over_low = over_high = 0
    term_low, term_high = low, high
    at = m - 1
    while at < k - 1:
        # B(at + 1) = B(at) (k - 1 - at) / (at + 1) p / s
        factor, divisor = (k - 1 - at) * p, (at + 1) * s
        term_low, term_high = term_low * factor // divisor, -(-term_high * factor // divisor)
        at += 1
        over_low, over_high = over_low + term_low, over_high + term_high
        if term_high <= 1 and 2 * (k - 1 - at) * p < (at + 1) * s:
            over_high += 1
            break
    return _Tail((low, high), (over_low, over_high))


def _mass(trials: int, hits: int, p: int, s: int, up: bool) -> int:
    """B_trials(hits) in units of 2^-768, rounded as asked: a product whose factors are kept to 768 bits each."""
    mantissa, exponent = _float_power(p, hits, up)
    other, more = _float_power(s, trials - hits, up)
    mantissa, exponent = _trim(mantissa * other, exponent + more - _RATE_BITS * trials, up)
    few = min(hits, trials - hits)
    for i in range(1, few + 1):
        mantissa *= trials - few + i
        mantissa = -(-mantissa // i) if up else mantissa // i
        mantissa, exponent = _trim(mantissa, exponent, up)
    shift = exponent + _SCALE
    if shift >= 0:
        return mantissa << shift
    return -(-mantissa >> -shift) if up else mantissa >> -shift


def _float_power(base: int, exponent: int, up: bool) -> tuple[int, int]:
    """base^exponent as mantissa and binary exponent, rounded as asked."""
    result, shift = 1 << _SCALE, -_SCALE
    for digit in f"{exponent:b}":
        result, shift = _trim(result * result, 2 * shift, up)
        if digit == "1":
            result, shift = _trim(result * base, shift, up)
    return result, shift


def _trim(mantissa: int, exponent: int, up: bool) -> tuple[int, int]:
    """The same number with a mantissa of about 832 bits (so that divisions by small numbers cost nothing)."""
    excess = mantissa.bit_length() - (_SCALE + 64)
    if excess <= 0:
        grown = -excess if excess < -32 else 0
        return mantissa << grown, exponent - grown
    return (-(-mantissa >> excess) if up else mantissa >> excess), exponent + excess


def _decay_above(p: int, s: int, complement: Fraction) -> int:
    """An upper bound of r = (s + p z) z^-q with q = 1 - `complement`, z near the best choice, in units of 2^-768."""
    # The best z is q s / (p (1 - q)); z = 1 gives r = 1, which is right as well.
    z = max(_ONE, math.floor((1 - complement) / complement * Fraction(s, p) * _ONE))
    mean = -(-(s * _ONE + p * z) >> _RATE_BITS)
    q = math.floor((1 - complement) * (1 << 128))  # a smaller q is a larger event
    return min(_ONE, -(-(mean << _SCALE) // _root_power(z, q, up=False)))


def _decay_below(p: int, s: int, complement: Fraction) -> tuple[int, int]:
    """Upper bounds of r' = (s + p / z) z^q' with q' = 1 - `complement`, and of 1 / (s + p / z)."""
    # The best 1 / z is q' s / (p (1 - q')), as above but below 1. It may be so small that p / z hardly matters.
    inverse = (1 - complement) / complement * Fraction(s, p)
    z = max(_ONE, math.ceil(_ONE / max(inverse, Fraction(1, 1 << 128))))
    mean = -(-(s * _ONE + -(-(p << (2 * _SCALE)) // z)) >> _RATE_BITS)
    low_mean = (s * _ONE + (p << (2 * _SCALE)) // z) >> _RATE_BITS
    q = math.ceil((1 - complement) * (1 << 128))  # a larger q' is a larger event
    base = -(-mean * _root_power(z, q, up=True) >> _SCALE)
    return min(_ONE, base), -(-(1 << (2 * _SCALE)) // low_mean)


def _root_power(z: int, exponent: int, up: bool) -> int:
    """z^(exponent / 2^128) for z >= 1 and an exponent below 2^128: a product of repeated square roots."""
    result = _ONE
    for place in range(127, -1, -1):
        z = math.isqrt(z << _SCALE) + (1 if up else 0)
        if exponent >> place & 1:
            result = -(-result * z >> _SCALE) if up else result * z >> _SCALE
    return result


def _power_up(base: int, exponent: int) -> int:
    """An upper bound of base^exponent in units of 2^-768, for base at most 1."""
    result = _ONE
    for digit in f"{exponent:b}":
        result = -(-result * result >> _SCALE)
        if digit == "1":
            result = -(-result * base >> _SCALE)
    return result


def _up(product: int) -> int:
    """A product with a rate, back in units of 2^-768, rounded up."""
    return -(-product >> _RATE_BITS)
