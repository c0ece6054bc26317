"""The commands ``sketch build``, ``sketch merge``, ``sketch show`` and ``sketch publish``.

A sketch file is private: it holds keys and counts of the data, and is written so that only its owner can read it.

JSON:

- build, merge: `output`, `capacity`, `kind`, `form` (single, merged, user, summed);
- show: the same with `total`, `shortfall`, `counters` and `rows` (the largest first): for the owner's eyes;
- publish: as ``publish --json``.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from dptally.cli.ledger import add_ledger_options, ledger_of
from dptally.cli.outputs import save
from dptally.cli.parser import Parser, add_command, add_output_options, add_privacy, whole_number
from dptally.errors import InvalidParameter

if TYPE_CHECKING:
    import argparse

    from dptally.cli.parser import Commands
    from dptally.sketches import AnySketch

__all__ = ["add_commands"]


def add_commands(commands: Commands) -> None:
    """Add ``sketch`` with its own commands."""
    group = commands.add_parser(
        "sketch",
        help="streams in bounded memory: build, merge, publish",
        description="Summarise streams in bounded memory by Misra-Gries sketches, and publish them privately.",
        epilog="example:\n  dptally sketch build events.parquet --key url -k 10000 -o s.sketch",
    )
    inner = group.add_subparsers(title="commands", dest="sketch_command", metavar="COMMAND", required=True)
    _add_build(inner)
    _add_merge(inner)
    _add_show(inner)
    _add_publish(inner)


def _add_build(commands: Commands) -> None:
    build = add_command(
        commands,
        "build",
        _build,
        summary="make a sketch of files or of standard input",
        details=(
            "Count keys in bounded memory. The sketch file is private: only its owner may read it.\n"
            "With --unit, a unit counts once for each of its keys, of which a random choice of --max-keys-per-unit is\n"
            "kept. With --checkpoint, the sketch is written every so often, so that a killed process loses little."
        ),
        example="dptally sketch build events.parquet --key url -k 10000 -o s.sketch",
        also="dptally sketch build events.parquet --key url --unit user --max-keys-per-unit 8 -o users.sketch",
    )
    build.add_argument(
        "input", metavar="INPUT", nargs="+", help="file or glob (CSV, TSV, JSON lines, Parquet, .gz, .zst), or -"
    )
    build.add_argument("--key", metavar="COLUMN", required=True, help="key column")
    build.add_argument(
        "-k", "--capacity", metavar="K", type=whole_number, default=10_000, help="how many counters (default: 10000)"
    )
    build.add_argument("--unit", metavar="COLUMN", help="whose privacy (default: every row is its own unit)")
    build.add_argument(
        "--max-keys-per-unit", metavar="L", type=whole_number, default=1, help="with --unit (default: 1)"
    )
    build.add_argument(
        "--kind",
        choices=("string", "bytes", "integer", "unsigned"),
        help="what keys are; left out, the declared type of the column, or text in files that declare none",
    )
    build.add_argument("--format", choices=("csv", "tsv", "jsonl", "parquet"), help="where the file name does not tell")
    build.add_argument("--checkpoint", metavar="FILE", help="where to write the sketch while it is being made")
    _add_output(build)


def _add_merge(commands: Commands) -> None:
    merge = add_command(
        commands,
        "merge",
        _merge,
        summary="merge sketches of several streams",
        details=(
            "Merge sketches of equal capacity into one of that capacity. With --sum, their sensitivity is reduced\n"
            "first and they are added up: that takes memory for all of their counters, and needs far less noise when\n"
            "it is published. A sketch that holds a stream of another one, or is a copy of it, is refused."
        ),
        example="dptally sketch merge monday.sketch tuesday.sketch -o both.sketch",
        also="dptally sketch merge --sum monday.sketch tuesday.sketch -o both.sketch",
    )
    merge.add_argument("sketch", metavar="SKETCH", nargs="+", help="files written by dptally sketch build")
    merge.add_argument("--sum", action="store_true", help="reduce their sensitivity and add them up")
    _add_output(merge)


def _add_show(commands: Commands) -> None:
    show = add_command(
        commands,
        "show",
        _show,
        summary="what a sketch holds, for its owner only",
        details="Show the largest counters of a sketch. What is shown is private: it must not leave the data's owner.",
        example="dptally sketch show s.sketch -n 20",
        also="dptally sketch show s.sketch --json",
    )
    show.add_argument("sketch", metavar="SKETCH", help="a file written by dptally sketch build or merge")
    show.add_argument("-n", metavar="N", type=whole_number, default=10, help="how many keys (default: 10)")


def _add_publish(commands: Commands) -> None:
    publish = add_command(
        commands,
        "publish",
        _publish,
        summary="publish a sketch privately",
        details=(
            "Add noise that fits what the sketch is (of one stream, merged, of units, or added up), and publish what\n"
            "is above the threshold. A twentieth of epsilon goes to telling how far the sketch falls short of\n"
            "frequencies; --shortfall S states it instead, and --shortfall unknown leaves it open."
        ),
        example="dptally sketch publish s.sketch --epsilon 1 --delta 1e-6 -o release.parquet",
        also="dptally sketch publish s.sketch --epsilon 1 --universe ipv4 -o release.parquet",
    )
    publish.add_argument("sketch", metavar="SKETCH", help="a file written by dptally sketch build or merge")
    add_privacy(publish, keys_only=False, pure=True)
    publish.add_argument("--universe", metavar="NAME", help="all keys there may be, as ipv4 or uint64: delta is then 0")
    publish.add_argument("--name", metavar="COLUMN", help="name of the key column in the release")
    publish.add_argument(
        "--elements-per-unit",
        metavar="M",
        type=whole_number,
        default=1,
        help="elements of one unit in the stream, equal ones or not (default: 1)",
    )
    publish.add_argument("--shortfall", metavar="S", default="private", help="private, unknown, or a number")
    publish.add_argument(
        "--minimise",
        choices=("threshold", "error"),
        default="threshold",
        help="of the noise (default: threshold)",
    )
    add_ledger_options(publish)
    add_output_options(publish)


def _add_output(parser: Parser) -> None:
    parser.add_argument("-o", "--output", metavar="FILE", required=True, help="where to write the sketch")
    parser.add_argument("--overwrite", action="store_true", help="replace the output file if it exists")
    parser.add_argument("-q", "--quiet", action="store_true", help="print nothing but what was asked for")
    parser.add_argument("--no-progress", action="store_true", help="show no progress on a terminal")


def _build(arguments: argparse.Namespace) -> None:
    from dptally.files import check_target
    from dptally.progress import progress_reporter
    from dptally.sketches import MisraGriesSketch, UserMisraGriesSketch

    output = Path(arguments.output)
    check_target(output, overwrite=arguments.overwrite)
    if arguments.unit is None and arguments.max_keys_per_unit != 1:
        raise InvalidParameter("--max-keys-per-unit needs --unit: without one, every row is its own unit with one key.")
    source = arguments.input[0] if len(arguments.input) == 1 else arguments.input
    options: dict[str, Any] = {"format": arguments.format, "checkpoint": arguments.checkpoint}
    sketch: AnySketch
    with progress_reporter(False if arguments.quiet or arguments.no_progress else None) as report:
        if arguments.unit is None:
            sketch = MisraGriesSketch(arguments.capacity, kind=arguments.kind)
            sketch.update_file(source, key=arguments.key, progress=report, **options)
        else:
            sketch = UserMisraGriesSketch(arguments.capacity, arguments.max_keys_per_unit, kind=arguments.kind)
            sketch.update_file(source, key=arguments.key, unit=arguments.unit, progress=report, **options)
    _deliver(arguments, sketch, output)


def _merge(arguments: argparse.Namespace) -> None:
    from dptally.files import check_target
    from dptally.sketches import load_sketch, merge_sketches, sum_sketches

    output = Path(arguments.output)
    check_target(output, overwrite=arguments.overwrite)
    sketches = [load_sketch(path) for path in arguments.sketch]
    _deliver(arguments, sum_sketches(sketches) if arguments.sum else merge_sketches(sketches), output)


def _deliver(arguments: argparse.Namespace, sketch: AnySketch, output: Path) -> None:
    from dptally.cli.printing import print_json, say

    save(sketch.save, output, overwrite=arguments.overwrite)
    if arguments.json:
        print_json({"output": str(output), **_facts(sketch)})
    elif not arguments.quiet:
        say(f"Wrote {output}: private, for its owner only. Next: `dptally sketch publish {output} --epsilon 1 ...`.")


def _facts(sketch: AnySketch) -> dict[str, Any]:
    return {"capacity": sketch.capacity, "kind": sketch.kind, "form": sketch.form}


def _show(arguments: argparse.Namespace) -> None:
    import polars as pl

    from dptally.cli.printing import json_rows, print_json, print_table, say
    from dptally.sketches import load_sketch

    if arguments.n < 0:
        raise InvalidParameter(f"n must not be negative, got {arguments.n}.")
    sketch = load_sketch(arguments.sketch)
    items = pl.DataFrame(pl.from_arrow(sketch.items()))
    rows = items.sort(["estimate", "key"], descending=[True, False]).head(arguments.n)
    if arguments.json:
        private = {"total": sketch.total, "shortfall": sketch.shortfall, "counters": len(sketch)}
        print_json({**_facts(sketch), **private, "rows": json_rows(rows)})
        return
    say(
        f"{arguments.sketch}: {sketch.form} sketch, {len(sketch):,} of {sketch.capacity:,} counters, {sketch.total:,} "
        f"elements; frequencies exceed counters by at most {sketch.shortfall:,}.",
        style="bold",
    )
    say("What follows is private: for the data's owner only.", style="bold red")
    print_table(rows, keys=1)


def _publish(arguments: argparse.Namespace) -> None:
    from dptally.cli.publish import deliver, prepare
    from dptally.sketches import load_sketch

    arguments.input = [arguments.sketch]
    request = prepare(arguments)
    sketch = load_sketch(arguments.sketch)
    release = sketch.publish(
        arguments.epsilon,
        arguments.delta,
        universe=arguments.universe,
        name=arguments.name,
        elements_per_unit=arguments.elements_per_unit,
        shortfall=_shortfall(arguments.shortfall),
        minimise=arguments.minimise,
        ledger=ledger_of(arguments),
        randomness=request.randomness,
    )
    deliver(arguments, request, release)


def _shortfall(text: str) -> Any:
    if text in ("private", "unknown"):
        return None if text == "unknown" else text
    try:
        return int(text)
    except ValueError:
        raise InvalidParameter(f"--shortfall must be private, unknown or a whole number, got {text[:40]!r}.") from None
