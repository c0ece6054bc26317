"""Pictures of the tables."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from dptally.report.axes import Axis
from dptally.report.curves_chart import Series, legend_chart, series_chart
from dptally.report.drawing import Canvas, Chart, grid
from studies.figures.tables import Row, Table

__all__ = ["Shown", "chart", "check_extra", "figure_chart", "limits", "save"]

_METHODS = {  # column: text, colour
    "sampled": ("sample alone, not private", 8),
    "optimal": ("optimal law", 1),
    "stability_integer": ("stability, integers (certified)", 5),
    "stability_tight": ("stability, all of delta", 3),
    "stability_printed": ("stability, as printed", 2),
    "ratio_integer": ("against integers (certified)", 5),
    "ratio_tight": ("against all of delta", 3),
    "ratio_printed": ("against stability as printed", 2),
    "sample_threshold_best": ("sample and threshold, best rate", 1),
    "sample_threshold_exact": ("sample and threshold, exact", 6),
    "sample_threshold_printed": ("sample and threshold, as printed", 3),
    "laplace_amplified": ("Laplace, amplified", 2),
    "laplace": ("Laplace", 8),
    "bernoulli_smallest": ("shuffled coins, smallest noise", 5),
    "bernoulli_printed": ("shuffled coins, as printed", 7),
    "hadamard": ("Hadamard response, local", 4),
    "all_zero": ("all zero", 0),
}
_RATE_COLOURS = (1, 5, 4, 6, 7)
_WIDTH, _HEIGHT = 350, 250


@dataclass(frozen=True)
class Shown:
    """A column with its title: logarithmic, backwards, a share; and where it starts, if not by the data."""

    column: str
    title: str
    log: bool = False
    backwards: bool = False
    percent: bool = False
    low: float | None = None


def check_extra() -> None:
    """Refuse to begin where no picture could be written.

    Raises:
        MissingDependency: without the extra ``plots``.
    """
    Canvas(10, 10).chart("nothing", "").content(".png")


def limits(numbers: Sequence[float], *, log: bool, low: float | None = None) -> tuple[float, float]:
    """Where the vertical axis starts and ends: at round numbers, or at zero and a little beyond the largest number."""
    high = max(numbers)
    if log:
        least = min(numbers) if low is None else low
        powers = range(math.floor(math.log10(least)), math.ceil(math.log10(high)) + 1)
        steps = [float(f"{factor}e{power}") for power in powers for factor in (1, 2, 5)]
        return max(step for step in steps if step <= least), min(step for step in steps if step >= high)
    return min(0.0, *numbers) if low is None else low, 1.0 if 0.9 <= high <= 1 else max(0.0, high) + abs(high) / 20


def figure_chart(tables: dict[str, Table], figure: str) -> Chart:
    """The picture of one figure, from the tables it needs."""
    if figure == "figure_8":
        rows = _panels(tables["figure_8_bias"], _BIAS_AXES, split=("epsilon",), rates=True, columns=3)
        return _titled(figure, rows + _panels(tables["figure_8_error"], _ERROR_AXES, split=("epsilon",), columns=3))
    return chart(tables[figure], figure)


def chart(table: Table, figure: str) -> Chart:
    """The picture of a figure that has one table."""
    axes, split, columns = _LAYOUT[figure]
    return _titled(figure, _panels(table, axes, split=split, columns=columns))


def save(picture: Chart, place: Path) -> None:
    """Write a picture; an existing one is replaced in one step."""
    picture.save(place, scale=1.25)


_CHANCE = Shown("", "chance that a key is reported", percent=True)
_FRACTION = Shown("", "fraction of keys reported", log=True, percent=True)
_DELTA = Shown("delta", "delta", log=True, backwards=True)
_RATE = Shown("rate", "sampling rate", log=True)
_COUNT = Shown("frequency", "true count", log=True)
_BIAS_AXES = (_COUNT, Shown("", "bias / true count", low=-1))
_ERROR_AXES = (_RATE, Shown("", "normalised root mean squared error", log=True, low=2e-3))
_RATIO = Shown("", "keys reported, optimal to baseline", low=1)
_EPSILON = Shown("epsilon", "epsilon")
_Layout = tuple[tuple[Shown, Shown], tuple[str, ...], int]
_LAYOUT: dict[str, _Layout] = {
    "figure_1": ((Shown("frequency", "true count"), _CHANCE), ("epsilon", "delta"), 2),
    "figure_2": ((_DELTA, _FRACTION), ("population",), 2),
    "figure_3": ((_DELTA, _FRACTION), ("population",), 2),
    "figure_4": ((_COUNT, _CHANCE), ("epsilon", "delta", "rate"), 2),
    "figure_5": ((_RATE, _FRACTION), ("population",), 3),
    "figure_6": ((_RATE, _FRACTION), ("population",), 2),
    "figure_7": ((_RATE, _RATIO), ("population",), 2),
    "figure_9": ((_COUNT, Shown("", "variance / squared count", log=True)), ("epsilon", "rate"), 3),
    "error": ((_EPSILON, Shown("", "mean error per bucket / persons", log=True)), ("population", "buckets"), 3),
    "recall": (
        (_EPSILON, Shown("", "recall of the largest tenth", percent=True, low=0)), ("population", "buckets"), 3,
    ),
}  # fmt: skip
_SIMULATED = "10^6 persons (Shakespeare: 944,615), delta = 1e-8; mean of 10 runs"
_TITLES = {
    "figure_1": ("Reporting probability by true count", "without sampling"),
    "figure_2": ("Expected keys, Zipf counts", "epsilon = 0.1, without sampling; above: ratio of the optimal law"),
    "figure_3": ("Expected keys, real data", "epsilon = 0.1, without sampling; above: ratio of the optimal law"),
    "figure_4": ("Reporting probability by true count", "with ppswor sampling"),
    "figure_5": ("Expected keys over the sampling rate, Zipf counts", "epsilon = 0.1, delta = 0.001, ppswor"),
    "figure_6": ("Expected keys over the sampling rate, real data", "epsilon = 0.1, delta = 0.001, ppswor"),
    "figure_7": ("Optimal law against the baseline, real data", "epsilon = 0.1, delta = 0.001, ppswor"),
    "figure_8": (
        "Bias by true count, and error of a sum over the sampling rate",
        "delta = 2^-20, priority sampling; below: 1000 keys of each count 1 to 200",
    ),
    "figure_9": ("Variance by true count", "delta = 2^-20, priority sampling"),
    "error": ("Error per bucket", _SIMULATED),
    "recall": ("Recall of the largest tenth of all buckets", _SIMULATED),
}


def _titled(figure: str, rows: list[list[Chart]]) -> Chart:
    title, caption = _TITLES[figure]
    number = figure.removeprefix("figure_")
    return grid(figure, title if number == figure else f"Figure {number}. {title}", caption, rows)


def _panels(
    table: Table, axes: tuple[Shown, Shown], *, split: Sequence[str], columns: int, rates: bool = False
) -> list[list[Chart]]:
    """A panel for each value of the columns that split, in rows, and a legend; ratios in rows of their own."""
    groups: dict[tuple[object, ...], list[Row]] = {}
    for row in table.rows:
        groups.setdefault(tuple(row[name] for name in split), []).append(row)
    names = [name for name in table.rows[0] if name in _METHODS]
    ratios = [name for name in names if name.startswith("ratio_")]
    found: list[list[Chart]] = []
    for shown in (ratios, [name for name in names if name not in ratios]):
        if not shown:
            continue
        up = _RATIO if shown is ratios else axes[1]
        series = [_series(rows, axes[0].column, shown, log=up.log, low=up.low, rates=rates) for rows in groups.values()]
        panels = [_panel(_heading(split, key), one, axes[0], up) for key, one in zip(groups, series, strict=True)]
        found += [panels[start : start + columns] for start in range(0, len(panels), columns)]
        found.append([legend_chart(series[0], columns * _WIDTH)])
    return found


def _series(
    rows: list[Row], across: str, names: Sequence[str], *, log: bool, low: float | None, rates: bool
) -> list[Series]:
    """The curves of a panel. An empty cell is no point; the baseline is the same for every rate."""
    found: dict[tuple[str, int], dict[float, float]] = {}
    for row in rows:
        for name in names:
            text, colour = _METHODS[name]
            if rates and name == "optimal":
                text = f"{text}, rate {row['rate']}"
                before = {known: used for known, used in found if known.startswith("optimal")}
                colour = before.get(text, _RATE_COLOURS[len(before) % len(_RATE_COLOURS)])
            points = found.setdefault((text, colour), {})
            if row[name] != "" and not (log and float(row[name]) < (low or 1e-300)):
                points[float(row[across])] = float(row[name])
    order = sorted(found, key=lambda known: not known[0].startswith("optimal"))
    return [Series(text, sorted(found[text, colour].items()), colour) for text, colour in order]


def _panel(heading: str, series: list[Series], across: Shown, up: Shown) -> Chart:
    places = [x for one in series for x, _ in one.points]
    numbers = [y for one in series for _, y in one.points]
    x = Axis(across.title, min(places), max(places), log=across.log, backwards=across.backwards)
    y = Axis(up.title, *limits(numbers, log=up.log, low=up.low), log=up.log, percent=up.percent)
    return series_chart("panel", heading, series, x, y, legend=False, width=_WIDTH, height=_HEIGHT)


def _heading(split: Sequence[str], key: tuple[object, ...]) -> str:
    if split[0] == "population":
        return ", ".join([str(key[0]), *(f"{value} {name}" for name, value in zip(split[1:], key[1:], strict=True))])
    return ", ".join(f"{name} {value}" for name, value in zip(split, key, strict=True))
