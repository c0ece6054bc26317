"""The commands that read a release: ``show``, ``top``, ``sum``, ``verify``. All of it is public.

JSON:

- show: as ``publish --json`` without `output`, plus `rows` (the first n by key) and `distribution`, a list of objects
  `from`, `to` (estimated frequencies, both included), `keys`;
- top: a list of rows, largest first;
- sum: `estimate`, `lower`, `upper` (null: no bound), `unreleased`, `keys`, `confidence`, `kind`, `of`, `times`,
  `where`;
- verify: `verified` (true) and `certificate`; a release that fails has exit status 1 and nothing on standard output.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from dptally.cli.parser import add_command, add_confidence, add_release, whole_number

if TYPE_CHECKING:
    import argparse

    from dptally.cli.parser import Commands
    from dptally.release import Release

__all__ = ["add_commands"]


def add_commands(commands: Commands) -> None:
    """Add ``show``, ``top``, ``sum`` and ``verify``."""
    show = add_command(
        commands,
        "show",
        _show,
        summary="what a release promises and holds",
        details="Show the guarantee, the certificate, the first rows and how frequent the released keys are.",
        example="dptally show release.parquet",
    )
    add_release(show)
    show.add_argument("-n", metavar="N", type=whole_number, default=10, help="how many rows (default: 10)")
    add_confidence(show)

    top = add_command(
        commands,
        "top",
        _top,
        summary="the most frequent released keys",
        details="The released keys with the largest values, largest first: a table on a terminal, CSV into a pipe.",
        example="dptally top release.parquet -n 20",
    )
    add_release(top)
    top.add_argument("-n", metavar="N", type=whole_number, default=10, help="how many keys (default: 10)")
    add_confidence(top)

    total = add_command(
        commands,
        "sum",
        _sum,
        summary="estimate a sum over keys",
        details=(
            "Estimate how many counts, or how many keys, a selection has, released or not, with bounds.\n"
            "What is added up: count, keys, power:P (count to the power P), capped:C (at most C per key), log.\n"
            "Kinds of estimate: mle (default), lower (never over in expectation), unbiased (large variance)."
        ),
        example="dptally sum release.parquet --where \"query LIKE 'a%'\"",
    )
    add_release(total)
    total.add_argument("--where", metavar="SQL", help="a condition on the columns of the release (default: all keys)")
    total.add_argument("--of", metavar="G", default="count", help="what to add up (default: count)")
    total.add_argument("--times", metavar="SQL", help="a number that each key's part is multiplied by (default: 1)")
    total.add_argument("--kind", choices=("mle", "lower", "unbiased"), default="mle", help="default: mle")
    add_confidence(total)

    verify = add_command(
        commands,
        "verify",
        _verify,
        summary="check the certificate of a release",
        details=(
            "Rebuild the table from the release's parameters, compute its exact privacy loss again, and compare it\n"
            "with the certificate and its SHA-256. It shows that the stated law keeps the stated guarantee; that the\n"
            "values were drawn from it, nobody can see from a file."
        ),
        example="dptally verify release.parquet",
    )
    add_release(verify)


def _load(arguments: argparse.Namespace) -> Release:
    from dptally.release_file import load

    return load(arguments.release)


def _confidence(arguments: argparse.Namespace) -> str:
    return "0.95" if arguments.confidence is None else str(arguments.confidence)


def _show(arguments: argparse.Namespace) -> None:
    from dptally.cli.printing import describe, json_rows, print_bars, print_frame, print_json, say
    from dptally.errors import InvalidParameter

    if arguments.n < 0:
        raise InvalidParameter(f"n must not be negative, got {arguments.n}.")
    release = _load(arguments)
    first = release.table(confidence=_confidence(arguments)).head(arguments.n)
    spread = _distribution(release)
    if arguments.json:
        distribution = [{"from": low, "to": high, "keys": keys} for low, high, keys in spread]
        print_json({**describe(release), "rows": json_rows(first), "distribution": distribution})
        return
    say(f"{arguments.release}: {len(release):,} released keys by {', '.join(release.key)}", style="bold")
    say(str(release.guarantee), style="" if release.guarantee.private else "bold red")
    say(f"Certificate: {release.certificate}")
    if len(first):
        say()
        print_frame(release, first)
        if len(release) > len(first):
            say(f"... and {len(release) - len(first):,} more, by key.")
    if spread:
        say()
        print_bars(
            "Released keys by estimated frequency", [(f"{low:,} - {high:,}", keys) for low, high, keys in spread]
        )


def _distribution(release: Release) -> list[tuple[int, int, int]]:
    """How many released keys have an estimated frequency from 2^b to 2^(b+1) - 1, without empty ends."""
    if not release.law.values or not len(release):
        return []
    estimates = release.table().get_column("estimate").to_list()
    bins: dict[int, int] = {}
    for estimate in estimates:
        power = estimate.bit_length() - 1
        bins[power] = bins.get(power, 0) + 1
    return [(1 << power, (2 << power) - 1, bins.get(power, 0)) for power in range(min(bins), max(bins) + 1)]


def _top(arguments: argparse.Namespace) -> None:
    from dptally.cli.printing import json_rows, print_json, print_rows

    release = _load(arguments)
    rows = release.top(arguments.n, confidence=_confidence(arguments))
    if arguments.json:
        print_json(json_rows(rows))
    else:
        print_rows(release, rows)


def _sum(arguments: argparse.Namespace) -> None:
    from dataclasses import asdict

    from dptally.cli.printing import print_json, say
    from dptally.estimates.functions import frequency_function

    wanted = frequency_function(arguments.of)
    found = _load(arguments).sum(
        arguments.where, wanted, times=arguments.times, kind=arguments.kind, confidence=_confidence(arguments)
    )
    if arguments.json:
        numbers = {name: part if math.isfinite(part) else None for name, part in asdict(found).items()}
        asked = {name: getattr(arguments, name) for name in ("kind", "of", "times", "where")}
        print_json({**numbers, **asked})
    else:
        names = {"count": "Count", "keys": "Number of keys"}
        label = names.get(arguments.of, f"Sum of {arguments.of}")
        say(f"{label if arguments.times is None else f'{label} times {arguments.times}'}: {found}")


def _verify(arguments: argparse.Namespace) -> None:
    from dptally.cli.printing import describe, print_json, say

    release = _load(arguments)
    certificate = release.verify()
    if arguments.json:
        print_json({"verified": True, "certificate": describe(release)["certificate"]})
        return
    say(f"{arguments.release}: the certificate holds.", style="bold")
    say(f"{certificate}")
    if not release.guarantee.private:
        say(str(release.guarantee), style="bold red")
