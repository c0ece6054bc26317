"""Rate and threshold for sample-and-threshold in several rounds: guessed in floating point, settled by a verifier.

Three ways to see to it that all rounds together are (epsilon, delta)-private:

- "basic": each round (epsilon / l, delta / l). What [BC22, Lem. 7] proves.
- "optimal": each round (e, d), where l arbitrary mechanisms of that kind are private together by [KOV15, Thm. 3.3]; the
  (e, d) of its curve with the smallest threshold / rate is taken, found on a grid.
- "exact": what l rounds of this very law lose, by `dptally.verifiers.rounds`.

The rate of "exact" is the guessed one less one part in 2048, or less than that where the verifier refuses it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from dptally.errors import InvalidParameter, PrivacyViolation
from dptally.laws.sampling_parameters import RATE_UNIT, best_pair, log_factorials
from dptally.privacy.composition import largest_key_delta, share_between_keys
from dptally.verifiers.rounds import STEPS, certify_rounds
from dptally.verifiers.sampling import certify_sampling
from dptally.verifiers.tables import Certificate, certify_copies

Composition = Literal["exact", "optimal", "basic"]
COMPOSITIONS = ("exact", "optimal", "basic")
_FINEST = 1 << 12
_LARGEST_THRESHOLD = 4096
_FARTHEST = 12 * STEPS


@dataclass(frozen=True)
class RoundLaw:
    """What each of several rounds draws from, and why all of them together are private."""

    rate: Fraction  # of sampling, in each round; a multiple of 2^-32
    threshold: int  # the smallest count that is reported
    rounds: int  # how many rounds there may be
    composition: Composition  # "exact", "optimal" or "basic"
    round_epsilon: Fraction  # at which one round is verified; for "exact" that of all rounds
    certificate: Certificate  # for all rounds together


def choose_round_law(epsilon: Fraction, delta: Fraction, rounds: int, composition: Composition = "exact") -> RoundLaw:
    """The law with about the smallest threshold / rate, verified for all rounds together."""
    if composition not in COMPOSITIONS:
        raise InvalidParameter(f"composition must be one of {', '.join(map(repr, COMPOSITIONS))}, got {composition!r}.")
    return _choose(epsilon, delta, rounds, composition)


@lru_cache(maxsize=64)
def _choose(epsilon: Fraction, delta: Fraction, rounds: int, composition: Composition) -> RoundLaw:
    if rounds > 1 and composition == "exact":
        return _exact(epsilon, delta, rounds)
    if rounds > 1 and composition == "optimal":
        share = _best_share(epsilon, delta, rounds)
    else:
        share = epsilon / rounds, delta / rounds
    if share[0] < Fraction(1, 1000):
        raise InvalidParameter(
            f"epsilon leaves each of {rounds} rounds less than 1/1000, below which no table is verified; "
            "choose fewer levels or `composition='exact'`."
        )
    rate, threshold = best_pair(*share)
    return certify_round_law(rate, threshold, rounds, composition, share[0], epsilon=epsilon, delta=delta)


def certify_round_law(
    rate: Fraction,
    threshold: int,
    rounds: int,
    composition: Composition,
    round_epsilon: Fraction,
    *,
    epsilon: Fraction,
    delta: Fraction,
) -> RoundLaw:
    """Verify a law that was chosen before, for all rounds together."""
    if composition == "exact" and rounds > 1:
        certificate = certify_rounds(rate, threshold, rounds=rounds, epsilon=epsilon, delta=delta)
        return RoundLaw(rate, threshold, rounds, composition, epsilon, certificate)
    one = certify_sampling(rate, threshold, epsilon=round_epsilon, delta=delta)
    if composition == "basic" and rounds > 1:
        total = rounds * one.worst_delta
        if rounds * round_epsilon > epsilon or total > delta:
            raise PrivacyViolation(f"{rounds} rounds together exceed epsilon or delta by basic composition.")
        certificate = replace(one, copies=rounds, total_epsilon=epsilon, total_delta=total)
    else:
        certificate = certify_copies(one, copies=rounds, epsilon=epsilon, delta=delta)
    return RoundLaw(rate, threshold, rounds, composition, round_epsilon, certificate)


def _best_share(epsilon: Fraction, delta: Fraction, rounds: int) -> tuple[Fraction, Fraction]:
    """The (e, d) of the curve of [KOV15] with the smallest threshold / rate, among a few."""
    middle = share_between_keys(epsilon, delta, rounds)
    found = [middle]
    for eighth in range(9):
        point = epsilon / rounds + (middle[0] - epsilon / rounds) * eighth / 6
        key_delta = largest_key_delta(point, epsilon, delta, rounds)
        if key_delta >= Fraction(1, 2**64):
            found.append((point, Fraction(math.floor(key_delta * 2**128), 2**128)))

    def reach(share: tuple[Fraction, Fraction]) -> Fraction:
        rate, threshold = best_pair(*share)
        return threshold / rate

    return min((share for share in found if share[0] >= Fraction(1, 1000)), key=reach, default=middle)


def _exact(epsilon: Fraction, delta: Fraction, rounds: int) -> RoundLaw:
    """Guess the best pair, then lower the rate until the verifier accepts it."""
    guess, threshold = _guessed_pair(float(epsilon), float(delta), rounds)

    def judged(parts: int) -> RoundLaw | None:
        rate = Fraction(math.floor(guess * RATE_UNIT * parts / _FINEST), RATE_UNIT)
        try:
            return certify_round_law(rate, threshold, rounds, "exact", epsilon, epsilon=epsilon, delta=delta)
        except PrivacyViolation:
            return None

    step = 2
    parts = _FINEST - step
    while parts > 0:  # the guess leaves out rows; it is off by little, and steps that double make up for more
        found = judged(parts)
        if found is not None:
            return found
        step *= 2
        parts -= step
    raise InvalidParameter(f"no rate was found with which {rounds} rounds keep epsilon and delta.")


# ---- floating point from here on: used to choose, never to guarantee ----


def _guessed_pair(epsilon: float, delta: float, rounds: int) -> tuple[float, int]:
    known: dict[int, float] = {}

    def score(threshold: int) -> float:
        if threshold not in known:
            known[threshold] = _guessed_rate(epsilon, delta, rounds, threshold)
        return threshold / known[threshold] if known[threshold] * RATE_UNIT >= 1 else math.inf

    threshold = 2
    best = math.inf
    while threshold < _LARGEST_THRESHOLD and (score(threshold) <= 1.5 * best or math.isinf(best)):
        best = min(best, score(threshold))
        threshold += threshold // 4 + 1
    coarse = min(known, key=score)
    for near in range(max(1, coarse - coarse // 4), coarse + coarse // 4 + 2, max(1, coarse // 12)):
        score(near)
    chosen = min(known, key=score)
    return _guessed_rate(epsilon, delta, rounds, chosen, most_rows=4000), chosen


def _guessed_rate(epsilon: float, delta: float, rounds: int, threshold: int, most_rows: int = 600) -> float:
    """The rate at which the guessed delta of all rounds is delta."""
    low, high = math.log(1e-6), math.log(0.9)
    for _ in range(16):
        middle = (low + high) / 2
        found = _guessed_delta(math.exp(middle), threshold, rounds, epsilon, delta, most_rows)
        low, high = (middle, high) if found <= delta else (low, middle)
    return math.exp(low)


def _guessed_delta(rate: float, threshold: int, rounds: int, epsilon: float, delta: float, most_rows: int) -> float:
    """What `dptally.verifiers.rounds` finds, in floats, from the rows where the worst pairs nearly always are."""
    step = epsilon / STEPS
    up, down = _guessed_profiles(rate, threshold, step, most_rows)
    if up[STEPS] > delta / rounds:  # one pass of each round through this alone is too much
        return 1.0
    negligible = delta / (1024 * rounds)
    up, down = (profile[: _length(profile, negligible)] for profile in (up, down))
    worst = 0.0
    for forth, back in ((up, down), (down, up)):
        factors = np.exp(-step * np.arange(len(back) - 1, 0, -1))
        bounds = np.concatenate([1 - factors * (1 - back[:0:-1]), forth])
        drops = np.concatenate([[1 - bounds[0]], -np.diff(bounds), [0.0]])
        rest = 1 / math.expm1(step)
        weights = (1 + rest) * drops[:-1] - rest * drops[1:]
        weights[0] -= rest * drops[0]
        weights = np.maximum(weights, 0)
        total = _power(weights, rounds)
        places = np.arange(len(total)) - rounds * (len(back) - 1)
        over = places > STEPS
        excess = float((total[over] * -np.expm1(step * (STEPS - places[over]))).sum())
        worst = max(worst, rounds * float(bounds[-1]) + excess)
    return worst


def _length(profile: NDArray[np.float64], negligible: float) -> int:
    """How much of a profile is used: to the first number that is negligible, at least two."""
    small = np.flatnonzero(profile[1:] <= negligible)
    return int(small[0]) + 2 if len(small) else len(profile)


def _power(weights: NDArray[np.float64], exponent: int) -> NDArray[np.float64]:
    """The convolution of `exponent` copies."""
    result = weights
    for digit in f"{exponent:b}"[1:]:
        result = np.convolve(result, result)
        if digit == "1":
            result = np.convolve(result, weights)
    return result


def _guessed_profiles(
    rate: float, threshold: int, step: float, most_rows: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Both profiles at e^(j step), from rows in which the threshold alone decides."""
    last = math.floor((threshold + 8 * math.sqrt(threshold) + 16) / rate)
    trials = np.linspace(threshold - 1, last, min(last - threshold + 2, most_rows)).astype(np.int64)
    logs = log_factorials(last)
    exponents = logs[trials] - logs[threshold - 1] - logs[trials - threshold + 1]
    steps = rate * np.exp(exponents + (threshold - 1) * math.log(rate) + (trials - threshold + 1) * math.log1p(-rate))
    # T_{k-1}(t) is the sum of the steps before k, here by the trapezoidal rule, which is exact if no row is left out.
    over = np.concatenate([[0.0], np.cumsum((steps[1:] + steps[:-1]) / 2 * np.diff(trials))]) + (steps[0] - steps) / 2
    growth = np.exp(step * np.arange(_FARTHEST + 1))[:, np.newaxis]
    rows = trials + 1
    up = steps - (growth - 1) * over
    up[rows > threshold / np.maximum(1 - (1 - rate) / growth, 1e-300) + 1] = 0
    down = growth * steps - (growth - 1) * (over[-1] - over)
    down[(rows * (1 - growth * (1 - rate)) > threshold) | np.broadcast_to(growth * (1 - rate) >= 1, down.shape)] = 0
    return np.maximum(up.max(axis=1), 0), np.maximum(down.max(axis=1), 0)
