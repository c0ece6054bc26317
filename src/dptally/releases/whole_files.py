"""Files that are complete or not there at all."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import secrets
import stat
import string
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from dptally.errors import DptallyError, InvalidParameter

__all__ = ["check_target", "complete_or_absent"]


def check_target(path: Path, *, overwrite: bool) -> None:
    """Refuse a target that cannot be written, before anything is read or spent.

    An empty file is made beside it and removed, without a name where the system has such files: permissions do not say
    all that can be in the way.
    """
    if path.is_dir():
        raise InvalidParameter(f"{path} is a directory, not a file.")
    if path.exists() and not overwrite:
        raise InvalidParameter(f"{path} exists; say overwrite to replace it.")
    if not path.parent.is_dir():
        raise InvalidParameter(f"{path.parent} is not a directory.")
    hidden = _hidden_beside(path)
    try:
        descriptor, named = _open_locked(path.parent, hidden)
        if named:
            hidden.unlink()
        os.close(descriptor)
    except OSError as error:
        raise InvalidParameter(f"{path} cannot be written: {_reason(error)}.") from None


@contextlib.contextmanager
def complete_or_absent(path: Path, *, overwrite: bool) -> Iterator[IO[bytes]]:
    """A file that gets its name in one step, at the end.

    Where the system can, the file has no name until then (O_TMPFILE), so that even a killed process leaves nothing
    behind. Elsewhere, and for the moment in which one file takes the place of another, it has a hidden name, removed on
    any error. It is locked for as long as that: of a killed process the lock is gone, and whoever next writes to the
    same path removes the file.
    """
    directory = path.parent
    _remove_left_behind(path)
    try:
        hidden = _hidden_beside(path)
        descriptor, named = _open_locked(directory, hidden)
        try:
            with os.fdopen(descriptor, "wb") as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
                if not named:
                    # Only linkat(2) follows the link below /proc, and os.link calls it only with a directory given.
                    here = os.open(directory, os.O_RDONLY)
                    try:
                        os.link(f"/proc/self/fd/{file.fileno()}", hidden if overwrite else path, src_dir_fd=here)
                    finally:
                        os.close(here)
                    named = overwrite
                    if not overwrite:
                        return
                if overwrite:
                    hidden.replace(path)
                else:
                    os.link(hidden, path)
        finally:
            if named:
                hidden.unlink(missing_ok=True)
    except OSError as error:
        if error.errno == errno.EEXIST:
            raise InvalidParameter(f"{path} exists; say overwrite to replace it.") from None
        raise DptallyError(f"{path} could not be written: {_reason(error)}.") from None


def _hidden_beside(path: Path) -> Path:
    """A new name in the directory of `path`, of the form that `_remove_left_behind` knows."""
    return path.parent / f".{path.name}.{secrets.token_hex(8)}"


def _reason(error: OSError) -> str:
    return "it failed" if error.errno is None else os.strerror(error.errno)


def _open_locked(directory: Path, hidden: Path) -> tuple[int, bool]:
    """A new file that nobody else may lock, and whether it has the hidden name already."""
    try:
        descriptor, named = os.open(directory, os.O_TMPFILE | os.O_RDWR, 0o666), False
    except (AttributeError, OSError):
        descriptor, named = os.open(hidden, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600), True
    with contextlib.suppress(OSError):  # a file system without such locks
        fcntl.flock(descriptor, fcntl.LOCK_EX)
    return descriptor, named


def _remove_left_behind(path: Path) -> None:
    """Remove what killed processes have left of this file under its hidden names."""
    with contextlib.suppress(OSError):  # what cannot be listed cannot be written either, and that is said later
        for found in path.parent.iterdir():
            rest = found.name.removeprefix(f".{path.name}.")
            if rest != found.name and len(rest) == 16 and set(rest) <= set(string.hexdigits):
                with contextlib.suppress(OSError):  # gone, or in use
                    _remove_if_unlocked(found)


def _remove_if_unlocked(found: Path) -> None:
    descriptor = os.open(found, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        if stat.S_ISREG(os.fstat(descriptor).st_mode):
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            found.unlink()
    finally:
        os.close(descriptor)
