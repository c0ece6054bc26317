"""Files that commands write: never what they read, tried before anything is spent, not lost once they are paid for."""

from __future__ import annotations

import contextlib
import glob
import os
import secrets
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from dptally.cli.signals import to_completion
from dptally.errors import DptallyError, InvalidParameter

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

__all__ = ["check_files", "open_closed_streams", "refuse_nowhere", "save", "save_release"]

# Names of arguments, over all commands.
_WRITTEN = ("output", "html", "checkpoint", "state")
_READ = ("input", "release", "sketch", "saved", "universe", "example", "task")
_PUBLISHED = "epsilon"  # what every command has that spends and may print its result
_FILES_OF_A_LEDGER = ("", "-head", "-journal", "-shm", "-wal")


class Save(Protocol):
    """How an object is saved."""

    def __call__(self, path: Path, *, overwrite: bool) -> None:
        """Write it to a file."""


def check_files(arguments: argparse.Namespace) -> None:
    """Refuse outputs that are inputs, the ledger, or one file twice, by whatever names and links; they would be lost.

    Raises:
        InvalidParameter: says which.
    """
    from dptally.files import identity

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


def save(write: Save, place: Path, *, overwrite: bool) -> None:
    """Write what the command was asked for; once it is there, no signal makes a failure of it."""
    with to_completion():
        write(place, overwrite=overwrite)


def save_release(write: Save, place: Path, *, overwrite: bool) -> None:
    """Write what was drawn, and may have been paid for: where it cannot be written under its name, under another one.

    The place was tried before, but a disk may have filled up since, or another process may have taken the name.

    Raises:
        DptallyError: it is somewhere else, or could not be written at all.
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
