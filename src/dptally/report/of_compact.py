"""The report of a compact release, which answers any key of a universe and lists none."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

from dptally.report.charts import error_chart
from dptally.report.contents import Asked, Report, Section, command, facts, figure, number_table, paragraph
from dptally.report.markup import Child, join
from dptally.report.words import page_about, percent, shell_word

if TYPE_CHECKING:
    from dptally.releases.compact_release import CompactRelease

_SURE = tuple(Fraction(*pair) for pair in ((1, 2), (8, 10), (9, 10), (95, 100), (99, 100), (999, 1000), (9999, 10000)))
_ROOM_FOR = {"subsample": "occurrences, chosen at random where there are more", "refuse": "distinct keys"}


def report_of_compact(release: CompactRelease, asked: Asked) -> Report:
    """Everything a page says about a compact release; see `dptally.report.write`."""
    universe = release.universe
    size = f"{universe.size:,}" if universe.size < 10**12 else f"{float(universe.size):.3g}"
    heading = asked.title or f"Counts of all keys of {universe.name}"
    errors = [(release.error(1 - sure), float(sure)) for sure in _SURE]
    steps = [(release.error(1 - Fraction(part, 40)), part / 40) for part in range(1, 40)]
    chart = error_chart(sorted({*steps, *errors}))
    rows: list[list[Child]] = [[f"{100 * sure:.6g} %", f"{error:,}"] for error, sure in errors]
    file = shell_word(asked.file_name or "FILE")
    answers = join(
        paragraph(
            "This release lists no keys. Every key of the universe has a value, whether anybody has it or not, and "
            "anyone who holds the file can ask for any of them; asking costs no privacy."
        ),
        figure(chart),
        number_table("Distance of one key's value from its count", ["Sure", "At most"], rows, words=0),
    )
    told = (
        ("Keys of the universe", size),
        ("Capacity", f"{release.capacity:,} {_ROOM_FOR[release.beyond_capacity]}"),
        ("Largest count", f"{release.law.largest_count:,}"),
        ("Size of the release", f"{release.capacity + 1:,} numbers of {release.law.exponent} bits"),
    )
    questions = join(
        paragraph("How frequent are these keys? Bounds hold for keys chosen without looking at the release."),
        command(f"dptally count {file} KEY"),
        facts(told),
    )
    sections = (
        Section("errors", "How good values are", answers),
        Section("questions", "Questions one can ask", questions),
    )
    tiles = (
        (size, "keys have a value"),
        (f"{release.error('0.05'):,}", f"largest distance of a value from its count, {percent(0.95)} sure"),
    )
    summary = "Counts of every key of a public universe under differential privacy, in one small file."
    return page_about(release, asked, heading=heading, summary=summary, tiles=tiles, sections=sections, charts=[chart])
