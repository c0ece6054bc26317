"""The chart of two releases compared: differences with their intervals, around zero."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dptally.labels import key_label
from dptally.report.axes import Linear, short_number
from dptally.report.drawing import Canvas, Chart, shorten

if TYPE_CHECKING:
    import polars as pl

_WIDTH, _ROW, _LABELS = 560, 21, 150
_LONGEST_LABEL = 40


def comparison_chart(rows: pl.DataFrame, keys: int, confidence: str) -> Chart:
    """A line for each interval of a difference, a dot for its estimate; rows of `Release.compare`, keys first."""
    found = rows.select("difference", "difference_lower", "difference_upper").rows()
    ends = [float(end) for row in found for end in row if end is not None]
    reach = max([1.0, *map(abs, ends)]) * 1.05
    bottom = _ROW * len(found) + 4
    canvas = Canvas(_WIDTH, bottom + 36)
    x = Linear(-reach, reach, _LABELS, _WIDTH - 60)
    for tick in x.ticks(6):
        canvas.line(x(tick), 2, x(tick), bottom, "grid")
        canvas.text(x(tick), bottom + 15, short_number(tick), side="middle")
    canvas.line(x(0), 2, x(0), bottom, "axis")
    for place, (names, (estimate, lower, upper)) in enumerate(zip(rows.iter_rows(), found, strict=True)):
        y = _ROW * place + _ROW / 2 + 3
        label = " · ".join(key_label(part, longest=_LONGEST_LABEL) or "(empty)" for part in names[:keys])
        low, high = (-reach if lower is None else lower), (reach if upper is None else upper)
        canvas.line(x(low), y, x(high), y, "bound")
        if estimate is not None:
            canvas.dot(x(estimate), y, 2.8)
        canvas.text(_LABELS - 8, y + 4, shorten(label, _LABELS - 8), "label", "end")
        text = names[-1] if estimate is None else f"{estimate:+,}"
        canvas.text(x(high) + 7, y + 4, text, "number")
    canvas.text((x.start + x.end) / 2, bottom + 32, "difference of counts, after less before", side="middle")
    caption = (
        f"Dots: differences of estimates; lines: {confidence} confidence intervals that hold for all keys at once."
        " Keys of one release only have no dot: not released is not zero."
    )
    return canvas.chart("comparison", "The largest changes" if len(found) > 1 else "The change", caption)
