"""The law of the last stage with statistics: integers with rounded Gaussian noise, for keys and for the whole.

Statement and proof of the guarantee are in `dptally.verifiers.joint_noise`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from dptally.errors import InvalidParameter
from dptally.laws.gaussian_histogram import LARGEST_REACH, noise_masses
from dptally.laws.statistics import FINE, Statistics
from dptally.laws.tables.certified_table import CertifiedTable
from dptally.laws.tables.two_sided_geometric import noise_table
from dptally.laws.thresholded_noise import read_entries
from dptally.verifiers.joint_noise import Part, StatisticsStage

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dptally.randomness import BitSource
    from dptally.verifiers.tables import Certificate

__all__ = ["NoisyPart", "StatisticsLaw"]

_WHOLE = 1 << 128
_SPARE_BITS = 70  # noise is cut where its tails cost less than 2^-70 of delta
_SIGMA_BITS = 24
_STEPS = 128  # of the grid that a deviation is worth, at least: rounding then costs less than 10^-5 of the variance
_OF_ALL = ("all_units", "other")


@dataclass(frozen=True)
class NoisyPart:
    """One number of every found key, or of the whole: the quotient of a sum by the grain, plus noise.

    Attributes:
        kind: see `dptally.verifiers.joint_noise`.
        limit: the most that a unit adds.
        grain: what one step of the noise is worth.
        sigma: deviation of the noise, in steps.
        reach: the largest noise, in steps.
        differing: how many found keys of a unit are counted.
        column: for "values" and "nulls", which column.
    """

    kind: str
    limit: int
    grain: int
    sigma: Fraction
    reach: int
    differing: int
    column: int | None = None

    def __post_init__(self) -> None:
        if not (0 < self.sigma <= LARGEST_REACH and 1 <= self.reach <= LARGEST_REACH and self.grain >= 1):
            raise InvalidParameter("epsilon is too small: the noise on statistics would have too many values.")
        if not 1 <= self.differing <= LARGEST_REACH:
            raise InvalidParameter("statistics are of no such number of keys.")

    @property
    def name(self) -> str:
        """In a release: noisy_count, noisy_values_0, ..."""
        return f"noisy_{self.kind}" + ("" if self.column is None else f"_{self.column}")

    @cached_property
    def table(self) -> bytes:
        """P[D <= d] in units of 2^-128 for d = 0 .. 2R - 1, D = R - Z."""
        return noise_table(noise_masses(self.sigma, self.reach))

    @cached_property
    def cumulative(self) -> list[int]:
        """P[D <= d] for d = 0 .. 2R; the last is 2^128."""
        return [*read_entries(self.table), _WHOLE]

    @property
    def deviation(self) -> float:
        """Of the noise, in what is counted."""
        return float(self.sigma) * self.grain

    def quotients(self, sums: NDArray[np.int64]) -> NDArray[np.int64]:
        """What noise is added to."""
        found: NDArray[np.int64] = np.floor_divide(sums + self.grain // 2, self.grain)
        return found

    def facts(self) -> dict[str, Any]:
        """As plain data."""
        numbers = {"limit": self.limit, "grain": self.grain, "sigma": str(self.sigma), "reach": self.reach}
        return {"kind": self.kind, **numbers, "column": self.column}


class StatisticsLaw:
    """Counts, sums and totals of one last stage.

    Args:
        asked: what was asked for.
        parts: one for each number that is released.
    """

    kind: Literal["statistics"] = "statistics"
    scheme = rate = None

    def __init__(self, asked: Statistics, parts: tuple[NoisyPart, ...]) -> None:
        self.asked, self.parts = asked, parts
        self._by_name = {part.name: part for part in parts}
        if [(part.kind, part.column) for part in parts] != expected_parts(asked):
            raise InvalidParameter("the parts of statistics are not those that were asked for.")
        if any(part.kind == "rows" and part.limit != asked.rows for part in parts):
            raise InvalidParameter("rows of a unit and key are counted to another number than was asked for.")
        self.differing = parts[0].differing

    @classmethod
    def within(
        cls, asked: Statistics, shift: float, differing: int, cap: int, epsilon: Fraction, delta: Fraction
    ) -> StatisticsLaw:
        """The least noise for neighbours that are `shift` deviations apart, shared as was asked.

        Args:
            asked: with shares.
            shift: the distance that all parts may have together.
            differing: how many found keys of a unit are counted.
            cap: how many keys of a unit that were not found are counted.
            epsilon: for the unit.
            delta: for the unit.
        """
        kinds, shares = expected_parts(asked), dict(asked.parts)
        last = sum((share for name, share in shares.items() if name != "selection"), Fraction(0))
        numbers = sum(1 if kind in _OF_ALL else differing for kind, _ in kinds)
        spread = math.sqrt(2 * (_SPARE_BITS * math.log(2) + math.log(numbers / delta) + 3 * epsilon))

        def noise(part: Fraction, keys: int) -> float:
            """Deviation over what a unit adds at most."""
            return math.sqrt(keys / float(part / last)) / shift

        of_columns = [noise(asked.share_of_column(place), differing) for place in range(len(asked.columns))]
        found: list[NoisyPart] = []
        for kind, column in kinds:
            if kind == "values" and column is not None:
                steps = min(FINE, 1 << max(0, math.ceil(math.log2(_STEPS / of_columns[column]))))
                limit, grain, sigma = FINE, FINE // steps, _rounded_up(of_columns[column] * steps)
            elif kind == "nulls":
                values = found[-1]  # exclude each other: as much noise over what a unit adds costs nothing
                limit, grain, sigma = 1, 1, values.sigma * values.grain / FINE
            else:
                half = kind in _OF_ALL or asked.counts_units
                share = shares["totals" if kind in _OF_ALL else "counts"] / (2 if half else 1)
                one = noise(share, 1 if kind in _OF_ALL else differing)
                limit = {"rows": asked.rows, "other": cap}.get(kind) or 1
                grain = max(1, math.floor(limit * one / (2 * _STEPS))) if limit > 1 else 1
                sigma = _rounded_up(one * -(-limit // grain))
            reach = math.ceil(float(sigma) * spread) + 2
            found.append(NoisyPart(kind, limit, grain, sigma, reach, differing, column))
        return cls(asked, tuple(found))

    def part(self, kind: str, column: int | None = None) -> NoisyPart:
        """A part by what it is."""
        return next(part for part in self.parts if (part.kind, part.column) == (kind, column))

    @property
    def counts(self) -> NoisyPart:
        """The part that the values of a table come from: rows or units of a key."""
        return self.parts[0]

    @property
    def units(self) -> NoisyPart | None:
        """The part that counts units of a key; None where only rows are counted."""
        return next((part for part in self.parts if part.kind in ("count", "units")), None)

    def noise_in_words(self) -> str:
        """How far off the numbers of one key are, for plans."""
        columns = self.asked.columns
        found = [f"the {'count' if self.asked.rows is None else 'rows'} of a key {self.counts.deviation:.3g}"]
        for statistic in self.asked.asked:
            place = self.asked.place_of(statistic)
            noise = self.part("values", place).deviation * columns[place].step
            if statistic.kind == "sum" and columns[place].centre and self.units is not None:
                counts = math.hypot(self.units.deviation, self.part("nulls", place).deviation)
                noise = math.hypot(noise, float(columns[place].centre) * counts)
            over = " over the number of its units" if statistic.kind == "mean" else ""
            found.append(f"{statistic.name} {noise:.3g}{over}")
        if self.asked.totals:
            found.append(f"the number of units {self.part('all_units').deviation:.3g}")
        keys = f"{self.differing} found {'key' if self.differing == 1 else 'keys'} of a unit"
        return f"Deviation of the noise, where {keys} are counted: {', '.join(found)}."

    @property
    def column_names(self) -> tuple[str, ...]:
        """All columns that statistics have in a file, beside those of every release."""
        shown = (name + end for name in self.shown for end in ("", "_lower", "_upper"))
        return (*shown, *(part.name for part in self.of_keys))

    @property
    def shown(self) -> tuple[str, ...]:
        """Names of the numbers that a table has for each key, beside the count."""
        return (*(("units",) if self.asked.counts_units else ()), *(each.name for each in self.asked.asked))

    @property
    def of_keys(self) -> tuple[NoisyPart, ...]:
        """Parts with a number for every key."""
        return tuple(part for part in self.parts if part.kind not in _OF_ALL)

    @property
    def of_all(self) -> tuple[NoisyPart, ...]:
        """Parts with one number."""
        return tuple(part for part in self.parts if part.kind in _OF_ALL)

    @property
    def stage(self) -> StatisticsStage:
        """What the verifier sees."""
        places = {part.column: place for place, part in enumerate(self.parts) if part.kind == "values"}
        return StatisticsStage(
            tuple(
                Part(
                    part.kind, part.limit, part.grain, part.sigma, part.reach, part.table,
                    places[part.column] if part.kind == "nulls" else None,
                )
                for part in self.parts
            ),
            self.differing,
        )  # fmt: skip

    def draw(
        self, sums: Mapping[str, NDArray[np.int64]], certificate: Certificate, bits: BitSource
    ) -> dict[str, NDArray[np.int64]]:
        """Every quotient plus noise of its own, in units of steps; by name of the part.

        Postcondition: for uniform words, all noise is independent and follows the certified tables exactly.
        """
        drawn = {}
        for part in self.parts:
            noise = CertifiedTable(part.table, certificate).draw_noise(len(sums[part.name]), bits)
            drawn[part.name] = part.quotients(sums[part.name]) + noise
        return drawn

    def facts(self) -> dict[str, Any]:
        """As plain data."""
        parts = [part.facts() for part in self.parts]
        return {"kind": self.kind, "differing": self.differing, "asked": self.asked.facts(), "parts": parts}

    @classmethod
    def from_facts(cls, facts: dict[str, Any]) -> StatisticsLaw:
        """Back from plain data."""
        asked = Statistics.from_facts(facts["asked"])
        parts = facts["parts"]
        if not isinstance(parts, list) or len(parts) > len(expected_parts(asked)):
            raise InvalidParameter("the parts of statistics are not those that were asked for.")
        return cls(asked, tuple(_read_part(each, facts["differing"]) for each in parts))


def expected_parts(asked: Statistics) -> list[tuple[str, int | None]]:
    """Kinds and columns of all parts, in order."""
    found: list[tuple[str, int | None]] = [("count" if asked.rows is None else "rows", None)]
    if asked.counts_units:
        found.append(("units", None))
    means = {asked.place_of(each) for each in asked.asked if each.kind == "mean"}
    for place, column in enumerate(asked.columns):
        found.append(("values", place))
        if column.centre or place in means:
            found.append(("nulls", place))
    return found + ([("all_units", None), ("other", None)] if asked.totals else [])


def _read_part(facts: dict[str, Any], differing: Any) -> NoisyPart:
    numbers = [facts["limit"], facts["grain"], facts["reach"], differing]
    column = facts["column"]
    if any(isinstance(number, bool) or not isinstance(number, int) for number in numbers):
        raise InvalidParameter("a part of statistics has no such numbers.")
    if column is not None and (isinstance(column, bool) or not isinstance(column, int)):
        raise InvalidParameter("a part of statistics has no such column.")
    numerator, _, denominator = str(facts["sigma"]).partition("/")
    sigma = Fraction(int(numerator), int(denominator or "1"))
    return NoisyPart(str(facts["kind"]), numbers[0], numbers[1], sigma, numbers[2], differing, column)


def _rounded_up(sigma: float) -> Fraction:
    """The smallest number of 24 bits that is not below sigma."""
    scale = Fraction(2) ** (_SIGMA_BITS - math.frexp(sigma)[1])
    return math.ceil(Fraction(sigma) * scale) / scale
