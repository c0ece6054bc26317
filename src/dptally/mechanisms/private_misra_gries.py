"""Release a Misra-Gries sketch: the mechanism that fits what the sketch is."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Literal, Protocol

import numpy as np

from dptally.errors import InvalidParameter
from dptally.exact import as_delta, as_epsilon, as_fraction
from dptally.laws.counter_laws import choose_counter_law
from dptally.laws.shared_noise import SharedNoise
from dptally.laws.summed_noise import SummedNoise
from dptally.laws.weighted_sample import WeightedSample
from dptally.mechanisms.base import Drawn
from dptally.mechanisms.sketch_terms import ShortfallChoice, sketch_terms
from dptally.privacy.spending import Part, Spending
from dptally.verifiers.tables import certify_copies

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray

    from dptally.estimates.shortfall import Shortfall
    from dptally.laws.base import Law
    from dptally.ledger.paying import AnyLedger
    from dptally.mechanisms.pure_misra_gries import PureMisraGries
    from dptally.randomness import BitSource
    from dptally.releases.release import Release
    from dptally.verifiers.tables import Certificate

__all__ = ["Form", "PrivateMisraGries", "Sketch", "SketchContents", "publish_sketch"]

Form = Literal["single", "standard", "merged", "user", "summed"]


@dataclass(frozen=True, repr=False)
class SketchContents:
    """What a sketch hands over. Private.

    Attributes:
        keys: of the counters, sorted, without placeholders; for the form "single" with zero counters.
        counters: one for each key; for the form "summed" in units of 1 / (capacity + 1).
        missing: S: no frequency exceeds its counter by more than S / `missing_parts`.
        missing_parts: capacity + 1 for the form "summed", where S is the length of all streams; otherwise 1.
    """

    keys: pa.Array
    counters: NDArray[np.int64]
    missing: int
    missing_parts: int


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


class Sketch(Protocol):
    """What can be released: a sketch, of whatever form."""

    capacity: int

    @property
    def names(self) -> tuple[str | None, str | None]:
        """Of the columns of keys and units it was read from."""

    @property
    def form(self) -> Form:
        """What it is."""

    @property
    def key_type(self) -> pa.DataType:
        """The type of its keys, declared without a look at them."""

    def contents(self) -> SketchContents:
        """What it holds."""

    def reduced_contents(self) -> SketchContents:
        """The same after [LT25, Alg. 3], in units of 1 / (capacity + 1)."""


def publish_sketch(
    sketch: Sketch,
    epsilon: object,
    delta: object = None,
    *,
    name: str | None = None,
    unit: str | None = None,
    universe: Any = None,
    ledger: AnyLedger | None = None,
    randomness: BitSource | None = None,
    **options: Any,
) -> Release:
    """Release a sketch; see `PrivateMisraGries`, and `PureMisraGries` for a universe of keys.

    Everything is certified before counters are read.
    """
    from dptally.ledger.paying import paying
    from dptally.randomness import read_bits
    from dptally.releases.release import RESERVED_COLUMNS, Release

    if name in RESERVED_COLUMNS:
        raise InvalidParameter(f"a key column may not be named {name!r}: the release has a column of that name.")
    key_name, unit_name = sketch.names
    column = name or (key_name if key_name and key_name not in RESERVED_COLUMNS else "key")
    by_unit = sketch.form == "user"
    if unit is not None and not by_unit:
        raise InvalidParameter("unit is for sketches of users; in this one every element is a unit of its own.")
    unit = (unit or unit_name or "unit") if by_unit else None
    bits = read_bits(randomness)
    mechanism: PrivateMisraGries | PureMisraGries
    if universe is not None:
        mechanism = _pure_mechanism(sketch, epsilon, delta, universe, **options)
    elif delta is None:
        raise InvalidParameter("delta is missing: give one, such as 1e-6, or a universe of keys for delta = 0.")
    else:
        mechanism = PrivateMisraGries(
            sketch.form,
            sketch.capacity,
            epsilon,
            delta,
            max_keys_per_unit=(getattr(sketch, "max_keys_per_unit", None) or 0) if by_unit else 1,
            sketches=getattr(sketch, "sketches", 1),
            unit=unit,
            **options,
        )
    with paying(ledger, mechanism.spends, bits, unit=unit) as paid:
        contents = sketch.contents() if universe is None else sketch.reduced_contents()
        drawn, shortfall = mechanism.draw(contents, column, paid.bits)
        guarantee = paid.sign(drawn.guarantee)
    if not getattr(sketch, "private", True):  # a unit's keys were chosen by bits that are not secret
        guarantee = replace(guarantee, private=False)
    return Release(drawn.rows, guarantee, drawn.certificate, drawn.law, shortfall)


def _pure_mechanism(
    sketch: Sketch,
    epsilon: object,
    delta: object,
    universe: Any,
    *,
    minimise: str = "threshold",
    **options: Any,
) -> PureMisraGries:
    """The mechanism with delta = 0 over a universe, for counters that have been reduced."""
    import pyarrow as pa

    from dptally.mechanisms.pure_misra_gries import PureMisraGries
    from dptally.universes import read_universe

    del minimise  # there is one kind of noise
    if delta is not None and as_fraction("delta", delta) != 0:
        raise InvalidParameter(f"with a universe delta is 0; leave delta out, got {delta}.")
    if sketch.form not in ("single", "standard", "summed"):
        raise InvalidParameter("delta = 0 needs sketches of one stream each, or added-up ones; this one was merged.")
    known = read_universe(universe) if isinstance(universe, str) else universe
    # Refuses keys of another type now: before anything is spent, and whether or not the sketch holds any.
    known.indices(pa.array([], sketch.key_type))
    return PureMisraGries(known, sketch.capacity, epsilon, sketches=getattr(sketch, "sketches", 1), **options)
