"""How much one key may spend when a unit touches several.

[KOV15, Thm. 3.3], read as a condition on (e, d) for given (epsilon, delta) and number of keys l: l mechanisms, each
(e, d)-differentially private, are together (epsilon, delta)-private if and only if

    delta >= 1 - (1 - d)^l (1 - R(e)),
    R(e) = sum_{j=0..l} C(l, j) max(0, exp((l-j) e) - exp(epsilon + j e)) / (1 + exp(e))^l.

There is a whole curve of pairs (e, d) to choose from, from e = epsilon / l upwards. Any point of the curve is private;
which one is taken decides how many keys are reported. The choice is made once, in floating point, for a reference
population and never looks at data; d is then computed from e in integers, rounded down, and the verifier checks the
result with a different formula.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache

from dptally.exact import exp_bounds

__all__ = ["LARGEST_UNIT", "largest_key_delta", "share_between_keys"]

LARGEST_UNIT = 10_000  # keys per unit; beyond it the exact sums take minutes
_SCALE = 512
_GRID = 40


@lru_cache(maxsize=256)
def share_between_keys(epsilon: Fraction, delta: Fraction, keys: int) -> tuple[Fraction, Fraction]:
    """Choose (e, d) for each of `keys` keys, so that together they are (epsilon, delta)-differentially private.

    The e taken maximises the expected number of reported keys of a reference population in which the number of keys of
    frequency w falls like 1/w^2 (Zipf's law with exponent 1). Returns exact e and d for one key; ``(epsilon, delta)``
    itself when `keys` is 1.
    """
    if keys == 1:
        return epsilon, delta
    smallest = epsilon / keys
    # Beyond this e, R alone exceeds delta. The bisection is in floats; what it returns is verified exactly below.
    low, high = float(smallest), float(epsilon)
    for _ in range(80):
        middle = (low + high) / 2
        if _excess(middle, keys, float(epsilon)) < float(delta):
            low = middle
        else:
            high = middle
    start, width = float(smallest), low - float(smallest)
    best = start
    for _ in range(3):  # a grid, then two finer ones around the best point
        points = [start + width * step / _GRID for step in range(_GRID + 1)]
        best = max(points, key=lambda point: _score(point, keys, float(epsilon), float(delta)))
        start, width = max(float(smallest), best - width / _GRID), 2 * width / _GRID
    chosen = max(smallest, Fraction(math.floor(best * 2**60), 2**60))
    key_delta = largest_key_delta(chosen, epsilon, delta, keys)
    return chosen, Fraction(math.floor(key_delta * 2**128), 2**128)


def largest_key_delta(key_epsilon: Fraction, epsilon: Fraction, delta: Fraction, keys: int) -> Fraction:
    """The largest multiple d of 2^-512 for which `keys` (key_epsilon, d) mechanisms stay within (epsilon, delta).

    Every rounding goes towards a smaller d. Returns 0 where not even d = 0 would do.
    """
    # Fixed point: integers in units of 2^-_SCALE. All powers below are at least 1, so _SCALE bits are kept of each.
    one = 1 << _SCALE
    base_low, base_high = (bound * one for bound in exp_bounds(key_epsilon, _SCALE))
    low, high = math.floor(base_low), math.ceil(base_high)
    total_low = math.floor(exp_bounds(epsilon, _SCALE)[0] * one)
    high_powers = [one]
    for _ in range(keys):
        high_powers.append(-((-high_powers[-1] * high) >> _SCALE))  # rounded up
    excess, ways, low_power = 0, 1, one
    for j in range(keys + 1):
        if (keys - j) * key_epsilon <= epsilon + j * key_epsilon:
            break  # this term is 0, and so are all that follow
        excess += ways * (high_powers[keys - j] - (total_low * low_power >> _SCALE))
        ways = ways * (keys - j) // (j + 1)
        low_power = (low_power * low) >> _SCALE
    kept_share = 1 - Fraction(excess, _power_down(one + low, keys))
    if kept_share <= 1 - delta:
        return Fraction(0)
    allowed, refused = 0, one
    # Invariant: d = allowed / one may be spent, refused / one is not known to be.
    while refused - allowed > 1:
        middle = (allowed + refused) // 2
        if Fraction(_power_down(one - middle, keys), one) * kept_share >= 1 - delta:
            allowed = middle
        else:
            refused = middle
    return Fraction(allowed, one)


def _power_down(base: int, exponent: int) -> int:
    """A number at most base^exponent, all in units of 2^-_SCALE."""
    result = 1 << _SCALE
    for digit in f"{exponent:b}":
        result = (result * result) >> _SCALE
        if digit == "1":
            result = (result * base) >> _SCALE
    return result


# ---- floating point from here on: used to choose, never to guarantee ----


def _score(key_epsilon: float, keys: int, epsilon: float, delta: float) -> float:
    """Expected keys when each key gets this much of epsilon, and of delta what then remains."""
    excess = _excess(key_epsilon, keys, epsilon)
    if excess >= delta:
        return -math.inf
    key_delta = -math.expm1((math.log1p(-delta) - math.log1p(-excess)) / keys)
    return _expected_keys(key_epsilon, key_delta)


def _excess(key_epsilon: float, keys: int, epsilon: float) -> float:
    log_success = -math.log1p(math.exp(-key_epsilon))
    log_failure = -math.log1p(math.exp(key_epsilon))
    total = 0.0
    for hits in range(keys, -1, -1):
        gap = epsilon - (2 * hits - keys) * key_epsilon  # log of the ratio of the two terms
        if gap >= 0:
            break
        log_ways = math.lgamma(keys + 1) - math.lgamma(hits + 1) - math.lgamma(keys - hits + 1)
        total += math.exp(log_ways + hits * log_success + (keys - hits) * log_failure) * -math.expm1(gap)
    return total


def _expected_keys(key_epsilon: float, key_delta: float) -> float:
    """Expected reported keys, up to a factor, when there are 1 / (w (w + 1)) keys of frequency w.

    Uses the closed form of the optimal law up to its turning point L and its mirror image after it.
    """
    if key_delta <= 0:
        return -math.inf
    growth = math.expm1(key_epsilon)
    turn = math.log((growth + 2 * key_delta) / (key_delta * (growth + 2))) / key_epsilon
    total, width = 0.0, 2 * turn + 1
    steps = 256
    # Integrate over frequency with the substitution that gives every factor of frequency the same share of steps.
    for step in range(steps):
        frequency = math.exp(math.log(width) * (step + 0.5) / steps)
        near = min(frequency, width - frequency)
        probability = key_delta * math.expm1(key_epsilon * near) / growth
        if frequency > turn:
            probability = 1 - probability
        total += min(1.0, max(0.0, probability)) / frequency * math.log(width) / steps
    return total + 1 / width
