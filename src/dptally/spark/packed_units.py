"""What runs on the executors for a release in rounds: units packed with their keys, and what is asked of them.

A partition's units are packed once, some hundred thousand pairs of unit and key to a row: the distinct keys of the pack
and their numbers, four bytes for each pair, with how many a unit has. Packs are kept by Spark between the stages, which
then handle numbers instead of texts, never shuffle units again, and drop found keys (public) by a look at the pack's
distinct keys.

Everything here is a function of the rows of a unit, of what was released before, and of secrets that are the same in
every attempt: which keys a unit keeps is decided by tags that belong to unit and key (`dptally.randomness.keyed`).
Where packs begin, and in which order keys come, changes no sum. So a task that is run again gives the same sums, also
where Spark has lost a pack and makes it anew.

A unit with more than 2^20 keys keeps a uniform random choice of so many when it is packed, so that memory does not grow
with a unit. It is the unit's own choice, and no stage lets a unit keep more than a few hundred keys.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, cast

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dptally._core import choose_smallest_tags
from dptally.contributions import differing
from dptally.exact.integer_columns import integer_column
from dptally.laws.round_stages import ReportingLaw
from dptally.laws.tables.reporting_curve import Weights
from dptally.spark.drawing import Halves, draw_partition, rows_in_order

__all__ = ["COLUMNS", "CountFound", "CountSizes", "DrawRound", "PackUnits", "SumWeights", "packed_keys"]

COLUMNS = ("units", "keys", "sizes", "places")
"""Of a pack: its units, its distinct keys (both as Arrow streams), keys of each unit, and where each of those is."""
_PAIRS = 1 << 19  # rows that are packed together, about, or one unit
_BYTES = 1 << 28
_MOST_KEYS = 1 << 20  # of a unit
Integers = NDArray[np.int64]


class PackUnits:
    """Packs the units of a partition.

    Takes batches with a column of hashes of the unit, the unit, and its keys, sorted by the first two.

    Args:
        secret: of the tags by which huge units choose.
        pairs: how many rows make a pack.
        most_keys: how many keys a unit keeps at most.
    """

    def __init__(self, secret: Halves, *, pairs: int = _PAIRS, most_keys: int = _MOST_KEYS) -> None:
        self._secret, self._pairs, self._most = secret, pairs, most_keys

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Go through one partition."""
        in_order = rows_in_order(batches, "Spark did not keep the order of units; contributions cannot be bounded.")
        waiting: list[pa.RecordBatch] = []
        more = held = 0
        for batch in in_order:
            waiting.append(batch)
            more += batch.num_rows
            held += batch.nbytes
            if more < self._pairs and held < _BYTES:
                continue
            rows = _joined(waiting)
            last = int(_starts(rows.column(0))[-1])
            if last:
                yield self._packed(rows.slice(0, last))
            # The last unit may go on in the next batch.
            waiting, more, held = [self._kept(rows.slice(last))], 0, 0
        if waiting:
            yield self._packed(_joined(waiting))

    def _kept(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Of one unit each key once, and not too many; those of the smallest tags are among those of a part."""
        units, keys, sizes, places = self._numbered(rows)
        return pa.RecordBatch.from_arrays(
            [_taken(units, np.zeros(int(sizes[0]), dtype=np.int64)), *keys.take(integer_column(places)).columns],
            schema=rows.schema,
        )

    def _packed(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        units, keys, sizes, places = self._numbered(rows)
        streams = [_stream(pa.RecordBatch.from_arrays([units], names=["u"])), _stream(keys)]
        numbers = [sizes.astype("<i4").tobytes(), places.astype("<i4").tobytes()]
        return pa.RecordBatch.from_arrays([pa.array([each], pa.binary()) for each in [*streams, *numbers]], COLUMNS)

    def _numbered(self, rows: pa.RecordBatch) -> tuple[pa.Array, pa.RecordBatch, Integers, Integers]:
        """Units, distinct keys, how many each unit has, and which."""
        starts = _starts(rows.column(0))
        owners = np.repeat(np.arange(len(starts)), np.diff(starts, append=rows.num_rows))
        columns = rows.select(range(1, rows.num_columns))
        numbers, firsts = _numbers(columns.columns)
        pairs = np.unique(owners * len(firsts) + numbers)
        owners, places = np.divmod(pairs, len(firsts))
        units, keys = _taken(rows.column(0), starts), columns.take(integer_column(firsts))
        sizes = np.bincount(owners, minlength=len(starts))
        if int(sizes.max()) > self._most:
            sizes, places = _choose(sizes, places, self._most, units, keys, self._secret)
        return units, keys, sizes, places


class CountSizes:
    """How many units of a partition have a number of keys in each bin, as rows of a bin and a number of units.

    Args:
        ends: the upper ends of the bins; the last one has all larger units, too.
        found: keys that were found; None for none.
        of_found: whether found keys are counted, and not the others.
    """

    def __init__(self, ends: Sequence[int], found: pa.Table | None, *, of_found: bool) -> None:
        self._ends, self._found, self._of_found = list(ends), packed_keys(found), of_found

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Go through one partition."""
        units = np.zeros(len(self._ends), dtype=np.int64)
        for pack in _packs(batches, self._found):
            sizes, _ = pack.among(found=self._of_found)
            bins = np.searchsorted(self._ends, np.minimum(sizes[sizes > 0], self._ends[-1]))
            units += np.bincount(bins, minlength=len(units))
        yield _number_columns(np.arange(len(units)), units)


class SumWeights:
    """The sum of what the units of a pack add to each of their keys that was not found, as keys and a number.

    Args:
        weights: what each key adds of a unit that keeps 0, 1, ... of them; a unit with more keeps a random choice.
        found: keys that were found; None for none.
        secret: of the tags by which units choose.
    """

    def __init__(self, weights: Sequence[int], found: pa.Table | None, secret: Halves) -> None:
        self._weights, self._found, self._secret = list(weights), packed_keys(found), secret

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Go through one partition."""
        for pack in _packs(batches, self._found):
            sums = pack.sums(np.array(self._weights), self._secret, found=False)
            touched = np.flatnonzero(sums)
            keys = pack.keys.take(integer_column(touched))
            yield pa.RecordBatch.from_arrays([*keys.columns, integer_column(sums[touched])], [*keys.schema.names, "n"])


class CountFound:
    """How many units of a partition have each found key, as rows of its place in the table and a number of units.

    Args:
        kept: how many found keys of a unit count; a unit with more keeps a random choice.
        found: keys that were found.
        secret: of the tags by which units choose.
    """

    def __init__(self, kept: int, found: pa.Table, secret: Halves) -> None:
        self._kept, self._found, self._secret = kept, packed_keys(found), secret

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Go through one partition."""
        for pack in _packs(batches, self._found):
            counts = pack.sums(np.array([0, *[1] * self._kept]), self._secret, found=True)
            touched = np.flatnonzero(counts)
            yield _number_columns(pack.place_of_found[touched], counts[touched])


class DrawRound:
    """One draw for each key, from the table of a round; only what is reported goes on.

    The table travels with the task: it was verified in the driver, against the function that was declared for it.

    Args:
        law: of the round.
        secret: of the draws.
    """

    def __init__(self, law: ReportingLaw, secret: Halves) -> None:
        self._weights = (law.weights.low, law.weights.high, law.weights.multiple)
        self._table, self._secret = law.table, secret

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Go through one partition."""
        law = ReportingLaw(Weights(*self._weights), self._table)
        yield from draw_partition(cast("Any", law), batches, self._secret, "weights")


# ---- packs ----


class _Pack:
    """Units with their keys, read back."""

    def __init__(self, row: dict[str, pa.Scalar], found: bytes | None) -> None:
        self._row = row
        self.sizes = np.frombuffer(row["sizes"].as_buffer(), dtype="<i4").astype(np.int64)
        self.place_of_found: Integers = np.empty(0, dtype=np.int64)
        self._found = None
        if found is not None:
            self.place_of_found = _places_among(self.keys, pa.ipc.open_stream(found).read_all())
            self._found = self.place_of_found >= 0

    @property
    def keys(self) -> pa.RecordBatch:
        """Distinct keys."""
        return pa.ipc.open_stream(self._row["keys"].as_buffer()).read_next_batch()

    @property
    def units(self) -> pa.Array:
        """The units, in order."""
        return pa.ipc.open_stream(self._row["units"].as_buffer()).read_next_batch().column(0)

    @property
    def places(self) -> Integers:
        """Which keys units have."""
        return np.frombuffer(self._row["places"].as_buffer(), dtype="<i4").astype(np.int64)

    def among(self, *, found: bool) -> tuple[Integers, Integers | None]:
        """How many keys units have that were found, or that were not, and which; None for all."""
        if self._found is None:
            return (np.zeros_like(self.sizes), np.empty(0, dtype=np.int64)) if found else (self.sizes, None)
        places = self.places
        wanted = self._found[places] == found
        owners = np.repeat(np.arange(len(self.sizes)), self.sizes)
        return np.bincount(owners[wanted], minlength=len(self.sizes)), places[wanted]

    def sums(self, weights: Integers, secret: Halves, *, found: bool) -> Integers:
        """What units add to each key."""
        sizes, places = self.among(found=found)
        if places is None:
            places = self.places
        keys, limit = self.keys, len(weights) - 1
        if int(sizes.max(initial=0)) > limit:
            sizes, places = _choose(sizes, places, limit, self.units, keys, secret)
        added = np.repeat(weights[sizes], sizes)
        # Sums of fewer than 2^32 weights below 2^20 are exact in floating point.
        return np.bincount(places, weights=added, minlength=keys.num_rows).astype(np.int64)


def _packs(batches: Iterable[pa.RecordBatch], found: bytes | None) -> Iterator[_Pack]:
    for batch in batches:
        for row in range(batch.num_rows):
            yield _Pack({name: batch.column(name)[row] for name in batch.schema.names}, found)


def _choose(
    sizes: Integers, places: Integers, limit: int, units: pa.Array, keys: pa.RecordBatch, secret: Halves
) -> tuple[Integers, Integers]:
    """At most `limit` keys of each unit, chosen uniformly: those of the smallest tags, which belong to unit and key."""
    large = sizes > limit
    owners = np.repeat(np.arange(len(sizes)), sizes)
    among = large[owners]
    rows = [_taken(units, owners[among]), *keys.take(integer_column(places[among])).columns]
    starts = np.concatenate([[0], np.cumsum(sizes[large])]).astype(np.int64)
    chosen = np.empty(int(among.sum()), dtype=np.uint8)
    choose_smallest_tags(starts, secret.keyed().tags(rows), limit, chosen)
    keep = np.ones(len(places), dtype=bool)
    keep[among] = chosen.view(bool)
    return np.minimum(sizes, limit), places[keep]


# ---- columns ----


def packed_keys(found: pa.Table | None) -> bytes | None:
    """Public keys as they travel; None for none."""
    if found is None or not found.num_rows:
        return None
    [batch] = found.combine_chunks().to_batches()
    return _stream(batch)


def _places_among(keys: pa.RecordBatch, found: pa.Table) -> Integers:
    """Where each key is in a table of distinct keys, -1 where it is not; null is a key like any other."""
    public = found.cast(
        pa.schema([pa.field(*each) for each in zip(found.column_names, keys.schema.types, strict=True)])
    )
    both = [pa.concat_arrays([*there.chunks, here]) for there, here in zip(public.columns, keys.columns, strict=True)]
    numbers, firsts = _numbers(both)
    place = firsts[numbers[found.num_rows :]]
    return np.where(place < found.num_rows, place, -1)


def _numbers(columns: Sequence[pa.Array]) -> tuple[Integers, Integers]:
    """A number for each row, equal where rows are, and the first row of each number. Null equals null."""
    numbers: Integers | None = None
    for column in columns:
        if pa.types.is_floating(column.type):  # canonical: equal ones have the same bits, NaN too
            column = column.view(pa.int64() if column.type == pa.float64() else pa.int32())
        part = column.dictionary_encode(null_encoding="encode").indices.cast(pa.int64())
        found = np.frombuffer(part.buffers()[1], dtype=np.int64)[part.offset : part.offset + len(part)]
        if numbers is None:
            numbers = found
        else:
            _, numbers = np.unique(numbers * (int(found.max(initial=0)) + 1) + found, return_inverse=True)
    assert numbers is not None  # noqa: S101 - keys have a column
    firsts = np.empty(int(numbers.max(initial=-1)) + 1, dtype=np.int64)
    firsts[numbers[::-1]] = np.arange(len(numbers))[::-1]  # the last one that is written stays
    return numbers, firsts


def _starts(units: pa.Array) -> Integers:
    """Where a unit begins."""
    begins = np.ones(len(units), dtype=bool)
    begins[1:] = differing(units.slice(1), units.slice(0, len(units) - 1))
    return np.flatnonzero(begins)


def _joined(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    return batches[0] if len(batches) == 1 else pa.concat_batches(batches)


def _taken(column: pa.Array, rows: Integers) -> pa.Array:
    return column.take(integer_column(rows))


def _stream(batch: pa.RecordBatch) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return bytes(sink.getvalue())


def _number_columns(places: Integers, numbers: Integers) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([integer_column(places), integer_column(numbers)], ["place", "n"])
