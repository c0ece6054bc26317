"""The optimal law for reporting keys and frequencies, with or without sampling."""

from __future__ import annotations

import math
from bisect import bisect_left
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from dptally.errors import InvalidParameter
from dptally.exact import as_count, as_delta, as_epsilon
from dptally.exact.searching import first_from
from dptally.laws.base import (
    LARGEST_FREQUENCY,
    EstimatorKind,
    FrequencyFunction,
    Law,
    Parameters,
    as_frequencies,
    as_frequency,
    as_given,
    read_flag,
)
from dptally.laws.estimators import Estimator, make_estimator
from dptally.laws.inversion import FrequencyEstimates, value_offsets
from dptally.laws.key_errors import NOTHING, Reports, float_table
from dptally.laws.node_sums import DroppedNodes, NodeSums
from dptally.laws.sampling_schemes import UNIT_BITS, Scheme, read_scheme
from dptally.laws.sum_bounds import bound_weighted_sum
from dptally.laws.tables.certified_rows import CertifiedRows
from dptally.laws.tables.certified_table import CertifiedTable
from dptally.laws.tables.optimal_histogram import build_table
from dptally.laws.tables.sampled_rows import SampledRows
from dptally.laws.thresholded_noise import read_entries
from dptally.randomness import BitSource
from dptally.verifiers.profiles import Profile, shift_profile, value_profile
from dptally.verifiers.tables import Certificate, certify_shift_table, certify_value_table

_BITS = 128


