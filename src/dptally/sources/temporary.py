"""Private directories for what does not fit in memory, removed even after a crash.

DuckDB spills rows to disk. Those files hold private data in the clear, so they live in a fresh directory
that only this user may enter, which is removed when the work ends, when it fails, and when Python exits. If
the process is killed, the next one removes what it left: each directory holds a lock file, and a lock nobody
holds marks a dead owner.

The engine creates its files with the process's umask, which is not ours to change: other threads would see it. On Linux
the directory has a default access control list instead, by which every file in it is created with mode 0600.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import struct
import tempfile
import time
import weakref
from pathlib import Path

_PREFIX = "dptally-spill-"
_LOCK = "lock"
_ACL_VERSION, _ACL_OWNER, _ACL_GROUP, _ACL_OTHERS, _ACL_NOBODY = 2, 0x01, 0x04, 0x20, 0xFFFFFFFF
_UNLOCKED_GRACE = 3600.0  # seconds a directory may exist without its lock file before it counts as left behind


class PrivateDirectory:
    """A fresh directory of mode 0700, files in it 0600; `close` removes it, as does the end of the process."""

    def __init__(self) -> None:
        self.path = Path(tempfile.mkdtemp(prefix=_PREFIX))
        try:
            _make_files_private(self.path)
            # Locked first and renamed then, so that no other process ever sees the lock file without its lock.
            unready = self.path / "lock.new"
            descriptor = os.open(unready, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            unready.rename(self.path / _LOCK)
        except BaseException:  # also Ctrl-C
            shutil.rmtree(self.path, ignore_errors=True)
            raise
        self._finalizer = weakref.finalize(self, _remove, self.path, descriptor, os.getpid())

    def close(self) -> None:
        """Remove the directory and all it holds. May be called again."""
        self._finalizer()


def _make_files_private(directory: Path) -> None:
    """Have files be created without rights for group and others, where the system knows such access control lists."""
    set_attribute = getattr(os, "setxattr", None)
    if set_attribute is None:  # not Linux: the directory itself, which nobody else may enter, has to do
        return
    entries = ((_ACL_OWNER, 7), (_ACL_GROUP, 0), (_ACL_OTHERS, 0))
    packed = struct.pack("<I", _ACL_VERSION) + b"".join(
        struct.pack("<HHI", tag, rights, _ACL_NOBODY) for tag, rights in entries
    )
    with contextlib.suppress(OSError):  # a file system without them: the same
        set_attribute(directory, "system.posix_acl_default", packed)


def _remove(path: Path, descriptor: int, owner: int) -> None:
    if os.getpid() == owner:  # a forked child inherits the finalizer, not the directory
        shutil.rmtree(path, ignore_errors=True)
    os.close(descriptor)


def remove_stale_directories() -> None:
    """Remove the private directories of this user whose process is gone."""
    for path in Path(tempfile.gettempdir()).glob(_PREFIX + "*"):
        # Another process may be removing the same directory: whatever is gone needs no removal.
        with contextlib.suppress(OSError):
            _remove_if_stale(path)


def _remove_if_stale(path: Path) -> None:
    status = path.lstat()
    if path.is_symlink() or not path.is_dir() or status.st_uid != os.getuid():
        return
    try:
        descriptor = os.open(path / _LOCK, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    except FileNotFoundError:
        if time.time() - status.st_mtime > _UNLOCKED_GRACE:
            shutil.rmtree(path, ignore_errors=True)
        return
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(path, ignore_errors=True)
    finally:
        os.close(descriptor)
