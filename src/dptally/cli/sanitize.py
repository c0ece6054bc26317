"""The command ``sanitize``: a sample that exists already.

JSON: as ``publish --json``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dptally.cli import options
from dptally.cli.delivery import deliver, prepare
from dptally.cli.explain import Explanation, expected, explain_release
from dptally.cli.parser import add_command, add_value

if TYPE_CHECKING:
    import argparse

    from dptally.cli.parser import Commands

__all__ = ["add_commands"]


def add_commands(commands: Commands) -> None:
    """Add ``sanitize``."""
    parser = add_command(commands, "sanitize", _sanitize, _explain)
    add_value(parser, "input", "SAMPLE", "file or glob with sampled keys and their counts", nargs="+")
    sampling = "how the sample was drawn: ppswor:RATE or priority:RATE, with :POWER"
    add_value(parser, "--sampling", "SCHEME", sampling, required=True, dest="scheme")
    add_value(parser, "--count", "COLUMN", "the exact count of each key", required=True)
    options.add_release_options(parser)
    options.add_format(parser)
    options.add_ledger_options(parser)
    options.add_output_options(parser)


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


def _explain(arguments: argparse.Namespace) -> Explanation:
    from dptally.laws.registry import USUAL, read_mechanism
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
