"""The colours of pages and charts, for light and dark, and the style of charts that follows from them.

Text has a contrast of at least 4.5 to 1 on its background, and lines that carry meaning 3 to 1 (WCAG 2.2, 1.4.3 and
1.4.11); tests compute it.
"""

from __future__ import annotations

from string import Template

__all__ = ["CURVES", "DARK", "LIGHT", "chart_style", "variables"]

LIGHT = {
    "paper": "#ffffff",
    "raised": "#f7f6f5",
    "ink": "#1c1917",
    "faint": "#57534e",
    "line": "#d6d3d1",
    "edge": "#78716c",
    "accent": "#0f766e",
    "wash": "#a9dcd4",
    "hidden": "#dedad7",
    "warn": "#b91c1c",
    "alert": "#fef2f2",
    "curve-1": "#0f766e",
    "curve-2": "#b45309",
    "curve-3": "#6d28d9",
    "curve-4": "#be185d",
    "curve-5": "#1d4ed8",
    "curve-6": "#4d7c0f",
    "curve-7": "#0369a1",
    "curve-8": "#57534e",
}
DARK = {
    "paper": "#15191c",
    "raised": "#1d2327",
    "ink": "#f4f3f1",
    "faint": "#b9b4ae",
    "line": "#3a4147",
    "edge": "#8b949b",
    "accent": "#5eead4",
    "wash": "#1d5c56",
    "hidden": "#3b3f43",
    "warn": "#fca5a5",
    "alert": "#3a1d1d",
    "curve-1": "#5eead4",
    "curve-2": "#fbbf24",
    "curve-3": "#c4b5fd",
    "curve-4": "#f9a8d4",
    "curve-5": "#93c5fd",
    "curve-6": "#bef264",
    "curve-7": "#7dd3fc",
    "curve-8": "#d6d3d1",
}

_CHART = Template(
    """
.chart text{font-family:system-ui,-apple-system,"Segoe UI",Helvetica,Arial,"DejaVu Sans",sans-serif;font-size:12px}
.chart .paper{fill:$paper}
.chart text{fill:$faint}
.chart .label{fill:$ink}
.chart .strong{fill:$ink;font-weight:600}
.chart .note{fill:$ink;font-size:11.5px}
.chart .tick{font-size:11px}
.chart .head{fill:$ink;font-weight:700;font-size:14px}
.chart .grid{stroke:$line;stroke-width:1;fill:none}
.chart .axis{stroke:$edge;stroke-width:1;fill:none}
.chart .mark{stroke:$edge;stroke-width:1.2;stroke-dasharray:4 3;fill:none}
.chart .hidden{fill:$hidden}
.chart .wash{fill:$wash}
.chart .line{stroke:$accent;stroke-width:2.2;fill:none;stroke-linejoin:round}
.chart .bound{stroke:$accent;stroke-width:2;fill:none}
.chart .dot{fill:$accent}
.chart .curve{fill:none;stroke-width:2.4;stroke-linejoin:round}
"""
)
_DASHES = ("9 4", "3 3", "10 3 2 3", "14 5", "5 2 1 2", "1 3", "12 3 2 3 2 3")
_FORMS = ("stroke-width:3", *(f"stroke-dasharray:{dash}" for dash in _DASHES))
CURVES = len(_FORMS)
"""How many curves of one chart can be told apart, by colour and by dashes."""


def chart_style(colours: dict[str, str] | None) -> str:
    """The rules of charts: with these colours, or, for None, with the variables of the page."""
    names = LIGHT if colours is None else colours
    shown = {name: f"var(--{name})" if colours is None else text for name, text in names.items()}
    curves = (
        f".chart .curve-{place}{{stroke:{shown[f'curve-{place}']};{form}}}"
        for place, form in enumerate(_FORMS, start=1)
    )
    return _CHART.substitute(shown) + "\n".join(curves) + "\n"


def variables() -> str:
    """The colours as variables of a page: light, dark where the reader prefers it, and light on paper."""

    def listed(colours: dict[str, str]) -> str:
        return ";".join(f"--{name}:{text}" for name, text in colours.items())

    return (
        f":root{{color-scheme:light dark;{listed(LIGHT)}}}\n"
        f"@media screen and (prefers-color-scheme:dark){{:root{{{listed(DARK)}}}}}\n"
    )
