"""The commands ``publish``, and ``sanitize`` for a sample that exists already."""

from __future__ import annotations

import argparse
import shlex
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING

from dptally.cli import options
from dptally.cli.explain import COUNTING, Explanation, expected, explain_release
from dptally.cli.outputs import deliver, prepare
from dptally.cli.parser import Commands, add_choice, add_command, add_flag, add_number, add_value
from dptally.cli.printing import say, say_guarantee
from dptally.errors import InvalidParameter
from dptally.laws.choosing import AUTO, choose_mechanism
from dptally.laws.registry import USUAL, mechanism_class, read_mechanism

if TYPE_CHECKING:
    from dptally.laws.spec import Request, Spec
    from dptally.laws.statistics import Statistics
    from dptally.releases.compact_release import CompactRelease

_OF_MECHANISMS = "universe capacity bound strict_time beyond_capacity"


def add_commands(commands: Commands) -> None:
    """Add ``publish`` and ``sanitize``."""
    parser = add_command(commands, "publish", _publish, _explain, further=options.DATABASES)
    options.add_source(parser)
    options.add_unit(parser)
    options.add_unit_bound(parser, measured=True)
    options.add_release_options(parser, pure=True)
    options.add_counting(parser, rows=True)
    options.add_statistics(parser)
    add_choice(parser, "--engine", ("auto", "polars", "duckdb", "spark"), "what reads and counts", default="auto")
    names = options.MechanismNames(before=(AUTO,))
    add_value(parser, "--mechanism", "NAME", "see above", default=AUTO, choices=names)
    add_value(parser, "--universe", "NAME", "all keys there may be: a name, or for dense a file of keys")
    capacity = (
        "counters of misra_gries, keys a sparse release holds, or occurrences a compact one is made from "
        "(default: 10000; strict time: 100)"
    )
    add_number(parser, "--capacity", "N", capacity)
    add_number(parser, "--bound", "N", "largest count of dense, sparse and compact")
    beyond = "compact: keep a random choice of so many occurrences (default), or refuse data with more distinct keys"
    add_choice(parser, "--beyond-capacity", ("subsample", "refuse"), beyond)
    add_flag(parser, "--strict-time", "sparse from a fixed number of bits; slow")
    sampling = "ppswor:RATE or priority:RATE, with :POWER if it is not 1, or ppswor:size=KEYS (default: no sampling)"
    add_value(parser, "--sampling", "SCHEME", sampling)
    options.add_ledger_options(parser)
    options.add_output_options(parser)

    parser = add_command(commands, "sanitize", _sanitize, _explain_sanitize)
    add_value(parser, "input", "SAMPLE", "file or glob with sampled keys and their counts", nargs="+")
    sampling = "how the sample was drawn: ppswor:RATE or priority:RATE, with :POWER"
    add_value(parser, "--sampling", "SCHEME", sampling, required=True, dest="scheme")
    add_value(parser, "--count", "COLUMN", "the exact count of each key", required=True)
    options.add_release_options(parser)
    options.add_format(parser)
    options.add_ledger_options(parser)
    options.add_output_options(parser)


def _publish(arguments: argparse.Namespace) -> None:
    """Publish keys and counts of files.

    Count the keys of files and publish those that privacy allows, each with a noisy count.
    With -o the release is written as one Parquet file. Without it the released table is printed: readable
    on a terminal, as CSV into a pipe or file, as JSON with --json; the guarantee goes to standard error.

    Mechanisms: auto (the default) chooses by these options alone and says what it chose. weighted_sample,
    stability, gaussian, rounds (for units with many keys), sample_and_threshold and misra_gries (which counts
    in a sketch of bounded memory) report keys of the data and need --delta. dense, sparse and compact need
    --universe and no --delta: dense gives each listed key a value, sparse the most frequent keys of a huge
    universe, compact answers any key of it (dptally count). Universes: uint64, ipv4, ipv6, uuid, date,
    e164, words:12, strings:4:ACGT, integers:0..99; for dense also a file with the keys.

    --sum, --mean, --totals and --count rows release more of the keys that are found, by the mechanism rounds:
    sums and means of columns over units, how many units there are, and what the other keys add up to.

    dptally publish events.parquet --key query --unit user --epsilon 1 --delta 1e-6 -o release.parquet
    dptally publish hits.csv --key ip --mechanism sparse --universe ipv4 --epsilon 1 -o release.parquet
    """
    from dptally.publishing import publish
    from dptally.releases.table_release import TableRelease

    request = prepare(arguments)
    name = arguments.mechanism
    name = USUAL if name == AUTO else name
    if request.output is None and mechanism_class(name).kind != "table":
        raise InvalidParameter(f"mechanism {name!r} makes no table to print; give the file to write with -o.")
    release = publish(
        options.source_of(arguments),
        **options.given(arguments, "key unit max_keys_per_unit epsilon delta count nulls format memory_limit engine"),
        **options.given(arguments, f"mechanism {_OF_MECHANISMS} table query {options.FILTER}"),
        sampling=options.sampling_of(arguments),
        values=not arguments.keys_only,
        types=options.types_of(arguments),
        **options.statistics_of(arguments),
        **request.common,
    )
    if arguments.mechanism == AUTO and arguments.unit is not None and not (arguments.json or arguments.quiet):
        say(f"Mechanism {choose_mechanism(_asked(arguments)).why}", remark=True)
    deliver(arguments, request, release, None if isinstance(release, TableRelease) else _summarize_compact)


