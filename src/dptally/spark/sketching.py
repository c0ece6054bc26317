"""Sketches on a cluster: one for each bucket of rows, merged on the executors by a fixed tree.

What is proved about sketches [LT25, Lem. 8, Lem. 27] is about two streams of which one has one element, or one user,
more, *in its place among the others*; and what is proved about merging [LT25, Cor. 18 and 28] is about the same
sketches merged in the same order. Spark promises neither: how it cuts files and shuffled data into partitions depends
on sizes, so one row more can move others from one partition to the next; rows come out of a shuffle in any order; and
`treeReduce` merges in the order in which blocks arrive. So here

- the **bucket** of a row is a fixed hash of its key (of its unit, where there is one) modulo a number that is fixed
  before data is read: it depends on that row alone, and all rows of a unit are in one bucket;
- a bucket's rows are **sorted** by content: by (another part of) the hash, then by unit and key. One unit more is
  inserted somewhere, and all others stay in their order;
- a sketch is made for each **bucket**, not for each partition: a partition may hold several, and a bucket that lies in
  two partitions is an error;
- what keys are (text, bytes or integers) comes from the **declared type** of their column, in the sketch of every
  bucket and where there is none, so that the release of no rows has the type of any other;
- the **tree** is fixed by the numbers of the buckets: those with equal b // 16 are merged in the order of b, then their
  results likewise. An empty bucket, like an empty sketch, changes nothing.

Therefore one unit more changes the sketch of one bucket as the lemmas say, the others not at all, and the merged one by
at most one in each counter, all in the same direction. Everything is a function of the set of rows (and, for the choice
of a unit's keys, of a secret that is the same in every attempt), so a task that is run again makes the same sketch.

Without units the rows of a key are equal, and sorted they are runs: so Spark counts first, partly before its shuffle
(`groupBy().count()`), and a run goes into the sketch as often as was counted. What crosses the network are keys and
counts, not rows.

Private sketches pass from executor to executor. The last one, of at most `capacity` counters, comes to the driver,
where it is drawn from; it is not written anywhere.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from dptally.contributions import bound_contributions
from dptally.errors import InvalidParameter, InvalidSource, attempt
from dptally.exact import as_count
from dptally.exact.integer_columns import integer_column, integers
from dptally.spark.drawing import Halves, rows_in_order
from dptally.spark.jobs import Progress, guarded, run
from dptally.spark.secrets import shared_secret
from dptally.spark.workers import map_in_arrow
from dptally.summaries.misra_gries import MisraGries
from dptally.summaries.sketch_files import ColumnNames
from dptally.summaries.stream_identities import new_identity
from dptally.summaries.user_misra_gries import UserMisraGries

if TYPE_CHECKING:
    from dptally.randomness import BitSource
    from dptally.spark.rows import SparkRows
    from dptally.summaries.sketch_keys import Kind

__all__ = ["LARGEST_CAPACITY", "check_capacity", "declared_kind", "merged_sketch"]

LARGEST_CAPACITY = 100_000  # the largest for which noise is certified; a sketch of it is one value of a row
_TOGETHER = 16
_MOST_BUCKETS = 4096
_EXPANDED = 1 << 20  # keys taken in at once
_OUT_OF_ORDER = "Spark did not keep the order of rows; no sketch can be made."
_SCHEMA = "b long, s binary"
_ARROW_SCHEMA = pa.schema([("b", pa.int64()), ("s", pa.binary())])
_KINDS: dict[str, Kind] = {
    **dict.fromkeys(("StringType", "CharType", "VarcharType"), "string"),
    "BinaryType": "bytes",
    **dict.fromkeys(("ByteType", "ShortType", "IntegerType", "LongType"), "integer"),
}

Sketch = MisraGries | UserMisraGries


def check_capacity(capacity: int) -> int:
    """Refuse what a cluster cannot pass on."""
    return as_count("capacity", capacity, largest=LARGEST_CAPACITY)


def merged_sketch(
    rows: SparkRows,
    capacity: int,
    max_keys_per_unit: int,
    bits: BitSource,
    *,
    buckets: int | None = None,
    progress: Progress | None = None,
) -> Sketch:
    """The sketch of all rows, merged from those of buckets; see the module for why it may be released as such. Private.

    Postcondition: a merged `MisraGries` where every row is a unit, and a merged `UserMisraGries` otherwise;
    a function of the set of rows, of `buckets`, and of the choices of keys. It counts as one stream of its own: nobody
    else sees what it was merged from.

    Args:
        rows: what to sketch, with one key column of text, bytes or integers.
        capacity: of all sketches.
        max_keys_per_unit: bound on the keys of a unit.
        bits: where the secret comes from by which units choose their keys.
        buckets: how many sketches are merged; None for the session's number of shuffle partitions. It must not depend
            on the data.
        progress: called with the stage and how much of it is done.
    """
    check_capacity(capacity)
    kind = declared_kind(rows)
    made: Sketch = guarded(
        rows.frame, lambda: _merged(rows, kind, capacity, max_keys_per_unit, bits, buckets, progress)
    )
    made.names, made.streams = ColumnNames(rows.key[0], rows.unit), frozenset({new_identity()})
    return made


def declared_kind(rows: SparkRows) -> Kind:
    """What keys are by the declared type of their column; refuses what a sketch cannot take in."""
    if len(rows.key) != 1:
        raise InvalidParameter(f"a sketch takes one key column, got {len(rows.key)}.")
    if rows.count is not None:
        raise InvalidParameter("a sketch reads raw rows, and this source holds counts; publish those instead.")
    if rows.nulls != "drop":
        raise InvalidParameter("a sketch leaves out rows without a key; nulls must be 'drop'.")
    declared = rows.frame.schema["k0"].dataType
    kind = _KINDS.get(type(declared).__name__)
    if kind is None:
        raise InvalidSource(f"keys must be text, bytes or integers, not {declared.simpleString()}.")
    if rows.unit is not None and type(rows.frame.schema["u"].dataType).__name__ in ("FloatType", "DoubleType"):
        raise InvalidSource("units of a sketch must be text, bytes, integers, dates or times.")  # NaN equals nothing
    return kind


def _merged(
    rows: SparkRows,
    kind: Kind,
    capacity: int,
    max_keys_per_unit: int,
    bits: BitSource,
    buckets: int | None,
    progress: Progress | None,
) -> Sketch:
    session = rows.frame.sparkSession
    if buckets is None:
        buckets = min(int(session.conf.get("spark.sql.shuffle.partitions")), _MOST_BUCKETS)
    with contextlib.ExitStack() as secrets:
        if rows.unit is None:
            plan = _bucketed(_counted(rows), buckets, "k0", ["k0", "n"])
            plan = map_in_arrow(plan, SketchKeys(capacity, kind), _SCHEMA)
        else:
            secret = secrets.enter_context(shared_secret(rows.frame, bits))
            plan = _bucketed(rows.frame, buckets, "u", ["u", "k0"])
            plan = map_in_arrow(plan, SketchUnits(capacity, max_keys_per_unit, kind, secret), _SCHEMA)
        by_unit = rows.unit is not None
        while buckets > 1:
            buckets = -(-buckets // _TOGETHER)
            together = plan.selectExpr(f"b div {_TOGETHER} as g", "b", "s").repartition(buckets, "g")
            plan = map_in_arrow(together.sortWithinPartitions("g", "b"), MergeSketches(by_unit=by_unit), _SCHEMA)
        table = _collected(rows, plan, progress)
    found = [_unpacked(packed, by_unit=by_unit) for packed in table.column("s").to_pylist()]
    if len(found) > 1:
        raise InvalidSource("Spark gave one part of the data twice; no sketch can be made.")
    sketch: Sketch
    if found:
        [sketch] = found
    elif by_unit:
        sketch = UserMisraGries(capacity, max_keys_per_unit, kind=kind)
    else:
        sketch = MisraGries(capacity, kind=kind)
    return sketch if sketch.merged else sketch.merge()


def _collected(rows: SparkRows, plan: Any, progress: Progress | None) -> pa.Table:
    too_large = "the sketch does not fit into the driver (spark.driver.maxResultSize); take a smaller capacity."
    return attempt(
        lambda: run(rows.frame, plan.toArrow, stage="building sketches", progress=progress),
        lambda _: InvalidParameter(too_large),
        InvalidParameter,  # the one thing that `explain` says so about
    )


def _counted(rows: SparkRows) -> Any:
    from pyspark.sql import functions

    return rows.frame.groupBy("k0").agg(functions.count(functions.lit(1)).alias("n"))


def _bucketed(frame: Any, buckets: int, column: str, columns: list[str]) -> Any:
    """Rows with their bucket b and a hash h, the rows of a bucket in one partition, sorted by b, h and content."""
    from pyspark.sql import functions

    hashed = frame.withColumn("h", functions.xxhash64(column))
    # The bucket is taken from the upper half of the hash, so that it says nothing about the order by the whole.
    bucket = functions.pmod(functions.shiftrightunsigned("h", 32), functions.lit(buckets)).cast("long")
    numbered = hashed.select(bucket.alias("b"), "h", *columns)
    return numbered.repartition(buckets, "b").sortWithinPartitions("b", "h", *columns)


# ---- on the executors ----


class _OfBuckets:
    """Goes through a partition bucket by bucket, and gives back one row for each: its number, and a sketch."""

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Go through one partition."""
        for bucket, parts in _by_bucket(batches):
            packed = self.sketch(parts).to_bytes()
            yield pa.RecordBatch.from_pylist([{"b": bucket, "s": packed}], _ARROW_SCHEMA)

    def sketch(self, parts: Iterator[pa.RecordBatch]) -> Sketch:
        """The sketch of one bucket, all of whose batches must be read."""
        raise NotImplementedError


