"""What a report says, whatever the kind of release: tiles, sections, charts; and the page that is made of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import dptally
from dptally.report.colours import own_file
from dptally.report.document import document, page_style, policy_of
from dptally.report.drawing import Chart
from dptally.report.markup import Child, Markup, fill, tag


@dataclass(frozen=True)
class Asked:
    """What a page is asked to show."""

    title: str | None  # None to name the key columns
    n: int  # how many keys the table lists at most
    confidence: Fraction  # of intervals
    file_name: str | None  # of the release, for command lines; None to leave it open
    fingerprint: str | None  # its SHA-256


Tile = tuple[str, str]
"""A number at the head of the page, and what it is."""


@dataclass(frozen=True)
class Section:
    """A part of the page with a heading."""

    name: str
    title: str
    body: Markup


@dataclass(frozen=True)
class Report:
    """A page before it is put together."""

    title: str
    summary: str  # one sentence below the title
    warning: str | None  # what must be said first of all
    tiles: tuple[Tile, ...]
    sections: tuple[Section, ...]
    charts: tuple[Chart, ...]  # all of the sections, for files of their own
    made_from: str = "nothing but the release"


def paragraph(*children: Child, kind: str | None = None) -> Markup:
    """A paragraph."""
    return tag("p", *children, class_=kind)


def figure(chart: Chart) -> Markup:
    """A chart with its title and caption."""
    return tag(
        "figure", tag("h3", chart.title), chart.inline(), tag("figcaption", chart.caption), id=f"chart-{chart.name}"
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

    One with a name can be sorted and filtered by the script of the page. `kinds` are classes of the columns; `label` is
    what the region around the table is called, which can be scrolled with the keyboard.
    """

    def kind(place: int) -> str | None:
        given = kinds[place] if place < len(kinds) else None
        return " ".join(part for part in ("word" if place < words else "number", given) if part)

    head = tag("tr", [tag("th", text, scope="col", class_=kind(place)) for place, text in enumerate(columns)])
    body = [tag("tr", [tag("td", cell, class_=kind(place)) for place, cell in enumerate(row)]) for row in rows]
    table = tag("table", tag("caption", caption), tag("thead", head), tag("tbody", body), id=name)
    return tag("div", table, class_="scroll", tabindex=0, role="region", aria_label=label or caption)


def put_together(report: Report) -> str:
    """The page of a report."""
    style, script = page_style(own_file("page.css")), own_file("page.js")
    return document(report.title, _body(report), style=style, script=script, policy=policy_of(style, script))


def _body(report: Report) -> Markup:
    return fill(
        own_file("page.html"),
        title=report.title,
        summary=report.summary,
        warning=None if report.warning is None else tag("p", report.warning, class_="warning", role="alert"),
        tiles=[tag("li", tag("b", number), tag("span", words)) for number, words in report.tiles],
        contents=[tag("li", tag("a", section.title, href=f"#{section.name}")) for section in report.sections],
        sections=[_section(section) for section in report.sections],
        made_by=f"dptally {dptally.__version__}",
        made_from=report.made_from,
    )


def _section(section: Section) -> Markup:
    heading = f"{section.name}-title"
    return tag("section", tag("h2", section.title, id=heading), section.body, id=section.name, aria_labelledby=heading)
