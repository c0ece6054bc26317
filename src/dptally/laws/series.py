"""A table that grows period by period: factorised Gaussian noise, planned for a whole series before its first period.

Statement and proof of the guarantee are in `dptally.verifiers.series`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from statistics import NormalDist
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from dptally.errors import InvalidParameter
from dptally.exact import as_count, as_delta, as_epsilon
from dptally.laws.gaussian_histogram import LARGEST_REACH, largest_step, noise_masses, round_up
from dptally.laws.tables.certified_table import CertifiedTable
from dptally.laws.tables.two_sided_geometric import noise_table
from dptally.privacy.stored_facts import read_fraction

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dptally.randomness import BitSource
    from dptally.verifiers.tables import Certificate

__all__ = ["LARGEST_HORIZON", "SeriesLaw", "plan_series"]

LARGEST_HORIZON = 4096
_LARGEST_DIFFERING = 100_000
_BITS, _FEWEST_BITS = 8, 5  # of the fixed point in which C is written
_FINE = 1 << 14  # deviation of noise, in steps of the grid, above which a coarser grid does as well
_ROOM = Fraction(1, 1 << 20)  # of delta, kept for rounding
_SPARE_BITS = 70  # the noise is cut where its tails cost less than 2^-70 of delta
_BUFFERS = 8
_DECAY_BITS, _WEIGHT_BITS = 20, 30


@dataclass(frozen=True)
class SeriesLaw:
    """Noise for every key and period of a series, and the thresholds of its keys. All of it is public.

    With x_t what a key gets in period t, y = C x + z is kept, C the Toeplitz matrix of `coefficients`, and the released
    running totals are B y = A x + B z with B = A C^-1, A the matrix of ones. c_k is the k-th coefficient of
    (1 - X)^(-1/2) in fixed point; z is Gaussian noise of deviation sigma, rounded to whole steps of 2^-bits.

    Guarantee:
        (epsilon, delta)-differential privacy for all periods together: for a unit that counts for at most `differing`
        keys, in at most `per_key` periods each; see `dptally.verifiers.series`.

    Error:
        A running total after t periods has deviation sigma 2^-bits sqrt(b_0^2 + .. + b_{t-1}^2): for 365 periods at
        most 2.95 times the noise that one single release with half of delta needs.
    Cost:
        Constant work for each key and period. A key that is not published is tested by `decays` and `weights`: sums of
        y that decay, instead of all of its history.

    References:
        [FHU23], [HUU23] for C; [DMRST22]; [DMPST24] for sums that decay.

    Attributes:
        epsilon: for the unit, in the whole series.
        delta: for the unit, in the whole series.
        differing: l, how many keys a unit may count for.
        per_key: p, in how many periods a unit may count for one key.
        bits: of the fixed point: counts are multiplied by 2^bits.
        sigma: deviation of the noise, in steps of 2^-bits.
        reach: where the noise is cut.
        coefficients: c_0 .. c_{T-1}, in steps of 2^-bits.
        decays: of the sums that keys are tested by.
        weights: of these sums.
        thresholds: of the test in each period, in steps of 2^-bits.
    """

    epsilon: Fraction
    delta: Fraction
    differing: int
    per_key: int
    bits: int
    sigma: Fraction
    reach: int
    coefficients: tuple[int, ...]
    decays: tuple[Fraction, ...]
    weights: tuple[Fraction, ...]
    thresholds: tuple[int, ...]

    stored_as: ClassVar[str] = "FactorisedSeries"
    values: ClassVar[bool] = True

    @property
    def periods(self) -> int:
        """T, the horizon."""
        return len(self.coefficients)

    # ---- the table ----

    @cached_property
    def table(self) -> bytes:
        """P[D <= d] for d = 0 .. 2R-1 in units of 2^-128, as little-endian 128-bit integers; D = R - Z."""
        return noise_table(noise_masses(self.sigma, self.reach))

    @cached_property
    def _certified(self) -> CertifiedTable:
        from dptally.verifiers.series import certify_series

        certificate = certify_series(
            self.table,
            reach=self.reach,
            sigma=self.sigma,
            coefficients=self.coefficients,
            decays=self.decays,
            weights=self.weights,
            thresholds=self.thresholds,
            differing=self.differing,
            per_key=self.per_key,
            epsilon=self.epsilon,
            delta=self.delta,
        )
        return CertifiedTable(self.table, certificate)

    def certify(self) -> Certificate:
        """Verify the whole series.

        Raises:
            PrivacyViolation: with what exceeds delta.
        """
        return self._certified.certificate

    def draw_noise(self, count: int, bits: BitSource) -> NDArray[np.int64]:
        """Independent noise in steps of the grid, from the certified table: two words each."""
        return self._certified.draw_noise(count, bits)

    # ---- what is computed from y; floats, which cost nothing there ----

    @cached_property
    def totals(self) -> NDArray[np.float64]:
        """b_0 .. b_{T-1}, the first column of B = A C^-1, for y in steps of the grid."""
        scaled = np.array(self.coefficients, dtype=np.float64)
        found = np.zeros(self.periods)
        for k in range(self.periods):
            found[k] = (1.0 - float(scaled[1 : k + 1] @ found[:k][::-1])) / scaled[0]
        return found

    # ---- facts ----

    def facts(self) -> dict[str, Any]:
        """Name and all numbers, as plain data."""
        return {
            "name": self.stored_as,
            "epsilon": str(self.epsilon),
            "delta": str(self.delta),
            "differing": self.differing,
            "per_key": self.per_key,
            "bits": self.bits,
            "sigma": str(self.sigma),
            "reach": self.reach,
            "coefficients": list(self.coefficients),
            "decays": [str(decay) for decay in self.decays],
            "weights": [str(weight) for weight in self.weights],
            "thresholds": list(self.thresholds),
        }

    @classmethod
    def from_facts(cls, facts: dict[str, Any]) -> Self:
        """The law back; ValueError or InvalidParameter for numbers that are none."""
        lists = [facts[name] for name in ("coefficients", "decays", "weights", "thresholds")]
        if not all(isinstance(each, list) and 1 <= len(each) <= LARGEST_HORIZON for each in lists):
            raise ValueError("not a list of numbers")
        return cls(
            epsilon=as_epsilon(read_fraction(facts["epsilon"])),
            delta=as_delta(read_fraction(facts["delta"])),
            differing=as_count("differing", facts["differing"], largest=_LARGEST_DIFFERING),
            per_key=as_count("per_key", facts["per_key"], largest=LARGEST_HORIZON),
            bits=as_count("bits", facts["bits"], largest=_BITS),
            sigma=read_fraction(facts["sigma"]),
            reach=as_count("reach", facts["reach"], largest=LARGEST_REACH),
            coefficients=tuple(as_count("c", c, largest=1 << _BITS, smallest=0) for c in lists[0]),
            decays=tuple(map(read_fraction, lists[1])),
            weights=tuple(map(read_fraction, lists[2])),
            thresholds=tuple(as_count("threshold", t, largest=1 << 62) for t in lists[3]),
        )


def plan_series(epsilon: object, delta: object, *, differing: int, periods: int, per_key: int = 1) -> SeriesLaw:
    """Choose noise and thresholds for a series; half of delta for each, that of thresholds shared equally by periods.

    Floats choose, and the verifier decides.

    Raises:
        InvalidParameter: a number is out of its range, or epsilon is too small for a table of this length.

    >>> law = plan_series(2, "1e-6", differing=20, periods=365)
    >>> round(float(law.sigma) / 2**law.bits, 1), law.thresholds[0] >> law.bits, law.thresholds[-1] >> law.bits
    (17.6, 114, 195)
    """
    exact_epsilon, exact_delta = as_epsilon(epsilon), as_delta(delta)
    keys = as_count("max_keys_per_unit", differing, largest=_LARGEST_DIFFERING)
    horizon = as_count("periods", periods, largest=LARGEST_HORIZON)
    once = as_count("periods_per_key", per_key, largest=horizon)
    half = exact_delta * (1 - _ROOM) / 2
    step = largest_step(float(exact_epsilon), float(half))
    for bits in range(_BITS, _FEWEST_BITS - 1, -1):
        coefficients = _coefficients(horizon, bits)
        first = np.convolve(coefficients, np.ones(once))[:horizon]
        sigma = round_up(math.sqrt(keys * float(first @ first)) / step)
        if sigma <= _FINE:
            break
    spread = math.sqrt(2 * (_SPARE_BITS * math.log(2) + math.log(keys * horizon / exact_delta) + exact_epsilon))
    reach = math.ceil(float(sigma) * spread) + 1
    if reach > LARGEST_REACH:
        raise InvalidParameter(
            f"epsilon is too small for so many keys of a unit: the noise would have more than {2 * LARGEST_REACH} "
            "values, and hardly any key would be published."
        )
    decays, weights = _buffers(coefficients)
    return SeriesLaw(
        exact_epsilon, exact_delta, keys, once, bits, sigma, reach,
        tuple(int(c) for c in coefficients),
        decays,
        weights,
        _thresholds(coefficients, decays, weights, float(sigma), once, float(half) / (keys * horizon)),
    )  # fmt: skip


# ---- floating point from here on: used to choose, never to guarantee ----


def _coefficients(horizon: int, bits: int) -> NDArray[np.float64]:
    """The coefficients of (1 - X)^(-1/2), rounded to steps of 2^-bits."""
    k = np.arange(1, horizon)
    exact = np.concatenate([[1.0], np.cumprod((2 * k - 1) / (2 * k))])
    return np.asarray(np.rint(exact * (1 << bits)), dtype=np.float64)


def _buffers(coefficients: NDArray[np.float64]) -> tuple[tuple[Fraction, ...], tuple[Fraction, ...]]:
    """A few sums that decay, and their weights, which together come near to B: least squares of relative errors."""
    horizon = len(coefficients)
    slow = 1 - np.geomspace(1 / (2 * horizon), 0.9, _BUFFERS - 1)
    decays = np.rint(np.concatenate([[0.0], slow]) * (1 << _DECAY_BITS)) / (1 << _DECAY_BITS)
    powers = decays ** np.arange(horizon)[:, None]
    wanted = np.zeros(horizon)
    for k in range(horizon):
        wanted[k] = (1.0 - float(coefficients[1 : k + 1] @ wanted[:k][::-1])) / coefficients[0]
    scale = 1 / np.maximum(np.abs(wanted), wanted[0] / 100)
    found = np.linalg.lstsq(powers * scale[:, None], wanted * scale, rcond=1e-8)[0]
    found = np.rint(found * coefficients[0] * (1 << _WEIGHT_BITS)) / (1 << _WEIGHT_BITS)
    return tuple(map(Fraction, decays.tolist())), tuple(map(Fraction, found.tolist()))


def _thresholds(
    coefficients: NDArray[np.float64],
    decays: tuple[Fraction, ...],
    weights: tuple[Fraction, ...],
    sigma: float,
    per_key: int,
    tail: float,
) -> tuple[int, ...]:
    """For each period the lowest one that a key of one unit alone passes with probability `tail` at most."""
    horizon = len(coefficients)
    response = np.array([float(d) for d in decays]) ** np.arange(horizon)[:, None] @ [float(w) for w in weights]
    gain = np.maximum(np.convolve(response, coefficients)[:horizon], 0.0)
    spread = np.sqrt(np.cumsum(response**2)) * sigma
    rounding = np.cumsum(np.abs(response)) / 2
    quantile = -NormalDist().inv_cdf(tail)
    held = [float(np.sort(gain[: t + 1])[-per_key:].sum()) for t in range(horizon)]
    return tuple(math.ceil(u + r + s * quantile) + 2 for u, r, s in zip(held, rounding, spread, strict=True))
