"""The report of a release that lists keys."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from dptally.labels import key_label
from dptally.laws.reporting_curves import ReportingCurve, reporting_curve
from dptally.report.charts import bar_chart, bars_of, chance_chart, rank_chart
from dptally.report.contents import Asked, Report, Section, command, facts, figure, number_table, paragraph
from dptally.report.markup import Child, Markup, join, listed, tag
from dptally.report.of_statistics import statistics_section, total_tiles
from dptally.report.words import page_about, percent, shell_word

if TYPE_CHECKING:
    from dptally.estimates.subset_sums import Sum
    from dptally.releases.table_release import TableRelease
    from dptally.report.drawing import Chart

_BARS = 12
_PLAIN = re.compile(r"[a-z_][a-z0-9_]*")
_LONGEST = 120
_EXAMPLE_FREQUENCIES = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000, 100_000)


def report_of_table(release: TableRelease, asked: Asked) -> Report:
    """Everything a page says about a table of keys; see `dptally.report.write`."""
    level = asked.confidence
    names = " and ".join(key_label(name, longest=40) for name in release.key)
    heading = asked.title or f"Release by {names}"
    curve = reporting_curve(release.law)
    charts: list[Chart] = []
    sections = [_keys_section(release, asked.n, percent(float(level)), level, charts)]
    if release.law.statistics is not None:
        sections.append(statistics_section(release, asked, charts))
    if release.law.values and len(release):
        sections.append(_frequencies_section(release, curve, level, charts))
    sections.append(_chance_section(release, curve, charts))
    sections.append(_questions_section(release, level, asked.file_name))
    tiles = [(f"{len(release):,}", "released key" if len(release) == 1 else "released keys")]
    if curve.hides and curve.likely:
        tiles.append((f"{curve.likely:,}", "frequency from which 95 % of keys appear"))
    tiles += total_tiles(release)
    return page_about(
        release, asked, heading=heading, summary=_summary(release), tiles=tiles, sections=sections, charts=charts
    )


def _summary(release: TableRelease) -> str:
    promise = release.guarantee
    unit = "row" if promise.unit is None else key_label(promise.unit, longest=40)
    what = "Keys and counts" if release.law.values else "Keys, without counts,"
    if not promise.private:
        return f"{what} drawn from a seed, for tests."
    keys = promise.max_keys_per_unit
    each = f"each {unit} counts for at most {keys:,} {'key' if keys == 1 else 'keys'}" if keys else f"by {unit}"
    return f"{what} under differential privacy; {each}. Mechanism: {promise.mechanism.replace('_', ' ')}."


def _label(part: object) -> Markup:
    """A part of a key: escaped, and kept apart from the direction of the text around it."""
    return tag("bdi", key_label(part, longest=_LONGEST) or "(empty)")


def _cell(amount: object) -> Child:
    return "–" if amount is None else f"{amount:,}"


def _keys_section(release: TableRelease, n: int, sure: str, level: object, charts: list[Chart]) -> Section:
    title = "Most frequent keys" if release.law.values else "Released keys"
    if not len(release):
        body = paragraph(
            "No key was released: none of those in the data was frequent enough to appear. That alone says little: "
            "see below which frequencies would have appeared with which chance."
        )
        return Section("keys", title, body)
    top = release.top(n, confidence=level)
    keys = len(release.key)
    parts: list[Markup] = []
    if release.law.values:
        charts.append(bar_chart(bars_of(top.head(_BARS), keys), sure))
        parts.append(figure(charts[-1]))
        numbers = ("Estimate", "At least", "At most", "Drawn value")
        columns = ["Rank", *(key_label(name, longest=40) for name in release.key), *numbers]
        rows: list[list[Child]] = []
        for place, row in enumerate(top.iter_rows(), start=1):
            value, estimate, lower, upper = map(_cell, row[keys : keys + 4])
            cells = [_label(part) for part in row[:keys]]
            rows.append([f"{place:,}", *cells, tag("strong", estimate), lower, upper, value])
        kinds = ["rank", *[None] * (keys + 3), "extra"]
        words = keys + 1
    else:
        columns = [key_label(name, longest=40) for name in release.key]
        rows = [[_label(part) for part in row[:keys]] for row in top.iter_rows()]
        kinds, words = [], keys
    shown = f"all {len(top):,} of them" if len(top) == len(release) else f"the first {len(top):,} of {len(release):,}"
    order = "most frequent first" if release.law.values else "in order of keys"
    bounds = f", with {sure} confidence intervals that hold after sorting by value" if release.law.values else ""
    caption = f"Released keys, {order}: {shown}{bounds}."
    parts.append(listed(*_reading(release, level)))
    parts.append(
        number_table(caption, columns, rows, words=words, name="key-table", kinds=kinds, label="Table of released keys")
    )
    return Section("keys", title, join(parts))


def _reading(release: TableRelease, level: object) -> list[Child]:
    """How the numbers of the table are to be read."""
    if not release.law.values:
        return ["Counts were not released: of a key that is listed it is known that it occurs, and no more."]
    estimate = "The estimate is the frequency that makes the drawn value most likely."
    if release.guarantee.unit is not None:
        estimate += " A frequency is the number of units that count for the key, not of rows."
    notes: list[Child] = [estimate, release.top_in_words(confidence=level), release.law.reading]
    if release.law.counted:
        notes.append(release.law.counted)
    if release.guarantee.sketch_capacity is not None:
        notes.append(f"Counts were kept in a sketch of bounded memory. {release.sketch_error()}")
    return notes


def _frequencies_section(release: TableRelease, curve: ReportingCurve, level: object, charts: list[Chart]) -> Section:
    table = release.top(len(release), confidence=level).sort("estimate", descending=True, maintain_order=True)
    columns = [table.get_column(name).to_numpy() for name in ("estimate", "lower", "upper")]
    rows = list(zip(*(column.astype(float).tolist() for column in columns), strict=True))
    charts.append(rank_chart(rows, curve))
    middle = sorted(columns[0].tolist())[(len(rows) - 1) // 2]
    estimates = {"Largest": columns[0].max(), "Middle": middle, "Smallest": columns[0].min()}
    told = [(f"{name} estimate", f"{int(found):,}") for name, found in estimates.items()]
    body = join(figure(charts[-1]), facts([("Released keys", f"{len(rows):,}"), *told]))
    return Section("frequencies", "How frequent keys are", body)


def _chance_section(release: TableRelease, curve: ReportingCurve, charts: list[Chart]) -> Section:
    title = "What chance a key had to appear"
    if not curve.hides:
        text = "All keys of the public list are released, whatever their frequency: each had a chance of 100 %."
        return Section("chance", title, paragraph(text))
    of = "a counter" if release.guarantee.sketch_capacity is not None else "a key"
    charts.append(chance_chart(curve, of=of, sampled=release.law.scheme is not None))
    last = curve.points[-1][0]
    wanted = sorted({frequency for frequency in _EXAMPLE_FREQUENCIES if frequency <= last} | {curve.half or 1, last})
    at_least = "at least " if curve.at_least else ""
    rows: list[list[Child]] = [
        [f"{frequency:,}", f"{at_least}{_chance(float(release.law.reporting_probability(frequency)))}"]
        for frequency in wanted
    ]
    table = number_table("Chance to appear, by true frequency", ["Frequency", "Chance"], rows, words=0)
    notes = []
    if curve.at_least:
        notes.append(paragraph("How likely a key appears depends on the other keys; these are lower bounds."))
    if release.guarantee.sketch_capacity is not None:
        notes.append(
            paragraph("The chance is that of a counter of the sketch, which may be smaller than the key's frequency.")
        )
    return Section("chance", title, join(figure(charts[-1]), table, notes))


def _chance(chance: float) -> str:
    """A chance that never looks like 0 or 1 unless it is."""
    if chance in (0.0, 1.0):
        return f"{100 * chance:.0f} %"
    if chance > 0.9999:
        return "over 99.99 %"
    return f"{100 * chance:.3g} %" if chance >= 1e-4 else f"{chance:.1e}"


def _questions_section(release: TableRelease, level: object, file_name: str | None) -> Section:
    """Examples of questions, with their answers and commands."""
    file = shell_word(file_name or "FILE")
    parts: list[Markup] = [
        paragraph(
            "The release answers more than it lists. Each answer comes with a confidence interval, and asking costs no "
            "privacy. The intervals hold for questions that were not chosen by looking at the answers."
        )
    ]
    # Without counts there are only keys to count.
    of, option = ("count", "") if release.law.values else ("keys", " --of keys")
    asked: list[tuple[str, str | None]] = [
        ("What do the released keys add up to?" if release.law.values else "How many keys were released?", None)
    ]
    example = _example_condition(release)
    if example is not None:
        asked.append((f"And {example[0]}?", example[1]))
    for words, condition in asked:
        where = "" if condition is None else f" --where {shell_word(condition)}"
        answer = release.sum(condition, of, confidence=level)
        parts.append(_question(words, answer, f"dptally sum {file}{where}{option}", len(release)))
    if release.law.values:
        parts.append(tag("h3", "Which keys are the most frequent?"))
        parts.append(command(f"dptally top {file} -n 20"))
    if len(release.key) == 1:
        parts.append(tag("h3", "How frequent is one key?"))
        parts.append(command(f"dptally count {file} KEY"))
    return Section("questions", "Questions one can ask", join(parts))


def _question(asked: str, answer: Sum, line: str, released: int) -> Markup:
    words: list[Child] = [
        tag("strong", f"{answer.estimate:,.0f}"),
        f" over {answer.keys:,} of {released:,} released {'key' if released == 1 else 'keys'}",
    ]
    if answer.lower < answer.upper:
        sure = percent(answer.confidence)
        words.append(f"; {sure} confidence interval from {answer.lower:,.0f} to {answer.upper:,.0f}")
    if answer.total is not None:
        total, low, high = (f"{part:,.0f}" for part in answer.total)
        words.append(f". All pairs that were counted, released or not, add up to {total} (from {low} to {high}).")
        return join(tag("h3", asked), paragraph(words), command(line))
    words.append(
        ". No key is left out: all keys of the public list are released."
        if answer.complete
        else ". Keys that were not released are not included: the release does not tell how many there are, or what "
        "they add up to."
    )
    return join(tag("h3", asked), paragraph(words), command(line))


def _example_condition(release: TableRelease) -> tuple[str, str] | None:
    """A condition on the first key column: a first letter, or numbers from the middle one on."""
    import polars as pl

    if not len(release):
        return None
    name = release.key[0]
    column = release.table().get_column(name).drop_nulls()
    quoted = name if _PLAIN.fullmatch(name) else '"' + name.replace('"', '""') + '"'
    if column.dtype == pl.String:
        initials = column.str.slice(0, 1).unique().sort().to_list()
        plain = [letter for letter in initials if letter.isascii() and letter.isalpha()]
        if not plain:
            return None
        letter = "a" if "a" in plain else plain[0]
        return f"keys that begin with “{letter}”", f"{quoted} LIKE '{letter}%'"
    if column.dtype.is_integer() and len(column):
        middle = int(column.sort()[len(column) // 2])
        return f"keys from {middle:,} on", f"{quoted} >= {middle}"
    return None
