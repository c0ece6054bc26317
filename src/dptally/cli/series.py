"""The commands of ``series``: a table that grows period by period, under one guarantee."""

from __future__ import annotations

import argparse
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from dptally.cli import options
from dptally.cli.explain import COUNTING, Explanation, described, explain_release, outputs
from dptally.cli.outputs import save_release
from dptally.cli.parser import Commands, Parser, add_choice, add_command, add_flag, add_group, add_number, add_value
from dptally.cli.printing import describe, json_rows, print_json, print_rows, say, say_guarantee
from dptally.cli.signals import to_completion
from dptally.files import check_target
from dptally.privacy.guarantee import WITHIN

if TYPE_CHECKING:
    from dptally.series.series import Series

_STATE = "the state of the series: private, and readable by you alone"


def add_commands(commands: Commands) -> None:
    """Add ``series``."""
    inner = add_group(
        commands,
        "series",
        summary="a table that grows every night: create, add, show, plot, report, seal",
        details="A table that grows period by period, under one guarantee for all periods together.",
        example="dptally series create year.series --key query --unit user_id --periods 365 --epsilon 2 --delta 1e-6",
    )
    create = add_command(inner, "create", _create, _explain_create)
    _add_series(create)
    add_value(create, "--key", "COLUMN", "key column; repeat for several", action="append", required=True)
    add_value(create, "--unit", "COLUMN", "column that identifies the protected person or entity", required=True)
    bound = "for how many keys a unit counts in the whole series, or in one period with --period-unit"
    add_number(create, "--max-keys-per-unit", "L", bound, default=1)
    add_number(create, "--periods", "T", "how many periods there will be at most", required=True)
    options.add_privacy(create, keys_only=False)
    add_number(create, "--periods-per-key", "P", "in how many periods a unit counts for one key", default=1)
    add_number(create, "--max-new-keys-per-period", "A", "for how many new keys a unit may count in one period")
    within = "protect the rows of a unit within one period only, and count units again in every period"
    add_choice(create, "--period-unit", WITHIN[1:], within)
    add_choice(create, "--nulls", ("drop", "keep"), "rows with a null key", default="drop")
    options.add_ledger_options(create)
    add_number(create, "--not-private-seed", "N", "repeatable randomness for tests: releases are NOT private")

    add = add_command(inner, "add", _add, _explain_add, further=options.DATABASES)
    _add_series(add)
    options.add_source(add)
    name = "its name: 2026-11-16, 2026-W47, 2026-11 or a number"
    add_value(add, "--period", "PERIOD", name, required=True)
    options.add_format(add)
    add_value(add, "--memory-limit", "SIZE", "for the counting engine, such as 2GB")
    add_value(add, "-o --output", "FILE", "where to write the release of the period (Parquet)")
    options.add_overwrite(add)
    options.add_confidence(add)
    add_flag(add, "-q --quiet", "print only the requested output")

    show = add_command(inner, "show", _show, _explain_reading)
    _add_series(show)
    add_value(show, "--period", "PERIOD", "a period that was added (default: the last one)")
    add_value(show, "-o --output", "FILE", "write the release of the period again (Parquet)")
    options.add_overwrite(show)
    add_number(show, "-n", "N", "how many keys", default=10)
    options.add_confidence(show)

    plot = add_command(inner, "plot", _plot, _explain_reading)
    _add_series(plot)
    add_value(plot, "-o --output", "FILE", "picture to write: .png, .svg or .html", required=True)
    options.add_overwrite(plot)
    add_number(plot, "-n", "N", "how many keys", default=6)
    options.add_confidence(plot)

    report = add_command(inner, "report", _report, _explain_reading)
    _add_series(report)
    add_value(report, "-o --output", "FILE", "page to write (.html)", required=True)
    options.add_overwrite(report)
    add_value(report, "--title", "TEXT", "heading of the page")
    add_number(report, "-n", "N", "rows of the table", default=200)
    options.add_confidence(report)

    _add_series(add_command(inner, "seal", _seal, _explain_seal))


