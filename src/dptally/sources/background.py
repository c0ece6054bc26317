"""Batches produced in another thread, so that the one who waits for them can stop."""

from __future__ import annotations

import contextlib
import math
import queue
import threading
import time
from collections.abc import Callable, Generator, Iterator

import pyarrow as pa


def in_background(
    batches: Iterator[pa.RecordBatch],
    *,
    interrupt: Callable[[], None],
    waiting: Callable[[], None],
    patience: float = math.inf,
) -> Generator[pa.RecordBatch, None, None]:
    """Yield `batches`, produced two ahead in another thread, so that Ctrl-C is heard while DuckDB works.

    They are closed in that thread. `interrupt` makes `batches` fail soon, when the caller stops early, and the caller
    waits `patience` seconds for that. `waiting` is called about five times a second while nothing is ready; what it
    raises ends the work.
    """
    ready: queue.Queue[pa.RecordBatch | BaseException | None] = queue.Queue(maxsize=2)
    stopped, ended = threading.Event(), threading.Event()

    def offer(item: pa.RecordBatch | BaseException | None) -> None:
        while not stopped.is_set():
            try:
                ready.put(item, timeout=0.1)
            except queue.Full:
                continue
            return

    def produce() -> None:
        try:
            for batch in batches:
                offer(batch)
                if stopped.is_set():
                    return
        except BaseException as error:  # handed to the waiting thread, which raises it
            offer(error)
        else:
            offer(None)
        finally:
            with contextlib.suppress(Exception):
                batches.close()  # type: ignore[attr-defined]  # a generator, as all of ours are
            ended.set()

    def stop() -> None:
        stopped.set()
        deadline = time.monotonic() + patience
        while not ended.is_set() and time.monotonic() < deadline:
            interrupt()  # again and again: a query that had not started yet does not hear the first one
            ended.wait(timeout=0.05)  # not Thread.join: interrupted, it takes the thread for dead (Python 3.11, 3.12)

    threading.Thread(target=produce, name="dptally-reader", daemon=True).start()
    try:
        while True:
            try:
                item = ready.get(timeout=0.2)
            except queue.Empty:
                waiting()
                continue
            if item is None:
                return
            if isinstance(item, BaseException):
                raise item
            yield item
    finally:
        _without_interruption(stop)


def _without_interruption(work: Callable[[], None]) -> None:
    """Do `work` to its end, from the beginning where Ctrl-C broke it off; then raise that interruption."""
    interruption: KeyboardInterrupt | None = None
    done = False
    while not done:
        try:
            work()
            done = True
        except KeyboardInterrupt as error:
            interruption = error
    if interruption is not None:
        raise interruption
