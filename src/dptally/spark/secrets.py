"""Secrets that the executors share while a release is made."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dptally.randomness import SystemBits
from dptally.randomness.keyed import SECRET_BYTES, draw_secret
from dptally.spark.drawing import Halves
from dptally.spark.jobs import is_stopped

if TYPE_CHECKING:
    from dptally.randomness import BitSource

__all__ = ["shared_secret"]


@contextlib.contextmanager
def shared_secret(frame: Any, bits: BitSource) -> Iterator[Halves]:
    """A fresh secret for the executors, gone when the block ends."""
    secret, pad = draw_secret(bits), draw_secret(SystemBits())
    far = bytearray(one ^ other for one, other in zip(secret, pad, strict=True))
    broadcast = frame.sparkSession.sparkContext.broadcast(bytes(far))
    near = bytes(pad)
    for copy in (secret, pad, far):
        copy[:] = bytes(SECRET_BYTES)
    try:
        yield Halves(near, broadcast, private=bits.private)
    finally:
        if not is_stopped(frame):  # else its broadcasts are gone with it
            broadcast.destroy(blocking=True)
        Path(broadcast._path).unlink(missing_ok=True)
