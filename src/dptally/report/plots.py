"""Pictures of a release. Safe to show to anyone: they are drawn from nothing but the release.

Needs the extra ``pip install 'dptally[plots]'`` (Altair and vl-convert); nothing is loaded from the network.
"""

from __future__ import annotations

import io
import json
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dptally.errors import InvalidParameter, MissingDependency
from dptally.files import complete_or_absent
from dptally.labels import key_label

if TYPE_CHECKING:
    from altair import HConcatChart, TopLevelMixin

    from dptally.laws.base import Law
    from dptally.releases.release import Release

__all__ = ["check_format", "release_chart", "save"]

_FORMATS = (".png", ".svg", ".html")
_SHOWN, _LIGHT, _HIDDEN, _INK, _FAINT = "#0f766e", "#99d5cd", "#e7e5e4", "#292524", "#78716c"
_LABELS, _BARS, _CURVE, _ROW = 120, 290, 310, 17  # widths, and the height of a bar, in pixels
_POINTS = 240
_LONGEST_LABEL = 40
_FARTHEST = 1000  # end of the curve where no frequency is likely to be released


def release_chart(release: Release, *, n: int = 20, confidence: object = 0.95) -> HConcatChart:
    """The most frequent released keys with bounds, beside the chance that a key of each frequency is released.

    Args:
        release: what to draw. Without values, or without keys, only the second panel is drawn.
        n: how many keys at most.
        confidence: of the bounds.

    Raises:
        MissingDependency: without the extra ``plots``.
    """
    alt = _altair()
    if n < 0:
        raise InvalidParameter(f"n must not be negative, got {n}.")
    shown = min(n, len(release)) if release.law.values else 0
    height = max(220, _ROW * shown)
    # Where the keys are public, all of them are released.
    panels = [] if release.law.complete and shown else [_chance_panel(release.law, height)]
    if shown:
        panels.insert(0, _keys_panel(release, shown, confidence, height))
    names = ", ".join(key_label(name, longest=_LONGEST_LABEL) for name in release.key)
    title = alt.Title(
        f"{len(release):,} released {_plural('key', len(release))}, by {names}", subtitle=_promise(release)
    )
    chart: HConcatChart = (
        alt.hconcat(*panels, spacing=40, title=title)
        .configure(background="white", padding=16, font="Helvetica, Arial, sans-serif")
        .configure_title(
            anchor="start", fontSize=17, subtitleFontSize=12.5, subtitleColor=_FAINT, color=_INK, offset=16
        )
        .configure_view(stroke=None)
        .configure_axis(
            labelColor=_FAINT,
            labelFontSize=11,
            titleColor=_INK,
            titleFontSize=12,
            titleFontWeight="normal",
            gridColor="#f0efee",
            domain=False,
            ticks=False,
            labelPadding=6,
            titlePadding=10,
        )
    )
    return chart


def save(chart: TopLevelMixin, path: str | Path) -> None:
    """Write a picture as .png, .svg or .html; an existing one is replaced in one step.

    Raises:
        InvalidParameter: for another ending.
        MissingDependency: without the extra ``plots``.
    """
    place = Path(path)
    kind = check_format(place)
    _altair()
    if kind == ".html":
        page = chart.to_html(inline=True, json_kwds={"cls": _ScriptSafeEncoder})
        content = page.encode()
    elif kind == ".svg":
        text = io.StringIO()
        chart.save(text, format="svg")
        content = text.getvalue().encode()
    else:
        image = io.BytesIO()
        chart.save(image, format="png", scale_factor=2)
        content = image.getvalue()
    with complete_or_absent(place, overwrite=True) as file:
        file.write(content)


def check_format(path: Path) -> str:
    """Return the ending of a picture's name, or refuse it."""
    kind = path.suffix.lower()
    if kind not in _FORMATS:
        raise InvalidParameter(f"a picture's name must end in .png, .svg or .html, got {path.name!r}.")
    return kind


