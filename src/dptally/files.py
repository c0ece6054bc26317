"""Files that are complete or not there at all."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import re
import secrets
import stat
import string
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from dptally.errors import DptallyError, InvalidParameter

__all__ = ["check_target", "complete_or_absent", "identity", "sync_directory"]

_LONGEST_NAME = 255  # bytes, on every usual file system
_RANDOM_DIGITS = 16
_OPEN_FILES = Path("/proc/self/fd")
_DATABASE = b"SQLite format 3\0"
_BESIDE_A_DATABASE = re.compile(r"-[a-z]+")  # how SQLite and ledgers call what belongs to a database


def check_target(path: Path, *, overwrite: bool) -> None:
    """Refuse a target that cannot be written, before anything is read or spent.

    An empty file is made beside it and removed, by the steps and under the names by which `complete_or_absent` writes:
    permissions do not say all that can be in the way.
    """
    _refuse_unfit(path, overwrite=overwrite)
    try:
        with _begun(path) as begun:
            begun.give_name(begun.hidden)
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
    _refuse_unfit(path, overwrite=overwrite)
    _remove_left_behind(path)
    try:
        with _begun(path) as begun:
            with os.fdopen(begun.descriptor, "wb", closefd=False) as file:
                yield file
            os.fsync(begun.descriptor)
            if overwrite:
                begun.give_name(begun.hidden)
                begun.hidden.replace(path)
            else:
                begun.give_name(path)
    except OSError as error:
        if error.errno == errno.EEXIST:
            raise InvalidParameter(f"{path} already exists; use `overwrite=True` to replace it.") from None
        raise DptallyError(f"{path} could not be written: {_reason(error)}.") from None


def sync_directory(directory: Path) -> None:
    """Wait until the names in a directory are on disk."""
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def identity(path: Path) -> tuple[object, ...]:
    """What tells two files apart, whatever links lead to them; for a file that does not exist, its place."""
    try:
        found = path.stat()
        return found.st_dev, found.st_ino
    except (OSError, ValueError):
        return (os.path.realpath(path),)


def _refuse_unfit(path: Path, *, overwrite: bool) -> None:
    """Refuse a target by what is there already."""
    try:
        found = path.lstat()
    except FileNotFoundError:
        found = None
    except (OSError, ValueError) as error:  # a name that is too long, or has a zero byte
        raise InvalidParameter(f"{path} cannot be written: {_reason(error)}.") from None
    if path.is_dir():
        raise InvalidParameter(f"{path} is a directory, not a file.")
    if found is not None and stat.S_ISLNK(found.st_mode) and not path.exists():
        raise InvalidParameter(f"{path} is a symbolic link to a file that does not exist; name the file itself.")
    if found is not None and not path.is_file():
        raise InvalidParameter(f"{path} is not a regular file.")
    if found is not None and not overwrite:
        raise InvalidParameter(f"{path} already exists; use `overwrite=True` to replace it.")
    if not path.parent.is_dir():
        raise InvalidParameter(f"{path.parent} is not a directory.")
    if found is not None and not _may_replace(found, path.parent.stat()):
        raise InvalidParameter(f"{path} belongs to another user, and only its owner may replace it in {path.parent}.")
    _refuse_database(path)


def _may_replace(found: os.stat_result, directory: os.stat_result) -> bool:
    """Whether the rules of a directory like /tmp let us replace a file in it."""
    return not directory.st_mode & stat.S_ISVTX or os.geteuid() in (0, found.st_uid, directory.st_uid)


def _refuse_database(path: Path) -> None:
    """Refuse to replace an SQLite database, such as a ledger, and the files that belong to one."""
    database = path
    name, dash, rest = path.name.rpartition("-")
    if name and _BESIDE_A_DATABASE.fullmatch(dash + rest):
        database = path.with_name(name)
    for place in {path, database}:
        with contextlib.suppress(OSError):  # what is not there or cannot be read is no database of ours
            if place.is_file():
                with place.open("rb") as file:
                    start = file.read(len(_DATABASE))
                if start == _DATABASE:
                    raise InvalidParameter(
                        f"{path} belongs to the database {place}, which may be a ledger; it is never replaced."
                    )


@dataclass
class _Begun:
    """A new file that nobody else may lock.

    Attributes:
        descriptor: of the file, open for writing.
        hidden: a free name for it in the directory of its target.
        named: whether it has the hidden name already.
    """

    descriptor: int
    hidden: Path
    named: bool

    def give_name(self, name: Path) -> None:
        """Give the file a name that is free, or the hidden one."""
        if self.named:
            if name != self.hidden:
                os.link(self.hidden, name)
            return
        # Only linkat(2) follows the link below /proc, and os.link calls it only with a directory given.
        directory = os.open(name.parent, os.O_RDONLY)
        try:
            os.link(_OPEN_FILES / str(self.descriptor), name, src_dir_fd=directory)
        finally:
            os.close(directory)
        self.named = name == self.hidden


@contextlib.contextmanager
def _begun(path: Path) -> Iterator[_Begun]:
    """A new file beside `path`, closed at the end, and gone unless it was given another name than the hidden one."""
    hidden = path.with_name(f".{_shortened(path.name)}.{secrets.token_hex(_RANDOM_DIGITS // 2)}")
    begun = _open_nameless(path.parent, hidden)
    if begun is None:
        begun = _Begun(os.open(hidden, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600), hidden, True)
    try:
        with contextlib.suppress(OSError):  # a file system without such locks
            fcntl.flock(begun.descriptor, fcntl.LOCK_EX)
        yield begun
    finally:
        if begun.named:
            hidden.unlink(missing_ok=True)
        os.close(begun.descriptor)


def _open_nameless(directory: Path, hidden: Path) -> _Begun | None:
    """A file without a name, where the system has such files and a way to name them later."""
    flags = getattr(os, "O_TMPFILE", None)
    if flags is None or not _OPEN_FILES.is_dir():
        return None
    try:
        return _Begun(os.open(directory, flags | os.O_RDWR, 0o666), hidden, False)
    except OSError:  # a file system without them
        return None


def _shortened(name: str) -> str:
    """A name to which a dot in front and 17 characters at the end can be added."""
    longest = _LONGEST_NAME - _RANDOM_DIGITS - 2
    return name if len(os.fsencode(name)) <= longest else os.fsencode(name)[:longest].decode("utf-8", "ignore")


def _reason(error: Exception) -> str:
    number = error.errno if isinstance(error, OSError) else errno.EINVAL
    return "it failed" if number is None else os.strerror(number)


def _remove_left_behind(path: Path) -> None:
    """Remove what killed processes have left of this file under its hidden names."""
    with contextlib.suppress(OSError):  # what cannot be listed cannot be written either, and that is said later
        for found in path.parent.iterdir():
            rest = found.name.removeprefix(f".{_shortened(path.name)}.")
            if rest != found.name and len(rest) == _RANDOM_DIGITS and set(rest) <= set(string.hexdigits):
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
