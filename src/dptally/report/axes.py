"""Charts with two axes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from dptally.report.drawing import Canvas
from dptally.report.scales import Linear, Log, Scale, short_number

__all__ = ["Axis", "Plot"]

_LEFT, _RIGHT, _TOP, _BOTTOM = 44, 14, 30, 44  # margins for ticks and titles


@dataclass(frozen=True)
class Axis:
    """One axis of a chart; `ticks` is how many numbers are written at most, 0 for none."""

    title: str
    low: float
    high: float
    log: bool = False
    percent: bool = False
    backwards: bool = False
    ticks: int = 6

    def scale(self, start: float, end: float) -> Scale:
        """The places of its numbers between two places of the page."""
        ends = (end, start) if self.backwards else (start, end)
        return (Log if self.log else Linear)(self.low, self.high, *ends)

    def label(self, number: float) -> str:
        """A number as it is written beside the axis."""
        return f"{100 * number:.4g}%" if self.percent else short_number(number)


class Plot(Canvas):
    """A canvas with two axes, and room below them for a legend."""

    def __init__(self, across: Axis, up: Axis, *, width: int = 390, height: int = 290, below: int = 0) -> None:
        super().__init__(width, height + below)
        self.across, self.up = across, up
        self.left, self.right, self.top, self.bottom = _LEFT, width - _RIGHT, _TOP, height - _BOTTOM
        self.x, self.y = across.scale(self.left, self.right), up.scale(self.bottom, self.top)

    def axes(self) -> None:
        """Draw grid lines, ticks and titles."""
        for tick in self.y.ticks(self.up.ticks):
            self.line(self.left, self.y(tick), self.right, self.y(tick), "grid")
            self.text(self.left - 6, self.y(tick) + 4, self.up.label(tick), side="end")
        self.line(self.left, self.bottom, self.right, self.bottom, "axis")
        for tick in self.x.ticks(self.across.ticks) if self.across.ticks else ():
            self.line(self.x(tick), self.bottom, self.x(tick), self.bottom + 4, "axis")
            self.text(self.x(tick), self.bottom + 16, self.across.label(tick), side="middle")
        self.text((self.left + self.right) / 2, self.bottom + 36, self.across.title, side="middle")
        self.text(4, 13, self.up.title)

    def curve(self, points: Iterable[tuple[float, float]], kind: str = "line") -> None:
        """Straight lines between points."""
        self.path([(self.x(x), self.y(y)) for x, y in points], kind)

    def area(self, points: Sequence[tuple[float, float, float]], kind: str = "wash") -> None:
        """What lies between a lower and an upper line: place, lower, upper."""
        upper = [(self.x(x), self.y(high)) for x, _, high in points]
        lower = [(self.x(x), self.y(low)) for x, low, _ in reversed(points)]
        self.path([*upper, *lower], kind, closed=True)
