"""A small canvas for charts in SVG, and what a chart becomes: part of a page, a file, a picture in a notebook."""

from __future__ import annotations

import base64
import textwrap
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from dptally.errors import InvalidParameter, MissingDependency
from dptally.files import complete_or_absent
from dptally.report.colours import LIGHT, chart_style
from dptally.report.document import document, page_style, policy_of
from dptally.report.markup import Markup, join, tag

_FORMATS = (".png", ".svg", ".html")
_LETTER = 6.6  # width of a letter, on average, at 12 pixels
_MARGIN, _HEAD, _LINE, _GAP = 16, 20, 15, 28  # around a picture, its title, a line of its caption, between panels
_ALONE = (
    "body{margin:1rem;background:var(--paper);color:var(--ink);font-family:system-ui,sans-serif}main{margin:0 auto}"
    "h1{font-size:1.4rem;margin:0}p{color:var(--faint);margin:.4rem 0 1.2rem}svg{display:block;width:100%;height:auto}"
)


@dataclass(frozen=True)
class Chart:
    """A drawn chart: shown by a notebook, or written with `save`.

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

    def __repr__(self) -> str:
        return f"Chart({self.title!r}, {self.width} x {self.height})"

    @property
    def _words(self) -> str:
        return f"{self.title}. {self.caption}"

    def inline(self) -> Markup:
        """The SVG element for a page; the caption beside it says the same in words."""
        return _svg(self.drawing, (self.width, self.height), role="img", aria_label=self._words)

    def content(self, kind: str = ".svg", *, scale: float = 2.0) -> bytes:
        """The chart as a file with a title and caption of its own.

        Args:
            kind: ``.svg``; ``.png``; or ``.html``, a page that follows light and dark and loads nothing.
            scale: pixels of a PNG file for each pixel of the drawing.

        Raises:
            MissingDependency: for PNG without the extra ``plots``.
        """
        if kind == ".html":
            style = page_style(_ALONE, f"main{{max-width:{3 * self.width // 2}px}}")
            body = tag("main", tag("h1", self.title), tag("p", self.caption), self.inline())
            return document(self.title, body, style=style, policy=policy_of(style)).encode()
        words, top = _heading(self, "head")
        width, height = self.width + 2 * _MARGIN, self.height + top + 2 * _MARGIN
        parts = join(
            tag("rect", width=width, height=height, class_="paper"), _moved(words, _MARGIN, _MARGIN),
            _moved(self.drawing, _MARGIN, _MARGIN + top),
        )  # fmt: skip
        style = tag("style", Markup(chart_style(LIGHT)))
        size: dict[str, str | int] = {"width": width, "height": height, "xmlns": "http://www.w3.org/2000/svg"}
        drawn = _svg(join(style, parts), (width, height), **size)
        return drawn.encode() if kind == ".svg" else _to_png(drawn, scale)

    def save(self, path: str | Path, *, scale: float = 2.0) -> None:
        """Write the chart as .svg, .png or .html; an existing file is replaced in one step.

        Args:
            path: where to; the ending decides the format. PNG needs ``pip install 'dptally[plots]'``.
            scale: pixels of a PNG file for each pixel of the drawing.

        Raises:
            InvalidParameter: for another ending.
            MissingDependency: for PNG without the extra ``plots``.
        """
        place = Path(path)
        content = self.content(check_format(place), scale=scale)
        with complete_or_absent(place, overwrite=True) as file:
            file.write(content)

    def _repr_svg_(self) -> str:
        return self.content().decode()

    def _repr_html_(self) -> str:
        """As an image, so that its style stays its own."""
        source = f"data:image/svg+xml;base64,{base64.b64encode(self.content()).decode()}"
        return tag("img", src=source, alt=self._words)


class Canvas:
    """Collects the parts of a chart."""

    def __init__(self, width: int, height: int) -> None:
        self.width, self.height = width, height
        self._parts: list[Markup] = []

    def chart(self, name: str, title: str, caption: str = "") -> Chart:
        """The chart that was drawn."""
        return Chart(name, title, caption, self.width, self.height, join(self._parts))

    def box(
        self, x: float, y: float, width: float, height: float, kind: str,
        *, opacity: float | None = None, tip: str | None = None,
    ) -> None:  # fmt: skip
        """A filled rectangle; a tip is shown when the pointer rests on it."""
        places = {"x": x, "y": y, "width": max(width, 0), "height": max(height, 0)}
        rounded = {name: round(number, 2) for name, number in places.items()}
        shade = None if opacity is None else round(opacity, 3)
        title = None if tip is None else tag("title", tip)
        self._parts.append(tag("rect", title, **rounded, class_=kind, fill_opacity=shade))

    def line(self, x1: float, y1: float, x2: float, y2: float, kind: str) -> None:
        """A straight line."""
        self.path([(x1, y1), (x2, y2)], kind)

    def path(self, points: Iterable[tuple[float, float]], kind: str, *, closed: bool = False) -> None:
        """Straight lines from point to point; a filled shape if closed."""
        drawn = "L".join(f"{x:.1f} {y:.1f}" for x, y in points)
        self._parts.append(tag("path", d=f"M{drawn}{'Z' if closed else ''}", class_=kind))

    def dot(self, x: float, y: float, radius: float = 3.5, kind: str = "dot") -> None:
        """A point."""
        self._parts.append(tag("circle", cx=round(x, 1), cy=round(y, 1), r=radius, class_=kind))

    def text(self, x: float, y: float, text: str, kind: str = "tick", side: str = "start") -> None:
        """A line of text whose start, middle or end is at x."""
        self._parts.append(
            tag("text", text, x=round(x, 1), y=round(y, 1), class_=kind, text_anchor=None if side == "start" else side)
        )


def grid(name: str, title: str, caption: str, rows: Sequence[Sequence[Chart]]) -> Chart:
    """Charts side by side, in rows, each with its title and caption above."""
    parts: list[Markup] = []
    top = 0
    for row in rows:
        heads = [_heading(chart, "strong") for chart in row]
        deepest, left = max(height for _, height in heads), 0
        for chart, (words, _) in zip(row, heads, strict=True):
            parts.append(_moved(join(words, _moved(chart.drawing, 0, deepest)), left, top))
            left += chart.width + _GAP
        top += deepest + max(chart.height for chart in row) + _GAP
    width = max(sum(chart.width + _GAP for chart in row) for row in rows) - _GAP
    return Chart(name, title, caption, width, top - _GAP, join(parts))


def check_format(path: Path) -> str:
    """Return the ending of a picture's name, or refuse it."""
    kind = path.suffix.lower()
    if kind not in _FORMATS:
        raise InvalidParameter(f"a picture's name must end in .png, .svg or .html, got {path.name!r}.")
    return kind


