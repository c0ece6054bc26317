"""Ending in order when asked to: what is private on disk is removed, what is half-written never appears."""

from __future__ import annotations

import contextlib
import signal
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from types import FrameType

__all__ = ["Interrupted", "Stopped", "end_in_order", "signal_behind"]

_LOST_AFTER = 2.0  # seconds after which a signal whose exception nobody holds counts as lost


class Interrupted(KeyboardInterrupt):
    """The process was asked to end."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number


class Stopped(Interrupted):
    """The process was asked to end, by another signal than Ctrl-C."""


class _Signals:
    """Hears signals, and raises one exception for all that come while it is on its way."""

    def __init__(self) -> None:
        self.heard: int | None = None
        self._when = 0.0
        self._raised: Callable[[], Interrupted | None] = lambda: None

    def hear(self, number: int, _: FrameType | None) -> None:
        if self.heard is not None and (self._raised() is not None or time.monotonic() < self._when + _LOST_AFTER):
            return
        error = (Interrupted if number == signal.SIGINT else Stopped)(number)
        self.heard, self._when, self._raised = number, time.monotonic(), weakref.ref(error)
        try:
            raise error
        finally:
            del error  # its traceback holds this frame, which must not hold it in turn


@contextlib.contextmanager
def end_in_order(*, to_the_end: bool = False) -> Iterator[Callable[[], int | None]]:
    """Turn SIGINT, SIGTERM and SIGHUP into one exception, so that all of them clean up, and none breaks a clean-up off.

    As long as the first exception is being handled, further signals are ignored. Where it was lost, as in code that
    cannot raise, a later signal raises again. A signal that the parent has set to be ignored, as nohup does, stays
    ignored.

    Args:
        to_the_end: whether the process ends after this: then, after a first signal, it hears no more of them.

    Yields:
        What returns the number of the signal that was heard last, or None.
    """
    signals = _Signals()
    if threading.current_thread() is not threading.main_thread():
        yield lambda: None
        return
    earlier = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    ours = [number for number, handler in earlier.items() if handler in (signal.SIG_DFL, signal.default_int_handler)]
    for number in ours:
        signal.signal(number, signals.hear)
    try:
        yield lambda: signals.heard
    finally:
        for number in ours:
            signal.signal(number, signal.SIG_IGN if to_the_end and signals.heard is not None else earlier[number])


def signal_behind(error: BaseException) -> int | None:
    """The number of the signal that an error comes from, if it is an interruption or was raised during one."""
    link: BaseException | None = error
    seen: set[int] = set()
    while link is not None and id(link) not in seen:
        if isinstance(link, KeyboardInterrupt):
            return link.number if isinstance(link, Interrupted) else signal.SIGINT
        seen.add(id(link))
        link = link.__cause__ or link.__context__
    return None
