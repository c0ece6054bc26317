"""The chances of several mechanisms in one chart, with a legend. For pictures: floating point throughout."""

from __future__ import annotations

from collections.abc import Mapping

from dptally.laws.reporting_curves import ReportingCurve
from dptally.report.colours import CURVES
from dptally.report.drawing import Canvas, Chart, shorten
from dptally.report.scales import Linear, Log, short_number

__all__ = ["curves_chart"]

_WIDTH, _HEIGHT = 420, 300
_LEFT, _RIGHT, _TOP, _BOTTOM = 44, 14, 30, 44
_LINE, _SWATCH = 20, 30
_LONGEST_BESIDE = 22  # letters of a name that leave room for another beside it


def curves_chart(curves: Mapping[str, ReportingCurve]) -> Chart:
    """The chance of being reported, by true frequency, on a logarithmic axis; a curve for each mechanism.

    Args:
        curves: by name, at least one; beyond `dptally.report.colours.CURVES` they share colours.
    """
    columns = 2 if max(map(len, curves)) <= _LONGEST_BESIDE else 1
    canvas = Canvas(_WIDTH, _HEIGHT + _LINE * -(-len(curves) // columns))
    seen = [frequency for curve in curves.values() for frequency, chance in curve.points if chance > 0.002]
    end = max(10, *(curve.points[-1][0] for curve in curves.values()))
    x = Log(max(1, min([*seen, end / 20]) * 0.7), end, _LEFT, _WIDTH - _RIGHT)
    y = Linear(0, 1, _HEIGHT - _BOTTOM, _TOP)
    for tick in y.ticks(4):
        canvas.line(x.start, y(tick), x.end, y(tick), "grid" if tick else "axis")
        canvas.text(x.start - 6, y(tick) + 4, f"{100 * tick:.0f}%", side="end")
    for tick in x.ticks(8):
        canvas.line(x(tick), y.start, x(tick), y.start + 4, "axis")
        canvas.text(x(tick), y.start + 16, short_number(tick), side="middle")
    canvas.text((x.start + x.end) / 2, y.start + 36, "true frequency of a key (logarithmic)", side="middle")
    canvas.text(4, 13, "chance to appear")
    wide = (_WIDTH - _LEFT) / columns
    for place, (name, curve) in reversed(list(enumerate(curves.items()))):
        kind = f"curve curve-{place % CURVES + 1}"
        corners = [x.low, *(frequency for frequency, _ in curve.points if frequency > x.low), end]
        canvas.path([(x(frequency), y(curve.chance(frequency))) for frequency in corners], kind)
        left, top = _LEFT + wide * (place % columns), _HEIGHT + _LINE * (place // columns) + 8
        canvas.line(left, top, left + _SWATCH, top, kind)
        canvas.text(left + _SWATCH + 8, top + 4, shorten(name, wide - _SWATCH - 12), "label")
    halves = ", ".join(f"{name} {_from(curve)}" for name, curve in curves.items())
    caption = f"Exact, from the law of each mechanism. A key appears half the time from this frequency on: {halves}."
    return canvas.chart("chances", "Chance that a key appears", caption)


def _from(curve: ReportingCurve) -> str:
    if curve.half is None:
        return "never"
    return f"{curve.half:,} (at the latest)" if curve.at_least else f"{curve.half:,}"
