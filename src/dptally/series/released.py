"""What a series has released: tables of periods, windows, changes, pictures."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from dptally.errors import InvalidParameter
from dptally.estimates.series import half_width, window_totals
from dptally.exact import as_count
from dptally.exact.integer_columns import integer_column
from dptally.laws.series import SeriesLaw
from dptally.mechanisms.base import in_order_of_keys, without_metadata
from dptally.privacy.guarantee import Guarantee
from dptally.privacy.stored_facts import read_certificate, read_guarantee
from dptally.releases.series_release import Place, SeriesRelease
from dptally.series.adding import published_history
from dptally.series.periods import read_period
from dptally.series.state import State
from dptally.verifiers.tables import Certificate

if TYPE_CHECKING:
    import polars as pl

    from dptally.report.drawing import Chart

__all__ = ["ReleasedSeries"]


class ReleasedSeries:
    """The questions that a series answers, all from what was released."""

    def __init__(self, state: State) -> None:
        if not isinstance(state, State):
            raise InvalidParameter("Series.open(path) opens a series, and Series.create makes one.")
        self._state = state
        with state.reading():
            self._facts = state.facts()
        self.law = SeriesLaw.from_facts(self._facts["law"])
        self.guarantee: Guarantee = read_guarantee(self._facts["guarantee"])
        self.certificate: Certificate = read_certificate(self._facts["certificate"], Certificate)
        self.key: tuple[str, ...] = tuple(self._facts["key"])
        self.unit: str = self._facts["unit"]

    def __repr__(self) -> str:
        stated = f"epsilon={float(self.guarantee.epsilon):.6g}, delta={float(self.guarantee.delta):.6g}"
        return f"<Series of {self.law.periods} periods: {stated if self.guarantee.private else 'NOT PRIVATE (seeded)'}>"

    # ---- what was released ----

    @property
    def sealed(self) -> bool:
        """Whether nothing can be added any more."""
        return bool(self._facts["sealed"])

    @property
    def periods(self) -> list[str]:
        """Names of the periods that were added, in order."""
        with self._state.reading():
            return [name for _, name, _, added in self._state.periods() if added]

    def release(self, period: object = None) -> SeriesRelease:
        """What was released of a period, the last one if left out: the same as `add` returned."""
        with self._published() as (keys, since, y, numbers):
            number = self._place_of(period, numbers)
            name = next(name for name, found in numbers.items() if found == number)
            head, filters = self._state.head_of(number), self._state.facts()["filters"]
        there = since <= number
        total = window_totals(self.law, y[there], 1, number)
        increment = window_totals(self.law, y[there], number, number)
        rows = self._rows(keys, there, total=total, increment=increment)
        place = Place(self._facts["id"], name, number, head)
        stated = replace(self.guarantee, where=filters.get(str(number)))
        return SeriesRelease(rows, stated, self.certificate, self.law, place)

    def table(self, period: object = None, *, confidence: object = 0.95) -> pl.DataFrame:
        """Key column(s), `total`, `lower`, `upper`, `increment`, `increment_lower` and `increment_upper` of a period.

        The last period, if it is left out; see `SeriesRelease.table`.
        """
        return self.release(period).table(confidence=confidence)

    def top(self, n: int = 10, *, period: object = None, confidence: object = 0.95) -> pl.DataFrame:
        """The n keys with the largest running totals; intervals hold for all published keys at once."""
        return self.release(period).top(n, confidence=confidence)

    def window(self, first: object, last: object, *, confidence: object = 0.95) -> pl.DataFrame:
        """How many units count for each published key from one period to another, both included.

        Totals of two periods are correlated, and the interval knows how. Keys that were published after `last` are
        among them: what is known about them reaches back to the first period.
        """
        with self._published() as (keys, since, y, numbers):
            begin, end = self._place_of(first, numbers), self._place_of(last, numbers)
        if begin > end:
            raise InvalidParameter("first must not be after last.")
        found = window_totals(self.law, y, begin, end)
        rows = self._rows(keys, since > 0, total=found)
        half = half_width(self.law, begin, end, confidence)
        return _with_bounds(rows, half, clipped=True)

    def changes(
        self, before: object, after: object, *, n: int | None = None, confidence: object = 0.95
    ) -> pl.DataFrame:
        """How much more units count for each key in one period than in another; largest changes first.

        The columns are `change`, `lower` and `upper`. Intervals hold for all published keys at once, since rows are
        sorted by what they say.
        """
        with self._published() as (keys, since, y, numbers):
            earlier, later = self._place_of(before, numbers), self._place_of(after, numbers)
        found = window_totals(self.law, y, later, later) - window_totals(self.law, y, earlier, earlier)
        rows = self._rows(keys, since > 0, total=found)
        half = half_width(self.law, later, later, confidence, keys=len(y), less=earlier)
        table = _with_bounds(rows, half, clipped=False).rename({"total": "change"})
        ordered = table.sort(table.get_column("change").abs().alias("size"), descending=True, maintain_order=True)
        return ordered if n is None else ordered.head(as_count("n", n, largest=1 << 40))

    def lines(self, n: int = 6) -> tuple[list[str], list[tuple[tuple[object, ...], list[float]]]]:
        """Names of all periods, and the running totals in each of them of the n keys with the largest totals."""
        with self._published() as (keys, _, y, numbers):
            last = max(numbers.values())
            names = [name for _, name, _, _ in self._state.periods()]
        order = np.argsort(-window_totals(self.law, y, 1, last), kind="stable")[:n]
        totals = [window_totals(self.law, y[order], 1, period) for period in range(1, last + 1)]
        labels = list(zip(*(keys.column(name).take(pa.array(order)).to_pylist() for name in self.key), strict=True))
        return names, [(label, [float(row[at]) for row in totals]) for at, label in enumerate(labels)]

    def plot(self, n: int = 6, *, confidence: object = 0.95) -> Chart:
        """Running totals of the largest keys, period by period."""
        from dptally.report.of_series import lines_chart

        names, lines = self.lines(n)
        return lines_chart(self.law, self.guarantee, names, lines, confidence)

    def report(self, path: str | Path, *, overwrite: bool = False, **options: Any) -> None:
        """Write an HTML page about the last period; options as for `dptally.report.write`."""
        self.release().report(path, overwrite=overwrite, **options)

    # ---- inside ----

    @contextlib.contextmanager
    def _published(self) -> Iterator[tuple[pa.Table, Any, Any, dict[str, int]]]:
        with self._state.reading():
            if not self.sealed:  # nothing can be added to a sealed one
                self._state.keep_note()
            numbers = {name: number for number, name, _, added in self._state.periods() if added}
            if not numbers:
                raise InvalidParameter("nothing was added to the series yet.")
            yield *published_history(self._state), numbers

    @staticmethod
    def _place_of(period: object, numbers: dict[str, int]) -> int:
        if period is None:
            return max(numbers.values())
        name = str(read_period(period))
        if name not in numbers:
            raise InvalidParameter(f"period {name} was not added to the series.")
        return numbers[name]

    def _rows(self, keys: pa.Table, there: Any, **columns: Any) -> pa.Table:
        """Some of the published keys with whole numbers, in the order of keys."""
        rows = keys.filter(pa.array(there, pa.bool_()))
        for name, numbers in columns.items():
            rows = rows.append_column(name, integer_column(np.rint(numbers).astype(np.int64)))
        return in_order_of_keys(without_metadata(rows), self.key).combine_chunks()


def _with_bounds(rows: pa.Table, half: int, *, clipped: bool) -> pl.DataFrame:
    import polars as pl

    table = pl.DataFrame(pl.from_arrow(rows))
    lower, upper = pl.col("total") - half, pl.col("total") + half
    if clipped:
        lower, upper = pl.min_horizontal(lower.clip(lower_bound=0), "total"), upper.clip(lower_bound=0)
    return table.with_columns(lower.alias("lower"), upper.alias("upper"))
