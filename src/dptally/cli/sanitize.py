"""The command ``sanitize``: a sample that exists already.

JSON: as ``publish --json``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dptally.cli.delivery import deliver, prepare
from dptally.cli.explain import Explanation, expected, explain_release, numbers_of
from dptally.cli.options import (
    add_format,
    add_ledger_options,
    add_output_options,
    add_release_options,
    given,
    sampling_of,
    source_of,
)
from dptally.cli.parser import add_command, add_value

if TYPE_CHECKING:
    import argparse

    from dptally.cli.parser import Commands

__all__ = ["add_commands"]


def add_commands(commands: Commands) -> None:
    """Add ``sanitize``."""
    parser = add_command(
        commands,
        "sanitize",
        _sanitize,
        _explain,
        summary="make an existing sample private",
        details=(
            "Release keys of a sample with the privacy that sampling and reporting have together. The sample must\n"
            "hold each key once, with its exact count, and must have been drawn key by key with secret randomness\n"
            "and a rate fixed in advance: a bottom-k sample or one by a public hash does not qualify."
        ),
        example=(
            "dptally sanitize sample.csv --key query --count n --sampling ppswor:0.01 --epsilon 1 --delta 1e-6 "
            "-o release.parquet"
        ),
        also="dptally sanitize sample.csv --key query --count n --sampling priority:0.1 --epsilon 1 --delta 1e-6",
    )
    add_value(parser, "input", "SAMPLE", "file or glob with sampled keys and their counts", nargs="+")
    sampling = "how the sample was drawn: ppswor:RATE or priority:RATE, with :POWER"
    add_value(parser, "--sampling", "SCHEME", sampling, required=True)
    add_value(parser, "--count", "COLUMN", "the exact count of each key", required=True)
    add_release_options(parser)
    add_format(parser)
    add_ledger_options(parser)
    add_output_options(parser)


def _sanitize(arguments: argparse.Namespace) -> None:
    from dptally.publishing import sanitize

    request = prepare(arguments)
    release = sanitize(
        source_of(arguments),
        arguments.sampling,
        **given(arguments, "key count epsilon delta nulls format"),
        values=not arguments.keys_only,
        **request.common,
    )
    deliver(arguments, request, release)


def _explain(arguments: argparse.Namespace) -> Explanation:
    from dptally.planning.mechanisms import Setting, sampled_name

    scheme, expect = sampling_of(arguments), ""
    if scheme is not None and scheme.size is None:
        setting = Setting(*numbers_of(arguments, pure=False), values=not arguments.keys_only, sampling=scheme)
        expect = expected(setting, sampled_name(scheme))
    return explain_release(
        arguments,
        f"Release keys of a sample by {scheme}, each with the probability that sampling and reporting have together.",
        guarantee="It rests on how the sample was drawn: key by key, with secret randomness, at a fixed rate.",
        resources="Time and memory grow with the sample.",
        expect=expect,
    )
