"""A sketch kept over a stream, published at chosen times (Structured Streaming).

**Exactly once.** Spark hands over micro-batches with consecutive numbers, and hands a batch over again, with the same
rows, if it was not told that it is done. The sketch of all batches up to number n is one file with n in its name, which
appears whole or not at all; a batch whose number is not above that of the file is left out. So after a crash, wherever
it happens, each batch is in the sketch once. Spark's own notes on what it has read are in the same directory, so that
the two cannot be taken apart.

**What may be published.** The sketch is merged from the sketches of batches, in their order, and each of those is made
as in `dptally.spark.sketching`. One row more in the stream changes one batch's sketch as if by one element, and so the
merged one by at most one in each counter, in one direction [LT25, Cor. 18], *if it leaves all other rows in their
batches*. So batches must be cut by something that does not look at rows: whole files, or the clock. Limits on rows,
offsets or bytes for a batch would move a row of somebody else into the next batch, and that row the next one; streams
with such limits are refused where their options show them. When rows arrive, and how fast they are worked off, counts
as given: it is not protected.

**When there is something to publish.** Before the first batch has arrived nothing is published, and nothing spent. That
a batch arrives is the stream's clock, which is not protected: files that are put there, or time that has passed. What
is *in* the batch does not matter: one without rows, or with nulls alone, counts as any other. Whether it has rows may
depend on one unit, and a publication that waited for the first row would tell when it came.

**What the guarantee is.** Each publication is (epsilon, delta)-differentially private for one row of the stream. A row
stays in the sketch, so later publications tell about it again: n of them together keep n times epsilon and delta, or
what a ledger works out. A unit with rows in many batches is protected as so many rows; sketches of units need all rows
of a unit at once, and are for batch jobs.

The directory is private: it holds keys and counts, and what was read. Only its owner may enter it.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import threading
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from dptally.errors import BudgetExceeded, DptallyError, InvalidParameter, InvalidSource, attempt
from dptally.exact import as_count
from dptally.randomness import SystemBits
from dptally.sketches import publish_sketch
from dptally.spark.errors import explain, marked
from dptally.spark.jobs import is_stopped
from dptally.spark.rows import open_frame, require_running
from dptally.spark.sketching import check_capacity, declared_kind, merged_sketch
from dptally.summaries.misra_gries import MisraGries

if TYPE_CHECKING:
    from dptally.ledger.paying import AnyLedger
    from dptally.releases.table_release import TableRelease

__all__ = ["SketchStream"]

Budget = float | str | Fraction
_NAME = re.compile(r"batch-(\d{12})\.sketch")
_LIMITS = ("maxbytespertrigger", "maxoffsetspertrigger", "minoffsetspertrigger", "maxrowspertrigger")


class SketchStream:
    """The most frequent keys of a stream, in bounded memory; see the module for what may be published of it.

    ::

        stream = SketchStream(frame, "private/queries", key="query", capacity=10_000)
        stream.publish_every(deliver, seconds=3600, epsilon="0.1", delta="1e-9", ledger="budget.db")
        stream.start(processingTime="10 seconds")

    Made again with the same directory, it goes on where it was. One at a time can use a directory.

    Args:
        frame: a streaming Spark DataFrame (``spark.readStream``).
        directory: on the driver's disk; made, for its owner alone, if it is not there.
        key: the column of keys, text, bytes or integers; its declared type is that of the keys in every release.
        capacity: the number of counters; that of the directory, if there is something in it.
        buckets: how many sketches of a batch are merged; None for the session's number of shuffle partitions.

    Raises:
        InvalidParameter: the frame is no stream, cuts its batches by rows, or the directory is in use, of another
            capacity or of another kind of keys.
        InvalidSource: the session was stopped, or the column cannot be a key.
    """

    def __init__(
        self, frame: Any, directory: str | Path, *, key: str, capacity: int = 10_000, buckets: int | None = None
    ) -> None:
        if not isinstance(key, str):
            raise InvalidParameter("key must be the name of one column.")
        self.key, self.capacity = key, check_capacity(capacity)
        self._buckets = None if buckets is None else as_count("buckets", buckets, largest=4096)
        require_running(frame, streaming=True)
        self._kind = declared_kind(open_frame(frame, key=key, unit=None, streaming=True))
        _refuse_limits(frame)
        self._frame = frame
        self._directory = Path(directory)
        self._lock = threading.RLock()
        self._stopping = threading.Event()
        self._threads: list[threading.Thread] = []
        self._after_batch: list[Callable[[int], None]] = []
        self._query: Any = None
        self._failure: DptallyError | None = None
        self._undelivered: DptallyError | None = None
        held = _lock_directory(self._directory)
        try:
            self.batch, self._sketch = self._read()
        except BaseException:
            os.close(held)
            raise
        self._descriptor: int | None = held
        self.refused: list[BudgetExceeded] = []

    def __repr__(self) -> str:
        return f"SketchStream(key={self.key!r}, capacity={self.capacity})"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()

    # Reading.

    def start(self, **trigger: Any) -> Self:
        """Start to read.

        Args:
            trigger: when a batch begins, as for Spark's ``trigger``: ``processingTime="10 seconds"``.

        Raises:
            InvalidParameter: it runs already, or was stopped.
            InvalidSource: Spark cannot start it.
        """
        if self._descriptor is None:
            raise InvalidParameter("this stream was stopped; make a new one with the same directory.")
        if self.running:
            raise InvalidParameter("this stream runs already.")
        if self._undelivered is not None:
            raise self._undelivered
        self._failure = None

        def started() -> Any:
            writer = self._frame.writeStream.foreachBatch(self._take)
            writer = writer.option("checkpointLocation", (self._directory / "checkpoint").absolute().as_uri())
            return (writer.trigger(**trigger) if trigger else writer).start()

        self._query = attempt(started, lambda error: explain(error, stopped=is_stopped(self._frame)))
        return self

    def process_available(self) -> None:
        """Read all that is there now, and return when it is in the sketch.

        Raises:
            InvalidSource: it cannot be read. What was read before is kept.
        """
        self.start(availableNow=True)
        self.wait()

    def wait(self, seconds: float | None = None) -> bool:
        """Wait until reading has ended, at most so many seconds.

        Returns:
            Whether it has.

        Raises:
            InvalidSource: it has failed.
        """
        ended = attempt(
            lambda: self._query.awaitTermination(seconds),
            lambda error: self._failure or explain(error, stopped=is_stopped(self._frame)),
        )
        if self._undelivered is not None:
            raise self._undelivered
        return seconds is None or bool(ended)

    @property
    def running(self) -> bool:
        """Whether it is reading."""
        return self._query is not None and not is_stopped(self._frame) and bool(self._query.isActive)

    def stop(self) -> None:
        """Stop reading and publishing, and leave the directory to others. What was read stays there."""
        self._stopping.set()
        if self.running:
            with contextlib.suppress(Exception):  # what Spark says about a stream that is being stopped
                self._query.stop()
        for thread in self._threads:
            if thread is not threading.current_thread():
                thread.join()
        with self._lock:
            if self._descriptor is not None:
                os.close(self._descriptor)
                self._descriptor = None

    def _take(self, frame: Any, number: int) -> None:
        """Take in a batch; called by Spark, again if it was not done with it."""
        failure = None
        try:
            with self._lock:
                if self._descriptor is None:  # an error, so that Spark does not take the batch for done
                    raise InvalidParameter("this stream was stopped.")
                if number <= self.batch:
                    return
                rows = open_frame(frame, key=self.key, unit=None)
                sketch = merged_sketch(rows, self.capacity, 1, SystemBits(), buckets=self._buckets)
                if not isinstance(sketch, MisraGries):
                    raise TypeError("a stream has no units")
                merged = self._sketch.merge(sketch)
                merged.streams = self._sketch.streams or sketch.streams  # one stream, however many batches it has
                self._write(number, merged)
                self.batch, self._sketch = number, merged
            for publish in self._after_batch:
                publish(number)
        except Exception as error:
            self._failure = error if isinstance(error, DptallyError) else None
            failure = marked(error)
        if failure is not None:
            raise failure

    # Publishing.

    def publish(
        self, epsilon: Budget, delta: Budget, *, ledger: AnyLedger | None = None, **options: Any
    ) -> TableRelease:
        """Release what has been read so far; options as for `MisraGriesSketch.publish`.

        Each publication is a release of its own, which pays in full.

        Raises:
            InvalidParameter: a request that cannot be met, or no batch has arrived yet.
            BudgetExceeded: the ledger does not allow it. Reading goes on.
        """
        with self._lock:
            if self.batch < 0:
                raise InvalidParameter("no batch has arrived yet, so there is nothing to publish; nothing was spent.")
            sketch = self._sketch
        return publish_sketch(sketch, epsilon, delta, name=options.pop("name", self.key), ledger=ledger, **options)

    def publish_every(
        self,
        deliver: Callable[[TableRelease], None],
        *,
        epsilon: Budget,
        delta: Budget,
        seconds: float | None = None,
        batches: int | None = None,
        ledger: AnyLedger | None = None,
        **options: Any,
    ) -> None:
        """Publish by the clock, or after every so many batches, until the stream is stopped.

        When something is published is seen by those who see it: prefer the clock, since the number of batches tells
        how often there was something to read. Before the first batch has arrived nothing is published, whatever the
        clock says; from then on it is, whatever the batches hold. A publication that the ledger refuses is noted in
        `refused`, and reading goes on. One that was due when the process died is left out, not made up for.

        Args:
            deliver: called with each release, in a thread of its own or of Spark; if it raises an error, reading ends,
                and `wait` says so. It must not stop the stream itself.
            epsilon: of each publication.
            delta: of each publication.
            seconds: between two publications; this or `batches` must be given.
            batches: so many.
            ledger: what publications spend from.
            options: as for `MisraGriesSketch.publish`.

        Raises:
            InvalidParameter: neither or both of `seconds` and `batches` are given, or a publication could never be
                made.
        """
        if (seconds is None) == (batches is None):
            raise InvalidParameter("give either seconds or batches.")
        if seconds is not None and not seconds > 0:
            raise InvalidParameter(f"seconds must be positive, got {seconds}.")
        # Certified now, and found out now if it cannot be: by publishing a sketch of nothing.
        publish_sketch(MisraGries(self.capacity).merge(), epsilon, delta, name=self.key, **options)

        def publish() -> None:
            release = None
            try:
                release = self.publish(epsilon, delta, ledger=ledger, **options)
            except BudgetExceeded as error:
                self.refused.append(error)
            if release is not None:
                deliver(release)

        if batches is not None:
            every = as_count("batches", batches, largest=1 << 40)
            self._after_batch.append(lambda number: publish() if (number + 1) % every == 0 else None)
            return

        def by_the_clock() -> None:
            try:
                while not self._stopping.wait(seconds):
                    if self.batch >= 0:
                        publish()
            except Exception as error:
                told = error if isinstance(error, DptallyError) else None
                self._undelivered = told or InvalidSource("a publication could not be delivered.")
                if self.running:
                    with contextlib.suppress(Exception):  # what Spark says about a stream that is being stopped
                        self._query.stop()

        thread = threading.Thread(target=by_the_clock, name="dptally-publish", daemon=True)
        self._threads.append(thread)
        thread.start()

    # The directory.

    def _read(self) -> tuple[int, MisraGries]:
        """The last batch that is in a file, and its sketch; -1 and an empty one if there is none."""
        found = sorted(path for path in self._directory.iterdir() if _NAME.fullmatch(path.name))
        number, empty = -1, MisraGries(self.capacity, kind=self._kind)
        sketch = empty.merge()
        if found:
            number, sketch = int(found[-1].name[6:18]), MisraGries.load(found[-1])
        if sketch.capacity != self.capacity:
            raise InvalidParameter(
                f"'{self._directory}' holds a sketch of capacity {sketch.capacity}, got {self.capacity}."
            )
        if sketch.kind not in (None, self._kind):
            raise InvalidParameter(
                f"'{self._directory}' holds a sketch of keys of kind {sketch.kind}, got {self._kind}."
            )
        if sketch.kind is None:  # an older version wrote it, before there was a key
            sketch = empty.merge(sketch)
        # Spark notes what a batch is before it hands it over, and that it is done afterwards.
        if self._noted("offsets") < number or self._noted("commits") > number:
            raise InvalidSource(
                f"what '{self._directory}' holds does not belong together: the sketch or Spark's notes were removed or "
                "replaced; start again in another directory."
            )
        return number, sketch

    def _noted(self, what: str) -> int:
        """The largest number of a batch in Spark's notes, -1 if there is none."""
        folder = self._directory / "checkpoint" / what
        names = [path.name for path in folder.iterdir()] if folder.is_dir() else []
        return max((int(name) for name in names if name.isdecimal()), default=-1)

    def _write(self, number: int, sketch: MisraGries) -> None:
        path = self._directory / f"batch-{number:012d}.sketch"
        sketch.save(path, overwrite=True)
        for other in self._directory.iterdir():
            if _NAME.fullmatch(other.name) and other.name < path.name:
                other.unlink(missing_ok=True)


