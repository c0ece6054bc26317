"""What commands that make releases share: checks before anything is read; writing, printing and saying what it is."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dptally.cli.options import confidence_of, ledger_of
from dptally.cli.outputs import save_release
from dptally.errors import InvalidParameter

if TYPE_CHECKING:
    import argparse

    from dptally.releases.table_release import TableRelease

__all__ = ["Request", "deliver", "prepare", "summarize"]

_OTHER_FORMATS = (".csv", ".tsv", ".json", ".jsonl", ".ndjson", ".txt")


@dataclass(frozen=True)
class Request:
    """What the shared options come down to.

    Attributes:
        output: the file to write, or None.
        confidence: of printed intervals.
        common: `ledger`, `randomness` and `progress`, as the library takes them.
    """

    output: Path | None
    confidence: Fraction
    common: dict[str, Any]


def prepare(arguments: argparse.Namespace, *, also_printed: bool = False) -> Request:
    """Check what can be checked before anything is read.

    Args:
        arguments: with the options of `dptally.cli.options.add_output_options` and `add_ledger_options`.
        also_printed: whether results are printed with ``-o`` too.
    """
    from dptally.randomness import SeededBits

    confidence, seed = confidence_of(arguments), arguments.not_private_seed
    output = None if arguments.output is None else _checked_output(arguments, also_printed=also_printed)
    common = {
        "randomness": None if seed is None else SeededBits(seed),
        "progress": False if arguments.quiet or arguments.no_progress else None,
        "ledger": ledger_of(arguments),
    }
    return Request(output, confidence, common)


def _checked_output(arguments: argparse.Namespace, *, also_printed: bool) -> Path:
    """Refuse an output that cannot or must not be written, before anything is read."""
    from dptally.files import check_target

    output = Path(arguments.output)
    if arguments.confidence is not None and not also_printed:
        raise InvalidParameter(
            "--confidence is for a printed table: the intervals of a file are computed when it is read; see dptally "
            "top."
        )
    if output.suffix.lower() in _OTHER_FORMATS and not also_printed:
        raise InvalidParameter(
            f"-o writes a Parquet file, and {output} is named otherwise; leave out -o and redirect to get CSV or JSON."
        )
    check_target(output, overwrite=arguments.overwrite)
    return output


def deliver(arguments: argparse.Namespace, request: Request, release: TableRelease) -> None:
    """Write or print a table of keys, and say what it is."""
    from dptally.cli.printing import describe, json_rows, print_json, print_rows

    output = request.output
    if output is not None:
        save_release(release.save, output, overwrite=arguments.overwrite)
        table = None
    else:
        table = release.table(confidence=request.confidence)
    if arguments.json:
        rows = {} if table is None else {"rows": json_rows(table)}
        print_json({**describe(release), "output": None if output is None else str(output), **rows})
        return
    if table is not None:
        print_rows(release, table)
    if not arguments.quiet:
        summarize(release, output, remark=output is None)


def summarize(release: TableRelease, output: Path | None, *, remark: bool) -> None:
    """Say what was released, what is guaranteed, and what to do next."""
    from dptally.cli.printing import say, say_guarantee

    place = "" if output is None else f" to {output}"
    say(f"{len(release):,} {'key' if len(release) == 1 else 'keys'} released{place}.", style="bold", remark=remark)
    if not len(release):
        say(_why_empty(release), remark=remark)
    say_guarantee(release, remark=remark)
    if release.guarantee.sketch_capacity is not None:
        say(str(release.sketch_error()), remark=remark)
    if output is not None and len(release):
        file = shlex.quote(str(output))
        say(f"Next: `dptally top {file}`, `dptally show {file}`, `dptally plot {file} -o picture.png`.", remark=remark)


def _why_empty(release: TableRelease) -> str:
    if release.law.keep is not None:
        return (
            f"No key stood out: more than {release.law.keep:,} keys, or none, had the largest noisy counts. "
            "A larger capacity, more data, coarser keys, fewer keys per unit, or a larger epsilon would release more."
        )
    half, likely = (release.law.first_frequency(share) for share in (Fraction(1, 2), Fraction(95, 100)))
    sketched = release.guarantee.sketch_capacity is not None
    if half is None or likely is None:
        chances = "Sampling takes no key often enough to be likely to appear."
    else:
        chances = f"A key is reported half the time at count {half:,}, and 95 % of the time at {likely:,}"
        chances += f"{_beyond_shortfall(release) if sketched else ''}."
    more = "More counters (--capacity)" if sketched else "More data"
    return (
        f"No key occurs often enough to be released. {chances} "
        f"{more}, coarser keys, fewer keys per unit, or a larger epsilon or delta would release more."
    )


def _beyond_shortfall(release: TableRelease) -> str:
    """What a sketch takes from counts before noise and threshold, in words."""
    shortfall = release.sketch_error().sketch
    if shortfall is None:
        return ", above a shortfall of the sketch that is not known"
    return f", above the shortfall of the sketch of up to {shortfall:,}"
