"""The noisy numbers of a release beside its counts, and what they say: columns of a table, totals, roll-ups."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dptally.errors import InvalidParameter
from dptally.estimates.statistics import Bounded, combined, estimate_statistic, noisy_sums
from dptally.exact.integer_columns import integer_column, integers

if TYPE_CHECKING:
    import polars as pl

    from dptally.estimates.subset_sums import Sum
    from dptally.laws.statistics_law import StatisticsLaw

__all__ = ["ReleasedStatistics"]

_LARGEST = 1 << 62
Integers = NDArray[np.int64]


class ReleasedStatistics:
    """Every noisy number of the last stage, by the name of its part: one for each key, or one for the whole."""

    def __init__(self, law: StatisticsLaw, numbers: Mapping[str, Integers]) -> None:
        self.law, self.numbers = law, dict(numbers)

    # ---- file ----

    def stored(self, table: pa.Table) -> pa.Table:
        """A table with the noisy numbers of its keys."""
        for part in self.law.of_keys:
            table = table.append_column(part.name, integer_column(self.numbers[part.name]))
        return table

    def facts(self) -> dict[str, int]:
        """The noisy numbers of the whole."""
        return {part.name: int(self.numbers[part.name][0]) for part in self.law.of_all}

    @classmethod
    def read(cls, law: StatisticsLaw, table: pa.Table, facts: Any) -> ReleasedStatistics:
        """Back from the columns and the metadata of a file; ValueError for what is none."""
        numbers = {part.name: integers(table.column(part.name).cast(pa.int64())) for part in law.of_keys}
        for part in law.of_all:
            number = facts[part.name]
            if isinstance(number, bool) or not isinstance(number, int) or abs(number) > _LARGEST:
                raise ValueError("not a number of the whole")
            numbers[part.name] = np.array([number], dtype=np.int64)
        made = cls(law, numbers)
        made.check(integers(table.column("value").cast(pa.int64())))
        return made

    def check(self, values: Integers) -> None:
        """Refuse numbers that no draw can have given, and values that are not those of the counts."""
        counts = self.law.counts
        for part in self.law.parts:
            numbers = self.numbers[part.name]
            if len(numbers) and max(-int(numbers.min()), int(numbers.max())) > _LARGEST // part.grain:
                raise ValueError("a noisy number is too large")
            smallest = -part.reach if part.kind != "values" else None
            if smallest is not None and len(numbers) and int(numbers.min()) < smallest:
                raise ValueError("a noisy count is too small")
        if not np.array_equal(np.maximum(self.numbers[counts.name] * counts.grain, 1), values):
            raise ValueError("a value is not that of its noisy count")

    # ---- columns ----

    def columns(self, beta: Fraction, places: Integers | None = None) -> dict[str, NDArray[np.float64]]:
        """The columns of a table: each number and its bounds, which are missed with beta / 2 each."""
        chosen = slice(None) if places is None else places
        numbers = {part.name: self.numbers[part.name][chosen].astype(np.float64) for part in self.law.of_keys}
        return self._shown(numbers, np.ones(len(numbers[self.law.counts.name])), beta)

    def _shown(
        self, numbers: dict[str, NDArray[np.float64]], keys: NDArray[np.float64], beta: Fraction
    ) -> dict[str, NDArray[np.float64]]:
        found: dict[str, Bounded] = {}
        if self.law.asked.counts_units:
            units = self.law.part("units")
            found["units"] = _not_below(noisy_sums(units, numbers[units.name], keys).within(beta), 0.0)
        for statistic in self.law.asked.asked:
            found[statistic.name] = estimate_statistic(self.law, statistic, numbers, keys, beta)
        return {
            name + end: column
            for name, bounded in found.items()
            for end, column in zip(("", "_lower", "_upper"), bounded, strict=True)
        }

    def grouped(self, groups: Integers, count: int, beta: Fraction) -> tuple[Bounded, dict[str, NDArray[np.float64]]]:
        """Counts and columns of groups of keys, by the number of each key's group."""
        sums = {}
        for part in self.law.of_keys:
            added = np.zeros(count, dtype=np.int64)
            np.add.at(added, groups, self.numbers[part.name])
            sums[part.name] = added.astype(np.float64)
        keys = np.bincount(groups, minlength=count).astype(np.float64)
        counts = noisy_sums(self.law.counts, sums[self.law.counts.name], keys).within(beta)
        return _not_below(counts, 0.0), self._shown(sums, keys, beta)

    def sum_of(self, found: Sum, chosen: NDArray[np.bool_], beta: Fraction, *, everything: bool) -> Sum:
        """The sum over the chosen keys from noisy counts, which have no bias; with the total where all are chosen."""
        if chosen.any():
            counts, _ = self.grouped(np.where(chosen, 0, 1), 2, beta)
            estimate, lower, upper = (float(each[0]) for each in counts)
            found = replace(found, estimate=estimate, lower=lower, upper=upper)
        if everything and self.law.asked.totals and self.law.asked.rows is None:
            pairs = self.totals(beta).filter(name="pairs").row(0)
            found = replace(found, total=(pairs[1], pairs[2], pairs[3]))
        return found

    # ---- totals ----

    def totals(self, beta: Fraction) -> pl.DataFrame:
        """Units, pairs and other, each with bounds that are missed with beta / 2."""
        import polars as pl

        law = self.law
        if not law.asked.totals or law.units is None:
            raise InvalidParameter(
                "this release does not tell how many there are in all; publish with totals=True to have it measured."
            )
        one = np.ones(1)
        units = noisy_sums(law.part("all_units"), self.numbers["noisy_all_units"].astype(np.float64), one)
        other = noisy_sums(law.part("other"), self.numbers["noisy_other"].astype(np.float64), one)
        counts = self.numbers[law.units.name]
        found = noisy_sums(law.units, np.array([float(counts.sum())]), np.array([float(len(counts))]))
        named = {"units": units, "pairs": combined(found, other) if len(counts) else other, "other": other}
        bounded = {name: _not_below(each.within(beta), 0.0) for name, each in named.items()}
        rows = [[name, *(float(part[0]) for part in each)] for name, each in bounded.items()]
        return pl.DataFrame(rows, schema=["name", "estimate", "lower", "upper"], orient="row")


def _not_below(found: Bounded, least: float) -> Bounded:
    return Bounded(*(np.maximum(each, least) for each in found))
