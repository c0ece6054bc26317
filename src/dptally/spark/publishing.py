"""From a Spark DataFrame to a release: secrets, plan, one run, and nothing left behind.

**A key is drawn once.** Spark runs a task again when an executor is lost, and runs slow ones twice. The words of a
key's draw are a function of the key and of a secret that is made here, once (`dptally.randomness.keyed`); a unit's
choice of keys is a function of the unit's keys and of another such secret. So whatever is run again gives the same
rows, as long as the source gives the same rows; why words made so are as good as fresh ones is written there. If the
source changes between two attempts (a file is overwritten, a sample is taken anew), each partition's rows are still
taken once: the driver accepts one result of each task, and nothing else leaves the executors.

**When the secret goes.** ``collect=True``: the rows are in the driver when the run ends; then the broadcast half is
destroyed and the driver's copies are overwritten. ``collect=False``: a DataFrame is a recipe that Spark follows each
time it is asked, also when a cached part is lost. So the drawn rows are fixed first, by a checkpoint: in the directory
that the session's `setCheckpointDir` names, else in the executors' own storage. A checkpoint cuts the recipe: nobody
can go back behind it. Then the secret is wiped as before. If an executor's storage is lost afterwards, reading fails;
it never draws again. What is checkpointed are reported rows, which are public.

Sorting comes after the checkpoint: Spark's global sort runs what is below it twice.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dptally.randomness import SystemBits
from dptally.randomness.keyed import SECRET_BYTES, draw_secret
from dptally.release import Release
from dptally.spark.counting import bounded, counted, drawn
from dptally.spark.drawing import Halves
from dptally.spark.jobs import Progress, guarded, run
from dptally.spark.released import SparkRelease, release_rows
from dptally.spark.rows import is_stopped

if TYPE_CHECKING:
    from dptally.mechanisms.independent_keys import IndependentKeys
    from dptally.randomness import BitSource
    from dptally.spark.rows import SparkRows

__all__ = ["count_occurrences", "drawn_rows", "publish_rows"]


def publish_rows(
    mechanism: IndependentKeys,
    rows: SparkRows,
    max_keys_per_unit: int,
    bits: BitSource,
    begin: Callable[[], None],
    *,
    collect: bool,
    progress: Progress | None,
) -> Release | SparkRelease:
    """Bound, count and draw on the cluster.

    Args:
        mechanism: certified.
        rows: what to publish.
        max_keys_per_unit: bound on what one unit touches.
        bits: where the secrets come from.
        begin: called before anything that was drawn can be seen outside the executors and the driver.
        collect: whether the released rows come to the driver.
        progress: called with the stage and how much of it is done.

    Raises:
        InvalidSource: the data cannot be read as asked, or Spark fails.
        InvalidParameter: the released rows do not fit into the driver.
    """
    return guarded(rows.frame, lambda: _publish(mechanism, rows, max_keys_per_unit, bits, begin, collect, progress))


def _publish(
    mechanism: IndependentKeys,
    rows: SparkRows,
    max_keys_per_unit: int,
    bits: BitSource,
    begin: Callable[[], None],
    collect: bool,
    progress: Progress | None,
) -> Release | SparkRelease:
    guarantee = mechanism.promise(rows.unit, private=bits.private)
    facts = (guarantee, mechanism.certificate, mechanism.law)
    # What a job that fails has drawn stays on its executors, and its secret is gone: nobody sees it, and nothing is
    # spent. Rows in the driver are seen when they are returned; rows of a checkpoint when they are written.
    with drawn_rows(mechanism, rows, max_keys_per_unit, bits) as reported:
        if collect:
            table = run(reported, reported.toArrow, stage="counting keys", progress=progress)
            begin()
            return Release(release_rows(table, rows.key), *facts)
        begin()
        fixed = run(reported, lambda: _fixed(reported), stage="counting keys", progress=progress)
    named = fixed.toDF(*rows.key, "value")
    order = [named[f"`{name.replace('`', '``')}`"].asc_nulls_last() for name in rows.key]
    return SparkRelease(named.orderBy(*order), *facts)


def count_occurrences(rows: SparkRows, progress: Progress | None) -> int:
    """The number of occurrences that would be counted, without a unit. Private, and exact."""
    return guarded(rows.frame, lambda: _count_occurrences(rows, progress))


def _count_occurrences(rows: SparkRows, progress: Progress | None) -> int:
    if rows.count is None:
        return int(run(rows.frame, rows.frame.count, stage="counting rows", progress=progress))
    total = counted(rows, rows.frame).selectExpr("sum(cast(n as decimal(38,0)))")
    [[found]] = run(rows.frame, total.collect, stage="counting rows", progress=progress)
    return int(found or 0)


@contextlib.contextmanager
def drawn_rows(mechanism: IndependentKeys, rows: SparkRows, max_keys_per_unit: int, bits: BitSource) -> Iterator[Any]:
    """The plan of the drawn rows; it can be run until the block ends, and gives the same rows each time.

    The secrets are drawn in the order of one machine (for the draw, then for the choice of keys), so that a seed gives
    the same release there.
    """
    with contextlib.ExitStack() as secrets:
        drawing = secrets.enter_context(_shared(rows.frame, bits))
        frame = rows.frame
        if rows.unit is not None:
            frame = bounded(rows, max_keys_per_unit, secrets.enter_context(_shared(rows.frame, bits)))
        yield drawn(rows, counted(rows, frame), mechanism, drawing)


@contextlib.contextmanager
def _shared(frame: Any, bits: BitSource) -> Iterator[Halves]:
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


def _fixed(reported: Any) -> Any:
    """The rows, computed now and never again; in order within each part."""
    context = reported.sparkSession.sparkContext
    keys = [column for column in reported.columns if column != "value"]
    parts = reported.sortWithinPartitions(*keys)
    if context._jsc.sc().getCheckpointDir().isDefined():
        return parts.checkpoint(eager=True)
    return parts.localCheckpoint(eager=True)
