"""Reporting curves as an inline SVG picture, with a legend and a text for those who cannot see it.

Colours are the CSS variables ``--c0`` .. ``--c7``, ``--ink``, ``--faint`` and ``--line`` of the page it stands in.
Everything that is not a number is escaped.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

__all__ = ["COLOURS", "curves_picture"]

COLOURS = 8
_DASHES = ("", "7 3", "2 3", "9 3 2 3", "4 2", "1 2", "10 4", "6 2 1 2")
_WIDTH, _HEIGHT = 460, 290
_LEFT, _RIGHT, _TOP, _BOTTOM = 46, 10, 10, 46
_LONGEST_BESIDE = 20  # characters of a name that leave room for another beside it
_TEXT = 'font-size="13" font-family="system-ui, sans-serif"'


def curves_picture(
    frequencies: Sequence[int],
    curves: Mapping[str, Sequence[float]],
    *,
    label: str = "Chance that a key is reported, by its frequency",
) -> str:
    """An SVG element.

    Args:
        frequencies: increasing.
        curves: a probability for each frequency, by name.
        label: what the picture shows, for those who hear it.
    """
    beside = 2 if max((len(name) for name in curves), default=0) <= _LONGEST_BESIDE else 1
    height = _HEIGHT + 22 * -(-len(curves) // beside)
    first, last = frequencies[0], max(frequencies[-1], frequencies[0] + 1)
    across, down = _WIDTH - _LEFT - _RIGHT, _HEIGHT - _TOP - _BOTTOM

    def x(frequency: float) -> float:
        return _LEFT + across * (frequency - first) / (last - first)

    def y(chance: float) -> float:
        return _TOP + down * (1 - min(max(chance, 0.0), 1.0))

    spoken = "; ".join(f"{name}: {_in_words(frequencies, curve)}" for name, curve in curves.items())
    parts = [
        f'<svg viewBox="0 0 {_WIDTH} {height}" role="img" xmlns="http://www.w3.org/2000/svg" '
        f'aria-label="{escape(f"{label}. {spoken}.")}">',
        f"<title>{escape(label)}</title>",
    ]
    for chance in (0.0, 0.25, 0.5, 0.75, 1.0):
        at = y(chance)
        parts.append(
            f'<line x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{at:.1f}" y2="{at:.1f}" stroke="var(--line)"/>'
            f'<text x="{_LEFT - 8}" y="{at + 4:.1f}" text-anchor="end" fill="var(--faint)" {_TEXT}>{chance:.0%}</text>'
        )
    for tick in _ticks(first, last):
        parts.append(
            f'<text x="{x(tick):.1f}" y="{_TOP + down + 18}" text-anchor="middle" fill="var(--faint)" {_TEXT}>'
            f"{tick:,}</text>"
        )
    parts.append(
        f'<text x="{_LEFT + across / 2:.0f}" y="{_TOP + down + 38}" text-anchor="middle" fill="var(--ink)" {_TEXT}>'
        "true frequency of a key</text>"
    )
    for number, (name, curve) in enumerate(curves.items()):
        points = " ".join(f"{x(w):.1f},{y(p):.1f}" for w, p in zip(frequencies, curve, strict=True))
        stroke = (
            f'stroke="var(--c{number % COLOURS})" stroke-width="2.4" stroke-dasharray="{_DASHES[number % COLOURS]}"'
        )
        at_x, at_y = _LEFT + (number % beside) * across / 2, _HEIGHT + 22 * (number // beside) + 12
        parts.append(f'<polyline points="{points}" fill="none" {stroke}><title>{escape(name)}</title></polyline>')
        parts.append(
            f'<line x1="{at_x:.0f}" x2="{at_x + 34:.0f}" y1="{at_y}" y2="{at_y}" {stroke}/>'
            f'<text x="{at_x + 42:.0f}" y="{at_y + 4}" fill="var(--ink)" {_TEXT}>{escape(name)}</text>'
        )
    parts.append("</svg>")
    return "".join(parts)


def _ticks(first: int, last: int) -> list[int]:
    """About five round numbers."""
    step = 1
    while (last - first) / step > 6:
        step *= 5 if str(step)[0] == "2" and (last - first) / step > 12 else 2
        if str(step)[0] == "4":
            step = step * 5 // 4
    return list(range(-(-first // step) * step, last + 1, step))


def _in_words(frequencies: Sequence[int], curve: Sequence[float]) -> str:
    for frequency, chance in zip(frequencies, curve, strict=True):
        if chance >= 0.5:
            return f"half the time from frequency {frequency:,}"
    return "less than half the time throughout"
