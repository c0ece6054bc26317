"""What counting has in common: sessions of the engine, opened when needed, always closed, stopped by Ctrl-C."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from types import TracebackType
from typing import Self

import pyarrow as pa

from dptally.errors import InvalidParameter
from dptally.randomness import BitSource
from dptally.sources import Rows
from dptally.sources.background import in_background
from dptally.sources.engine import Session

__all__ = ["Counting", "Progress"]

Progress = Callable[[str, float | None], None]


class Counting:
    """Work on private rows whose result can be read once. Leaves nothing behind.

    Args:
        rows: what is counted.
        bits: where random choices come from.
        memory_limit: what DuckDB may take before it spills to disk.
        progress: called with the stage and how much of it is done.
    """

    def __init__(self, rows: Rows, *, bits: BitSource, memory_limit: str | None, progress: Progress | None) -> None:
        self.key = rows.key
        self._rows = rows
        self._bits = bits
        self._memory_limit = memory_limit
        self._progress = progress
        self._sessions: list[Session] = []
        self._running: Generator[pa.RecordBatch, None, None] | None = None
        self._taken = False

    def _take(self) -> None:
        """Allow the result to be read, this once: reading again would draw again."""
        if self._taken:
            raise InvalidParameter("these frequencies have been read or closed; count the keys again.")
        self._taken = True

    def _open(self, *, share: float) -> Session:
        session = Session(memory_limit=self._memory_limit, share=share, paths=self._rows.paths)
        self._sessions.append(session)
        return session

    def _run(self, session: Session, sql: str, stage: str, before: str | None = None) -> Iterator[pa.RecordBatch]:
        """Batches of what a query finds; at least one, so that a release of no rows has its columns too.

        Args:
            session: where it runs.
            sql: the query.
            stage: what progress is called.
            before: a statement to run before the query.
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

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()
