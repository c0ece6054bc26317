"""The command ``compare``: two releases, key by key. All of it is public."""

from __future__ import annotations

import argparse
import warnings
from pathlib import Path

from dptally.cli.explain import Explanation, explain_reading, outputs
from dptally.cli.options import add_confidence, add_overwrite, confidence_of
from dptally.cli.parser import Commands, add_command, add_flag, add_number, add_value
from dptally.cli.printing import bytes_in_hexadecimal, json_rows, print_json, print_table_or_csv, say
from dptally.cli.read import TABLE_FORMATS, load_table, write_table
from dptally.cli.signals import to_completion
from dptally.errors import InvalidParameter
from dptally.files import check_target

_PICTURES = (".svg", ".html", ".png")


def add_commands(commands: Commands) -> None:
    """Add ``compare``."""
    parser = add_command(commands, "compare", _compare, _explain)
    add_value(parser, "before", "BEFORE", "a file written by dptally publish -o")
    add_value(parser, "after", "AFTER", "another one, over the same key columns")
    add_number(parser, "-n", "N", "how many keys to print or draw, those that changed most first", default=20)
    add_value(parser, "-o --output", "FILE", "a chart (.html, .svg, .png), or all keys (.csv, .json, .parquet)")
    add_overwrite(parser)
    add_confidence(parser)
    add_flag(parser, "-q --quiet", "print only the requested output")


def _compare(arguments: argparse.Namespace) -> None:
    """What changed between two releases, key by key.

    Compare two releases: difference and ratio of the estimates, with confidence intervals. Printed are the keys
    that changed most, with intervals that hold for all keys at once; -o writes a chart of them, or all keys with
    an interval for each key on its own. Keys that only one release reports have appeared or are gone: that does
    not mean that they had no count in the other, and the interval says what is known.

    dptally compare monday.parquet tuesday.parquet
    dptally compare monday.parquet tuesday.parquet -n 30 -o compare.html
    """
    from dptally.releases.comparison import MISSING, differing_guarantees

    confidence, output = confidence_of(arguments), _checked_output(arguments)
    before, after = load_table(arguments.before), load_table(arguments.after)
    for release in (before, after):
        release.verify()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # said below
        changed = before.compare(after, n=arguments.n, confidence=confidence)
        every = before.compare(after, confidence=confidence)
    differing, statuses = differing_guarantees(before, after), every.get_column("status").to_list()
    numbers = {status: statuses.count(status) for status in ("both", "appeared", "gone")}
    if output is not None:
        with to_completion():
            if output.suffix.lower() in TABLE_FORMATS:
                write_table(every, output, overwrite=arguments.overwrite)
            else:
                from dptally.report.comparison_chart import comparison_chart

                comparison_chart(changed, len(before.key), f"{float(100 * confidence):.6g} %").save(output)
    if arguments.json:
        print_json(
            {
                "before": arguments.before,
                "after": arguments.after,
                "confidence": float(confidence),
                "keys": numbers,
                "warning": differing,
                "missing_text": MISSING,
                "output": None if output is None else str(output),
                "rows": json_rows(changed),
            }
        )
        return
    shown = before.for_people(changed)
    print_table_or_csv(bytes_in_hexadecimal(changed), keys=len(before.key), shown=shown)
    if arguments.quiet:
        return
    sure = f"{float(100 * confidence):.6g} %"
    say(
        f"{numbers['both']:,} keys in both releases, {numbers['appeared']:,} appeared, {numbers['gone']:,} gone. "
        f"{sure} confidence intervals that hold for all keys at once.",
        remark=True,
    )
    if numbers["appeared"] or numbers["gone"]:
        say(MISSING, remark=True)
    if differing is not None:
        say(f"Take care: {differing}", style="bold", remark=True)
    if output is not None:
        say(f"Wrote {output}.", style="bold", remark=True)


def _checked_output(arguments: argparse.Namespace) -> Path | None:
    if arguments.n < 0:
        raise InvalidParameter(f"n must not be negative, got {arguments.n}.")
    if arguments.output is None:
        return None
    output = Path(arguments.output)
    if output.suffix.lower() not in (*_PICTURES, *TABLE_FORMATS):
        raise InvalidParameter(
            f"-o writes a chart (.html, .svg, .png) or rows (.csv, .json, .parquet), and {output} is named otherwise."
        )
    if output.resolve() in (Path(arguments.before).resolve(), Path(arguments.after).resolve()):
        raise InvalidParameter(f"{output} is one of the releases, and is not replaced.")
    check_target(output, overwrite=arguments.overwrite)
    return output


def _explain(arguments: argparse.Namespace) -> Explanation:
    arguments.release = [arguments.before, arguments.after]
    return explain_reading(
        arguments,
        writes=outputs(arguments, "what changed, which anyone may see"),
        guarantee="Those of the two releases; comparing them spends nothing.",
    )