class _ScriptSafeEncoder(json.JSONEncoder):
    """JSON that may stand inside a script element: a key such as ``</script>`` cannot end it."""

    def encode(self, o: Any) -> str:
        return super().encode(o).replace("<", r"\u003c")


def _altair() -> Any:
    """Altair, once it is certain that pictures can also be written."""
    try:
        import altair
        import vl_convert  # noqa: F401 - Altair asks for it only when it writes
    except ImportError:
        raise MissingDependency("pictures need Altair and vl-convert: pip install 'dptally[plots]'.") from None
    return altair


def _promise(release: Release) -> str:
    promise = release.guarantee
    if not promise.private:
        return "NOT PRIVATE: drawn from a seed, for tests or simulations"
    unit = "each row" if promise.unit is None else f"each {key_label(promise.unit, longest=_LONGEST_LABEL)}"
    keys = promise.max_keys_per_unit
    return (
        f"Differentially private: epsilon = {float(promise.epsilon):.4g}, delta = {float(promise.delta):.4g}, "
        f"{unit} counts for at most {keys} {_plural('key', keys)}"
    )


def _plural(noun: str, number: int) -> str:
    return noun if number == 1 else f"{noun}s"


def _keys_panel(release: Release, n: int, confidence: object, height: int) -> Any:
    """Bars for the most likely frequencies, whiskers for the bounds. Rows are told apart by place, not by label."""
    from dptally.estimates.frequencies import as_confidence

    alt = _altair()
    level = as_confidence(confidence)
    rows = [
        {
            "place": place,
            "key": " · ".join(key_label(row[name], longest=_LONGEST_LABEL) for name in release.key),
            **{name: row[name] for name in ("estimate", "lower", "upper")},
        }
        for place, row in enumerate(release.top(n, confidence=level).iter_rows(named=True))
    ]
    y = alt.Y("place:O", axis=None, scale=alt.Scale(paddingInner=0.25, paddingOuter=0.1))
    x = alt.X(
        "estimate:Q",
        title="units counted for the key",
        axis=alt.Axis(tickCount=5, format="~s"),
        scale=alt.Scale(nice=True),
    )
    tooltip = [alt.Tooltip(f"{name}:N") for name in ("key", "estimate", "lower", "upper")]
    base = alt.Chart(alt.Data(values=rows)).encode(y=y)
    bars = base.mark_bar(color=_LIGHT, cornerRadiusEnd=2).encode(x=x, tooltip=tooltip)
    whiskers = base.mark_rule(color=_SHOWN, strokeWidth=2.2).encode(x=alt.X("lower:Q"), x2="upper:Q", tooltip=tooltip)
    dots = base.mark_point(color=_SHOWN, filled=True, size=26, opacity=1).encode(x="estimate:Q", tooltip=tooltip)
    labels = base.mark_text(align="right", dx=-8, color=_INK, fontSize=12, limit=_LABELS).encode(
        x=alt.value(0), text="key:N"
    )
    numbers = base.mark_text(align="left", dx=7, color=_FAINT, fontSize=11).encode(
        x="upper:Q", text=alt.Text("estimate:Q", format=",")
    )
    kind = f"{_percent(level)} confidence intervals that hold after sorting by value"
    heading = _heading("Most frequent keys", kind, offset=16)
    return alt.layer(bars, whiskers, dots, labels, numbers).properties(width=_BARS, height=height, title=heading)


