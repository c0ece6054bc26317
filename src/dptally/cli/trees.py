"""The commands ``heavy-hitters`` and ``quantile``: trees of counts, over prefixes of strings and over an interval."""

from __future__ import annotations

import argparse
import datetime
import shlex
import sys
from typing import TYPE_CHECKING

from dptally.cli import options
from dptally.cli.explain import COUNTING, Explanation, explain_reading, explain_release
from dptally.cli.outputs import prepare, save_release
from dptally.cli.parser import Commands, add_choice, add_command, add_flag, add_number, add_value
from dptally.cli.printing import json_rows, print_json, print_table_or_csv, say, say_guarantee
from dptally.errors import InvalidParameter
from dptally.exact.parameters import as_share
from dptally.laws.registry import USUAL_FOR_RANGES, mechanism_class
from dptally.loading import load_ranges

if TYPE_CHECKING:
    from dptally.releases.range_release import RangeRelease

QUARTILES = ("0.25", "0.5", "0.75")
_NEEDED = ("input", "value", "low", "high", "epsilon")
_OPTIONAL = ("unit", "delta", "resolution", "count", "format", "table", "query", "types", "output", "ledger")
_OF_DATA = (*_NEEDED, *_OPTIONAL, *options.FILTER.split(), "not_private_seed")


def add_commands(commands: Commands) -> None:
    """Add ``heavy-hitters`` and ``quantile``."""
    parser = add_command(commands, "heavy-hitters", _heavy_hitters, _explain_heavy_hitters, further=options.DATABASES)
    options.add_source(parser)
    add_value(parser, "--key", "COLUMN", "the column of strings", required=True)
    options.add_unit(parser)
    options.add_privacy(parser, keys_only=False)
    add_value(parser, "--levels", "L", "how many levels, or the prefix lengths as 1,2,4,8", default="10")
    add_number(parser, "--step", "N", "symbols for each level", default=1)
    add_choice(parser, "--domain", ("characters", "utf8", "bits"), "symbols", default="characters")
    add_number(parser, "--width", "N", "how many bits, for the domain bits")
    composition = "how the privacy loss of levels is composed"
    add_choice(parser, "--composition", ("exact", "optimal", "basic"), composition, default="exact")
    add_flag(parser, "--single-round", "sample whole values at once, and add up the levels above")
    options.add_counting(parser)
    options.add_ledger_options(parser)
    options.add_output_options(parser)

    parser = add_command(commands, "quantile", _quantile, _explain, further=options.DATABASES)
    options.add_source(parser, needed=False)
    add_value(parser, "--from", "FILE", "ask a tree written with -o instead of data; spends nothing", dest="saved")
    add_value(parser, "--value", "COLUMN", "the column of numbers, dates or times")
    add_value(parser, "--low", "VALUE", "smallest value: 5, 0.5, 2013-01-31 or 2013-01-31T12:00; public")
    add_value(parser, "--high", "VALUE", "largest value: 5, 0.5, 2013-01-31 or 2013-01-31T12:00; public")
    options.add_unit(parser)
    add_value(parser, "--epsilon", "E", options.EPSILON)
    add_value(parser, "--delta", "D", f"{options.DELTA}; left out for mechanisms with delta 0, such as dense")
    share = "share, as 0.5; repeat for several (default: quartiles); here -q is not --quiet"
    add_value(parser, "-q --quantile", "Q", share, action="append")
    add_number(parser, "--resolution", "N", "bins (default: 1024; no more than whole values)")
    add_number(parser, "--branching", "B", "of the tree", default=4)
    add_value(parser, "--mechanism", "NAME", "that publishes the counts of the tree", default=USUAL_FOR_RANGES)
    add_choice(parser, "--outside", ("clamp", "drop"), "other values", default="clamp")
    options.add_counting(parser)
    options.add_ledger_options(parser)
    options.add_output_options(parser, quiet="--quiet")


def _quantile(arguments: argparse.Namespace) -> None:
    """Publish quantiles of a column of numbers, dates or times.

    Publish a tree of counts over a public interval, and print quantiles of it with confidence intervals.
    With -o the tree is written as one Parquet file, which answers any quantile or range later, at no cost:
    dptally quantile --from FILE -q 0.9, or dptally.load_ranges(FILE) in Python.

    Without --from, INPUT, --value, --low, --high and --epsilon are needed. A column declared as integers is
    binned by whole numbers; floats, decimals, and all numbers of CSV and JSON, where nothing is declared,
    by --resolution, however --low and --high are written.

    dptally quantile flights.parquet --value dep_delay --low -60 --high 1500 --epsilon 1 --delta 1e-6 -q 0.5 -q 0.9
    dptally quantile visits.csv --value day --low 2024-01-01 --high 2024-12-31 --epsilon 1 --mechanism dense
    """
    import polars as pl

    confidence = options.confidence_of(arguments)
    shares = [as_share(q) for q in arguments.quantile or QUARTILES]
    release = _publish(arguments) if arguments.saved is None else _load(arguments)
    rows = release.quantile_rows(shares, confidence=confidence)
    output = arguments.output
    if arguments.json:
        answers = [{**row, "confidence": float(confidence)} for row in rows]
        print_json({**release.describe(), "output": output, "quantiles": answers})
        return
    frame = pl.DataFrame(rows)
    print_table_or_csv(frame, keys=frame.width, shown=frame.select(pl.all().cast(pl.String)))
    if arguments.quiet:
        return
    say_guarantee(release, remark=True, label=f"Certificate, {release.grid.levels} levels together")
    if output is not None:
        say(f"Wrote {output}. Next: `dptally quantile --from {shlex.quote(output)} -q 0.9`.", remark=True)


