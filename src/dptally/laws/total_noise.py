"""The noise of a single private number: two-sided geometric, with rational probabilities."""

from __future__ import annotations

import math
from fractions import Fraction

from dptally.exact import exp_bounds


def noise_scale(epsilon: Fraction) -> int:
    """The smallest whole K with (K + 1) / K <= e^epsilon: the noise shrinks by the factor K / (K + 1) per step."""
    low, _ = exp_bounds(epsilon, 256)
    return math.ceil(1 / (low - 1))
