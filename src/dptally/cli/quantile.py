"""The command ``quantile``.

JSON: `value`, `grid`, `guarantee`, `law`, `certificate` as in the metadata of the file (fractions as strings),
`nodes_released`, `guarantee_text`, `output` (the path, or null), and `quantiles`: for each one `q`, `estimate`,
`lower`, `upper`, `confidence`; dates and times in ISO form.
"""

from __future__ import annotations

import datetime
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dptally.cli.ledger import add_ledger_options, ledger_of
from dptally.cli.outputs import save_release
from dptally.cli.parser import DATABASES, add_command, add_confidence, add_source, source_of, types_of, whole_number
from dptally.errors import InvalidParameter

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable

    from dptally.cli.parser import Commands
    from dptally.releases.range_release import RangeRelease

__all__ = ["QUARTILES", "add_commands", "print_quantiles", "quantile_rows", "read_value"]

QUARTILES = ("0.25", "0.5", "0.75")
_NEEDED = {"input": "INPUT", "value": "--value", "low": "--low", "high": "--high", "epsilon": "--epsilon"}
_OF_DATA = {
    **_NEEDED,
    "unit": "--unit",
    "delta": "--delta",
    "resolution": "--resolution",
    "count": "--count",
    "format": "--format",
    "table": "--table",
    "query": "--query",
    "types": "--type",
    "output": "--output",
    "ledger": "--ledger",
    "not_private_seed": "--not-private-seed",
}


def add_commands(commands: Commands) -> None:
    """Add ``quantile``."""
    parser = add_command(
        commands,
        "quantile",
        _quantile,
        summary="publish quantiles of a column of numbers, dates or times",
        details=(
            "Publish a tree of counts over a public interval, and print quantiles of it with bounds. With -o the tree\n"
            "is written as one Parquet file, which answers any quantile or range later, at no cost:\n"
            "dptally quantile --from FILE -q 0.9, or dptally.load_ranges(FILE) in Python.\n"
            "\n"
            "Without --from, INPUT, --value, --low, --high and --epsilon are needed. A column declared as integers is\n"
            "binned by whole numbers; floats, decimals, and all numbers of CSV and JSON, where nothing is declared,\n"
            "by --resolution, however --low and --high are written.\n"
            "\n"
            f"{DATABASES}"
        ),
        example=(
            "dptally quantile flights.parquet --value dep_delay --low -60 --high 1500 "
            "--epsilon 1 --delta 1e-6 -q 0.5 -q 0.9"
        ),
        also="dptally quantile visits.csv --value day --low 2024-01-01 --high 2024-12-31 --epsilon 1 --mechanism dense",
    )
    add_source(parser, needed=False)
    parser.add_argument(
        "--from", metavar="FILE", dest="saved", help="ask a tree written with -o instead of data; spends nothing"
    )
    parser.add_argument("--value", metavar="COLUMN", help="the column of numbers, dates or times")
    for name, what in (("--low", "smallest"), ("--high", "largest")):
        parser.add_argument(name, metavar="VALUE", help=f"{what} value: 5, 0.5, 2013-01-31 or 2013-01-31T12:00; public")
    parser.add_argument("--unit", metavar="COLUMN", help="whose privacy (default: every row is its own unit)")
    parser.add_argument("--epsilon", metavar="E", help='read exactly: "0.1" is 1/10, "1/3" works too')
    parser.add_argument("--delta", metavar="D", help="well below one over the number of units, as 1e-6; not for dense")
    parser.add_argument(
        "-q",
        "--quantile",
        metavar="Q",
        action="append",
        help="share, as 0.5; repeat for several (default: quartiles); here -q is not --quiet",
    )
    parser.add_argument(
        "--resolution", metavar="N", type=whole_number, help="bins (default: 1024; no more than whole values)"
    )
    parser.add_argument("--branching", metavar="B", type=whole_number, default=4, help="of the tree (default: 4)")
    parser.add_argument(
        "--mechanism",
        default="sample_and_threshold",
        help="sample_and_threshold (default), weighted_sample, or dense, which has delta 0",
    )
    parser.add_argument("--outside", choices=("clamp", "drop"), default="clamp", help="other values (default: clamp)")
    parser.add_argument("--count", metavar="COLUMN", help="counts, for data that is already aggregated")
    parser.add_argument("--format", choices=("csv", "tsv", "jsonl", "parquet"), help="where the name does not tell")
    parser.add_argument("--memory-limit", metavar="SIZE", help="for the counting engine, such as 2GB")
    parser.add_argument("-o", "--output", metavar="FILE", help="where to write the tree (Parquet)")
    parser.add_argument("--overwrite", action="store_true", help="replace the output file if it exists")
    add_ledger_options(parser)
    add_confidence(parser)
    parser.add_argument(
        "--not-private-seed", metavar="N", type=whole_number, help="repeatable draws for tests: not private"
    )
    parser.add_argument("--quiet", action="store_true", help="print nothing but what was asked for; no short form")
    parser.add_argument("--no-progress", action="store_true", help="show no progress on a terminal")


