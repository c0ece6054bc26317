"""A plan: forecasts for the mechanisms that apply, reasons for the others, and a recommendation."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dptally.files import check_target
from dptally.laws.reporting_curves import reporting_curves, useful_frequencies
from dptally.planning.forecasts import Forecast
from dptally.planning.mechanisms import Planned
from dptally.planning.populations import Population
from dptally.planning.requirements import Need
from dptally.report.writing import save_page

if TYPE_CHECKING:
    import polars as pl

_PUBLIC_EXAMPLE = (
    "The example must be public: this plan shows what it holds, and nothing protects it. "
    "Never plan on the data that is to be published."
)


@dataclass(frozen=True)
class PlanLine:
    """What one bound on keys per unit leads to, with the mechanism "weighted_sample"."""

    max_keys_per_unit: int
    key_epsilon: float  # what one key's law may spend
    key_delta: float
    half: int | None  # smallest frequency reported with probability at least 50 %; None if sampling takes none so often
    likely: int | None  # the same for 95 %
    always: int | None  # the smallest frequency that is always reported
    always_if_divided: int | None  # the same if epsilon and delta were divided by the number of keys instead
    mean_absolute_error: float | None  # of `estimate`, where always reported; None without values and with sampling
    root_mean_square_error: float | None


@dataclass(frozen=True)
class Measured:
    """What to expect where the keys of units are measured: nothing but a column of units is stated."""

    mechanism: str  # its name
    shares: tuple[tuple[str, float], ...]  # stages, and about which share of the budget each gets
    sizes: tuple[tuple[int, Forecast], ...]  # keys of every unit, supposed, and what they lead to


@dataclass(frozen=True)
class Plan:
    """The forecast for every mechanism that applies.

    Attributes:
        epsilon: for the unit, exact.
        delta: for the unit, exact.
        values: whether values are released.
        sampling: the scheme as text, or None.
        max_keys_per_unit: the bound asked for.
        capacity: of sketches, of sparse and compact releases.
        asked: the mechanism "weighted_sample" for the bound asked for; None for delta = 0.
        others: the same for other bounds, to compare.
        population: what was supposed about the data, or None.
        share: of the keys, for the error of a sum.
        forecasts: one for each mechanism that applies.
        left_out: for each mechanism that does not apply, the reason in a sentence.
        recommended: name of the mechanism to take.
        recommendation: the same as a sentence, with the reason.
        need: the answer to an inverse question, or None.
        mechanisms: the laws that forecasts were made from.
        measured: the default for units, where `unit` was given and no `max_keys_per_unit`; None elsewhere.
        statistics: how far off sums, means and totals are, in words; empty where none were asked for.
    """

    epsilon: Fraction
    delta: Fraction
    values: bool
    sampling: str | None
    max_keys_per_unit: int
    capacity: int
    asked: PlanLine | None
    others: tuple[PlanLine, ...]
    population: Population | None
    share: float
    forecasts: tuple[Forecast, ...]
    left_out: dict[str, str]
    recommended: str
    recommendation: str
    need: Need | None = None
    mechanisms: tuple[Planned, ...] = field(default=(), repr=False)
    measured: Measured | None = None
    statistics: str = ""

    @property
    def sentence(self) -> str:
        """What was asked, and what "weighted_sample" leads to, in words."""
        line = self.asked
        bound = "one key" if self.max_keys_per_unit == 1 else f"{self.max_keys_per_unit:,} keys"
        sampling = "" if self.sampling is None else f", sampling {self.sampling}"
        text = (
            f"With epsilon = {float(self.epsilon):.6g}, delta = {float(self.delta):.6g}{sampling} and at most "
            f"{bound} per unit"
        )
        if line is None:
            return f"{text}: {self.recommendation}"
        text += (
            f", a key is reported half the time at {_frequency(line.half)}, "
            f"95 % of the time at {_frequency(line.likely)}, and "
            + (f"always from {line.always:,} on." if line.always else "never with certainty.")
        )
        if line.mean_absolute_error is not None:
            text += f" Estimates of frequent keys are off by {_error(line.mean_absolute_error)} on average."
        return text

    @property
    def supposed(self) -> str:
        """What the numbers of keys, errors and costs rest on, as a sentence."""
        if self.population is None:
            return (
                "Nothing is supposed about the data; say how many rows and keys to expect to see how many are released."
            )
        text = f"Supposed: {self.population.told}."
        return text if self.warning is None else f"{text} {self.warning}"

    @property
    def warning(self) -> str | None:
        """That the example must be public, where there is one."""
        return _PUBLIC_EXAMPLE if self.population is not None and self.population.from_example else None

    def __str__(self) -> str:
        parts = [] if self.need is None else [str(self.need)]
        parts += [self.sentence, self.supposed]
        if self.recommendation not in self.sentence:
            parts.append(f"Recommendation: {self.recommendation}")
        parts += [self.statistics] if self.statistics else []
        names, *rows = self.cells()
        widths = [max(len(row[place]) for row in (names, *rows)) for place in range(len(names))]
        lines = [
            "  ".join(
                cell.ljust(width) if not place else cell.rjust(width)
                for place, (cell, width) in enumerate(zip(row, widths, strict=True))
            )
            for row in (names, *rows)
        ]
        missing = [f"{name}: {reason}" for name, reason in self.left_out.items()]
        return "\n".join([*parts, "", *lines, *(["", "Not applicable:", *missing] if missing else [])])

    def cells(self) -> list[tuple[str, ...]]:
        """The table of mechanisms for people: names of columns, then a row for each mechanism."""
        supposed = self.population is not None
        names = ["mechanism", "50 %", "95 %", "99.9 %", "mean error", "bounds"]
        if supposed:
            names[4:4] = ["keys"]
            names += ["sum error", "time", "memory"]
        if self.need is not None:
            sought = self.need.sought
            names.append("keys per unit allowed" if sought == "max_keys_per_unit" else f"{sought} needed")
        rows = [tuple(names)]
        for each in self.forecasts:
            row = [each.mechanism, *(_cell(found) for found in (each.half, each.likely, each.nearly))]
            if supposed:
                prefix = "≥ " if each.at_least else ""
                row.append("-" if each.expected_keys is None else f"{prefix}{each.expected_keys:,.0f}")
            row.append("-" if each.mean_absolute_error is None else f"{each.mean_absolute_error:,.2f}")
            row.append("-" if each.bounds_width is None else f"± {each.bounds_width / 2:,.4g}")
            if supposed:
                row.append("-" if each.sum_error is None else f"{each.sum_error:.2%}")
                row += [_seconds(each.seconds), _bytes(each.memory_bytes)]
            if self.need is not None:
                number = self.need.answers.get(each.mechanism)
                row.append(
                    "none" if number is None else f"{number:,}" if isinstance(number, int) else f"{float(number):.3g}"
                )
            rows.append(tuple(row))
        return rows

    def table(self) -> pl.DataFrame:
        """One row for each mechanism that applies: the fields of `Forecast`, and `needed` for an inverse question."""
        import polars as pl

        rows = [asdict(forecast) for forecast in self.forecasts]
        counts = ("half", "likely", "nearly", "bounds_width", "shortfall")
        types = {
            name: pl.Int64 if name in counts else pl.String if name in ("mechanism", "note") else pl.Float64
            for name in (rows[0] if rows else ())
        }
        found = pl.DataFrame(rows, schema={**types, "at_least": pl.Boolean} if rows else None)
        if self.need is None or not rows:
            return found
        needed = [self.need.answers.get(forecast.mechanism) for forecast in self.forecasts]
        return found.with_columns(
            pl.Series("needed", [None if number is None else float(number) for number in needed], dtype=pl.Float64)
        )

    def curves(self, frequencies: Iterable[int] | None = None) -> pl.DataFrame:
        """The probability that a key is reported, by its frequency: a column for each mechanism that applies.

        Mechanisms with an answer for every key of a universe are left out: there is nothing to report.
        """
        import polars as pl

        laws = {each.name: each.law for each in self.mechanisms if each.hides}
        points = list(useful_frequencies(laws.values()) if frequencies is None else frequencies)
        return pl.DataFrame({"frequency": points, **reporting_curves(laws, points)})

    def save_page(self, path: str | Path, *, overwrite: bool = False) -> None:
        """Write the plan as one HTML file that needs no network."""
        from dptally.planning.page import plan_page

        target = Path(path)
        check_target(target, overwrite=overwrite)
        save_page(plan_page(self), target, overwrite=overwrite)

    def describe(self) -> dict[str, Any]:
        """The plan as plain data for JSON."""
        people = self.population
        return {
            "epsilon": str(self.epsilon),
            "delta": str(self.delta),
            "epsilon_float": float(self.epsilon),
            "delta_float": float(self.delta),
            "values": self.values,
            "sampling": self.sampling,
            "max_keys_per_unit": self.max_keys_per_unit,
            "capacity": self.capacity,
            "asked": None if self.asked is None else asdict(self.asked),
            "others": [asdict(line) for line in self.others],
            "population": None if people is None else people.describe(),
            "share": self.share,
            "forecasts": [asdict(forecast) for forecast in self.forecasts],
            "left_out": self.left_out,
            "recommended": self.recommended,
            "recommendation": self.recommendation,
            "need": None if self.need is None else self.need.describe(),
            "measured": None if self.measured is None else asdict(self.measured),
            "statistics": self.statistics,
            "curves": {name: column.to_list() for name, column in self.curves().to_dict().items()},
        }


def _error(size: float) -> str:
    """One decimal place, or two digits where that would hide it."""
    return f"{size:,.1f}" if size >= 1 else f"{size:.2g}"


def _cell(frequency: int | None) -> str:
    return "never" if frequency is None else "every key" if frequency == 0 else f"{frequency:,}"


def _frequency(frequency: int | None) -> str:
    return "no frequency" if frequency is None else f"frequency {frequency:,}"


def _seconds(seconds: float | None) -> str:
    if seconds is None:
        return "-"
    if seconds < 100:
        return f"{seconds:.2g} s"
    return f"{seconds / 60:,.0f} min" if seconds < 7200 else f"{seconds / 3600:,.0f} h"


def _bytes(size: float | None) -> str:
    if size is None:
        return "-"
    return f"{size / 1e6:,.0f} MB" if size < 1e10 else f"{size / 1e9:,.0f} GB"
