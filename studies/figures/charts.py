"""Pictures of the tables. Needs the extra ``pip install 'dptally[plots]'``."""

from __future__ import annotations

import io
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dptally.errors import MissingDependency
from dptally.files import complete_or_absent
from studies.figures.tables import Row, Table

if TYPE_CHECKING:
    from altair import TopLevelMixin

__all__ = ["Axis", "chart", "check_extra", "figure_chart", "save"]

_INK, _FAINT = "#292524", "#78716c"
_METHODS = {  # column: (text, colour, dash)
    "sampled": ("sample alone, not private", "#a8a29e", (2, 2)),
    "optimal": ("optimal law", "#0f766e", (1, 0)),
    "stability_integer": ("stability, integers (certified)", "#1d4ed8", (6, 3)),
    "stability_tight": ("stability, all of delta", "#ea9c3f", (6, 3)),
    "stability_printed": ("stability, as printed", "#b45309", (1, 0)),
    "ratio_integer": ("against integers (certified)", "#1d4ed8", (6, 3)),
    "ratio_tight": ("against all of delta", "#ea9c3f", (6, 3)),
    "ratio_printed": ("against stability as printed", "#b45309", (1, 0)),
    "sample_threshold_best": ("sample and threshold, best rate", "#134e4a", (1, 0)),
    "sample_threshold_exact": ("sample and threshold, exact", "#14b8a6", (1, 0)),
    "sample_threshold_printed": ("sample and threshold, as printed", "#14b8a6", (4, 2)),
    "laplace_amplified": ("Laplace, amplified", "#b45309", (1, 0)),
    "laplace": ("Laplace", "#ea9c3f", (6, 3)),
    "bernoulli_smallest": ("shuffled coins, smallest noise", "#1d4ed8", (1, 0)),
    "bernoulli_printed": ("shuffled coins, as printed", "#60a5fa", (6, 3)),
    "hadamard": ("Hadamard response, local", "#a21caf", (1, 0)),
    "all_zero": ("all zero", "#a8a29e", (2, 2)),
}
_RATE_COLOURS = ("#042f2e", "#0f766e", "#14b8a6", "#5eead4", "#a7e8de")
_WIDTH, _HEIGHT = 250, 200
_APART = {"color": "independent", "strokeDash": "independent"}


@dataclass(frozen=True)
class Axis:
    """A column, its title, whether it is logarithmic or runs backwards, and where it starts, if not by the data."""

    column: str
    title: str
    log: bool = False
    backwards: bool = False
    format: str = "~g"
    low: float | None = None


def check_extra() -> Any:
    """Altair, once it is certain that pictures can also be written.

    Raises:
        MissingDependency: without the extra ``plots``.
    """
    try:
        import altair
        import vl_convert  # noqa: F401 - Altair asks for it only when it writes
    except ImportError:
        raise MissingDependency("pictures need Altair and vl-convert: pip install 'dptally[plots]'.") from None
    return altair


def figure_chart(tables: dict[str, Table], figure: str) -> TopLevelMixin:
    """The picture of one figure, from the tables it needs."""
    if figure == "figure_8":
        parts = [
            _panels(tables["figure_8_bias"], _BIAS_AXES, split=("epsilon",), rates=True, columns=3),
            _panels(tables["figure_8_error"], _ERROR_AXES, split=("epsilon",), columns=3),
        ]
        return _dressed(check_extra().vconcat(*parts, spacing=24).resolve_scale(**_APART), figure)
    return chart(tables[figure], figure)


def save(picture: TopLevelMixin, place: Path) -> None:
    """Write a picture as PNG; an existing one is replaced in one step."""
    image = io.BytesIO()
    picture.save(image, format="png", scale_factor=1.25)
    with complete_or_absent(place, overwrite=True) as file:
        file.write(image.getvalue())


def chart(table: Table, figure: str) -> TopLevelMixin:
    """The picture of a figure that has one table."""
    axes, split, columns = _LAYOUT[figure]
    return _dressed(_panels(table, axes, split=split, columns=columns), figure)