class WeightedSample(Law):
    """Each key is reported with the largest probability that privacy and sampling allow.

    Without a scheme this is the optimal histogram. A key of frequency w is reported with probability pi_w. Its value is
    then w + 1 - D, where D has one fixed law on 0 .. W, as long as that is at least 2; the rest of pi_w falls on the
    value 1. D is geometric noise, cut off at both ends; no noise on whole numbers with this guarantee has a smaller
    expected error. Without values the key alone is reported, with the same probability.

    With a scheme, a key of frequency i is sampled with probability q_i and then reported with probability pi_i / q_i;
    the law is that of both steps together, and drawing from it needs no separate sampling. Privacy profits from
    sampling: pi_i = q_i where q_i is small enough. See `dptally.laws.tables.sampled_rows` for how rows are made.
    What a key's value means then depends on its row: use `estimate`.

    Guarantee:
        (epsilon, delta)-differential privacy for adding or removing one unit that counts once for one key, certified in
        integers on the table that is drawn from, before the first draw. With a scheme: if the sampling is secret and
        its rate was fixed without looking at the data.

    Error:
        No scheme with the same guarantee reports any frequency with a larger probability, up to 2^-60 [CGSS21, Lemma
        4.1]. The value costs nothing. Among the schemes that report keys so, values separate frequencies the better the
        larger `sub_tokens` is, and best in the limit (Algorithm 5 of [CGSS21], corrected). Without a scheme values are
        those of Algorithm 5 for q = 1, grouped to whole numbers. Grouped from 0 on they would be those of Algorithm 4,
        w - D with P[D < i] = pi_i, whose errors are lopsided unless L is whole: at epsilon 1 and delta 1e-6 the mean
        absolute error is 0.882 there and 0.851 here, at epsilon 4 0.184 and 0.037. See
        `dptally.laws.tables.optimal_histogram`.

    Cost:
        Without a scheme, a table of at most 2 ceil(L) + 1 numbers for keys, and twice as many with values,
        L = ln((e^epsilon - 1 + 2 delta) / (delta (e^epsilon + 1))) / epsilon.

    References:
        [CGSS21] Algorithms 3 and 4; [DVGM22] for keys alone.

    Args:
        epsilon: positive; see `dptally.exact.as_fraction` for how numbers are read.
        delta: from 2^-64 to below 1.
        scheme: a sampling scheme, or None for no sampling.
        values: whether values are reported with the keys.
        sub_tokens: with a scheme, how many values stand for one unit of frequency.
        centred: False for the values of Algorithm 4, for comparison.

    >>> law = WeightedSample("1", "1/1000000")
    >>> float(law.reporting_probability(1)), float(law.reporting_probability(30))
    (1e-06, 1.0)
    """

    name = "weighted sample"
    stored_as = "WeightedSample"
    parameters: ClassVar[Parameters] = {
        "epsilon": str,
        "delta": str,
        "values": read_flag,
        "scheme": lambda text: None if text is None else read_scheme(text),
        "sub_tokens": as_given,
        "centred": read_flag,
    }

    def __init__(
        self,
        epsilon: object,
        delta: object,
        scheme: Scheme | None = None,
        values: bool = True,
        sub_tokens: int = 1,
        centred: bool = True,
    ) -> None:
        self.epsilon = as_epsilon(epsilon)
        self.delta = as_delta(delta)
        if scheme is not None and not isinstance(scheme, Scheme):
            raise InvalidParameter(
                f"scheme must be a sampling scheme such as dptally.Ppswor(rate), got {type(scheme).__name__}."
            )
        self.scheme = scheme
        self.values = bool(values)
        self.sub_tokens = as_count("sub_tokens", sub_tokens, largest=64)
        self.centred = bool(centred)
        if self.sub_tokens > 1 and (scheme is None or not values):
            raise InvalidParameter(
                "sub_tokens needs values and a sampling scheme; Priority(1) is the one that takes every key."
            )

    @classmethod
    def from_facts(cls, facts: dict[str, Any]) -> Self:
        """Make the law from its parameters; files of the first version have the values of Algorithm 4."""
        return super().from_facts({"centred": False, **facts})

    # ---- with a scheme ----

    @cached_property
    def sampled_rows(self) -> SampledRows:
        """The builder of rows, with a scheme."""
        if self.scheme is None:
            raise InvalidParameter("a law without a sampling scheme has no rows of its own.")
        return SampledRows(self.epsilon, self.delta, self.scheme, values=self.values, sub_tokens=self.sub_tokens)

    # ---- without a scheme ----

    @cached_property
    def table(self) -> bytes:
        """Without a scheme: the thresholds that are drawn from, as little-endian 128-bit integers."""
        if self.scheme is not None:
            raise InvalidParameter("a law with a sampling scheme has rows, not one table.")
        return build_table(self.epsilon, self.delta, values=self.values, centred=self.centred)

    @cached_property
    def _thresholds(self) -> tuple[int, ...]:
        return tuple(read_entries(self.table))

    @cached_property
    def cumulative(self) -> tuple[int, ...]:
        """pi_w for w = 1 .. W, in units of 2^-128; the last one is 2^128."""
        return (*(self._thresholds[1::2] if self.values else self._thresholds), 1 << _BITS)

    @cached_property
    def tails(self) -> tuple[int, ...]:
        """With values: P[D <= d] for d = 0, 1, ..., in units of 2^-128; the last one is 2^128."""
        return (*self._thresholds[0::2], 1 << _BITS)

    @property
    def width(self) -> int:
        """W: the smallest frequency that is always reported."""
        return len(self.cumulative)

    @cached_property
    def drop_law(self) -> tuple[Fraction, ...]:
        """With values: P[D = d] for d = 0, 1, ...; a key of frequency w >= W has the value w + 1 - D."""
        whole = 1 << _BITS
        return tuple(Fraction(here - before, whole) for before, here in zip((0, *self.tails), self.tails, strict=False))

    @cached_property
    def likely_drop(self) -> int:
        """What to add to a value for the frequency that makes it most likely (the smallest one, if several do)."""
        return max(range(len(self.drop_law)), key=lambda drop: self.drop_law[drop]) - 1

    def lowest_value(self, frequency: int) -> Fraction:
        """The probability of the value 1, which takes what is reported of all values below 2."""
        above = self.tails[min(frequency, len(self.tails)) - 1] if frequency else 0
        return self.reporting_probability(frequency) - Fraction(above, 1 << _BITS)

    # ---- with or without ----

    def reporting_probability(self, true_frequency: int) -> Fraction:
        """The exact probability that a key of this frequency is reported; without a scheme pi_w."""
        frequency = as_frequency(true_frequency)
        if frequency == 0:
            return Fraction(0)
        if self.scheme is not None:
            return Fraction(self.sampled_rows.reported(frequency, frequency)[0], 1 << UNIT_BITS)
        return Fraction(self.cumulative[min(frequency, self.width) - 1], 1 << _BITS)

    def first_frequency(self, probability: Fraction) -> int | None:
        """The smallest frequency that is reported with at least this probability, or None if there is none.

        With a scheme, frequencies up to 2^62 are looked at, as far as rows of this scheme can be listed.
        """
        if self.scheme is None:
            return bisect_left(self.cumulative, probability * (1 << _BITS)) + 1
        try:
            return first_from(lambda w: self.reporting_probability(w) >= probability, 1, 2 * LARGEST_FREQUENCY)
        except InvalidParameter:
            return None

    def row(self, true_frequency: int) -> dict[int | None, Fraction]:
        """The exact law of what is reported for a key of this frequency; None is "not reported". Sums to 1."""
        frequency = as_frequency(true_frequency)
        if frequency == 0:
            return {None: Fraction(1)}
        if self.scheme is not None:
            band = next(self.sampled_rows.bands([frequency]))
            return {
                None: Fraction(0),
                **{value: Fraction(mass, 1 << _BITS) for value, mass in band.masses().items() if mass},
            }
        reported = self.reporting_probability(frequency)
        law: dict[int | None, Fraction] = {None: 1 - reported}
        if self.values:
            if frequency <= self.width:
                law[1] = self.lowest_value(frequency)
            drops = reversed(range(min(frequency, len(self.drop_law))))
            law.update((frequency + 1 - drop, self.drop_law[drop]) for drop in drops)
            law = {value: chance for value, chance in law.items() if chance or value is None}
        elif frequency:
            law[1] = reported
        return law

    @cached_property
    def _certified_rows(self) -> CertifiedRows:
        return CertifiedRows(self.sampled_rows, epsilon=self.epsilon, delta=self.delta)

    @cached_property
    def _certified_table(self) -> CertifiedTable:
        claimed = {"epsilon": self.epsilon, "delta": self.delta}
        if self.values:
            return CertifiedTable(self.table, certify_value_table(self.table, **claimed))
        return CertifiedTable(self.table, certify_shift_table(self.table, values=False, **claimed))

    def certify(self) -> Certificate:
        """Verify the table that is drawn from."""
        return (self._certified_table if self.scheme is None else self._certified_rows).certificate

    def profile(self, step: Fraction) -> Profile:
        """Without a scheme."""
        if self.scheme is not None:
            return super().profile(step)
        points = math.ceil(self.epsilon / step) + 1
        if self.values:
            return value_profile(self.table, step=step, points=points)
        return shift_profile(self.table, values=False, step=step, points=points)

    def draw(self, frequencies: NDArray[np.int64], bits: BitSource) -> NDArray[np.int64]:
        """One independent draw for each frequency; 0 means not reported.

        Postcondition: see `CertifiedTable` and `CertifiedRows.draw`; what is drawn from has been certified.
        """
        given = as_frequencies(frequencies)
        self.certify()
        if self.scheme is not None:
            return self._certified_rows.draw(given, bits)
        if self.values:
            return self._certified_table.draw_values(given, bits)
        return np.minimum(self._certified_table.draw(given, bits), 1)

    def draw_given_sampled(self, frequencies: NDArray[np.int64], bits: BitSource) -> NDArray[np.int64]:
        """One independent draw for each key of a sample taken with this law's scheme; 0 means not reported.

        Postcondition: see `dptally.laws.tables.conditional_rows`.
        """
        from dptally.laws.tables.conditional_rows import draw_given_sampled

        given = as_frequencies(frequencies)
        if self.scheme is None or (given.size and given.min() < 1):
            raise InvalidParameter("draw_given_sampled needs a sampling scheme, and frequencies of at least 1.")
        self.certify()
        return draw_given_sampled(self._certified_rows, self.scheme, given, bits)

    def invert(self, values: NDArray[np.int64], beta: Fraction) -> FrequencyEstimates:
        """Most likely frequencies and bounds: value + the most likely D - 1, and exact tails."""
        if self.scheme is not None:
            return self._invert_columns(values, beta)
        below, above = value_offsets(self.tails, self.cumulative, beta)
        # From some value on, the reporting probability is 1 and the offsets no longer depend on the value.
        place = np.minimum(values, len(below)) - 1
        estimate = np.maximum(values + self.likely_drop, 1)
        return FrequencyEstimates(estimate, values + below[place], values + above[place])

    def _invert_columns(self, values: NDArray[np.int64], beta: Fraction) -> FrequencyEstimates:
        """The same with a sampling scheme, where every value has tails of its own."""
        distinct, places = np.unique(values, return_inverse=True)
        found = np.empty((3, len(distinct)), dtype=np.int64)
        share, scale = beta.numerator, 2 * beta.denominator
        for at, column in enumerate(self.sampled_rows.columns(distinct.tolist())):
            tails = list(zip(column.at_least, column.above, column.reported, strict=True))
            low = next((i for i, (more, _, all_) in enumerate(tails) if scale * more > share * all_), None)
            high = max(
                (i for i, (_, above, all_) in enumerate(tails) if scale * (all_ - above) > share * all_), default=0
            )
            if low is None:
                raise InvalidParameter("a value of the release cannot have come from its law.")
            found[:, at] = column.most_likely, column.first + low, column.first + high
        estimate, lower, upper = found[:, places]
        return FrequencyEstimates(estimate, lower, upper)

    def most_likely(self, value: int) -> int:
        """Without a scheme: with values by the most likely D, otherwise W."""
        return max(1, value + self.likely_drop) if self.values else self.width

    def likely_value(self, frequency: int) -> int:
        """What D is most likely to leave; with a scheme, by the row."""
        if self.scheme is None:
            return max(1, frequency - self.likely_drop)
        return max((mass, value) for value, mass in self.row(frequency).items() if value is not None)[1]

    @cached_property
    def float_table(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Without a scheme: P[D = d] and pi_w for w = 1 .. W, as floats."""
        return float_table(self.tails, self.cumulative)

    def reports(self, frequency: int) -> Reports:
        """Without a scheme, from D and the lowest value."""
        if self.scheme is not None:
            return self._scheme_reports(frequency)
        masses, curve = self.float_table
        drops = np.arange(min(frequency, len(masses)))
        values = np.concatenate([frequency + 1 - drops, [1]])
        chances = np.concatenate([masses[drops], [float(self.lowest_value(frequency))]])
        estimates = np.maximum(values + self.likely_drop, 1)
        return estimates.astype(np.float64), chances, estimates / curve[np.minimum(estimates, len(curve)) - 1]

    def _scheme_reports(self, frequency: int) -> Reports:
        """With sampling: each estimate is taken to be as far from its value as that of the most likely value is.

        The exact one differs from it by little, and takes a sweep over all rows for each value.
        """
        row = {value: float(mass) for value, mass in self.row(frequency).items() if value is not None}
        if not row:
            return NOTHING
        values, masses = np.array(list(row), dtype=np.int64), np.array(list(row.values()))
        likely = values[[int(masses.argmax())]]
        found = self.invert(likely, Fraction(1, 20)).estimate
        estimates = np.maximum(1, values + (0 if found is None else int(found[0] - likely[0])))
        reported = np.array([float(self.reporting_probability(estimate)) for estimate in estimates.tolist()])
        return estimates.astype(np.float64), masses, estimates / reported

    @property
    def bounds_sums(self) -> bool:  # type: ignore[override]
        """Without a scheme."""
        return self.scheme is None

    def bound_sum(self, values: NDArray[np.int64], beta: float) -> tuple[float, float]:
        """See `dptally.laws.sum_bounds.bound_weighted_sum`."""
        return bound_weighted_sum(self, values, beta)

    def counter_error(self, beta: Fraction, counters: int) -> tuple[int, int, int]:
        """The value w + 1 - D is below w - q with probability 1 - P[D <= q + 1]; pi tells what is hidden."""
        seen = 1 - beta / counters
        under = max(0, bisect_left(self.tails, seen * self.tails[-1]) - 1)
        return 1, under, bisect_left(self.cumulative, seen * self.cumulative[-1])

    def node_sums(self) -> NodeSums:
        """Drops of nodes."""
        return DroppedNodes(self)

    def estimator(self, kind: EstimatorKind = "mle", of: FrequencyFunction | None = None) -> Estimator:
        """Weights that turn reported values into estimates of sums of a function of frequency."""
        return make_estimator(self, kind, of)
