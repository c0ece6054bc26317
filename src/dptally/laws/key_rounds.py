"""Keys found in rounds, for units with many keys, and a count for each: the laws of the stages and of a release.

Statement and proof of the guarantee are in `dptally.verifiers.key_rounds`; how sizes and tables are chosen is in
`dptally.laws.rounds_plan`.
"""

from __future__ import annotations

import base64
import binascii
import math
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np

from dptally.errors import InvalidParameter, PrivacyViolation
from dptally.exact import as_delta, as_epsilon
from dptally.laws.base import EstimatorKind, FrequencyFunction, Law, as_frequencies, as_frequency, read_flag
from dptally.laws.clamped_geometric import ClampedGeometric
from dptally.laws.estimators import Weights as EstimatorWeights
from dptally.laws.estimators import only_most_likely
from dptally.laws.gaussian_histogram import LARGEST_REACH, noise_masses
from dptally.laws.inversion import FrequencyEstimates
from dptally.laws.tables.certified_table import CertifiedNoise
from dptally.laws.tables.reporting_curve import Weights
from dptally.laws.tables.two_sided_geometric import noise_table
from dptally.laws.thresholded_noise import read_entries
from dptally.laws.unit_sizes import kept_share
from dptally.privacy.spending import Part
from dptally.verifiers.declared_profile import DeclaredProfile
from dptally.verifiers.key_rounds import CountStage, RoundStage, Scale, SizeStage, certify_key_rounds

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dptally.laws.base import Estimator
    from dptally.laws.key_errors import Reports
    from dptally.randomness import BitSource
    from dptally.verifiers.tables import Certificate

__all__ = ["CountLaw", "KeyRounds", "ReportingLaw", "SizeLaw"]

_WHOLE = 1 << 128
_SPARE_BITS = 70  # the noise on counts is cut where its tails cost less than 2^-70 of delta
_SIGMA_BITS = 24
_ZERO = 1 << 40  # added to sizes while they are drawn, so that noise is not cut at 0
_MOST_STAGES, _MOST_BINS, _LARGEST_COUNT = 16, 64, 1 << 62


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
    def stage(self) -> CountStage:
        """What the verifier sees."""
        return CountStage(self.table, self.reach, self.sigma, self.differing)

    def facts(self) -> dict[str, Any]:
        """As plain data."""
        return {"kind": self.kind, "sigma": str(self.sigma), "differing": self.differing, "reach": self.reach}


