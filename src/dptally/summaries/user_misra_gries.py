"""Misra-Gries sketches of users with several keys each [LT25, Algorithm 4]."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dptally.contributions import check_max_keys_per_unit, differing
from dptally.errors import InvalidParameter, InvalidSource
from dptally.randomness import BitSource
from dptally.sources import Rows
from dptally.sources.engine import Session
from dptally.sources.filters import read_filter
from dptally.sources.frames import polars_array
from dptally.summaries.counter_sketch import CounterSketch
from dptally.summaries.counting import Progress
from dptally.summaries.sketch_files import SketchState
from dptally.summaries.sketch_keys import Kind, as_arrow, key_buffers

_NO_LIMIT = 1 << 62
_LONG_UNIT = 1 << 18  # rows of one unit carried from batch to batch before repeated keys are left out


class UserMisraGries(CounterSketch):
    """The keys that most users have, in bounded memory, by [LT25, Algorithm 4] (PAMG) exactly.

    A user raises the counter of each of their keys by one, however often they have it; if more than `capacity` keys are
    then stored, all counters are lowered by one, once, and those at zero go.

    A user with more than `max_keys_per_unit` distinct keys keeps a uniform random choice of that many. The choice
    depends on the user's own keys and on random words drawn for them alone, so it is the same with and without any
    other user.

    Guarantee:
        Of the sketches of two streams, one of which has one user more, one has every counter of the other, equal or
        higher by one [LT25, Lem. 27], whatever `max_keys_per_unit` is; merging keeps that [LT25, Cor. 28]. It holds for
        users taken in one order: an order that does not depend on any one of them.

    Error:
        A counter is never above the number of users who have the key (and kept it), and below it by at most
        `shortfall` <= total / (capacity + 1).

    References:
        [LT25].
    """

    _BY_UNIT: ClassVar[bool] = True

    def __init__(
        self,
        capacity: int,
        max_keys_per_unit: int | None = None,
        *,
        kind: Kind | None = None,
        bits: BitSource | None = None,
    ) -> None:
        if max_keys_per_unit is not None:
            check_max_keys_per_unit(max_keys_per_unit)
            max_keys_per_unit = min(max_keys_per_unit, _NO_LIMIT)
        self.max_keys_per_unit = max_keys_per_unit
        self._seeded = False
        super().__init__(capacity, kind=kind, bits=bits)

    @property
    def private(self) -> bool:
        """Whether all random choices so far were made with secret bits."""
        return not self._seeded

    def update(self, rows: Any) -> None:
        """Take in users, in their order. Rows with a null user or key are left out.

        Each call is complete: the last user of one call and the first of the next are two users. So all rows of a user
        must come in one call and next to each other; a user whose rows lie in two places counts as two, and is
        protected only as two. Sort by user first, or use `update_file`, which does.

        What keys are is decided as in `MisraGriesSketch.update`: by the type of their column, and not by lists, whose
        values are read as what this sketch holds, or as text; those that cannot be read so are left out.

        Args:
            rows: an Arrow table or record batch or a Polars DataFrame with two columns, the user and the key; or an
                iterable of lists of keys, one for each user.

        Raises:
            InvalidParameter: it is neither, or this sketch was merged.
            InvalidSource: the keys are of another kind than this sketch has, or of one that is none of keys.
        """
        self._check_open()
        if type(rows).__module__.split(".")[0] == "polars" and type(rows).__name__ == "DataFrame":
            rows = pa.table(
                {str(place): polars_array(column, views=True) for place, column in enumerate(rows.get_columns())}
            )
        if isinstance(rows, pa.Table | pa.RecordBatch):
            if rows.num_columns != 2:
                raise InvalidParameter(f"rows must have two columns, the user and the key, got {rows.num_columns}.")
            keys = as_arrow(_whole(rows.column(1)), self._kind)
            self._begin(keys.type)
            users, keys = _complete(_whole(rows.column(0)), keys)
            self._add(keys, _starts(users))
        elif isinstance(rows, Iterable) and not isinstance(rows, str | bytes):
            self._add_lists(list(rows))
        else:
            raise InvalidParameter(
                f"rows must be a table of users and keys, or lists of keys, got {type(rows).__name__}."
            )

    def update_batches(self, batches: Iterable[pa.RecordBatch]) -> None:
        """Take in users whose rows are next to each other, also across batches, in this one call.

        Args:
            batches: with two columns, the user and the key, without nulls. Where it may depend on the data whether
                there are any, state the kind of keys when the sketch is made.

        Raises:
            InvalidParameter: this sketch was merged.
            InvalidSource: the keys are of another kind than this sketch has.
        """
        self._check_open()
        take = self._taking()
        for batch in batches:
            self._begin(batch.schema.types[1])
            take(batch)
        take(None)

    def _add_lists(self, users: list[Any]) -> None:
        keys: list[Any] = []
        ends = [0]
        for user in users:
            if isinstance(user, str | bytes) or not isinstance(user, Iterable):
                raise InvalidParameter("each user must be a list of keys.")
            keys.extend(user)
            ends.append(len(keys))
        found = as_arrow(keys, self._kind)
        self._begin(found.type)
        before = np.concatenate([[0], np.cumsum(found.is_valid().to_numpy(zero_copy_only=False))])
        self._add(found.drop_null(), before[ends].astype(np.int64))

    def _add(self, keys: pa.Array, starts: NDArray[np.int64]) -> None:
        """Take in users whose keys, without nulls, lie between neighbouring `starts`."""
        found = next(key_buffers(keys), None)
        if found is None:
            return
        lengths = np.diff(starts)
        limit = self._limit()
        words = self._bits.words(int(lengths[lengths > limit].sum()))
        if len(words) and not self._bits.private:
            self._seeded = True
        self._take(found, "update_units", starts, words, limit)

    def _limit(self) -> int:
        return _NO_LIMIT if self.max_keys_per_unit is None else self.max_keys_per_unit

    def update_file(
        self,
        path: Any,
        *,
        key: str,
        unit: str,
        format: str | None = None,  # noqa: A002 - the public name
        memory_limit: str | None = None,
        progress: Progress | None = None,
        checkpoint: str | Path | None = None,
        where: str | None = None,
        since: object = None,
        until: object = None,
        time_column: str | None = None,
    ) -> None:
        """Take in users from files, whose rows may be in any order: DuckDB sorts them by user first.

        Users come in the order of a fixed hash of them, so that removing one leaves the order of the others. If it is
        stopped, the sketch holds some of the users, each as a whole. All rows of a user must be in this one call. What
        keys are is decided as in `MisraGriesSketch.update_file`.

        Args:
            path: path, glob or list of paths of CSV, TSV, JSON lines or Parquet files, also .gz and .zst; "-" is
                standard input.
            key: the column of keys.
            unit: the column of users.
            format: "csv", "tsv", "jsonl" or "parquet" when the file name does not tell.
            memory_limit: what DuckDB may take before it spills to disk, such as "4GB".
            progress: called with the stage and how much of it is done (None when unknown).
            checkpoint: a file to save the sketch to every few seconds and at the end; it is always a complete sketch.
            where: which rows are read, as in `dptally.publish`.
            since: as in `dptally.publish`.
            until: as in `dptally.publish`.
            time_column: as in `dptally.publish`.

        Raises:
            InvalidParameter: the request is contradictory or names a column that is not there.
            InvalidSource: the data cannot be read as asked.
        """
        if not isinstance(unit, str):
            raise InvalidParameter("unit must be the name of one column.")
        rows = read_filter(where, since=since, until=until, time_column=time_column)
        self._read(path, key, unit, format, memory_limit, progress, checkpoint, rows)

    def _select(self, rows: Rows, session: Session) -> str:
        hashed = f"SELECT u, k0, hash(u) AS h FROM ({rows.select(session)})"  # noqa: S608 - no value of the data
        return f"SELECT u, k0 FROM ({hashed}) ORDER BY h, u"  # noqa: S608

    def _taking(self) -> Callable[[pa.RecordBatch | None], None]:
        open_user = _OpenUser()

        def take(batch: pa.RecordBatch | None) -> None:
            for users, keys in open_user.add(batch):
                self._add(keys, _starts(users))

        return take

    def _empty_like(self, others: tuple[Self, ...]) -> Self:
        sketches = (self, *others)
        limit = max(sketch._limit() for sketch in sketches)
        result = type(self)(self.capacity, max_keys_per_unit=None if limit == _NO_LIMIT else limit, bits=self._bits)
        result._seeded = any(sketch._seeded for sketch in sketches)
        return result

    def _state(self) -> SketchState:
        return replace(super()._state(), max_keys_per_unit=self._limit(), seeded=self._seeded)

    @classmethod
    def _create(cls, state: SketchState, bits: BitSource | None) -> Self:
        limit = None if state.max_keys_per_unit == _NO_LIMIT else state.max_keys_per_unit
        sketch = cls(state.capacity, max_keys_per_unit=limit, kind=state.kind, bits=bits)
        sketch._seeded = state.seeded
        return sketch

    def __repr__(self) -> str:
        limit = f"max_keys_per_unit={self.max_keys_per_unit}"
        return f"{type(self).__name__}(capacity={self.capacity}, {limit}, kind={self._kind!r})"


class _OpenUser:
    """The rows of the last user of a batch, who may go on in the next one."""

    def __init__(self) -> None:
        self._users: pa.Array | None = None
        self._keys: pa.Array | None = None

    def add(self, batch: pa.RecordBatch | None) -> list[tuple[pa.Array, pa.Array]]:
        """Return the rows of all users that are complete, given the next batch; None ends the last one."""
        users, keys = self._users, self._keys
        if batch is not None:
            users = batch.column(0) if users is None else pa.concat_arrays([users, batch.column(0)])
            keys = batch.column(1) if keys is None else pa.concat_arrays([keys, batch.column(1)])
        if users is None or keys is None:
            return []
        last = 0 if batch is None else int(_starts(users)[-2])
        end = len(users) if batch is None else last
        # Taken anew, so that the batch can be freed.
        rest = pa.array(np.arange(end, len(users)))
        self._users, self._keys = users.take(rest), keys.take(rest)
        if len(self._keys) > _LONG_UNIT:
            self._keys = self._keys.unique()
            self._users = self._users.slice(0, len(self._keys))
        return [(users.slice(0, end), keys.slice(0, end))] if end else []


def _whole(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    """One array, of no dictionary and of no view."""
    array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    if isinstance(array, pa.ChunkedArray):  # Arrow leaves chunks that do not fit together
        raise InvalidSource("the column is too large for one array; give the rows in several calls.")
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    if pa.types.is_string_view(array.type):
        array = array.cast(pa.large_string())
    elif pa.types.is_binary_view(array.type):
        array = array.cast(pa.large_binary())
    return array


def _complete(users: pa.Array, keys: pa.Array) -> tuple[pa.Array, pa.Array]:
    if pa.types.is_floating(users.type) or pa.types.is_nested(users.type):
        raise InvalidSource("users must be text, bytes, integers, dates or times.")
    if users.null_count or keys.null_count:
        valid = pc.and_(users.is_valid(), keys.is_valid())
        users, keys = users.filter(valid), keys.filter(valid)
    return users, keys


def _starts(users: pa.Array) -> NDArray[np.int64]:
    """Where runs of equal users start, and the number of rows."""
    count = len(users)
    if count == 0:
        return np.zeros(1, dtype=np.int64)
    changes = differing(users.slice(1), users.slice(0, count - 1))
    return np.concatenate([[0], np.flatnonzero(changes) + 1, [count]]).astype(np.int64)
