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

**Releases in rounds** bring the keys that each round finds to the driver, as the next round leaves them out, and counts
of found keys are drawn there; ``collect=False`` hands these rows back to Spark. What the executors keep between stages
(`dptally.spark.unit_pairs`) is removed when the release is made, or has failed.

Sorting comes after the checkpoint: Spark's global sort runs what is below it twice.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import SparkSession

from dptally.mechanisms.registry import draw
from dptally.spark.counting import bounded, counted, drawn
from dptally.spark.jobs import Progress, guarded, run
from dptally.spark.released import SparkRelease, release_rows
from dptally.spark.row_sampling import can_sample_rows, most_rows, sampled
from dptally.spark.secrets import shared_secret
from dptally.spark.sketching import merged_sketch
from dptally.spark.unit_pairs import SparkPairs

if TYPE_CHECKING:
    from dptally.laws.spec import Question, Spec
    from dptally.ledger.paying import Paid
    from dptally.privacy.guarantee import Guarantee
    from dptally.randomness import BitSource
    from dptally.spark.rows import SparkRows

__all__ = ["OpenedFrame", "count_occurrences", "drawn_rows", "make_spark_release"]


class OpenedFrame:
    """Rows on a cluster: what answers the questions of a release there.

    Args:
        rows: opened, their columns checked.
        collect: whether the released rows come to the driver.
    """

    def __init__(self, rows: SparkRows, *, collect: bool) -> None:
        self.rows, self._collect = rows, collect
        self._contents: Any = None
        self._pairs: SparkPairs | None = None

    @property
    def key(self) -> tuple[str, ...]:
        """Names of the key columns."""
        return self.rows.key

    def answer(self, spec: Spec, question: Question, bits: BitSource, paid: Paid, report: Progress | None) -> Any:
        """Bound, count and draw on the cluster; sketches and totals are drawn from in the driver.

        Raises:
            InvalidSource: the data cannot be read as asked, or Spark fails.
            InvalidParameter: the released rows do not fit into the driver.
        """
        if question.summary == "keys":
            return guarded(self.rows.frame, lambda: self._drawn(question, bits, paid, report))
        if question.summary == "unit_weights":
            reported = guarded(self.rows.frame, lambda: self._paired(bits, report).reported(question))
            paid.begin()  # as for keys that are collected
            return reported
        summary: Any
        if question.summary == "total":
            summary = count_occurrences(self.rows, report)
        elif question.summary == "unit_sizes":
            summary = guarded(self.rows.frame, lambda: self._paired(bits, report).sizes(question))
        elif question.summary == "found_counts":
            summary = guarded(self.rows.frame, lambda: self._paired(bits, report).found_counts(question))
        else:
            summary = self._sketched(spec, bits, report)
        return draw(spec.mechanism, question, summary, paid.bits)

    def close(self) -> None:
        """Have the executors remove what they kept for later stages."""
        if self._pairs is not None:
            self._pairs.close()

    def _paired(self, bits: BitSource, report: Progress | None) -> SparkPairs:
        """The keys of every unit, packed once; each stage of a release in rounds is asked of them."""
        if self._pairs is None:
            self._pairs = SparkPairs(self.rows, bits, report)
        return self._pairs

    def _sketched(self, spec: Spec, bits: BitSource, report: Progress | None) -> Any:
        """Sketch on the cluster; `bits` are where the secret comes from by which units choose their keys."""
        if self._contents is None:
            facts = spec.parameters["sketch"]
            sketch = merged_sketch(self.rows, facts.capacity, facts.max_keys_per_unit, bits, progress=report)
            self._contents = replace(sketch.contents(), column=self.rows.key[0])
        return self._contents

    def _drawn(self, question: Question, bits: BitSource, paid: Paid, report: Progress | None) -> Any:
        # What a job that fails has drawn stays on its executors, and its secret is gone: nobody sees it. It stays spent
        # all the same, as whether a job fails may depend on the rows. Rows in the driver, or kept by executors, are
        # seen when they are returned; rows in a checkpoint directory, where others may read them, when the first of
        # them is written.
        rows = self.rows
        early = bits.private and _samples_early(question, rows, report)
        with drawn_rows(question, rows, bits, early=early) as reported:
            if self._collect:
                table = run(reported, reported.toArrow, stage="counting keys", progress=report)
                paid.begin()
                return release_rows(table, rows.key)
            in_directory = rows.frame.sparkSession.sparkContext._jsc.sc().getCheckpointDir().isDefined()
            if in_directory:
                paid.begin()
            fixed = run(
                reported, lambda: _fixed(reported, in_directory=in_directory), stage="counting keys", progress=report
            )
            paid.begin()
        named = fixed.toDF(*rows.key, "value")
        order = [named[f"`{name.replace('`', '``')}`"].asc_nulls_last() for name in rows.key]
        return named.orderBy(*order)


def make_spark_release(
    spec: Spec, asked: Question, outputs: Sequence[Any], guarantee: Guarantee, key: tuple[str, ...]
) -> SparkRelease:
    """A release that stays on the cluster; see `dptally.releases.making.make_release`."""
    found = spec.result(outputs)
    law, certificate = found.get("law", asked.law), found.get("certificate", asked.certificate)
    rows = found["rows"]
    if isinstance(rows, pa.Table):  # drawn in the driver, in order of keys
        rows = SparkSession.builder.getOrCreate().createDataFrame(rows.select([*key, "value"]))
    return SparkRelease(rows, guarantee, certificate, law)


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
def drawn_rows(question: Question, rows: SparkRows, bits: BitSource, *, early: bool = False) -> Iterator[Any]:
    """The plan of the drawn rows; it can be run until the block ends, and gives the same rows each time.

    The secrets are drawn in the order of one machine (for the draw, then for the choice of keys), so that a seed gives
    the same release there. With `early`, rows are sampled before they are counted, by the same law.
    """
    with contextlib.ExitStack() as secrets:
        drawing = secrets.enter_context(shared_secret(rows.frame, bits))
        frame = rows.frame
        if rows.unit is not None:
            frame = bounded(rows, question.max_keys_per_unit, secrets.enter_context(shared_secret(rows.frame, bits)))
        elif early:
            frame = sampled(rows, question.law, secrets.enter_context(shared_secret(rows.frame, bits)))
        yield drawn(rows, counted(rows, frame), question.law, drawing, sampled=early)


def _samples_early(question: Question, rows: SparkRows, progress: Progress | None) -> bool:
    """Whether rows are sampled before they are counted. Depends on the plan and the number of rows, not on a coin."""
    if not can_sample_rows(question.law, rows):
        return False
    limit = most_rows(question.law)
    return limit is None or _count_occurrences(rows, progress) <= limit


def _fixed(reported: Any, *, in_directory: bool) -> Any:
    """The rows, computed now and never again; in order within each part."""
    keys = [column for column in reported.columns if column != "value"]
    parts = reported.sortWithinPartitions(*keys)
    if in_directory:
        return parts.checkpoint(eager=True)
    return parts.localCheckpoint(eager=True)
