"""What is fixed before data is read for a release in rounds, and how each stage follows from what was released.

A plan has stages (sizes of units, a round of keys, ..., counts of the keys found) and one declared function of the
likelihood ratio for each; `dptally.verifiers.key_rounds` says what they guarantee. Everything here is public: sizes of
a round are chosen from released numbers alone.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, Literal

import numpy as np

from dptally.errors import PrivacyViolation
from dptally.laws.round_stages import CountLaw, ReportingLaw, SizeLaw
from dptally.laws.statistics_law import StatisticsLaw
from dptally.laws.tables.reporting_curve import Chain, Shape, Weights, propose
from dptally.laws.unit_sizes import SIZES, likely_units
from dptally.verifiers.key_rounds import Scale, check_stage

if TYPE_CHECKING:
    from dptally.laws.statistics import Statistics

__all__ = ["SIZES", "RoundsPlan", "Stage", "plan_for"]

_ROUNDS = (0.04, 0.16, 0.80)  # shares of what is spent on selection
_NEW_KEYS = (0.10, 0.25, 0.65)  # of the chance that a unit shows a key of its own
_MEASURED = (0.003, 0.004, 0.010)  # shares of the whole for the sizes before each round
_COUNTS, _FOUND_SIZES = 0.245, 0.005  # shares of the whole for counts, and for how many found keys units have
_OWN_KEYS = 0.5  # the chance that a unit shows a key of its own, over delta
_REFERENCES = (1, 2, 8, 32, 128)
"""Keys of a unit in laws that functions are declared from."""
_HIGHER, _HIGHEST = 0.07, 1.2
"""By how much of epsilon, and at most, the order is higher where one function is declared for units of all sizes: laws
for few keys prefer it, and the larger epsilon, the fewer keys units have left in the last round."""
_FEW = 0.2  # a round with a smaller share is not the last
_SPREAD = 8  # the largest ratio of the two sizes of a round
_MOST_WORK = 1 << 19  # keys of a unit times half of the rows of a table, about: what is verified in seconds
_UNKNOWN = (8, 32)  # sizes of a round where no bin stands out
_KEPT = 0.95  # share of units all of whose found keys are counted, about
_SHRUNK = (1.0, 0.995, 0.98, 0.9, 0.7)  # of a divergence, where the verifier refuses what was found
_SPARE = 1 - 2.0**-20
_CLOSE = 2e-3  # how near to its declared function a law is brought, in logarithms


@dataclass(frozen=True)
class Stage:
    """One stage of a plan: its kind, its share of the budget, and its share of the chance to show a key of one unit."""

    kind: Literal["sizes", "round", "counts"]
    share: float
    new_keys: float = 0.0


class RoundsPlan:
    """Stages, and the function each must stay below. Public.

    Args:
        epsilon: for the unit.
        delta: for the unit.
        values: whether counts of the found keys are released, too.
        bound: how many keys of a unit are kept in each round; None to measure sizes.
        last: share of the budget for what is released of found keys; None for the usual one.
    """

    def __init__(
        self, epsilon: Fraction, delta: Fraction, *, values: bool, bound: int | None, last: float | None = None
    ) -> None:
        self.epsilon, self.delta, self.values, self.bound = epsilon, delta, values, bound
        self.chain = Chain(float(epsilon), float(delta))
        self.scale = Scale(self.chain.density, self.chain.below, self.chain.above)
        self.stages = _stages(values=values, bound=bound, last=last)
        higher = 1.0 if bound else min(1 + _HIGHER * float(epsilon), _HIGHEST)
        self._order = higher * Shape.order_for(float(epsilon), float(delta))
        self._divergence, self.declared = self._largest()

    # ---- the laws of stages ----

    def size_law(self, place: int) -> SizeLaw:
        """The noise on sizes."""
        found = math.sqrt(2 * self.stages[place].share * self._divergence / self._order)
        return SizeLaw(Fraction(math.floor(math.ldexp(found, 32)), 1 << 32))

    def round_law(self, place: int, weights: Weights) -> ReportingLaw:
        """The law of a round that reports most, for these sizes."""
        declared = self.declared[place + 1] if place + 1 < len(self.stages) else None
        after = self.chain.end() if declared is None else self.chain.at_all_points(declared)
        shape = self._shape(place, self._divergence)
        shape = Shape(shape.order, shape.divergence, shape.new_keys * _SPARE)
        shape = self.chain.fit(weights, shape, self.declared[place], after)
        for share in _SHRUNK:  # the search leaves out rows of long tables, the verifier none
            curve = propose(weights, Shape(shape.order, share * shape.divergence, shape.new_keys))
            law = ReportingLaw(weights, curve.table())
            try:
                check_stage(law.stage, self.declared[place], declared, scale=self.scale, epsilon=self.epsilon)
            except PrivacyViolation:
                continue
            break
        return law

    def count_law(self, differing: int) -> CountLaw:
        """The noise on counts, where so many of a unit's found keys are counted."""
        shift = math.sqrt(2 * self.stages[-1].share * self._divergence / self._order)
        return CountLaw.within(math.sqrt(differing) / shift, differing, self.epsilon, self.delta)

    def statistics_law(self, asked: Statistics, differing: int, cap: int) -> StatisticsLaw:
        """The noise on everything that is released of found keys and of the whole.

        Args:
            asked: what that is.
            differing: how many found keys of a unit are counted.
            cap: how many keys of a unit that were not found are counted.
        """
        shift = _SPARE * math.sqrt(2 * self.stages[-1].share * self._divergence / self._order)
        return StatisticsLaw.within(asked, shift, differing, cap, self.epsilon, self.delta)

    def weights(self, place: int, counts: Sequence[int] | None) -> Weights:
        """The sizes of a round, from released counts of units by size; None where the bound is given.

        A key is found about where the smallest weight times its count reaches the half point of the curve. Of all
        pairs of sizes the one is taken that finds keys of the smallest count, if units have the sizes that were
        released and each of their keys is as likely to be kept.
        """
        if counts is None:
            assert self.bound is not None  # noqa: S101 - sizes are measured otherwise
            return Weights.between(self.bound, self.bound)
        units = likely_units(counts, self.size_law(place - 1).deviation)
        sizes, shape = np.array(SIZES), self._shape(place, self._divergence)
        if not units.any():
            return Weights.between(*_UNKNOWN, _half_point(*_UNKNOWN, shape))
        largest = SIZES[int(np.flatnonzero(units)[-1])]

        def smallest_count(low: int, high: int) -> float:
            weights = _roughly(low, high)
            kept = np.minimum(sizes, high)
            half = _half_point(low, high, shape)
            return half * weights.multiple / float(units @ (kept * weights.of_keys[kept]))

        # Before the last round little is at stake, and curves are long: two spreads of sizes are enough.
        spans = [(low, high) for high in SIZES for low in SIZES if low <= high <= low * _SPREAD and high <= largest]
        if self.stages[place].share < _FEW:
            spans = [(low, high) for low, high in spans if high in (low, 4 * low)]
        rows = _half_point(1, 1, shape)  # and about as many times the root of the size
        short = [span for span in spans if rows * span[1] ** 1.5 <= _MOST_WORK]
        low, high = min(short or spans[:1], key=lambda span: smallest_count(*span))
        return Weights.between(low, high, _half_point(low, high, shape))

    def counted(self, counts: Sequence[int] | None) -> int:
        """How many found keys of a unit are counted, from released counts of units by their number of found keys."""
        if counts is None:
            assert self.bound is not None  # noqa: S101
            return self.bound
        return self._most_keys(len(self.stages) - 2, counts, unknown=_UNKNOWN[1])

    def capped(self, outputs: Sequence[Sequence[int]]) -> int:
        """How many keys of a unit that were not found are counted, from released sizes before the last round."""
        if self.bound is not None:
            return self.bound
        before = max(place for place, stage in enumerate(self.stages) if stage.kind == "round") - 1
        return self._most_keys(before, outputs[before], unknown=_UNKNOWN[0])

    def _most_keys(self, place: int, counts: Sequence[int], *, unknown: int) -> int:
        """How many keys nearly all units have at most."""
        units = likely_units(counts, self.size_law(place).deviation, surely=True)
        if not units.any():
            return unknown
        reached = np.cumsum(units) / units.sum()
        return SIZES[int(np.argmax(reached >= _KEPT))]

    # ---- functions ----

    def _shape(self, place: int, divergence: float) -> Shape:
        stage = self.stages[place]
        return Shape(self._order, stage.share * divergence, stage.new_keys * _OWN_KEYS * float(self.delta))

    def _largest(self) -> tuple[float, list[list[int]]]:
        """The largest divergence for which the functions begin at or below delta."""
        target = float(self.delta) * _SPARE

        def tried(divergence: float) -> tuple[float, list[list[int]]]:
            declared = self._functions(divergence)
            return math.log(declared[0][self.chain.one] / 2.0**120 / target), declared

        low = self._order * float(self.epsilon) ** 2 / (4 * math.log(2 / float(self.delta)))  # about right
        at_low, best = tried(low)
        high, at_high = low, at_low
        while at_low > 0:
            high, at_high, low = low, at_low, low * 0.85
            at_low, best = tried(low)
        while at_high <= 0:
            low, at_low, high = high, at_high, high * 1.15
            at_high, declared = tried(high)
            if at_high <= 0:
                best = declared
        while at_low < -_CLOSE and high > low * 1.0005:
            share = min(0.95, max(0.05, -at_low / (at_high - at_low)))
            middle = math.exp(math.log(low) + share * math.log(high / low))
            at_middle, declared = tried(middle)
            if at_middle <= 0:
                low, at_low, best = middle, at_middle, declared
            else:
                high, at_high = middle, at_middle
        return low, best

    def _functions(self, divergence: float) -> list[list[int]]:
        chain, function, found = self.chain, self.chain.end(), []
        references = _REFERENCES if self.bound is None else (self.bound,)
        for place in reversed(range(len(self.stages))):
            stage, shift = self.stages[place], math.sqrt(2 * self.stages[place].share * divergence / self._order)
            if stage.kind == "counts":  # or more, with noise for the same shift
                function = chain.gaussian(shift)
            elif stage.kind == "sizes":
                function = chain.coin(function, shift)
            else:
                shape = self._shape(place, divergence)
                curves = [propose(Weights.between(size, size), shape) for size in references]
                function = np.max([chain.round(function, curve) for curve in curves], axis=0)
            found.append(chain.declared(function))
            function = chain.at_all_points(found[-1])
        return found[::-1]


