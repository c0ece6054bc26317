"""Two passes over the pages of a Parquet key column: the keys of chosen rows, then how many rows each of them has.

Keys are looked up in the decompressed page, where they lie; making Arrow columns of them first would cost a scan. What
is found is a function of the chosen rows and the data alone, and it is what DuckDB finds. So the law of a sample does
not depend on which of the two reads a file, nor on where one gives up and the other starts over.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dptally import _core
from dptally.sources.parquet_pages import ColumnChunk, PageFile, UnreadablePages

__all__ = ["PageSample"]

Task = TypeVar("Task")
State = TypeVar("State")
Waiting = Callable[[float], None]

_TEXT = (_core.TextSample, _core.TextPicker, _core.TextCounter)
_KINDS: dict[str, tuple[Any, Any, Any]] = {
    "VARCHAR": _TEXT,
    "BLOB": _TEXT,
    "BIGINT": (_core.IntegerSample, _core.Int64Picker, _core.Int64Counter),
    "INTEGER": (_core.IntegerSample, _core.Int32Picker, _core.Int32Counter),
}


class PageSample:
    """Distinct keys of chosen rows and their exact frequencies. Private.

    Memory is that of the chosen keys, and of a few pages for each thread. Keys are numbered in the order of the chosen
    rows, however many threads there are.

    Args:
        files: the column chunks of each file, in order.
        duckdb_type: type of the key column, as DuckDB writes it.
        seed: four random words, so that nobody who chooses keys can choose where they are stored.
    """

    def __init__(self, files: Sequence[Sequence[ColumnChunk]], duckdb_type: str, *, seed: NDArray[np.uint64]) -> None:
        self._files = files
        make_sample, self._make_picker, self._make_counter = _KINDS[duckdb_type]
        self._sample = make_sample(seed)

    def __len__(self) -> int:
        return len(self._sample)

    def choose(self, rows: Sequence[NDArray[np.int64]], waiting: Waiting) -> None:
        """First pass: take in the keys of rows; rows without a key have none. Only pages with such rows are unpacked.

        Args:
            rows: for each file, the numbers of its rows in rising order.
            waiting: called about five times a second with the part that is done.

        Raises:
            UnreadablePages: another reader must be used, for both passes.
        """
        tasks = []
        for chunks, chosen in zip(self._files, rows, strict=True):
            for chunk in chunks:
                start, end = np.searchsorted(chosen, [chunk.first_row, chunk.first_row + chunk.rows])
                if start < end:
                    tasks.append((chunk, chosen[start:end] - chunk.first_row, self._make_picker()))

        def work(file: PageFile, _: None, task: tuple[ColumnChunk, NDArray[np.int64], Any]) -> Iterator[None]:
            chunk, chosen, picker = task
            start = 0
            for page in file.pages(chunk):
                if page.is_dictionary:
                    picker.dictionary(file.content(page, chunk)[0], page.rows)
                    continue
                first, last = np.searchsorted(chosen, [start, start + page.rows])
                if first < last:
                    pick = picker.indexed if page.is_indexed else picker.plain
                    pick(*file.content(page, chunk), page.rows, chosen[first:last] - start)
                start += page.rows
                yield
            picker.finish()

        _in_threads(tasks, lambda: None, work, waiting)
        for _, _, picker in tasks:
            self._sample.add(picker)

    def keys(self) -> pa.Array:
        """The keys, as large strings of bytes or as 64-bit integers."""
        exported = self._sample.export()
        if isinstance(exported, bytes):
            return pa.Array.from_buffers(pa.int64(), len(self), [None, pa.py_buffer(exported)])
        return pa.Array.from_buffers(pa.large_binary(), len(self), [None, *map(pa.py_buffer, exported)])

    def count(self, waiting: Waiting) -> NDArray[np.int64]:
        """Second pass: how many rows each key has.

        Args:
            waiting: called about five times a second with the part that is done.

        Raises:
            UnreadablePages: another reader must be used.
        """

        def work(file: PageFile, counter: Any, chunk: ColumnChunk) -> Iterator[None]:
            for page in file.pages(chunk):
                if page.is_dictionary:
                    counter.dictionary(file.content(page, chunk)[0], page.rows)
                    continue
                count = counter.indexed if page.is_indexed else counter.plain
                count(*file.content(page, chunk), page.rows)
                yield

        tasks = [chunk for chunks in self._files for chunk in chunks]
        counters = _in_threads(tasks, lambda: self._make_counter(self._sample), work, waiting)
        total = np.zeros(len(self), dtype=np.int64)
        for counter in counters:
            total += np.frombuffer(counter.counts(), dtype=np.int64)
        return total


def _in_threads(
    tasks: Sequence[Task],
    make_state: Callable[[], State],
    work: Callable[[PageFile, State, Task], Iterator[None]],
    waiting: Waiting,
) -> list[State]:
    """Do tasks in as many threads as there are processors, and return the state of each thread.

    Work yields wherever it may be stopped, which it is when a task fails or the caller is interrupted.
    """
    left = iter(tasks)
    lock, stopped, started = threading.Lock(), threading.Event(), [0]

    def next_task() -> Task | None:
        with lock:
            started[0] += 1
            return None if stopped.is_set() else next(left, None)

    def run() -> State:
        state = make_state()
        try:
            with PageFile() as file:
                while (task := next_task()) is not None:
                    for _ in work(file, state, task):
                        if stopped.is_set():
                            return state
        except ValueError:  # what the compiled readers say of a damaged page
            stopped.set()
            raise UnreadablePages from None
        except BaseException:
            stopped.set()
            raise
        return state

    threads = min(len(tasks), _processors())
    if threads == 0:
        return []
    with ThreadPoolExecutor(threads, thread_name_prefix="dptally-pages") as pool:
        running = [pool.submit(run) for _ in range(threads)]
        try:
            while wait(running, timeout=0.2).not_done:
                waiting(max(0, started[0] - threads) / len(tasks))
        finally:
            stopped.set()
        return [future.result() for future in running]


def _processors() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