class SketchKeys(_OfBuckets):
    """A sketch of elements: takes bucket, hash, key and how often it was counted, sorted; each key once.

    Args:
        capacity: of the sketch.
        kind: of its keys.
    """

    def __init__(self, capacity: int, kind: Kind) -> None:
        self._capacity, self._kind = capacity, kind

    def sketch(self, parts: Iterator[pa.RecordBatch]) -> Sketch:
        """Take in each key as often as it was counted, in the order of hashes."""
        sketch = MisraGries(self._capacity, kind=self._kind)
        for part in rows_in_order(parts, _OUT_OF_ORDER):
            keys, counts = part.column(0), integers(part.column(1))
            for piece in _expanded(counts):
                sketch.update(keys.take(integer_column(piece)))
        return sketch


class SketchUnits(_OfBuckets):
    """A sketch of users: takes bucket, hash, unit and key, sorted.

    A unit with too many keys keeps a uniform choice of them by tags, which belong to the unit, the key and the secret.

    Args:
        capacity: of the sketch.
        max_keys_per_unit: how many keys a unit keeps.
        kind: of its keys.
        secret: of the tags.
    """

    def __init__(self, capacity: int, max_keys_per_unit: int, kind: Kind, secret: Halves) -> None:
        self._capacity, self._limit, self._kind, self._secret = capacity, max_keys_per_unit, kind, secret

    def sketch(self, parts: Iterator[pa.RecordBatch]) -> Sketch:
        """Take in units in the order of their hashes."""
        sketch = UserMisraGries(self._capacity, self._limit, kind=self._kind)
        # The unit is there twice: once to be told apart by, and once to be handed on with its keys.
        doubled = (
            pa.RecordBatch.from_arrays([part.column(0), part.column(0), part.column(1)], ["u", "v", "k"])
            for part in rows_in_order(parts, _OUT_OF_ORDER)
        )
        kept = bound_contributions(doubled, max_keys_per_unit=self._limit, bits=self._secret.keyed())
        sketch.update_batches(kept)
        return sketch


