"""The verifier of what is released from sketches: exact privacy loss of the noise table that is drawn from.

Like `dptally.verifiers.tables`, this shares no code with the builders of tables. It relies on two facts about sketches
of neighbouring streams, which are proved in [LT25] and checked in `tests/exact/test_sketch_lemmas.py` by enumeration on
the sketches themselves; everything about noise is computed here from the bytes that are drawn from.
"""

from __future__ import annotations

import hashlib
from fractions import Fraction
from itertools import pairwise

from dptally.errors import PrivacyViolation
from dptally.verifiers.tables import TABLE_BITS, Certificate, exp_lower, exp_upper

__all__ = ["certify_shared_noise", "certify_summed_noise"]

_ENTRY = TABLE_BITS // 8
_WHOLE = 1 << TABLE_BITS
_SCALE = 512


def certify_shared_noise(
    table: bytes, *, threshold: int, ones: int, zeros: int, elements: int, epsilon: Fraction, delta: Fraction
) -> Certificate:
    """Verify "counter + L + eta if at least the threshold", L fresh for each key, eta shared by all keys.

    The table holds the law of L and of eta: thresholds c_0 <= c_1 <= ... of 128 bits, P[D <= d] = c_d / 2^128, and the
    noise is R - D, where 2R is the number of thresholds.

    What is used about sketches T, c and T', c' of streams of which one has one element more [LT25, Lem. 8]. There are
    counters b on T' with (i) b = c on T and T' both; (ii) b and c' differ by one in one counter, or by one in all of
    them and in the same direction; (iii) the keys of T alone can be paired with the keys of T' alone so that c and b
    agree on each pair, where at most `ones` of these counters are 1 and at most `zeros` of them are 0. (For Algorithm 1
    ones = zeros = 1, and zeros = 0 for a single counter; where zero counters are dropped, ones = k and zeros = 0, with
    empty places counted as keys of T' that are never reported.)

    Statement. Let p be the law of the noise and F its distribution function. One element more or less is protected with

        d = P[some paired key is reported] + max(H(p, p moved by 1), H(p, p moved by -1)),

        P[some paired key is reported] = 1 - sum_e p(e) F(t - 2 - e)^ones F(t - 1 - e)^zeros,

    where H is the hockey-stick divergence at epsilon / `elements`, and t the threshold.

    Proof. Give paired keys the same noise. Then the two releases, from (T, c) and from (T', b), are equal unless a
    paired key is reported; so the probability of any event changes by at most the first term. From (T', b) to (T', c'),
    fix all noise but that of the one counter, or but eta if all counters move: the release is then a function of one
    noise that is moved by 1, whose events change by a factor of at most e^epsilon and by H. For streams that differ by
    m = `elements` elements, apply this m times: epsilon adds up and d becomes d (1 + e^(epsilon/m) + ... +
    e^((m-1) epsilon/m)), which is below the m e^epsilon d of [LT25, Lem. 19].

    The first term cannot be left out: it is the divergence of two sketches that do occur, so for unbounded geometric
    noise, where H = 0, no smaller threshold keeps delta.

    Raises PrivacyViolation if the bytes are not a law, or delta is exceeded.
    """
    share = epsilon / elements
    masses = _masses(table)
    reach = len(masses) // 2
    reached = [0]
    for mass in reversed(masses):  # from noise -R up
        reached.append(reached[-1] + mass)

    def at_most(noise: int) -> int:
        """F in units of 2^-128."""
        return reached[min(max(noise + reach + 1, 0), 2 * reach + 1)]

    hidden = 0  # sum_e p(e) F(..)^ones F(..)^zeros, rounded down, in units of 2^-512
    for drop, mass in enumerate(masses):
        shared = reach - drop
        quiet = _power(at_most(threshold - 2 - shared), ones) * _power(at_most(threshold - 1 - shared), zeros)
        hidden += (mass * (quiet >> _SCALE)) >> TABLE_BITS
    reported = Fraction((1 << _SCALE) - hidden, 1 << _SCALE)
    one_element = reported + _step_loss(masses, share)
    total = one_element * _group_factor(share, elements)
    if total > delta:
        raise PrivacyViolation(
            f"the table exceeds its delta: a key that only one stream has is reported with probability "
            f"{float(reported):.17g}, and {float(total):.17g} in all is more than {float(delta):.17g}."
        )
    digest = hashlib.sha256(b"shared noise %d %d %d;" % (threshold, ones, zeros) + table).hexdigest()
    return Certificate(
        epsilon=share,
        delta=delta,
        worst_delta=one_element,
        worst_pair=(1, 0),
        rows_checked=len(masses),
        table_sha256=digest,
        copies=elements,
        total_epsilon=epsilon,
        total_delta=total,
        judge="noise of its own and shared noise",
    )


