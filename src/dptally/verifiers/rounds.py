"""The verifier of sample-and-threshold in several rounds: the exact profile of one round, composed exactly.

One round is verified by `dptally.verifiers.sampling` at one factor. Here it is verified at many, which says far more
than "(e, d)-private": nearly all of the privacy loss of a round is close to 0, and that is what adds up slowly.

The profile. For a factor a > 0 let h(a) be the largest divergence H_a(P, Q) = sum of max(0, P(v) - a Q(v)) over all
pairs of rows (P, Q) = (row k, row k - 1), for every k, of one round; and h'(a) that of the pairs (row k - 1, row k).
Both are convex, do not grow with a, and are 1 at a = 0. As H_a(P, Q) = 1 - a + a H_{1/a}(Q, P), it suffices to know
both for a >= 1. At a = 1 the divergence is p B_{k-1}(m - 1) with m = max(t, floor(k p) + 1). For k p < t this is at
most p times the largest B_n(t - 1), which is attained at n = floor((t - 1) / p); for larger k it is at most p times the
largest probability of B_{k-1}, which never grows with k.

Rounds are added up by the measure above this profile, for which `dptally.verifiers.loss_measures` has the argument:
it holds for rounds that depend on the outcomes of earlier ones.
"""

from __future__ import annotations

import hashlib
import math
from fractions import Fraction

from dptally.errors import PrivacyViolation
from dptally.verifiers.loss_measures import ONE, SCALE, LossMeasure, composed, delta_at, measure_above
from dptally.verifiers.sampling import largest_divergence, sampling_digest
from dptally.verifiers.tables import Certificate

__all__ = ["LARGEST_ROUNDS", "STEPS", "certify_rounds", "composed_delta", "sampling_profile"]

LARGEST_ROUNDS = 64
STEPS = 24  # epsilon is this many steps g: more make the bound tighter, and the verifier slower
_FARTHEST = 12 * STEPS
_RATE_ONE = 1 << 32
_LOWEST, _HIGHEST = 6, 12  # times epsilon: losses beyond are merged
_MOST_TRIALS = 1 << 17  # whole powers beyond are too long


def certify_rounds(
    rate: Fraction, threshold: int, *, rounds: int, epsilon: Fraction, delta: Fraction, steps: int = STEPS
) -> Certificate:
    """Verify `rounds` rounds of "keep each unit with probability `rate`, report counts from `threshold` on".

    In each round a unit counts once for at most one key, and is kept by a coin of its own for this round.

    The rate is a multiple of 2^-32 strictly between 0 and 1, the threshold at least 1, and there are at most 64 rounds;
    epsilon and delta are for all of them together, and so are `worst_delta` and `total_delta` of the certificate.
    `steps` says how finely the profile is taken. Raises PrivacyViolation if the rounds exceed delta.
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
    negligible = math.floor(delta * ONE) // (1024 * rounds)
    step = epsilon / steps
    up = sampling_profile(rate, threshold, step, "up", negligible)
    down = sampling_profile(rate, threshold, step, "down", negligible)
    both = [_compose(measure_above(*pair, step), rounds, step, steps) for pair in ((up, down), (down, up))]
    return Fraction(max(both), ONE), len(up) + len(down) - 1


def sampling_profile(rate: Fraction, threshold: int, step: Fraction, order: str, negligible: int) -> list[int]:
    """Upper bounds of the profile at e^(j step), j = 0, 1, ..., to where it is negligible; they never grow."""
    found = [_total_variation(rate, threshold)]
    while len(found) < 2 or (found[-1] > negligible and len(found) <= _FARTHEST):
        worst, _, _ = largest_divergence(rate, threshold, epsilon=len(found) * step, enough=Fraction(1), orders=order)
        found.append(min(found[-1], math.ceil(worst * ONE)))
    return found


def _total_variation(rate: Fraction, threshold: int) -> int:
    """An upper bound of the profile at 1, which is the same for both orders."""
    if threshold / rate > _MOST_TRIALS:
        return math.ceil(rate * ONE)  # no probability is above 1
    at_threshold = _mass_up(math.floor((threshold - 1) / rate), threshold - 1, rate)
    trials = math.ceil(threshold / rate) - 1
    beyond = _mass_up(trials, math.floor((trials + 1) * rate), rate)
    return math.ceil(rate * max(at_threshold, beyond))


def _mass_up(trials: int, hits: int, rate: Fraction) -> int:
    """P[Binomial(trials, rate) = hits], rounded up, from whole powers."""
    kept = int(rate * _RATE_ONE)
    ways: int = math.comb(trials, hits) * kept**hits * (_RATE_ONE - kept) ** (trials - hits)
    return -(-(ways << SCALE) >> (32 * trials))


def _compose(one: LossMeasure, rounds: int, step: Fraction, steps: int) -> int:
    """delta(epsilon) of `rounds` rounds, with epsilon = `steps` steps, in units of 2^-320."""
    all_rounds = one
    for _ in range(rounds - 1):  # one at a time: certificates in files have these very roundings
        all_rounds = composed(all_rounds, one).clipped(-_LOWEST * steps, _HIGHEST * steps)
    return delta_at(all_rounds, step, steps * step)