_CHANCE = Axis("", "chance that a key is reported", format=".0%")
_FRACTION = Axis("", "fraction of keys reported", log=True, format="~%")
_DELTA = Axis("delta", "delta", log=True, backwards=True, format=".0e")
_RATE = Axis("rate", "sampling rate", log=True, format=".0e")
_BIAS_AXES = (Axis("frequency", "true frequency", log=True), Axis("", "bias / frequency"))
_ERROR_AXES = (_RATE, Axis("", "normalised root mean squared error", log=True, low=2e-3))
_Layout = tuple[tuple[Axis, Axis], tuple[str, ...], int]
_LAYOUT: dict[str, _Layout] = {
    "figure_1": ((Axis("frequency", "true frequency", format="~s"), _CHANCE), ("epsilon", "delta"), 2),
    "figure_2": ((_DELTA, _FRACTION), ("population",), 2),
    "figure_3": ((_DELTA, _FRACTION), ("population",), 2),
    "figure_4": (
        (Axis("frequency", "true frequency", log=True, format="~s"), _CHANCE),
        ("epsilon", "delta", "rate"),
        2,
    ),
    "figure_5": ((_RATE, _FRACTION), ("population",), 3),
    "figure_6": ((_RATE, _FRACTION), ("population",), 2),
    "figure_7": ((_RATE, Axis("", "keys reported, optimal to baseline", low=1)), ("population",), 2),
    "figure_9": (
        (
            Axis("frequency", "true frequency", log=True),
            Axis("", "variance / squared frequency", log=True, format=".0e"),
        ),
        ("epsilon", "rate"),
        3,
    ),
    "error": (
        (Axis("epsilon", "epsilon"), Axis("", "mean error per bucket / persons", log=True, format=".0e")),
        ("population", "buckets"),
        3,
    ),
    "recall": (
        (Axis("epsilon", "epsilon"), Axis("", "recall of the largest tenth", format=".0%", low=0)),
        ("population", "buckets"),
        3,
    ),
}
_TITLES = {
    "figure_1": ("Reporting probability by frequency", "without sampling"),
    "figure_2": ("Expected keys, Zipf frequencies", "epsilon = 0.1, without sampling; above: ratio of the optimal law"),
    "figure_3": ("Expected keys, real data", "epsilon = 0.1, without sampling; above: ratio of the optimal law"),
    "figure_4": ("Reporting probability by frequency", "with ppswor sampling"),
    "figure_5": ("Expected keys over the sampling rate, Zipf frequencies", "epsilon = 0.1, delta = 0.001, ppswor"),
    "figure_6": ("Expected keys over the sampling rate, real data", "epsilon = 0.1, delta = 0.001, ppswor"),
    "figure_7": ("Optimal law against the baseline, real data", "epsilon = 0.1, delta = 0.001, ppswor"),
    "figure_8": (
        "Bias by frequency, and error of a sum over the sampling rate",
        "delta = 2^-20, priority sampling; below: 1000 keys of each frequency 1 to 200",
    ),
    "figure_9": ("Variance by frequency", "delta = 2^-20, priority sampling"),
    "error": ("Error per bucket", "10^6 persons (Shakespeare: 944,615), delta = 1e-8; mean of 10 runs"),
    "recall": (
        "Recall of the largest tenth of all buckets",
        "10^6 persons (Shakespeare: 944,615), delta = 1e-8; mean of 10 runs",
    ),
}


def _panels(table: Table, axes: tuple[Axis, Axis], *, split: Sequence[str], columns: int, rates: bool = False) -> Any:
    alt = check_extra()
    groups: dict[tuple[object, ...], list[Row]] = {}
    for row in table.rows:
        groups.setdefault(tuple(row[name] for name in split), []).append(row)
    series = [name for name in table.rows[0] if name in _METHODS]
    fractions = [name for name in series if not name.startswith("ratio_")]
    kinds = [names for names in ([n for n in series if n not in fractions], fractions) if names]
    rows_of_panels = []
    for names in kinds:
        ratio = names[0].startswith("ratio_")
        y = Axis("", "keys, optimal to baseline", low=1) if ratio else axes[1]
        panels = [_panel(rows, axes[0], y, names, _heading(split, key), rates) for key, rows in groups.items()]
        rows_of_panels.append(alt.concat(*panels, columns=columns, spacing=24))
    if len(rows_of_panels) == 1:
        return rows_of_panels[0]
    return alt.vconcat(*rows_of_panels, spacing=24).resolve_scale(**_APART)


