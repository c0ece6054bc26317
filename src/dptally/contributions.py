"""Step 2 of the flow: bound what one privacy unit adds.

A unit with more than `max_keys_per_unit` distinct keys keeps a uniform random choice of them; each kept key
counts once.

Why this is stable: a unit's choice depends on its own rows and on random words drawn for it alone. Add or
remove one unit, couple the words of the others, and the others choose what they chose before. So the counts
of two neighbouring data sets differ by one, in the same direction, in at most `max_keys_per_unit` keys, and
nowhere else. Words of `KeyedWords` belong to the unit and the key, so nothing needs to be coupled.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dptally._core import choose_smallest_tags
from dptally.errors import DptallyError, InvalidParameter
from dptally.randomness import BitSource
from dptally.randomness.keyed import KeyedWords


class HashCollision(DptallyError):  # noqa: N818 - named for what it is
    """Rows sorted by hashes held two values of one hash: equal rows may not be neighbours."""


def check_max_keys_per_unit(max_keys_per_unit: int) -> None:
    """Refuse a bound that is no positive integer."""
    if isinstance(max_keys_per_unit, bool) or not isinstance(max_keys_per_unit, int) or max_keys_per_unit < 1:
        raise InvalidParameter(f"max_keys_per_unit must be an integer of at least 1, got {max_keys_per_unit!r}.")


def bound_contributions(
    batches: Iterable[pa.RecordBatch], *, max_keys_per_unit: int, bits: BitSource | KeyedWords, hashed: bool = False
) -> Iterator[pa.RecordBatch]:
    """Keep at most `max_keys_per_unit` distinct keys of each unit, chosen uniformly, each once.

    Each distinct row gets an independent uniform 64-bit tag; a unit keeps its rows with the smallest tags. Of a unit
    that goes on in the next batch only the rows kept so far are carried over (the smallest of all are among the
    smallest of a part), so memory does not grow with the unit. With `KeyedWords` the choice does not depend on the
    order of rows.

    Postcondition: for every unit with d distinct keys, a set of min(d, `max_keys_per_unit`) of them is kept, each such
    set with equal probability up to the chance of a tie, below d^2 / 2^64; choices of different units are independent.

    Rows are canonical (see `dptally.sources.columns`), the unit in the first column, keys in the others, with equal
    units next to each other and equal rows next to each other; no batch is empty. `hashed` rows are sorted by two more
    columns, the last ones: a hash of the unit, then a hash of the key. Then equal rows are neighbours unless hashes
    collide, which is noticed: within rows of one hash there are two values exactly if two neighbours differ. Raises
    HashCollision if two units, or two keys of one unit, have the same hash; what was yielded must be discarded.
    """
    carried = _Carried()
    for batch in batches:
        unit_starts, row_starts = _starts(batch, carried.last, hashed=hashed)
        rows = np.flatnonzero(row_starts)
        if isinstance(bits, KeyedWords):
            fresh = bits.tags(batch.columns[: batch.num_columns - 2 * hashed])[rows]
        else:
            fresh = bits.words(len(rows))
        tags = np.concatenate([carried.tags, fresh])
        first = len(carried.tags)
        runs = first + np.flatnonzero(unit_starts[rows])
        if len(tags):
            if len(runs) == 0 or runs[0] != 0:
                runs = np.concatenate([[0], runs])
            keep = np.empty(len(tags), dtype=np.uint8)
            starts = np.append(runs, len(tags)).astype(np.int64)
            choose_smallest_tags(starts, tags, max_keys_per_unit, keep)
            kept = keep.view(bool)
            # The last run may go on in the next batch; all others are complete.
            done = np.arange(len(tags)) < runs[-1]
            keys = batch.select(range(1, batch.num_columns - 2 * hashed))
            if carried.keys is not None and (kept & done)[:first].any():
                yield carried.keys.filter(pa.array((kept & done)[:first]))
            complete = rows[(kept & done)[first:]]
            if len(complete):
                yield keys.take(pa.array(complete))
            carried.advance(batch, keys, rows, tags, kept & ~done)
    if carried.keys is not None and carried.keys.num_rows:
        yield carried.keys


class _Carried:
    """What is remembered of earlier batches: the last row, and the kept rows of its unit with their tags."""

    def __init__(self) -> None:
        self.last: pa.RecordBatch | None = None
        self.keys: pa.RecordBatch | None = None
        self.tags: NDArray[np.uint64] = np.empty(0, dtype=np.uint64)

    def advance(
        self,
        batch: pa.RecordBatch,
        keys: pa.RecordBatch,
        rows: NDArray[np.int64],
        tags: NDArray[np.uint64],
        open_rows: NDArray[np.bool_],
    ) -> None:
        """Remember the end of `batch`; rows are copied, so that the batch itself can be freed."""
        first = len(self.tags)
        parts = [keys.take(pa.array(rows[open_rows[first:]]))]
        if self.keys is not None:
            parts.insert(0, self.keys.filter(pa.array(open_rows[:first])))
        self.keys = pa.concat_batches(parts)
        self.tags = tags[open_rows]
        self.last = batch.take(pa.array([batch.num_rows - 1]))


def _starts(
    batch: pa.RecordBatch, last: pa.RecordBatch | None, *, hashed: bool
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Return where a unit starts and where a (unit, key) starts; `last` is the row before the batch."""
    changed = [
        changes(batch.column(position), None if last is None else last.column(position))
        for position in range(batch.num_columns)
    ]
    values = changed[:-2] if hashed else changed
    unit_starts, row_starts = changed[0], np.logical_or.reduce(values)
    if hashed:
        unit_hash, key_hash = changed[-2:]
        if not (np.array_equal(unit_starts, unit_hash) and np.array_equal(row_starts, unit_hash | key_hash)):
            raise HashCollision("two values have the same hash.")
    return unit_starts, row_starts


def changes(column: pa.Array, before: pa.Array | None) -> NDArray[np.bool_]:
    """Return for each value whether it differs from the one before it; the very first does."""
    changed = np.ones(len(column), dtype=bool)
    changed[1:] = differing(column.slice(1), column.slice(0, len(column) - 1))
    if before is not None and len(column):
        changed[:1] = differing(column.slice(0, 1), before)
    return changed


def differing(left: pa.Array, right: pa.Array) -> NDArray[np.bool_]:
    """Compare values one by one; null equals null, and floats are compared by their bits."""
    if pa.types.is_floating(left.type):
        whole = pa.int64() if left.type == pa.float64() else pa.int32()
        left, right = left.view(whole), right.view(whole)
    different = pc.not_equal(left, right)
    if left.null_count or right.null_count:
        different = pc.fill_null(different, False)
        different = pc.or_(different, pc.not_equal(pc.is_valid(left), pc.is_valid(right)))
    unequal: NDArray[np.bool_] = different.to_numpy(zero_copy_only=False)
    return unequal
