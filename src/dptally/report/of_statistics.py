"""The part of a report about sums, means and totals."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dptally.labels import key_label
from dptally.report.charts import bar_chart, bars_of, told_number
from dptally.report.contents import Asked, Section, figure, number_table, paragraph
from dptally.report.markup import Child, Markup, join, tag
from dptally.report.words import percent

if TYPE_CHECKING:
    from dptally.releases.table_release import TableRelease
    from dptally.report.contents import Tile
    from dptally.report.drawing import Chart

__all__ = ["statistics_section", "total_tiles"]

_BARS, _LONGEST = 12, 120
_TOTALS = {
    "units": "privacy units",
    "pairs": "pairs of a unit and a key that were counted",
    "other": "of these, pairs whose key was not released",
}


def total_tiles(release: TableRelease) -> list[Tile]:
    """How many units there are, where that was released."""
    law = release.law.statistics
    if law is None or not law.asked.totals:
        return []
    estimates = dict(release.totals().select("name", "estimate").iter_rows())
    return [(f"{estimates['units']:,.0f}", "privacy units"), (f"{estimates['other']:,.0f}", "pairs of other keys")]


def statistics_section(release: TableRelease, asked: Asked, charts: list[Chart]) -> Section:
    """A chart and a table for each column, and the totals."""
    law, level = release.law.statistics, asked.confidence
    assert law is not None  # noqa: S101 - asked for where there are statistics
    sure, parts, keys = percent(float(level)), [], len(release.key)
    if law.asked.totals:
        rows: list[list[Child]] = [
            [_TOTALS[name], *(f"{number:,.0f}" for number in numbers)]
            for name, *numbers in release.totals(confidence=level).iter_rows()
        ]
        columns = ["Total", "Estimate", "At least", "At most"]
        parts.append(number_table(f"Totals, with {sure} confidence intervals", columns, rows))
    else:
        parts.append(paragraph("The release does not tell how many units or pairs there are in all."))
    top = release.top(asked.n, confidence=level)
    for number, name in enumerate(law.shown if len(release) else ()):
        charts.append(bar_chart(bars_of(top.head(_BARS), keys, name), sure, name, number=number))
        parts.append(figure(charts[-1]))
        parts.append(_column(release, asked.n, name, level, sure))
    ranges = [
        f"{each.name}: from {float(each.low):g} to {float(each.high):g}, rows of one unit and key "
        f"{'added up' if each.combine == 'add' else 'averaged'}"
        for each in law.asked.asked
    ]
    if ranges:
        parts.append(
            paragraph(
                "What each unit has for a key is clipped into a range that was fixed without looking at the data: "
                f"{'; '.join(ranges)}. Means are over units."
            )
        )
    return Section("statistics", "Sums, means and totals", join(parts))


def _column(release: TableRelease, n: int, name: str, level: object, sure: str) -> Markup:
    keys, top = len(release.key), release.top(n, confidence=level)
    numbers = top.select(name, f"{name}_lower", f"{name}_upper").iter_rows()
    rows: list[list[Child]] = []
    for key, found in zip(top.iter_rows(), numbers, strict=True):
        labels = [tag("bdi", key_label(part, longest=_LONGEST) or "(empty)") for part in key[:keys]]
        rows.append([*labels, *map(told_number, found)])
    shown = key_label(name, longest=40)
    columns = [*(key_label(each, longest=40) for each in release.key), shown, "At least", "At most"]
    caption = f"{shown} of the {len(rows):,} most frequent keys, with {sure} confidence intervals that hold together."
    return number_table(caption, columns, rows, words=keys)
