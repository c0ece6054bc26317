"""The command ``publish``.

JSON: `format_version`, `key`, `guarantee`, `law`, `certificate` as in the metadata of a release file (fractions as
strings, `guarantee.epsilon_float` and `guarantee.delta_float` beside them), `keys_released`, `guarantee_text`, `output`
(the path, or null), and without ``-o`` also `rows`. For the mechanism ``compact``: `universe`, `universe_size`,
`capacity`, `beyond_capacity`, `law`, `guarantee`, `certificate`, `guarantee_text`, `output`.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, cast

from dptally.cli.ledger import add_ledger_options, ledger_of
from dptally.cli.outputs import save_release
from dptally.cli.parser import (
    DATABASES,
    add_command,
    add_release_options,
    add_sampling,
    add_source,
    add_unit_bound,
    sampling_of,
    source_of,
    types_of,
    whole_number,
)
from dptally.errors import InvalidParameter

if TYPE_CHECKING:
    import argparse
    from fractions import Fraction

    from dptally.cli.parser import Commands
    from dptally.randomness import BitSource
    from dptally.releases.compact_release import CompactRelease
    from dptally.releases.release import Release

__all__ = ["Request", "add_commands", "deliver", "prepare", "summarize"]

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
            "on a terminal, as CSV into a pipe or file, as JSON with --json; what is promised goes to standard error.\n"
            "\n"
            "Mechanisms: weighted_sample, stability, gaussian, sample_and_threshold and misra_gries (which counts in\n"
            "a sketch of bounded memory) report keys of the data and need --delta. dense, sparse and compact need\n"
            "--universe and no --delta: dense gives each listed key a value, sparse the heaviest keys of a huge\n"
            "universe, compact answers any key of it (dptally count). Universes: uint64, ipv4, ipv6, uuid, date,\n"
            "e164, words:12, strings:4:ACGT, integers:0..99; for dense also a file with the keys.\n"
            "\n"
            f"{DATABASES}"
        ),
        example=(
            "dptally publish events.parquet --key query --unit user_id --max-keys-per-unit 3 "
            "--epsilon 1 --delta 1e-6 -o release.parquet"
        ),
        also="dptally publish hits.csv --key ip --mechanism sparse --universe ipv4 --epsilon 1 -o release.parquet",
    )
    add_source(parser)
    parser.add_argument("--unit", metavar="COLUMN", help="whose privacy (default: every row is its own unit)")
    add_unit_bound(parser)
    add_release_options(parser, pure=True)
    parser.add_argument("--count", metavar="COLUMN", help="counts, for data that is already aggregated")
    parser.add_argument("--memory-limit", metavar="SIZE", help="for the counting engine, such as 2GB")
    parser.add_argument(
        "--engine",
        choices=("auto", "polars", "duckdb", "spark"),
        default="auto",
        help="what reads and counts (default: auto); the release follows the same law",
    )
    parser.add_argument("--mechanism", default="weighted_sample", help="see above (default: weighted_sample)")
    parser.add_argument("--universe", metavar="NAME", help="all keys there may be: a name, or for dense a file of keys")
    parser.add_argument(
        "--capacity",
        metavar="N",
        type=whole_number,
        help="counters of misra_gries, keys a sparse release holds, or occurrences a compact one is made from "
        "(default: 10000; strict time: 100)",
    )
    parser.add_argument("--bound", metavar="N", type=whole_number, help="largest count of dense, sparse and compact")
    parser.add_argument(
        "--beyond-capacity",
        choices=("subsample", "refuse"),
        help="compact: keep a random choice of so many occurrences (default), or refuse data with more distinct keys",
    )
    add_ledger_options(parser)
    parser.add_argument("--strict-time", action="store_true", help="sparse from a fixed number of bits; slow")
    add_sampling(
        parser,
        help="ppswor:RATE or priority:RATE, with :POWER if it is not 1, or ppswor:size=KEYS (default: no sampling)",
    )


def _publish(arguments: argparse.Namespace) -> None:
    from dptally.publishing import publish
    from dptally.releases.release import Release

    request = prepare(arguments)
    if arguments.mechanism == "compact" and request.output is None:
        raise InvalidParameter("mechanism 'compact' makes no table to print; say with -o which file to write.")
    release = publish(
        request.source,
        key=arguments.key,
        unit=arguments.unit,
        max_keys_per_unit=arguments.max_keys_per_unit,
        epsilon=arguments.epsilon,
        delta=arguments.delta,
        mechanism=arguments.mechanism,
        universe=arguments.universe,
        capacity=arguments.capacity,
        bound=arguments.bound,
        strict_time=arguments.strict_time,
        beyond_capacity=arguments.beyond_capacity,
        sampling=sampling_of(arguments),
        values=not arguments.keys_only,
        ledger=ledger_of(arguments),
        count=arguments.count,
        nulls=arguments.nulls,
        format=arguments.format,
        memory_limit=arguments.memory_limit,
        randomness=request.randomness,
        progress=request.progress,
        table=arguments.table,
        query=arguments.query,
        engine=arguments.engine,
        types=types_of(arguments),
    )
    if isinstance(release, Release):
        deliver(arguments, request, release)
    else:
        _deliver_compact(arguments, request, cast("CompactRelease", release))


@dataclass(frozen=True)
class Request:
    """What the shared options of ``publish`` and ``sanitize`` come down to."""

    source: str | list[str]
    output: Path | None
    confidence: Fraction
    randomness: BitSource | None
    progress: bool | None


def prepare(arguments: argparse.Namespace) -> Request:
    """Check what can be checked before anything is read."""
    from dptally.estimates.frequencies import as_confidence
    from dptally.randomness import SeededBits

    seed = arguments.not_private_seed
    return Request(
        source=source_of(arguments),
        confidence=as_confidence("0.95" if arguments.confidence is None else arguments.confidence),
        output=None if arguments.output is None else _checked_output(arguments),
        randomness=None if seed is None else SeededBits(seed),
        progress=False if arguments.quiet or arguments.no_progress else None,
    )


def deliver(arguments: argparse.Namespace, request: Request, release: Release) -> None:
    """Write or print a release, and say what it is."""
    from dptally.cli.printing import describe, json_rows, print_json, print_rows

    output = request.output
    if output is not None:
        save_release(release.save, output, overwrite=arguments.overwrite)
    if arguments.json:
        facts = {**describe(release), "output": None if output is None else str(output)}
        rows = {} if output is not None else {"rows": json_rows(release.table(confidence=request.confidence))}
        print_json({**facts, **rows})
    elif output is None:
        print_rows(release, release.table(confidence=request.confidence))
    if not arguments.quiet and not arguments.json:
        summarize(release, output, remark=output is None)


def _deliver_compact(arguments: argparse.Namespace, request: Request, release: CompactRelease) -> None:
    """Write a compact release, and say what it is."""
    from dptally.cli.printing import describe, print_json, say

    output = Path(request.output or "")
    save_release(release.save, output, overwrite=arguments.overwrite)
    if arguments.json:
        print_json({**describe(release), "output": str(output)})
    elif not arguments.quiet:
        say(
            f"Counts of all {release.universe.size:,} keys of {release.universe.name} written to {output}.",
            style="bold",
        )
        if release.beyond_capacity == "subsample":
            say(f"If the data has more than {release.capacity:,} occurrences, the counts are those of a random choice.")
        say(str(release.guarantee), style="" if release.guarantee.private else "bold red")
        say(f"Certificate: {release.certificate}")
        file = shlex.quote(str(output))
        say(f"Next: `dptally count {file} KEY`, `dptally show {file}`.")


def _checked_output(arguments: argparse.Namespace) -> Path:
    """Refuse an output that cannot or must not be written, before anything is read."""
    from dptally.files import check_target

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
    if release.guarantee.sketch_capacity is not None:
        say(str(release.sketch_error()), remark=remark)
    if output is not None and len(release):
        file = shlex.quote(str(output))
        say(f"Next: `dptally top {file}`, `dptally show {file}`, `dptally plot {file} -o picture.png`.", remark=remark)


def _why_empty(release: Release) -> str:
    from fractions import Fraction

    if release.law.keep is not None:
        return (
            f"No key stood out: more than {release.law.keep:,} keys, or none, had the largest noisy counts. "
            "A larger capacity, more data, coarser keys, fewer keys per unit, or a larger epsilon would release more."
        )
    half, likely = (release.law.first_frequency(share) for share in (Fraction(1, 2), Fraction(95, 100)))
    if half is None or likely is None:
        chances = "Sampling takes no key often enough to be likely to appear."
    else:
        chances = f"A key is reported half the time at frequency {half:,}, and 95 % of the time at {likely:,}"
        chances += f"{_beyond_shortfall(release)}."
    more = "More data" if release.guarantee.sketch_capacity is None else "More counters (--capacity)"
    return (
        f"No key was frequent enough to be told apart from chance. {chances} "
        f"{more}, coarser keys, fewer keys per unit, or a larger epsilon or delta would release more."
    )


def _beyond_shortfall(release: Release) -> str:
    """What a sketch takes from frequencies before noise and threshold, in words; nothing where counts are exact."""
    if release.guarantee.sketch_capacity is None:
        return ""
    shortfall = release.sketch_error().sketch
    if shortfall is None:
        return ", above a shortfall of the sketch that is not told"
    return f", above the shortfall of the sketch of up to {shortfall:,}"
