"""Confidence intervals of a sum of frequencies over released keys, which know that independent errors cancel.

Both are Chernoff bounds, given which keys are released: they hold for every set of released keys. A question may choose
among these keys by anything but their values. Floating point: estimates, not guarantees.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from dptally.laws.base import CountFunction
    from dptally.laws.clamped_noise import ClampedNoise
    from dptally.laws.weighted_sample import WeightedSample

_FACTORS = 2.0 ** np.arange(-5, 5)  # steepness of a bound, in units of what is best for normal errors
_LARGEST_EXPONENT = 600.0

Floats = NDArray[np.float64]


def bound_weighted_sum(law: WeightedSample, values: NDArray[np.int64], beta: float) -> tuple[float, float]:
    """Bounds of the sum of frequencies of released keys, without a sampling scheme; each missed with beta / 2 at most.

    Upper. The released key x has w_x <= value - 1 + D_x. Being released means that the random number lies below pi_w,
    and D grows with it, so that E[e^{t D} | released] <= E[e^{t D}] for t > 0. Hence the frequencies sum to at most
    sum of (value - 1) + (n ln E[e^{t D}] + ln(2 / beta)) / t, for any t fixed by n alone.

    Lower. For each frequency i >= 1 let s_i be the number with

        sum_j P[j | i] e^{t (j + s_i)} = pi_i e^{t i},

    which says E[e^{t (value + s_i - i)} | released, i] = 1. A value j is possible for frequencies from j - 1 on; let
    m_j be the smallest s_i of those. Then E[e^{t (value + m_value - w)} | released, w] <= 1 for every w, and by
    Markov's inequality the frequencies sum to at least sum of (value + m_value) - ln(2 / beta) / t. From i = W + 1 on
    all s_i are equal. A small value has a smaller m, since it may be that of a rare key released by chance. The
    steepness t is fixed by n alone: it is the best one for large values.
    """
    masses = np.array([float(mass) for mass in law.drop_law])
    drops = np.arange(len(masses), dtype=np.float64)
    count, total = len(values), float(values.sum())
    spread = max(float(np.sqrt(masses @ (drops - masses @ drops) ** 2)), 1e-9)
    steps = _FACTORS * np.sqrt(2 * np.log(2 / beta) / count) / spread

    best = min((count * _log_mean(masses, steep * drops) + np.log(2 / beta)) / steep for steep in steps)
    upper = total - count + min(best, count * drops[-1])

    # e^{-t (i + 1)} sum_j P[j | i] e^{t j}, where j is i + 1 - d for d < i, and the value 1. No exponent is positive.
    rows = np.arange(1, law.width + 2, dtype=np.float64)  # frequencies i
    reported = np.array([float(law.reporting_probability(int(row))) for row in rows])
    lowest = np.array([float(law.lowest_value(int(row))) for row in rows])
    below = np.minimum(rows, len(masses)).astype(np.int64) - 1

    def shifts(steep: float) -> Floats:
        """s_i for i = 1 .. W + 1."""
        seen = np.cumsum(masses * np.exp(-steep * drops))[below] + lowest * np.exp(-steep * rows)
        found: Floats = (np.log(reported) - np.log(seen)) / steep - 1
        return found

    steep = max(steps, key=lambda one: count * shifts(one)[-1] - np.log(2 / beta) / one)
    least = np.minimum.accumulate(shifts(steep)[::-1])[::-1]
    first = np.clip(values - 1, 1, len(rows)) - 1  # of the frequencies that may have the value
    lower = float((values + least[first]).sum() - np.log(2 / beta) / steep)
    return max(lower, float(count)), float(upper)  # every released key occurs at least once


def unclamped(law: ClampedNoise, values: NDArray[np.int64], of: CountFunction | None = None) -> Floats:
    """Numbers h(value) whose expectations are g(count), for keys of a public list that all have a value.

    For geometric noise that shrinks by r per step, clamped to 0 .. B,

        h(v) = ((1 + r^2) g(v) - r (g(v - 1) + g(v + 1))) / (1 - r)^2,
        h(0) = (g(0) - r g(1)) / (1 - r),  h(B) = (g(B) - r g(B - 1)) / (1 - r),

    which is the inverse of the matrix of the law: it has three diagonals. For g(w) = w that is the value itself, but
    for the ends. Plain g(value) is too large on average: most keys of a list may not occur in the data at all, and
    their clamped noise adds up and is never negative.

    The table has r = e^-epsilon up to rounding, a largest noise, and a chance of uniform values of about 2^-64.
    """
    apply = of or (lambda counts: counts.astype(np.float64))
    distinct, places = np.unique(np.clip(values, 0, law.bound), return_inverse=True)
    here, below, above = (apply(np.clip(distinct + step, 0, law.bound)) for step in (0, -1, 1))
    ratio = float(np.exp(-float(law.key_epsilon)))
    inner = ((1 + ratio**2) * here - ratio * (below + above)) / (1 - ratio) ** 2
    inner = np.where(distinct == 0, (here - ratio * above) / (1 - ratio), inner)
    found: Floats = np.where(distinct == law.bound, (here - ratio * below) / (1 - ratio), inner)[places]
    return found


def bound_clamped_sum(law: ClampedNoise, values: NDArray[np.int64], beta: float) -> tuple[float, float] | None:
    """Bounds of the sum of the counts of keys that all have a value; each missed with probability beta / 2 at most.

    With h as in `unclamped` and M(t) the largest of E[e^{t (h - c)} | c] and E[e^{t (c - h)} | c] over the counts c,
    both sides are sum of h -/+ (n ln M(t) + ln(2 / beta)) / t, for a t fixed by n alone. A uniform value, which is in
    no such expectation, is a miss. Counts from R to bound - R are never clamped and have the same M; below and above
    the two sides of M change places.
    """
    count, reach = len(values), law.reach
    left = beta - 2 * count * float(law.mixing)
    if left <= beta / 2 or law.bound < 2 * reach + 2:
        return None
    masses = np.array([float(mass) for mass in (*reversed(law.half_masses), *law.half_masses[1:])])  # noise R .. -R
    masses /= masses.sum()
    noise = np.arange(reach, -reach - 1, -1, dtype=np.float64)
    counts = np.arange(reach + 1)  # clamped to 0 by noise of -c or less, of which the probabilities are:
    clamped = masses[::-1].cumsum()[reach - counts]
    end = -1 / np.expm1(float(law.key_epsilon))
    spread = max(float(np.sqrt(masses @ noise**2)), 1e-9)

    def log_mean(steep: float) -> float:
        logs = []
        for side in (steep, -steep):
            free = np.concatenate([[0.0], np.cumsum(masses * np.exp(side * noise))])[reach + counts]  # noise above -c
            logs.append(np.log(free + clamped * np.exp(side * (end - counts))).max())
        return float(max(logs))

    best = np.inf
    for steep in _FACTORS * np.sqrt(2 * np.log(2 / left) / count) / spread:
        if steep * (reach - end) < _LARGEST_EXPONENT:
            best = min(best, (count * log_mean(float(steep)) + np.log(2 / left)) / float(steep))
    middle = float(unclamped(law, values).sum())
    return (max(0.0, middle - best), middle + best) if np.isfinite(best) else None


def _log_mean(masses: Floats, exponents: Floats) -> float:
    top = exponents.max()
    return float(top + np.log(masses @ np.exp(exponents - top)))
