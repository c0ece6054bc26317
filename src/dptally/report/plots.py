"""Pictures of a release. Safe to show to anyone: they are drawn from nothing but the release.

SVG and HTML need nothing else; PNG needs the extra ``pip install 'dptally[plots]'``. No picture loads anything.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from dptally.errors import InvalidParameter
from dptally.estimates.frequencies import as_confidence
from dptally.labels import key_label
from dptally.laws.reporting_curves import reporting_curve
from dptally.report.charts import bar_chart, bars_of, chance_chart, privacy_line
from dptally.report.contents import Asked
from dptally.report.drawing import Chart, check_format, grid
from dptally.report.prefix_chart import tree_chart
from dptally.report.words import percent

if TYPE_CHECKING:
    from dptally.releases.base import Release
    from dptally.releases.table_release import TableRelease

__all__ = ["Chart", "check_format", "contents_chart", "release_chart", "save", "tree_chart"]

_HEIGHT = 290


def release_chart(release: TableRelease, *, n: int = 20, confidence: object = 0.95) -> Chart:
    """The most frequent released keys with confidence intervals, beside the chance of a key to be released.

    Args:
        release: what to draw. Without values, or without keys, only the second panel is drawn.
        n: how many keys at most.
        confidence: of the intervals.
    """
    if n < 0:
        raise InvalidParameter(f"n must not be negative, got {n}.")
    level, curve = as_confidence(confidence), reporting_curve(release.law)
    panels = []
    if n and len(release) and release.law.values:
        panels.append(bar_chart(bars_of(release.top(n, confidence=level), len(release.key)), percent(float(level))))
    if curve.hides or not panels:
        of = "a key" if release.guarantee.sketch_capacity is None else "a counter"
        height = max([_HEIGHT, *(panel.height for panel in panels)])
        panels.append(chance_chart(curve, of=of, sampled=release.law.scheme is not None, height=height))
    names = ", ".join(key_label(name, longest=40) for name in release.key)
    keys = "key" if len(release) == 1 else "keys"
    return grid("release", f"{len(release):,} released {keys}, by {names}", privacy_line(release.guarantee), [panels])


def contents_chart(release: Release, *, n: int = 20, confidence: object = 0.95) -> Chart:
    """The charts of a release's report side by side, whatever its kind."""
    contents = release.contents(Asked(None, n, as_confidence(confidence), None, None))
    return grid("release", contents.title, privacy_line(release.guarantee), [contents.charts])


def save(chart: Chart, path: str | Path) -> None:
    """Write a picture as .png, .svg or .html; an existing one is replaced in one step. See `Chart.save`."""
    chart.save(path)
