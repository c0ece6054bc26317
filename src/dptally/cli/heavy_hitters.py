"""The command ``heavy-hitters``: frequent strings, as a tree of prefixes.

JSON: `format_version`, `plan`, `unit`, `private`, `neighbours` as in the metadata of the file (fractions as strings),
`nodes` (how many), `guarantee_text`, `output` (the path, or null), and without ``-o`` also `rows`.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from dptally.cli.ledger import add_ledger_options, ledger_of
from dptally.cli.outputs import save_release
from dptally.cli.parser import (
    DATABASES,
    add_command,
    add_output_options,
    add_privacy,
    add_source,
    types_of,
    whole_number,
)
from dptally.errors import InvalidParameter

if TYPE_CHECKING:
    import argparse

    from dptally.cli.parser import Commands

__all__ = ["add_commands"]


def add_commands(commands: Commands) -> None:
    """Add ``heavy-hitters``."""
    parser = add_command(
        commands,
        "heavy-hitters",
        _heavy_hitters,
        summary="find frequent strings, level by level over their prefixes",
        details=(
            "Publish the frequent prefixes and values of a column of strings, each level from a fresh secret sample.\n"
            "With -o the tree is written as one Parquet file. Without it the tree is printed: as a drawing on a\n"
            "terminal, as CSV into a pipe or file, as JSON with --json; what is promised goes to standard error.\n"
            "\n"
            f"{DATABASES}"
        ),
        example=(
            "dptally heavy-hitters words.csv --key word --unit device --epsilon 1 --delta 1e-6 --levels 1,2,4,8 "
            "-o tree.parquet"
        ),
        also="dptally heavy-hitters words.csv --key word --epsilon 1 --delta 1e-6 --levels 5 --single-round",
    )
    add_source(parser)
    parser.add_argument("--key", metavar="COLUMN", required=True, help="the column of strings")
    parser.add_argument("--unit", metavar="COLUMN", help="whose privacy (default: every row is its own unit)")
    add_privacy(parser, keys_only=False)
    parser.add_argument(
        "--levels", metavar="L", default="10", help="how many levels, or the prefix lengths as 1,2,4,8 (default: 10)"
    )
    parser.add_argument("--step", metavar="N", type=whole_number, default=1, help="symbols for each level (default: 1)")
    parser.add_argument(
        "--domain", choices=("characters", "utf8", "bits"), default="characters", help="symbols (default: characters)"
    )
    parser.add_argument("--width", metavar="N", type=whole_number, help="how many bits, for the domain bits")
    parser.add_argument(
        "--composition",
        choices=("exact", "optimal", "basic"),
        default="exact",
        help="how the privacy of levels is added up (default: exact)",
    )
    parser.add_argument(
        "--single-round", action="store_true", help="draw whole values at once, and add up the levels above"
    )
    parser.add_argument("--count", metavar="COLUMN", help="counts, for data that is already aggregated")
    parser.add_argument(
        "--format", choices=("csv", "tsv", "jsonl", "parquet"), help="where the file name does not tell"
    )
    parser.add_argument("--memory-limit", metavar="SIZE", help="for the counting engine, such as 2GB")
    add_ledger_options(parser)
    add_output_options(parser)


def _heavy_hitters(arguments: argparse.Namespace) -> None:
    from dptally.cli.printing import json_rows, print_json, say
    from dptally.cli.publish import prepare
    from dptally.heavy_hitters import publish_tree

    request = prepare(arguments)
    tree = publish_tree(
        request.source,
        key=arguments.key,
        unit=arguments.unit,
        epsilon=arguments.epsilon,
        delta=arguments.delta,
        levels=_levels(arguments.levels),
        step=arguments.step,
        domain=arguments.domain,
        width=arguments.width,
        composition=arguments.composition,
        single_round=arguments.single_round,
        count=arguments.count,
        format=arguments.format,
        memory_limit=arguments.memory_limit,
        ledger=ledger_of(arguments),
        randomness=request.randomness,
        progress=request.progress,
        table=arguments.table,
        query=arguments.query,
        types=types_of(arguments),
    )
    output = request.output
    if output is not None:
        save_release(tree.save, output, overwrite=arguments.overwrite)
    if arguments.json:
        facts = {**tree.describe(), "output": None if output is None else str(output)}
        rows = {} if output is not None else {"rows": json_rows(tree.table(confidence=request.confidence))}
        print_json({**facts, **rows})
        return
    if output is None:
        if sys.stdout.isatty():
            say(str(tree))
        else:
            sys.stdout.write(tree.table(confidence=request.confidence).write_csv())
    if arguments.quiet:
        return
    remark, place = output is None, "" if output is None else f" to {output}"
    say(f"{len(tree):,} {'prefix' if len(tree) == 1 else 'prefixes'} released{place}.", style="bold", remark=remark)
    say(str(tree.guarantee), style="" if tree.guarantee.private else "bold red", remark=remark)
    say(f"Certificate: {tree.certificate}", remark=remark)


def _levels(text: str) -> int | list[int]:
    """A number of levels, or lengths with commas between them."""
    try:
        lengths = [int(part) for part in text.split(",")]
    except ValueError:
        raise InvalidParameter(f"--levels must be a number, or lengths such as 1,2,4,8, got {text[:40]!r}.") from None
    return lengths if "," in text else lengths[0]
