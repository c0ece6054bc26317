"""The stability-based histogram as printed, with real-valued noise. NOT CERTIFIED: for reproducing figures alone.

Nothing can be drawn or published from this module. The certified law with whole-number noise is
`dptally.observation_models.Stability`. Everything here is floating point.

Notation of [CGSS21, appendix G]: a key of frequency i gets the noisy frequency j = i + Lap(1 / epsilon) and is kept if
j >= T; with sampling, it is then kept with probability q_j, and the sum of frequencies is estimated by a_j = j / q_j.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from dptally.errors import InvalidParameter
from dptally.laws.sampling_schemes import Ppswor, Priority

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

__all__ = ["UncertifiedStability", "printed_threshold", "tight_threshold"]

_NODES = 48  # of Gauss-Laguerre and, per panel, of Gauss-Legendre quadrature
_PANELS = 24
_FARTHEST = 60.0  # e^-60 of the noise is left out


def printed_threshold(epsilon: float, delta: float) -> float:
    """T = ln(1 / delta) / epsilon + 1, as printed in Algorithm 6. A key of frequency 1 is reported with delta / 2."""
    return math.log(1 / delta) / epsilon + 1


def tight_threshold(epsilon: float, delta: float) -> float:
    """T = ln(1 / (2 delta)) / epsilon + 1, which uses all of delta; not below 1, where delta is above 1/2."""
    return max(1.0, math.log(1 / (2 * delta)) / epsilon + 1)


@dataclass(frozen=True)
class UncertifiedStability:
    """Expressions for Algorithm 6 of [CGSS21] and for sampling from what it reports. NOT CERTIFIED.

    All methods take frequencies of any shape and return floats of that shape.

    Args:
        epsilon: positive.
        delta: from above 0 to 1.
        sampling: None, or a scheme with power 1, applied to the noisy frequencies.
        tight: the threshold that uses all of delta, instead of the printed one.
    """

    epsilon: float
    delta: float
    sampling: Ppswor | Priority | None = None
    tight: bool = False

    def __post_init__(self) -> None:
        if not self.epsilon > 0 or not 0 < self.delta <= 1:
            raise InvalidParameter("epsilon must be positive and delta above 0 and at most 1.")
        if self.sampling is not None and self.sampling.power != 1:
            raise InvalidParameter("the closed forms are for schemes with power 1.")

    @cached_property
    def threshold(self) -> float:
        """T."""
        return (tight_threshold if self.tight else printed_threshold)(self.epsilon, self.delta)

    def reporting_probability(self, frequencies: ArrayLike) -> NDArray[np.float64]:
        """phi_i = integral over j >= T of q_j times the density of j.

        In closed form: the tail of the Laplace law without sampling [(49)]; for ppswor less the integral of e^(-rate j)
        [(51)]; for priority sampling in terms of integrals of j up to 1 / rate and of the tail beyond.
        """
        i = np.asarray(frequencies, dtype=np.float64)
        if self.sampling is None:
            return self._tail(i, self.threshold)
        rate = float(self.sampling.rate)
        if isinstance(self.sampling, Ppswor):
            return self._tail(i, self.threshold) - self._discounted(i, rate)
        certain = max(self.threshold, 1 / rate)
        between = self._first_moment(i, self.threshold) - self._first_moment(i, certain)
        return rate * between + self._tail(i, certain)

    def expectation(self, frequencies: ArrayLike) -> NDArray[np.float64]:
        """E_i = integral over j >= T of j times the density of j, whatever the sampling [(47)]."""
        return self._first_moment(np.asarray(frequencies, dtype=np.float64), self.threshold)

    def bias(self, frequencies: ArrayLike) -> NDArray[np.float64]:
        """E_i - i."""
        return self.expectation(frequencies) - np.asarray(frequencies, dtype=np.float64)

    def mse(self, frequencies: ArrayLike) -> NDArray[np.float64]:
        """i^2 - 2 i E_i + integral over j >= T of j^2 / q_j times the density of j.

        This is (48) with its second integral from T to i, as it must be. Closed form without sampling [(50)] and for
        priority sampling. For ppswor the integral has no elementary form and is computed by Gauss quadrature.
        """
        i = np.asarray(frequencies, dtype=np.float64)
        return i**2 - 2 * i * self.expectation(i) + self._second_moment_over_q(i)

    def variance(self, frequencies: ArrayLike) -> NDArray[np.float64]:
        """Mean squared error minus squared bias."""
        return self.mse(frequencies) - self.bias(frequencies) ** 2

    # ---- integrals over j >= start of h(j) times (epsilon / 2) e^(-epsilon |j - i|) ----
    # With d = |start - i|, written so that every exponent is negative.

    def _decay(self, i: NDArray[np.float64], start: float) -> NDArray[np.float64]:
        return np.exp(-self.epsilon * np.abs(start - i))

    def _tail(self, i: NDArray[np.float64], start: float) -> NDArray[np.float64]:
        """h = 1."""
        decay = self._decay(i, start) / 2
        return np.where(i > start, 1 - decay, decay)

    def _first_moment(self, i: NDArray[np.float64], start: float) -> NDArray[np.float64]:
        """h = j."""
        scale, decay = 1 / self.epsilon, self._decay(i, start) / 2
        return np.where(i > start, i - decay * (start - scale), decay * (start + scale))

    def _second_moment(self, i: NDArray[np.float64], start: float) -> NDArray[np.float64]:
        """h = j^2."""
        scale, decay = 1 / self.epsilon, self._decay(i, start) / 2
        over = i**2 + 2 * scale**2 - decay * (start**2 - 2 * start * scale + 2 * scale**2)
        return np.where(i > start, over, decay * (start**2 + 2 * start * scale + 2 * scale**2))

    def _discounted(self, i: NDArray[np.float64], rate: float) -> NDArray[np.float64]:
        """h = e^(-rate j) from T on.

        Above i, or above T if i is below: epsilon / (2 (epsilon + rate)) times the integrand there. From T to i, with
        d = i - T, the difference (e^(-rate i) - e^(-rate T - epsilon d)) / (epsilon - rate), which is d e^(-rate i) at
        epsilon = rate, written as a product so that nothing cancels.
        """
        start = self.threshold
        above = self.epsilon / (2 * (self.epsilon + rate)) * np.exp(-rate * np.maximum(i, start))
        below = above * self._decay(i, start)
        distance = np.maximum(i - start, 0)
        gap = abs(self.epsilon - rate)
        length = -np.expm1(-gap * distance) / gap if gap > 0 else distance
        between = self.epsilon / 2 * np.exp(-rate * start - min(self.epsilon, rate) * distance) * length
        return np.where(i > start, above + between, below)

    def _second_moment_over_q(self, i: NDArray[np.float64]) -> NDArray[np.float64]:
        """h = j^2 / q_j from T on."""
        start = self.threshold
        if self.sampling is None:
            return self._second_moment(i, start)
        rate = float(self.sampling.rate)
        if isinstance(self.sampling, Priority):
            certain = max(start, 1 / rate)
            between = self._first_moment(i, start) - self._first_moment(i, certain)
            return between / rate + self._second_moment(i, certain)
        return self._quadrature(i, rate)

    def _quadrature(self, i: NDArray[np.float64], rate: float) -> NDArray[np.float64]:
        """h = j^2 / (1 - e^(-rate j)) from T on, numerically.

        With u = epsilon |j - i| the weight is e^-u: Gauss-Laguerre above max(i, T), and Gauss-Legendre in panels from T
        to i, as far as the weight is above e^-60.
        """
        nodes, weights = np.polynomial.laguerre.laggauss(_NODES)
        highest = np.maximum(i, self.threshold)[..., None]
        outside = _square_over_q(highest + nodes / self.epsilon, rate) @ weights / 2
        outside *= np.where(i > self.threshold, 1.0, self._decay(i, self.threshold))
        length = np.minimum(self.epsilon * np.maximum(i - self.threshold, 0), _FARTHEST)[..., None]
        points, shares = np.polynomial.legendre.leggauss(_NODES)
        inside = np.zeros_like(outside)
        for panel in range(_PANELS):
            u = length * (panel + (points + 1) / 2) / _PANELS
            inside += (_square_over_q(i[..., None] - u / self.epsilon, rate) * np.exp(-u)) @ shares
        return outside + inside * length[..., 0] / (4 * _PANELS)


def _square_over_q(j: NDArray[np.float64], rate: float) -> NDArray[np.float64]:
    result: NDArray[np.float64] = j**2 / -np.expm1(-rate * j)
    return result
