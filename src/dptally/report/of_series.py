"""The report of a period of a series, and the picture of all its periods."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from dptally.estimates.series import half_width
from dptally.labels import key_label
from dptally.report.axes import Axis
from dptally.report.charts import bar_chart, bars_of, privacy_line
from dptally.report.colours import CURVES
from dptally.report.contents import Asked, Report, Section, command, figure, number_table, paragraph
from dptally.report.curves_chart import Series, series_chart
from dptally.report.markup import Child, join
from dptally.report.words import page_about, percent

if TYPE_CHECKING:
    from dptally.laws.series import SeriesLaw
    from dptally.privacy.guarantee import Guarantee
    from dptally.releases.series_release import SeriesRelease
    from dptally.report.drawing import Chart

_BARS = 20
_LONGEST_LABEL = 40


def report_of_series(release: SeriesRelease, asked: Asked) -> Report:
    """Everything a page says about a period of a series; see `dptally.report.write`."""
    names = ", ".join(key_label(name, longest=60) for name in release.key)
    place, sure = release.place, percent(float(asked.confidence))
    heading = asked.title or f"Units by {names}, up to {place.period}"
    charts: list[Chart] = []
    parts: list[Child] = []
    if len(release) and asked.n:
        top = release.top(asked.n, confidence=asked.confidence)
        charts.append(bar_chart(bars_of(top.head(_BARS).rename({"total": "estimate"}), len(release.key)), sure))
        parts.append(figure(charts[0]))
        width = len(release.key)
        rows: list[list[Child]] = [
            [*(key_label(part) for part in row[:width]), *(f"{amount:,}" for amount in row[width:])]
            for row in top.iter_rows()
        ]
        columns = [*release.key, "Total", "At least", "At most", "In this period", "At least", "At most"]
        caption = f"Running totals, largest first, with bounds at {sure} confidence for all keys together"
        parts.append(number_table(caption, columns, rows, words=width, name="key-table"))
    else:
        parts.append(paragraph("No key has passed its threshold yet."))
    line = f"dptally show {asked.file_name or 'FILE'}"
    reading = join(
        paragraph(
            "A total is how many units count for the key from the first period on, with noise; a unit counts for a key "
            "as often as the guarantee says. A key appears once its total, with noise, has passed the threshold of a "
            "period, and stays. That a key is missing does not say that nobody has it."
        ),
        command(line),
    )
    tiles = ((f"{len(release):,}", "keys published so far"), (f"{place.number} of {release.law.periods}", "periods"))
    sections = [Section("totals", "Running totals", join(*parts)), Section("reading", "How to read it", reading)]
    summary = "A table that grows period by period, under one guarantee for all of its periods."
    return page_about(release, asked, heading=heading, summary=summary, tiles=tiles, sections=sections, charts=charts)


def lines_chart(
    law: SeriesLaw,
    guarantee: Guarantee,
    names: Sequence[str],
    lines: Sequence[tuple[tuple[object, ...], Sequence[float]]],
    confidence: object,
) -> Chart:
    """Running totals of some keys, one line for each."""
    shown = [
        Series(
            " · ".join(key_label(part, longest=_LONGEST_LABEL) or "(empty)" for part in label),
            [(place, max(0.0, total)) for place, total in enumerate(totals, 1)],
            at % CURVES + 1,
        )
        for at, (label, totals) in enumerate(lines[:CURVES])
    ]
    highest = max([1.0, *(y for one in shown for _, y in one.points)])
    half = half_width(law, 1, len(names), confidence)
    across = Axis(f"periods from {names[0]} to {names[-1]}", 1, max(2, len(names)))
    bounds = f"Each point of the last period is within {half:,} of the true total, with its confidence."
    caption = f"{bounds} {privacy_line(guarantee)}"
    up = Axis("units so far", 0, highest)
    return series_chart("series", "Running totals", shown, across, up, caption=caption, legend=bool(shown), width=640)


__all__ = ["lines_chart", "report_of_series"]
