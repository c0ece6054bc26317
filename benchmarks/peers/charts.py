"""The pictures of the comparison, as SVG."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

from summary import Task

__all__ = ["draw_charts"]

_OURS, _THEIRS, _INK, _FAINT = "#0f766e", "#a8a29e", "#292524", "#78716c"
_WIDTH, _ROW = 190, 17


def draw_charts(tasks: list[Task], directory: Path) -> list[str]:
    """Write the pictures there are results for; returns their names."""
    rows = [row for task in tasks for row in _rows(task)]
    directory.mkdir(parents=True, exist_ok=True)
    written = []
    for name, title, column, axis in (
        ("keys", "Keys released, as a share of the ceiling", "share", "share of the ceiling"),
        ("errors", "Error on common keys: the peer's over dptally's (Gaussian from 3 keys on)", "error_ratio", "ratio"),
        ("cpu", "Processor time of the call, over plain Polars", "cpu_ratio", "times plain Polars, logarithmic"),
        ("memory", "Peak memory of the process, over plain Polars", "peak_ratio", "times plain Polars, logarithmic"),
    ):
        for data_set in ("zipf-1e6", "zipf-1e7"):
            chosen = [row for row in rows if row["data_set"] == data_set and row[column] is not None]
            if chosen:
                file = f"{name}-{data_set}.svg"
                _save(_chart(chosen, f"{title} ({data_set})", column, axis), directory / file)
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


def _chart(rows: list[dict[str, Any]], title: str, column: str, axis: str) -> Any:
    import altair as alt

    logarithmic = column in ("cpu_ratio", "peak_ratio")
    panels = []
    for _, heading in sorted({(row["order"], row["heading"]) for row in rows}):
        chosen = [row for row in rows if row["heading"] == heading]
        order = [row["entry"] for row in sorted(chosen, key=lambda row: row[column], reverse=not logarithmic)]
        scale = alt.Scale(type="log", nice=False, padding=8) if logarithmic else alt.Scale(zero=True, nice=False)
        across = alt.X(f"{column}:Q", title=axis, scale=scale, axis=alt.Axis(tickCount=4, format="~g"))
        down = alt.Y("entry:N", sort=order, title=None)
        colour = alt.condition("datum.ours", alt.value(_OURS), alt.value(_THEIRS))
        base = alt.Chart(alt.Data(values=chosen))
        # A bar from nothing has no length on a logarithmic scale: points there.
        mark = base.mark_point(filled=True, size=70, opacity=1) if logarithmic else base.mark_bar(height=11)
        line = alt.Chart(alt.Data(values=[{"at": 1}])).mark_rule(color=_INK, strokeDash=[3, 3])
        panel = alt.layer(mark.encode(x=across, y=down, color=colour), line.encode(x="at:Q"))
        panels.append(panel.properties(width=_WIDTH, height=_ROW * len(chosen), title=heading))
    grid = alt.concat(*panels, columns=2, spacing=24, title=alt.Title(title, anchor="start", fontSize=15, offset=12))
    return (
        grid.configure(background="white", padding=12, font="Helvetica, Arial, sans-serif")
        .configure_view(stroke=None)
        .configure_title(fontSize=12, fontWeight="normal", color=_INK, anchor="start")
        .configure_axis(labelColor=_FAINT, titleColor=_INK, titleFontWeight="normal", gridColor="#f0efee", ticks=False)
    )


def _save(chart: Any, file: Path) -> None:
    text = io.StringIO()
    chart.save(text, format="svg")
    file.write_text(text.getvalue())
