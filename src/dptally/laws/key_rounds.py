"""Keys found in rounds, for units with many keys, and a count for each: the laws of the stages and of a release.

Statement and proof of the guarantee are in `dptally.verifiers.key_rounds`; how sizes and tables are chosen is in
`dptally.laws.rounds_plan`.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from dptally.errors import InvalidParameter, PrivacyViolation
from dptally.exact import as_delta, as_epsilon
from dptally.laws.base import Law, as_frequencies, as_frequency, read_flag
from dptally.laws.inversion import FrequencyEstimates
from dptally.laws.round_stages import StageLaw, packed, read_stage, unpacked
from dptally.laws.tables.certified_table import CertifiedTable
from dptally.laws.unit_sizes import kept_share
from dptally.privacy.spending import Part
from dptally.verifiers.declared_profile import DeclaredProfile
from dptally.verifiers.key_rounds import Scale, certify_key_rounds

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dptally.laws.key_errors import Reports
    from dptally.randomness import BitSource
    from dptally.verifiers.tables import Certificate

__all__ = ["KeyRounds"]

_WHOLE = 1 << 128
_MOST_STAGES, _MOST_BINS, _LARGEST_COUNT = 16, 64, 1 << 62


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
        stages: Sequence[StageLaw],
        sizes: Sequence[Sequence[int]] = (),
    ) -> None:
        self.epsilon, self.delta, self.scale = as_epsilon(epsilon), as_delta(delta), scale
        self.declared, self.stages = tuple(map(tuple, declared)), tuple(stages)
        self.sizes = tuple(map(tuple, sizes))
        self.rounds = [law for law in self.stages if law.kind == "round"]
        counts = [law.counts for law in self.stages if law.kind in ("counts", "statistics")]
        self.values = bool(counts)
        self.counts = counts[0] if counts else None
        self.statistics = next((law for law in self.stages if law.kind == "statistics"), None)
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
            "declared": [packed(function) for function in self.declared],
            "stages": [law.facts() for law in self.stages],
            "sizes": [list(counts) for counts in self.sizes],
        }

    @classmethod
    def from_facts(cls, facts: dict[str, Any]) -> Self:
        """Back from plain data; `certify` says whether it is a law that guarantees something."""
        stages = [read_stage(each) for each in _listed(facts["stages"], _MOST_STAGES)]
        declared = [unpacked(each) for each in _listed(facts["declared"], _MOST_STAGES)]
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
        reached, before, grain = self.counts.cumulative, 0, self.counts.grain
        for drop, here in enumerate(reached):
            value = max(1, grain * ((count + grain // 2) // grain + self.counts.reach - drop))
            found[value] = found.get(value, Fraction(0)) + reported * Fraction(here - before, _WHOLE)
            before = here
        return found

    def draw(self, frequencies: NDArray[np.int64], bits: BitSource) -> NDArray[np.int64]:
        """The value of each found key: its count plus noise, at least 1."""
        given = as_frequencies(frequencies)
        if self.counts is None:
            raise InvalidParameter("no counts are drawn for a release of keys alone.")
        noise = CertifiedTable(self.counts.table, self.certify()).draw_noise(len(given), bits)
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
        width = (self.counts.reach - bisect_right(reached, allowed)) * self.counts.grain + self.counts.grain // 2
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
        values = np.maximum(1.0, frequency + self.counts.grain * (self.counts.reach - np.arange(len(reached))))
        chance = float(self.reporting_probability(frequency))
        return values, np.diff(reached, prepend=0.0) * chance, values / max(chance, 2.0**-60)

    def most_likely(self, value: int) -> int:
        """The value itself; without values the smallest count that is always reported."""
        return value if self.values else self.width

    @property
    def width(self) -> int:
        """The smallest count that is always reported."""
        last = self.rounds[-1]
        return -(-last.certain // last.weights.multiple)


def _listed(found: object, most: int) -> list[Any]:
    if not isinstance(found, list) or len(found) > most:
        raise InvalidParameter("a release in rounds has no such stages.")
    return found
