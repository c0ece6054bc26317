"""The charts of a release, each drawn from the release alone. For pictures: floating point throughout."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from typing import TYPE_CHECKING

from dptally.labels import key_label
from dptally.laws.reporting_curves import ReportingCurve
from dptally.report.axes import Axis, Linear, Plot, short_number
from dptally.report.drawing import Canvas, Chart, shorten

if TYPE_CHECKING:
    import polars as pl

    from dptally.privacy.guarantee import Guarantee

_WIDTH, _HEIGHT = 390, 290
_ROW, _LABELS = 21, 118
_LONGEST_LABEL = 40
_STRIPS = 60
_RANKS = 240


def privacy_line(guarantee: Guarantee) -> str:
    """What is guaranteed, in one line below the title of a picture."""
    if not guarantee.private:
        return "NOT PRIVATE: made with a fixed seed, for tests or simulations"
    numbers = f"epsilon = {float(guarantee.epsilon):.4g}, delta = {float(guarantee.delta):.4g}".replace("e-0", "e-")
    keys = guarantee.max_keys_per_unit
    if not keys:
        return f"Differentially private: {numbers}"
    unit = "row" if guarantee.unit is None else key_label(guarantee.unit, longest=_LONGEST_LABEL)
    return (
        f"Differentially private: {numbers}; each {unit} counts for at most {keys:,} {'key' if keys == 1 else 'keys'}"
    )


@dataclass(frozen=True)
class Bar:
    """A key with its estimate and confidence interval."""

    label: str
    estimate: float
    lower: float
    upper: float


def bars_of(top: pl.DataFrame, keys: int, of: str | None = None) -> list[Bar]:
    """The rows of `Release.top`, whose first columns hold the key: counts, or the sum or mean of a name."""
    names = ("estimate", "lower", "upper") if of is None else (of, f"{of}_lower", f"{of}_upper")
    columns = [top.get_column(name).to_list() for name in names]
    labels = (
        " · ".join(key_label(part, longest=_LONGEST_LABEL) or "(empty)" for part in row[:keys])
        for row in top.iter_rows()
    )
    return [Bar(label, *map(float, numbers)) for label, *numbers in zip(labels, *columns, strict=True)]


def bar_chart(bars: Sequence[Bar], confidence: str, of: str | None = None, *, number: int = 0) -> Chart:
    """Bars for estimates, lines for confidence intervals: of counts, or of a sum or mean of this name."""
    bottom = _ROW * len(bars) + 4
    canvas = Canvas(_WIDTH, bottom + 36)
    x = Linear(min(0, *(bar.lower for bar in bars)), max(bar.upper for bar in bars) or 1, _LABELS, _WIDTH - 58)
    for tick in x.ticks(4):
        canvas.line(x(tick), 2, x(tick), bottom, "grid")
        canvas.text(x(tick), bottom + 15, short_number(tick), side="middle")
    for place, bar in enumerate(bars):
        y = _ROW * place + 4
        told, lower, upper = (told_number(part, counts=of is None) for part in _parts(bar))
        start, end = sorted((x(0), x(bar.estimate)))
        canvas.box(start, y + 2, end - start, _ROW - 6, "wash", tip=f"{bar.label}: {told} ({lower} to {upper})")
        canvas.line(x(bar.lower), y + _ROW / 2 - 1, x(bar.upper), y + _ROW / 2 - 1, "bound")
        canvas.dot(x(bar.estimate), y + _ROW / 2 - 1, 2.8)
        canvas.text(_LABELS - 8, y + _ROW / 2 + 3, shorten(bar.label, _LABELS - 8), "label", "end")
        canvas.text(x(bar.upper) + 7, y + _ROW / 2 + 3, told, "number")
    what = "estimated count" if of is None else key_label(of, longest=_LONGEST_LABEL)
    canvas.text((x.start + x.end) / 2, bottom + 32, what, side="middle")
    caption = f"Bars are estimates; lines are {confidence} confidence intervals that hold after sorting by value."
    if of is not None:
        return canvas.chart(f"statistic-{number}", f"{what} of the most frequent keys", caption)
    return canvas.chart("top-keys", f"The {len(bars)} most frequent keys" if len(bars) > 1 else "The key", caption)


def told_number(number: float, *, counts: bool = False) -> str:
    """A number for people: whole where it is a count or large, else with four digits."""
    return f"{number:,.0f}" if counts or abs(number) >= 1000 else f"{number:,.4g}"


def _parts(bar: Bar) -> tuple[float, float, float]:
    return bar.estimate, bar.lower, bar.upper


def rank_chart(rows: Sequence[tuple[float, float, float]], curve: ReportingCurve, *, of: str = "keys") -> Chart:
    """Counts by rank on logarithmic axes, over what privacy hides; rows are estimate, lower, upper, largest first."""
    highest = max([10.0, *(upper for _, _, upper in rows)])
    shown = min(highest * 1.3, 10.0 ** math.ceil(math.log10(highest * 1.05)))
    plot = Plot(
        Axis(f"rank of released {of}", 1, max(10, len(rows)), log=True), Axis("count", 1, shown, log=True, ticks=7)
    )
    _shade(plot, curve)
    plot.axes()
    _mark_hidden(plot, curve)
    chosen = sorted({round(len(rows) ** (step / _RANKS)) - 1 for step in range(_RANKS + 1)}) if rows else []
    drawn = [(place + 1, *rows[place]) for place in chosen if place < len(rows)]
    if len(drawn) > 1:
        plot.area([(rank, lower, upper) for rank, _, lower, upper in drawn])
        plot.curve((rank, estimate) for rank, estimate, _, _ in drawn if estimate >= 1)
    for rank, estimate, _, _ in drawn[:8]:
        if estimate >= 1:
            plot.dot(plot.x(rank), plot.y(estimate), 2.6)
    caption = (
        "The line shows the estimates of released keys; the band shows confidence intervals that hold after sorting by "
        f"value. {_hidden_in_words(curve)}"
    )
    title = "Counts, and what privacy hides" if curve.hides else "Counts of the keys"
    return plot.chart("frequencies", title, caption)


def _shade(plot: Plot, curve: ReportingCurve) -> None:
    """Grey where keys are hidden, the darker the more of them."""
    y = plot.y
    depth = (y.start - y.end) / _STRIPS
    hidden = [
        round(1 - curve.chance(y.low * (y.high / y.low) ** ((strip + 0.5) / _STRIPS)), 2) for strip in range(_STRIPS)
    ]
    for opacity, run in groupby(range(_STRIPS), key=hidden.__getitem__):
        strips = list(run)
        if opacity > 0:
            top, height = y.start - (strips[-1] + 1) * depth, len(strips) * depth
            plot.box(plot.left, top, plot.right - plot.left, height, "hidden", opacity=opacity)


def _mark_hidden(plot: Plot, curve: ReportingCurve) -> None:
    """Two lines: half of the keys appear, 95 % do."""
    y, at_least = plot.y, "at least " if curve.at_least else ""
    if curve.likely and curve.likely < y.high:
        plot.line(plot.left, y(curve.likely), plot.right, y(curve.likely), "mark")
        plot.text(plot.left + 6, y(curve.likely) - 5, f"from {curve.likely:,} on, {at_least}95 % appear", "note")
    if curve.half and 1 < curve.half < y.high and y(curve.half) < y.start - 16:
        plot.line(plot.left, y(curve.half), plot.right, y(curve.half), "mark")
        words = "may stay hidden" if curve.at_least else "most stay hidden"
        plot.text(plot.left + 6, y(curve.half) + 14, f"below {curve.half:,}, {words}", "note")


def _hidden_in_words(curve: ReportingCurve) -> str:
    if not curve.hides:
        return "Every key of the public list is released, so nothing is hidden; small values are mostly noise."
    if curve.half is None:
        return "Grey: what privacy or sampling hides."
    if curve.at_least:
        return "The grey area is what privacy may hide: the darker, the smaller the guaranteed chance to appear."
    return (
        "The grey area is what privacy hides: the darker, the fewer keys of that count appear. Rare keys are missing "
        f"here however many there are: of those with count {curve.half:,}, about every second one."
    )


def chance_chart(curve: ReportingCurve, *, of: str = "a key", sampled: bool = False, height: int = _HEIGHT) -> Chart:
    """The chance to be released, by true count."""
    plot = Plot(
        Axis(f"true count of {of}", 0, curve.points[-1][0]), Axis("chance to appear", 0, 1, percent=True, ticks=5),
        height=height,
    )  # fmt: skip
    x, y = plot.x, plot.y
    plot.box(x.start, y.end, x.end - x.start, y.start - y.end, "hidden", opacity=0.75)
    plot.area([(count, 0, chance) for count, chance in curve.points])
    plot.axes()
    plot.curve(curve.points)
    plot.text(x.start + 10, y(0.88), "not sampled, or hidden" if sampled else "hidden", "label")
    plot.text(x.end - 8, y(0.06), "appears", "label", "end")
    milestones = _milestones(curve)
    for count, words in milestones.items():
        chance = curve.chance(count)
        plot.dot(x(count), y(chance))
        far = x(count) > x.start + 0.6 * (x.end - x.start)
        if chance > 0.99:  # above the frame, where nothing is
            plot.text(min(x(count) + (6 if far else 0), x.end), y(1) - 8, words, "note", "end" if far else "start")
        elif far and chance < 0.9:
            plot.text(x(count) - 9, y(chance) + 4, words, "note", "end")
        else:
            plot.text(x(count) + 8, y(chance) + (15 if chance > 0.9 else 4), words, "note")
    marks = "; ".join(milestones.values())
    known = "A lower bound, whatever the other keys are" if curve.at_least else "Exact for this release"
    return plot.chart("chance", f"Chance that {of} appears", f"{known}: {marks}." if marks else f"{known}.")


def _milestones(curve: ReportingCurve) -> dict[int, str]:
    """Where half, 95 % and all keys appear, in words; counts that coincide are named once."""
    last = (curve.always, "always") if curve.always is not None else (curve.surely, "99.9 %")
    shares = ((curve.half, "50 %"), (curve.likely, "95 %"), last)
    return {count: f"{words} from {count:,} on" for count, words in shares if count}


def histogram_chart(shares: Sequence[float], edges: Sequence[str], *, name: str, noun: str) -> Chart:
    """Bars for the estimated number in each part of an interval, with labels for the edges of the parts."""
    most = max([1.0, *shares]) * 1.05
    plot = Plot(Axis(shorten(name, 260), 0, len(shares), ticks=0), Axis(f"{noun}, estimated", 0, most, ticks=5))
    plot.axes()
    for place, share in enumerate(shares):
        if share > 0:
            left, right, top = plot.x(place), plot.x(place + 1), plot.y(share)
            plot.box(left + 0.3, top, right - left - 0.6, plot.bottom - top, "dot")
    _edge_labels(plot, edges)
    caption = f"Estimated {noun} in each of {len(shares)} equal parts of the public interval."
    return plot.chart("distribution", "How values are distributed", caption)


def share_chart(points: Sequence[tuple[float, float, float, float]], edges: Sequence[str], *, name: str) -> Chart:
    """The share of units up to each value: points are place from 0 to 1, share, lower, upper."""
    plot = Plot(Axis(shorten(name, 260), 0, 1, ticks=0), Axis("share up to here", 0, 1, percent=True, ticks=5))
    plot.area([(place, lower, upper) for place, _, lower, upper in points])
    plot.axes()
    plot.curve((place, share) for place, share, _, _ in points)
    _edge_labels(plot, edges)
    caption = (
        "The line is the estimated share of units with at most this value; the band shows the confidence interval of "
        "each share."
    )
    return plot.chart("shares", "Share of units up to each value", caption)


def _edge_labels(plot: Plot, edges: Sequence[str]) -> None:
    """Labels at equal distances below the axis, as many as there is room for."""
    x = Linear(0, len(edges) - 1, plot.left, plot.right)
    longest = max((len(edge) for edge in edges), default=1)
    most = max(2, int((x.end - x.start) / (7.0 * longest + 14)))
    step = max(1, -(-(len(edges) - 1) // (most - 1 or 1)))
    for place in range(0, len(edges), step):
        side = "start" if place == 0 else "end" if place == len(edges) - 1 else "middle"
        plot.text(x(place), plot.bottom + 15, edges[place], side=side)


def error_chart(points: Sequence[tuple[int, float]]) -> Chart:
    """How likely a value is within an error of its count: points are errors and chances, growing."""
    plot = Plot(
        Axis("distance of a value from its count", 0, points[-1][0] or 1),
        Axis("chance to be within", 0, 1, percent=True, ticks=5),
    )
    corners: list[tuple[float, float]] = [points[0]]
    for (_, before), (error, chance) in pairwise(points):
        corners += [(error, before), (error, chance)]
    plot.area([(error, 0, chance) for error, chance in corners])
    plot.axes()
    plot.curve(corners)
    caption = (
        "The chance that the value of a key, chosen without looking at the release, is within a distance of its count."
    )
    return plot.chart("error", "How far values are from counts", caption)
