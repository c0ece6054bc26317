"""Sketches of many streams, their sensitivity reduced, added up by somebody who may see all of them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dptally.errors import InvalidParameter, InvalidSource
from dptally.mechanisms.private_misra_gries import SketchContents, publish_sketch
from dptally.summaries.misra_gries import MisraGriesSketch
from dptally.summaries.sketch_files import ColumnNames, SketchState, read_sketch_file, write_sketch_file
from dptally.summaries.sketch_keys import ARROW_TYPES, readable
from dptally.summaries.stream_identities import united_streams
from dptally.summaries.user_misra_gries import UserMisraGriesSketch

if TYPE_CHECKING:
    from dptally.randomness import BitSource
    from dptally.releases.release import Release
    from dptally.summaries.sketch_keys import Kind

__all__ = ["AnySketch", "SummedSketches", "load_sketch", "merge_sketches", "sum_sketches"]


class SummedSketches:
    """Reduced sketches, added up: counters are multiples of 1 / (capacity + 1). Private; `repr` shows nothing of it.

    One element more in one of the streams moves all counters together by at most (2k - 1) / (k + 1), however many
    sketches there are [LT25, Lem. 16, section 7]; what is released needs noise of that size only. There are as many
    counters as keys in any of the reduced sketches, at most k for each.

    Attributes:
        capacity: of each sketch.
        sketches: how many were added up.
        total: length of all streams.
        kind: what keys are, as of a sketch: public, and the type of keys in a release.
        names: of the columns they were read from.
        streams: the streams they hold; see `dptally.summaries.stream_identities`.
    """

    form: Literal["summed"] = "summed"

    def __init__(
        self,
        keys: pa.Array,
        scaled: NDArray[np.int64],
        *,
        capacity: int,
        sketches: int,
        total: int,
        kind: Kind | None,
        names: ColumnNames,
        streams: frozenset[bytes],
    ) -> None:
        self._keys, self._scaled = keys, scaled
        self.capacity, self.sketches, self.total, self.kind = capacity, sketches, total, kind
        self.names, self.streams = names, streams

    def __repr__(self) -> str:
        return f"SummedSketches(capacity={self.capacity}, sketches={self.sketches}, kind={self.kind!r})"

    def __len__(self) -> int:
        """The number of counters."""
        return len(self._scaled)

    @property
    def key_type(self) -> pa.DataType:
        """The Arrow type of keys."""
        return self._keys.type

    @property
    def shortfall(self) -> int:
        """No frequency exceeds its counter by more: total / (capacity + 1) [LT25, Lem. 15], rounded up."""
        return -(-self.total // (self.capacity + 1))

    def items(self) -> pa.Table:
        """Keys in their order with estimate, lower and upper: lower <= frequency <= upper. Not private."""
        whole = self._scaled // (self.capacity + 1)
        most = -(-(self._scaled + self.total) // (self.capacity + 1))
        return pa.table({"key": self._keys, "estimate": whole, "lower": whole, "upper": most})

    def merge(self, *others: SummedSketches) -> SummedSketches:
        """Add up further sums, of other streams.

        Raises:
            InvalidParameter: they do not fit together, or hold one stream twice.
        """
        return _add([self, *others], united_streams([self, *others]))

    def publish(self, epsilon: object, delta: object = None, **options: Any) -> Release:
        """Release it privately; options as for `MisraGriesSketch.publish`."""
        return publish_sketch(self, epsilon, delta, **options)

    def contents(self) -> SketchContents:
        """What a mechanism reads."""
        return SketchContents(self._keys, self._scaled, self.total, self.capacity + 1)

    def reduced_contents(self) -> SketchContents:
        """The same: it is reduced already."""
        return self.contents()

    def save(self, path: str | Path, *, overwrite: bool = False) -> None:
        """Write it to a file that only its owner may read: it is private."""
        state = SketchState(
            by_unit=False,
            capacity=self.capacity,
            kind=self.kind,
            total=self.total,
            decrements=0,
            max_keys_per_unit=1,
            merged=False,
            standard=False,
            seeded=False,
            keys=self._keys if self.kind is not None else None,
            counts=self._scaled,
            sketches=self.sketches,
            names=self.names,
            streams=self.streams,
        )
        write_sketch_file(state, Path(path), overwrite=overwrite)


AnySketch = MisraGriesSketch | UserMisraGriesSketch | SummedSketches


def sum_sketches(sketches: Sequence[AnySketch]) -> SummedSketches:
    """Reduce the sensitivity of sketches of separate streams, and add them up.

    Whoever does this must be trusted with all sketches. It takes memory for all of their counters; what is published
    has noise that grows neither with the capacity nor with the number of sketches.

    Args:
        sketches: at least one, of one capacity and one kind of keys, not merged, each of other streams.

    Raises:
        InvalidParameter: they do not fit together, one is merged or of units, or one is given twice, as itself, as a
            copy, or as a part of a sum.
    """
    parts = []
    for sketch in sketches:
        if isinstance(sketch, SummedSketches):
            parts.append(sketch)
            continue
        if not isinstance(sketch, MisraGriesSketch):
            raise InvalidParameter(f"sum_sketches takes MisraGriesSketch, got {type(sketch).__name__}.")
        keys, scaled = sketch.reduced()
        parts.append(
            SummedSketches(
                keys,
                scaled,
                capacity=sketch.capacity,
                sketches=1,
                total=sketch.total,
                kind=sketch.kind,
                names=sketch.names,
                streams=sketch.streams,
            )
        )
    return _add(parts, united_streams(sketches))


def merge_sketches(sketches: Sequence[AnySketch]) -> AnySketch:
    """Merge sketches of one form into one of the same capacity; see `MisraGriesSketch.merge`.

    Raises:
        InvalidParameter: they do not fit together, or hold one stream twice.
    """
    first, *others = sketches
    if any(type(other) is not type(first) for other in others):
        raise InvalidParameter("sketches of elements, of users and added-up ones cannot be merged with each other.")
    merged: AnySketch = first.merge(*others)  # type: ignore[arg-type]  # all of one class
    return merged


def _add(parts: Sequence[SummedSketches], streams: frozenset[bytes]) -> SummedSketches:
    if not parts:
        raise InvalidParameter("there must be at least one sketch.")
    if len({part.capacity for part in parts}) > 1:
        raise InvalidParameter("sketches must have one capacity to be added up.")
    kinds = {part.kind for part in parts if part.kind is not None}
    if len(kinds) > 1:
        raise InvalidParameter("sketches must have keys of one kind to be added up.")
    names = ColumnNames.shared(part.names for part in parts)
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
    return SummedSketches(
        summed.column("key").combine_chunks(),
        summed.column("count_sum").to_numpy(),
        capacity=parts[0].capacity,
        sketches=sum(part.sketches for part in parts),
        total=sum(part.total for part in parts),
        kind=kind,
        names=names,
        streams=streams,
    )


def load_sketch(path: str | Path, *, bits: BitSource | None = None) -> AnySketch:
    """Read a sketch file of any form.

    Raises:
        InvalidSource: it is missing, not a sketch, damaged, incomplete or of a newer version.
    """
    state = read_sketch_file(Path(path))
    if not state.sketches:
        by_unit = UserMisraGriesSketch if state.by_unit else MisraGriesSketch
        return by_unit._from_state(state, f"'{path}'", bits)
    keys = pa.array([], pa.large_string()) if state.keys is None else state.keys
    if not readable(keys).all() or (len(keys) > 1 and not _increasing(keys)):
        raise InvalidSource(f"'{path}' is damaged or incomplete.")
    return SummedSketches(
        keys,
        state.counts,
        capacity=state.capacity,
        sketches=state.sketches,
        total=state.total,
        kind=state.kind,
        names=state.names,
        streams=state.streams,
    )


def _increasing(keys: pa.Array) -> bool:
    import pyarrow.compute as pc

    return bool(pc.all(pc.less(keys.slice(0, len(keys) - 1), keys.slice(1))).as_py())