def certify_summed_noise(
    table: bytes, *, threshold: int, grid: int, distance: Fraction, epsilon: Fraction, delta: Fraction
) -> Certificate:
    """Verify counters with fractions: rounded at random to a grid, noise added, kept from the threshold on.

    A key of counter y >= 0 (a fraction) is rounded to U = floor(g y) or the whole number above, so that E[U] = g y; if
    U is 0 it is not reported, otherwise U + Z is reported if it is at least `threshold`. `grid` is g; Z has the law of
    the table, as in `certify_shared_noise`. Keys are treated independently. Neighbouring data sets have counters whose
    absolute differences add up to at most `distance`.

    Statement. With p the law of Z, rho the largest ratio of neighbouring masses, r = P[1 + Z >= threshold], e the
    larger of the masses at the two ends, and x = g * distance, this is (epsilon, delta)-differentially private if

        x (rho - 1) <= epsilon,   max_{0 <= y <= x} y e^{(x - y)(rho - 1)} r + x e^epsilon e <= delta.

    Proof. Let Q_u be the law of what is reported for g y = u. Between whole numbers i and i + 1 it is the mixture of
    Q_i and Q_{i+1} that is linear in u. Moving u to u' in there changes an event's probability by |u' - u| |Q_{i+1} -
    Q_i|. For i >= 1, Q_{i+1} <= rho Q_i + e and the other way round, since one is the other with Z moved by one; so the
    change is at most |u' - u| ((rho - 1) Q_u + e), and Q_u' <= e^{|u' - u| (rho - 1)} Q_u + |u' - u| e. For i = 0, Q_0
    never reports and Q_1 reports with probability r; so the change is at most |u' - u| r. Walk from one data set to the
    other key by key and cell by cell, x in all. If y of it is in cells i = 0, the factors of the rest are at most e^{(x
    - y)(rho - 1)} together, and each additive term is multiplied by no more than all factors.

    Raises PrivacyViolation if the bytes are not a law, or epsilon or delta is exceeded.
    """
    masses = _masses(table)
    if min(masses) < 1:
        raise PrivacyViolation("the table has an outcome without mass inside its support.")
    ratio = max(max(Fraction(high, low), Fraction(low, high)) for high, low in pairwise(masses))
    length = grid * distance
    spent = length * (ratio - 1)
    if spent > epsilon:
        raise PrivacyViolation(
            f"the table exceeds its epsilon: {float(spent):.17g} where {float(epsilon):.17g} is allowed."
        )
    reach = len(masses) // 2
    reported = Fraction(sum(masses[: max(0, reach - (threshold - 1) + 1)]), _WHOLE)  # D <= R - (t - 1)
    # y e^{(x - y) c} grows with y while y < 1 / c: its largest value on [0, x] is x, or e^{x c - 1} / c if x c > 1.
    first = length
    if spent > 1:
        top, one = exp_upper(spent - 1)
        first = Fraction(top, one) / (ratio - 1)
    top, one = exp_upper(epsilon)
    ends = Fraction(max(masses[0], masses[-1]), _WHOLE)
    total = first * reported + length * Fraction(top, one) * ends
    if total > delta:
        raise PrivacyViolation(
            f"the table exceeds its delta: {float(total):.17g} where {float(delta):.17g} is allowed."
        )
    head = b"summed noise %d %d %d/%d;" % (threshold, grid, distance.numerator, distance.denominator)
    return Certificate(
        epsilon=epsilon,
        delta=delta,
        worst_delta=total,
        worst_pair=(1, 0),
        rows_checked=len(masses),
        table_sha256=hashlib.sha256(head + table).hexdigest(),
        copies=1,
        total_epsilon=epsilon,
        total_delta=total,
        judge="noise on counters with fractions",
    )


def _masses(table: bytes) -> list[int]:
    """Masses of D = 0 .. 2R in units of 2^-128."""
    if len(table) % (2 * _ENTRY) or not table:
        raise PrivacyViolation("the table does not consist of an even number of 128-bit entries.")
    thresholds = [int.from_bytes(table[at : at + _ENTRY], "little") for at in range(0, len(table), _ENTRY)]
    masses = [here - before for before, here in zip([0, *thresholds], [*thresholds, _WHOLE], strict=True)]
    if min(masses) < 0:
        raise PrivacyViolation("the table is not a law: its thresholds decrease.")
    return masses


def _step_loss(masses: list[int], epsilon: Fraction) -> Fraction:
    """The larger divergence of the noise from itself moved by one, either way."""
    growth, one = exp_lower(epsilon)
    worst = 0
    for first, second in (([*masses, 0], [0, *masses]), ([0, *masses], [*masses, 0])):
        excess = sum(max(0, one * here - growth * there) for here, there in zip(first, second, strict=True))
        worst = max(worst, excess)
    return Fraction(worst, one * _WHOLE)


def _power(share: int, exponent: int) -> int:
    """(share / 2^128)^exponent in units of 2^-512, rounded down."""
    result, square = 1 << _SCALE, share << (_SCALE - TABLE_BITS)
    while exponent:
        if exponent & 1:
            result = (result * square) >> _SCALE
        square = (square * square) >> _SCALE
        exponent >>= 1
    return result


def _group_factor(share: Fraction, elements: int) -> Fraction:
    """An upper bound of 1 + e^share + ... + e^((elements - 1) share)."""
    top, one = exp_upper(share)
    total = power = one
    for _ in range(elements - 1):
        power = -(-power * top // one)
        total += power
    return Fraction(total, one)
