"""Charts with two axes: where a number stands on the page, and which numbers are written beside it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from dptally.report.drawing import Canvas

_LEFT, _RIGHT, _TOP, _BOTTOM = 44, 14, 30, 44  # margins for ticks and titles


def short_number(number: float) -> str:
    """A number as a tick shows it.

    >>> [short_number(number) for number in (0, 2.5e-4, 0.5, 20, 1500, 2e6, 3.5e9)]
    ['0', '2.5e-4', '0.5', '20', '1.5k', '2M', '3.5G']
    """
    for power, letter in ((12, "T"), (9, "G"), (6, "M"), (3, "k")):
        if abs(number) >= 10**power:
            return f"{number / 10**power:.4g}{letter}"
    digits, exponent = f"{number:.3e}".split("e")
    return f"{float(digits):g}e{int(exponent)}" if 0 < abs(number) < 0.001 else f"{number:.4g}"


@dataclass(frozen=True)
class Linear:
    """A place on the page for each number from `low` to `high`: equal distances for equal differences.

    >>> Linear(0, 100, 0, 1).ticks()
    [0.0, 20.0, 40.0, 60.0, 80.0, 100.0]
    """

    low: float
    high: float
    start: float
    end: float

    def __call__(self, number: float) -> float:
        """The place of a number; numbers beyond the ends are moved to them."""
        part = min(1.0, max(0.0, self._part(number)))
        return round(self.start + part * (self.end - self.start), 2)

    def _part(self, number: float) -> float:
        return (number - self.low) / (self.high - self.low) if self.high > self.low else 0.0

    def ticks(self, most: int = 6) -> list[float]:
        """Multiples of 1, 2 or 5 times a power of ten."""
        rough = ((self.high - self.low) or 1.0) / most
        power = 10.0 ** math.floor(math.log10(rough))
        step = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= rough * (1 - 1e-9))
        first = math.ceil(self.low / step - 1e-9)
        return [round(place * step, 12) for place in range(first, math.floor(self.high / step + 1e-9) + 1)]


@dataclass(frozen=True)
class Log(Linear):
    """Equal distances for equal ratios.

    >>> Log(1, 1000, 0, 1).ticks()
    [1.0, 10.0, 100.0, 1000.0]
    """

    def _part(self, number: float) -> float:
        if self.high <= self.low:
            return 0.0
        return math.log(max(number, self.low) / self.low) / math.log(self.high / self.low)

    def ticks(self, most: int = 6) -> list[float]:
        """Powers of ten, with 2 and 5 times them where there is room."""
        powers = range(math.floor(math.log10(self.low)), math.ceil(math.log10(self.high)) + 1)
        found: list[float] = []
        for factors in ((1, 2, 5), (1, 3), (1,)):
            found = [float(f"{factor}e{power}") for power in powers for factor in factors]
            found = [number for number in found if self.low * (1 - 1e-9) <= number <= self.high * (1 + 1e-9)]
            if 2 <= len(found) <= most:
                return found
        return found[:: -(-len(found) // most)] if len(found) > 1 else super().ticks(most)


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

    def scale(self, start: float, end: float) -> Linear:
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
