"""The laws of the stages of a release in rounds: sizes of units, keys of a round, counts of the keys found."""

from __future__ import annotations

import base64
import binascii
import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np

from dptally.errors import InvalidParameter
from dptally.laws.base import as_frequencies
from dptally.laws.clamped_geometric import ClampedGeometric
from dptally.laws.gaussian_histogram import LARGEST_REACH, noise_masses
from dptally.laws.statistics_law import StatisticsLaw
from dptally.laws.tables.reporting_curve import Weights
from dptally.laws.tables.two_sided_geometric import noise_table
from dptally.laws.thresholded_noise import read_entries
from dptally.verifiers.key_rounds import CountStage, RoundStage, SizeStage

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dptally.randomness import BitSource

__all__ = ["CountLaw", "ReportingLaw", "SizeLaw", "StageLaw", "packed", "read_stage", "unpacked"]

_WHOLE = 1 << 128
_SPARE_BITS = 70  # the noise on counts is cut where its tails cost less than 2^-70 of delta
_SIGMA_BITS = 24
_ZERO = 1 << 40  # added to sizes while they are drawn, so that noise is not cut at 0


class SizeLaw:
    """Counts of units by size, plus two-sided geometric noise. A unit is in one bin at most.

    Noise of ratio r is drawn as it is, but for values below -2^40, which are all reported as that.
    """

    kind: Literal["sizes"] = "sizes"

    def __init__(self, loss: Fraction) -> None:
        self.loss, self.noise = loss, ClampedGeometric(loss)

    @property
    def stage(self) -> SizeStage:
        """What the verifier sees."""
        return SizeStage(self.noise.ratio)

    @property
    def deviation(self) -> float:
        """Of the noise."""
        return math.sqrt(2) / float(self.loss)

    def facts(self) -> dict[str, Any]:
        """As plain data."""
        return {"kind": self.kind, "loss": str(self.loss)}

    def draw(self, counts: NDArray[np.int64], bits: BitSource) -> list[int]:
        """One noisy count for each bin, which may be negative."""
        return [int(count) - _ZERO for count in self.noise.draw(as_frequencies(counts) + _ZERO, bits)]


class ReportingLaw:
    """Report a key with a probability that grows with its sum of weights, from a table of integers over 2^128."""

    kind: Literal["round"] = "round"
    scheme = rate = None

    def __init__(self, weights: Weights, table: bytes) -> None:
        self.weights, self.table = weights, bytes(table)
        words = np.frombuffer(self.table, dtype="<u8").reshape(-1, 2)
        self._low, self._high = words[:, 0].astype(np.uint64), words[:, 1].astype(np.uint64)

    @property
    def stage(self) -> RoundStage:
        """What the verifier sees."""
        return RoundStage(self.weights.low, self.weights.high, self.weights.multiple, self.table)

    @cached_property
    def _chances(self) -> list[int]:
        return read_entries(self.table)

    def chance(self, total: int) -> Fraction:
        """The exact probability to report a key whose weights add up to this."""
        return Fraction(self._chances[total], _WHOLE) if total < len(self._chances) else Fraction(1)

    @property
    def certain(self) -> int:
        """From this sum on keys are always reported."""
        return len(self._high)

    def facts(self) -> dict[str, Any]:
        """As plain data."""
        weights = self.weights
        sizes = {"low": weights.low, "high": weights.high, "multiple": weights.multiple}
        return {"kind": self.kind, **sizes, "table": base64.b64encode(self.table).decode()}

    def draw(self, sums: NDArray[np.int64], bits: BitSource) -> NDArray[np.int64]:
        """1 for each key that is reported, else 0.

        Postcondition: for uniform words, results are independent, and a key of sum w is reported with exactly the
        probability of the table. Each draw takes 128 random bits, whatever the sum.
        """
        given = as_frequencies(sums)
        words = bits.words(2 * len(given)).reshape(-1, 2)
        place = np.minimum(given, self.certain - 1)
        high, low = self._high[place], self._low[place]
        below = (words[:, 1] < high) | ((words[:, 1] == high) & (words[:, 0] < low))
        reported: NDArray[np.int64] = (below | (given >= self.certain)).astype(np.int64)
        return reported