def _publish(arguments: argparse.Namespace) -> RangeRelease:
    """Publish a tree of the input, and write it where it was asked for."""
    from dptally.quantiles import publish_quantiles

    missing = [name for name in _NEEDED if getattr(arguments, name) in (None, [])]
    if missing:
        raise InvalidParameter(
            f"the following arguments are required: {_written(missing)}; see dptally quantile --help."
        )
    source = options.source_of(arguments)
    request = prepare(arguments, also_printed=True)
    release = publish_quantiles(
        source,
        **options.given(arguments, "value unit epsilon delta resolution branching mechanism outside"),
        **options.given(arguments, f"count format memory_limit table query {options.FILTER}"),
        low=read_value("--low", arguments.low),
        high=read_value("--high", arguments.high),
        types=options.types_of(arguments),
        **request.common,
    )
    if request.output is not None:
        save_release(release.save, request.output, overwrite=arguments.overwrite)
    return release


def _load(arguments: argparse.Namespace) -> RangeRelease:
    """Read a saved tree; what is for data is refused."""
    told = [name for name in _OF_DATA if getattr(arguments, name) not in (None, [])]
    if told:
        raise InvalidParameter(f"--from asks a saved tree and reads no data; leave out {_written(told)}.")
    return load_ranges(arguments.saved)


def _written(names: list[str]) -> str:
    """Arguments as they are written at the shell."""
    special = {"input": "INPUT", "types": "--type"}
    return ", ".join(special.get(name, f"--{name.replace('_', '-')}") for name in names)


def read_value(name: str, text: str) -> int | float | datetime.date | datetime.datetime:
    """Read an end of an interval: a whole number, a number, a date or a time."""
    for read in (int, float, datetime.date.fromisoformat, datetime.datetime.fromisoformat):
        try:
            return read(text)
        except ValueError:
            continue
    raise InvalidParameter(f"{name} must be a number, a date or a time such as 2013-01-31T12:00, got {text[:40]!r}.")


def _explain(arguments: argparse.Namespace) -> Explanation:
    if arguments.saved is not None:
        arguments.release = arguments.saved
        return explain_reading(arguments, does="Read quantiles off a saved tree of counts.")
    shares = ", ".join(arguments.quantile or QUARTILES)
    return explain_release(
        arguments,
        does=f"Cut the public interval from {arguments.low} to {arguments.high} into bins, publish a tree of counts "
        f"over them by {arguments.mechanism!r}, and read the quantiles {shares} of {arguments.value!r} off it.",
        pure=mechanism_class(arguments.mechanism).pure,
        unit=arguments.unit,
        guarantee="All levels of the tree together; the interval must not depend on the data.",
        cost="More quantiles of the same tree cost nothing.",
        resources=COUNTING,
    )


def _heavy_hitters(arguments: argparse.Namespace) -> None:
    """Find frequent strings, level by level over their prefixes.

    Publish the frequent prefixes and values of a column of strings, each level from a fresh secret sample.
    With -o the tree is written as one Parquet file. Without it the tree is printed: as a drawing on a
    terminal, as CSV into a pipe or file, as JSON with --json; the guarantee goes to standard error.

    dptally heavy-hitters words.csv --key word --unit device --epsilon 1 --delta 1e-6 --levels 1,2,4,8 -o tree.parquet
    dptally heavy-hitters words.csv --key word --epsilon 1 --delta 1e-6 --levels 5 --single-round
    """
    from dptally.heavy_hitters import publish_heavy_hitters

    request = prepare(arguments)
    tree = publish_heavy_hitters(
        options.source_of(arguments),
        **options.given(arguments, "key unit epsilon delta step domain width composition single_round"),
        **options.given(arguments, f"count format memory_limit table query {options.FILTER}"),
        levels=_levels(arguments.levels),
        types=options.types_of(arguments),
        **request.common,
    )
    output = request.output
    if output is not None:
        save_release(tree.save, output, overwrite=arguments.overwrite)
    if arguments.json:
        rows = {} if output is not None else {"rows": json_rows(tree.table(confidence=request.confidence))}
        print_json({**tree.describe(), "output": None if output is None else str(output), **rows})
        return
    if output is None:
        if sys.stdout.isatty():
            say(str(tree))
        else:
            sys.stdout.write(tree.table(confidence=request.confidence).write_csv())
    if not arguments.quiet:
        remark, place = output is None, "" if output is None else f" to {output}"
        say(f"{len(tree):,} {'prefix' if len(tree) == 1 else 'prefixes'} released{place}.", style="bold", remark=remark)
        say_guarantee(tree, remark=remark)


def _levels(text: str) -> int | list[int]:
    """A number of levels, or lengths with commas between them."""
    try:
        lengths = [int(part) for part in text.split(",")]
    except ValueError:
        raise InvalidParameter(f"--levels must be a number, or lengths such as 1,2,4,8, got {text[:40]!r}.") from None
    return lengths if "," in text else lengths[0]


def _explain_heavy_hitters(arguments: argparse.Namespace) -> Explanation:
    return explain_release(arguments, unit=arguments.unit, guarantee="All rounds together.", resources=COUNTING)