class KeyRounds(Law):
    """Keys that were found in rounds; with values, each with its count plus rounded Gaussian noise.

    A key of which w units were counted in the last stage has the value max(1, w + Z), Z the Gaussian law of mean 0 and
    deviation sigma, rounded. What a unit adds is bounded before: counts are those of units whose key was kept.

    Guarantee:
        (epsilon, delta)-differential privacy for adding or removing one unit, whatever it holds; see
        `dptally.verifiers.key_rounds`.

    Error:
        A key is reported at least with the probability of its count in a round in which each of its units has the
        smallest weight; values have deviation sqrt(sigma^2 + 1/12).

    Args:
        epsilon: for the unit.
        delta: for the unit.
        scale: the points of the declared functions.
        declared: the function before each stage; see `dptally.verifiers.key_rounds`.
        stages: the laws of the stages, in order.
        sizes: what was released of sizes, for each stage of that kind.
    """

    name = "key_rounds"
    stored_as = "KeyRounds"
    judged_for_unit = True
    at_least = True
    endless = True

    def __init__(
        self,
        epsilon: Fraction,
        delta: Fraction,
        scale: Scale,
        declared: Sequence[Sequence[int]],
        stages: Sequence[SizeLaw | ReportingLaw | CountLaw],
        sizes: Sequence[Sequence[int]] = (),
    ) -> None:
        self.epsilon, self.delta, self.scale = as_epsilon(epsilon), as_delta(delta), scale
        self.declared, self.stages = tuple(map(tuple, declared)), tuple(stages)
        self.sizes = tuple(map(tuple, sizes))
        self.rounds = [law for law in self.stages if law.kind == "round"]
        counts = [law for law in self.stages if law.kind == "counts"]
        self.values = bool(counts)
        self.counts = counts[0] if counts else None
        if not self.rounds:
            raise InvalidParameter("a release in rounds needs a round.")

    def __repr__(self) -> str:
        sizes = ", ".join(f"{law.weights.low} to {law.weights.high}" for law in self.rounds)
        return f"KeyRounds(epsilon={self.epsilon}, delta={self.delta}, keys of a unit in each round: {sizes})"

    @property
    def most_keys(self) -> int:
        """The largest number of keys of one unit in any stage."""
        return max([law.weights.high for law in self.rounds] + [self.counts.differing if self.counts else 1])

    @property
    def kept_share(self) -> float | None:
        """About which share of the units that have found keys is counted, from released sizes; None if not measured."""
        measured = [law for law in self.stages if law.kind == "sizes"]
        if self.counts is None or len(self.sizes) != len(measured) or self.stages[-2].kind != "sizes":
            return None
        return kept_share(self.sizes[-1], measured[-1].deviation, self.counts.differing)

    @property
    def counted(self) -> str:
        """Units per key after bounding, and about how many of them that is."""
        if self.counts is None:
            return ""
        share = (
            "" if self.kept_share is None else f", about {self.kept_share:.0%} of all by the released sizes of units"
        )
        return f"A count is of units after bounding: at most {self.counts.differing} released keys of a unit{share}."

    # ---- facts ----

    def facts(self) -> dict[str, Any]:
        """Everything that was declared, and every stage."""
        scale = self.scale
        return {
            "name": self.stored_as,
            "epsilon": str(self.epsilon),
            "delta": str(self.delta),
            "values": self.values,
            "scale": [scale.density, scale.below, scale.above],
            "declared": [_packed(function) for function in self.declared],
            "stages": [law.facts() for law in self.stages],
            "sizes": [list(counts) for counts in self.sizes],
        }

    @classmethod
    def from_facts(cls, facts: dict[str, Any]) -> Self:
        """Back from plain data; `certify` says whether it is a law that guarantees something."""
        stages = [_STAGES[each["kind"]](each) for each in _listed(facts["stages"], _MOST_STAGES)]
        declared = [_unpacked(each) for each in _listed(facts["declared"], _MOST_STAGES)]
        sizes = [_listed(counts, _MOST_BINS) for counts in _listed(facts["sizes"], _MOST_STAGES)]
        if not all(isinstance(n, int) and abs(n) <= _LARGEST_COUNT for counts in sizes for n in counts):
            raise InvalidParameter("sizes of units must be counts.")
        density, below, above = facts["scale"]
        made = cls(facts["epsilon"], facts["delta"], Scale(density, below, above), declared, stages, sizes)
        if made.values != read_flag(facts["values"]):
            raise InvalidParameter("the stages of a release do not say what it says of values.")
        return made

    # ---- the contract ----

    def certify(self) -> Certificate:
        """Verify every stage against its declared function.

        Raises:
            PrivacyViolation: with the stage that exceeds it.
        """
        return self._certificate

    @cached_property
    def _certificate(self) -> Certificate:
        stages = [law.stage for law in self.stages]
        paid = sum(law.kind == "sizes" for law in self.stages)
        if len(self.sizes) not in (0, paid) or len(set(map(len, self.sizes))) > 1:
            raise PrivacyViolation("sizes of units are stated that no stage of the release has paid for.")
        return certify_key_rounds(stages, self.declared, scale=self.scale, epsilon=self.epsilon, delta=self.delta)

    @property
    def event(self) -> Part:
        """What a ledger is told: the function that was declared before the first stage; `certify` accepts no other."""
        declared = DeclaredProfile(self.epsilon, self.delta, self.scale, self.declared[0])
        return Part(self.epsilon, self.delta, law=declared.facts())

    def reporting_probability(self, true_frequency: int) -> Fraction:
        """At least: that a key is found in a round, where each of so many units keeps it with the smallest weight."""
        count, hidden = as_frequency(true_frequency), Fraction(1)
        for law in self.rounds:
            hidden *= 1 - law.chance(count * law.weights.multiple)
        return 1 - hidden

    def first_frequency(self, probability: Fraction) -> int | None:
        """The smallest count with at least this probability."""
        last = self.rounds[-1]
        certain = -(-last.certain // last.weights.multiple)
        return bisect_left(range(certain + 1), probability, key=self.reporting_probability)

    def row(self, true_frequency: int) -> dict[int | None, Fraction]:
        """Not reported, or a value; None is "not reported". Sums to 1."""
        count = as_frequency(true_frequency)
        reported = self.reporting_probability(count)
        found: dict[int | None, Fraction] = {None: 1 - reported}
        if self.counts is None:
            found[1] = reported
            return found
        reached, before = self.counts.cumulative, 0
        for drop, here in enumerate(reached):
            value = max(1, count + self.counts.reach - drop)
            found[value] = found.get(value, Fraction(0)) + reported * Fraction(here - before, _WHOLE)
            before = here
        return found

    def draw(self, frequencies: NDArray[np.int64], bits: BitSource) -> NDArray[np.int64]:
        """The value of each found key: its count plus noise, at least 1."""
        given = as_frequencies(frequencies)
        if self.counts is None:
            raise InvalidParameter("no counts are drawn for a release of keys alone.")
        noise = CertifiedNoise(self.counts.table, self.certify()).draw_noise(len(given), bits)
        values: NDArray[np.int64] = np.maximum(given + noise, 1)
        return values

    # ---- estimates ----

    def invert(self, values: NDArray[np.int64], beta: Fraction) -> FrequencyEstimates:
        """The value is the most likely count; noise beyond either bound has probability at most beta / 2.

        A value of 1 stands for all that is below; its bound from above holds for those, too.
        """
        if self.counts is None:
            return FrequencyEstimates(None, np.ones(len(values), dtype=np.int64), None)
        # P[Z >= q] = P[D <= R - q]: the largest q that is not too unlikely.
        reached, allowed = self.counts.cumulative, beta / 2 * _WHOLE
        width = self.counts.reach - bisect_right(reached, allowed)
        if len(values) and int(values.max()) - width > _LARGEST_COUNT:
            raise InvalidParameter("a value of the release cannot have come from its law.")
        return FrequencyEstimates(values.copy(), np.maximum(values - width, 1), values + width)

    def likely_value(self, frequency: int) -> int:
        """The count itself."""
        return max(1, frequency)

    def reports(self, frequency: int) -> Reports:
        """Values with their probabilities, and their weights in a sum."""
        assert self.counts is not None  # noqa: S101 - asked for where there are values
        reached = np.array([here / _WHOLE for here in self.counts.cumulative])
        values = np.maximum(1.0, frequency + self.counts.reach - np.arange(len(reached)))
        chance = float(self.reporting_probability(frequency))
        return values, np.diff(reached, prepend=0.0) * chance, values / max(chance, 2.0**-60)

    def estimator(self, kind: EstimatorKind = "mle", of: FrequencyFunction | None = None) -> Estimator:
        """Weights that turn values into estimates of sums: g of the value over the chance of such a count."""
        only_most_likely(self, kind)
        return _MostLikely(self, of)

    @property
    def width(self) -> int:
        """The smallest count that is always reported."""
        last = self.rounds[-1]
        return -(-last.certain // last.weights.multiple)


class _MostLikely(EstimatorWeights):
    def _weight(self, value: int) -> Fraction:
        law = self._law
        count = value if law.values else law.width  # type: ignore[attr-defined]
        return self._wanted(count) / law.reporting_probability(count)


# ---- plain data ----


def _packed(function: Sequence[int]) -> str:
    return base64.b64encode(b"".join(value.to_bytes(16, "little") for value in function)).decode()


def _unpacked(text: object) -> list[int]:
    return read_entries(_bytes(text))


def _bytes(text: object) -> bytes:
    try:
        return base64.b64decode(str(text), validate=True)
    except binascii.Error:
        raise InvalidParameter("a table of a release in rounds is damaged.") from None


def _listed(found: object, most: int) -> list[Any]:
    if not isinstance(found, list) or len(found) > most:
        raise InvalidParameter("a release in rounds has no such stages.")
    return found


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


_STAGES: dict[str, Callable[[dict[str, Any]], SizeLaw | ReportingLaw | CountLaw]] = {
    "sizes": lambda facts: SizeLaw(_read_fraction(facts["loss"])),
    "round": _read_round,
    "counts": lambda facts: CountLaw(
        _read_fraction(facts["sigma"]), _whole(facts["differing"]), _whole(facts["reach"])
    ),
}
