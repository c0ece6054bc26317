"""Files that are complete or not there at all."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from dptally.errors import DptallyError, InvalidParameter

__all__ = ["check_target", "complete_or_absent"]


def check_target(path: Path, *, overwrite: bool) -> None:
    """Refuse a target that cannot be written, before anything is read or spent."""
    if path.is_dir():
        raise InvalidParameter(f"{path} is a directory, not a file.")
    if path.exists() and not overwrite:
        raise InvalidParameter(f"{path} exists; say overwrite to replace it.")
    if not path.parent.is_dir():
        raise InvalidParameter(f"{path.parent} is not a directory.")
    if not os.access(path.parent, os.W_OK):
        raise InvalidParameter(f"{path.parent} is not writable.")


@contextlib.contextmanager
def complete_or_absent(path: Path, *, overwrite: bool) -> Iterator[IO[bytes]]:
    """A file that gets its name in one step, at the end.

    Where the system can, the file has no name until then (O_TMPFILE), so that even a killed process leaves nothing
    behind. Elsewhere it has a hidden name with mode 0600, removed on any error.
    """
    directory = path.parent
    hidden = directory / f".{path.name}.{secrets.token_hex(8)}"
    named = False
    try:
        descriptor = os.open(directory, os.O_TMPFILE | os.O_RDWR, 0o666)
    except (AttributeError, OSError):
        descriptor = os.open(hidden, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600)
        named = True
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
    except OSError as error:
        if error.errno == errno.EEXIST:
            raise InvalidParameter(f"{path} exists; say overwrite to replace it.") from None
        raise DptallyError(f"{path} could not be written: {error.strerror}.") from None
    finally:
        if named:
            hidden.unlink(missing_ok=True)
