"""Results that commands write: never over what they read, tried before anything is spent, not lost once paid for."""

from __future__ import annotations

import argparse
import contextlib
import glob
import os
import secrets
import shlex
import sys
import tempfile
from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from dptally.cli.options import confidence_of, ledger_of
from dptally.cli.printing import describe, json_rows, print_json, print_rows, say, say_guarantee
from dptally.cli.signals import to_completion
from dptally.errors import DptallyError, InvalidParameter
from dptally.files import check_target, identity

if TYPE_CHECKING:
    from dptally.releases.table_release import TableRelease

_WRITTEN = ("output", "html", "checkpoint", "state")  # names of arguments, over all commands
_READ = ("input", "release", "sketch", "saved", "universe", "example", "task")
_PUBLISHED = "epsilon"  # what every command has that spends and may print its result
_FILES_OF_A_LEDGER = ("", "-head", "-journal", "-shm", "-wal")
_OTHER_FORMATS = (".csv", ".tsv", ".json", ".jsonl", ".ndjson", ".txt")


def check_files(arguments: argparse.Namespace) -> None:
    """Refuse outputs that are inputs, the ledger, or one file twice, by whatever names and links."""
    written = {name: Path(given) for name in _WRITTEN if (given := getattr(arguments, name, None))}
    if not written:
        return
    ledger = getattr(arguments, "ledger", None)
    of_ledger = {identity(place) for place in _files_of_ledger(ledger)} if ledger else set()
    inputs = {identity(place) for name in _READ for place in _places(getattr(arguments, name, None))}
    seen: set[tuple[object, ...]] = set()
    for place in written.values():
        found = identity(place)
        if found in of_ledger:
            raise InvalidParameter(f"{place} belongs to the ledger; what is written needs a file of its own.")
        if found in inputs:
            raise InvalidParameter(f"{place} is also an input; what is written needs a file of its own.")
        if found in seen:
            raise InvalidParameter(f"{place} is named for two outputs; each needs a file of its own.")
        seen.add(found)


def refuse_nowhere(arguments: argparse.Namespace) -> None:
    """Refuse to spend on a result that could go nowhere: no file was named, and standard output is closed."""
    if hasattr(arguments, _PUBLISHED) and getattr(arguments, "output", "") is None:
        raise InvalidParameter("standard output is closed; give the file to write with -o.")


def save(write: Callable[..., None], place: Path, *, overwrite: bool) -> None:
    """Write what the command was asked for; once it is there, no signal makes a failure of it."""
    with to_completion():
        write(place, overwrite=overwrite)


def save_release(write: Callable[..., None], place: Path, *, overwrite: bool) -> None:
    """Write what was drawn, and may have been paid for: where it cannot be written under its name, under another one.

    The place was tried before, but a disk may have filled up since, or another process may have taken the name.
    """
    try:
        save(write, place, overwrite=overwrite)
    except DptallyError as error:
        failure = error
    else:
        return
    other = f"{place.stem[:100]}-{secrets.token_hex(8)}{place.suffix}"
    for refuge in (place.parent / other, Path(tempfile.gettempdir()) / other):
        try:
            write(refuge, overwrite=False)
        except DptallyError:
            continue
        raise DptallyError(f"{failure} What was to be written, which may have been paid for, is in {refuge} instead.")
    raise failure


def open_closed_streams() -> bool:
    """Put something in the place of standard streams that are closed, and return whether standard output was."""
    closed = sys.stdout is None
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode))  # noqa: PTH123, SIM115 - stays open as long as the process
    return closed


def _files_of_ledger(ledger: str) -> Iterator[Path]:
    for path in (Path(ledger), Path(ledger).resolve()):
        for suffix in _FILES_OF_A_LEDGER:
            yield path.with_name(path.name + suffix)


def _places(given: Any) -> Iterator[Path]:
    """Files that an argument names: a path, a glob, the URL of a database, or several of them."""
    for text in given if isinstance(given, list) else [given] if isinstance(given, str) else []:
        if text.lower().startswith(("sqlite://", "duckdb://")):
            from dptally.sources.databases import file_of_url

            with contextlib.suppress(DptallyError):  # said when it is read
                yield file_of_url(text)
        elif Path(text).exists():
            yield Path(text)
        elif glob.has_magic(text):
            yield from (Path(found) for found in glob.glob(text, recursive=True))  # noqa: PTH207 - as sources do


class Request(NamedTuple):
    """What the shared options come down to."""

    output: Path | None  # the file to write
    confidence: Fraction  # of printed intervals
    common: dict[str, Any]  # `ledger`, `randomness` and `progress`, as the library takes them


def prepare(arguments: argparse.Namespace, *, also_printed: bool = False) -> Request:
    """Check what can be checked before anything is read; `also_printed` if results are printed with ``-o`` too."""
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


def deliver(
    arguments: argparse.Namespace, request: Request, release: Any, summary: Callable[..., None] | None = None
) -> None:
    """Write or print a release, and say what it is: by `summarize`, if it is a table of keys."""
    output = request.output
    table = release.table(confidence=request.confidence) if output is None else None
    if output is not None:
        save_release(release.save, output, overwrite=arguments.overwrite)
    if arguments.json:
        rows = {} if table is None else {"rows": json_rows(table)}
        print_json({**describe(release), "output": None if output is None else str(output), **rows})
        return
    if table is not None:
        print_rows(release, table)
    if not arguments.quiet:
        (summary or summarize)(release, output, remark=output is None)


def summarize(release: TableRelease, output: Path | None, *, remark: bool) -> None:
    """Say what was released, what is guaranteed, and what to do next."""
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
