"""The command ``plan``, with curves as text: a grid of braille dots, two by four to a character."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from dptally.cli import options
from dptally.cli.explain import Explanation, described
from dptally.cli.parser import Commands, Parser, add_choice, add_command, add_flag, add_number, add_value
from dptally.cli.printing import print_json, print_numbers, say
from dptally.errors import InvalidParameter
from dptally.files import check_target
from dptally.laws.registry import USUAL, mechanism_names

if TYPE_CHECKING:
    from dptally.planning import Plan
    from dptally.planning.plans import Measured
    from dptally.planning.universes import UniversePlan

_FIRST = 7  # columns that fit on a terminal of 80
MARKS = "ABCDEFGHIJKLMNOP"
_DOTS = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))  # by row, by column of a braille character
_BLANK = 0x2800


def add_commands(commands: Commands) -> None:
    """Add ``plan``."""
    parser = add_command(commands, "plan", _plan, _explain)
    options.add_privacy(parser, pure=True, sought=True)
    options.add_unit_bound(parser, measured=True)
    options.add_columns(parser)
    add_value(parser, "--universe", "NAME", "all keys there may be, such as ipv4 or words:12")
    add_number(parser, "--capacity", "N", "counters of a sketch, keys of a sparse or compact release (default: 10000)")
    asked = "whether the question is which keys are frequent, or what the count of any given key is"
    add_choice(parser, "--asked-for", ("frequent", "any"), asked)
    add_value(parser, "--sampling", "SCHEME", "how keys are sampled, such as ppswor:0.01 (default: no sampling)")
    add_number(parser, "--levels", "N", "levels of prefixes, to plan heavy hitters")
    only = "plan this one only; repeat for several (default: all)"
    choices = (*mechanism_names(), "heavy_hitters")
    add_value(parser, "--mechanism", "NAME", only, action="append", dest="mechanisms", choices=choices)
    need = (
        "which epsilon reports keys of this count with this probability, as 30:95%%; with --epsilon: which delta; with "
        "both: how many keys a unit may have"
    )
    add_value(parser, "--need", "COUNT:PROBABILITY", need)
    _add_assumed(parser)
    add_value(parser, "--html", "FILE", "also write the plan as one HTML page that needs no network")
    options.add_overwrite(parser)
    add_flag(parser, "--no-chart", "print tables only")


def _add_assumed(parser: Parser) -> None:
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
    add_value(assumed, "--share", "S", share, type=options.share_or_percentage, default="1")


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
    from dptally.plan_requests import plan
    from dptally.planning.universes import UniversePlan

    page = None if arguments.html is None else Path(arguments.html)
    if page is not None:
        check_target(page, overwrite=arguments.overwrite)
    frequency, probability = _needed(arguments.need)
    if arguments.epsilon is None and frequency is None:
        raise InvalidParameter("--epsilon is missing; leave it out only with --need, such as --need 30:95%.")
    forecast = plan(
        **options.given(arguments, "epsilon delta max_keys_per_unit universe capacity asked_for levels mechanisms"),
        **options.given(arguments, "rows units keys zipf example key count unit share"),
        sampling=options.sampling_of(arguments),
        values=not arguments.keys_only,
        frequency=frequency,
        probability=probability,
        **options.columns_of(arguments),
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
    if forecast.measured is not None:
        _print_measured(forecast.measured)
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
    if forecast.need is not None:
        say(str(forecast.need), style="bold")
    say(forecast.sentence)
    if forecast.population is not None:
        say(f"Assumed: {forecast.population.told}.")
        if forecast.warning is not None:
            say(forecast.warning, style="bold red")
    if forecast.recommendation not in forecast.sentence:
        say(f"Recommendation: {forecast.recommendation}", style="bold")
    if forecast.statistics:
        say(forecast.statistics)
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
    asked = forecast.asked
    lines = sorted((line for line in (asked, *forecast.others) if line), key=lambda line: line.max_keys_per_unit)
    rows = []
    for line in lines:
        counts = map(_frequency, (line.half, line.likely, line.always, line.always_if_divided))
        rows.append((f"{line.max_keys_per_unit:,}", *counts, _number(line.mean_absolute_error, ",.2f")))
    title = f"With {USUAL}, by the number of keys a unit may have:"
    names = ("keys per unit", "50 %", "95 %", "always", "always, if divided", "mean error")
    print_numbers(title, names, rows, marked=next(place for place, line in enumerate(lines) if line == asked))
    say('"If divided": epsilon and delta divided by the keys per unit instead of composed exactly.', style="dim")


def _print_measured(measured: Measured) -> None:
    """What the default for units leads to, which measures how many keys they have."""
    say()
    names = ("keys per unit", "50 %", "95 %", "keys expected", "error of a count")
    rows = [
        (
            f"{size:,}",
            *map(_frequency, (each.half, each.likely)),
            _number(each.expected_keys, ",.0f"),
            _number(each.root_mean_square_error, ",.1f"),
        )
        for size, each in measured.sizes
    ]
    title = f"Without --max-keys-per-unit, keys of units are measured ({measured.mechanism}); if all units have:"
    print_numbers(title, names, rows, marked=-1)
    told = ", ".join(f"{kind} {share:.1%}" for kind, share in measured.shares)
    say(f"Shares of the budget, about: {told}.", style="dim")


def _print_lines(forecast: UniversePlan) -> None:
    """Errors for many keys of a universe at once."""
    rows = []
    for line in forecast.lines:
        errors = _number(line.simultaneous_error, ","), _number(line.least_possible_error, ",.1f")
        counts = map(_frequency, (line.half, line.likely))
        rows.append((line.mechanism, *counts, f"{line.key_error:,}", *errors))
    title = "A key is released from this count on, and values are within (95 %):"
    names = ("mechanism", "50 %", "95 %", "one key", "all keys", "least possible")
    print_numbers(title, names, rows, marked=[row[0] for row in rows].index(forecast.recommended))
    say('"All keys": of the universe at once; for compact, of as many keys as the capacity.', style="dim")


def _number(number: float | None, form: str) -> str:
    return "-" if number is None else f"{number:{form}}"


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


def text_chart(
    frequencies: Sequence[int], curves: Mapping[str, Sequence[float]], *, width: int = 60, height: int = 10
) -> list[str]:
    """Draw probabilities from 0 to 1 over increasing frequencies, as lines of text.

    Each curve has a letter, which stands on it where it passes one half, or where it ends. The vertical axis stands at
    the right, so that the lines can be read as text too.
    """
    import numpy as np

    dots = [[0] * width for _ in range(height)]
    marks: dict[tuple[int, int], str] = {}
    first, last = frequencies[0], max(frequencies[-1], frequencies[0] + 1)
    columns, rows = 2 * width, 4 * height
    for number, curve in enumerate(curves.values()):
        before: int | None = None
        places = [first + (last - first) * column / (columns - 1) for column in range(columns)]
        for column, chance in enumerate(np.interp(places, frequencies, curve).tolist()):
            row = rows - 1 - round(min(max(chance, 0.0), 1.0) * (rows - 1))
            # Steep parts are filled, so that a curve is a line and not a scatter of dots.
            start, end = sorted((row, row if before is None else before))
            for at in range(start, end + 1):
                dots[at // 4][column // 2] |= _DOTS[at % 4][column % 2]
            before = row
        middle = next((frequency for frequency, chance in zip(frequencies, curve, strict=True) if chance >= 0.5), last)
        place = round((middle - first) / (last - first) * (width - 1))
        line = height // 2
        while (line, place) in marks and line + 1 < height:
            line += 1
        marks[line, place] = MARKS[number % len(MARKS)]
    lines = []
    for line in range(height):
        text = "".join(marks.get((line, place), chr(_BLANK + pattern)) for place, pattern in enumerate(dots[line]))
        label = {0: " 100 %", height // 2: " 50 %", height - 1: " 0 %"}.get(line, "")
        lines.append(f"{text}┤{label}")
    lines.append("└" + "─" * (width - 1) + "┘")
    ends = f"frequency {first:,}", f"{last:,}"
    lines.append(ends[0] + " " * max(1, width - len(ends[0]) - len(ends[1])) + ends[1])
    lines += [f"{MARKS[number % len(MARKS)]} {name}" for number, name in enumerate(curves)]
    return lines
