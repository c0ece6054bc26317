"""Limits for what untrusted input may take: only our own errors, and a bounded time for each example."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any, NoReturn

from hypothesis import HealthCheck, settings

from dptally.errors import DptallyError

__all__ = ["SECONDS", "examples", "refused_or_read", "time_limit"]

SECONDS = 60  # generous: the machine may be slow; an example takes milliseconds


class TookTooLongError(BaseException):
    """Not an Exception, so that nothing under test can take it for damage."""


def examples(number: int) -> Any:
    """The same examples in every run, without Hypothesis' own deadline; DPTALLY_ABUSE=20 for 20 times as many, new."""
    factor = int(os.environ.get("DPTALLY_ABUSE", "1"))
    return settings(
        max_examples=number * factor,
        derandomize=factor == 1,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
    )


@contextlib.contextmanager
def time_limit(seconds: int = SECONDS) -> Iterator[None]:
    """Stop what takes longer."""

    def stop(number: int, frame: FrameType | None) -> NoReturn:
        raise TookTooLongError(f"took more than {seconds} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def refused_or_read(read: Callable[[Any], object], given: Any) -> DptallyError | None:
    """Read something; an error must be ours, one line, without what Python says of itself.

    Returns:
        DptallyError | None: the refusal, or None where it was read.
    """
    try:
        with time_limit():
            read(given)
    except DptallyError as error:
        sentence = str(error)
        assert sentence and "\n" not in sentence.strip() and "Traceback" not in sentence
        return error
    return None
