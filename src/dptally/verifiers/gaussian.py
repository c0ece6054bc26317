"""The verifier of Gaussian noise with a threshold: every key of a unit at once, on the table in use.

This module shares no code with the builder of the table and reads nothing but the bytes that the compiled sampler
reads. Whoever doubts the guarantee needs to believe this file and the balls of FLINT.

The mechanism. A key of count 0 is never reported. A key of count c >= 1 is reported with value c + Z if that is at
least T, and not at all otherwise; Z is drawn for every key on its own from the table. Neighbours are data sets of which
one has counts that are one higher for at most l keys, and the same for all others.

1. Whole numbers cost nothing. Let N be Gaussian with mean 0 and deviation sigma, and Z = round(N). Then c + Z =
   round(c + N), and c + Z >= T if and only if c + N >= T - 1/2 (but for events of probability 0): the mechanism on
   whole numbers is the one on real numbers with threshold 1 + tau = T - 1/2, followed by rounding.

2. The mechanism on real numbers. Of the keys that differ, j have a count of 1 or more in the lower data set too, and k
   are missing there. Put F = Phi(tau / sigma), the probability that a key of count 1 is not reported, and

       h(j, e) = Phi(sqrt(j) / (2 sigma) - e sigma / sqrt(j)) - exp(e) Phi(-sqrt(j) / (2 sigma) - e sigma / sqrt(j)),
       h(0, e) = max(0, 1 - exp(e)),

   the divergence at e of two Gaussian laws whose means are sqrt(j) apart. Seeing a key that is missing in one data set
   gives the other away; seeing none of the k has probability F^k in the one and 1 in the other. What is seen of the
   other keys is at most the j noisy counts themselves. So the divergences of the two data sets at e, in the two orders,
   are at most (and for high counts arbitrarily near)

       G(j, k) = max(1 - F^k + F^k h(j, e - k log F),  h(j, e + k log F)).

   This is [LT25, Thm. 23] (and [WKZK24, Thm. 5.4]) with k = l - j. G grows with j and with k, because leaving keys out
   of what is seen cannot raise a divergence. Hence j + k = l stands for all j + k <= l, and

       G(j, l - j) <= G(b, l - a) for all a <= j <= b,

   which settles many j at once: intervals are halved until none can exceed the largest value found at a single j. The
   maximum is that of all j from 0 to l, however few of them are looked at.

3. The table. Let p be the law of round(N), q that of the table, eta = 2^-80, and

       v = sum of max(0, q(z) - p(z)),    w = sum of max(0, (1 - eta) p(z) - q(z)),

   over all whole numbers z; v is the distance of total variation, and w is little more than the tails that the table
   leaves out. Let T be a set of outcomes, and let A, B be the laws of the mechanism with p on two neighbours, A', B'
   those with q. Keys with the same count in both data sets are drawn from the same law in both and independently, so
   they multiply both sides alike and what follows holds given their outcomes, however many they are. The others are at
   most l, and A, B, A', B' are products of at most l laws. One factor of A is an image of p and becomes the same image
   of q: replacing them one after the other adds at most v each time, so A'(T) <= A(T) + l v. Likewise from (1 - eta)
   times a factor of B to the factor of B', where at most w is lost each time while all other factors have mass at most
   1: B'(T) >= (1 - eta)^l B(T) - l w. Together, with e = epsilon + l log(1 - eta),

       A'(T) - exp(epsilon) B'(T) <= A(T) - exp(e) B(T) + l (v + exp(epsilon) w) <= max_j G(j, l - j) + slack,

   slack = l (v + exp(epsilon) w). (With eta = 0, w would be v and slack (1 + exp(epsilon)) l v. The factor
   1 - eta takes the rounding in the middle of the table, which matters when exp(epsilon) is large.)

Where exactness ends. Parameters and table are exact integers and fractions. Phi, exp, log and square roots are balls of
FLINT [Joh17]: a midpoint and a radius that is proven to cover the true value. Every inequality is decided by the ends
of balls, with more digits where they overlap, and every number that is handed out is an upper end. There are no floats.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise

from flint import arb, ctx, fmpq

from dptally.errors import InvalidParameter, PrivacyViolation
from dptally.verifiers.tables import TABLE_BITS, Certificate

__all__ = [
    "SHARE", "MovedNoise", "above", "ball", "certify_gaussian_table", "gaussian_divergences", "joint_divergences",
    "table_distances", "thresholded_gaussian_delta", "working_precision",
]  # fmt: skip

_ENTRY = TABLE_BITS // 8
_WHOLE = 1 << TABLE_BITS
SHARE = 80  # eta = 2^-80
_FIRST_PRECISION, _LAST_PRECISION = 128, 1024
_GUARD_BITS = 40  # beyond the last bit of the table
_FRACTION_BITS = 512  # of the bounds that leave ball arithmetic
_BLOCK = 256  # entries that are computed with the same precision
_PRECISION_LOCK = threading.RLock()


@contextmanager
def working_precision(bits: int) -> Iterator[None]:
    """Compute balls with this many bits; one thread at a time, because FLINT has one precision for the whole process.

    Precision decides how wide balls are, never whether they hold.
    """
    with _PRECISION_LOCK, ctx.workprec(bits):
        yield


def certify_gaussian_table(
    table: bytes,
    *,
    reach: int,
    sigma: Fraction,
    threshold: int,
    differing: int,
    epsilon: Fraction,
    delta: Fraction,
) -> Certificate:
    """Verify the law "count + Z if at least the threshold" for units of several keys; see the module for the argument.

    The table holds 2R thresholds c_0 <= c_1 <= ... as little-endian 128-bit integers. With u uniform on 0 .. 2^128 - 1,
    D is the number of thresholds that are at most u, and Z = R - D, from -R to R.

    Args:
        table: the bytes that are drawn from.
        reach: R.
        sigma: deviation of the Gaussian law that the table is held against. It is not trusted: a table of other noise
            is far from it and is refused.
        threshold: T, the smallest value that is reported, at least 1.
        differing: l, how many keys one unit may touch.
        epsilon: positive, for the unit.
        delta: what must be kept, for the unit.

    Returns:
        Certificate: with `worst_pair` = (j, l): the worst neighbours differ in l keys, of which j have other units
            too; `rows_checked` is how many probabilities were compared, and the rest is for the unit with all its keys.

    Raises:
        PrivacyViolation: if the bytes are not a law, or delta is exceeded; the message says by what.
    """
    if threshold < 1 or differing < 1 or sigma <= 0:
        raise PrivacyViolation("threshold, differing keys and sigma must be positive.")
    masses = _masses_of(table, reach)
    more, less = _distances(masses, reach, sigma)
    with working_precision(_FIRST_PRECISION):
        slack = above(differing * (ball(more) + ball(epsilon).exp() * ball(less)))
    if slack >= delta:
        raise PrivacyViolation(
            f"the table is not the Gaussian law of deviation {float(sigma):.9g}: the difference alone costs "
            f"{float(slack):.6g} where {float(delta):.6g} is allowed."
        )
    found, shared = thresholded_gaussian_delta(
        sigma=sigma,
        threshold=threshold,
        differing=differing,
        epsilon=epsilon,
        allowed=delta - slack,
        shrink=Fraction(1, 1 << SHARE),
    )
    worst = found + slack
    if worst > delta:
        between = "noise and threshold are too small together"
        what = {0: "the threshold is too low", differing: "the noise is too small"}.get(shared, between)
        raise PrivacyViolation(
            f"the table exceeds its delta, {what}: {differing} differing keys, {shared} of which have other units too, "
            f"give {float(worst):.17g} where {float(delta):.17g} is allowed at epsilon {float(epsilon):.17g}."
        )
    return Certificate(
        epsilon=epsilon,
        delta=delta,
        worst_delta=worst,
        worst_pair=(shared, differing),
        rows_checked=len(masses),
        table_sha256=hashlib.sha256(b"%d;" % threshold + table).hexdigest(),
        copies=differing,
        total_epsilon=epsilon,
        total_delta=worst,
        judge="Gaussian noise, in ball arithmetic",
    )


def gaussian_divergences(
    table: bytes, *, reach: int, sigma: Fraction, differing: int, epsilon: Fraction, factors: Sequence[Fraction]
) -> list[Fraction]:
    """Upper bounds of the divergence without a threshold at epsilon + ln z, for each factor z: see `joint_divergences`.

    Raises:
        PrivacyViolation: the bytes are not a law.
    """
    if differing < 1 or sigma <= 0:
        raise PrivacyViolation("differing keys and sigma must be positive.")
    moved = MovedNoise(table, reach, sigma, differing)
    return joint_divergences([moved], square=differing / sigma**2, epsilon=epsilon, factors=factors)


@dataclass(frozen=True)
class MovedNoise:
    """Noise of one table, on so many numbers that a unit may move."""

    table: bytes
    reach: int
    sigma: Fraction
    numbers: int


def joint_divergences(
    noises: Sequence[MovedNoise], *, square: Fraction, epsilon: Fraction, factors: Sequence[Fraction]
) -> list[Fraction]:
    """Upper bounds of the divergence of numbers with independent noise at epsilon + ln z, for each factor z.

    Step 3 of the module without step 2, for several tables. Let a unit move numbers by integers d_i, each of which has
    noise of deviation s_i, with sum of (d_i / s_i)^2 <= `square` = mu^2. On real numbers, each over its deviation, the
    two laws are Gaussian of deviation 1 with means at most mu apart, whose divergence grows with the distance; rounding
    is done afterwards. So with h of step 2 for means mu apart, n_j numbers of table j that a unit may move,
    n = sum of n_j, and e = z exp(epsilon),

        A'(T) - e B'(T) <= h(mu, ln e + n log(1 - eta)) + sum over tables j of n_j (v_j + e w_j).

    Raises:
        PrivacyViolation: the bytes are not laws, or a number is not positive.
    """
    if square <= 0 or any(noise.numbers < 1 or noise.sigma <= 0 for noise in noises):
        raise PrivacyViolation("moved numbers, deviations and the distance must be positive.")
    distances = [_distances(_masses_of(noise.table, noise.reach), noise.reach, noise.sigma) for noise in noises]
    more = sum((noise.numbers * each[0] for noise, each in zip(noises, distances, strict=True)), Fraction(0))
    less = sum((noise.numbers * each[1] for noise, each in zip(noises, distances, strict=True)), Fraction(0))
    found = []
    with working_precision(_FIRST_PRECISION):
        shrunk = sum(noise.numbers for noise in noises) * (-arb((1, -SHARE))).log1p()
        step, grown = ball(square).sqrt(), ball(epsilon).exp()
        for factor in factors:
            exact = _shifted(step, ball(epsilon) + shrunk + ball(factor).log())
            found.append(above(exact + ball(more) + ball(factor) * grown * ball(less)))
    return found


def _phi(point: arb) -> arb:
    half = arb((1, -1))
    return half * (-point * half.sqrt()).erfc()


def _shifted(step: arb, epsilon: arb) -> arb:
    """The divergence at epsilon of two Gaussian laws of deviation 1 whose means are `step` apart."""
    offset, middle = epsilon / step, step * arb((1, -1))
    return _phi(middle - offset) - epsilon.exp() * _phi(-middle - offset)


def table_distances(table: bytes, *, reach: int, sigma: Fraction) -> tuple[int, Fraction, Fraction]:
    """How many probabilities a table has, and upper bounds of v and w of step 3.

    Raises:
        PrivacyViolation: the bytes are not a law.
    """
    masses = _masses_of(table, reach)
    return len(masses), *_distances(masses, reach, sigma)


def _masses_of(table: bytes, reach: int) -> list[int]:
    """P[D = 0], P[D = 1], ... in units of 2^-128."""
    if len(table) != 2 * reach * _ENTRY:
        raise PrivacyViolation("the table does not consist of 2 R entries of 128 bits.")
    reached = [int.from_bytes(table[at : at + _ENTRY], "little") for at in range(0, len(table), _ENTRY)]
    masses = [here - before for before, here in zip([0, *reached], [*reached, _WHOLE], strict=True)]
    if min(masses) < 0:
        raise PrivacyViolation("the table is not a law: its thresholds decrease.")
    return masses


def thresholded_gaussian_delta(
    *,
    sigma: Fraction,
    threshold: int,
    differing: int,
    epsilon: Fraction,
    allowed: Fraction | None = None,
    shrink: Fraction = Fraction(0),
) -> tuple[Fraction, int]:
    """An upper bound of max_j G(j, l - j) for the rounded Gaussian law itself, and the j that attains it.

    Args:
        sigma: deviation of the noise.
        threshold: T, the smallest whole number that is reported; tau = T - 3/2.
        differing: l.
        epsilon: at which the divergence is taken.
        allowed: digits are added until the bound is known to be at most this, or known to exceed it; a j that exceeds
            it ends the search. None for the maximum with the first precision that gives 32 good bits.
        shrink: eta; epsilon is replaced by epsilon + l log(1 - eta).

    Returns:
        tuple: the upper bound and j.
    """
    if differing < 1 or sigma <= 0:
        raise InvalidParameter("differing and sigma must be positive.")
    precision = _FIRST_PRECISION
    while True:
        with working_precision(precision):
            best, shared = _Divergence(sigma, threshold, differing, epsilon, shrink).largest(allowed)
            upper, lower = above(best), -above(-best)
        decided = (lower > allowed or upper <= allowed) if allowed is not None else upper - lower <= upper / (1 << 32)
        if decided or precision >= _LAST_PRECISION:
            return upper, shared
        precision *= 2


class _Divergence:
    """G(j, k) of the module, in balls of the working precision at the time."""

    def __init__(self, sigma: Fraction, threshold: int, differing: int, epsilon: Fraction, shrink: Fraction) -> None:
        self.differing = differing
        self.sigma = ball(sigma)
        self.epsilon = ball(epsilon) + differing * (-ball(shrink)).log1p()
        margin = ball(threshold - Fraction(3, 2)) / self.sigma
        # log F; by the upper tail where that is small, by F itself where that is.
        self.hidden = (-_phi(-margin)).log1p() if threshold > 1 else _phi(margin).log()

    def _gaussian(self, shared: int, epsilon: arb) -> arb:
        """h(j, e)."""
        if shared == 0:
            return (-epsilon.expm1()).max(arb(0))
        return _shifted(arb(shared).sqrt() / self.sigma, epsilon)

    def lost(self, shared: int, missing: int) -> arb:
        """From the data set with the missing keys to the one without: 1 - F^k + F^k h(j, e - k log F)."""
        hidden = missing * self.hidden
        return -hidden.expm1() + hidden.exp() * self._gaussian(shared, self.epsilon - hidden)

    def gained(self, shared: int, missing: int) -> arb:
        """The other way: h(j, e + k log F)."""
        return self._gaussian(shared, self.epsilon + missing * self.hidden)

    def at(self, shared: int, missing: int) -> arb:
        """G(j, k)."""
        return self.lost(shared, missing).max(self.gained(shared, missing))

    def largest(self, allowed: Fraction | None) -> tuple[arb, int]:
        """The largest G(j, l - j) and its j; the first one found that certainly exceeds `allowed`, if there is one."""
        best, best_shared = self.at(0, self.differing), 0
        limit = None if allowed is None else ball(allowed)
        if limit is not None and best > limit:
            return best, best_shared
        last = self.at(self.differing, 0)
        if last.upper() > best.upper():
            best, best_shared = last, self.differing
        # Invariant: every j is one of those looked at, in a waiting interval, or in one that cannot exceed `best`.
        waiting = [(1, self.differing - 1)]
        while waiting and not (limit is not None and best > limit):
            low, high = waiting.pop()
            if low > high or self.at(high, self.differing - low).upper() <= best.upper():
                continue
            middle = (low + high) // 2
            here = self.at(middle, self.differing - middle)
            if here.upper() > best.upper():
                best, best_shared = here, middle
            waiting += [(low, middle - 1), (middle + 1, high)]
        return best, best_shared


def _distances(masses: list[int], reach: int, sigma: Fraction) -> tuple[Fraction, Fraction]:
    """Upper bounds of v and w: how much more, and how much less, the table has than the rounded Gaussian law."""
    more = less = Fraction(0)
    for start in range(0, reach + 1, _BLOCK):
        # Bits below 2^-168 would be wasted, so blocks farther out take fewer: P[N > x sigma] < exp(-x^2 / 2).
        leading = max(0, 2 * start - 1) ** 2 * 10 // (7 * 8 * sigma**2)
        with working_precision(max(32, TABLE_BITS + _GUARD_BITS - leading)):
            zero, share = arb(0), arb((1, -SHARE))
            over = under = zero  # in units of 2^-128
            for distance, mass in enumerate(_gaussian_masses(start, min(start + _BLOCK, reach + 1), sigma), start):
                for place in {reach - distance, reach + distance}:
                    excess = masses[place] - mass
                    over += excess.upper().max(zero)
                    under += (-excess - mass * share).upper().max(zero)
            more += above(over)
            less += above(under)
    with working_precision(_FIRST_PRECISION):
        cut = above((ball(2 * reach + 1) / ball(sigma) * ball(Fraction(1, 8)).sqrt()).erfc())
    return more / _WHOLE, less / _WHOLE + cut


def _gaussian_masses(start: int, stop: int, sigma: Fraction) -> list[arb]:
    """P[round(N) = z] in units of 2^-128 for z = start .. stop - 1."""
    scale = ball(1 / sigma) * ball(Fraction(1, 8)).sqrt()  # (2 z + 1) / (sigma sqrt 8) = (z + 1/2) / (sigma sqrt 2)
    half_whole = arb((1, TABLE_BITS - 1))
    tails = [half_whole * (odd * scale).erfc() for odd in range(2 * start - 1, 2 * stop, 2)]
    return [here - after for here, after in pairwise(tails)]


def ball(number: Fraction | int) -> arb:
    """A number as a ball of the working precision."""
    return arb(fmpq(number.numerator, number.denominator))


def above(ball: arb) -> Fraction:
    """The upper end of a ball, rounded up to a multiple of 2^-512; refuses what is not finite."""
    if not ball.is_finite():
        raise PrivacyViolation("the divergence of the table could not be bounded.")
    mantissa, exponent = (int(part) for part in ball.upper().man_exp())
    shift = exponent + _FRACTION_BITS
    # Python shifts to the right towards minus infinity, so that negating twice rounds up.
    units = mantissa << shift if shift >= 0 else -(-mantissa >> -shift)
    return Fraction(units, 1 << _FRACTION_BITS)
