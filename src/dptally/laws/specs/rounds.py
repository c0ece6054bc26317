"""Find the keys of units with many keys in rounds, then count those that were found."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from dptally.errors import InvalidParameter
from dptally.laws.audits import Audits, Exact
from dptally.laws.key_rounds import KeyRounds
from dptally.laws.rounds_plan import SIZES, plan_for
from dptally.laws.spec import Mechanism, Question, Request, Spec
from dptally.laws.tables.reporting_curve import Weights
from dptally.privacy.guarantee import Guarantee
from dptally.verifiers.key_rounds import check_stage

if TYPE_CHECKING:
    import pyarrow as pa

    from dptally.laws.statistics import Statistics
    from dptally.verifiers.tables import Certificate

__all__ = ["Rounds", "RoundsSpec"]

_LARGEST_BOUND = SIZES[-1]
_LAST = ("found_counts", "found_statistics")
_SMALLEST_EPSILON = Fraction(1, 50)
_LIKELY_SIZE = 8  # keys of a unit, for plans where none is stated


@dataclass(frozen=True)
class Rounds(Mechanism):
    """Report keys by a yes or no in three rounds; keys that were found are public, and units spend on the others.

    Without a bound on the keys of a unit, sizes are measured privately before each round and decide how many keys a
    unit keeps and how much each of them weighs. With values, the counts of the found keys follow in a last stage
    without threshold, for a quarter of the budget.

    Guarantee:
        (epsilon, delta)-differential privacy for adding or removing one unit, whatever it holds; statement and proof
        in `dptally.verifiers.key_rounds`.

    References:
        [HM26] for the law of one round, [SDH23] for rounds.
    """

    name: ClassVar[str] = "rounds"
    title: ClassVar[str] = "Rounds of keys"
    summary: ClassVar[str] = "keys of units with many keys, found in three rounds, then a noisy count for each"
    because: ClassVar[str] = "it spends on which keys occur alone, round by round, and counts only those it found"
    references: ClassVar[tuple[str, ...]] = ("HM26", "SDH23")
    keys_only: ClassVar[bool] = True
    cluster: ClassVar[Literal["rows"]] = "rows"
    automatic: ClassVar[bool] = True
    measures: ClassVar[bool] = True
    statistics: ClassVar[bool] = True
    audits: ClassVar[Audits] = Audits(
        exact=(Exact("rounds of keys"),), observed="units", runs=60_000, controls={"delta x 4": ("1", "0.01")}
    )

    def spec(self, request: Request) -> Spec:
        """See `Mechanism.spec`."""
        if request.unit is None and request.statistics is None:
            raise InvalidParameter("mechanism 'rounds' is for units with several keys; name the `unit` column.")
        return self.plan(request)

    def plan(self, request: Request) -> Spec:
        """See `Mechanism.plan`: without a unit, for units of `max_keys_per_unit` keys."""
        delta = self._checked(request)
        if request.epsilon < _SMALLEST_EPSILON:
            raise InvalidParameter(
                "epsilon must be at least 0.02 for mechanism 'rounds', whose tables would be too long; state "
                "`max_keys_per_unit` to have another mechanism."
            )
        bound = None if request.measured else request.max_keys_per_unit
        if bound is not None and bound > _LARGEST_BOUND:
            raise InvalidParameter(
                f"mechanism 'rounds' keeps at most {_LARGEST_BOUND} keys per unit, got {bound}; leave "
                "`max_keys_per_unit` out to have it measured."
            )
        if request.statistics is not None and not request.values:
            raise InvalidParameter("sums, means and totals come with counts; leave `values` at True.")
        stated: dict[str, Any] = {"values": request.values, "bound": bound, "statistics": request.statistics}
        return RoundsSpec(self.name, request.epsilon, delta, **stated)


class RoundsSpec(Spec):
    """All stages of a release in rounds.

    Args:
        name: of the mechanism.
        epsilon: for the unit.
        delta: for the unit.
        values: whether counts follow.
        bound: how many keys of a unit count in each round; None to measure sizes.
        statistics: what else is released of found keys, or None.
    """

    summary: ClassVar[str] = "unit_sizes"
    note = "Keys of units that keep all their keys; where many are cut, fewer are found."
    at_least = True

    def __init__(
        self,
        name: str,
        epsilon: Fraction,
        delta: Fraction,
        *,
        values: bool,
        bound: int | None,
        statistics: Statistics | None = None,
    ) -> None:
        self.statistics = statistics
        last = None if statistics is None else float(1 - statistics.parts["selection"])
        self.plan = plan_for(epsilon, delta, values=values, bound=bound, last=last)
        self._asked: list[Question] = []
        if bound is None and statistics is not None:
            self._last_law(SIZES[-1], SIZES[-1])  # refuses shares that are too small for what may be measured
        law = self.law_for_size(bound or _LIKELY_SIZE)
        super().__init__(
            name,
            law,
            self._certified,
            epsilon=epsilon,
            delta=delta,
            parts=(law.event,),
            max_keys_per_unit=bound or 0,
        )

    def law_for_size(self, keys: int) -> KeyRounds:
        """The law for units of like sizes, for plans; what is drawn from follows from what is measured."""
        size, plan = keys, self.plan
        laws: list[Any] = []
        for place, stage in enumerate(plan.stages):
            if stage.kind == "sizes":
                laws.append(plan.size_law(place))
            elif stage.kind == "round":
                laws.append(plan.round_law(place, Weights.between(size, size)))
            else:
                laws.append(self._last_law(size, size))
        return KeyRounds(plan.epsilon, plan.delta, plan.scale, plan.declared, laws)

    def _last_law(self, differing: int, cap: int) -> Any:
        if self.statistics is None:
            return self.plan.count_law(differing)
        return self.plan.statistics_law(self.statistics, differing, cap)

    @property
    def shares(self) -> tuple[tuple[str, float], ...]:
        """Of all stages, in order."""
        return tuple((stage.kind, stage.share) for stage in self.plan.stages)

    def _certified(self) -> Certificate:
        """Declared functions, and laws for units of like sizes; laws that are chosen later are verified then."""
        found: Certificate = self.law.certify()
        return found

    def next(self, outputs: Sequence[Any]) -> Question | None:
        """Sizes, a round, ..., and counts: each from what was released before, verified before it is asked."""
        place = len(outputs)
        if place >= len(self.plan.stages):
            return None
        self._asked = self._asked[:place]
        if len(self._asked) < place:  # asked about outputs that another spec gave
            for known in range(len(self._asked), place):
                self.next(outputs[:known])
        question = self._ask(place, outputs)
        if question.summary not in _LAST:  # the law of counts is that of the release, and certified as such
            after = self.plan.declared[place + 1] if place + 1 < len(self.plan.stages) else None
            before, scale = self.plan.declared[place], self.plan.scale
            check_stage(question.law.stage, before, after, scale=scale, epsilon=self.plan.epsilon)
        self._asked.append(question)
        return question

    def _ask(self, place: int, outputs: Sequence[Any]) -> Question:
        plan, kind = self.plan, self.plan.stages[place].kind
        measured = outputs[place - 1] if place and plan.stages[place - 1].kind == "sizes" else None
        found = _found(plan, outputs)
        every_row = self.statistics is not None and self.statistics.reads_values
        parameters: Mapping[str, Any] = {"found": found, "every_row": every_row}
        if kind == "sizes":
            of_found = place == len(plan.stages) - 2 and plan.values
            parameters = {**parameters, "ends": SIZES, "of_found": of_found}
            return Question(plan.size_law(place), self.certificate, 0, "unit_sizes", parameters)
        if kind == "round":
            weights = plan.weights(place, measured)
            return Question(plan.round_law(place, weights), self.certificate, weights.high, "unit_weights", parameters)
        last = self._last_law(plan.counted(measured), plan.capped(outputs))
        law = self._law([*self._laws_so_far(), last], outputs)
        summary = "found_counts" if self.statistics is None else "found_statistics"
        return Question(law, law.certify(), plan.counted(measured), summary, parameters)

    def _laws_so_far(self) -> list[Any]:
        return [question.law for question in self._asked]

    def _law(self, laws: list[Any], outputs: Sequence[Any]) -> KeyRounds:
        plan = self.plan
        sizes = [out for stage, out in zip(plan.stages, outputs, strict=False) if stage.kind == "sizes"]
        return KeyRounds(plan.epsilon, plan.delta, plan.scale, plan.declared, laws, sizes)

    def result(self, outputs: Sequence[Any]) -> dict[str, Any]:
        """The found keys with their values, and the law of all stages."""
        if self.statistics is not None:
            law, (rows, numbers) = self._asked[-1].law, outputs[-1]
            return {"rows": rows, "numbers": numbers, "law": law, "certificate": law.certify()}
        if self.plan.values:
            law = self._asked[-1].law
            return {"rows": outputs[-1], "law": law, "certificate": law.certify()}
        law = self._law(self._laws_so_far(), outputs)
        return {"rows": _found(self.plan, outputs), "law": law, "certificate": law.certify()}

    def guarantee(self, unit: str | None, *, private: bool) -> Guarantee:
        """With the number of keys that rounds turned out to keep at most."""
        highest = [question.max_keys_per_unit for question in self._asked if question.summary != "unit_sizes"]
        stated = super().guarantee(unit, private=private)
        conditions = {"rounds": sum(stage.kind == "round" for stage in self.plan.stages)}
        if self.statistics is not None:
            asked = self.statistics
            conditions |= {"statistics": len(asked.asked), "totals": int(asked.totals)}
            conditions |= {"rows_per_unit_and_key": asked.rows or 1}
        return replace(stated, max_keys_per_unit=max(highest or [self.law.most_keys])).under(**conditions)

    def check_count(self, count: str | None) -> None:
        """Statistics are of rows."""
        if count is not None:
            raise InvalidParameter("sums, means and totals are of rows; this source has counts of keys.")

    def check_keys(self, schema: pa.Schema) -> None:
        """Refuse names of key columns that statistics have in the release."""
        taken = () if self.statistics is None else self.law.statistics.column_names
        clash = next((name for name in schema.names if name in taken), None)
        if clash is not None:
            raise InvalidParameter(f"a key column may not be named {clash!r}: the release has a column of that name.")


def _found(plan: Any, outputs: Sequence[Any]) -> pa.Table | None:
    """All keys that rounds have found so far, in order, with the value 1; None before the first round."""
    import pyarrow as pa

    tables = [out for stage, out in zip(plan.stages, outputs, strict=False) if stage.kind == "round"]
    if not tables:
        return None
    rows = pa.concat_tables(tables)
    keys = [(name, "ascending") for name in rows.column_names if name != "value"]
    return rows.sort_by(keys)
