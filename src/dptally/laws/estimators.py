"""Weights a_j for reported values j.

A sum of g(w) over keys is estimated by the sum of a_j over reported keys; keys that are not reported count 0, so the
weights also stand for them. Notation as in [CGSS21, section 7]: pi_i is the probability that a key of frequency i is
reported, P[j | i] that it has the value j. Without a scheme P[j | i] = p_{i+1-j} for j >= 2, with p_d = P[D = d], and
the value 1 takes the rest of pi_i. Keys-only laws report the value 1.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from functools import cached_property
from itertools import count
from typing import TYPE_CHECKING

import numpy as np

from dptally.errors import InvalidParameter
from dptally.laws.sampling_schemes import UNIT_BITS

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dptally.laws.base import EstimatorKind, FrequencyFunction, Law
    from dptally.laws.clamped_noise import ClampedNoise
    from dptally.laws.top_k_noise import TopKNoise
    from dptally.laws.weighted_sample import WeightedSample

_FRACTION_BITS = 64
_LARGEST_UNBIASED_VALUE = 2000
_LARGEST_SAMPLE_VALUE = 20_000
_FIRST_ROWS = 4096


def make_estimator(law: WeightedSample, kind: EstimatorKind, of: FrequencyFunction | None) -> Estimator:
    """Build the estimator of the given kind for a law and a function of frequency."""
    kinds: dict[str, type[Estimator]] = {"mle": MostLikely, "lower": _NeverOver, "unbiased": _Unbiased}
    if kind not in kinds:
        raise InvalidParameter(f"kind must be one of 'mle', 'lower', 'unbiased', got {kind!r}.")
    if law.scheme is not None:
        kinds.update(mle=_MostLikelyOfSample, lower=_NeverOverOfSample)
    return kinds[kind](law, of)


class Estimator:
    """Weights a_j for reported values j, so that their sum over reported keys estimates a sum over all keys.

    A key that is not reported counts 0, so a weight also stands for keys like it that were not reported. All
    expectations are exact, over the law alone; g is `of`, None for the frequency itself.
    """

    def __init__(self, law: Law, of: FrequencyFunction | None) -> None:
        self._law, self._of = law, of

    def _wanted(self, frequency: int) -> Fraction:
        """g(frequency), exactly."""
        if frequency == 0:
            return Fraction(0)
        return Fraction(frequency if self._of is None else self._of(frequency))

    def __call__(self, value: int) -> Fraction:
        """The weight of a reported value."""
        if value < 1:
            raise InvalidParameter("value must be at least 1: keys that are not reported count 0.")
        return self._weight(int(value))

    def _weight(self, value: int) -> Fraction:
        raise NotImplementedError

    def weights(self, values: NDArray[np.int64]) -> NDArray[np.float64]:
        """The weights of many reported values, as floats."""
        distinct, places = np.unique(values, return_inverse=True)
        return np.array([float(self(int(value))) for value in distinct], dtype=np.float64)[places]

    def expectation(self, true_frequency: int) -> Fraction:
        """Expected contribution of a key of this frequency: sum_j P[j | i] a_j."""
        return self._moment(true_frequency, lambda weight: weight)

    def bias(self, true_frequency: int) -> Fraction:
        """Expectation minus the true contribution, g(frequency)."""
        return self.expectation(true_frequency) - self._wanted(true_frequency)

    def mse(self, true_frequency: int) -> Fraction:
        """Mean squared error: sum_j P[j | i] (a_j - g(i))^2 + (1 - pi_i) g(i)^2."""
        wanted = self._wanted(true_frequency)
        missed = 1 - self._law.reporting_probability(true_frequency)
        return missed * wanted**2 + self._moment(true_frequency, lambda weight: (weight - wanted) ** 2)

    def variance(self, true_frequency: int) -> Fraction:
        """Mean squared error minus squared bias."""
        return self.mse(true_frequency) - self.bias(true_frequency) ** 2

    def _moment(self, true_frequency: int, function: Callable[[Fraction], Fraction]) -> Fraction:
        row = self._law.row(true_frequency)
        terms = [chance * function(self(value)) for value, chance in row.items() if value is not None and chance]
        # Pairwise, so that long numerators meet only at the end.
        while len(terms) > 1:
            pairs = [sum(terms[at : at + 2], Fraction(0)) for at in range(0, len(terms), 2)]
            terms = pairs
        return terms[0] if terms else Fraction(0)


class MostLikely(Estimator):
    """a_j = g(i) / pi_i with i the frequency that makes the value j most likely [CGSS21, (11)].

    Without values, every frequency from W on, from where all keys are reported, makes the report equally likely; the
    smallest of them is taken, and a_1 = g(W).
    """

    def _weight(self, value: int) -> Fraction:
        frequency = self._law.most_likely(value)
        return self._wanted(frequency) / self._law.chance(frequency)


class _MostLikelyOfSample(Estimator):
    """The same for a law with a sampling scheme, where the most likely frequency is found by looking at all of them."""

    _law: WeightedSample

    def __init__(self, law: WeightedSample, of: FrequencyFunction | None) -> None:
        super().__init__(law, of)
        if not law.values:
            raise InvalidParameter(
                "without values no frequency is most likely under a sampling scheme; use `kind='lower'`."
            )
        self._known: dict[int, Fraction] = {}

    def _weight(self, value: int) -> Fraction:
        self._prepare([value])
        return self._known[value]

    def _prepare(self, values: list[int]) -> None:
        missing = sorted(set(values) - self._known.keys())
        for column in self._law.sampled_rows.columns(missing):
            frequency = column.most_likely
            chance = Fraction(column.reported[frequency - column.first], 1 << 128)
            self._known[column.value] = self._wanted(frequency) / chance if chance else Fraction(0)

    def weights(self, values: NDArray[np.int64]) -> NDArray[np.float64]:
        """The weights of many reported values, as floats."""
        self._prepare(np.unique(values).tolist())
        return super().weights(values)

    def _moment(self, true_frequency: int, function: Callable[[Fraction], Fraction]) -> Fraction:
        self._prepare([value for value in self._law.row(true_frequency) if value is not None])
        return super()._moment(true_frequency, function)


class _NeverOver(Estimator):
    """The largest weights, in order of value, whose expectation exceeds g(i) for no frequency i [CGSS21, (41)].

        a_j = min over i of (g(i) - sum_{h<j} a_h P[h | i]) / P[j or more | i],

    over the frequencies i >= 1 that can have the value j, rounded down to a multiple of 2^-64; a smaller weight keeps
    the property, since row i's own constraint is among those of its largest value i + 1. (The paper's claim that the
    weights never decrease fails for some g and is not relied on.)

    Beyond some value the recursion is left: once as many of the last weights as D has values are at most h - 1 + E[D]
    (g = w) or at most g(h - 1) (any other non-decreasing g), the choice a_j = j - 1 + E[D], respectively
    a_j = g(j - 1), keeps E_i <= g(i) for ever, because i + 1 - D then averages over such weights only. Values so large
    that this has not happened by itself are forced to it.
    """

    _law: WeightedSample

    def __init__(self, law: WeightedSample, of: FrequencyFunction | None) -> None:
        super().__init__(law, of)
        if not law.values:
            width = law.width
            self._keys_only = min(self._wanted(i) / law.reporting_probability(i) for i in range(1, width + 1))
            return
        self._scaled: list[int] = []  # a_1, a_2, ... in units of 2^-64
        self._masses = [int(mass * 2**128) for mass in law.drop_law]
        self._reach = len(self._masses)
        mean = sum((drop * mass for drop, mass in enumerate(law.drop_law)), Fraction(0))
        self._offset = math.floor(mean * 2**_FRACTION_BITS) if of is None else 0
        self._settled = 0  # how many of the last weights are at most the weight used from then on
        # The value 1, which every frequency up to W may have.
        chances = [int(law.lowest_value(i) * 2**128) for i in range(1, law.width + 1)]
        rooms = (self._room(i) // law.cumulative[i - 1] for i, chance in enumerate(chances, start=1) if chance)
        self._scaled.append(min(rooms, default=0))
        # sum_{h<j} a_h P[h | i] for i = j-1, j, ..., in units of 2^-192
        self._spent = [self._scaled[0] * chance for chance in (*chances, *([0] * self._reach))][: self._reach]

    def _room(self, frequency: int) -> int:
        return math.floor(self._wanted(frequency) * (1 << (_FRACTION_BITS + 128)))

    def _weight(self, value: int) -> Fraction:
        if not self._law.values:
            return self._keys_only
        while len(self._scaled) < value and self._settled < self._reach:
            self._extend()
        scaled = self._scaled[value - 1] if value <= len(self._scaled) else self._final(value)
        return Fraction(scaled, 1 << _FRACTION_BITS)

    def _final(self, value: int) -> int:
        return math.floor(self._wanted(value - 1) * (1 << _FRACTION_BITS)) + self._offset

    def _extend(self) -> None:
        value = len(self._scaled) + 1
        rooms = [
            (self._room(value - 1 + drop) - self._spent[drop]) // self._law.tails[drop]
            for drop in range(self._reach)
            if self._law.tails[drop]
        ]
        weight, final = min(rooms), self._final(value)
        if value > 4 * self._reach:
            weight = min(weight, final)
        self._settled = self._settled + 1 if weight <= final else 0
        self._scaled.append(weight)
        spent = [before + weight * mass for before, mass in zip(self._spent, self._masses, strict=True)]
        self._spent = [*spent[1:], 0]


class _NeverOverOfSample(Estimator):
    """The same for a law with a sampling scheme, from its rows; no shortcut for large values.

    Without values the weight is the largest a with a pi_i <= g(i) for all i: the minimum of g(i) / pi_i over the first
    rows, and of g at the first row after them, which is below g(i) / pi_i for every later i because g does not fall.
    """

    _law: WeightedSample

    def __init__(self, law: WeightedSample, of: FrequencyFunction | None) -> None:
        super().__init__(law, of)
        self._scaled: list[int] = []  # a_1, a_2, ... in units of 2^-64
        self._spent: dict[int, int] = {}  # sum_{h<j} a_h P[h | i] for row i, in units of 2^-192
        self._columns = law.sampled_rows.columns(range(1, _LARGEST_SAMPLE_VALUE + 1)) if law.values else iter(())

    def _weight(self, value: int) -> Fraction:
        if not self._law.values:
            return self._keys_only
        if value > _LARGEST_SAMPLE_VALUE:
            raise InvalidParameter(
                f"with a sampling scheme, weights that are never over are computed for values up to "
                f"{_LARGEST_SAMPLE_VALUE:,} only; use `kind='mle'`."
            )
        while len(self._scaled) < value:
            self._extend()
        return Fraction(self._scaled[value - 1], 1 << _FRACTION_BITS)

    @cached_property
    def _keys_only(self) -> Fraction:
        rows = self._law.sampled_rows.reported(1, _FIRST_ROWS)
        possible = [self._wanted(i) * (1 << UNIT_BITS) / mass for i, mass in enumerate(rows, start=1) if mass]
        return min([*possible, self._wanted(_FIRST_ROWS + 1)])

    def _extend(self) -> None:
        column = next(self._columns)
        unit = 1 << (_FRACTION_BITS + 128)
        rooms = [
            (math.floor(self._wanted(i) * unit) - self._spent.get(i, 0)) // mass
            for i, mass, above in zip(count(column.first), column.at_least, column.above, strict=False)
            if mass > above
        ]
        weight = min(rooms, default=0)
        self._scaled.append(weight)
        for i, mass, above in zip(count(column.first), column.at_least, column.above, strict=False):
            self._spent[i] = self._spent.get(i, 0) + weight * (mass - above)
        for i in [row for row in self._spent if row * self._law.sub_tokens <= column.value]:
            del self._spent[i]  # no later value is possible for this row


class _Unbiased(Estimator):
    """Unbiased weights: the values that are new in row i share what is left of g(i).

    That is (g(i) - sum_j P[j | i] a_j) / P[new | i], the sum over values of earlier rows. With a sampling scheme and
    one value per frequency no other weights are unbiased; without one, frequency 1 has two values. Weights alternate in
    sign and grow exponentially; the variance of even one key of frequency 1 is about 1 / delta. They are here to show
    that, and refuse values beyond which the exact recursion is pointless.
    """

    _law: WeightedSample

    def __init__(self, law: WeightedSample, of: FrequencyFunction | None) -> None:
        super().__init__(law, of)
        if not law.values:
            raise InvalidParameter("there is no unbiased estimator without values.")
        if law.sub_tokens > 1:
            raise InvalidParameter("the unbiased estimator needs one value per frequency: sub_tokens = 1.")
        self._known: dict[int, Fraction] = {}
        self._rows = 0

    def _weight(self, value: int) -> Fraction:
        if value > _LARGEST_UNBIASED_VALUE:
            raise InvalidParameter(
                f"the unbiased estimator is computed for values up to {_LARGEST_UNBIASED_VALUE} only; "
                "use `kind='mle'` or `kind='lower'`."
            )
        while value not in self._known:
            self._rows += 1
            row = {j: chance for j, chance in self._law.row(self._rows).items() if j is not None and chance}
            fresh = [j for j in row if j not in self._known]
            if not fresh:
                raise InvalidParameter("there is no unbiased estimator: some frequency is never reported.")
            spent = sum((chance * self._known[j] for j, chance in row.items() if j in self._known), Fraction(0))
            weight = (self._wanted(self._rows) - spent) / sum(row[j] for j in fresh)
            self._known.update(dict.fromkeys(fresh, weight))
        return self._known[value]


class Identity(Estimator):
    """g(j) for a value j, of laws that report every count.

    The noise is symmetric, so for g(w) = w the bias is what the clamp at 0 and at the bound does, plus the pull of
    uniform values to the middle of the range. With `of` given, expectations need a sum of g over all uniform values,
    and are refused where the bound puts that out of reach.
    """

    _law: ClampedNoise

    def __call__(self, value: int) -> Fraction:
        """The weight of a value, 0 and above."""
        if value < 0:
            raise InvalidParameter("value must be at least 0.")
        return self._wanted(int(value))

    def weights(self, values: NDArray[np.int64]) -> NDArray[np.float64]:
        """The weights of many values, as floats."""
        return np.asarray(values, dtype=np.float64) if self._of is None else super().weights(values)

    def expectation(self, true_frequency: int) -> Fraction:
        """Expected weight of a key of this frequency."""
        top = self._law.bound
        return self._mean(true_frequency, self._wanted, Fraction(top * (top + 1), 2))

    def mse(self, true_frequency: int) -> Fraction:
        """Mean squared error."""
        wanted, top = self._wanted(true_frequency), self._law.bound
        squares = Fraction(top * (top + 1) * (2 * top + 1), 6) - wanted * top * (top + 1) + (top + 1) * wanted**2
        return self._mean(true_frequency, lambda value: (self._wanted(value) - wanted) ** 2, squares)

    def _mean(self, true_frequency: int, function: Callable[[int], Fraction], over_all: Fraction) -> Fraction:
        """Expectation of a function of the value; `over_all` is its sum over all values where g(w) = w."""
        law = self._law
        noise = law.noise_masses(min(int(true_frequency), law.bound))
        found = sum((mass * function(value) for value, mass in noise.items()), Fraction(0))
        if law.uniform_mass:
            if self._of is not None:
                law.check_row()
                over_all = sum((function(value) for value in range(law.bound + 1)), Fraction(0))
            found += law.uniform_mass * over_all
        return found / law.whole


class SignificantValues(Estimator):
    """g(j) for a value j from `real_from` on, and 0 below, of sparse pure releases.

    Whether a key is released depends on all others, so there is no expectation over the law of one key; what one key
    may be off is `TopKNoise.key_error`.
    """

    _law: TopKNoise

    def __call__(self, value: int) -> Fraction:
        """The weight of a value."""
        return Fraction(0) if value < self._law.real_from else self._wanted(int(value))

    def expectation(self, true_frequency: int) -> Fraction:
        """Not defined for one key alone."""
        raise InvalidParameter(
            "in a sparse release an estimate depends on all other keys; law.key_error(beta, frequency) bounds its "
            "error."
        )

    mse = expectation
