"""What counting has in common: sessions of the engine, opened when needed, always closed, stopped by Ctrl-C."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from typing import Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dptally.errors import InvalidParameter, InvalidSource, attempt
from dptally.exact.integer_columns import integers
from dptally.laws.sampling_schemes import Scheme
from dptally.randomness import BitSource
from dptally.sources import Rows
from dptally.sources.background import in_background
from dptally.sources.engine import Session, check_memory_limit

Progress = Callable[[str, float | None], None]
MOST_PARTS = 4**5  # of all hashes, in which keys are counted that do not fit in memory together


class Counting:
    """Work on private rows whose result can be read once: reading again would draw again. Leaves nothing behind.

    Nothing is read before `batches` is advanced, and nothing of the data shows in a `repr`. DuckDB spills to disk
    beyond `memory_limit`; `progress` is called with the stage and how much of it is done (None when unknown).
    """

    unit: str | None = None  # the column that says whose rows they are, or None when every row is its own unit
    max_keys_per_unit: int = 1  # the most keys one unit adds to, once each; 1 when every row is its own unit
    scheme: Scheme | None = None  # how keys were sampled; None if all are there

    def __init__(self, rows: Rows, *, bits: BitSource, memory_limit: str | None, progress: Progress | None) -> None:
        check_memory_limit(memory_limit)
        self.key = rows.key
        self._columns = ", ".join(f"k{i}" for i in range(len(rows.key)))
        self._rows, self._bits, self._memory_limit, self._progress = rows, bits, memory_limit, progress
        self._sessions: list[Session] = []
        self._running: Generator[pa.RecordBatch, None, None] | None = None
        self._taken = False

    def batches(self) -> Iterator[tuple[pa.RecordBatch, NDArray[np.int64]]]:
        """Yield distinct keys, each once and in no particular order, and as many counts of at least 1."""
        self._take()
        try:
            width = len(self.key)
            for batch in self._counted():
                counts = integers(batch.column(width))
                keys = batch.select(range(width)).rename_columns(list(self.key))
                self._check(keys, counts)
                yield keys, counts
        finally:
            self.close()

    def _counted(self) -> Iterator[pa.RecordBatch]:
        """Batches of the columns k0, k1, ... and the count."""
        raise NotImplementedError

    def _check(self, keys: pa.RecordBatch, counts: NDArray[np.int64]) -> None:
        check_text(keys)

    def _take(self) -> None:
        """Allow the result to be read, this once: reading again would draw again."""
        if self._taken:
            raise InvalidParameter("these frequencies have been read or closed; count the keys again.")
        self._taken = True

    def _open(self, *, share: float) -> Session:
        session = Session(memory_limit=self._memory_limit, share=share, paths=self._rows.paths)
        self._sessions.append(session)
        return session

    def _run(
        self, session: Session, sql: str, stage: str, before: str | None = None
    ) -> Generator[pa.RecordBatch, None, None]:
        """Batches of what a query finds; at least one, so that a release of no rows has its columns too.

        A statement `before` it is run first; `stage` is what progress is called.
        """

        def found() -> Iterator[pa.RecordBatch]:
            if before is not None:
                session.execute(before)
            yield from session.batches(sql, also_nothing=True)

        def waiting() -> None:
            if self._progress is not None:
                self._progress(stage, self._sessions[0].progress())

        if self._progress is not None:
            self._progress(stage, None)
        self._running = in_background(found(), interrupt=self._interrupt, waiting=waiting)
        return self._running

    def _interrupt(self) -> None:
        for session in self._sessions:
            session.interrupt()

    def close(self) -> None:
        """Stop counting and remove everything temporary. May be called again."""
        self._taken = True
        self._stop()

    def _stop(self) -> None:
        running, self._running = self._running, None
        if running is not None:
            running.close()
        sessions, self._sessions = self._sessions, []
        for session in sessions:
            session.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def check_text(batch: pa.RecordBatch | pa.Table) -> None:
    """Refuse text that is not valid: engines pass that of Arrow tables on without a look at its encoding."""
    invalid = InvalidSource("the source holds text that is not valid UTF-8.")
    attempt(lambda: batch.validate(full=True), lambda _: invalid, pa.ArrowInvalid)