def _add_series(parser: Parser) -> None:
    add_value(parser, "series", "SERIES", "the state of the series, such as year.series")


def _opened(arguments: argparse.Namespace) -> Series:
    from dptally.series.series import Series

    return Series.open(arguments.series)


def _create(arguments: argparse.Namespace) -> None:
    """Certify and begin a series.

    The guarantee is for all periods together, is certified before the first one, and is paid for once. A unit counts
    for at most --max-keys-per-unit keys in the whole series, for each in the first period in which it has it.

    dptally series create year.series --key query --unit user_id --periods 365 --epsilon 2 --delta 1e-6
    dptally series create days.series --key page --unit user_id --period-unit day --periods 90 --epsilon 1 --delta 1e-6
    """
    from dptally.randomness import SeededBits
    from dptally.series.series import Series

    seed = arguments.not_private_seed
    names = "key unit max_keys_per_unit periods epsilon delta periods_per_key max_new_keys_per_period period_unit nulls"
    made = Series.create(
        arguments.series,
        **options.given(arguments, names),
        ledger=options.ledger_of(arguments),
        randomness=None if seed is None else SeededBits(seed),
    )
    if arguments.json:
        print_json({"series": arguments.series, **_facts(made)})
        return
    say(f"Series of {made.law.periods:,} periods made: {arguments.series}, which is private.", style="bold")
    say(str(made.guarantee))
    say(f"Certificate: {made.certificate}")
    say(f"Next: `dptally series add {shlex.quote(arguments.series)} FILE --period PERIOD -o RELEASE`.")


def _add(arguments: argparse.Namespace) -> None:
    """Add the rows of a period, and release it.

    A period is added once. If this command is interrupted, run it again: nothing was added, or the release that was
    drawn is written. A period that is left out counts as empty; rows that come late belong into the current period.

    dptally series add year.series events.parquet --period 2026-11-16 -o today.parquet
    dptally series add year.series 'logs/2026-11-16-*.csv.gz' --period 2026-11-16 -o today.parquet
    """
    confidence = options.confidence_of(arguments)
    output = None if arguments.output is None else Path(arguments.output)
    if output is not None:
        check_target(output, overwrite=arguments.overwrite)
    series = _opened(arguments)
    number = series.commit(
        options.source_of(arguments),
        **options.given(arguments, f"period format memory_limit table query {options.FILTER}"),
        types=options.types_of(arguments),
    )
    release = series.release(arguments.period)
    if output is not None:
        save_release(release.save, output, overwrite=arguments.overwrite)
    series.handed_out(number)
    table = release.table(confidence=confidence)
    if arguments.json:
        rows = {} if output is not None else {"rows": json_rows(table)}
        print_json({**describe(release), "output": arguments.output, **rows})
        return
    if output is None:
        print_rows(release, table)
    if not arguments.quiet:
        place = "" if output is None else f", written to {output}"
        said = f"Period {release.place.period}, {number:,} of {release.law.periods:,}: {len(release):,} keys{place}."
        say(said, style="bold", remark=output is None)
        say_guarantee(release, remark=output is None)


def _show(arguments: argparse.Namespace) -> None:
    """What a series is, and what it has released.

    Show the guarantee, the periods so far, and the largest running totals of a period. With -o the release of the
    period is written again; nothing is drawn.

    dptally series show year.series
    dptally series show year.series --period 2026-11-16 -o again.parquet
    """
    series, confidence = _opened(arguments), options.confidence_of(arguments)
    periods, release = series.periods, None
    if periods:
        release = series.release(arguments.period)
        if arguments.output is not None:
            save_release(release.save, Path(arguments.output), overwrite=arguments.overwrite)
    top = None if release is None else release.top(arguments.n, confidence=confidence)
    if arguments.json:
        rows = {} if top is None else {"top": json_rows(top)}
        print_json({"series": arguments.series, **_facts(series), "output": arguments.output, **rows})
        return
    say(f"{arguments.series}: {len(periods):,} of {series.law.periods:,} periods added.", style="bold")
    if release is not None and top is not None:
        say(f"{len(release):,} keys are published up to {release.place.period}; the largest totals:")
        print_rows(release, top)
    say(str(series.guarantee))


