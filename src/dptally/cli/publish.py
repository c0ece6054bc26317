"""The command ``publish``.

JSON: `format_version`, `key`, `guarantee`, `law`, `certificate` as in the metadata of a release file (fractions as
strings, `guarantee.epsilon_float` and `guarantee.delta_float` beside them), `keys_released`, `guarantee_text`, `output`
(the path, or null), and without ``-o`` also `rows`. For the mechanism ``compact``: `universe`, `universe_size`,
`capacity`, `beyond_capacity`, `law`, `guarantee`, `certificate`, `guarantee_text`, `output`.
"""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, cast

from dptally.cli import options
from dptally.cli.delivery import Request, deliver, prepare
from dptally.cli.explain import COUNTING, Explanation, expected, explain_release
from dptally.cli.outputs import save_release
from dptally.cli.parser import add_choice, add_command, add_flag, add_number, add_value
from dptally.errors import InvalidParameter
from dptally.laws.registry import USUAL, mechanism_class, read_mechanism

if TYPE_CHECKING:
    import argparse

    from dptally.cli.parser import Commands
    from dptally.releases.compact_release import CompactRelease

__all__ = ["add_commands"]

_OF_MECHANISMS = "universe capacity bound strict_time beyond_capacity"


def add_commands(commands: Commands) -> None:
    """Add ``publish``."""
    parser = add_command(commands, "publish", _publish, _explain, further=options.DATABASES)
    options.add_source(parser)
    options.add_unit(parser)
    options.add_unit_bound(parser)
    options.add_release_options(parser, pure=True)
    options.add_counting(parser)
    add_choice(parser, "--engine", ("auto", "polars", "duckdb", "spark"), "what reads and counts", default="auto")
    add_value(parser, "--mechanism", "NAME", "see above", default=USUAL, choices=options.MECHANISMS)
    add_value(parser, "--universe", "NAME", "all keys there may be: a name, or for dense a file of keys")
    add_number(
        parser,
        "--capacity",
        "N",
        "counters of misra_gries, keys a sparse release holds, or occurrences a compact one is made from "
        "(default: 10000; strict time: 100)",
    )
    add_number(parser, "--bound", "N", "largest count of dense, sparse and compact")
    beyond = "compact: keep a random choice of so many occurrences (default), or refuse data with more distinct keys"
    add_choice(parser, "--beyond-capacity", ("subsample", "refuse"), beyond)
    add_flag(parser, "--strict-time", "sparse from a fixed number of bits; slow")
    sampling = "ppswor:RATE or priority:RATE, with :POWER if it is not 1, or ppswor:size=KEYS (default: no sampling)"
    add_value(parser, "--sampling", "SCHEME", sampling)
    options.add_ledger_options(parser)
    options.add_output_options(parser)


def _publish(arguments: argparse.Namespace) -> None:
    """Publish keys and counts of files.

    Count the keys of files and publish those that privacy allows, each with a noisy count.
    With -o the release is written as one Parquet file. Without it the released table is printed: readable
    on a terminal, as CSV into a pipe or file, as JSON with --json; the guarantee goes to standard error.

    Mechanisms: weighted_sample, stability, gaussian, sample_and_threshold and misra_gries (which counts in
    a sketch of bounded memory) report keys of the data and need --delta. dense, sparse and compact need
    --universe and no --delta: dense gives each listed key a value, sparse the most frequent keys of a huge
    universe, compact answers any key of it (dptally count). Universes: uint64, ipv4, ipv6, uuid, date,
    e164, words:12, strings:4:ACGT, integers:0..99; for dense also a file with the keys.

    dptally publish events.parquet --key query --unit user --max-keys-per-unit 3 --epsilon 1 --delta 1e-6 -o r.parquet
    dptally publish hits.csv --key ip --mechanism sparse --universe ipv4 --epsilon 1 -o release.parquet
    """
    from dptally.publishing import publish
    from dptally.releases.table_release import TableRelease

    request = prepare(arguments)
    name = arguments.mechanism
    if request.output is None and mechanism_class(name).kind != "table":
        raise InvalidParameter(f"mechanism {name!r} makes no table to print; give the file to write with -o.")
    release = publish(
        options.source_of(arguments),
        **options.given(arguments, "key unit max_keys_per_unit epsilon delta count nulls format memory_limit engine"),
        **options.given(arguments, f"mechanism {_OF_MECHANISMS} table query"),
        sampling=options.sampling_of(arguments),
        values=not arguments.keys_only,
        types=options.types_of(arguments),
        **request.common,
    )
    if isinstance(release, TableRelease):
        deliver(arguments, request, release)
    else:
        _deliver_compact(arguments, request, cast("CompactRelease", release))


def _deliver_compact(arguments: argparse.Namespace, request: Request, release: CompactRelease) -> None:
    """Write a compact release, and say what it is."""
    from dptally.cli.printing import describe, print_json, say, say_guarantee

    output = Path(request.output or "")
    save_release(release.save, output, overwrite=arguments.overwrite)
    if arguments.json:
        print_json({**describe(release), "output": str(output)})
    elif not arguments.quiet:
        keys = f"all {release.universe.size:,} keys of {release.universe.name}"
        say(f"Counts of {keys} written to {output}.", style="bold")
        if release.beyond_capacity == "subsample":
            say(f"If the data has more than {release.capacity:,} occurrences, the counts are those of a random choice.")
        say_guarantee(release)
        file = shlex.quote(str(output))
        say(f"Next: `dptally count {file} KEY`, `dptally show {file}`.")


def _explain(arguments: argparse.Namespace) -> Explanation:
    from dptally.request import read_request

    scheme = options.sampling_of(arguments)
    request = read_request(
        **options.given(arguments, "epsilon delta max_keys_per_unit key unit nulls"),
        values=not arguments.keys_only,
        sampling=scheme,
    )
    mechanism = read_mechanism(arguments.mechanism, **options.given(arguments, _OF_MECHANISMS))
    planned = arguments.universe is None and (scheme is None or scheme.size is None)  # nothing is read, nor a list
    expect = expected(mechanism.plan(request).planned_law) if planned else ""
    columns = " and ".join(repr(column) for column in arguments.key)
    counted = "rows" if arguments.unit is None else f"different {arguments.unit!r}"
    sampled = "" if scheme is None else f" Keys are sampled by {scheme} first, with secret randomness."
    return explain_release(
        arguments,
        f"Count how many {counted} each value of {columns} has, and publish it by the mechanism {mechanism.name!r}: "
        f"{mechanism.summary}.{sampled}",
        pure=mechanism.pure,
        unit=request.unit,
        keys=request.max_keys_per_unit,
        resources=COUNTING,
        expect=expect,
    )
