"""Laws with finitely many rows: what a mechanism from outside of the package needs to write down, and no more.

A subclass states masses; this class verifies, draws, inverts and estimates. Counts above the last row are treated as
the last one, so neighbouring rows beyond it are equal, and the verifier's comparison of all neighbouring rows up to it
is complete.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from fractions import Fraction
from functools import cached_property
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from dptally import _core
from dptally.errors import InvalidParameter
from dptally.exact import as_delta, as_epsilon
from dptally.laws.base import (
    LARGEST_FREQUENCY,
    Law,
    Parameters,
    as_frequencies,
    as_frequency,
)
from dptally.laws.inversion import FrequencyEstimates
from dptally.randomness import BitSource
from dptally.verifiers.tables import TABLE_BITS, Certificate, certify_rows

WHOLE = 1 << TABLE_BITS
"""The sum of the masses of a row: tables are integers over 2^128."""


class FiniteLaw(Law):
    """A law given row by row, in integers.

    Guarantee:
        (epsilon, delta)-differential privacy for adding or removing one unit that counts once for one key: every pair
        of neighbouring rows is compared exactly (`dptally.verifiers.tables.certify_rows`) before the first draw.

    A subclass sets `stored_as`, its name in release files, and says `largest` and `masses`. What it takes beside
    epsilon and delta goes into `parameters`, and is an argument of `__init__` and an attribute of the same name.
    """

    parameters: ClassVar[Parameters] = {"epsilon": str, "delta": str}
    endless: ClassVar[bool] = True

    def __init__(self, epsilon: object, delta: object) -> None:
        self.epsilon, self.delta = as_epsilon(epsilon), as_delta(delta)

    @property
    @abstractmethod
    def largest(self) -> int:
        """The last count that has a row of its own."""

    @abstractmethod
    def masses(self, count: int) -> Sequence[int]:
        """For a count of at least 1: the mass of "not reported", of value 1, of value 2, ...; the sum is `WHOLE`."""

    @cached_property
    def rows(self) -> tuple[tuple[int, ...], ...]:
        """Rows of the counts 0, 1, ..., `largest`. Keys that do not occur are never drawn for."""
        return ((WHOLE,), *(tuple(self.masses(count)) for count in range(1, self.largest + 1)))

    @cached_property
    def _certificate(self) -> Certificate:
        return certify_rows(self.rows, epsilon=self.epsilon, delta=self.delta)

    def certify(self) -> Certificate:
        """Verify all rows."""
        return self._certificate

    @cached_property
    def _samplers(self) -> list[_core.ShiftTable]:
        self.certify()
        cumulative = [np.array(row[:-1], dtype=object).cumsum().tolist() if len(row) > 1 else [] for row in self.rows]
        tables = [b"".join(int(reached).to_bytes(16, "little") for reached in row) for row in cumulative]
        return [_core.ShiftTable(np.frombuffer(table, dtype=np.uint8)) for table in tables]

    def draw(self, frequencies: NDArray[np.int64], bits: BitSource) -> NDArray[np.int64]:
        """One independent draw for each count; 0 means not reported. Each takes 128 random bits.

        The place of a uniform number among the running sums of a row is the value.
        """
        given = np.minimum(as_frequencies(frequencies), self.largest)
        words = bits.words(2 * len(given)).reshape(-1, 2)
        drawn = np.zeros(len(given), dtype=np.int64)
        for count in np.unique(given[given > 0]).tolist():
            places, row = np.flatnonzero(given == count), self.rows[count]
            if len(row) > 1:
                above = np.empty(len(places), dtype=np.int64)
                tops = np.full(len(places), len(row), dtype=np.int64)
                self._samplers[count].draw(tops, np.ascontiguousarray(words[places]).reshape(-1), above)
                drawn[places] = len(row) - above
        return drawn

    def row(self, true_frequency: int) -> dict[int | None, Fraction]:
        """The exact law of what is reported; None is "not reported". Sums to 1."""
        masses = self.rows[min(as_frequency(true_frequency), self.largest)]
        found: dict[int | None, Fraction] = {None: Fraction(masses[0], WHOLE)}
        found.update((value, Fraction(mass, WHOLE)) for value, mass in enumerate(masses) if value and mass)
        return found

    def reporting_probability(self, true_frequency: int) -> Fraction:
        """One minus the mass of "not reported"."""
        return 1 - Fraction(self.rows[min(as_frequency(true_frequency), self.largest)][0], WHOLE)

    def first_frequency(self, probability: Fraction) -> int | None:
        """The smallest count with at least this probability; None if no row reaches it."""
        found = (count for count in range(self.largest + 1) if self.reporting_probability(count) >= probability)
        return next(found, None)

    @property
    def largest_value(self) -> int:
        """The last value of any row."""
        return max(map(len, self.rows)) - 1

    def most_likely(self, value: int) -> int:
        """The count that makes a value most likely, by all rows."""
        masses = [row[value] if value < len(row) else 0 for row in self.rows]
        return int(np.argmax(np.array(masses, dtype=object)))

    def likely_value(self, frequency: int) -> int:
        """The most likely value of a key of this count, if it is reported."""
        row = self.rows[min(frequency, self.largest)]
        return 1 + int(np.argmax(np.array(row[1:], dtype=object))) if len(row) > 1 else 1

    def invert(self, values: NDArray[np.int64], beta: Fraction) -> FrequencyEstimates:
        """Counts for which neither tail of the value, among reported keys, is below beta / 2."""
        distinct, places = np.unique(values, return_inverse=True)
        found = [self._bounds(value, beta / 2) for value in distinct.tolist()]
        estimate, lower, upper = (np.array(column, dtype=np.int64)[places] for column in zip(*found, strict=True)) \
            if found else (np.empty(0, dtype=np.int64),) * 3  # fmt: skip
        return FrequencyEstimates(estimate, lower, upper)

    def _bounds(self, value: int, tail: Fraction) -> tuple[int, int, int]:
        if not 1 <= value <= self.largest_value:
            raise InvalidParameter("a value of the release cannot have come from its law.")
        within = [
            count
            for count, row in enumerate(self.rows)
            if sum(row[value:]) > tail * (WHOLE - row[0]) and sum(row[1 : value + 1]) > tail * (WHOLE - row[0])
        ]
        likely = self.most_likely(value)
        lower, upper = min([likely, *within]), max([likely, *within])
        return likely, lower, LARGEST_FREQUENCY if upper == self.largest else upper

    def key_errors(self, frequencies: NDArray[np.float64]) -> None:
        """Not told for laws from outside."""
        return