def _plot(arguments: argparse.Namespace) -> None:
    """A picture of a series.

    Draw the running totals of the largest keys, period by period.

    dptally series plot year.series -o year.svg
    dptally series plot year.series -n 3 -o year.html
    """
    from dptally.report.drawing import check_format

    picture = Path(arguments.output)
    check_format(picture)
    check_target(picture, overwrite=arguments.overwrite)
    chart = _opened(arguments).plot(arguments.n, confidence=options.confidence_of(arguments))
    with to_completion():
        chart.save(picture)
    _told(arguments, "picture", picture)


def _report(arguments: argparse.Namespace) -> None:
    """A page about a series, to show to anyone.

    Write one HTML page about what the last period released: the guarantee, how it was verified, running totals with
    bounds.

    dptally series report year.series -o year.html
    dptally series report year.series -o year.html --title 'Search queries'
    """
    place = Path(arguments.output)
    check_target(place, overwrite=arguments.overwrite)
    with to_completion():
        _opened(arguments).report(
            place,
            overwrite=arguments.overwrite,
            title=arguments.title,
            n=arguments.n,
            confidence=options.confidence_of(arguments),
        )
    _told(arguments, "report", place)


def _seal(arguments: argparse.Namespace) -> None:
    """End a series: destroy its secret and what it knows about units.

    Nothing can be added after that. What was released stays, and can be shown.

    dptally series seal year.series
    dptally series seal year.series --json
    """
    series = _opened(arguments)
    series.seal()
    if arguments.json:
        print_json({"series": arguments.series, **_facts(series)})
    else:
        say(f"{arguments.series} is sealed: its secret, units and unpublished keys are gone; releases stay.")


def _told(arguments: argparse.Namespace, what: str, place: Path) -> None:
    if arguments.json:
        print_json({what: str(place)})
    else:
        say(f"{what.capitalize()} written to {place}.")


def _facts(series: Series) -> dict[str, object]:
    """What a series is, for JSON; all of it is public."""
    from dptally.privacy.stored_facts import facts_of

    guarantee = series.guarantee
    floats = {"epsilon_float": float(guarantee.epsilon), "delta_float": float(guarantee.delta)}
    return {
        "key": list(series.key),
        "periods": series.periods,
        "horizon": series.law.periods,
        "sealed": series.sealed,
        "guarantee": {**facts_of(guarantee), **floats},
        "guarantee_text": str(guarantee),
        "certificate": facts_of(series.certificate),
    }


def _explain_create(arguments: argparse.Namespace) -> Explanation:
    return explain_release(
        arguments,
        unit=arguments.unit,
        keys=arguments.max_keys_per_unit,
        reads=(),
        writes=(f"{arguments.series}: {_STATE}",),
        guarantee=f"It is for all {arguments.periods} periods together.",
        cost="Adding periods costs nothing more.",
        resources="Some seconds at most.",
    )


def _explain_add(arguments: argparse.Namespace) -> Explanation:
    return Explanation(
        does=described(arguments),
        reads=(f"{arguments.series}: {_STATE}", *(f"{name} (private)" for name in arguments.input)),
        writes=(*outputs(arguments, "the release of the period"), f"{arguments.series}: the period, once"),
        guarantee="That of the series, which was certified and paid for when it was made.",
        cost="Nothing more: all periods were paid for together.",
        resources=f"{COUNTING} Each key of the series takes a moment in every period.",
    )


def _explain_reading(arguments: argparse.Namespace) -> Explanation:
    return Explanation(
        does=described(arguments),
        reads=(f"{arguments.series}: {_STATE}",),
        writes=() if arguments.output is None else outputs(arguments, "the result, which anyone may see"),
        guarantee="That of the series: only what was released is shown.",
    )


def _explain_seal(arguments: argparse.Namespace) -> Explanation:
    return Explanation(
        does=described(arguments),
        reads=(f"{arguments.series}: {_STATE}",),
        writes=(f"{arguments.series}: without its secret",),
        guarantee="That of the series.",
    )
