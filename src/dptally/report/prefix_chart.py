"""A picture of a prefix tree: one row of boxes for each level, as wide as the estimated frequencies.

Needs the extra ``pip install 'dptally[plots]'``. Write it with `dptally.report.plots.save`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from dptally.errors import MissingDependency
from dptally.labels import key_label
from dptally.universes.prefixes import ENDED, ROOT

if TYPE_CHECKING:
    from altair import LayerChart

    from dptally.releases.prefix_tree import PrefixTree

__all__ = ["tree_chart"]

_WIDTH, _ROW = 900, 34  # pixels
_NARROWEST = 1 / 40  # of the width, for a label
_THINNEST = 1 / 2000  # of the width, for a box
_LONGEST_LABEL = 12


def tree_chart(tree: PrefixTree) -> LayerChart:
    """Boxes for prefixes, each below the prefix it extends; dark where a value is whole.

    Levels come from different samples, so children may add up to more than their parent; they then share its width.

    Raises:
        MissingDependency: without the extra ``plots``.
    """
    alt = _altair()
    data = alt.Data(values=list(_boxes(tree, (0, ROOT), 0.0, 1.0)))
    placed = alt.Chart(data).encode(
        y=alt.Y("level:O", title="level", axis=alt.Axis(domain=False, ticks=False)),
        x=alt.X("left:Q", axis=None, scale=alt.Scale(domain=[0, 1])),
    )
    boxes = placed.mark_bar(stroke="white", strokeWidth=1).encode(
        x2="right:Q",
        color=alt.Color(
            "whole:N", scale=alt.Scale(domain=[False, True], range=["#99d5cd", "#0f766e"]), title="whole value"
        ),
        tooltip=[alt.Tooltip("prefix:N"), alt.Tooltip("estimate:Q", format=",")],
    )
    labels = (
        placed.transform_filter(f"datum.right - datum.left > {_NARROWEST}")
        .mark_text(align="left", dx=4)
        .encode(text="label:N", color=alt.condition("datum.whole", alt.value("white"), alt.value("#292524")))
    )
    subtitle = (
        f"Differentially private: epsilon = {float(tree.guarantee.epsilon):.4g}, "
        f"delta = {float(tree.guarantee.delta):.4g}"
        if tree.guarantee.private
        else "NOT PRIVATE: drawn from a seed, for tests or simulations"
    )
    title = alt.Title(f"{len(tree):,} frequent prefixes", subtitle=subtitle, anchor="start")
    layers = alt.layer(boxes, labels).properties(width=_WIDTH, height=_ROW * len(tree.plan.lengths), title=title)
    chart: LayerChart = layers.configure_view(stroke=None)
    return chart


def _altair() -> Any:
    try:
        import altair
    except ImportError:
        raise MissingDependency("pictures need Altair and vl-convert: pip install 'dptally[plots]'.") from None
    return altair


def _boxes(tree: PrefixTree, place: tuple[int, str], left: float, right: float) -> Iterator[dict[str, Any]]:
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
        yield {
            "level": node.level,
            "prefix": text,
            "label": key_label(text, longest=_LONGEST_LABEL),
            "whole": node.name[-1] == ENDED,
            "estimate": tree.plan.observation_model.most_likely(node.value),
            "left": start,
            "right": end,
        }
        yield from _boxes(tree, (node.level, node.name), start, end)
