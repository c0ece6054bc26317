"""The number of occurrences in the data, privately: what a sampling rate may be set from."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from dptally.laws.shortfall import noise_scale
from dptally.randomness import BitSource

_LARGEST = 1 << 62


def draw_total(total: int, epsilon: Fraction, bits: BitSource) -> int:
    """The total plus two-sided geometric noise, cut off at 0 and 2^62.

    Postcondition: for uniform words the result is clamp(total + Z) with P[Z = z] = (1 - r) / (1 + r) r^|z| exactly,
    where r = K / (K + 1), K = `noise_scale(epsilon)`.

    Guarantee:
        epsilon-differential privacy for adding or removing one occurrence: the total changes by one, P[Z = z] by a
        factor of at most 1 / r = (K + 1) / K <= e^epsilon, and clamping is done to the sum, whatever the data. All
        probabilities are rational; there is no table and no cut tail.

    Cost:
        About 2 K random words on average; the number depends on the noise, not on the data.
    """
    scale = noise_scale(epsilon)
    noise = _geometric(scale, bits) - _geometric(scale, bits)
    return min(max(total + noise, 0), _LARGEST)


def _geometric(scale: int, bits: BitSource) -> int:
    """How often a uniform number on 0 .. scale is not 0 before it is: P[G = g] = r^g (1 - r)."""
    # Words below `limit` are uniform modulo scale + 1; the others, fewer than scale + 1 of 2^64, are drawn again.
    limit = (1 << 64) // (scale + 1) * (scale + 1)
    steps = 0
    while True:
        words = bits.words(64)
        if limit < 1 << 64:
            words = words[words < np.uint64(limit)]
        stops = np.flatnonzero(words % np.uint64(scale + 1) == 0)
        if len(stops):
            return steps + int(stops[0])
        steps += len(words)
