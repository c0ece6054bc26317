"""The charts of a report, each drawn from a release alone. For pictures: floating point throughout."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from dptally.laws.reporting_curves import ReportingCurve
from dptally.report.drawing import Canvas, Chart, shorten
from dptally.report.scales import Linear, Log, Scale, short_number

__all__ = ["Bar", "bar_chart", "chance_chart", "error_chart", "histogram_chart", "rank_chart", "share_chart"]

_WIDTH, _HEIGHT = 390, 290
_LEFT, _RIGHT, _TOP, _BOTTOM = 44, 14, 30, 44  # margins for axes
_ROW, _LABELS = 21, 118
_STRIPS = 60
_RANKS = 240


@dataclass(frozen=True)
class Bar:
    """A key with its estimate and bounds."""

    label: str
    estimate: float
    lower: float
    upper: float


def bar_chart(bars: Sequence[Bar], confidence: str) -> Chart:
    """Bars for estimates, with bounds."""
    height = _ROW * len(bars) + 40
    canvas = Canvas(_WIDTH, height)
    end = max(bar.upper for bar in bars) or 1
    x = Linear(0, end, _LABELS, _WIDTH - 58)
    bottom = _ROW * len(bars) + 4
    for tick in x.ticks(4):
        canvas.line(x(tick), 2, x(tick), bottom, "grid")
        canvas.text(x(tick), bottom + 15, short_number(tick), side="middle")
    for place, bar in enumerate(bars):
        y = _ROW * place + 4
        canvas.box(x(0), y + 2, x(bar.estimate) - x(0), _ROW - 6, "wash")
        canvas.line(x(bar.lower), y + _ROW / 2 - 1, x(bar.upper), y + _ROW / 2 - 1, "bound")
        canvas.dot(x(bar.estimate), y + _ROW / 2 - 1, 2.8)
        canvas.text(_LABELS - 8, y + _ROW / 2 + 3, shorten(bar.label, _LABELS - 8), "label", "end")
        canvas.text(x(bar.upper) + 7, y + _ROW / 2 + 3, f"{bar.estimate:,.0f}")
    canvas.text((x.start + x.end) / 2, height - 4, "estimated frequency", side="middle")
    caption = f"Bars are estimates; lines are {confidence} confidence intervals that hold after sorting by value."
    return canvas.chart("top-keys", f"The {len(bars)} most frequent keys" if len(bars) > 1 else "The key", caption)


def rank_chart(rows: Sequence[tuple[float, float, float]], curve: ReportingCurve, *, of: str = "keys") -> Chart:
    """Frequencies by rank on logarithmic axes, over what privacy hides.

    Args:
        rows: estimate, lower and upper of each key, most frequent first.
        curve: the chance that a key of each frequency is reported.
        of: what is ranked.
    """
    canvas = Canvas(_WIDTH, _HEIGHT)
    highest = max([10.0, *(upper for _, _, upper in rows)])
    shown = min(highest * 1.3, 10.0 ** math.ceil(math.log10(highest * 1.05)))
    x = Log(1, max(10, len(rows)), _LEFT, _WIDTH - _RIGHT)
    y = Log(1, shown, _HEIGHT - _BOTTOM, _TOP)
    _shade(canvas, curve, x, y)
    _axes(canvas, x, y, f"rank of released {of}", "frequency")
    chosen = sorted({round(len(rows) ** (step / _RANKS)) - 1 for step in range(_RANKS + 1)}) if rows else []
    drawn = [(place + 1, *rows[place]) for place in chosen if place < len(rows)]
    if len(drawn) > 1:
        band = [(x(rank), y(upper)) for rank, _, _, upper in drawn]
        band += [(x(rank), y(lower)) for rank, _, lower, _ in reversed(drawn)]
        canvas.path(band, "wash", closed=True)
        canvas.path([(x(rank), y(estimate)) for rank, estimate, _, _ in drawn if estimate >= 1], "line")
    for rank, estimate, _, _ in drawn[:8] if len(drawn) > 1 else drawn:
        if estimate >= 1:
            canvas.dot(x(rank), y(estimate), 2.6)
    caption = (
        "The line shows the estimates of released keys; the band, confidence intervals that hold after sorting by "
        f"value. {_hidden_in_words(curve)}"
    )
    title = "Frequencies, and what privacy hides" if curve.hides else "Frequencies of the keys"
    return canvas.chart("frequencies", title, caption)


def _shade(canvas: Canvas, curve: ReportingCurve, x: Scale, y: Scale) -> None:
    """Grey where keys are hidden, the darker the more of them, with two lines for 50 % and 95 %."""
    if not curve.hides:
        return
    depth = (y.start - y.end) / _STRIPS
    hidden = [
        round(1 - curve.chance(y.low * (y.high / y.low) ** ((strip + 0.5) / _STRIPS)), 2) for strip in range(_STRIPS)
    ]
    for opacity, run in groupby(range(_STRIPS), key=hidden.__getitem__):
        strips = list(run)
        if opacity > 0:
            top, height = y.start - (strips[-1] + 1) * depth, len(strips) * depth
            canvas.box(x.start, top, x.end - x.start, height, "hidden", opacity)
    at_least = "at least " if curve.at_least else ""
    if curve.likely and curve.likely < y.high:
        canvas.line(x.start, y(curve.likely), x.end, y(curve.likely), "mark")
        canvas.text(x.start + 6, y(curve.likely) - 5, f"from {curve.likely:,} on, {at_least}95 % appear", "note")
    if curve.half and 1 < curve.half < y.high and y(curve.half) < y.start - 16:
        canvas.line(x.start, y(curve.half), x.end, y(curve.half), "mark")
        words = "may stay hidden" if curve.at_least else "most stay hidden"
        canvas.text(x.start + 6, y(curve.half) + 14, f"below {curve.half:,}, {words}", "note")


def _hidden_in_words(curve: ReportingCurve) -> str:
    if not curve.hides:
        return "Every key of the public list is released, so nothing is hidden; small values are mostly noise."
    if curve.half is None:
        return "Grey: what privacy or sampling hides."
    return (
        "The grey area is what privacy hides: the darker, the fewer keys of that frequency appear. Rare keys are "
        f"missing here however many there are: of those with frequency {curve.half:,} about every second one."
        if not curve.at_least
        else "The grey area is what privacy may hide: the darker, the smaller the chance that is certain for a key."
    )


def chance_chart(curve: ReportingCurve, *, of: str = "a key", sampled: bool = False) -> Chart:
    """The chance of being reported, by true frequency."""
    canvas = Canvas(_WIDTH, _HEIGHT)
    end = curve.points[-1][0]
    x = Linear(0, end, _LEFT, _WIDTH - _RIGHT)
    y = Linear(0, 1, _HEIGHT - _BOTTOM, _TOP)
    corners = [(x(frequency), y(chance)) for frequency, chance in curve.points]
    canvas.box(x.start, y.end, x.end - x.start, y.start - y.end, "hidden", 0.75)
    canvas.path([(x.start, y.start), *corners, (x.end, y.start)], "wash", closed=True)
    _axes(canvas, x, y, f"true frequency of {of}", "chance to appear", percent=True)
    canvas.path(corners, "line")
    unseen = "not sampled, or hidden" if sampled else "hidden"
    canvas.text(x.start + 10, y(0.88), unseen, "label")
    canvas.text(x.end - 8, y(0.06), "appears", "label", "end")
    for frequency, words in _milestones(curve):
        chance = curve.chance(frequency)
        canvas.dot(x(frequency), y(chance))
        far = x(frequency) > x.start + 0.6 * (x.end - x.start)
        if chance > 0.99:  # above the frame, where nothing is
            canvas.text(
                min(x(frequency) + (6 if far else 0), x.end), y(1) - 8, words, "note", "end" if far else "start"
            )
        elif far and chance < 0.9:
            canvas.text(x(frequency) - 9, y(chance) + 4, words, "note", "end")
        else:
            canvas.text(x(frequency) + 8, y(chance) + (15 if chance > 0.9 else 4), words, "note")
    marks = "; ".join(words for _, words in _milestones(curve))
    known = "At least this, whatever the other keys are" if curve.at_least else "Exact, from the law of this release"
    return canvas.chart("chance", f"Chance that {of} appears", f"{known}: {marks}." if marks else f"{known}.")


def _milestones(curve: ReportingCurve) -> list[tuple[int, str]]:
    """Where half, 95 % and all keys appear, in words; frequencies that coincide are named once."""
    last = (curve.always, "always") if curve.always is not None else (curve.surely, "99.9 %")
    found: dict[int, str] = {}
    for frequency, words in ((curve.half, "50 %"), (curve.likely, "95 %"), last):
        if frequency:
            found[frequency] = f"{words} from {frequency:,} on"
    return list(found.items())


def histogram_chart(shares: Sequence[float], edges: Sequence[str], *, name: str, noun: str) -> Chart:
    """Bars side by side for parts of an interval.

    Args:
        shares: estimated number in each part.
        edges: labels for the starts of the parts, and the end of the last one.
        name: of the values.
        noun: what is counted.
    """
    canvas = Canvas(_WIDTH, _HEIGHT)
    x = Linear(0, len(shares), _LEFT, _WIDTH - _RIGHT)
    y = Linear(0, max([1.0, *shares]) * 1.05, _HEIGHT - _BOTTOM, _TOP)
    _axes(canvas, None, y, shorten(name, 260), f"{noun}, estimated")
    for place, share in enumerate(shares):
        if share > 0:
            canvas.box(x(place) + 0.3, y(share), x(place + 1) - x(place) - 0.6, y.start - y(share), "dot")
    _edge_labels(canvas, Linear(0, len(edges) - 1, x.start, x.end), y, edges)
    caption = f"Estimated {noun} in each of {len(shares)} equal parts of the public interval."
    return canvas.chart("distribution", "How values are distributed", caption)


def share_chart(points: Sequence[tuple[float, float, float, float]], edges: Sequence[str], *, name: str) -> Chart:
    """The share of units up to each value, with bounds.

    Args:
        points: place from 0 to 1, share, lower and upper.
        edges: labels at equal distances.
        name: of the values.
    """
    canvas = Canvas(_WIDTH, _HEIGHT)
    x = Linear(0, 1, _LEFT, _WIDTH - _RIGHT)
    y = Linear(0, 1, _HEIGHT - _BOTTOM, _TOP)
    band = [(x(place), y(upper)) for place, _, _, upper in points]
    band += [(x(place), y(lower)) for place, _, lower, _ in reversed(points)]
    canvas.path(band, "wash", closed=True)
    _axes(canvas, None, y, shorten(name, 260), "share up to here", percent=True)
    canvas.path([(x(place), y(share)) for place, share, _, _ in points], "line")
    _edge_labels(canvas, Linear(0, len(edges) - 1, x.start, x.end), y, edges)
    caption = (
        "The line is the estimated share of units with at most this value; the band holds the bounds of each share."
    )
    return canvas.chart("shares", "Share of units up to each value", caption)


def _edge_labels(canvas: Canvas, x: Scale, y: Scale, edges: Sequence[str]) -> None:
    """Labels below the axis, as many as there is room for."""
    longest = max((len(edge) for edge in edges), default=1)
    most = max(2, int((x.end - x.start) / (7.0 * longest + 14)))
    step = max(1, -(-(len(edges) - 1) // (most - 1 or 1)))
    for place in range(0, len(edges), step):
        first, last = place == 0, place + step >= len(edges) and place == len(edges) - 1
        canvas.text(x(place), y.start + 15, edges[place], side="start" if first else "end" if last else "middle")


def error_chart(points: Sequence[tuple[int, float]]) -> Chart:
    """How sure it is that a value is within an error of its count.

    Args:
        points: errors, and the probability of staying within, growing.
    """
    canvas = Canvas(_WIDTH, _HEIGHT)
    x = Linear(0, points[-1][0] or 1, _LEFT, _WIDTH - _RIGHT)
    y = Linear(0, 1, _HEIGHT - _BOTTOM, _TOP)
    corners: list[tuple[float, float]] = []
    for error, chance in points:
        if corners:
            corners.append((x(error), corners[-1][1]))
        corners.append((x(error), y(chance)))
    canvas.path([(corners[0][0], y.start), *corners, (corners[-1][0], y.start)], "wash", closed=True)
    _axes(canvas, x, y, "distance of a value from its count", "chance to be within", percent=True)
    canvas.path(corners, "line")
    caption = (
        "The chance that the value of a key, chosen without looking at the release, is within a distance of its count."
    )
    return canvas.chart("error", "How far values are from counts", caption)


def _axes(canvas: Canvas, x: Scale | None, y: Scale, across: str, up: str, *, percent: bool = False) -> None:
    """Grid lines, tick labels and titles."""
    start, end = _LEFT, _WIDTH - _RIGHT
    for tick in y.ticks(7 if isinstance(y, Log) else 5):
        canvas.line(start, y(tick), end, y(tick), "grid")
        canvas.text(start - 6, y(tick) + 4, f"{100 * tick:.0f}%" if percent else short_number(tick), side="end")
    canvas.line(start, y.start, end, y.start, "axis")
    if x is not None:
        for tick in x.ticks(6):
            canvas.line(x(tick), y.start, x(tick), y.start + 4, "axis")
            canvas.text(x(tick), y.start + 16, short_number(tick), side="middle")
    canvas.text((start + end) / 2, y.start + 36, across, side="middle")
    canvas.text(4, 13, up)
