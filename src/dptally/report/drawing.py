"""A small canvas for charts in SVG: for a page, where the page's style colours them, or for a file of their own."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass

from dptally.report.colours import LIGHT, chart_style
from dptally.report.markup import Markup, join, tag

__all__ = ["Canvas", "Chart", "shorten"]

_LETTER = 6.6  # width of a letter, on average, at 12 pixels
_MARGIN, _HEAD, _LINE = 14, 30, 16  # around a chart in a file, its title, a line of its caption
_CAPTION_LETTERS = 62


@dataclass(frozen=True)
class Chart:
    """A drawn chart.

    Attributes:
        name: for file names and anchors.
        title: what it shows.
        caption: how to read it, in a sentence or two.
        width: in pixels.
        height: in pixels.
        drawing: what is inside the SVG element.
    """

    name: str
    title: str
    caption: str
    width: int
    height: int
    drawing: Markup

    def inline(self) -> Markup:
        """The SVG element for a page; the caption beside it says the same in words."""
        return tag(
            "svg",
            self.drawing,
            class_="chart",
            viewBox=f"0 0 {self.width} {self.height}",
            role="img",
            aria_label=f"{self.title}. {self.caption}",
        )

    def file(self) -> bytes:
        """An SVG file with title, caption, colours and background of its own."""
        lines = _wrapped(self.caption)
        width, top = self.width + 2 * _MARGIN, _MARGIN + _HEAD
        height = top + self.height + _LINE * len(lines) + 2 * _MARGIN
        words = [
            tag("text", line, x=_MARGIN, y=top + self.height + 18 + _LINE * place, class_="tick")
            for place, line in enumerate(lines)
        ]
        picture = tag(
            "svg",
            tag("style", Markup(chart_style(LIGHT))),
            tag("rect", width=width, height=height, class_="paper"),
            tag("text", self.title, x=_MARGIN, y=_MARGIN + 14, class_="head"),
            tag("g", self.drawing, transform=f"translate({_MARGIN} {top})"),
            words,
            xmlns="http://www.w3.org/2000/svg",
            class_="chart",
            width=width,
            height=height,
            viewBox=f"0 0 {width} {height}",
        )
        return picture.encode()


class Canvas:
    """Collects the parts of a chart."""

    def __init__(self, width: int, height: int) -> None:
        self.width, self.height = width, height
        self._parts: list[Markup] = []

    def chart(self, name: str, title: str, caption: str) -> Chart:
        """The chart that was drawn."""
        return Chart(name, title, caption, self.width, self.height, join(self._parts))

    def box(self, x: float, y: float, width: float, height: float, kind: str, opacity: float | None = None) -> None:
        """A filled rectangle."""
        self._parts.append(
            tag(
                "rect",
                x=round(x, 2),
                y=round(y, 2),
                width=round(max(width, 0), 2),
                height=round(max(height, 0), 2),
                class_=kind,
                fill_opacity=None if opacity is None else round(opacity, 3),
            )
        )

    def line(self, x1: float, y1: float, x2: float, y2: float, kind: str) -> None:
        """A straight line."""
        self._parts.append(tag("path", d=f"M{x1:.1f} {y1:.1f}L{x2:.1f} {y2:.1f}", class_=kind))

    def path(self, points: Iterable[tuple[float, float]], kind: str, *, closed: bool = False) -> None:
        """Straight lines from point to point; a filled shape if closed."""
        drawn = "L".join(f"{x:.1f} {y:.1f}" for x, y in points)
        self._parts.append(tag("path", d=f"M{drawn}{'Z' if closed else ''}", class_=kind))

    def dot(self, x: float, y: float, radius: float = 3.5) -> None:
        """A point."""
        self._parts.append(tag("circle", cx=round(x, 1), cy=round(y, 1), r=radius, class_="dot"))

    def text(self, x: float, y: float, text: str, kind: str = "tick", side: str = "start") -> None:
        """A line of text whose start, middle or end is at x."""
        self._parts.append(
            tag("text", text, x=round(x, 1), y=round(y, 1), class_=kind, text_anchor=None if side == "start" else side)
        )


def shorten(text: str, width: float) -> str:
    """Text cut to about this many pixels, with an ellipsis; wide letters count twice.

    >>> shorten("a long word", 40)
    'a lon…'
    """
    room, kept = width / _LETTER, ""
    for letter in text:
        room -= 2 if unicodedata.east_asian_width(letter) in "WF" else 1
        if room < 0:
            return kept[:-1] + "…"
        kept += letter
    return text


def _wrapped(text: str) -> list[str]:
    import textwrap

    return textwrap.wrap(text, _CAPTION_LETTERS)
