"""Curves as text: a grid of braille dots, two by four to a character."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

__all__ = ["MARKS", "text_chart"]

MARKS = "ABCDEFGHIJKLMNOP"
_DOTS = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))  # by row, by column of a braille character
_BLANK = 0x2800


def text_chart(
    frequencies: Sequence[int], curves: Mapping[str, Sequence[float]], *, width: int = 60, height: int = 10
) -> list[str]:
    """Draw probabilities from 0 to 1 over frequencies, as lines of text.

    Each curve has a letter, which stands on it where it passes one half, or where it ends. The vertical axis stands at
    the right, so that the lines can be read as text too.

    Args:
        frequencies: increasing.
        curves: a probability for each frequency, by name.
        width: of the picture, in characters.
        height: of the picture, in lines.
    """
    dots = [[0] * width for _ in range(height)]
    marks: dict[tuple[int, int], str] = {}
    first, last = frequencies[0], max(frequencies[-1], frequencies[0] + 1)
    columns, rows = 2 * width, 4 * height
    for number, curve in enumerate(curves.values()):
        points = list(zip(frequencies, curve, strict=True))
        before: int | None = None
        for column in range(columns):
            chance = _read(points, first + (last - first) * column / (columns - 1))
            row = rows - 1 - round(min(max(chance, 0.0), 1.0) * (rows - 1))
            # Steep parts are filled, so that a curve is a line and not a scatter of dots.
            for at in range(
                min(row, row if before is None else before), max(row, row if before is None else before) + 1
            ):
                dots[at // 4][column // 2] |= _DOTS[at % 4][column % 2]
            before = row
        middle = next((frequency for frequency, chance in points if chance >= 0.5), last)
        place = round((middle - first) / (last - first) * (width - 1))
        line = height // 2
        while (line, place) in marks and line + 1 < height:
            line += 1
        marks[line, place] = MARKS[number % len(MARKS)]
    lines = []
    for line in range(height):
        text = "".join(marks.get((line, place), chr(_BLANK + pattern)) for place, pattern in enumerate(dots[line]))
        label = {0: " 100 %", height // 2: " 50 %", height - 1: " 0 %"}.get(line, "")
        lines.append(f"{text}┤{label}")
    lines.append("└" + "─" * (width - 1) + "┘")
    ends = f"frequency {first:,}", f"{last:,}"
    lines.append(ends[0] + " " * max(1, width - len(ends[0]) - len(ends[1])) + ends[1])
    lines += [f"{MARKS[number % len(MARKS)]} {name}" for number, name in enumerate(curves)]
    return lines


def _read(points: Sequence[tuple[int, float]], at: float) -> float:
    """The curve at a frequency, on a straight line between the points beside it."""
    for (left, low), (right, high) in pairwise(points):
        if at <= right:
            return low + (high - low) * max(0.0, at - left) / (right - left)
    return points[-1][1]