def _chance_panel(law: Law, height: int) -> Any:
    """The exact reporting probability by frequency; what lies above the curve is not seen."""
    alt = _altair()
    # Floating point from here on: the curve is exact at every point drawn.
    last = law.first_frequency(_surely(law)[0]) or law.first_frequency(Fraction(95, 100)) or _FARTHEST
    end = last + max(2, last // 6)
    step = max(1, end // _POINTS)
    frequencies = sorted({*range(0, end, step), last, end})
    points = [{"frequency": w, "chance": float(law.reporting_probability(w)), "whole": 1} for w in frequencies]
    x = alt.X(
        "frequency:Q",
        title="true frequency of a key",
        scale=alt.Scale(domain=[0, end], nice=False),
        axis=alt.Axis(tickCount=6, grid=False, format="~s"),
    )
    y = alt.Y("chance:Q", title=None, axis=alt.Axis(format="%", tickCount=5), scale=alt.Scale(domain=[0, 1]))
    tooltip = [alt.Tooltip("frequency:Q"), alt.Tooltip("chance:Q", format=".3%")]
    curve = alt.Chart(alt.Data(values=points)).encode(x=x)
    hidden = curve.mark_area(color=_HIDDEN).encode(y=y, y2="whole:Q")
    shown = curve.mark_area(color=_LIGHT, opacity=0.55).encode(y=y)
    line = curve.mark_line(color=_SHOWN, strokeWidth=2.4).encode(y=y, tooltip=tooltip)
    layers = [hidden, shown, line]
    # Without sampling the curve rises late and steeply; with it, at once and slowly.
    unseen = (0.04, 0.3, "hidden by privacy") if law.scheme is None else (0.04, 0.87, "not sampled, or hidden")
    for place, height_share, text, colour, side in (
        (*unseen, _FAINT, "left"),
        (0.97, 0.07, "released", _SHOWN, "right"),
    ):
        word = alt.Chart(alt.Data(values=[{"frequency": place * end, "chance": height_share}]))
        layers.append(
            word.mark_text(align=side, color=colour, fontSize=12.5, text=text).encode(x="frequency:Q", y="chance:Q")
        )
    for frequency, text, below in _milestones(law):
        mark = alt.Chart(
            alt.Data(values=[{"frequency": frequency, "chance": float(law.reporting_probability(frequency))}])
        )
        mark = mark.encode(x="frequency:Q", y="chance:Q")
        layers.append(mark.mark_point(color=_SHOWN, filled=True, size=48, opacity=1))
        inside = {"align": "right", "dx": -9} if law.scheme is None else {"align": "left", "dx": 8, "dy": 10}
        at_the_end = law.scheme is not None and 10 * frequency > 7 * end
        beside = {"align": "center", "dy": 16} if below or at_the_end else inside
        layers.append(mark.mark_text(color=_INK, fontSize=11.5, text=text, **beside))
    known = "at least, by" if law.at_least else "exact, from"
    heading = _heading("Chance that a key is released", f"{known} the law this release was drawn from", offset=10)
    return alt.layer(*layers).properties(width=_CURVE, height=height, title=heading)


def _milestones(law: Law) -> list[tuple[int, str, bool]]:
    """Frequency, text, and whether it stands below: half the time, 95 % of the time, always."""
    shares = (
        (Fraction(1, 2), "half the time", False),
        (Fraction(95, 100), "95 %", False),
        (*_surely(law), True),
    )
    found = [(law.first_frequency(share), text, below) for share, text, below in shares]
    marks = {frequency: (frequency, f"{frequency:,}: {text}", below) for frequency, text, below in found if frequency}
    return list(marks.values())


def _surely(law: Law) -> tuple[Fraction, str]:
    """Where the curve has arrived, and what that is called: noise without an end is sure far beyond what matters."""
    return (Fraction(9999, 10000), "99.99 %") if law.endless else (Fraction(1), "always")


def _heading(text: str, subtitle: str, *, offset: int) -> Any:
    """A panel's title. The offsets differ by what stands out above the second panel, so that the titles align."""
    return _altair().Title(
        text, subtitle=subtitle, fontSize=13, fontWeight="bold", subtitleFontSize=11.5, offset=offset, anchor="start"
    )


def _percent(level: Fraction) -> str:
    return f"{float(100 * level):.6g} %"