@lru_cache(maxsize=32)
def plan_for(
    epsilon: Fraction, delta: Fraction, *, values: bool, bound: int | None, last: float | None = None
) -> RoundsPlan:
    """The plan, made once for a setting."""
    return RoundsPlan(epsilon, delta, values=values, bound=bound, last=last)


@lru_cache(maxsize=4096)
def _half_point(low: int, high: int, shape: Shape) -> float:
    return propose(_roughly(low, high), shape, half_only=True).half


def _roughly(low: int, high: int) -> Weights:
    """Weights to compare sizes by: fine enough that no pair of sizes gains by how its weights are rounded."""
    return Weights(low, high, 4 if low < high else 1)


def _stages(*, values: bool, bound: int | None, last: float | None) -> tuple[Stage, ...]:
    measured, counts = bound is None, _COUNTS
    rounds = list(zip(_ROUNDS, _NEW_KEYS, _MEASURED, strict=True))
    if last is not None:
        counts = last - _FOUND_SIZES * measured
        if bound == 1:  # a unit has spent its only key on the first round
            rounds = [(1.0, 1.0, 0.0)]
    spent = (sum(_MEASURED) + _FOUND_SIZES * values) * measured + counts * values
    found: list[Stage] = []
    for share, new_keys, size in rounds:
        if measured:
            found.append(Stage("sizes", size))
        found.append(Stage("round", share * (1 - spent), new_keys))
    if values and measured:
        found.append(Stage("sizes", _FOUND_SIZES))
    if values:
        found.append(Stage("counts", counts))
    return tuple(found)
