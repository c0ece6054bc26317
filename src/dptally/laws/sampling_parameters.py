"""Rates and thresholds for sample-and-threshold: guessed in floating point, settled by the verifier.

Two facts make "smallest threshold" and "largest rate" well defined, and searches by halving right. Both hold because
what is reported with one parameter can be made from what is reported with the other, without looking at the data:

- A larger threshold: hide what is below it. So the exact delta never grows with the threshold.
- A smaller rate p' < p: keep each of the v reported units with probability p' / p, and hide the key if fewer than the
  threshold are left (keys that were hidden had fewer already). So the exact delta never falls with the rate.

The guess is the divergence of rows up to t / q alone (see `dptally.verifiers.sampling`), where the worst pair
nearly always is. A wrong guess costs time and nothing else.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from dptally.errors import InvalidParameter, PrivacyViolation
from dptally.exact.searching import first_from, first_near
from dptally.verifiers.sampling import certify_sampling

RATE_UNIT = 1 << 32
LARGEST_THRESHOLD = 1_000_000


@lru_cache(maxsize=256)
def smallest_threshold(epsilon: Fraction, delta: Fraction, rate: Fraction) -> int:
    """The smallest threshold with which this rate is (epsilon, delta)-private."""
    share, growth, allowed = float(rate), float(epsilon), float(delta)
    guess = first_from(lambda t: guessed_delta(share, t, growth) <= allowed, 1, LARGEST_THRESHOLD)
    found = first_near(lambda t: _passes(epsilon, delta, rate, t), guess, 1, LARGEST_THRESHOLD)
    if found is None:
        raise InvalidParameter(
            f"rate {float(rate):.6g} needs a threshold above {LARGEST_THRESHOLD:,} to keep epsilon and delta; "
            "choose a smaller rate."
        )
    return found


@lru_cache(maxsize=256)
def largest_rate(epsilon: Fraction, delta: Fraction, threshold: int) -> Fraction:
    """The largest multiple of 2^-32 with which this threshold is (epsilon, delta)-private."""
    guess = math.floor(_guessed_rate(float(epsilon), float(delta), threshold) * RATE_UNIT)
    # In terms of 2^32 - rate the search is for the smallest number that passes.
    found = first_near(
        lambda rest: _passes(epsilon, delta, Fraction(RATE_UNIT - rest, RATE_UNIT), threshold),
        min(max(RATE_UNIT - guess, 1), RATE_UNIT - 1),
        1,
        RATE_UNIT - 1,
    )
    if found is None:
        raise InvalidParameter(
            f"no rate of at least 2^-32 keeps epsilon and delta with threshold {threshold}; choose a larger threshold."
        )
    return Fraction(RATE_UNIT - found, RATE_UNIT)


@lru_cache(maxsize=256)
def best_pair(epsilon: Fraction, delta: Fraction) -> tuple[Fraction, int]:
    """The rate and threshold with the smallest threshold / rate: about the frequency that is reported half of the time.

    Thresholds are compared in floating point; the one taken gets its largest rate exactly.
    """
    growth, allowed = float(epsilon), float(delta)
    known: dict[int, float] = {}

    def score(threshold: int) -> float:
        if threshold not in known:
            rate = _guessed_rate(growth, allowed, threshold)
            known[threshold] = threshold / rate if rate * RATE_UNIT >= 1 else math.inf
        return known[threshold]

    threshold = 1
    while threshold < LARGEST_THRESHOLD and score(threshold) <= 2 * min(known.values()):
        threshold += threshold // 4 + 1
    # The score is wavy on a small scale: look at every threshold near the best of the coarse steps.
    coarse = min(known, key=score)
    step = max(1, coarse // 64)
    for candidate in range(max(1, coarse - coarse // 3), coarse + coarse // 3 + 2, step):
        score(candidate)
    best = min(known, key=score)
    return largest_rate(epsilon, delta, best), best


def _passes(epsilon: Fraction, delta: Fraction, rate: Fraction, threshold: int) -> bool:
    try:
        certify_sampling(rate, threshold, epsilon=epsilon, delta=delta)
    except PrivacyViolation:
        return False
    return True


# ---- floating point from here on: used to choose, never to guarantee ----


@lru_cache(maxsize=4096)
def _guessed_rate(epsilon: float, delta: float, threshold: int) -> float:
    low, high = 0.0, 1.0
    for _ in range(44):
        middle = (low + high) / 2
        low, high = (middle, high) if guessed_delta(middle, threshold, epsilon) <= delta else (low, middle)
    return low


def guessed_delta(rate: float, threshold: int, epsilon: float) -> float:
    """The largest divergence of rows k <= t / q, and of the other order up to t / q', in floating point."""
    miss, factor = 1 - rate, math.exp(epsilon)
    if rate <= 0 or miss <= 0:
        return 0.0 if rate <= 0 else 1.0
    up_last = max(threshold, math.floor(threshold / (1 - miss / factor)))
    down_share = 1 - factor * miss
    last = up_last
    if down_share > 0:  # up to where all but nothing is hidden
        last = max(last, math.floor((threshold + 12 * math.sqrt(threshold) + 80) / rate))
    # B_{k-1}(t - 1) for k = t .. last, and its sums, which are T_{k-1}(t).
    logs = log_factorials(last)
    trials = np.arange(threshold - 1, last)
    exponents = logs[trials] - logs[threshold - 1] - logs[trials - threshold + 1]
    exponents += (threshold - 1) * math.log(rate) + (trials - threshold + 1) * math.log1p(-rate)
    steps = rate * np.exp(exponents)
    over = np.cumsum(steps) - steps
    worst = float((steps - math.expm1(epsilon) * over)[: up_last - threshold + 1].max())
    if down_share > 0:
        under = np.cumsum(steps[::-1])[::-1]  # 1 - T_{k-1}(t), without a difference of nearly equal numbers
        down_last = min(last, max(threshold, math.floor(threshold / down_share)))
        worst = max(worst, float((factor * steps - math.expm1(epsilon) * under)[: down_last - threshold + 1].max()))
    return worst


_table: list[NDArray[np.float64]] = [np.zeros(2)]


def log_factorials(largest: int) -> NDArray[np.float64]:
    """ln(n!) for n = 0 .. at least `largest`."""
    if len(_table[0]) <= largest:
        _table[0] = np.concatenate([[0.0], np.cumsum(np.log(np.arange(1, 2 * largest + 2)))])
    return _table[0]
