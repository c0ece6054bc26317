"""The commands of ``sketch``. A sketch file is private: only its owner can read it."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dptally.cli import options
from dptally.cli.explain import Explanation, described, explain_release, inputs
from dptally.cli.outputs import deliver, prepare, save
from dptally.cli.parser import Commands, Parser, add_choice, add_command, add_flag, add_group, add_number, add_value
from dptally.cli.printing import json_rows, print_json, print_table, say
from dptally.errors import InvalidParameter
from dptally.files import check_target
from dptally.progress import progress_reporter

if TYPE_CHECKING:
    from dptally.sketches import AnySketch


def add_commands(commands: Commands) -> None:
    """Add ``sketch`` with its own commands."""
    inner = add_group(
        commands,
        "sketch",
        summary="streams in bounded memory: build, merge, publish",
        details="Summarise streams in bounded memory by Misra-Gries sketches, and publish them privately.",
        example="dptally sketch build events.parquet --key url -k 10000 -o s.sketch",
    )
    build = add_command(inner, "build", _build, _explain)
    files = "file or glob (CSV, TSV, JSON lines, Parquet, .gz, .zst), or -"
    add_value(build, "input", "INPUT", files, nargs="+")
    add_value(build, "--key", "COLUMN", "key column", required=True)
    add_number(build, "-k --capacity", "K", "how many counters", default=10_000)
    options.add_unit(build)
    options.add_unit_bound(build)
    kind = "what keys are; left out, the declared type of the column, or text in files that declare none"
    add_choice(build, "--kind", ("string", "bytes", "integer", "unsigned"), kind)
    options.add_format(build)
    options.add_filter(build)
    add_value(build, "--checkpoint", "FILE", "where to write the sketch while it is being made")
    _add_output(build)

    merge = add_command(inner, "merge", _merge, _explain)
    add_value(merge, "sketch", "SKETCH", "files written by dptally sketch build", nargs="+")
    add_flag(merge, "--sum", "reduce their sensitivity and add them up")
    _add_output(merge)

    show = add_command(inner, "show", _show, _explain)
    add_value(show, "sketch", "SKETCH", "a file written by dptally sketch build or merge")
    add_number(show, "-n", "N", "how many keys", default=10)

    publish = add_command(inner, "publish", _publish, _explain_publish)
    add_value(publish, "sketch", "SKETCH", "a file written by dptally sketch build or merge")
    options.add_privacy(publish, keys_only=False, pure=True)
    add_value(publish, "--universe", "NAME", "all keys there may be, as ipv4 or uint64: delta is then 0")
    add_value(publish, "--name", "COLUMN", "name of the key column in the release")
    elements = "elements of one unit in the stream, equal ones or not"
    add_number(publish, "--elements-per-unit", "M", elements, default=1)
    add_value(publish, "--shortfall", "S", "private, unknown, or a number", default="private")
    add_choice(publish, "--minimise", ("threshold", "error"), "of the noise", default="threshold")
    options.add_ledger_options(publish)
    options.add_output_options(publish)


def _add_output(parser: Parser) -> None:
    add_value(parser, "-o --output", "FILE", "where to write the sketch", required=True)
    options.add_overwrite(parser)
    add_flag(parser, "-q --quiet", "print only the requested output")
    add_flag(parser, "--no-progress", "show no progress on a terminal")


def _build(arguments: argparse.Namespace) -> None:
    """Make a sketch of files or of standard input.

    Count keys in bounded memory. The sketch file is private: only its owner may read it.
    With --unit, a unit counts once for each of its keys, of which a random choice of --max-keys-per-unit is
    kept. With --checkpoint, the sketch is written every so often, so that a killed process loses little.

    dptally sketch build events.parquet --key url -k 10000 -o s.sketch
    dptally sketch build events.parquet --key url --unit user --max-keys-per-unit 8 -o users.sketch
    """
    from dptally.sketches import MisraGriesSketch, UserMisraGriesSketch

    check_target(Path(arguments.output), overwrite=arguments.overwrite)
    if arguments.unit is None and arguments.max_keys_per_unit != 1:
        raise InvalidParameter("--max-keys-per-unit needs --unit: without one, every row is its own unit with one key.")
    source = arguments.input[0] if len(arguments.input) == 1 else arguments.input
    asked = options.given(arguments, f"key format checkpoint {options.FILTER}")
    sketch: Any
    if arguments.unit is None:
        sketch = MisraGriesSketch(arguments.capacity, kind=arguments.kind)
    else:
        asked["unit"] = arguments.unit
        sketch = UserMisraGriesSketch(arguments.capacity, arguments.max_keys_per_unit, kind=arguments.kind)
    with progress_reporter(False if arguments.quiet or arguments.no_progress else None) as report:
        sketch.update_file(source, progress=report, **asked)
    _deliver(arguments, sketch)


def _merge(arguments: argparse.Namespace) -> None:
    """Merge sketches of several streams.

    Merge sketches of equal capacity into one of that capacity. With --sum, their sensitivity is reduced
    first and they are added up: that takes memory for all of their counters, and needs far less noise when
    it is published. A sketch that holds a stream of another one, or is a copy of it, is refused.

    dptally sketch merge monday.sketch tuesday.sketch -o both.sketch
    dptally sketch merge --sum monday.sketch tuesday.sketch -o both.sketch
    """
    from dptally.sketches import load_sketch, merge_sketches, sum_sketches

    check_target(Path(arguments.output), overwrite=arguments.overwrite)
    sketches = [load_sketch(path) for path in arguments.sketch]
    _deliver(arguments, sum_sketches(sketches) if arguments.sum else merge_sketches(sketches))


def _deliver(arguments: argparse.Namespace, sketch: AnySketch) -> None:
    output = Path(arguments.output)
    save(sketch.save, output, overwrite=arguments.overwrite)
    if arguments.json:
        print_json({"output": str(output), **_facts(sketch)})
    elif not arguments.quiet:
        say(f"Wrote {output}: private, for its owner only. Next: `dptally sketch publish {output} --epsilon 1 ...`.")


def _facts(sketch: AnySketch) -> dict[str, Any]:
    return {"capacity": sketch.capacity, "kind": sketch.kind, "form": sketch.form}


def _show(arguments: argparse.Namespace) -> None:
    """What a sketch holds, for its owner only.

    Show the largest counters of a sketch. What is shown is private: it must not leave the data's owner.

    dptally sketch show s.sketch -n 20
    dptally sketch show s.sketch --json
    """
    import polars as pl

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
        f"elements; true counts exceed counters by at most {sketch.shortfall:,}.",
        style="bold",
    )
    say("What follows is private: for the data's owner only.", style="bold red")
    print_table(rows, keys=1)


def _publish(arguments: argparse.Namespace) -> None:
    """Publish a sketch privately.

    Add noise that fits the kind of sketch (of one stream, merged, of units, or added up), and publish what
    is above the threshold. A twentieth of epsilon is spent on how far the sketch falls short of true
    counts; --shortfall S states it instead, and --shortfall unknown leaves it open.

    dptally sketch publish s.sketch --epsilon 1 --delta 1e-6 -o release.parquet
    dptally sketch publish s.sketch --epsilon 1 --universe ipv4 -o release.parquet
    """
    from dptally.sketches import load_sketch

    request = prepare(arguments)
    del request.common["progress"]  # a sketch is small
    release = load_sketch(arguments.sketch).publish(
        **options.given(arguments, "epsilon delta universe name elements_per_unit minimise"),
        shortfall=_shortfall(arguments.shortfall),
        **request.common,
    )
    deliver(arguments, request, release)


def _shortfall(text: str) -> Any:
    if text in ("private", "unknown"):
        return None if text == "unknown" else text
    try:
        return int(text)
    except ValueError:
        raise InvalidParameter(f"--shortfall must be private, unknown or a whole number, got {text[:40]!r}.") from None


def _explain(arguments: argparse.Namespace) -> Explanation:
    private = "PRIVATE, for its owner only"
    written = [f"{arguments.output}: the sketch, {private}"] if "output" in arguments else []
    if getattr(arguments, "checkpoint", None) is not None:
        written.append(f"{arguments.checkpoint}: the sketch so far, {private}, every so often")
    return Explanation(
        described(arguments),
        reads=inputs(arguments),
        writes=tuple(written),
        guarantee="None: a sketch holds private data and must not leave its owner.",
        cost="Nothing is spent before the sketch is published.",
        resources="Some ten million rows a second; memory for the counters, whatever the data.",
    )


def _explain_publish(arguments: argparse.Namespace) -> Explanation:
    return explain_release(arguments, pure=arguments.universe is not None, unit="unit of the sketch")
