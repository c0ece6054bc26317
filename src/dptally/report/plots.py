"""Pictures of a release. Safe to show to anyone: they are drawn from nothing but the release.

SVG and HTML need nothing else; PNG needs the extra ``pip install 'dptally[plots]'``. No picture loads anything.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from dptally.errors import InvalidParameter
from dptally.estimates.frequencies import as_confidence
from dptally.labels import key_label
from dptally.laws.reporting_curves import reporting_curve
from dptally.report.charts import bar_chart, bars_of, chance_chart, privacy_line
from dptally.report.contents import Asked
from dptally.report.drawing import Canvas, Chart, check_format, grid, shorten
from dptally.report.words import percent
from dptally.universes.prefixes import ENDED, ROOT

if TYPE_CHECKING:
    from dptally.releases.base import Release
    from dptally.releases.prefix_tree import PrefixTree
    from dptally.releases.table_release import TableRelease

__all__ = ["Chart", "check_format", "contents_chart", "release_chart", "save", "tree_chart"]

_HEIGHT = 290
_WIDTH, _ROW, _LEFT = 900, 34, 60  # pixels
_NARROWEST = 22  # pixels, for a label
_THINNEST = 1 / 2000  # of the width, for a box


def release_chart(release: TableRelease, *, n: int = 20, confidence: object = 0.95) -> Chart:
    """The most frequent released keys with confidence intervals, beside the chance of a key to be released.

    Args:
        release: what to draw. Without values, or without keys, only the second panel is drawn.
        n: how many keys at most.
        confidence: of the intervals.
    """
    if not isinstance(n, int):
        raise InvalidParameter("n must be a whole number; a picture is written by plot().save(path).")
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


class _Box(NamedTuple):
    level: int
    text: str
    whole: bool
    estimate: int
    left: float
    right: float


def tree_chart(tree: PrefixTree) -> Chart:
    """Boxes for prefixes, each below the prefix it extends; dark where a value is whole.

    Levels come from different samples, so children may add up to more than their parent; they then share its width.
    """
    levels = len(tree.plan.lengths)
    canvas = Canvas(_WIDTH, _ROW * levels + 26)
    for level in range(1, levels + 1):
        canvas.text(_LEFT - 8, _ROW * (level - 1) + 21, f"level {level}", side="end")
    for box in _boxes(tree, (0, ROOT), 0.0, 1.0):
        left, wide = _LEFT + box.left * (_WIDTH - _LEFT), (box.right - box.left) * (_WIDTH - _LEFT)
        top = _ROW * (box.level - 1)
        kind = "edged dot" if box.whole else "edged wash"
        canvas.box(left, top, wide, _ROW, kind, tip=f"{box.text}: {box.estimate:,}")
        if wide > _NARROWEST:
            canvas.text(left + 5, top + 21, shorten(box.text, wide - 8), "inverse" if box.whole else "label")
    for place, kind, words in ((_LEFT, "wash", "prefix"), (_LEFT + 90, "dot", "whole value")):
        canvas.box(place, _ROW * levels + 11, 14, 12, kind)
        canvas.text(place + 20, _ROW * levels + 21, words)
    return canvas.chart("tree", f"{len(tree):,} frequent prefixes", privacy_line(tree.guarantee))


def _boxes(tree: PrefixTree, place: tuple[int, str], left: float, right: float) -> Iterator[_Box]:
    """Boxes below a place, from left to right in the order of prefixes; those too thin to be seen are left out."""
    below = tree.children(place)
    # The root is as wide as its children; any other box may be wider than its children together.
    whole = max(sum(node.value for node in below), tree.value_at(place))
    end = left
    for node in below:
        start, end = end, end + (right - left) * node.value / whole
        if end - start < _THINNEST:
            continue
        text = key_label(tree.plan.domain.label(node.name))
        estimate = tree.plan.observation_model.most_likely(node.value)
        yield _Box(node.level, text, node.name[-1] == ENDED, estimate, start, end)
        yield from _boxes(tree, (node.level, node.name), start, end)