def _quantile(arguments: argparse.Namespace) -> None:
    from dptally.cli.printing import print_json, say
    from dptally.estimates.frequencies import as_confidence
    from dptally.releases.range_release import as_share

    confidence = as_confidence("0.95" if arguments.confidence is None else arguments.confidence)
    shares = [as_share(q) for q in arguments.quantile or QUARTILES]
    release = _publish(arguments) if arguments.saved is None else _load(arguments)
    rows = quantile_rows(release, shares, confidence)
    output = arguments.output
    if arguments.json:
        answers = [{**row, "confidence": float(confidence)} for row in rows]
        print_json({**release.describe(), "output": output, "quantiles": answers})
        return
    print_quantiles(rows)
    if arguments.quiet:
        return
    say(str(release.guarantee), style="" if release.guarantee.private else "bold red", remark=True)
    say(f"Certificate, {release.grid.levels} levels together: {release.certificate}", remark=True)
    if output is not None:
        say(f"Wrote {output}. Next: `dptally quantile --from {shlex.quote(output)} -q 0.9`.", remark=True)


def _publish(arguments: argparse.Namespace) -> RangeRelease:
    """Publish a tree of the input, and write it where it was asked for."""
    from dptally.files import check_target
    from dptally.quantiles import publish_quantiles
    from dptally.randomness import SeededBits

    missing = [written for name, written in _NEEDED.items() if getattr(arguments, name) in (None, [])]
    if missing:
        raise InvalidParameter(
            f"the following arguments are required: {', '.join(missing)}; see dptally quantile --help."
        )
    source = source_of(arguments)
    output = None if arguments.output is None else Path(arguments.output)
    if output is not None:
        check_target(output, overwrite=arguments.overwrite)
    release = publish_quantiles(
        source,
        value=arguments.value,
        low=read_value("--low", arguments.low),
        high=read_value("--high", arguments.high),
        unit=arguments.unit,
        epsilon=arguments.epsilon,
        delta=arguments.delta,
        resolution=arguments.resolution,
        branching=arguments.branching,
        mechanism=arguments.mechanism,
        outside=arguments.outside,
        count=arguments.count,
        format=arguments.format,
        memory_limit=arguments.memory_limit,
        ledger=ledger_of(arguments),
        randomness=None if arguments.not_private_seed is None else SeededBits(arguments.not_private_seed),
        progress=False if arguments.quiet or arguments.no_progress else None,
        table=arguments.table,
        query=arguments.query,
        types=types_of(arguments),
    )
    if output is not None:
        save_release(release.save, output, overwrite=arguments.overwrite)
    return release


def _load(arguments: argparse.Namespace) -> RangeRelease:
    """Read a saved tree; what is for data is refused."""
    from dptally.releases.range_release_file import load_ranges

    given = [written for name, written in _OF_DATA.items() if getattr(arguments, name) not in (None, [])]
    if given:
        raise InvalidParameter(f"--from asks a saved tree and reads no data; leave out {', '.join(given)}.")
    return load_ranges(arguments.saved)


def quantile_rows(release: RangeRelease, shares: Iterable[object], confidence: object) -> list[dict[str, Any]]:
    """Quantiles as rows of plain values: `q`, `estimate`, `lower`, `upper`."""
    found = [release.quantile(share, confidence=confidence) for share in shares]
    return [
        {
            "q": float(quantile.q),
            "estimate": _plain(quantile.estimate),
            "lower": _plain(quantile.lower),
            "upper": _plain(quantile.upper),
        }
        for quantile in found
    ]


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


def _plain(value: object) -> object:
    """A value for JSON and tables."""
    return value.isoformat() if isinstance(value, datetime.date) else value
