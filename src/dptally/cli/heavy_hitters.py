"""The command ``heavy-hitters``: frequent strings, as a tree of prefixes.

JSON: `format_version`, `plan`, `unit`, `private`, `neighbours` as in the metadata of the file (fractions as strings),
`nodes` (how many), `guarantee_text`, `output` (the path, or null), and without ``-o`` also `rows`.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from dptally.cli import options
from dptally.cli.delivery import prepare
from dptally.cli.explain import COUNTING, Explanation, explain_release
from dptally.cli.outputs import save_release
from dptally.cli.parser import add_choice, add_command, add_flag, add_number, add_value
from dptally.errors import InvalidParameter

if TYPE_CHECKING:
    import argparse

    from dptally.cli.parser import Commands

__all__ = ["add_commands"]


def add_commands(commands: Commands) -> None:
    """Add ``heavy-hitters``."""
    parser = add_command(commands, "heavy-hitters", _heavy_hitters, _explain, further=options.DATABASES)
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


def _heavy_hitters(arguments: argparse.Namespace) -> None:
    """Find frequent strings, level by level over their prefixes.

    Publish the frequent prefixes and values of a column of strings, each level from a fresh secret sample.
    With -o the tree is written as one Parquet file. Without it the tree is printed: as a drawing on a
    terminal, as CSV into a pipe or file, as JSON with --json; the guarantee goes to standard error.

    dptally heavy-hitters words.csv --key word --unit device --epsilon 1 --delta 1e-6 --levels 1,2,4,8 -o tree.parquet
    dptally heavy-hitters words.csv --key word --epsilon 1 --delta 1e-6 --levels 5 --single-round
    """
    from dptally.cli.printing import json_rows, print_json, say, say_guarantee
    from dptally.heavy_hitters import publish_heavy_hitters

    request = prepare(arguments)
    tree = publish_heavy_hitters(
        options.source_of(arguments),
        **options.given(arguments, "key unit epsilon delta step domain width composition single_round"),
        **options.given(arguments, "count format memory_limit table query"),
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


def _explain(arguments: argparse.Namespace) -> Explanation:
    return explain_release(arguments, unit=arguments.unit, guarantee="All rounds together.", resources=COUNTING)