class MergeSketches(_OfBuckets):
    """One sketch out of the sketches of a group, in the order of their numbers: takes group, number and sketch, sorted.

    Args:
        by_unit: whether they are sketches of users.
    """

    def __init__(self, *, by_unit: bool) -> None:
        self._by_unit = by_unit

    def sketch(self, parts: Iterator[pa.RecordBatch]) -> Sketch:
        """Merge them."""
        merged: Any = None
        last = -1
        for part in parts:
            for number, packed in zip(part.column(0).to_pylist(), part.column(1).to_pylist(), strict=True):
                if number <= last:
                    raise InvalidSource("Spark gave one part of the data twice; no sketch can be made.")
                last, sketch = number, _unpacked(packed, by_unit=self._by_unit)
                merged = sketch.merge() if merged is None else merged.merge(sketch)
        made: Sketch = merged
        return made


def _by_bucket(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[int, Iterator[pa.RecordBatch]]]:
    """Each bucket with the batches of its rows, without their first column; to be read before the next."""
    pieces = _pieces(batches)
    ahead = next(pieces, None)

    def rows_of(bucket: int) -> Iterator[pa.RecordBatch]:
        nonlocal ahead
        while ahead is not None and ahead[0] == bucket:
            part, ahead = ahead[1], next(pieces, None)
            yield part

    last = -1
    while ahead is not None:
        bucket = ahead[0]
        if bucket <= last:
            raise InvalidSource(_OUT_OF_ORDER)
        last = bucket
        yield bucket, rows_of(bucket)


def _pieces(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[int, pa.RecordBatch]]:
    for batch in batches:
        numbers = integers(batch.column(0))
        cuts = [0, *(np.flatnonzero(np.diff(numbers)) + 1).tolist(), batch.num_rows]
        rest = batch.select(range(1, batch.num_columns))
        for start, end in pairwise(cuts):
            if end > start:
                yield int(numbers[start]), rest.slice(start, end - start)


def _expanded(counts: np.ndarray[Any, np.dtype[np.int64]]) -> Iterator[np.ndarray[Any, np.dtype[np.int64]]]:
    """Places repeated as often as counted, a limited number at a time."""
    places = np.arange(len(counts), dtype=np.int64)
    ends = np.cumsum(counts)
    for start in range(0, int(ends[-1]), _EXPANDED):
        wanted = np.arange(start, min(start + _EXPANDED, int(ends[-1])), dtype=np.int64)
        yield places[np.searchsorted(ends, wanted, side="right")]


def _unpacked(packed: bytes, *, by_unit: bool) -> Sketch:
    return (UserMisraGries if by_unit else MisraGries).from_bytes(packed)
