"""A value for every key of a public set, under pure differential privacy."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from dptally.errors import InvalidParameter
from dptally.exact import as_count, as_epsilon
from dptally.laws.bounded_geometric import DyadicGeometric
from dptally.mechanisms.base import Counted, Drawn
from dptally.privacy.composition import LARGEST_UNIT
from dptally.privacy.guarantee import Guarantee
from dptally.privacy.spending import Spending, law_part
from dptally.verifiers.pure import certify_pure_copies
from dptally.verifiers.tables import Certificate

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa
    from numpy.typing import NDArray

    from dptally.randomness import BitSource

__all__ = ["DEFAULT_BOUND", "DenseHistogram"]

DEFAULT_BOUND = 1 << 40
_PART = 1 << 16


class DenseHistogram:
    """Draw a noisy count for each key of a set that is known in advance, whether the key occurs or not.

    Guarantee:
        epsilon-differential privacy, delta = 0, for adding or removing one unit, where a unit raises the frequency of
        at most l = `max_keys_per_unit` keys by one each. One key's law is certified at epsilon / l, and values are
        drawn independently, so l of them together keep epsilon. For this noise no larger share is possible
        (`certify_pure_copies`).

        The set of keys is part of the question, not of the data: it must be fixed without looking at the data.

    Keys outside the set:
        They are left out, in silence. A refusal, a warning or a count of them would be an outcome that one unit can
        bring about on its own: with no such key in the data it never happens, and with a single unit that has one it
        always does. No epsilon allows that, and delta is 0. Leaving out looks at one key at a time, so it only takes
        away changes between neighbours. Contributions are bounded before: a unit whose chosen keys are outside adds
        less than it could; filter the source to the set of keys to avoid this.

    Counts above the bound:
        They are counted as `bound`, in silence, for the same reason.

    Error:
        `law.error_quantile(beta)` for one key, `law.simultaneous_error(beta, bins=number of keys)` for all.
    Cost:
        One table; 128 random bits and a fixed number of table steps for each key of the set, whatever the data.

    References:
        [BV19, Algorithm 5.1, Theorem 5.2].

    Args:
        epsilon: for the unit.
        keys: the public set: the key columns, in the order of the source's key, each key once, in any order.
        max_keys_per_unit: bound on what one unit touches.
        bound: the largest count; public, and chosen without looking at the data.

    Raises:
        InvalidParameter: if the set is empty or holds a key twice, or a number is out of range.
        PrivacyViolation: if the table does not pass the judge; then nothing has been read or drawn.
    """

    name = "dense"

    def __init__(
        self, epsilon: object, keys: pa.Table, *, max_keys_per_unit: int = 1, bound: int = DEFAULT_BOUND
    ) -> None:
        import pyarrow as pa
        import pyarrow.compute as pc

        self._epsilon = as_epsilon(epsilon)
        self._max_keys_per_unit = as_count("max_keys_per_unit", max_keys_per_unit, largest=LARGEST_UNIT)
        if keys.num_columns == 0 or keys.num_rows == 0:
            raise InvalidParameter("keys must have at least one column and at least one row.")
        if "value" in keys.column_names:
            raise InvalidParameter("keys must not have a column named 'value': that is the name of what is drawn.")
        order = pc.sort_indices(keys, sort_keys=[(column, "ascending") for column in keys.column_names])
        # Names and types only: metadata of whatever the set was made from stays behind.
        schema = pa.schema([pa.field(field.name, field.type) for field in keys.schema])
        self._keys = keys.take(order).combine_chunks().cast(schema)
        self._index = _Index(self._keys)
        if self._index.repeated:
            raise InvalidParameter("keys must be distinct, but some occur more than once.")
        self.law = DyadicGeometric(self._epsilon / self._max_keys_per_unit, bound)
        self.certificate: Certificate = certify_pure_copies(
            self.law.certify(), copies=self._max_keys_per_unit, epsilon=self._epsilon
        )

    def __repr__(self) -> str:
        return f"DenseHistogram(epsilon={self._epsilon}, {self._keys.num_rows} keys, bound={self.law.bound})"

    @property
    def key_schema(self) -> pa.Schema:
        """Names and types of the key columns, which are those of the public set."""
        return self._keys.schema

    def check_types(self, schema: pa.Schema) -> None:
        """Refuse key columns of other types than the set has, before a row of them is read.

        Raises:
            InvalidParameter: names the column and both types.
        """
        if len(schema) == self._keys.num_columns:
            self._index.places(schema.empty_table())

    @property
    def spends(self) -> Spending:
        """What a draw spends."""
        return Spending(self.name, self._epsilon, Fraction(0), (law_part(self.law, self._max_keys_per_unit),))

    def draw(self, frequencies: Counted, bits: BitSource) -> Drawn:
        """Draw once for every key of the set, in the order of keys; the value 0 is a value like any other.

        Raises:
            InvalidParameter: if contributions were bounded at more keys than the mechanism protects, the keys are a
                sample, or the columns are not those of the set.
        """
        import pyarrow as pa

        if frequencies.max_keys_per_unit > self._max_keys_per_unit:
            raise InvalidParameter(
                f"the mechanism protects units with at most {self._max_keys_per_unit} keys, "
                f"but contributions were bounded at {frequencies.max_keys_per_unit}."
            )
        if frequencies.scheme is not None:
            raise InvalidParameter("a dense histogram needs all keys, but these are a sample.")
        if tuple(frequencies.key) != tuple(self._keys.column_names):
            raise InvalidParameter(
                f"keys must have the columns {', '.join(map(repr, frequencies.key))}, in this order, "
                f"got {', '.join(map(repr, self._keys.column_names))}."
            )
        counts = np.zeros(self._keys.num_rows, dtype=np.int64)
        for keys, found in _large_parts(frequencies.batches(), max(_PART, self._keys.num_rows)):
            places = self._index.places(keys)
            inside = places >= 0
            counts[places[inside]] = found[inside]  # each distinct key comes once
        values = self.law.draw(counts, bits)
        guarantee = Guarantee(
            epsilon=self._epsilon,
            delta=Fraction(0),
            unit=frequencies.unit,
            max_keys_per_unit=self._max_keys_per_unit,
            mechanism=self.name,
            private=bits.private,
        )
        rows = self._keys.append_column("value", pa.array(values, type=pa.int64()))
        return Drawn(rows, guarantee, self.certificate, self.law)


def _large_parts(
    batches: Iterator[tuple[pa.RecordBatch, NDArray[np.int64]]], rows: int
) -> Iterator[tuple[pa.Table, NDArray[np.int64]]]:
    """Batches put together until they have this many rows: every lookup reads the whole set of keys."""
    import pyarrow as pa

    keys: list[pa.RecordBatch] = []
    counts: list[NDArray[np.int64]] = []
    for batch, found in batches:
        keys.append(batch)
        counts.append(found)
        if sum(map(len, counts)) >= rows:
            yield pa.Table.from_batches(keys), np.concatenate(counts)
            keys, counts = [], []
    if keys:
        yield pa.Table.from_batches(keys), np.concatenate(counts)


class _Index:
    """Places of keys in a table of distinct keys. Null is equal to null.

    Columns are looked up one by one: the places of the first k columns' values, and the next column's, make one number
    that is looked up among those of the table. Numbers stay small because each step numbers its findings anew.
    """

    def __init__(self, keys: pa.Table) -> None:
        import pyarrow.compute as pc

        self._columns: list[pa.Array] = []  # the distinct values of each column
        self._pairs: list[pa.Array] = []  # the distinct numbers of each step from the second column on
        self._names = keys.column_names
        place: NDArray[np.int64] | None = None
        for column in keys.columns:
            values = _comparable(column)
            distinct = pc.unique(values)
            self._columns.append(distinct)
            here = _lookup(values, distinct)
            if place is not None:
                pair = _array(place * len(distinct) + here)
                here, distinct = _lookup(pair, pc.unique(pair)), pc.unique(pair)
                self._pairs.append(distinct)
            place = here
        if place is None:
            raise InvalidParameter("keys must have at least one column and at least one row.")
        last = len(self._pairs[-1]) if self._pairs else len(self._columns[0])
        self.repeated = last < keys.num_rows
        self._rows = np.full(last, -1, dtype=np.int64)
        self._rows[place] = np.arange(keys.num_rows)

    def places(self, keys: pa.Table) -> NDArray[np.int64]:
        """The row of each key in the table, -1 where it is not there."""
        place: NDArray[np.int64] | None = None
        for step, (column, distinct) in enumerate(zip(keys.columns, self._columns, strict=True)):
            values = _comparable(column)
            if values.type != distinct.type:
                raise InvalidParameter(
                    f"key column {self._names[step]!r} has type {values.type} in the data, "
                    f"but type {distinct.type} in the set of keys."
                )
            here = _lookup(values, distinct)
            if place is not None:
                missing = (place < 0) | (here < 0)
                pair = np.where(missing, -1, place * len(distinct) + here)
                here = _lookup(_array(pair), self._pairs[step - 1])
            place = here
        if place is None:
            raise InvalidParameter("keys must have at least one column and at least one row.")
        return np.where(place < 0, -1, self._rows[place])


def _array(numbers: NDArray[np.int64]) -> pa.Array:
    import pyarrow as pa

    return pa.array(numbers, type=pa.int64())


def _lookup(values: pa.Array, among: pa.Array) -> NDArray[np.int64]:
    """Place of each value, -1 where there is none."""
    import pyarrow.compute as pc

    places = pc.fill_null(pc.index_in(values, value_set=among), -1)
    found: NDArray[np.int64] = np.asarray(places.to_numpy(zero_copy_only=False), dtype=np.int64)
    return found


def _comparable(column: pa.ChunkedArray) -> pa.Array:
    """One array, with types that differ in their storage only made equal."""
    import pyarrow as pa

    kind = column.type
    if pa.types.is_dictionary(kind):
        column = column.cast(kind.value_type)
        kind = column.type
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        column = column.cast(pa.large_string())
    elif pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_binary_view(kind):
        column = column.cast(pa.large_binary())
    elif pa.types.is_integer(kind) and not pa.types.is_uint64(kind):
        column = column.cast(pa.int64())
    return column.combine_chunks()