def _lock_directory(directory: Path) -> int:
    """Make the directory if it is not there, and hold it for this stream."""
    problem = None
    descriptor = -1
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        if directory.stat().st_mode & 0o077 or directory.stat().st_uid != os.getuid():
            problem = f"'{directory}' must be for its owner alone (chmod 700)."
        else:
            descriptor = os.open(directory / "lock", os.O_CREAT | os.O_RDWR, 0o600)
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        problem = f"'{directory}' is in use by another stream."
    except OSError:
        problem = f"'{directory}' cannot be used as a directory."
    if problem is not None:
        raise InvalidParameter(problem)
    return descriptor


def _refuse_limits(frame: Any) -> None:
    """Refuse options of sources that cut batches by the number or size of rows, where they can be seen."""
    leaves = frame._jdf.queryExecution().analyzed().collectLeaves()
    for place in range(leaves.size()):
        text = str(_options(leaves.apply(place))).lower()
        for limit in _LIMITS:
            if limit in text:
                raise InvalidParameter(
                    f"the option {limit} cuts batches by what is in them, so that one row would move others; "
                    "limit files (maxFilesPerTrigger), or nothing."
                )


def _options(leaf: Any) -> Any:
    """The options of a source, of either version of Spark's interface; nothing for other leaves."""
    kind = leaf.getClass().getSimpleName()
    if kind == "StreamingRelation":
        return leaf.dataSource().options().keys().toString()
    if kind == "StreamingRelationV2":
        return leaf.extraOptions().keySet().toString()
    return ""
