"""Release a Misra-Gries sketch: the law that fits what the sketch is."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, Literal

from dptally.errors import InvalidParameter
from dptally.exact import as_count, as_delta, as_fraction
from dptally.laws.audits import Audits, Exact
from dptally.laws.gaussian_histogram import GaussianHistogram
from dptally.laws.shared_noise import SharedNoise
from dptally.laws.shortfall import Shortfall, noise_scale
from dptally.laws.spec import Mechanism, Question, Request, Spec, option
from dptally.laws.summed_noise import SummedNoise, reduced_distance
from dptally.laws.top_k_noise import TopKNoise
from dptally.laws.weighted_sample import WeightedSample
from dptally.privacy.composition import LARGEST_UNIT, share_between_keys
from dptally.privacy.spending import Part
from dptally.universes import Universe
from dptally.verifiers.pure import certify_rounded_counters
from dptally.verifiers.tables import Certificate, certify_copies

Form = Literal["single", "standard", "merged", "user", "summed"]
ShortfallChoice = Literal["private"] | int | None
_USUAL_CAPACITY = 10_000
_SHARE = Fraction(1, 20)
_LARGEST_ELEMENTS = 10_000
_MOST_SHARED_KEYS = 300  # above, Gaussian noise is better for every epsilon and delta that are allowed


@dataclass(frozen=True)
class SketchFacts:
    """What is public about a sketch."""

    form: Form  # what it is; see `MisraGries`
    capacity: int  # how many counters it has
    # bound on the keys of a unit ("user"), which the sketch has applied; 0 where there is none
    max_keys_per_unit: int = 1
    sketches: int = 1  # how many were added up


@dataclass(frozen=True)
class MisraGries(Mechanism):
    """Choose the law for a sketch by what one unit more in the data can do to its counters.

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
    - with a universe, "single", "standard" and "summed" under delta = 0: reduced counters, rounded at random to whole
      ones, then treated like the counts of a sparse histogram; see `certify_rounded_counters`.

    A share of epsilon goes to telling how far the sketch falls short of counts (basic composition). What is told is the
    number of times that counters were reduced, plus geometric noise: one unit more changes that number by at most one.
    (For Algorithm 1: of the states in the proof of [LT25, Lem. 8] those where all counters are one lower have had one
    reduction more, the others the same number. For Algorithm 4 and for merging likewise: in [LT25, Lem. 17, 27]
    counters of the longer stream are above or equal after equally many reductions, and below or equal after one more.)
    For "summed" it is the total length of the streams. With `elements_per_unit` = m the number changes by at most m,
    and the noise is so much larger.

    Guarantee:
        (epsilon, delta)-differential privacy for adding or removing one unit, certified before counters are read.

    References:
        [LT25].
    """

    name: ClassVar[str] = "misra_gries"
    title: ClassVar[str] = "Private Misra-Gries sketch"
    summary: ClassVar[str] = "counts in bounded memory, however many keys there are, with noise and a threshold"
    because: ClassVar[str] = "a sketch protects a row that moves one counter, whatever its key"
    bounded_memory: ClassVar[bool] = True
    costs: ClassVar[tuple[Literal["capacity"], float, float]] = ("capacity", 3e-7, 120.0)
    references: ClassVar[tuple[str, ...]] = ("LT25",)
    audits: ClassVar[Audits] = Audits(
        exact=(
            Exact("shared noise", 2, "one stream"),
            Exact("counters", 1, "merged"),
            Exact("summed counters", 1, "summed"),
            Exact("pure counters", 1, "pure sketch"),
        ),
        observed="stream",
        runs=1_000,
        controls={"delta x 4": ("0.3", "0.1")},
    )
    cluster: ClassVar[Literal["sketch"]] = "sketch"

    capacity: int | None = option("how many counters the sketch has; 10,000 if left out")

    def spec(self, request: Request) -> Spec:
        """See `Mechanism.spec`: for a sketch that is made while the data is read."""
        self._checked(request)
        capacity = _USUAL_CAPACITY if self.capacity is None else self.capacity
        capacity = as_count("capacity", capacity, largest=1 << 30)
        form: Form = "user" if request.unit is not None else "merged" if request.merged else "single"
        made = SketchSpec(SketchFacts(form, capacity, request.max_keys_per_unit), request.epsilon, request.delta)
        made.note = f"Bounded memory: {capacity:,} counters, which may fall short of frequencies."
        return made


def _of_counters(
    sketch: SketchFacts, rest: Fraction, delta: Fraction, elements: int, minimise: Literal["threshold", "error"]
) -> tuple[Any, Callable[[], Certificate], list[Part]]:
    """The best law that is provable for this form of sketch.

    One unit more may raise counters of a sketch or lower them, so the profile of a law, which tells the two apart, is
    not used: counters are accounted for by epsilon and delta, which do not.
    """
    whole = [Part(rest, delta)]
    if sketch.form in ("single", "standard"):
        noise = SharedNoise(rest, delta, sketch.capacity, standard=sketch.form == "standard", elements=elements)
        return noise, noise.certify, whole
    if sketch.form == "summed":
        summed = SummedNoise(rest, delta, sketch.capacity, elements=elements)
        return summed, summed.certify, whole
    law = choose_counter_law(rest, delta, sketch.capacity, minimise)
    if law.judged_for_unit:
        return law, law.certify, whole
    shared = law

    def certify() -> Certificate:
        return certify_copies(shared.certify(), copies=sketch.capacity, epsilon=rest, delta=delta)

    return shared, certify, [Part(shared.epsilon, shared.delta, sketch.capacity)]


def choose_counter_law(
    epsilon: Fraction, delta: Fraction, capacity: int, minimise: Literal["threshold", "error"] = "threshold"
) -> WeightedSample | GaussianHistogram:
    """The better of two laws: Gaussian noise on all counters, or the optimal law for each with a share of the budget.

    "threshold" is for the law that reports a key half of the time at the smallest counter, "error" for the one with the
    smallest standard deviation. Parameters alone decide, so that the planner shows the law that a release would have.
    """
    gaussian = GaussianHistogram(epsilon, delta, capacity)
    if capacity > min(_MOST_SHARED_KEYS, LARGEST_UNIT):
        return gaussian
    shared = WeightedSample(*share_between_keys(epsilon, delta, capacity))
    if minimise == "threshold":
        return shared if _half(shared) <= _half(gaussian) else gaussian
    return shared if _variance(shared) <= gaussian.sigma**2 else gaussian


def _half(law: WeightedSample | GaussianHistogram) -> int:
    """The smallest counter that is reported at least half of the time."""
    found = law.first_frequency(Fraction(1, 2))
    if found is None:
        raise InvalidParameter("no counter would be reported half of the time.")
    return found


def _variance(law: WeightedSample) -> Fraction:
    """Of the difference between a counter that is always reported and its value."""
    mean = sum((drop * chance for drop, chance in enumerate(law.drop_law)), Fraction(0))
    return sum((drop**2 * chance for drop, chance in enumerate(law.drop_law)), Fraction(0)) - mean**2


def _over_universe(
    sketch: SketchFacts, rest: Fraction, universe: Universe, elements: int
) -> tuple[TopKNoise, Callable[[], Certificate]]:
    """Reduced counters, rounded at random, then a sparse histogram: noise of scale about 2 / epsilon on each counter.

    ln(1 + x) >= 2x / (2 + x): noise whose masses shrink by a factor of at most 1 + x per step.
    """
    distance = reduced_distance(sketch.capacity, elements)
    step = rest / distance
    short = Fraction(math.floor(2 * step / (2 + step) * (1 << 64)), 1 << 64)
    law = TopKNoise(short, size=universe.size, keep=sketch.capacity * sketch.sketches, universe=universe.name)
    return law, lambda: certify_rounded_counters(law.certify(), distance=distance, epsilon=rest)


class SketchSpec(Spec):
    """The spec for a sketch that is there already: counters, and how far they fall short, where that is estimated.

    Epsilon and delta are for the unit; with a universe, all keys there may be, delta is None or 0. `elements_per_unit`
    is how many elements of one unit the stream may hold, equal ones or not ("single", "standard" and "summed").
    `shortfall` is "private" to estimate it; a number that the owner states publicly (the largest amount by which any
    counter may fall short); or None to leave it open. `minimise` is "threshold" or "error".
    """

    summary: ClassVar[str] = "sketch"

    def __init__(
        self,
        sketch: SketchFacts,
        epsilon: Fraction,
        delta: Fraction | None,
        *,
        universe: Universe | None = None,
        elements_per_unit: int = 1,
        shortfall: ShortfallChoice = "private",
        minimise: Literal["threshold", "error"] = "threshold",
    ) -> None:
        elements = as_count("elements_per_unit", elements_per_unit, largest=_LARGEST_ELEMENTS)
        self._stated = None
        if shortfall is not None and shortfall != "private":
            self._stated = as_count("shortfall", shortfall, smallest=0, largest=1 << 62)
        if minimise not in ("threshold", "error"):
            raise InvalidParameter(f"minimise must be 'threshold' or 'error', got {minimise!r}.")
        if elements > 1 and sketch.form in ("merged", "user"):
            raise InvalidParameter(
                "elements_per_unit needs a sketch of one stream, or sketches that were added up: "
                "for units with several keys use a UserMisraGriesSketch."
            )
        spent = epsilon * _SHARE if shortfall == "private" else Fraction(0)
        if universe is not None:
            if delta is not None and as_fraction("delta", delta) != 0:
                raise InvalidParameter(f"with a universe delta is 0; leave `delta` out, got {delta}.")
            if sketch.form not in ("single", "standard", "summed"):
                raise InvalidParameter(
                    "delta = 0 needs sketches of one stream each, or added-up ones; this one was merged."
                )
            delta = Fraction(0)
            law, certify = _over_universe(sketch, epsilon - spent, universe, elements)
            parts = [Part(epsilon - spent, delta)]
        else:
            if delta is None or not delta:
                raise InvalidParameter("delta is missing: give one, such as 1e-6, or a universe of keys for delta = 0.")
            delta = as_delta(delta)
            law, certify, parts = _of_counters(sketch, epsilon - spent, delta, elements, minimise)
        if spent:
            parts.append(Part(spent, Fraction(0)))
        super().__init__(
            MisraGries.name,
            law,
            certify,
            epsilon=epsilon,
            delta=delta,
            parts=tuple(parts),
            max_keys_per_unit=sketch.max_keys_per_unit,
            conditions={
                "spent_on_shortfall": spent,
                "sketch_capacity": sketch.capacity,
                "sketches": sketch.sketches,
                "elements_per_unit": elements,
            },
        )
        self.sketch, self._universe = sketch, universe
        # One element more changes what is told by at most one, so with m elements its noise is that of epsilon / m.
        self._step = spent / elements
        # With a universe, a counter may have been rounded down by nearly one.
        self._more = 0 if universe is None else 1

    @property
    def reduced(self) -> bool:
        """Whether counters are reduced before they are released [LT25, Alg. 3]."""
        return self._universe is not None

    @property
    def parameters(self) -> Mapping[str, Any]:
        """The sketch, and the universe."""
        return {"sketch": self.sketch, "universe": self._universe}

    def next(self, outputs: Sequence[Any]) -> Question | None:
        """First the counters, then the shortfall."""
        if not outputs:
            return self._question()
        if len(outputs) > 1 or not self._step:
            return None
        asked = {"epsilon": self._step, "more": self._more, "reduced": self.reduced}
        return Question(self.law, self.certificate, self.max_keys_per_unit, "shortfall", asked)

    def result(self, outputs: Sequence[Any]) -> dict[str, Any]:
        """Rows, and the shortfall: estimated, as stated, or left open."""
        found = None
        if self._step:
            parts = self.sketch.capacity + 1 if self.reduced or self.sketch.form == "summed" else 1
            found = Shortfall(outputs[1], noise_scale(self._step), parts)
        elif self._stated is not None:
            found = Shortfall(self._stated + self._more, 0, 1)
        return {"rows": outputs[0], "shortfall": found}
