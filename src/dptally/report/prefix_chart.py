"""A picture of a prefix tree: one row of boxes for each level, as wide as the estimated counts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from dptally.labels import key_label
from dptally.report.charts import privacy_line
from dptally.report.drawing import Canvas, Chart, shorten
from dptally.universes.prefixes import ENDED, ROOT

if TYPE_CHECKING:
    from dptally.releases.prefix_tree import PrefixTree

__all__ = ["tree_chart"]

_WIDTH, _ROW, _LEFT = 900, 34, 60  # pixels
_NARROWEST = 22  # pixels, for a label
_THINNEST = 1 / 2000  # of the width, for a box


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
