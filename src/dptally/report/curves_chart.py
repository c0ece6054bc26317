"""Several curves in one chart, with a legend. For pictures: floating point throughout."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from dptally.laws.reporting_curves import ReportingCurve
from dptally.report.axes import Axis, Plot
from dptally.report.colours import CURVES
from dptally.report.drawing import Canvas, Chart, shorten

_LEFT, _LINE, _SWATCH = 44, 20, 30
_WIDEST_BAR = 9.0


@dataclass(frozen=True)
class Series:
    """A curve, or bars of one colour: from 1 to `CURVES`, or 0 for a thin grey line."""

    name: str
    points: Sequence[tuple[float, float]]
    colour: int

    @property
    def kind(self) -> str:
        """The class of its line."""
        return f"curve curve-{self.colour}" if self.colour else "mark"


def series_chart(
    name: str,
    title: str,
    series: Sequence[Series],
    across: Axis,
    up: Axis,
    *,
    caption: str = "",
    bars: bool = False,
    legend: bool = True,
    width: int = 420,
    height: int = 300,
) -> Chart:
    """Curves, or bars, over two axes, the first one in front; the height is without the legend below."""
    lines = _columns(series, width)[1] if legend else 0
    plot = Plot(across, up, width=width, height=height, below=_LINE * lines)
    plot.axes()
    thick = min(_WIDEST_BAR, 0.85 * (plot.right - plot.left) / (1 + across.high - across.low))
    for one in reversed(series):
        if not bars:
            plot.curve(one.points, one.kind)
        for x, y in one.points if bars else ():
            plot.box(plot.x(x) - thick / 2, plot.y(y), thick, plot.bottom - plot.y(y), f"fill-{one.colour}")
    if legend:
        _draw_legend(plot, series, height, bars=bars)
    return plot.chart(name, title, caption)


def legend_chart(series: Sequence[Series], width: int, *, bars: bool = False) -> Chart:
    """A legend alone, for charts side by side that share it."""
    canvas = Canvas(width, _LINE * _columns(series, width)[1])
    _draw_legend(canvas, series, 0, bars=bars)
    return canvas.chart("legend", "")


def _columns(series: Sequence[Series], width: int) -> tuple[int, int]:
    """How many names stand side by side, and in how many lines."""
    longest = max(len(one.name) for one in series)
    columns = max(1, min(len(series), int((width - _LEFT) / (_SWATCH + 14 + 6.6 * longest))))
    return columns, -(-len(series) // columns)


def _draw_legend(canvas: Canvas, series: Sequence[Series], top: int, *, bars: bool) -> None:
    columns, _ = _columns(series, canvas.width)
    wide = (canvas.width - _LEFT) / columns
    for place, one in enumerate(series):
        left, middle = _LEFT + wide * (place % columns), top + _LINE * (place // columns) + 8
        if bars:
            canvas.box(left + _SWATCH - 14, middle - 5, 14, 10, f"fill-{one.colour}")
        else:
            canvas.line(left, middle, left + _SWATCH, middle, one.kind)
        canvas.text(left + _SWATCH + 8, middle + 4, shorten(one.name, wide - _SWATCH - 12), "label")


def curves_chart(
    curves: Mapping[str, ReportingCurve], *, colours: Sequence[int] | None = None, legend: bool = True
) -> Chart:
    """The chance to be released, by true count, on a logarithmic axis; a curve for each mechanism, at least one."""
    seen = [count for curve in curves.values() for count, chance in curve.points if chance > 0.002]
    end = max(10, *(curve.points[-1][0] for curve in curves.values()))
    start = max(1, min([*seen, end / 20]) * 0.7)
    series = []
    for place, (name, curve) in enumerate(curves.items()):
        corners = [start, *(count for count, _ in curve.points if count > start), end]
        colour = place % CURVES + 1 if colours is None else colours[place]
        series.append(Series(name, [(count, curve.chance(count)) for count in corners], colour))
    halves = ", ".join(f"{name} {_from(curve)}" for name, curve in curves.items())
    return series_chart(
        "chances",
        "Chance that a key appears",
        series,
        Axis("true count of a key (logarithmic)", start, end, log=True, ticks=8),
        Axis("chance to appear", 0, 1, percent=True, ticks=5),
        caption=f"Exact for each mechanism. A key appears half the time from this count on: {halves}.",
        legend=legend,
    )


def _from(curve: ReportingCurve) -> str:
    if curve.half is None:
        return "never"
    return f"{curve.half:,} (at the latest)" if curve.at_least else f"{curve.half:,}"
