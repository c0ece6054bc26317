"""The verifier of a series: every key of a unit, in every period, at once, on the integers in use.

This module shares no code with the builder (`dptally.laws.series`). It reads the bytes that the compiled sampler reads,
and the whole numbers and fractions that the series computes with.

The mechanism. There are T periods. x_k is the vector of what key k gets in each of them; C is the lower triangular
Toeplitz matrix of the whole numbers c_0 >= c_1 >= ... >= c_{T-1} >= 0. For every key

    y_k = C x_k + z_k,

with z drawn from the table for every key and period on its own. A key is *in the state* from the first period on in
which it gets anything. In a period t every key that is in the state and not yet published is tested: it is published if
s_t(y_k) >= tau_t, where s_t is computed from y_1 .. y_t alone, and stays published. Everything that is released about a
published key, of this period and of all before, is computed from y_k. Nothing is released about other keys. Neighbours
are data sets of which one has a unit more: x_k differs for at most l keys, in each by a vector of ones and zeros with
at most p ones. (A unit that counts for at most l keys in the whole series, in at most p periods for each; or, where
the guarantee is for a unit within one period, for at most l keys of that period, p = 1.)

1. Whole numbers cost nothing. C x is a vector of whole numbers, so C x + round(N) = round(C x + N): step 1 of
   `dptally.verifiers.gaussian`.

2. The shift. ||C e||^2 for a vector e of p ones is the sum of c_a . c_b over pairs of its columns. For columns
   a <= b that is sum over m < T - b of c_m c_{m + b - a}, which falls with b - a and with b, as c is not negative and
   does not increase. The i-th and j-th of p ordered columns are at least j - i apart, and at j or later. So the first
   p columns are the worst, and the two vectors y of all keys together differ by at most l times that square: n^2.

3. Keys of one unit alone. Let D' have the unit, and D not. Let S be the periods in which a key that the unit has is in
   the state of D', and not in that of D: the key has ones of this unit and nothing else there. Let G be the event that
   no key passes its threshold in such a period; it is the same set of vectors y for D and D'. Let M~ be the mechanism
   that does not test keys in these periods: it is one and the same function of y for D and D', and on G it does what
   the mechanism does. Hence for any set O of outcomes, with h the divergence of Gaussian laws that are n apart,

       P'[M in O] <= P'[M~ in O, G] + P'[not G] <= e^eps P[M~ in O, G] + h + P'[not G] <= e^eps P[M in O] + h + q,
       P[M in O]  <= P[M~ in O, G] + P[not G]   <= e^eps P'[M~ in O, G] + h + P[not G] <= e^eps P'[M in O] + h + q,

   where q bounds the probability of "not G" in both. In S the key holds at most p ones (none in D), so with b_k the
   response of s to a one in y that is k periods old, and g = b * c the response to a one in x,

       s_t <= u_t + sum_k b_k z_{t-k},    u_t = the sum of the p largest positive numbers among g_0 .. g_{t-1}.

   z = N + r with |r| <= 1/2, so s_t >= tau_t needs a Gaussian number of deviation sigma sqrt(b_0^2 + .. + b_{t-1}^2)
   to reach tau_t - u_t - (|b_0| + .. + |b_{t-1}|) / 2 - 1; the 1 is more than what floats lose (step 5). Let Q_t be
   that probability. A union over periods and keys gives q <= l (Q_1 + .. + Q_T), whatever the periods are in which a
   key is the unit's alone. h and q are both paid for all l keys: a key can be this unit's alone first and shared later.
   (The division of keys into shared and missing ones by which [LT25, Thm. 23] saves does not carry over.)

4. The table. l T draws differ in law, in the sense of step 3 of `dptally.verifiers.gaussian`: epsilon becomes
   epsilon + l T log(1 - eta), and l T (v + e^epsilon w) is added; to q, l T v is added.

5. Floats. s_t is computed as sum_j w_j m_j, m_j <- d_j m_j + y_t, in double precision. Of a key in S, |y_t| <= Y =
   R + p c_0, so |m_j| <= Y T. Decays 0 <= d_j <= 1 and weights are floats themselves. Each step rounds twice, by at
   most 2^-53 of numbers up to Y T + 1, and errors are not enlarged by decays; the sum rounds at most 2 d times. So s_t
   is off by at most sum_j |w_j| (2 T + 2 d) 2^-52 (Y T + 1), which must be at most 1. What is released is a function
   of y whatever it is computed with: rounding there costs no privacy.

The statement is about two data sets that are fixed. (For rows that respond to what was released, the Gaussian part
is [DMRST22, Thm. 2.1]; that is not claimed here.)

Where exactness ends: as in `dptally.verifiers.gaussian`. There are no floats in this module.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from fractions import Fraction

from flint import arb, arb_poly

from dptally.errors import PrivacyViolation
from dptally.verifiers.gaussian import SHARE, above, ball, table_distances, working_precision
from dptally.verifiers.tables import Certificate

__all__ = ["certify_series", "lone_key_probability", "squared_shift"]

_PRECISION = 192


def certify_series(
    table: bytes,
    *,
    reach: int,
    sigma: Fraction,
    coefficients: Sequence[int],
    decays: Sequence[Fraction],
    weights: Sequence[Fraction],
    thresholds: Sequence[int],
    differing: int,
    per_key: int,
    epsilon: Fraction,
    delta: Fraction,
) -> Certificate:
    """Verify a whole series, before its first period; see the module for the argument.

    Args:
        table: of the noise: as in `certify_gaussian_table`.
        reach: R of the table.
        sigma: deviation of the Gaussian law that the table is held against; not trusted.
        coefficients: c_0 .. c_{T-1}.
        decays: d_j of the test of keys that are not published.
        weights: w_j of that test.
        thresholds: tau_1 .. tau_T, in units of the noise.
        differing: l.
        per_key: p.
        epsilon: for the unit, in the whole series.
        delta: what must be kept, for the unit, in the whole series.

    Returns:
        Certificate: with `worst_pair` = (p, l); `rows_checked` is how many probabilities were compared.

    Raises:
        PrivacyViolation: if the numbers are no such series, or delta is exceeded; the message says by what.
    """
    periods = len(coefficients)
    _check_shape(coefficients, decays, weights, thresholds, differing, per_key, sigma)
    _check_floats(periods, reach + per_key * coefficients[0], decays, weights)
    rows, more, less = table_distances(table, reach=reach, sigma=sigma)
    draws = differing * periods
    with working_precision(_PRECISION):
        slack = above(draws * (ball(more) + ball(epsilon).exp() * ball(less)))
        shift = (ball(differing * squared_shift(coefficients, per_key))).sqrt() / ball(sigma)
        shifted = above(_divergence(shift, ball(epsilon) + draws * (-arb((1, -SHARE))).log1p()))
    alone = lone_key_probability(
        sigma=sigma, coefficients=coefficients, decays=decays, weights=weights, thresholds=thresholds, per_key=per_key
    )
    lone = differing * (alone + periods * more)
    worst = shifted + lone + slack
    if worst > delta:
        parts = {"the noise is too small": shifted, "a threshold is too low": lone, "the table is another": slack}
        what = max(parts, key=lambda name: parts[name])
        raise PrivacyViolation(
            f"the series exceeds its delta, {what}: {differing} keys over {periods} periods give {float(worst):.17g} "
            f"where {float(delta):.17g} is allowed at epsilon {float(epsilon):.17g}."
        )
    said = repr((tuple(coefficients), tuple(map(str, decays)), tuple(map(str, weights)), tuple(thresholds)))
    return Certificate(
        epsilon=epsilon,
        delta=delta,
        worst_delta=worst,
        worst_pair=(per_key, differing),
        rows_checked=rows,
        table_sha256=hashlib.sha256(said.encode() + table).hexdigest(),
        copies=differing,
        total_epsilon=epsilon,
        total_delta=worst,
        judge="factorised Gaussian noise, in ball arithmetic",
    )


def squared_shift(coefficients: Sequence[int], per_key: int) -> int:
    """||C e||^2 for the first p columns: the most that a unit moves the numbers of one key; step 2."""
    together = 0
    total = 0
    for period, newest in enumerate(coefficients):
        together += newest - (coefficients[period - per_key] if period >= per_key else 0)
        total += together**2
    return total


def lone_key_probability(
    *,
    sigma: Fraction,
    coefficients: Sequence[int],
    decays: Sequence[Fraction],
    weights: Sequence[Fraction],
    thresholds: Sequence[int],
    per_key: int,
) -> Fraction:
    """Q_1 + .. + Q_T, rounded up: that a key which one unit alone has is ever published; step 3, without the table."""
    periods = len(coefficients)
    with working_precision(_PRECISION):
        powers, rates = [ball(weight) for weight in weights], [ball(decay) for decay in decays]
        responses = []
        for _ in range(periods):
            responses.append(sum(powers, arb(0)))
            powers = [power * rate for power, rate in zip(powers, rates, strict=True)]
        gains = (arb_poly(responses) * arb_poly(list(coefficients))).coeffs()[:periods]
        gains += [arb(0)] * (periods - len(gains))
        squares = lengths = total = arb(0)
        largest: list[Fraction] = []
        for response, gain, threshold in zip(responses, gains, thresholds, strict=True):
            squares += response * response
            lengths += abs(response)
            largest = sorted([*largest, max(Fraction(0), above(gain))])[-per_key:]
            margin = ball(threshold - 1 - sum(largest)) - lengths / 2
            total += (margin / (ball(sigma) * (2 * squares).sqrt())).erfc() / 2
        return above(total)


def _divergence(step: arb, epsilon: arb) -> arb:
    """h: of two Gaussian laws of deviation 1 whose means are `step` apart, at epsilon."""
    half, offset = step / 2, epsilon / step
    return _upper_tail(offset - half) - epsilon.exp() * _upper_tail(offset + half)


def _upper_tail(point: arb) -> arb:
    return (point / arb(2).sqrt()).erfc() / 2


def _check_shape(
    coefficients: Sequence[int],
    decays: Sequence[Fraction],
    weights: Sequence[Fraction],
    thresholds: Sequence[int],
    differing: int,
    per_key: int,
    sigma: Fraction,
) -> None:
    """Refuse what the argument does not speak of."""
    falling = all(here >= after for here, after in zip(coefficients, [*coefficients[1:], 0], strict=True))
    if not coefficients or coefficients[0] < 1 or not falling:
        raise PrivacyViolation("the coefficients of a series are positive first, and never rise.")
    if len(thresholds) != len(coefficients) or len(decays) != len(weights) or not decays:
        raise PrivacyViolation("a series has a threshold for each period, and a weight for each decay.")
    if differing < 1 or not 1 <= per_key <= len(coefficients) or sigma <= 0:
        raise PrivacyViolation("differing keys, periods for each key and sigma must be positive.")
    if not all(0 <= decay <= 1 for decay in decays):
        raise PrivacyViolation("decays are from 0 to 1.")
    if any(Fraction(float(number)) != number for number in (*decays, *weights)):
        raise PrivacyViolation("decays and weights must be floats, as they are computed with.")


def _check_floats(periods: int, largest: int, decays: Sequence[Fraction], weights: Sequence[Fraction]) -> None:
    """Step 5."""
    lost = Fraction(2 * periods + 2 * len(decays), 1 << 52) * (largest * periods + 1) * sum(map(abs, weights))
    if lost > 1:
        raise PrivacyViolation("the test of keys could be off by more than one unit of the noise.")
