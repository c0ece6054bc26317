"""Laws of one kind: noise is added to a count, and what falls below a threshold is not reported."""

from __future__ import annotations

from bisect import bisect_left
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dptally.errors import InvalidParameter
from dptally.laws.base import Law, as_frequencies, as_frequency
from dptally.laws.inversion import FrequencyEstimates, noise_offsets
from dptally.laws.key_errors import NOTHING, Reports, float_table
from dptally.laws.tables.certified_table import CertifiedTable
from dptally.randomness import BitSource
from dptally.verifiers.tables import Certificate

ENTRY_BYTES = 16


class ThresholdedNoise(Law):
    """A key of count w is reported with value w + Z if that is at least T, and not at all otherwise.

    Z is one fixed law on -R .. R. With D = R - Z, which has a law on 0 .. 2R, and s = R - T + 1, this is the law
    "report w + s - D if positive" with T - 1 added to the value: the form in which tables are stored and drawn from.

    A subclass has a `threshold` T and a `table` of the law of D, or gives `cumulative`, and has the table `_certified`
    in its own way.
    """

    table: Any
    endless = True
    zero_is_hidden = True  # whether a count of 0 is never reported
    slack = 0  # by how much a count may exceed the whole number that bounds are given for

    @cached_property
    def _certified(self) -> CertifiedTable:
        raise NotImplementedError

    @cached_property
    def cumulative(self) -> tuple[int, ...]:
        """P[D <= d] for d = 0 .. 2R, in units of one over the last entry."""
        return (*read_entries(self.table), 1 << 8 * ENTRY_BYTES)

    @property
    def whole(self) -> int:
        """The denominator of the law."""
        return self.cumulative[-1]

    @property
    def reach(self) -> int:
        """R: the largest noise."""
        return len(self.cumulative) // 2

    @property
    def shift(self) -> int:
        """R - T + 1: what turns this law into "report w + shift - D if positive"."""
        return self.reach - self.threshold + 1

    @property
    def width(self) -> int:
        """T + R: the smallest count that is always reported."""
        return self.threshold + self.reach

    @cached_property
    def noise_law(self) -> dict[int, Fraction]:
        """P[Z = z] for z = -R .. R."""
        cumulative, reach = self.cumulative, self.reach
        masses = (here - before for before, here in zip((0, *cumulative), cumulative, strict=False))
        law = {reach - drop: Fraction(mass, self.whole) for drop, mass in enumerate(masses)}
        return dict(sorted(law.items()))

    def certify(self) -> Certificate:
        """Verify the table that is drawn from, with its threshold, for everything that the guarantee is for."""
        return self._certified.certificate

    def draw(self, frequencies: NDArray[np.int64], bits: BitSource) -> NDArray[np.int64]:
        """One independent draw for each frequency; 0 means not reported.

        Postcondition: for frequencies from 0 to 2^62 and uniform words, results are independent and follow the
        certified rows exactly. Each draw takes 128 random bits, for frequency 0 too, which is never reported.
        """
        given = as_frequencies(frequencies)
        self.certify()
        reported = self._certified.draw_above(given, self.threshold, bits) * (given > 0)
        return reported if self.values else np.minimum(reported, 1)

    def reporting_probability(self, true_frequency: int) -> Fraction:
        """The exact probability that a key of this count is reported: P[Z >= T - w]."""
        frequency = as_frequency(true_frequency)
        place = min(frequency + self.shift - 1, 2 * self.reach)
        if place < 0 or (frequency == 0 and self.zero_is_hidden):
            return Fraction(0)
        return Fraction(self.cumulative[place], self.whole)

    def first_frequency(self, probability: Fraction) -> int:
        """The smallest count that is reported with at least this probability."""
        return max(1, bisect_left(self.cumulative, probability * self.whole) + 1 - self.shift)

    def row(self, true_frequency: int) -> dict[int | None, Fraction]:
        """The exact law of what is reported for a key of this count; None is "not reported". Sums to 1."""
        frequency = as_frequency(true_frequency)
        reported = self.reporting_probability(frequency)
        law: dict[int | None, Fraction] = {None: 1 - reported}
        if reported and self.values:
            lowest = max(self.threshold, frequency - self.reach)
            law.update(
                (value, self.noise_law[value - frequency]) for value in range(lowest, frequency + self.reach + 1)
            )
        elif reported:
            law[1] = reported
        return law

    def invert(self, values: NDArray[np.int64], beta: Fraction) -> FrequencyEstimates:
        """Most likely counts and bounds; the law is "w + s - D if positive" with T - 1 added."""
        below, above = noise_offsets(self.cumulative, beta)
        moved = values - (self.threshold - 1)
        if len(values) and int(moved.min()) < 1:
            raise InvalidParameter("a value of the release cannot have come from its law.")
        place = np.minimum(moved, len(below)) - 1
        lower = np.maximum(moved + below[place] - self.shift, 1)
        upper = np.maximum(moved + above[place] - self.shift, 1) + self.slack
        return FrequencyEstimates(values.copy(), lower, upper)

    def most_likely(self, value: int) -> int:
        """The value itself; without values T + R, the smallest count that is certain to be reported."""
        return value if self.values else self.width

    def likely_value(self, frequency: int) -> int:
        """The count itself."""
        return max(self.threshold, frequency)

    @cached_property
    def _float_table(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        return float_table(self.cumulative, self.cumulative)

    def reports(self, frequency: int) -> Reports:
        """The law is "report w + s - D if positive", with T - 1 added."""
        masses, curve = self._float_table
        moved = frequency + self.shift
        if moved <= 0:
            return NOTHING
        drops = np.arange(min(moved, len(masses)))
        estimates = moved - drops + self.threshold - 1
        at = np.clip(estimates + self.shift - 1, 0, len(curve) - 1)
        return estimates.astype(np.float64), masses[drops], estimates / curve[at]

    def counter_error(self, beta: Fraction, counters: int) -> tuple[int, int, int]:
        """P[Z > q] = P[D < R - q]; half of the error for each side."""
        allowed = beta / counters / 2 * self.whole + 1
        over = max(0, self.reach - bisect_left(self.cumulative, allowed)) + self.slack
        lower_tail = [self.whole - reached for reached in reversed(self.cumulative)]  # P[D > 2R - i]
        under = max(0, self.reach - bisect_left(lower_tail, allowed) + 1) + self.slack
        return over, under, self.threshold - 1 + under


def read_entries(table: bytes) -> list[int]:
    """The little-endian 128-bit integers of a table."""
    return [int.from_bytes(table[at : at + ENTRY_BYTES], "little") for at in range(0, len(table), ENTRY_BYTES)]
