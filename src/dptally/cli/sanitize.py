"""The command ``sanitize``: a sample that somebody has drawn already.

JSON: as ``publish --json``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dptally.cli.ledger import add_ledger_options, ledger_of
from dptally.cli.parser import add_command, add_release_options, add_sampling

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
        summary="make a sample private that was drawn before",
        details=(
            "Release keys of a sample with the privacy that sampling and reporting have together. The sample must\n"
            "hold each key once, with its exact count, and must have been drawn key by key with secret coins and a\n"
            "rate fixed in advance: a bottom-k sample or one by a public hash does not qualify."
        ),
        example=(
            "dptally sanitize sample.csv --key query --count n --sampling ppswor:0.01 --epsilon 1 --delta 1e-6 "
            "-o release.parquet"
        ),
        also="dptally sanitize sample.csv --key query --count n --sampling priority:0.1 --epsilon 1 --delta 1e-6",
    )
    parser.add_argument("input", metavar="SAMPLE", nargs="+", help="file or glob with sampled keys and their counts")
    add_sampling(parser, required=True, help="how the sample was drawn: ppswor:RATE or priority:RATE, with :POWER")
    parser.add_argument("--count", metavar="COLUMN", required=True, help="the exact count of each key")
    add_release_options(parser)
    add_ledger_options(parser)


def _sanitize(arguments: argparse.Namespace) -> None:
    from dptally.cli.publish import deliver, prepare
    from dptally.publishing import sanitize

    request = prepare(arguments)
    release = sanitize(
        request.source,
        arguments.sampling,
        key=arguments.key,
        count=arguments.count,
        epsilon=arguments.epsilon,
        delta=arguments.delta,
        values=not arguments.keys_only,
        ledger=ledger_of(arguments),
        nulls=arguments.nulls,
        format=arguments.format,
        randomness=request.randomness,
        progress=request.progress,
    )
    deliver(arguments, request, release)
