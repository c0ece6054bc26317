"""Sketches of many streams, their sensitivity reduced, added up by a party that may see all of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar, Literal, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dptally.errors import InvalidParameter, InvalidSource
from dptally.summaries.misra_gries import MisraGries
from dptally.summaries.sketch_files import ColumnNames, SketchContents, SketchState, write_sketch_file
from dptally.summaries.sketch_keys import ARROW_TYPES, Kind, readable
from dptally.summaries.stream_identities import HoldsStreams, united_streams


@dataclass(frozen=True, eq=False)
class SummedCounters:
    """Reduced sketches, added up: counters are multiples of 1 / (capacity + 1). Private; `repr` shows nothing of it.

    One element more in one of the streams moves all counters together by at most (2k - 1) / (k + 1), however many
    sketches there are [LT25, Lem. 16, section 7]; what is released needs noise of that size only. There are as many
    counters as keys in any of the reduced sketches, at most k for each.
    """

    form: ClassVar[Literal["summed"]] = "summed"
    max_keys_per_unit: ClassVar[int] = 1
    private: ClassVar[bool] = True

    capacity: int  # of each sketch
    sketches: int  # how many were added up
    kind: Kind | None  # what keys are, as of a sketch: public, and the type of keys in a release
    total: int = field(repr=False)  # length of all streams
    names: ColumnNames = field(repr=False)  # of the columns they were read from
    streams: frozenset[bytes] = field(repr=False)  # the streams they hold; see `dptally.summaries.stream_identities`
    _keys: pa.Array = field(repr=False)
    _scaled: NDArray[np.int64] = field(repr=False)

    @classmethod
    def of(cls, sketches: Sequence[HoldsStreams]) -> Self:
        """Reduce the sensitivity of sketches of separate streams, and add them up, with sums among them.

        Raises InvalidParameter if they do not fit together, one is merged or of units, or one stream is there twice.
        """
        parts: list[SummedCounters] = []
        for sketch in sketches:
            if isinstance(sketch, SummedCounters):
                parts.append(sketch)
            elif isinstance(sketch, MisraGries):
                keys, scaled = sketch.reduced()
                facts = (sketch.capacity, 1, sketch.kind, sketch.total, sketch.names, sketch.streams)
                parts.append(SummedCounters(*facts, keys, scaled))
            else:
                raise InvalidParameter(f"sum_sketches takes MisraGriesSketch, got {type(sketch).__name__}.")
        return cls._added(parts, united_streams(sketches))

    @classmethod
    def _added(cls, parts: Sequence[SummedCounters], streams: frozenset[bytes]) -> Self:
        if not parts:
            raise InvalidParameter("there must be at least one sketch.")
        if len({part.capacity for part in parts}) > 1:
            raise InvalidParameter("sketches must have one capacity to be added up.")
        kinds = {part.kind for part in parts if part.kind is not None}
        if len(kinds) > 1:
            raise InvalidParameter("sketches must have keys of one kind to be added up.")
        kind = kinds.pop() if kinds else None
        filled = [part for part in parts if part.kind == kind]
        if sum(int(part._scaled.max(initial=0)) for part in filled) >= 1 << 63:
            raise InvalidParameter("the counters times capacity + 1 do not fit in 64 bits.")
        together = pa.table(
            {
                "key": pa.chunked_array([part._keys for part in filled], ARROW_TYPES[kind or "string"]),
                "count": pa.chunked_array([pa.array(part._scaled) for part in filled]),
            }
        )
        summed = together.group_by("key").aggregate([("count", "sum")]).sort_by("key")
        return cls(
            parts[0].capacity,
            sum(part.sketches for part in parts),
            kind,
            sum(part.total for part in parts),
            ColumnNames.shared(part.names for part in parts),
            streams,
            summed.column("key").combine_chunks(),
            summed.column("count_sum").to_numpy(),
        )

    def merge(self, *others: SummedCounters) -> Self:
        """Add up further sums, of other streams.

        Raises InvalidParameter if they do not fit together, or hold one stream twice.
        """
        return self._added([self, *others], united_streams([self, *others]))

    def __len__(self) -> int:
        """The number of counters."""
        return len(self._scaled)

    @property
    def key_type(self) -> pa.DataType:
        """The Arrow type of keys."""
        return self._keys.type

    @property
    def shortfall(self) -> int:
        """No true count exceeds its counter by more: total / (capacity + 1) [LT25, Lem. 15], rounded up."""
        return -(-self.total // (self.capacity + 1))

    def items(self) -> pa.Table:
        """Keys in their order with estimate, lower and upper: lower <= true count <= upper. Not private."""
        whole = self._scaled // (self.capacity + 1)
        most = -(-(self._scaled + self.total) // (self.capacity + 1))
        return pa.table({"key": self._keys, "estimate": whole, "lower": whole, "upper": most})

    def contents(self) -> SketchContents:
        """What a mechanism reads."""
        return SketchContents(self._keys, self._scaled, self.total, self.capacity + 1)

    reduced_contents = contents  # it is reduced already

    def save(self, path: str | Path, *, overwrite: bool = False) -> None:
        """Write it to a file that only its owner may read: it is private."""
        state = SketchState(
            capacity=self.capacity,
            kind=self.kind,
            total=self.total,
            keys=self._keys if self.kind is not None else None,
            counts=self._scaled,
            sketches=self.sketches,
            names=self.names,
            streams=self.streams,
        )
        write_sketch_file(state, Path(path), overwrite=overwrite)

    @classmethod
    def from_state(cls, state: SketchState, name: str, bits: object = None) -> Self:
        """Make it from what a file holds; nothing in it is random, so `bits` are not used.

        Raises InvalidSource if the keys are not in order, or not readable.
        """
        keys = pa.array([], pa.large_string()) if state.keys is None else state.keys
        if not readable(keys).all() or not pc.all(pc.less(keys[:-1], keys[1:]), min_count=0).as_py():
            raise InvalidSource(f"{name} is damaged or incomplete.")
        facts = (state.capacity, state.sketches, state.kind, state.total, state.names, state.streams)
        return cls(*facts, keys, state.counts)
