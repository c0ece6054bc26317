"""The report of a tree of counts, which answers quantiles and ranges."""

from __future__ import annotations

import datetime
from typing import TYPE_CHECKING

from dptally.labels import key_label
from dptally.laws.reporting_curves import reporting_curve
from dptally.report.axes import short_number
from dptally.report.charts import chance_chart, histogram_chart, share_chart
from dptally.report.contents import Asked, Report, Section, command, facts, figure, number_table, paragraph
from dptally.report.markup import Child, join, tag
from dptally.report.words import page_about, percent, shell_word

if TYPE_CHECKING:
    from dptally.releases.range_release import RangeRelease
    from dptally.report.drawing import Chart

_PARTS = 48
_SHARES = 32
_QUANTILES = ("0.05", "0.1", "0.25", "0.5", "0.75", "0.9", "0.95")


def report_of_ranges(release: RangeRelease, asked: Asked) -> Report:
    """Everything a page says about a tree of counts; see `dptally.report.write`."""
    level = asked.confidence
    name = key_label(release.name, longest=60)
    heading = asked.title or f"Distribution of {name}"
    charts: list[Chart] = [_histogram(release, name), _shares(release, name, level)]
    total = release.total(confidence=level)
    rows: list[list[Child]] = []
    for q in _QUANTILES:
        found = release.quantile(q, confidence=level)
        estimate = "–" if found.estimate is None else tag("strong", _value(found.estimate))
        rows.append([percent(float(found.q)), estimate, _value(found.lower), _value(found.upper)])
    sure = percent(float(level))
    caption = f"Quantiles, with bounds at {sure} confidence for each"
    in_all = f"{total.estimate:,.0f} (from {total.lower:,.0f} to {total.upper:,.0f}, {sure} sure)"
    answers = join(
        figure(charts[0]),
        figure(charts[1]),
        number_table(caption, ["Share", "Value", "At least", "At most"], rows, words=0),
        facts([("Units in all", in_all)]),
    )
    program = f"import dptally; print(dptally.load({asked.file_name or 'FILE'!r}).quantile(0.5))"
    middle = release.grid.bins // 2
    low, high = release.grid.interval(0)[0], release.grid.interval(max(0, middle - 1))[1]
    half = release.range(None, high, confidence=level)
    bounds = f", from {half.lower:,.0f} to {half.upper:,.0f} ({sure} sure)."
    questions = join(
        paragraph(
            "The release answers any quantile and any range of values. Asking costs no privacy; bounds hold for "
            "questions that were not chosen by looking at the answers."
        ),
        tag("h3", f"How many units have a value from {_value(low)} to {_value(high)}?"),
        paragraph("About ", tag("strong", f"{half.estimate:,.0f}"), bounds),
        command(f"python -c {shell_word(program)}"),
    )
    sections = [Section("distribution", "How values are distributed", answers)]
    curve = reporting_curve(release.law)
    if curve.hides:
        charts.append(chance_chart(curve, of="a part of the interval"))
        words = (
            "The interval is cut into parts, those into smaller ones, and so on. A part with few units is hidden; what "
            "is in it still counts in the larger part it belongs to."
        )
        body = join(paragraph(words), figure(charts[-1]))
        sections.append(Section("chance", "What chance a part had to appear", body))
    sections.append(Section("questions", "Questions one can ask", questions))
    tiles = ((f"{total.estimate:,.0f}", "units, estimated"), (f"{release.grid.bins:,}", "parts of the public interval"))
    summary = "Quantiles and ranges of a column of values under differential privacy."
    return page_about(release, asked, heading=heading, summary=summary, tiles=tiles, sections=sections, charts=charts)


def _value(value: object) -> str:
    if isinstance(value, datetime.datetime):
        return value.isoformat(sep=" ", timespec="minutes")
    if isinstance(value, float):
        return f"{value:,.6g}"
    return f"{value:,}" if isinstance(value, int) else str(value)


def _edge(value: object) -> str:
    """The same for the label of an axis."""
    if isinstance(value, datetime.datetime):
        return value.date().isoformat()
    return short_number(value) if isinstance(value, int | float) else str(value)


def _edges(release: RangeRelease, parts: int) -> list[str]:
    grid = release.grid
    ticks = [grid.edge(0) + (grid.edge(grid.bins) - grid.edge(0)) * part / parts for part in range(parts)]
    return [*(_edge(grid.value(tick)) for tick in ticks), _edge(grid.interval(grid.bins - 1)[1])]


def _histogram(release: RangeRelease, name: str) -> Chart:
    """The bins, added up to at most a few dozen parts."""
    estimates = release.table().get_column("estimate").to_list()
    size = -(-len(estimates) // _PARTS)
    parts = [max(0.0, sum(estimates[start : start + size])) for start in range(0, len(estimates), size)]
    return histogram_chart(parts, _edges(release, 4), name=name, noun="units")


def _shares(release: RangeRelease, name: str, level: object) -> Chart:
    bins = release.grid.bins
    places = sorted({bins * step // _SHARES for step in range(1, _SHARES + 1)} - {0})
    points = [(0.0, 0.0, 0.0, 0.0)]
    for place in places:
        found = release.cdf(release.grid.interval(place - 1)[1], confidence=level)
        points.append((place / bins, found.estimate, found.lower, found.upper))
    return share_chart(points, _edges(release, 4), name=name)
