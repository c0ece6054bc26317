"""A plan as one HTML page, in the form of a report: it loads nothing, and everything is escaped."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dptally.laws.registry import mechanism_class
from dptally.laws.reporting_curves import ReportingCurve, reporting_curve
from dptally.planning.mechanisms import TREE
from dptally.report.contents import Report, Section, Tile, command, facts, figure, number_table, paragraph, put_together
from dptally.report.curves_chart import curves_chart
from dptally.report.markup import Child, join, tag

if TYPE_CHECKING:
    from dptally.planning.plans import Plan

_CHANCES = 4  # columns of the table of mechanisms: the name and three frequencies
_LEGEND = "Mean error: of the estimate of a reported key. Bounds: half the width of 95 % bounds."


def plan_page(plan: Plan) -> str:
    """The page as text."""
    return put_together(plan_report(plan))


def plan_report(plan: Plan) -> Report:
    """What the page says."""
    curves = _curves(plan)
    charts = (curves_chart(curves),) if curves else ()
    names, *rows = plan.cells()
    first: list[list[Child]] = [[_marked(plan, row[0]), *row[1:_CHANCES]] for row in rows]
    other: list[list[Child]] = [[_marked(plan, row[0]), *row[_CHANCES:]] for row in rows]
    notes = [(each.mechanism, each.note) for each in plan.forecasts if each.note]
    reported = "Smallest frequency at which a key appears with this chance"
    sections = [
        _answer(plan),
        Section(
            "chance",
            "What chance a key has to appear",
            join([figure(chart) for chart in charts], number_table(reported, names[:_CHANCES], first)),
        ),
        Section(
            "mechanisms",
            "What it takes and tells",
            join(
                number_table(_legend(plan), (names[0], *names[_CHANCES:]), other, label="Mechanisms"),
                facts(notes) if notes else None,
            ),
        ),
    ]
    if plan.left_out:
        missing = facts(list(plan.left_out.items()))
        sections.append(Section("left-out", "Mechanisms that do not apply", missing))
    return Report(
        title="What to expect, before any data is read",
        summary=plan.sentence,
        warning=plan.warning,
        tiles=_tiles(plan),
        sections=tuple(sections),
        charts=charts,
        made_from="parameters alone, before any private data was read",
    )


def _curves(plan: Plan) -> dict[str, ReportingCurve]:
    # A sketch may fall short of counts, which the table includes where the data is supposed.
    return {
        f"{each.name} (by counter)" if each.of_counters else each.name: reporting_curve(each.law)
        for each in plan.mechanisms
        if each.hides
    }


def _tiles(plan: Plan) -> tuple[Tile, ...]:
    best = next((each for each in plan.forecasts if each.mechanism == plan.recommended), None)
    tiles = [
        (f"{float(plan.epsilon):.6g}", "epsilon: how much may show of one unit"),
        (f"{float(plan.delta):.6g}", "delta: the chance of an exception"),
        (f"{plan.max_keys_per_unit:,}", "keys at most of one unit are counted"),
    ]
    if best is not None and best.half:
        tiles.append((f"{best.half:,}", f"is the frequency that appears half the time, by {best.mechanism}"))
    return tuple(tiles)


def _answer(plan: Plan) -> Section:
    advice = plan.recommendation[:1].upper() + plan.recommendation[1:]
    line = _command(plan)
    return Section(
        "answer",
        "Recommendation",
        join(
            None if plan.need is None else paragraph(str(plan.need), kind="lead"),
            paragraph(advice, kind="lead"),
            paragraph(plan.supposed if plan.population is None else f"Supposed: {plan.population.told}."),
            None if line is None else [paragraph("To publish like this:"), command(line)],
        ),
    )


def _command(plan: Plan) -> str | None:
    """How to publish by the mechanism recommended; None where there is more to say than a plan knows."""
    mechanism, _, sampling = plan.recommended.partition(" ")
    universe = getattr(plan, "universe", None)
    if mechanism == TREE or (not plan.delta and universe is None):
        return None
    words = ["dptally publish FILE --key COLUMN"]
    if plan.max_keys_per_unit > 1:
        words.append(f"--unit COLUMN --max-keys-per-unit {plan.max_keys_per_unit}")
    words.append(f"--epsilon {plan.epsilon}")
    chosen = mechanism_class(mechanism)
    if chosen.pure:
        words.append(f"--universe {universe}")
    else:
        words.append(f"--delta {plan.delta}")
    words.append(f"--mechanism {mechanism}")
    if sampling:
        words.append(f"--sampling {sampling}")
    if any(option.name == "capacity" for option in chosen.options()):
        words.append(f"--capacity {plan.capacity}")
    if not plan.values:
        words.append("--keys-only")
    return " ".join((*words, "-o release.parquet"))


def _marked(plan: Plan, name: str) -> Child:
    """A name that may be broken after an underscore, and whether it is the one recommended."""
    first, *others = name.split("_")
    parts = [first, *((join("_", tag("wbr"), part)) for part in others)]
    return join(tag("strong", parts), " (recommended)") if name == plan.recommended else join(parts)


def _legend(plan: Plan) -> str:
    if plan.population is None:
        return _LEGEND
    share = "all keys" if plan.share == 1 else f"{plan.share:.3g} of the keys"
    return (
        f"Keys: how many are expected to be released. {_LEGEND} Sum error: of the estimated sum over {share}, "
        "relative. Time and memory are estimates from measured runs on one machine."
    )
