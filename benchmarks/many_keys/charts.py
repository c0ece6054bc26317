"""The pictures of the comparison, as SVG: bars of released keys, a panel for each data set."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from data import DATA_SETS
from methods import METHODS
from run import cell_name

from dptally.report.axes import Linear, short_number
from dptally.report.drawing import Canvas, Chart, grid, shorten

__all__ = ["draw_charts"]

_WIDTH, _ROW, _LABELS, _NUMBERS = 380, 19, 172, 48


def draw_charts(results: dict[str, Any], directory: Path, delta: float = 1e-6) -> list[str]:
    """Write a picture for epsilon 1 and one for epsilon 3, where there are results; returns their names."""
    written = []
    for epsilon in (1.0, 3.0):
        panels = [panel for name in DATA_SETS if (panel := _panel(results["cells"], name, epsilon, delta))]
        if panels:
            directory.mkdir(parents=True, exist_ok=True)
            file = f"keys-epsilon-{epsilon:g}.svg"
            rows = [panels[start : start + 2] for start in range(0, len(panels), 2)]
            grid("keys", f"Keys released at epsilon {epsilon:g}, delta {delta:g}", "", rows).save(directory / file)
            written.append(file)
    return written


def _panel(cells: dict[str, Any], name: str, epsilon: float, delta: float) -> Chart | None:
    """Methods from the most keys to the fewest."""
    ranked = [method for method in METHODS.values() if method.kind != "unproved"]
    found = [(method, cells.get(cell_name(name, epsilon, delta, method.name))) for method in ranked]
    shown = sorted(((cell["mean"], method) for method, cell in found if cell), key=lambda each: -each[0])
    if not shown:
        return None
    bottom = _ROW * len(shown) + 4
    canvas = Canvas(_WIDTH, bottom + 20)
    left, right = _LABELS, _WIDTH - _NUMBERS
    x = Linear(0, max(1.0, shown[0][0]), left, right)
    for tick in x.ticks(4):
        canvas.line(x(tick), 2, x(tick), bottom, "grid")
        canvas.text(x(tick), bottom + 15, short_number(tick), side="middle")
    for place, (mean, method) in enumerate(shown):
        middle = _ROW * (place + 0.5) + 2
        kind = "dot" if method.kind in ("ours", "counts") else "fill-8"
        canvas.text(left - 8, middle + 4, shorten(method.title, left - 8), "label", "end")
        canvas.box(left, middle - 6, x(mean) - left, 12, kind)
        canvas.text(x(mean) + 5, middle + 4, f"{mean:,.0f}")
    return canvas.chart("panel", DATA_SETS[name])
