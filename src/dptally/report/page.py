"""The page of a report: heading, tiles, contents, sections."""

from __future__ import annotations

from importlib.resources import files

import dptally
from dptally.report.contents import Report, Section
from dptally.report.document import document, page_style, policy_of
from dptally.report.markup import Markup, join, tag

__all__ = ["put_together"]


def put_together(report: Report) -> str:
    """The page of a report."""
    style, script = page_style(_own("page.css")), _own("page.js")
    return document(report.title, _body(report), style=style, script=script, policy=policy_of(style, script))


def _own(name: str) -> str:
    return files("dptally.report").joinpath(name).read_text(encoding="utf-8")


def _body(report: Report) -> Markup:
    tiles = [tag("li", tag("b", tile.number), tag("span", tile.words)) for tile in report.tiles]
    contents = [tag("li", tag("a", section.title, href=f"#{section.name}")) for section in report.sections]
    return join(
        tag("a", "Skip to the content", href="#content", class_="skip"),
        tag(
            "header",
            tag("h1", report.title),
            tag("p", report.summary, class_="summary"),
            None if report.warning is None else tag("p", report.warning, class_="warning", role="alert"),
            tag("ul", tiles, class_="tiles"),
        ),
        tag("nav", tag("ul", contents), aria_label="Sections"),
        tag("main", [_section(section) for section in report.sections], id="content", tabindex=-1),
        tag(
            "footer",
            tag(
                "p",
                f"Made by dptally {dptally.__version__} from {report.made_from}. This page loads nothing and sends "
                "nothing.",
            ),
        ),
    )


def _section(section: Section) -> Markup:
    heading = f"{section.name}-title"
    return tag("section", tag("h2", section.title, id=heading), section.body, id=section.name, aria_labelledby=heading)
