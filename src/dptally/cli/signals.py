"""Ending in order when asked to: what is private on disk is removed, what is half-written never appears."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from types import FrameType
from typing import NoReturn

__all__ = ["Stopped", "end_in_order"]


class Stopped(KeyboardInterrupt):
    """The process was asked to end, by another signal than Ctrl-C."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number


@contextlib.contextmanager
def end_in_order() -> Iterator[None]:
    """Turn SIGTERM and SIGHUP into an exception, so that all that Ctrl-C cleans up they clean up too.

    A signal that the parent has set to be ignored, as nohup does, stays ignored.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    ours = [number for number in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(number) is signal.SIG_DFL]
    for number in ours:
        signal.signal(number, _stop)
    try:
        yield
    finally:
        for number in ours:
            signal.signal(number, signal.SIG_DFL)


def _stop(number: int, _: FrameType | None) -> NoReturn:
    raise Stopped(number)
