"""The report of a tree of prefixes."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

from dptally.labels import key_label
from dptally.laws.reporting_curves import reporting_curve
from dptally.report.charts import Bar, bar_chart, chance_chart
from dptally.report.contents import Asked, Report, Section, command, facts, figure, number_table, paragraph
from dptally.report.markup import Child, Markup, join, tag
from dptally.report.words import page_about, percent, shell_word

if TYPE_CHECKING:
    from dptally.releases.prefix_tree import PrefixTree
    from dptally.report.drawing import Chart

_BARS, _LINES, _LONGEST = 12, 300, 120


def report_of_tree(tree: PrefixTree, asked: Asked) -> Report:
    """Everything a page says about a tree of prefixes; see `dptally.report.write`."""
    heading = asked.title or "Frequent strings, by their prefixes"
    law = tree.law
    curve = reporting_curve(law)
    charts: list[Chart] = []
    sections = [_values(tree, asked, charts), _drawing(tree)]
    charts.append(chance_chart(curve, of="a prefix"))
    words = (
        f"In every round each unit's vote is kept with chance {float(law.rate):.3g}, and a prefix appears if at least "
        f"{law.threshold:,} votes were kept. A string is found only if all its prefixes are."
    )
    sections.append(Section("chance", "What chance a prefix had to appear", join(paragraph(words), figure(charts[-1]))))
    program = f"import dptally; print(dptally.load({asked.file_name or 'FILE'!r}).top(20))"
    questions = join(
        paragraph("Which strings and prefixes are the most frequent? Asking costs no privacy."),
        command(f"python -c {shell_word(program)}"),
        facts(
            [
                ("Levels", ", ".join(str(length) for length in tree.plan.lengths) + " symbols"),
                ("Rounds", f"{tree.plan.rounds:,}"),
                ("Votes kept", f"{100 * float(law.rate):.3g} %"),
                ("Threshold", f"{law.threshold:,} votes"),
            ]
        ),
    )
    sections.append(Section("questions", "Questions one can ask", questions))
    tiles = [(f"{len(tree):,}", "released prefix" if len(tree) == 1 else "released prefixes")]
    if curve.likely:
        tiles.append((f"{curve.likely:,}", "frequency from which 95 % of prefixes appear, in one round"))
    summary = "Frequent strings, found level by level over their prefixes, under differential privacy."
    return page_about(tree, asked, heading=heading, summary=summary, tiles=tiles, sections=sections, charts=charts)


def _values(tree: PrefixTree, asked: Asked, charts: list[Chart]) -> Section:
    """Whole values, and prefixes of the last length, most frequent first."""
    title = "Most frequent strings"
    top = tree.top(asked.n, confidence=asked.confidence)
    if not len(top):
        return Section("keys", title, paragraph("No whole string was frequent enough to be found."))
    parts: list[Markup] = []
    known = [row for row in top.iter_rows(named=True) if row["lower"] is not None]
    bars = [
        Bar(_name(row["prefix"], row["whole"], 40), *(float(row[name]) for name in ("estimate", "lower", "upper")))
        for row in known[:_BARS]
    ]
    sure = percent(float(asked.confidence))
    if bars:
        charts.append(bar_chart(bars, sure))
        parts.append(figure(charts[-1]))
    rows: list[list[Child]] = [
        [
            f"{place:,}",
            tag("bdi", _name(row["prefix"], row["whole"], _LONGEST)),
            tag("strong", f"{row['estimate']:,}"),
            *("–" if row[bound] is None else f"{row[bound]:,}" for bound in ("lower", "upper")),
        ]
        for place, row in enumerate(top.iter_rows(named=True), start=1)
    ]
    parts.append(paragraph(tree.top_in_words(confidence=asked.confidence)))
    caption = f"Strings, most frequent first, with {sure} confidence intervals. An ellipsis marks a prefix."
    columns = ["Rank", "String", "Estimate", "At least", "At most"]
    parts.append(
        number_table(caption, columns, rows, words=2, name="key-table", kinds=["rank"], label="Table of strings")
    )
    return Section("keys", title, join(parts))


def _name(prefix: str, whole: bool, longest: int) -> str:
    label = key_label(prefix, longest=longest) or "(empty)"
    return label if whole else f"{label}…"


def _drawing(tree: PrefixTree) -> Section:
    lines = list(islice(tree.lines(), _LINES))
    rest = len(tree) - len(lines)
    if not lines:
        return Section("tree", "The tree", paragraph("No prefix was frequent enough to appear."))
    text = "\n".join([*lines, *([f"… and {rest:,} more"] if rest > 0 else [])])
    body = tag("pre", text, class_="tree", tabindex=0, role="region", aria_label="The tree of prefixes")
    return Section("tree", "The tree", join(paragraph("Prefixes with estimated frequencies."), body))
