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

from dptally.cli.explain import Explanation, described
from dptally.cli.options import (
    add_overwrite,
    add_privacy,
    add_unit_bound,
    given,
    sampling_of,
    share_or_percentage,
)
from dptally.cli.parser import add_choice, add_command, add_flag, add_number, add_value
from dptally.errors import InvalidParameter
from dptally.laws.registry import USUAL, mechanism_names

if TYPE_CHECKING:
    import argparse

    from dptally.cli.parser import Commands, Parser
    from dptally.planning import Plan
    from dptally.planning.universes import UniversePlan

__all__ = ["add_commands"]

_FIRST = 7  # columns that fit on a terminal of 80


def add_commands(commands: Commands) -> None:
    """Add ``plan``."""
    parser = add_command(commands, "plan", _plan, _explain)
    add_privacy(parser, pure=True, sought=True)
    add_unit_bound(parser)
    add_value(parser, "--universe", "NAME", "all keys there may be, such as ipv4 or words:12")
    add_number(parser, "--capacity", "N", "counters of a sketch, keys of a sparse or compact release (default: 10000)")
    asked = "whether the question is which keys are frequent, or what the count of any given key is"
    add_choice(parser, "--asked-for", ("frequent", "any"), asked)
    add_value(parser, "--sampling", "SCHEME", "how keys are sampled, such as ppswor:0.01 (default: no sampling)")
    add_number(parser, "--levels", "N", "levels of prefixes, to plan heavy hitters")
    only = "plan this one only; repeat for several (default: all)"
    choices = (*mechanism_names(), "heavy_hitters")
    add_value(parser, "--mechanism", "NAME", only, action="append", dest="mechanisms", choices=choices)
    add_value(
        parser,
        "--need",
        "COUNT:PROBABILITY",
        "which epsilon reports keys of this count with this probability, as 30:95%%; with --epsilon: which delta; "
        "with both: how many keys a unit may have",
    )
    _add_assumed(parser)
    add_value(parser, "--html", "FILE", "also write the plan as one HTML page that needs no network")
    add_overwrite(parser)
    add_flag(parser, "--no-chart", "print tables only")


def _add_assumed(parser: Parser) -> None:
    """What is publicly known about the data."""
    assumed = parser.add_argument_group("what is assumed about the data, publicly")
    add_number(assumed, "--rows", "N", "counts: units times the keys of each")
    add_number(assumed, "--units", "N", "instead of --rows: units, each with --max-keys-per-unit keys")
    add_number(assumed, "--keys", "N", "different keys there may be (default: a tenth of the rows)")
    add_value(assumed, "--zipf", "S", "counts fall like 1 / rank^S (default: 1)")
    add_value(assumed, "--example", "FILE", "a PUBLIC file with such counts; the plan shows what it holds")
    add_value(assumed, "--key", "COLUMN", "key column of the example; repeat", action="append")
    add_value(assumed, "--count", "COLUMN", "column of counts of the example")
    add_value(assumed, "--unit", "COLUMN", "column of units (of the example): rows belong to units")
    share = "of the keys, for the error of a sum, as 0.1 or 10%%"
    add_value(assumed, "--share", "S", share, type=share_or_percentage, default="1")


def _plan(arguments: argparse.Namespace) -> None:
    """What to expect, before any data is read.

    Say for each mechanism which keys are reported, how many, how far off estimates are, and what it takes.
    With --universe, also compare the mechanisms that need no --delta. With --need, find the epsilon (or the
    delta, or the number of keys per unit) for keys of a count to be reported with a probability.
    Exact, from the output distributions alone: no private data is read and nothing is spent. What is
    assumed about the data (--rows, --keys, --zipf, --example) must be public knowledge.

    dptally plan --epsilon 1 --delta 1e-6 --max-keys-per-unit 3
    dptally plan --delta 1e-6 --need 30:95%
    """
    from pathlib import Path

    from dptally.cli.printing import print_json, say
    from dptally.files import check_target
    from dptally.plan_requests import plan
    from dptally.planning.universes import UniversePlan

    page = None if arguments.html is None else Path(arguments.html)
    if page is not None:
        check_target(page, overwrite=arguments.overwrite)
    frequency, probability = _needed(arguments.need)
    if arguments.epsilon is None and frequency is None:
        raise InvalidParameter("--epsilon is missing; leave it out only with --need, such as --need 30:95%.")
    forecast = plan(
        **given(arguments, "epsilon delta max_keys_per_unit universe capacity asked_for levels mechanisms"),
        **given(arguments, "rows units keys zipf example key count unit share"),
        sampling=sampling_of(arguments),
        values=not arguments.keys_only,
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
    """A count and a probability with a colon between them."""
    if text is None:
        return None, None
    frequency, colon, probability = text.partition(":")
    if not colon or not frequency.strip().isdecimal():
        raise InvalidParameter(f"--need must be a count and a probability, such as 30:95%, got {text[:40]!r}.")
    return int(frequency), probability


def _print_plan(forecast: Plan, *, chart: bool) -> None:
    """What holds for all plans: the answer, the mechanisms, the curves."""
    from dptally.cli.printing import print_numbers, say
    from dptally.cli.text_chart import text_chart

    if forecast.need is not None:
        say(str(forecast.need), style="bold")
    say(forecast.sentence)
    if forecast.population is not None:
        say(f"Assumed: {forecast.population.told}.")
        if forecast.warning is not None:
            say(forecast.warning, style="bold red")
    if forecast.recommendation not in forecast.sentence:
        say(f"Recommendation: {forecast.recommendation}", style="bold")
    say()
    names, *rows = forecast.cells()
    chosen = [row[0] for row in rows]
    marked = chosen.index(forecast.recommended) if forecast.recommended in chosen else -1
    title = "A key is reported with this probability from this count on:"
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
        say("Probability that a key is reported, by its count:", style="bold")
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
        f"With {USUAL}, by the number of keys a unit may have:",
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
        "A key is released from this count on, and values are within (95 %):",
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


def _explain(arguments: argparse.Namespace) -> Explanation:
    public = f"{arguments.example} (must be PUBLIC: the plan shows what it holds)"
    return Explanation(
        described(arguments),
        reads=() if arguments.example is None else (public,),
        writes=() if arguments.html is None else (f"{arguments.html}: the plan as a page",),
        guarantee="None is needed: a plan is made from parameters and public knowledge.",
        cost="No privacy is spent.",
        resources="Below a second for usual parameters; some seconds for an epsilon below 0.02, or with --need.",
    )
