"""Which keys each unit has, on a cluster: packed once, asked in every stage of a release in rounds.

Rows are shuffled by unit once; what every stage asks is a job over the kept packs (`dptally.spark.packed_units`). Sums
of weights are shuffled by key, where keys are drawn for; numbers of units by size, and counts of found keys, are added
up in the driver, and drawn from there. Each stage has secrets of its own, which end with its job: its result is in the
driver by then. The secret by which huge units choose ends when the packs are removed, as Spark makes packs again that
it lost.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from dptally.exact.integer_columns import integers
from dptally.spark.jobs import Progress, is_stopped, run
from dptally.spark.packed_units import COLUMNS, CountFound, CountSizes, DrawRound, PackUnits, SumWeights
from dptally.spark.released import release_rows
from dptally.spark.secrets import shared_secret
from dptally.spark.workers import map_in_arrow

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dptally.laws.spec import Question
    from dptally.randomness import BitSource
    from dptally.spark.rows import SparkRows

__all__ = ["FoundCounts", "SparkPairs", "UnitSizes"]


@dataclass(frozen=True, repr=False)
class UnitSizes:
    """How many units have how many keys. Private."""

    counts: NDArray[np.int64]


class FoundCounts:
    """Found keys with the number of units that were counted for each, zero too. Private.

    Args:
        rows: what was counted.
        found: the keys, public.
        counts: in their order.
        kept: how many keys of a unit were counted at most.
    """

    scheme = None

    def __init__(self, rows: SparkRows, found: pa.Table, counts: NDArray[np.int64], kept: int) -> None:
        self.key, self.unit, self.max_keys_per_unit = rows.key, rows.unit, kept
        self._found, self._counts = found, counts

    def batches(self) -> Iterator[tuple[pa.RecordBatch, NDArray[np.int64]]]:
        """All keys and their counts."""
        columns = [pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)
                   for column in self._found.columns]  # fmt: skip
        yield pa.RecordBatch.from_arrays(columns, schema=self._found.schema), self._counts


class SparkPairs:
    """The distinct keys of every unit, kept by the executors. Private.

    Args:
        rows: with a unit.
        bits: where secrets come from by which units choose their keys.
        progress: told how far it is.
    """

    def __init__(self, rows: SparkRows, bits: BitSource, progress: Progress | None) -> None:
        from pyspark.sql import functions
        from pyspark.sql.types import BinaryType, StructField, StructType

        self._rows, self._bits, self._progress = rows, bits, progress
        self._names = [f"k{i}" for i in range(len(rows.key))]
        self._kept = contextlib.ExitStack()
        secret = self._kept.enter_context(shared_secret(rows.frame, bits))
        with contextlib.ExitStack() as undone:
            undone.callback(self._kept.close)
            hashed = functions.xxhash64("u").alias("h")
            together = rows.frame.repartition("u").select(hashed, "u", *self._names)
            schema = StructType([StructField(name, BinaryType(), nullable=False) for name in COLUMNS])
            packs = map_in_arrow(together.sortWithinPartitions("h", "u"), PackUnits(secret), schema)
            with _joining_partitions(rows.frame.sparkSession):
                self._packs = packs.persist()
            self._kept.callback(self._forget)
            undone.pop_all()

    def close(self) -> None:
        """Have the executors remove the packs. May be called again."""
        self._kept.close()

    def _forget(self) -> None:
        if not is_stopped(self._rows.frame):  # else they are gone with it
            self._packs.unpersist(blocking=True)

    def sizes(self, question: Question) -> UnitSizes:
        """How many units have a number of keys in each bin."""
        parameters, found = question.parameters, self._keys(question)
        count = CountSizes(parameters["ends"], found, of_found=parameters["of_found"])
        needed = COLUMNS[2:3] if found is None else COLUMNS[1:]
        numbers = self._numbers(map_in_arrow(self._packs.select(*needed), count, _places()), "measuring sizes")
        return UnitSizes(_in_place(numbers, len(parameters["ends"])))

    def reported(self, question: Question) -> pa.Table:
        """The keys that a round reports, drawn for on the executors."""
        from pyspark.sql import functions
        from pyspark.sql.types import LongType, StructField, StructType

        rows, law = self._rows, question.law
        keys = [rows.frame.schema[name] for name in self._names]
        with contextlib.ExitStack() as secrets:
            drawing, choosing = (secrets.enter_context(shared_secret(rows.frame, self._bits)) for _ in range(2))
            add = SumWeights(law.weights.of_keys.tolist(), self._keys(question), choosing)
            added = map_in_arrow(self._packs, add, StructType([*keys, StructField("n", LongType(), nullable=False)]))
            sums = added.groupBy(*self._names).agg(functions.sum("n").alias("n"))
            schema = StructType([*keys, StructField("value", LongType(), nullable=False)])
            drawn = map_in_arrow(sums, DrawRound(law, drawing), schema)
            table = run(drawn, drawn.toArrow, stage="finding keys", progress=self._progress)
        return release_rows(table, rows.key)

    def found_counts(self, question: Question) -> FoundCounts:
        """How many units are counted for each found key; a unit keeps found keys only."""
        found, kept = self._keys(question), question.max_keys_per_unit
        assert found is not None  # noqa: S101 - a round came before
        with shared_secret(self._rows.frame, self._bits) as choosing:
            counted = map_in_arrow(self._packs, CountFound(kept, found, choosing), _places())
            numbers = self._numbers(counted, "counting found keys")
        return FoundCounts(self._rows, found, _in_place(numbers, found.num_rows), kept)

    def _keys(self, question: Question) -> pa.Table | None:
        found = question.parameters["found"]
        return None if found is None else found.select(list(self._rows.key))

    def _numbers(self, frame: Any, stage: str) -> pa.Table:
        from pyspark.sql import functions

        added = frame.groupBy("place").agg(functions.sum("n").alias("n"))
        return run(added, added.toArrow, stage=stage, progress=self._progress)


@contextlib.contextmanager
def _joining_partitions(session: Any) -> Iterator[None]:
    """While a plan is handed over to be kept: Spark may join its small partitions, as it does where nothing is kept.

    By default it keeps all 200 partitions, and each costs every stage a Python task. The setting is read when
    `persist` is called, and is as before afterwards.
    """
    name = "spark.sql.optimizer.canChangeCachedPlanOutputPartitioning"
    before = session.conf.get(name, None)
    session.conf.set(name, "true")
    try:
        yield
    finally:
        if before is None:
            session.conf.unset(name)
        else:
            session.conf.set(name, before)


def _places() -> Any:
    from pyspark.sql.types import LongType, StructField, StructType

    return StructType([StructField(name, LongType(), nullable=False) for name in ("place", "n")])


def _in_place(numbers: pa.Table, length: int) -> NDArray[np.int64]:
    """Numbers in the order of their places; 0 where there is none."""
    found = np.zeros(length, dtype=np.int64)
    found[integers(numbers.column("place"))] = integers(numbers.column("n"))
    return found
