"""What a report says, whatever the kind of release: tiles, sections, charts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from dptally.report.drawing import Chart
from dptally.report.markup import Child, Markup, tag

__all__ = ["Asked", "Report", "Section", "Tile", "command", "facts", "figure", "listed", "number_table", "paragraph"]


@dataclass(frozen=True)
class Asked:
    """What a page is asked to show.

    Attributes:
        title: heading of the page; None to name the key columns.
        n: how many keys the table lists at most.
        confidence: of intervals.
        file_name: of the release's file, for command lines; None to leave it open.
        fingerprint: its SHA-256.
    """

    title: str | None
    n: int
    confidence: Fraction
    file_name: str | None
    fingerprint: str | None


@dataclass(frozen=True)
class Tile:
    """A number at the head of the page."""

    number: str
    words: str


@dataclass(frozen=True)
class Section:
    """A part of the page with a heading."""

    name: str
    title: str
    body: Markup


@dataclass(frozen=True)
class Report:
    """A page before it is put together.

    Attributes:
        title: heading of the page.
        summary: one sentence below it.
        warning: None, or what must be said first of all.
        tiles: numbers at its head.
        sections: in their order.
        charts: all charts of the sections, for files of their own.
        made_from: what the page was made from, for its last line.
    """

    title: str
    summary: str
    warning: str | None
    tiles: tuple[Tile, ...]
    sections: tuple[Section, ...]
    charts: tuple[Chart, ...]
    made_from: str = "nothing but the release"


def paragraph(*children: Child, kind: str | None = None) -> Markup:
    """A paragraph."""
    return tag("p", *children, class_=kind)


def figure(chart: Chart) -> Markup:
    """A chart with its title and caption."""
    return tag(
        "figure",
        tag("h3", chart.title),
        chart.inline(),
        tag("figcaption", chart.caption),
        id=f"chart-{chart.name}",
    )


def command(line: str) -> Markup:
    """A command line to copy."""
    return tag("pre", tag("code", line), class_="command", tabindex=0)


def facts(pairs: Sequence[tuple[str, Child]]) -> Markup:
    """Names and what they are."""
    return tag("dl", [tag("div", tag("dt", name), tag("dd", found)) for name, found in pairs], class_="facts")


def number_table(
    caption: str,
    columns: Sequence[str],
    rows: Sequence[Sequence[Child]],
    *,
    words: int = 1,
    name: str | None = None,
    kinds: Sequence[str | None] = (),
    label: str | None = None,
) -> Markup:
    """A table of which the first columns are words and the others numbers.

    Args:
        caption: what it lists.
        columns: headings.
        rows: cells.
        words: how many columns hold words.
        name: id of the table; those with one can be sorted and filtered by the script of the page.
        kinds: classes of the columns.
        label: what the region around the table is called; a region of its own can be scrolled with the keyboard.
    """

    def kind(place: int) -> str | None:
        given = kinds[place] if place < len(kinds) else None
        return " ".join(part for part in ("word" if place < words else "number", given) if part)

    head = tag("tr", [tag("th", text, scope="col", class_=kind(place)) for place, text in enumerate(columns)])
    body = [tag("tr", [tag("td", cell, class_=kind(place)) for place, cell in enumerate(row)]) for row in rows]
    table = tag("table", tag("caption", caption), tag("thead", head), tag("tbody", body), id=name)
    return tag("div", table, class_="scroll", tabindex=0, role="region", aria_label=label or caption)


def listed(*children: Child) -> Markup:
    """A list."""
    return tag("ul", [tag("li", child) for child in children if child is not None])