def _summarize_compact(release: CompactRelease, output: Path, *, remark: bool) -> None:
    say(f"Counts of all {release.universe.size:,} keys of {release.universe.name} written to {output}.", style="bold")
    if release.beyond_capacity == "subsample":
        say(f"If the data has more than {release.capacity:,} occurrences, the counts are those of a random choice.")
    say_guarantee(release, remark=remark)
    file = shlex.quote(str(output))
    say(f"Next: `dptally count {file} KEY`, `dptally show {file}`.")


def _asked(arguments: argparse.Namespace) -> Request:
    from dptally.request import read_request

    return read_request(
        **options.given(arguments, "epsilon delta max_keys_per_unit key unit nulls count"),
        **options.statistics_of(arguments),
        values=not arguments.keys_only,
        sampling=options.sampling_of(arguments),
    )


def _explain(arguments: argparse.Namespace) -> Explanation:
    scheme, request, why = options.sampling_of(arguments), _asked(arguments), ""
    if arguments.mechanism == AUTO:
        read_mechanism(USUAL, **options.given(arguments, _OF_MECHANISMS))
        mechanism, why = choose_mechanism(request)
        why = f" Chosen: {why}"
    else:
        mechanism = read_mechanism(arguments.mechanism, **options.given(arguments, _OF_MECHANISMS))
    told = "" if request.statistics is None else f" {mechanism.plan(request).law.statistics.noise_in_words()}"
    planned = arguments.universe is None and (scheme is None or scheme.size is None)  # nothing is read, nor a list
    measured = request.measured and mechanism.measures
    expect = _expected(mechanism.plan(request), measured=measured) if planned else ""
    columns = " and ".join(repr(column) for column in arguments.key)
    counted = "rows" if arguments.unit is None else f"different {arguments.unit!r}"
    sampled = "" if scheme is None else f" Keys are sampled by {scheme} first, with secret randomness."
    return explain_release(
        arguments,
        does=f"Count how many {counted} each value of {columns} has, and publish it by the mechanism "
        f"{mechanism.name!r}: {mechanism.summary}.{sampled}{why}",
        pure=mechanism.pure,
        unit=request.unit,
        keys=0 if measured else request.max_keys_per_unit,
        resources=COUNTING,
        cost="" if request.statistics is None else _shares_in_words(request.statistics),
        expect=f"{expect}{told}",
    )


def _shares_in_words(asked: Statistics) -> str:
    shares = ", ".join(f"{name} {100 * float(share):.3g} %" for name, share in asked.parts.items())
    return f"Shares of the budget: {shares}."


def _expected(spec: Spec, *, measured: bool) -> str:
    """From which counts on keys are released, in words; where sizes are measured, for units of some sizes."""
    if not measured:
        return expected(spec.planned_law)
    sizes = (3, 10, 30)
    counts = [spec.law_for_size(size).first_frequency(Fraction(1, 2)) for size in sizes]
    listed = ", ".join(f"{count:,} if all units have {size} keys" for size, count in zip(sizes, counts, strict=True))
    return f"A key is reported half the time at count {listed}. See dptally plan for more."


def _sanitize(arguments: argparse.Namespace) -> None:
    """Make an existing sample private.

    Release keys of a sample with the privacy that sampling and reporting have together. The sample must
    hold each key once, with its exact count, and must have been drawn key by key with secret randomness
    and a rate fixed in advance: a bottom-k sample or one by a public hash does not qualify.

    dptally sanitize sample.csv --key query --count n --sampling ppswor:0.01 --epsilon 1 --delta 1e-6 -o release.parquet
    dptally sanitize sample.csv --key query --count n --sampling priority:0.1 --epsilon 1 --delta 1e-6
    """
    from dptally.publishing import sanitize

    request = prepare(arguments)
    release = sanitize(
        options.source_of(arguments),
        arguments.scheme,
        **options.given(arguments, "key count epsilon delta nulls format"),
        values=not arguments.keys_only,
        **request.common,
    )
    deliver(arguments, request, release)


def _explain_sanitize(arguments: argparse.Namespace) -> Explanation:
    from dptally.laws.sampling_schemes import read_scheme
    from dptally.request import read_request

    scheme, expect = read_scheme(arguments.scheme), ""
    if scheme.size is None:
        asked = options.given(arguments, "epsilon delta")
        request = read_request(**asked, values=not arguments.keys_only, sampling=scheme)
        expect = expected(read_mechanism(USUAL).plan(request).planned_law)
    return explain_release(
        arguments,
        guarantee="It rests on how the sample was drawn: key by key, with secret randomness, at a fixed rate.",
        resources="Time and memory grow with the sample.",
        expect=expect,
    )