class CountLaw:
    """Counts of found keys plus Gaussian noise, rounded, and at least 1: a key that was found occurs.

    Args:
        sigma: deviation of the noise.
        differing: how many found keys of a unit are counted.
        reach: the largest noise.
    """

    kind: Literal["counts"] = "counts"
    scheme = rate = None
    grain = 1

    def __init__(self, sigma: Fraction, differing: int, reach: int) -> None:
        if not (0 < sigma <= LARGEST_REACH and 1 <= reach <= LARGEST_REACH and 1 <= differing <= LARGEST_REACH):
            raise InvalidParameter("epsilon is too small: the noise on counts would have too many values.")
        self.sigma, self.differing, self.reach = sigma, differing, reach

    @classmethod
    def within(cls, sigma: float, differing: int, epsilon: Fraction, delta: Fraction) -> Self:
        """Rounded up to 24 bits, and cut where its tails do not matter."""
        scale = Fraction(2) ** (_SIGMA_BITS - math.frexp(sigma)[1])
        spread = math.sqrt(2 * (_SPARE_BITS * math.log(2) + math.log(differing / delta) + 3 * epsilon))
        return cls(math.ceil(Fraction(sigma) * scale) / scale, differing, math.ceil(sigma * spread) + 2)

    @cached_property
    def table(self) -> bytes:
        """P[D <= d] in units of 2^-128 for d = 0 .. 2R - 1, D = R - Z."""
        return noise_table(noise_masses(self.sigma, self.reach))

    @cached_property
    def cumulative(self) -> list[int]:
        """P[D <= d] for d = 0 .. 2R; the last is 2^128."""
        return [*read_entries(self.table), _WHOLE]

    @property
    def counts(self) -> Self:
        """The part that the values of a table come from."""
        return self

    @property
    def stage(self) -> CountStage:
        """What the verifier sees."""
        return CountStage(self.table, self.reach, self.sigma, self.differing)

    def facts(self) -> dict[str, Any]:
        """As plain data."""
        return {"kind": self.kind, "sigma": str(self.sigma), "differing": self.differing, "reach": self.reach}


StageLaw = SizeLaw | ReportingLaw | CountLaw | StatisticsLaw

# ---- plain data ----


def packed(function: Sequence[int]) -> str:
    """A declared function as text."""
    return base64.b64encode(b"".join(value.to_bytes(16, "little") for value in function)).decode()


def unpacked(text: object) -> list[int]:
    """Back from text."""
    return read_entries(_bytes(text))


def _bytes(text: object) -> bytes:
    try:
        return base64.b64decode(str(text), validate=True)
    except binascii.Error:
        raise InvalidParameter("a table of a release in rounds is damaged.") from None


def _whole(number: object) -> int:
    if isinstance(number, bool) or not isinstance(number, int):
        raise InvalidParameter("a size of a release in rounds is no whole number.")
    return number


def _read_round(facts: dict[str, Any]) -> ReportingLaw:
    table = _bytes(facts["table"])
    if not table or len(table) % 16:
        raise InvalidParameter("a table of a release in rounds is damaged.")
    low, high, multiple = (_whole(facts[name]) for name in ("low", "high", "multiple"))
    if not (1 <= low <= high <= 4096 and 1 <= multiple <= 64):
        raise InvalidParameter("a round has no such sizes.")
    return ReportingLaw(Weights(low, high, multiple), table)


def _read_fraction(text: object) -> Fraction:
    numerator, _, denominator = str(text).partition("/")
    return Fraction(int(numerator), int(denominator or "1"))


_STAGES: dict[str, Callable[[dict[str, Any]], StageLaw]] = {
    "sizes": lambda facts: SizeLaw(_read_fraction(facts["loss"])),
    "round": _read_round,
    "counts": lambda facts: CountLaw(
        _read_fraction(facts["sigma"]), _whole(facts["differing"]), _whole(facts["reach"])
    ),
    "statistics": StatisticsLaw.from_facts,
}


def read_stage(facts: dict[str, Any]) -> StageLaw:
    """The law of a stage, back from plain data."""
    return _STAGES[facts["kind"]](facts)
