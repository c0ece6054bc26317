"""The pictures of the comparison, as SVG."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from summary import Task

from dptally.report.axes import Linear, Log, short_number
from dptally.report.drawing import Canvas, Chart, grid, shorten

__all__ = ["draw_charts"]

_WIDTH, _ROW, _LABELS = 370, 19, 158


def draw_charts(tasks: list[Task], directory: Path) -> list[str]:
    """Write the pictures there are results for; returns their names."""
    rows = [row for task in tasks for row in _rows(task)]
    directory.mkdir(parents=True, exist_ok=True)
    written = []
    for name, title, column, axis in (
        ("keys", "Keys released, as a share of the ceiling", "share", "share of the ceiling"),
        ("errors", "Error on common keys: the peer's over dptally's", "error_ratio", "ratio"),
        ("cpu", "Processor time of the call, over plain Polars", "cpu_ratio", "times plain Polars, logarithmic"),
        ("memory", "Peak memory of the process, over plain Polars", "peak_ratio", "times plain Polars, logarithmic"),
    ):
        for data_set in ("zipf-1e6", "zipf-1e7"):
            chosen = [row for row in rows if row["data_set"] == data_set and row[column] is not None]
            if chosen:
                file = f"{name}-{data_set}.svg"
                _picture(chosen, f"{title} ({data_set})", column, axis).save(directory / file)
                written.append(file)
    return written


def _rows(task: Task) -> list[dict[str, Any]]:
    base = task.lines.get("plain_polars")
    rows = []
    for line in task.lines.values():
        if not line.entry.private or line.keys is None:
            continue
        common = line.ours.get("dptally_default" if task.keys_per_unit < 3 else "dptally_gaussian")
        rows.append(
            {
                "data_set": task.data_set,
                "entry": line.entry.title,
                "ours": line.entry.name.startswith("dptally"),
                "heading": f"{_keys(task.keys_per_unit)}, epsilon {task.epsilon}",
                "order": task.keys_per_unit * 100 + float(task.epsilon),
                "share": line.keys / task.facts["optimum"] if task.facts["optimum"] else None,
                "error_ratio": 1 / common.ratio if common else None,
                "cpu_ratio": line.cpu / base.cpu if base and base.cpu and line.cpu else None,
                "peak_ratio": line.peak / base.peak if base and base.peak and line.peak else None,
            }
        )
    return rows


def _keys(count: int) -> str:
    return "one key per unit" if count == 1 else f"{count} keys per unit"


def _picture(rows: list[dict[str, Any]], title: str, column: str, axis: str) -> Chart:
    """A panel for each task, two side by side."""
    panels = []
    for _, heading in sorted({(row["order"], row["heading"]) for row in rows}):
        panels.append(_panel([row for row in rows if row["heading"] == heading], heading, column, axis))
    caption = "of dptally: Gaussian from 3 keys per unit on" if column == "error_ratio" else ""
    return grid(column, title, caption, [panels[start : start + 2] for start in range(0, len(panels), 2)])


def _panel(rows: list[dict[str, Any]], heading: str, column: str, axis: str) -> Chart:
    """Entries from the best to the worst. A bar from nothing has no length on a logarithmic scale: points there."""
    logarithmic = column in ("cpu_ratio", "peak_ratio")
    shown = sorted(rows, key=lambda row: row[column], reverse=not logarithmic)
    numbers = [1.0, *(row[column] for row in rows)]
    bottom = _ROW * len(shown) + 4
    canvas = Canvas(_WIDTH, bottom + 36)
    left, right = _LABELS, _WIDTH - 14
    x: Linear = (
        Log(min(numbers) / 1.15, 1.15 * max(numbers), left, right)
        if logarithmic
        else Linear(0, max(numbers), left, right)
    )
    for tick in x.ticks(4):
        canvas.line(x(tick), 2, x(tick), bottom, "grid")
        canvas.text(x(tick), bottom + 15, short_number(tick), side="middle")
    for place, row in enumerate(shown):
        middle = _ROW * (place + 0.5) + 2
        kind = "dot" if row["ours"] else "fill-8"
        canvas.text(left - 8, middle + 4, shorten(row["entry"], left - 8), "label", "end")
        if logarithmic:
            canvas.dot(x(row[column]), middle, 4.5, kind)
        else:
            canvas.box(left, middle - 6, x(row[column]) - left, 12, kind)
    canvas.line(x(1), 2, x(1), bottom, "mark")
    canvas.text((left + right) / 2, bottom + 32, axis, side="middle")
    return canvas.chart("panel", heading)
