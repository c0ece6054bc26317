"""The command ``quantile``.

JSON: `value`, `grid`, `guarantee`, `law`, `certificate` as in the metadata of the file (fractions as strings),
`nodes_released`, `guarantee_text`, `output` (the path, or null), and `quantiles`: for each one `q`, `estimate`,
`lower`, `upper`, `confidence`; dates and times in ISO form.
"""

from __future__ import annotations

import datetime
import shlex
import sys
from typing import TYPE_CHECKING, Any

from dptally.cli import options
from dptally.cli.delivery import prepare
from dptally.cli.explain import COUNTING, Explanation, explain_reading, explain_release
from dptally.cli.outputs import save_release
from dptally.cli.parser import add_choice, add_command, add_number, add_value
from dptally.errors import InvalidParameter
from dptally.laws.registry import USUAL_FOR_RANGES, mechanism_class

if TYPE_CHECKING:
    import argparse

    from dptally.cli.parser import Commands
    from dptally.releases.range_release import RangeRelease

__all__ = ["QUARTILES", "add_commands", "print_quantiles", "read_value"]

QUARTILES = ("0.25", "0.5", "0.75")
_NEEDED = ("input", "value", "low", "high", "epsilon")
_OF_DATA = (
    *_NEEDED,
    *("unit", "delta", "resolution", "count", "format", "table", "query", "types", "output", "ledger"),
    "not_private_seed",
)


def add_commands(commands: Commands) -> None:
    """Add ``quantile``."""
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
    from dptally.cli.printing import print_json, say, say_guarantee
    from dptally.exact.parameters import as_share

    confidence = options.confidence_of(arguments)
    shares = [as_share(q) for q in arguments.quantile or QUARTILES]
    release = _publish(arguments) if arguments.saved is None else _load(arguments)
    rows = release.quantile_rows(shares, confidence=confidence)
    output = arguments.output
    if arguments.json:
        answers = [{**row, "confidence": float(confidence)} for row in rows]
        print_json({**release.describe(), "output": output, "quantiles": answers})
        return
    print_quantiles(rows)
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
        **options.given(arguments, "count format memory_limit table query"),
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
    from dptally.loading import load_ranges

    told = [name for name in _OF_DATA if getattr(arguments, name) not in (None, [])]
    if told:
        raise InvalidParameter(f"--from asks a saved tree and reads no data; leave out {_written(told)}.")
    return load_ranges(arguments.saved)


def _written(names: list[str]) -> str:
    """Arguments as they are written at the shell."""
    special = {"input": "INPUT", "types": "--type"}
    return ", ".join(special.get(name, f"--{name.replace('_', '-')}") for name in names)


def print_quantiles(rows: list[dict[str, Any]]) -> None:
    """Print quantiles: a table on a terminal, CSV otherwise."""
    import polars as pl

    from dptally.cli.printing import print_table

    frame = pl.DataFrame(rows)
    if sys.stdout.isatty():
        print_table(frame.select(pl.all().cast(pl.String)), keys=frame.width)
    else:
        sys.stdout.write(frame.write_csv())


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
        f"Cut the public interval from {arguments.low} to {arguments.high} into bins, publish a tree of counts over "
        f"them by {arguments.mechanism!r}, and read the quantiles {shares} of {arguments.value!r} off it.",
        pure=mechanism_class(arguments.mechanism).pure,
        unit=arguments.unit,
        guarantee="All levels of the tree together; the interval must not depend on the data.",
        cost="More quantiles of the same tree cost nothing.",
        resources=COUNTING,
    )
