"""The command ``publish``.

JSON: `format_version`, `key`, `guarantee`, `law`, `certificate` as in the metadata of a release file (fractions as
strings, `guarantee.epsilon_float` and `guarantee.delta_float` beside them), `keys_released`, `guarantee_text`, `output`
(the path, or null), and without ``-o`` also `rows`.
"""

from __future__ import annotations

import glob
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from dptally.cli.parser import add_command, add_confidence, add_privacy, whole_number
from dptally.errors import InvalidParameter

if TYPE_CHECKING:
    import argparse

    from dptally.cli.parser import Commands
    from dptally.release import Release

__all__ = ["add_commands", "summarize"]

_OTHER_FORMATS = (".csv", ".tsv", ".json", ".jsonl", ".ndjson", ".txt")


def add_commands(commands: Commands) -> None:
    """Add ``publish``."""
    parser = add_command(
        commands,
        "publish",
        _publish,
        summary="publish keys and counts of files",
        details=(
            "Count the keys of files and publish those that privacy allows, each with a value from the same draw.\n"
            "With -o the release is written as one Parquet file. Without it the released table is printed: readable\n"
            "on a terminal, as CSV into a pipe or file, as JSON with --json; what is promised goes to standard error."
        ),
        example=(
            "dptally publish events.parquet --key query --unit user_id --max-keys-per-unit 3 "
            "--epsilon 1 --delta 1e-6 -o release.parquet"
        ),
    )
    parser.add_argument(
        "input", metavar="INPUT", nargs="+", help="file or glob (CSV, TSV, JSON lines, Parquet, .gz, .zst), or -"
    )
    parser.add_argument(
        "--key", metavar="COLUMN", action="append", required=True, help="key column; repeat for several"
    )
    parser.add_argument("--unit", metavar="COLUMN", help="whose privacy (default: every row is its own unit)")
    add_privacy(parser)
    parser.add_argument("-o", "--output", metavar="FILE", help="where to write the release (Parquet)")
    parser.add_argument("--overwrite", action="store_true", help="replace the output file if it exists")
    parser.add_argument("--count", metavar="COLUMN", help="counts, for data that is already aggregated")
    parser.add_argument(
        "--nulls", choices=("drop", "keep"), default="drop", help="rows with a null key (default: drop)"
    )
    parser.add_argument(
        "--format", choices=("csv", "tsv", "jsonl", "parquet"), help="where the file name does not tell"
    )
    parser.add_argument("--memory-limit", metavar="SIZE", help="for the counting engine, such as 2GB")
    add_confidence(parser, help="of the printed bounds (default: 0.95); a file's bounds are computed when it is read")
    parser.add_argument("--mechanism", default="weighted_sample", help="default: weighted_sample")
    parser.add_argument(
        "--not-private-seed",
        metavar="N",
        type=whole_number,
        help="repeatable draws for tests: the release is not private",
    )
    parser.add_argument("-q", "--quiet", action="store_true", help="print nothing but what was asked for")
    parser.add_argument("--no-progress", action="store_true", help="show no progress on a terminal")


def _publish(arguments: argparse.Namespace) -> None:
    from dptally.cli.printing import describe, json_rows, print_json, print_rows
    from dptally.estimates.frequencies import as_confidence
    from dptally.pipeline import publish
    from dptally.randomness import SeededBits

    confidence = as_confidence("0.95" if arguments.confidence is None else arguments.confidence)
    output = None if arguments.output is None else _checked_output(arguments)
    seed = arguments.not_private_seed
    release = publish(
        arguments.input[0] if len(arguments.input) == 1 else arguments.input,
        key=arguments.key,
        unit=arguments.unit,
        max_keys_per_unit=arguments.max_keys_per_unit,
        epsilon=arguments.epsilon,
        delta=arguments.delta,
        mechanism=arguments.mechanism,
        values=not arguments.keys_only,
        count=arguments.count,
        nulls=arguments.nulls,
        format=arguments.format,
        memory_limit=arguments.memory_limit,
        randomness=None if seed is None else SeededBits(seed),
        progress=False if arguments.quiet or arguments.no_progress else None,
    )
    if output is not None:
        release.save(output, overwrite=arguments.overwrite)
    if arguments.json:
        facts = {**describe(release), "output": None if output is None else str(output)}
        print_json(facts if output is not None else {**facts, "rows": json_rows(release.table(confidence=confidence))})
    elif output is None:
        print_rows(release, release.table(confidence=confidence))
    if not arguments.quiet and not arguments.json:
        summarize(release, output, remark=output is None)


def _checked_output(arguments: argparse.Namespace) -> Path:
    """Refuse an output that cannot or must not be written, before anything is read."""
    from dptally.whole_files import check_target

    output = Path(arguments.output)
    if arguments.confidence is not None:
        raise InvalidParameter(
            "--confidence is for a printed table: the bounds of a file are computed when it is read; see dptally top."
        )
    if output.suffix.lower() in _OTHER_FORMATS:
        raise InvalidParameter(
            f"-o writes a Parquet file, and {output} is named otherwise; leave out -o and redirect to get CSV or JSON."
        )
    check_target(output, overwrite=arguments.overwrite)
    if output.exists() and any(output.samefile(found) for given in arguments.input for found in glob.glob(given)):  # noqa: PTH207
        raise InvalidParameter(f"{output} is also an input; the release needs a file of its own.")
    return output


def summarize(release: Release, output: Path | None, *, remark: bool) -> None:
    """Say what was released, what is promised, and what to do next."""
    from dptally.cli.printing import say

    place = "" if output is None else f" to {output}"
    say(f"{len(release):,} {'key' if len(release) == 1 else 'keys'} released{place}.", style="bold", remark=remark)
    if not len(release):
        say(_why_empty(release), remark=remark)
    say(str(release.guarantee), style="" if release.guarantee.private else "bold red", remark=remark)
    say(f"Certificate: {release.certificate}", remark=remark)
    if output is not None and len(release):
        file = shlex.quote(str(output))
        say(f"Next: `dptally top {file}`, `dptally show {file}`, `dptally plot {file} -o picture.png`.", remark=remark)


def _why_empty(release: Release) -> str:
    from dptally.planning import plan

    promise = release.guarantee
    forecast = plan(
        epsilon=promise.epsilon,
        delta=promise.delta,
        max_keys_per_unit=promise.max_keys_per_unit,
        values=release.law.values,
    )
    return (
        f"No key was frequent enough to be told apart from chance. {forecast} "
        "More data, coarser keys, fewer keys per unit, or a larger epsilon or delta would release more."
    )
