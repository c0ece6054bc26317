"""The colours of pages and charts, for light and dark, and the style of charts that follows from them.

Text has a contrast of at least 4.5 to 1 on its background, and lines that carry meaning 3 to 1 (WCAG 2.2, 1.4.3 and
1.4.11); tests compute it.
"""

from __future__ import annotations

from importlib.resources import files
from string import Template

_COLOURS = {  # in light, in dark
    "paper": ("#ffffff", "#15191c"),
    "raised": ("#f7f6f5", "#1d2327"),
    "ink": ("#1c1917", "#f4f3f1"),
    "faint": ("#57534e", "#b9b4ae"),
    "line": ("#d6d3d1", "#3a4147"),
    "edge": ("#78716c", "#8b949b"),
    "accent": ("#0f766e", "#5eead4"),
    "wash": ("#a9dcd4", "#1d5c56"),
    "hidden": ("#dedad7", "#3b3f43"),
    "warn": ("#b91c1c", "#fca5a5"),
    "alert": ("#fef2f2", "#3a1d1d"),
    "curve-1": ("#0f766e", "#5eead4"),
    "curve-2": ("#b45309", "#fbbf24"),
    "curve-3": ("#6d28d9", "#c4b5fd"),
    "curve-4": ("#be185d", "#f9a8d4"),
    "curve-5": ("#1d4ed8", "#93c5fd"),
    "curve-6": ("#4d7c0f", "#bef264"),
    "curve-7": ("#0369a1", "#7dd3fc"),
    "curve-8": ("#57534e", "#d6d3d1"),
}
LIGHT = {name: light for name, (light, _) in _COLOURS.items()}
DARK = {name: dark for name, (_, dark) in _COLOURS.items()}

_DASHES = ("9 4", "3 3", "10 3 2 3", "14 5", "5 2 1 2", "1 3", "12 3 2 3 2 3")
_FORMS = ("stroke-width:3", *(f"stroke-dasharray:{dash}" for dash in _DASHES))
CURVES = len(_FORMS)
"""How many curves of one chart can be told apart, by colour and by dashes."""


def own_file(name: str) -> str:
    """The text of a file of this folder."""
    return files("dptally.report").joinpath(name).read_text(encoding="utf-8")


def chart_style(colours: dict[str, str] | None) -> str:
    """The rules of charts: with these colours, or, for None, with the variables of the page."""
    names = LIGHT if colours is None else colours
    shown = {name: f"var(--{name})" if colours is None else text for name, text in names.items()}
    curves = (
        f".chart .curve-{place}{{stroke:{shown[f'curve-{place}']};{form}}}"
        f".chart .fill-{place}{{fill:{shown[f'curve-{place}']};fill-opacity:.75}}"
        for place, form in enumerate(_FORMS, start=1)
    )
    return "\n" + Template(own_file("chart.css")).substitute(shown) + "\n".join(curves) + "\n"


def variables() -> str:
    """The colours as variables of a page: light, dark where the reader prefers it, and light on paper."""

    def listed(colours: dict[str, str]) -> str:
        return ";".join(f"--{name}:{text}" for name, text in colours.items())

    return (
        f":root{{color-scheme:light dark;{listed(LIGHT)}}}\n"
        f"@media screen and (prefers-color-scheme:dark){{:root{{{listed(DARK)}}}}}\n"
    )
