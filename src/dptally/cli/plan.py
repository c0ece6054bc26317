"""The command ``plan``.

JSON: `epsilon`, `delta` (exact, as strings; `epsilon_float`, `delta_float` beside them), `values`, `sampling`,
`max_keys_per_unit`, `capacity`, `share`;

- `asked` and `others`: what a bound on keys per unit leads to, see `dptally.planning.PlanLine`; null and empty without
  a delta;
- `population`: `told`, `must_be_public`, `keys`, `counts`, or null;
- `forecasts`: for each mechanism that applies, see `dptally.planning.Forecast`; `left_out`: reasons for the others;
- `recommended` (a name), `recommendation` (a sentence);
- `need`: with ``--need``: `sought`, `frequency`, `probability`, `answers` (for each mechanism a number or fraction as
  text, or null), `answer` (a sentence); otherwise null;
- `curves`: `frequency`, and for each mechanism the probability that a key of each frequency is reported;
- with ``--universe`` also `universe`, `size` (as text) and `lines`, see `dptally.planning.universes.UniverseLine`;
- with ``--html`` also `page`, the path.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dptally.cli.parser import (
    add_command,
    add_privacy,
    add_sampling,
    add_unit_bound,
    sampling_of,
    share_or_percentage,
    whole_number,
)
from dptally.errors import InvalidParameter

if TYPE_CHECKING:
    import argparse

    from dptally.cli.parser import Commands, Parser
    from dptally.planning import Plan
    from dptally.planning.universes import UniversePlan

__all__ = ["add_commands"]

_FIRST = 7  # columns that fit on a terminal of 80


def add_commands(commands: Commands) -> None:
    """Add ``plan``."""
    parser = add_command(
        commands,
        "plan",
        _plan,
        summary="what to expect, before any data is read",
        details=(
            "Say for each mechanism which keys are reported, how many, how far off estimates are, and what it takes.\n"
            "With --universe, also compare the mechanisms that need no --delta. With --need, find the epsilon (or the\n"
            "delta, or the number of keys per unit) for keys of a frequency to be reported with a probability.\n"
            "Exact, from the laws alone: no private data is read and nothing is spent. What is supposed of the data\n"
            "(--rows, --keys, --zipf, --example) must be public knowledge."
        ),
        example="dptally plan --epsilon 1 --delta 1e-6 --max-keys-per-unit 3",
        also="dptally plan --delta 1e-6 --need 30:95%",
    )
    add_privacy(parser, pure=True, sought=True)
    add_unit_bound(parser)
    parser.add_argument("--universe", metavar="NAME", help="all keys there may be, such as ipv4 or words:12")
    parser.add_argument(
        "--capacity",
        metavar="N",
        type=whole_number,
        help="counters of a sketch, keys of a sparse or compact release (default: 10000)",
    )
    parser.add_argument(
        "--asked-for",
        choices=("frequent", "any"),
        help="whether the question is which keys are frequent, or how frequent any key is that somebody asks for",
    )
    add_sampling(parser, help="how keys are sampled, such as ppswor:0.01 (default: no sampling)")
    parser.add_argument("--levels", metavar="N", type=whole_number, help="levels of prefixes, to plan heavy hitters")
    parser.add_argument(
        "--mechanism", metavar="NAME", action="append", help="plan this one only; repeat for several (default: all)"
    )
    parser.add_argument(
        "--need",
        metavar="FREQUENCY:PROBABILITY",
        help="which epsilon reports keys of this frequency with this probability, as 30:95%%; with --epsilon: which "
        "delta; with both: how many keys a unit may have",
    )
    _add_supposed(parser)
    parser.add_argument("--html", metavar="FILE", help="also write the plan as one HTML page that needs no network")
    parser.add_argument("--overwrite", action="store_true", help="replace the page if it exists")
    parser.add_argument("--no-chart", action="store_true", help="print tables only")


def _add_supposed(parser: Parser) -> None:
    """What is publicly known about the data."""
    supposed = parser.add_argument_group("what is supposed about the data, publicly")
    supposed.add_argument("--rows", metavar="N", type=whole_number, help="counts: units times the keys of each")
    supposed.add_argument(
        "--units", metavar="N", type=whole_number, help="instead of --rows: units, each with --max-keys-per-unit keys"
    )
    supposed.add_argument(
        "--keys", metavar="N", type=whole_number, help="different keys there may be (default: a tenth of the rows)"
    )
    supposed.add_argument("--zipf", metavar="S", help="frequencies fall like 1 / rank^S (default: 1)")
    supposed.add_argument(
        "--example", metavar="FILE", help="a PUBLIC file with such frequencies; the plan shows what it holds"
    )
    supposed.add_argument("--key", metavar="COLUMN", action="append", help="key column of the example; repeat")
    supposed.add_argument("--count", metavar="COLUMN", help="column of counts of the example")
    supposed.add_argument("--unit", metavar="COLUMN", help="column of units (of the example): rows belong to units")
    supposed.add_argument(
        "--share",
        metavar="S",
        type=share_or_percentage,
        default="1",
        help="of the keys, for the error of a sum, as 0.1 or 10%% (default: 1)",
    )


def _plan(arguments: argparse.Namespace) -> None:
    from pathlib import Path

    from dptally.cli.printing import print_json, say
    from dptally.files import check_target
    from dptally.planning import plan
    from dptally.planning.universes import UniversePlan

    page = None if arguments.html is None else Path(arguments.html)
    if page is not None:
        check_target(page, overwrite=arguments.overwrite)
    frequency, probability = _needed(arguments.need)
    forecast = plan(
        epsilon=arguments.epsilon,
        delta=arguments.delta,
        max_keys_per_unit=arguments.max_keys_per_unit,
        sampling=sampling_of(arguments),
        values=not arguments.keys_only,
        universe=arguments.universe,
        capacity=arguments.capacity,
        asked_for=arguments.asked_for,
        rows=arguments.rows,
        units=arguments.units,
        keys=arguments.keys,
        zipf=arguments.zipf,
        example=arguments.example,
        key=arguments.key,
        count=arguments.count,
        unit=arguments.unit,
        share=arguments.share,
        levels=arguments.levels,
        mechanisms=arguments.mechanism,
        frequency=frequency,
        probability=probability,
    )
    if page is not None:
        forecast.save_page(page, overwrite=arguments.overwrite)
    if arguments.json:
        print_json({**forecast.describe(), **({} if page is None else {"page": str(page)})})
        return
    _print_plan(forecast, chart=not arguments.no_chart)
    if isinstance(forecast, UniversePlan):
        _print_lines(forecast)
    elif forecast.asked is not None:
        _print_bounds(forecast)
    if page is not None:
        say(f"Page written to {page}.", remark=True)


def _needed(text: str | None) -> tuple[int | None, str | None]:
    """A frequency and a probability with a colon between them."""
    if text is None:
        return None, None
    frequency, colon, probability = text.partition(":")
    if not colon or not frequency.strip().isdecimal():
        raise InvalidParameter(f"--need must be a frequency and a probability, such as 30:95%, got {text[:40]!r}.")
    return int(frequency), probability


def _print_plan(forecast: Plan, *, chart: bool) -> None:
    """What holds for all plans: the answer, the mechanisms, the curves."""
    from dptally.cli.printing import print_numbers, say
    from dptally.cli.text_chart import text_chart
    from dptally.planning.plans import PUBLIC_EXAMPLE, mechanism_cells

    if forecast.need is not None:
        say(str(forecast.need), style="bold")
    say(forecast.sentence)
    if forecast.population is not None:
        say(f"Supposed: {forecast.population.told}.")
        if forecast.population.from_example:
            say(PUBLIC_EXAMPLE, style="bold red")
    if forecast.recommendation not in forecast.sentence:
        say(f"Recommendation: {forecast.recommendation}", style="bold")
    say()
    names, *rows = mechanism_cells(forecast)
    chosen = [row[0] for row in rows]
    marked = chosen.index(forecast.recommended) if forecast.recommended in chosen else -1
    title = "A key is reported with this probability from this frequency on:"
    print_numbers(title, names[:_FIRST], [row[:_FIRST] for row in rows], marked=marked, labelled=True)
    if len(names) > _FIRST:
        further = [(row[0], *row[_FIRST:]) for row in rows]
        say()
        title = "What it takes and tells:"
        print_numbers(title, (names[0], *names[_FIRST:]), further, marked=marked, labelled=True)
    if forecast.population is not None:
        say("Time and memory: estimates from measured runs on another machine.", style="dim")
    for each in forecast.forecasts:
        if each.note:
            say(f"{each.mechanism}: {each.note}", style="dim")
    for name, reason in forecast.left_out.items():
        say(f"{name} does not apply: {reason}", style="dim")
    curves = forecast.curves()
    if chart and curves.width > 1:
        say()
        say("Chance that a key is reported, by its frequency:", style="bold")
        drawn = {name: curves.get_column(name).to_list() for name in curves.columns if name != "frequency"}
        for line in text_chart(curves.get_column("frequency").to_list(), drawn):
            say(line)
    say()


def _print_bounds(forecast: Plan) -> None:
    """What other bounds on keys per unit lead to."""
    from dptally.cli.printing import print_numbers, say

    asked = forecast.asked
    lines = sorted((line for line in (asked, *forecast.others) if line), key=lambda line: line.max_keys_per_unit)
    print_numbers(
        "With weighted_sample, by the number of keys a unit may have:",
        ("keys per unit", "50 %", "95 %", "always", "always, if divided", "mean error"),
        [
            (
                f"{line.max_keys_per_unit:,}",
                *(_frequency(found) for found in (line.half, line.likely, line.always, line.always_if_divided)),
                "-" if line.mean_absolute_error is None else f"{line.mean_absolute_error:,.2f}",
            )
            for line in lines
        ],
        marked=next(place for place, line in enumerate(lines) if line == asked),
    )
    say('"If divided": epsilon and delta divided by the keys per unit instead of composed exactly.', style="dim")


def _print_lines(forecast: UniversePlan) -> None:
    """Errors for many keys of a universe at once."""
    from dptally.cli.printing import print_numbers, say

    names = [line.mechanism for line in forecast.lines]
    print_numbers(
        "A key is released from this frequency on, and values are within (95 %):",
        ("mechanism", "50 %", "95 %", "one key", "all keys", "least possible"),
        [
            (
                line.mechanism,
                _frequency(line.half),
                _frequency(line.likely),
                f"{line.key_error:,}",
                "-" if line.simultaneous_error is None else f"{line.simultaneous_error:,}",
                "-" if line.least_possible_error is None else f"{line.least_possible_error:,.1f}",
            )
            for line in forecast.lines
        ],
        marked=names.index(forecast.recommended),
    )
    say('"All keys": of the universe at once; for compact, of as many keys as the capacity.', style="dim")


def _frequency(frequency: int | None) -> str:
    return "never" if frequency is None else f"{frequency:,}"
