"""Release a Misra-Gries sketch: the mechanism that fits what the sketch is."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Literal

import numpy as np

from dptally.errors import InvalidParameter
from dptally.exact import as_delta, as_epsilon
from dptally.laws.counter_laws import choose_counter_law
from dptally.laws.shared_noise import SharedNoise
from dptally.laws.summed_noise import SummedNoise
from dptally.laws.weighted_sample import WeightedSample
from dptally.mechanisms.base import Drawn
from dptally.mechanisms.sketch_terms import ShortfallChoice, sketch_terms
from dptally.privacy.spending import Part, Spending
from dptally.verifiers.tables import certify_copies

if TYPE_CHECKING:
    from dptally.estimates.shortfall import Shortfall
    from dptally.laws.base import Law
    from dptally.randomness import BitSource
    from dptally.summaries.sketch_contents import Form, SketchContents
    from dptally.verifiers.tables import Certificate

__all__ = ["PrivateMisraGries"]


class PrivateMisraGries:
    """Chooses the law for a sketch, certifies it, and draws.

    Which law, by what one unit more in the data can do to the counters:

    - "single", Algorithm 1: one counter by one, or all of them by one, and at most two keys [LT25, Lem. 8]. Own and
      shared noise, `SharedNoise`.
    - "standard", the same without zero counters, from another tool: the same with up to k keys.
    - "merged", "user": up to k counters by one, all in the same direction [LT25, Cor. 18, Lem. 27, Cor. 28]. Gaussian
      noise on all (`GaussianHistogram`), or the optimal law for each counter with the budget shared among k of them
      (`WeightedSample`), which is better for few counters, and better than Laplace noise of scale k / epsilon always:
      that is one way to share the budget. The law is taken that reports a key half of the time at the smallest
      counter, or, to `minimise` the error, the one with the smallest standard deviation. The choice depends on
      parameters alone.
    - "summed": all counters by (2k - 1) / (k + 1) together; `SummedNoise`.

    A share of epsilon goes to telling how far the sketch falls short of frequencies (basic composition), see
    `SketchTerms`. What is told is the number of times that counters were reduced, plus geometric noise: one unit more
    changes that number by at most one. (For Algorithm 1: of the states in the proof of [LT25, Lem. 8] those where all
    counters are one lower have had one reduction more, the others the same number. For Algorithm 4 and for merging
    likewise: in [LT25, Lem. 17, 27] counters of the longer stream are above or equal after equally many reductions, and
    below or equal after one more.) For "summed" it is the total length of the streams. With `elements_per_unit` = m the
    number changes by at most m, and the noise is so much larger.

    Guarantee:
        (epsilon, delta)-differential privacy for adding or removing one unit, certified before anything is drawn.

    References:
        [LT25].

    Args:
        form: what the sketch is. capacity: how many counters it has. epsilon: for the unit. delta: for the unit.
        elements_per_unit: how many elements of one unit the stream may hold, equal ones or not ("single", "standard"
            and "summed").
        max_keys_per_unit: bound on the keys of a unit ("user"), which the sketch has applied.
        shortfall: "private" to estimate it; a number that the owner states publicly (the largest amount by which any
            counter may fall short); or None to leave it open.
        minimise: "threshold" or "error".
        sketches: how many were added up.
        unit: the name of the column whose privacy is protected, or None for elements of the stream.
    """

    name = "misra_gries"

    def __init__(
        self,
        form: Form,
        capacity: int,
        epsilon: object,
        delta: object,
        *,
        elements_per_unit: int = 1,
        max_keys_per_unit: int = 1,
        shortfall: ShortfallChoice = "private",
        minimise: Literal["threshold", "error"] = "threshold",
        sketches: int = 1,
        unit: str | None = None,
    ) -> None:
        self._form, self.capacity, self.max_keys_per_unit = form, capacity, max_keys_per_unit
        self._terms = sketch_terms(
            as_epsilon(epsilon), as_delta(delta), elements_per_unit=elements_per_unit, shortfall=shortfall
        )
        self._delta, self._elements = self._terms.delta, self._terms.elements_per_unit
        if minimise not in ("threshold", "error"):
            raise InvalidParameter(f"minimise must be 'threshold' or 'error', got {minimise!r}.")
        if self._elements > 1 and form in ("merged", "user"):
            raise InvalidParameter(
                "elements_per_unit needs a sketch of one stream, or sketches that were added up: "
                "for units with several keys use a UserMisraGriesSketch."
            )
        self._sketches, self._unit = sketches, unit
        self.law, self.certificate = self._choose(self._terms.rest, minimise)

    def _choose(self, epsilon: Fraction, minimise: Literal["threshold", "error"]) -> tuple[Law, Certificate]:
        """The best law that is provable for this form of sketch, with its certificate."""
        law: Law
        if self._form in ("single", "standard"):
            standard = self._form == "standard"
            law = SharedNoise(epsilon, self._delta, self.capacity, standard=standard, elements=self._elements)
            return law, law.certify()
        if self._form == "summed":
            law = SummedNoise(epsilon, self._delta, self.capacity, elements=self._elements)
            return law, law.certify()
        law = choose_counter_law(epsilon, self._delta, self.capacity, minimise)
        if isinstance(law, WeightedSample):
            return law, certify_copies(law.certify(), copies=self.capacity, epsilon=epsilon, delta=self._delta)
        return law, law.certify()

    @property
    def spends(self) -> Spending:
        """What a draw spends.

        One unit more may raise counters of a sketch or lower them, so the profile of a law, which tells the two apart,
        is not used: counters enter by epsilon and delta, which do not.
        """
        if isinstance(self.law, WeightedSample):
            parts = [Part(self.law.epsilon, self.law.delta, self.capacity)]
        else:
            parts = [Part(self._terms.rest, self._delta)]
        if self._terms.spent:
            parts.append(Part(self._terms.spent, Fraction(0)))
        return Spending(self.name, self._terms.epsilon, self._delta, tuple(parts))

    def draw(self, contents: SketchContents, key: str, bits: BitSource) -> tuple[Drawn, Shortfall | None]:
        """Draw once; rows leave in the order of their keys, and share no memory with the sketch."""
        import pyarrow as pa

        if isinstance(self.law, SummedNoise):
            values = self.law.draw_scaled(contents.counters, bits)
        else:
            values = self.law.draw(contents.counters, bits)
        kept = np.flatnonzero(values)
        rows = pa.table({key: contents.keys.take(pa.array(kept)), "value": pa.array(values[kept], type=pa.int64())})
        guarantee = self._terms.guarantee(
            capacity=self.capacity,
            sketches=self._sketches,
            private=bits.private,
            unit=self._unit,
            max_keys_per_unit=self.max_keys_per_unit,
        )
        return Drawn(rows, guarantee, self.certificate, self.law), self._terms.shortfall(contents, bits)
