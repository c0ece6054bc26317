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
from typing import TYPE_CHECKING, Any

from dptally.releases.release import Release
from dptally.spark.counting import bounded, counted, drawn
from dptally.spark.jobs import Progress, guarded, run
from dptally.spark.released import SparkRelease, release_rows
from dptally.spark.row_sampling import can_sample_rows, most_rows, sampled
from dptally.spark.secrets import shared_secret
from dptally.spark.sketching import merged_sketch

if TYPE_CHECKING:
    from dptally.mechanisms.independent_keys import IndependentKeys
    from dptally.mechanisms.private_misra_gries import PrivateMisraGries
    from dptally.randomness import BitSource
    from dptally.spark.rows import SparkRows

__all__ = ["count_occurrences", "drawn_rows", "publish_rows", "publish_sketch"]


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
    # What a job that fails has drawn stays on its executors, and its secret is gone: nobody sees it. It stays spent all
    # the same, as whether a job fails may depend on the rows. Rows in the driver, or kept by executors, are seen when
    # they are returned; rows in a checkpoint directory, where others may read them, when the first of them is written.
    early = bits.private and _samples_early(mechanism, rows, progress)
    with drawn_rows(mechanism, rows, max_keys_per_unit, bits, early=early) as reported:
        if collect:
            table = run(reported, reported.toArrow, stage="counting keys", progress=progress)
            begin()
            return Release(release_rows(table, rows.key), *facts)
        in_directory = rows.frame.sparkSession.sparkContext._jsc.sc().getCheckpointDir().isDefined()
        if in_directory:
            begin()
        fixed = run(
            reported, lambda: _fixed(reported, in_directory=in_directory), stage="counting keys", progress=progress
        )
        begin()
    named = fixed.toDF(*rows.key, "value")
    order = [named[f"`{name.replace('`', '``')}`"].asc_nulls_last() for name in rows.key]
    return SparkRelease(named.orderBy(*order), *facts)


def publish_sketch(
    mechanism: PrivateMisraGries, rows: SparkRows, bits: BitSource, paid: BitSource, *, progress: Progress | None
) -> Release:
    """Sketch on the cluster, and draw from the merged sketch in the driver.

    Args:
        mechanism: certified, for a merged sketch or for one of units.
        rows: what to publish.
        bits: where the secret comes from by which units choose their keys.
        paid: what the release is drawn with.
        progress: called with the stage and how much of it is done.

    Raises:
        InvalidSource: the data cannot be read as asked, or Spark fails.
        InvalidParameter: the request does not fit a sketch.
    """
    sketch = merged_sketch(rows, mechanism.capacity, mechanism.max_keys_per_unit, bits, progress=progress)
    drawn, shortfall = mechanism.draw(sketch.contents(), rows.key[0], paid)
    return Release(drawn.rows, drawn.guarantee, drawn.certificate, drawn.law, shortfall)


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
def drawn_rows(
    mechanism: IndependentKeys, rows: SparkRows, max_keys_per_unit: int, bits: BitSource, *, early: bool = False
) -> Iterator[Any]:
    """The plan of the drawn rows; it can be run until the block ends, and gives the same rows each time.

    The secrets are drawn in the order of one machine (for the draw, then for the choice of keys), so that a seed gives
    the same release there. With `early`, rows are sampled before they are counted, by the same law.
    """
    with contextlib.ExitStack() as secrets:
        drawing = secrets.enter_context(shared_secret(rows.frame, bits))
        frame = rows.frame
        if rows.unit is not None:
            frame = bounded(rows, max_keys_per_unit, secrets.enter_context(shared_secret(rows.frame, bits)))
        elif early:
            frame = sampled(rows, mechanism, secrets.enter_context(shared_secret(rows.frame, bits)))
        yield drawn(rows, counted(rows, frame), mechanism, drawing, sampled=early)


def _samples_early(mechanism: IndependentKeys, rows: SparkRows, progress: Progress | None) -> bool:
    """Whether rows are sampled before they are counted. Depends on the plan and the number of rows, not on a coin."""
    if not can_sample_rows(mechanism.law, rows):
        return False
    limit = most_rows(mechanism.law)
    return limit is None or _count_occurrences(rows, progress) <= limit


def _fixed(reported: Any, *, in_directory: bool) -> Any:
    """The rows, computed now and never again; in order within each part."""
    keys = [column for column in reported.columns if column != "value"]
    parts = reported.sortWithinPartitions(*keys)
    if in_directory:
        return parts.checkpoint(eager=True)
    return parts.localCheckpoint(eager=True)
