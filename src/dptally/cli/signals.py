"""Ending in order when asked to: what is private on disk is removed, what is half-written never appears.

A signal becomes an exception, with three exceptions to that rule. An import is never broken off: compiled modules that
are interrupted while they initialise may end the process, so a signal that comes then is heard a moment later. While a
result is being written, and after it has been, signals change nothing: it may have been paid for, and a command whose
result is there has succeeded.
"""

from __future__ import annotations

import contextlib
import signal
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from types import FrameType

_LOST_AFTER = 2.0  # seconds after which a signal whose exception nobody holds counts as lost
_HEARD_AGAIN = 0.02  # seconds after which a signal that came during an import is heard
_LONGEST_IMPORT = 60.0  # seconds after which no import is waited for


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
        self.writing = False
        self.complete = False
        self._when = 0.0
        self._raised: Callable[[], Interrupted | None] = lambda: None
        self._waiting: tuple[int, float] | None = None  # a signal that came during an import, and since when

    def hear(self, number: int, frame: FrameType | None) -> None:
        if self.writing or self.complete:
            return
        number, since = self._waiting or (number, time.monotonic())
        self._waiting = None
        if _importing(frame) and time.monotonic() < since + _LONGEST_IMPORT:
            self._waiting = number, since
            signal.setitimer(signal.ITIMER_REAL, _HEARD_AGAIN)
            return
        if self.heard is not None and (self._raised() is not None or time.monotonic() < self._when + _LOST_AFTER):
            return
        error = (Interrupted if number == signal.SIGINT else Stopped)(number)
        self.heard, self._when, self._raised = number, time.monotonic(), weakref.ref(error)
        try:
            raise error
        finally:
            del error  # its traceback holds this frame, which must not hold it in turn

    def hear_again(self, _: int, frame: FrameType | None) -> None:
        if self._waiting is not None:
            self.hear(self._waiting[0], frame)


_running: _Signals | None = None  # of the command that runs


def _importing(frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib."):
            return True
        frame = frame.f_back
    return False


@contextlib.contextmanager
def end_in_order(*, to_the_end: bool = False) -> Iterator[Callable[[], int | None]]:
    """Turn SIGINT, SIGTERM and SIGHUP into one exception, so that all of them clean up, and none breaks a clean-up off.

    As long as the first exception is being handled, further signals are ignored. Where it was lost, as in code that
    cannot raise, a later signal raises again. A signal that the parent has set to be ignored, as nohup does, stays
    ignored. What is yielded returns the number of the signal that was heard last, or None. With `to_the_end` the
    process ends after this, and hears no more signals, which could only spoil its status.
    """
    global _running
    if threading.current_thread() is not threading.main_thread():
        yield lambda: None
        return
    signals = _Signals()
    earlier = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    ours = [number for number, handler in earlier.items() if handler in (signal.SIG_DFL, signal.default_int_handler)]
    alarm = signal.signal(signal.SIGALRM, signals.hear_again)
    outer, _running = _running, signals
    for number in ours:
        signal.signal(number, signals.hear)
    try:
        yield lambda: signals.heard
    finally:
        for number in ours:
            signal.signal(number, signal.SIG_IGN if to_the_end else earlier[number])
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, alarm)
        _running = outer


@contextlib.contextmanager
def to_completion() -> Iterator[None]:
    """Do what is inside to its end, whatever signals come; after it the command has succeeded, and none changes that.

    Where it fails, signals are heard again.
    """
    signals = _running or _Signals()
    signals.writing = True
    try:
        yield
        signals.complete = True
    finally:
        signals.writing = False


def complete() -> bool:
    """Whether what the running command was asked for is written."""
    return _running is not None and _running.complete


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
