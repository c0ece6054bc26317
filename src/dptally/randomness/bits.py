"""Uniform random words: one funnel for everything dptally draws.

Both sources expand a 256-bit key with AES-256 in counter mode [SP80038A]. `SystemBits` takes its key from the
operating system and is the only source a private release may use. `SeededBits` takes it from a number, repeats itself
and must be asked for by name; a release drawn with it says that it is not private.

What is assumed: AES-256-CTR under a secret uniform key cannot be told from uniform bits by anyone who sees releases.
The statements about laws in `dptally.observation_models` are about uniform bits.
"""

from __future__ import annotations

import hashlib
import os
import threading
import weakref
from typing import Protocol

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, CipherContext, algorithms, modes
from numpy.typing import NDArray

_PIECE = 1 << 20  # bytes encrypted per call: large enough for full speed, small enough to stay in cache
_REKEY_AFTER = 1 << 36  # bytes under one key: far below the 2^64 blocks at which counter mode shows itself
_ZEROS = memoryview(bytes(_PIECE))


class BitSource(Protocol):
    """What a law draws from."""

    @property
    def private(self) -> bool:
        """Whether the bits are secret and fresh, so that what is drawn from them may be called private."""

    def words(self, count: int) -> NDArray[np.uint64]:
        """Return `count` independent uniform 64-bit words, never returned before."""


class _CounterModeBits:
    """AES-256-CTR key stream, one thread at a time, with a new key after a fork."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._stream: CipherContext | None = None
        self._used = 0
        _SOURCES.add(self)

    def _key(self) -> bytes:
        raise NotImplementedError

    def words(self, count: int) -> NDArray[np.uint64]:
        """Return `count` independent uniform 64-bit words, never returned before."""
        filled = np.empty(count, dtype="<u8")
        buffer = memoryview(filled.view(np.uint8))  # type: ignore[arg-type]  # NumPy's stubs lack the buffer protocol
        with self._lock:
            for start in range(0, len(buffer), _PIECE):
                piece = buffer[start : start + _PIECE]
                if self._stream is None or self._used + len(piece) > _REKEY_AFTER:
                    self._stream = Cipher(algorithms.AES(self._key()), modes.CTR(bytes(16))).encryptor()
                    self._used = 0
                self._stream.update_into(_ZEROS[: len(piece)], piece)
                self._used += len(piece)
        return filled.astype(np.uint64, copy=False)

    def _after_fork_in_child(self) -> None:
        # A child inherits the key stream; continuing it would repeat the parent's words. The lock may have been held.
        self._lock = threading.Lock()
        self._stream = None

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"

    def __reduce__(self) -> str:
        raise TypeError("a source of random bits cannot be copied or pickled: the copy would repeat its words")


class SystemBits(_CounterModeBits):
    """Secret, fresh bits: AES-256-CTR keyed by the operating system, re-keyed after a fork.

    Postcondition: `words` returns uniform words, independent of everything else, under the assumption above; it fails
    only if the operating system's generator does.
    """

    @property
    def private(self) -> bool:
        """True: the key is secret."""
        return True

    def _key(self) -> bytes:
        return os.urandom(32)


class SeededBits(_CounterModeBits):
    """Repeatable bits for tests and simulations: whoever knows the seed knows every draw. Not private.

    The same seed, any integer, gives the same words for this major version of dptally. After a fork the child's words
    differ from the parent's and depend on the process id, so they do not repeat.
    """

    def __init__(self, seed: int) -> None:
        super().__init__()
        self._seed = int(seed)
        self._generation = 0
        self._forked = ""

    @property
    def private(self) -> bool:
        """False: the seed gives everything away."""
        return False

    def _key(self) -> bytes:
        self._generation += 1
        text = f"dptally seeded bits, not private: {self._seed}, {self._generation}{self._forked}"
        return hashlib.sha256(text.encode()).digest()

    def _after_fork_in_child(self) -> None:
        super()._after_fork_in_child()
        self._forked += f", {os.getpid()}"


class _ForeignBits:
    """Words of a source that is not ours: nothing is known about them, so what is drawn from them is not private."""

    private = False

    def __init__(self, source: BitSource) -> None:
        self._source = source

    def words(self, count: int) -> NDArray[np.uint64]:
        """Words of the source."""
        return self._source.words(count)


_OURS = (SystemBits, SeededBits)


def read_bits(randomness: BitSource | None) -> BitSource:
    """The source that a release is drawn from, where a caller may have given one; None for the operating system's.

    Only bits of the operating system make a private release. What another source says of itself is not believed, nor
    what a subclass of ours says: its release is marked as not private, like one from a seed.
    """
    if randomness is None:
        return SystemBits()
    return randomness if type(randomness) in _OURS else _ForeignBits(randomness)


_SOURCES: weakref.WeakSet[_CounterModeBits] = weakref.WeakSet()


def _renew_all() -> None:
    for source in list(_SOURCES):
        source._after_fork_in_child()


os.register_at_fork(after_in_child=_renew_all)