def shorten(text: str, width: float) -> str:
    """Text cut to about this many pixels, with an ellipsis; wide letters count twice, capitals one and a third.

    >>> shorten("a long word", 40)
    'a lon…'
    """
    room, kept = width / _LETTER, ""
    for letter in text:
        room -= 2 if unicodedata.east_asian_width(letter) in "WF" else 4 / 3 if letter.isupper() else 1
        if room < 0:
            return kept[:-1] + "…"
        kept += letter
    return text


def _svg(drawing: Markup, size: tuple[int, int], **attributes: str | int) -> Markup:
    return tag("svg", drawing, class_="chart", viewBox=f"0 0 {size[0]} {size[1]}", **attributes)


def _moved(part: Markup, x: int, y: int) -> Markup:
    return tag("g", part, transform=f"translate({x} {y})") if x or y else part


def _heading(chart: Chart, kind: str) -> tuple[Markup, int]:
    """The title and caption of a chart, and how high they are."""
    lines = textwrap.wrap(chart.caption, int(chart.width / 6.3))
    room = (0.92 if kind == "strong" else 0.72) * chart.width  # letters of titles are larger
    title = tag("text", shorten(chart.title, room), x=0, y=13, class_=kind) if chart.title else None
    first = _HEAD if chart.title else 0
    words = [tag("text", line, x=0, y=first + 12 + _LINE * place, class_="tick") for place, line in enumerate(lines)]
    return join(title, words), first + _LINE * len(lines) + (12 if lines else 6 if chart.title else 0)


def _to_png(drawn: str, scale: float) -> bytes:
    try:
        import vl_convert
    except ImportError:
        raise MissingDependency("PNG pictures need vl-convert: pip install 'dptally[plots]'.") from None
    content: bytes = vl_convert.svg_to_png(drawn, scale=scale)
    return content
