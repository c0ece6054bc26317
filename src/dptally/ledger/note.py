"""The note beside a ledger, ``<name>-head``: which row was the last one, in a file of its own.

The database can tell that a row was edited, but not that it is an older copy of itself, or the half of a ledger whose
other half (a journal, another name's view of it) was left elsewhere. The note can: it is written whenever something is
spent, and a ledger is refused if its history does not end where the note says.

**Order.** A transaction that must be on disk writes the note twice: before the commit, "it ended with `old`, and will
end with `new`", and waits for the disk; after the commit, "it ends with `new`", without waiting. So, with the writes
that a crash may lose:

- killed, or the power lost, before the commit: the database ends with `old`, the note says `old` to `new`;
- after the commit, before the second write is on disk: it ends with `new`, the note says `old` to `new`;
- after that: both say `new`.

In each case the history ends with one of the two rows of the note, and an honest user is never refused. An older copy
of the database ends with neither, except for a moment: between the two writes a copy without the last transaction is as
good as a crash. What can be lost so is one reservation of a process that is killed at that moment, of which nothing was
drawn: before a draw there is a second transaction ("drawn"), whose `old` is the reservation.

States that only make less of what was spent ("published", "failed", "void") are appended without the note. Rows of
these states may follow the row that the note names, and no others.

**The file.** Two slots in different blocks of the disk, written in turn, each with a counter and a checksum: a slot
that was being written when the power failed does not check, and the other one holds what was there before. It is never
replaced by another file, so that a lock on it is a lock on the note, under whatever name it is mounted. Every process
that uses the ledger, to write or to read, queues for that lock. SQLite's own locks, which keep them apart, have no
queue: a reader would look again and again whether the file is free, and a writer would wait, asleep, with everybody
behind it, until the last reader has left.

This module holds what is particular to POSIX systems: `flock`, and opening without following symbolic links.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import os
import re
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from dptally.errors import DptallyError, UnreadableLedger

Place = tuple[int, str]
"""Number and hash of a row."""

_BLOCK, _SLOT = 4096, 512
_MARK = "dptally-note-2"
_NUMBER, _HASH = r"([0-9]{20})", r"([0-9a-f]{64})"
_LINE = re.compile(rf"({_MARK} {_NUMBER} {_NUMBER} {_HASH} {_NUMBER} {_HASH}) {_HASH}\n *")
_FORMAT_1 = re.compile(rf"{_NUMBER} {_HASH}\n")


@dataclass(frozen=True)
class Noted:
    """What a note says: the last rows before and after a transaction, and how often it was written.

    The counter is 0 for a note of format 1, which names one row, perhaps not the last.
    """

    old: Place
    new: Place
    counter: int = 0


class Turn:
    """The note, open and locked, while it is this process's turn."""

    def __init__(self, descriptor: int, path: Path) -> None:
        self._descriptor = descriptor
        self._path = path

    def read(self) -> Noted | None:
        """What it says; None if it is empty or garbled."""
        return _read(os.pread(self._descriptor, _BLOCK + _SLOT, 0))

    @property
    def empty(self) -> bool:
        """Whether nothing was ever written to it."""
        return os.fstat(self._descriptor).st_size == 0

    def write(self, old: Place, new: Place, *, wait: bool) -> None:
        """Say which rows the history ends with, before and after a transaction; `wait`: until it is on disk.

        DptallyError if it cannot be written; it then says what it said before.
        """
        before = self.read()
        counter = 1 if before is None else before.counter + 1
        text = f"{_MARK} {counter:020d} {old[0]:020d} {old[1]} {new[0]:020d} {new[1]}"
        line = f"{text} {hashlib.sha256(text.encode()).hexdigest()}\n".ljust(_SLOT).encode()
        try:
            if os.pwrite(self._descriptor, line, counter % 2 * _BLOCK) != len(line):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            if wait:
                os.fsync(self._descriptor)
        except OSError as error:
            raise DptallyError(f"{self._path} cannot be written: {error.strerror}.") from None


class Note:
    """The note beside a ledger, whose path is given without symbolic links."""

    def __init__(self, ledger: Path) -> None:
        self.path = ledger.with_name(ledger.name + "-head")

    @contextlib.contextmanager
    def turn(self, *, write: bool = True, create: bool = False) -> Iterator[Turn | None]:
        """Wait for this process's turn to use the ledger; yields None where there is no note."""
        while True:
            try:
                descriptor = self._open((os.O_RDWR if write else os.O_RDONLY) | (os.O_CREAT if create else 0))
            except FileNotFoundError:
                yield None
                return
            try:
                try:
                    fcntl.flock(descriptor, fcntl.LOCK_EX)
                except OSError as error:
                    raise DptallyError(
                        f"{self.path} cannot be locked ({error.strerror}); a ledger must be on a local disk."
                    ) from None
                if not self._is_at_its_place(descriptor):
                    continue  # removed while this process waited
                yield Turn(descriptor, self.path)
                return
            finally:
                os.close(descriptor)

    def _open(self, flags: int) -> int:
        try:
            descriptor = os.open(self.path, flags | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK, 0o600)
        except FileNotFoundError:
            raise
        except OSError as error:
            if error.errno == errno.ELOOP:
                raise UnreadableLedger(f"{self.path} is a symbolic link; a ledger's note must be a file.") from None
            raise DptallyError(f"{self.path} cannot be opened: {error.strerror}.") from None
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode) or found.st_nlink > 1:
            os.close(descriptor)
            raise UnreadableLedger(f"{self.path} must be a regular file with one name; a ledger's note is its own.")
        return descriptor

    def _is_at_its_place(self, descriptor: int) -> bool:
        try:
            return os.path.samestat(os.fstat(descriptor), os.lstat(self.path))
        except FileNotFoundError:
            return False


def _read(content: bytes) -> Noted | None:
    """The newer slot that checks, or the one line of format 1."""
    slots = [_slot(content[place : place + _SLOT]) for place in (0, _BLOCK)]
    whole = [noted for noted in slots if noted is not None]
    if whole:
        return max(whole, key=lambda noted: noted.counter)
    line = _FORMAT_1.match(content[:_SLOT].decode("ascii", "replace"))
    if line is None:
        return None
    place = int(line[1]), line[2]
    return Noted(place, place)


def _slot(content: bytes) -> Noted | None:
    line = _LINE.fullmatch(content.decode("ascii", "replace"))
    if line is None or hashlib.sha256(line[1].encode()).hexdigest() != line[7]:
        return None
    return Noted((int(line[3]), line[4]), (int(line[5]), line[6]), int(line[2]))