def _panel(rows: list[Row], x: Axis, y: Axis, names: list[str], heading: str, rates: bool) -> Any:
    alt = check_extra()
    points: list[dict[str, Any]] = []
    known: dict[str, tuple[str, tuple[int, int]]] = {}
    for row in rows:
        for name in names:
            if row[name] == "":  # nothing to show at this setting
                continue
            value = float(row[name])
            text, colour, dash = _METHODS[name]
            if rates and name == "optimal":
                text = f"optimal law, rate {row['rate']}"
                colour = _RATE_COLOURS[sum(shown.startswith("optimal") for shown in known) % len(_RATE_COLOURS)]
            known.setdefault(text, (colour, dash))
            if y.log and value <= 0:
                continue
            points.append({"x": float(row[x.column]), "y": value, "series": text})
    if rates:  # the baseline is the same for every rate
        points = list({(point["x"], point["series"]): point for point in points}.values())
    names_shown = list(known)
    colours = alt.Scale(domain=names_shown, range=[known[name][0] for name in names_shown])
    dashes = alt.Scale(domain=names_shown, range=[list(known[name][1]) for name in names_shown])
    legend = alt.Legend(title=None, orient="bottom", columns=3, labelLimit=240, symbolStrokeWidth=2.2)
    return (
        alt.Chart(alt.Data(values=points))
        .mark_line(strokeWidth=2, clip=True)
        .encode(
            x=alt.X("x:Q", title=x.title, **_scale_and_axis(x, [point["x"] for point in points], across=True)),
            y=alt.Y("y:Q", title=y.title, **_scale_and_axis(y, [point["y"] for point in points], across=False)),
            color=alt.Color("series:N", scale=colours, legend=legend),
            strokeDash=alt.StrokeDash("series:N", scale=dashes, legend=legend),
        )
        .properties(width=_WIDTH, height=_HEIGHT, title=alt.Title(heading, fontSize=12, anchor="start", offset=6))
    )


def _scale_and_axis(axis: Axis, numbers: list[float], *, across: bool) -> dict[str, Any]:
    """Ticks of a logarithmic axis are powers of ten, or 1, 2 and 5 times them where few would be seen."""
    alt = check_extra()
    low, high = min(numbers) if axis.low is None else axis.low, max(numbers)
    look: dict[str, Any] = {"format": axis.format, "grid": not across, "tickCount": 5}
    limits: dict[str, Any] = {"nice": not across and axis.low is None, "reverse": axis.backwards}
    if axis.low is not None:
        limits["domain"] = [low, 1.05 * high]
    if axis.log:
        powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
        step = 2 if len(powers) > 7 else 1
        steps = (1, 2, 5) if high < 100 * low else (1,)
        look["values"] = [float(f"{times}e{power}") for power in powers if power % step == 0 for times in steps]
        limits["type"] = "log"
    return {"scale": alt.Scale(**limits), "axis": alt.Axis(**look)}


def _heading(split: Sequence[str], key: tuple[object, ...]) -> str:
    if split[0] == "population":
        return ", ".join([str(key[0]), *(f"{value} {name}" for name, value in zip(split[1:], key[1:], strict=True))])
    return ", ".join(f"{name} {value}" for name, value in zip(split, key, strict=True))


def _dressed(panels: Any, figure: str) -> TopLevelMixin:
    title, subtitle = _TITLES[figure]
    number = figure.removeprefix("figure_")
    heading = check_extra().Title(title if number == figure else f"Figure {number}. {title}", subtitle=subtitle)
    picture: TopLevelMixin = (
        panels.properties(title=heading)
        .configure(background="white", padding=16, font="Helvetica, Arial, sans-serif")
        .configure_title(anchor="start", fontSize=16, subtitleFontSize=12, subtitleColor=_FAINT, color=_INK, offset=14)
        .configure_view(stroke=None)
        .configure_axis(
            labelColor=_FAINT,
            labelFontSize=10.5,
            titleColor=_INK,
            titleFontSize=11.5,
            titleFontWeight="normal",
            gridColor="#f0efee",
            domain=False,
            ticks=False,
            labelPadding=5,
            titlePadding=8,
        )
    )
    return picture
