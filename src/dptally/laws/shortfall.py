"""Single private numbers: their noise, and how far the counters of a sketch fall short of frequencies."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from dptally.exact import exp_bounds


def noise_scale(epsilon: Fraction) -> int:
    """The smallest whole K with (K + 1) / K <= e^epsilon: the noise shrinks by the factor K / (K + 1) per step."""
    low, _ = exp_bounds(epsilon, 256)
    return math.ceil(1 / (low - 1))


@dataclass(frozen=True)
class Shortfall:
    """A private estimate of a number S; no frequency exceeds its counter in the sketch by more than S / `parts`."""

    reported: int  # S plus two-sided geometric noise, not below 0
    scale: int  # K: the noise shrinks by the factor K / (K + 1) per step; 0 when S was stated by the data owner
    parts: int  # capacity + 1 where S is a number of elements, 1 where it is a number of decrements

    def upper(self, beta: Fraction) -> int:
        """A whole number that S / parts exceeds with probability at most beta.

        With r = K / (K + 1), P[noise <= -q - 1] = r^(q + 1) / (1 + r): the smallest q for which that is at most beta.
        """
        if not self.scale:
            return self.reported // self.parts
        ratio = self.scale / (self.scale + 1)
        slack = math.ceil(math.log(float(beta) * (1 + ratio)) / math.log(ratio)) - 1
        return (self.reported + max(0, slack)) // self.parts
