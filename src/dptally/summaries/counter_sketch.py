"""What the sketches of elements and of users have in common: counters, bounds, merging and files."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dptally._core import IntegerSketch, TextSketch
from dptally.errors import InvalidParameter, InvalidSource, attempt
from dptally.files import check_target
from dptally.randomness import BitSource, SystemBits
from dptally.sources import Rows, open_rows
from dptally.sources.background import in_background
from dptally.sources.engine import Session, check_memory_limit
from dptally.sources.filters import Filter
from dptally.summaries.counting import Progress
from dptally.summaries.sketch_files import (
    ColumnNames,
    SketchContents,
    SketchState,
    pack,
    read_sketch_file,
    unpack,
    write_sketch_file,
)
from dptally.summaries.sketch_keys import (
    ARROW_TYPES,
    KeyBuffers,
    Kind,
    key_buffers,
    kind_of,
    native_integer,
    readable,
    sorted_keys,
)
from dptally.summaries.stream_identities import new_identity, united_streams

if TYPE_CHECKING:
    from dptally.laws.specs.misra_gries import Form

_MOST_CAPACITY = 1 << 30
_CHECKPOINT_SECONDS = 5.0  # between two checkpoints, so that writing them stays a small part of the work
_BEGINNING = threading.Lock()


class CounterSketch:
    """At most `capacity` keys with counters that are never too high. Private: its `repr` shows nothing of the data."""

    _BY_UNIT: ClassVar[bool]
    sketches: ClassVar[int] = 1  # that were added up: none
    max_keys_per_unit: int | None = 1

    def __init__(self, capacity: int, *, kind: Kind | None = None, bits: BitSource | None = None) -> None:
        if isinstance(capacity, bool) or not isinstance(capacity, int) or not 1 <= capacity <= _MOST_CAPACITY:
            raise InvalidParameter(f"capacity must be an integer between 1 and 2^30, got {capacity!r}.")
        if kind is not None and kind not in ARROW_TYPES:
            raise InvalidParameter(f"kind must be 'string', 'bytes', 'integer' or 'unsigned', got {kind!r}.")
        self.capacity = capacity  # the number of counters, k in [LT25]
        # Merged from others: then neighbouring sketches may differ by one in all their counters [LT25, Cor. 18 and 28].
        self.merged = False
        self.standard = False  # imported from a tool that drops counters at zero
        self.names = ColumnNames()  # of the columns in the sources it has read; a release takes them over
        self.streams: frozenset[bytes] = frozenset()  # see `dptally.summaries.stream_identities`
        self._bits = SystemBits() if bits is None else bits
        self._kind: Kind | None = None
        self._native: Any = None
        if kind is not None:
            self._settle(kind)

    # What it holds.

    @property
    def kind(self) -> Kind | None:
        """What keys are: "string", "bytes", "integer" or "unsigned". Public: it is the type of keys in a release.

        It is what the caller has stated, or else what the first batch has declared (see `update`), however many rows
        that has. None before either; released then, keys are text.
        """
        return self._kind

    @property
    def key_type(self) -> pa.DataType:
        """The Arrow type of keys: large_string, large_binary, int64 or uint64."""
        return ARROW_TYPES[self._kind or "string"]

    @property
    def total(self) -> int:
        """The number of elements counted: keys of a stream, or distinct keys of users after bounding, added up."""
        return 0 if self._native is None else int(self._native.total())

    @property
    def decrements(self) -> int:
        """By how much all counters have been lowered, one after another or by merging, added up."""
        return 0 if self._native is None else int(self._native.decrements())

    @property
    def shortfall(self) -> int:
        """By how much a counter may be below its key's true frequency; 0 means that all counts are exact.

        It is `decrements`, and at most (total - sum of counters) // (capacity + 1).

        Proof. A counter differs from its key's frequency only by what lowered it, or would have lowered it had it not
        been at zero; each lowering takes at most what it adds to `decrements`. On the other hand each unit of
        `decrements` takes at least capacity + 1 from the sum that the counters would have: in Algorithm 1 one from each
        of the k counters and the one element that is not counted (exactly k + 1, so there the two numbers agree); in
        Algorithm 4 one from each of more than k counters [LT25, Lem. 26]; in a merge that subtracts c, the (k + 1)-th
        largest of the added counters, c from each of at least k + 1 of them [LT25, Lem. 29]. Sums, totals and
        decrements of merged sketches add up.

        An imported sketch did not record its decrements, so there it is the larger number.
        """
        return self.decrements

    def __len__(self) -> int:
        """The number of keys stored, those with a counter of zero among them."""
        return 0 if self._native is None else len(self._native)

    @property
    def memory_bytes(self) -> int:
        """Memory taken by the counters and keys."""
        return 0 if self._native is None else int(self._native.memory())

    def counters(self) -> tuple[pa.Array, NDArray[np.int64]]:
        """Keys and counters in the order of the keys, zero counters included, slots that never held a key not.

        Text that is not valid UTF-8, which a damaged Arrow array may hold, is counted like any other and left out here.
        Which keys are left out depends on nothing but themselves, so that a release is what is left of a release of all
        of them: the guarantee is the same, and no error tells that there was such a key.

        Returns:
            The keys as an Arrow array of the type `key_type`, and as many counts.
        """
        keys, counts = self._stored()
        shown = readable(keys)
        return (keys, counts) if shown.all() else (keys.filter(pa.array(shown)), counts[shown])

    def _stored(self) -> tuple[pa.Array, NDArray[np.int64]]:
        """All keys and counters in the order of the keys; text may not be valid."""
        if self._native is None or self._kind is None:
            return pa.array([], self.key_type), np.empty(0, dtype=np.int64)
        return sorted_keys(self._native, self._kind)

    def items(self) -> pa.Table:
        """Keys with a positive counter, in their order, with bounds that hold for certain. Not private.

        Returns:
            A table with the columns key, estimate, lower and upper: lower <= true frequency <= upper.
        """
        keys, counts = self.counters()
        positive = counts > 0
        counts = counts[positive]
        columns = {"estimate": counts, "lower": counts, "upper": counts + self.shortfall}
        return pa.table({"key": keys.filter(pa.array(positive)), **columns})

    def estimate(self, key: Any) -> tuple[int, int, int]:
        """The estimate of a key's true frequency with bounds that hold for certain. Not private.

        Returns:
            The counter, the counter again (it is never too high), and the counter plus `shortfall`.

        Raises:
            InvalidParameter: the key is not of the sketch's kind.
        """
        if self._native is None:
            return 0, 0, 0
        wanted: int | bytes
        if self._kind in ("integer", "unsigned") and isinstance(key, int | np.integer) and not isinstance(key, bool):
            wanted = native_integer(int(key), self._kind)
            if not -(1 << 63) <= wanted < 1 << 63:
                least, most = ("-2^63", "2^63 - 1") if self._kind == "integer" else ("0", "2^64 - 1")
                raise InvalidParameter(f"keys of kind {self._kind} lie between {least} and {most}.")
        elif self._kind == "string" and isinstance(key, str):
            wanted = key.encode(errors="surrogatepass")
        elif self._kind == "bytes" and isinstance(key, bytes | bytearray):
            wanted = bytes(key)
        else:
            raise InvalidParameter(f"the keys of this sketch are of kind {self._kind}, got {type(key).__name__}.")
        count = int(self._native.find(wanted))
        return count, count, count + self.shortfall

    def __repr__(self) -> str:
        return f"{type(self).__name__}(capacity={self.capacity}, kind={self._kind!r})"

    @property
    def form(self) -> Form:
        """What it is, which decides how it is released: "single", "standard", "merged" or "user"."""
        if self._BY_UNIT:
            return "user"
        return "merged" if self.merged else "standard" if self.standard else "single"

    @property
    def private(self) -> bool:
        """Whether all random choices so far were made with secret bits."""
        return True

    def contents(self) -> SketchContents:
        """What a mechanism reads: counters, and how often they were lowered. Private."""
        keys, counts = self.counters()
        return SketchContents(keys, counts, self.decrements, 1)

    def reduced_contents(self) -> SketchContents:
        """What a mechanism with delta = 0 reads; only sketches of one stream can be reduced. Private."""
        raise InvalidParameter("a sketch of users cannot be reduced.")

    # Merging.

    def merge(self, *others: Self) -> Self:
        """Merge sketches of separate streams into a new one [ACHPWY13].

        One after another, in the order given: counters are added, the (capacity + 1)-th largest is subtracted from all,
        and only positive ones are kept. For a fixed order, neighbouring inputs give merged sketches of which one has
        every counter of the other, equal or higher by one [LT25, Lem. 17, Cor. 18 and 28].

        Args:
            others: sketches of the same class, capacity and kind of keys, of other streams; they are left as they are.

        Raises:
            InvalidParameter: they do not fit together, or two of them hold one stream: a sketch is given twice, or with
                a copy of itself, or with one that it was merged into.
        """
        for other in others:
            if type(other) is not type(self):
                raise InvalidParameter(
                    f"a {type(self).__name__} merges with its like, not with {type(other).__name__}."
                )
            if other.capacity != self.capacity:
                raise InvalidParameter(
                    f"sketches must have one capacity to be merged, got {self.capacity} and {other.capacity}."
                )
        sketches = (self, *others)
        kinds = {sketch._kind for sketch in sketches if sketch._kind is not None}
        if len(kinds) > 1:
            raise InvalidParameter("sketches must have keys of one kind to be merged.")
        streams = united_streams(sketches)
        result = self._empty_like(others)
        result.merged, result.streams = True, streams
        result.names = ColumnNames.shared(sketch.names for sketch in sketches)
        if kinds:
            result._settle(kinds.pop())
            for sketch in sketches:
                if sketch._native is not None:
                    result._protected(result._native.merge, sketch._native)
        return result

    def _empty_like(self, others: tuple[Self, ...]) -> Self:
        raise NotImplementedError

    # Files.

    def to_bytes(self) -> bytes:
        """The sketch as bytes, the same that `save` writes. Private."""
        return pack(self._state())

    @classmethod
    def from_bytes(cls, packed: bytes, *, bits: BitSource | None = None) -> Self:
        """Read what `to_bytes` made.

        Raises InvalidSource if it is not a sketch of this class, damaged, incomplete or of a newer version.
        """
        return cls.from_state(unpack(packed, "the sketch"), "the sketch", bits)

    def save(self, path: str | Path, *, overwrite: bool = False) -> None:
        """Write the sketch to a file that only its owner may read: it is private.

        The file is complete or absent, whatever happens. Raises InvalidParameter if the file exists and `overwrite` is
        not set, or it cannot be written.
        """
        write_sketch_file(self._state(), Path(path), overwrite=overwrite)

    @classmethod
    def load(cls, path: str | Path, *, bits: BitSource | None = None) -> Self:
        """Read a file that `save` made. The sketch goes on as if it had never been saved.

        Raises:
            InvalidSource: it is missing, not a sketch of this class, damaged, incomplete or of a newer version.
        """
        return cls.from_state(read_sketch_file(Path(path)), f"'{path}'", bits)

    def _state(self) -> SketchState:
        keys, counts = self._stored()
        return SketchState(
            capacity=self.capacity,
            kind=self._kind,
            total=self.total,
            keys=keys if self._kind is not None else None,
            counts=counts,
            by_unit=self._BY_UNIT,
            decrements=self.decrements,
            merged=self.merged,
            standard=self.standard,
            names=self.names,
            streams=self.streams,
        )

    @classmethod
    def from_state(cls, state: SketchState, name: str, bits: BitSource | None = None) -> Self:
        """Make the sketch from what a file holds; `name` is what errors call it.

        Raises InvalidSource if it is not a sketch of this class, or a key comes twice.
        """
        if state.by_unit != cls._BY_UNIT:
            raise InvalidSource(f"{name} holds a sketch of {'users' if state.by_unit else 'elements'}.")
        sketch = cls._create(state, bits)
        sketch.merged, sketch.standard = state.merged, state.standard
        sketch.names, sketch.streams = state.names, state.streams
        if state.kind is not None and not sketch._restore(state.keys, state.counts, state.total, state.decrements):
            raise InvalidSource(f"{name} is damaged or incomplete.")
        return sketch

    @classmethod
    def _create(cls, state: SketchState, bits: BitSource | None) -> Self:
        return cls(state.capacity, kind=state.kind, bits=bits)

    def _restore(self, keys: pa.Array, counts: NDArray[np.int64], total: int, decrements: int) -> bool:
        """Fill a fresh sketch; False if a key comes twice."""
        buffers = next((found.buffers for found in key_buffers(keys)), None)
        if buffers is None:
            numbers = self._kind in ("integer", "unsigned")
            buffers = (np.empty(0, np.int64),) if numbers else (np.zeros(1, np.int64), np.empty(0, np.uint8))
        try:
            self._native.restore(*buffers, counts, total, decrements)
        except (ValueError, OverflowError):
            return False
        return True

    # Taking keys in.

    def _settle(self, kind: Kind) -> None:
        """Fix the kind of keys, which fixes the native table."""
        if self._kind is None:
            table = IntegerSketch if kind in ("integer", "unsigned") else TextSketch
            self._native = table(self.capacity, self._bits.words(4))
            self._kind = kind
        elif self._kind != kind:
            raise InvalidSource(f"the keys of this sketch are of kind {self._kind}, and these are of kind {kind}.")

    def _begin(self, declared: pa.DataType) -> None:
        """Fix what a batch declares, before it is read: what keys are, and which stream this is.

        Both are done for every batch, whether or not there are rows in it, so that neither tells whether there are.
        """
        kind = kind_of(declared)
        with _BEGINNING:  # threads may share a sketch
            self._settle(kind)
            if not self.streams:
                self.streams = frozenset({new_identity()})

    def _check_open(self) -> None:
        if self.merged or self.standard:
            what = "merged" if self.merged else "imported"
            raise InvalidParameter(f"a sketch that was {what} takes no more keys; build another one and merge them.")

    def _take(self, found: KeyBuffers, method: str, *arguments: Any) -> None:
        self._protected(getattr(self._native, f"{method}_{found.layout}"), *found.buffers, *arguments)

    @staticmethod
    def _protected(call: Callable[..., None], *arguments: Any) -> None:
        def explained(error: Exception) -> InvalidSource:
            if isinstance(error, OverflowError):
                return InvalidSource("a sketch counts at most 2^47 elements.")
            return InvalidSource("the Arrow array is damaged: it points outside of its buffers.")

        attempt(lambda: call(*arguments), explained, OverflowError, ValueError)

    def _select(self, rows: Rows, session: Session) -> str:
        """SQL for the rows of a source, in an order that does not depend on any one unit."""
        raise NotImplementedError

    def _taking(self) -> Callable[[pa.RecordBatch | None], None]:
        """What takes in the batches of a source, one after another; None ends the last unit."""
        raise NotImplementedError

    def _read(
        self,
        path: Any,
        key: str,
        unit: str | None,
        format_name: str | None,
        memory_limit: str | None,
        progress: Progress | None,
        checkpoint: str | Path | None,
        where: Filter | None,
    ) -> None:
        """Read files; see `update_rows`."""
        if not isinstance(key, str):
            raise InvalidParameter("key must be the name of one column.")
        if not isinstance(path, str | Path | list | tuple):
            raise InvalidParameter(f"path must be a path, a glob or a list of paths, got {type(path).__name__}.")
        if isinstance(path, list | tuple):
            path = [Path(name) for name in path]
        check_memory_limit(memory_limit)
        target = None if checkpoint is None else Path(checkpoint)
        if target is not None:
            check_target(target, overwrite=True)
            if target.exists():
                read_sketch_file(target)  # an earlier checkpoint may be replaced; any other file is refused
        self._check_open()
        assumed = None if self._kind is None else pa.schema([(key, self.key_type)])  # of text files, which declare none
        rows = open_rows(path, key=key, unit=unit, format=format_name, assumed=assumed, where=where)
        self.update_rows(rows, memory_limit=memory_limit, progress=progress, checkpoint=target)

    def update_rows(
        self,
        rows: Rows,
        *,
        memory_limit: str | None = None,
        progress: Progress | None = None,
        checkpoint: Path | None = None,
    ) -> None:
        """Take in an opened source batch by batch; after each one the sketch is whole, and at times it is saved.

        What keys are comes from the declared type of their column, before any row is read.
        """
        self._check_open()
        check_memory_limit(memory_limit)
        if len(rows.key) != 1:
            raise InvalidParameter(f"a sketch takes one key column, got {len(rows.key)}.")
        if rows.nulls != "drop":
            raise InvalidParameter("a sketch leaves out rows without a key; nulls must be 'drop'.")
        if rows.count is not None:
            raise InvalidParameter("a sketch reads raw rows, and this source holds counts; publish those instead.")
        read = ColumnNames(rows.key[0], rows.unit, None if rows.where is None else rows.where.text)
        self.names = ColumnNames.shared([self.names, read]) if self.streams else read
        self._begin(rows.key_schema.types[0])
        take = self._taking()
        with closing(Session(memory_limit=memory_limit, paths=rows.paths, in_order=True)) as session:
            saved = time.monotonic()
            for batch in self._batches(session, self._select(rows, session), progress):
                take(batch)
                if checkpoint is not None and time.monotonic() - saved >= _CHECKPOINT_SECONDS:
                    self.save(checkpoint, overwrite=True)
                    saved = time.monotonic()
            take(None)
            if checkpoint is not None:
                self.save(checkpoint, overwrite=True)

    def _batches(self, session: Session, sql: str, progress: Progress | None) -> Iterator[pa.RecordBatch]:
        stage = "building the sketch"

        def report() -> None:
            if progress is not None:
                progress(stage, session.progress())

        if progress is not None:
            progress(stage, None)
        with closing(in_background(session.batches(sql), interrupt=session.interrupt, waiting=report)) as batches:
            for batch in batches:
                yield batch
                report()

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self).from_bytes, (self.to_bytes(),)
