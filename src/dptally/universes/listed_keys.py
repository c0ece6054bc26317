"""A public set of keys that is listed, and the places of keys in it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from dptally.errors import InvalidParameter

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray

    from dptally.universes.kinds import Universe

__all__ = ["LARGEST_LIST", "ListedKeys"]

LARGEST_LIST = 1 << 22


class ListedKeys:
    """Distinct keys in the order of keys, one or several columns of them.

    Args:
        keys: the key columns, each key once, in any order.

    Raises:
        InvalidParameter: if the set is empty or holds a key twice.
    """

    def __init__(self, keys: pa.Table) -> None:
        import pyarrow as pa
        import pyarrow.compute as pc

        if keys.num_columns == 0 or keys.num_rows == 0:
            raise InvalidParameter("keys must have at least one column and at least one row.")
        if "value" in keys.column_names:
            raise InvalidParameter("keys must not have a column named 'value': that is the name of what is drawn.")
        order = pc.sort_indices(keys, sort_keys=[(column, "ascending") for column in keys.column_names])
        # Names and types only: metadata of whatever the set was made from stays behind.
        schema = pa.schema([pa.field(field.name, field.type) for field in keys.schema])
        self.table = keys.take(order).combine_chunks().cast(schema)
        self._index = _Index(self.table)
        if self._index.repeated:
            raise InvalidParameter("keys must be distinct, but some occur more than once.")

    @classmethod
    def of(cls, universe: Universe, key: Sequence[str]) -> ListedKeys:
        """All keys of a small universe.

        Raises:
            InvalidParameter: if it has too many, or there are several key columns.
        """
        import pyarrow as pa

        if universe.size > LARGEST_LIST:
            raise InvalidParameter(
                f"mechanism 'dense' takes at most 2^22 keys, and the universe {universe.name!r} has "
                f"{universe.size:,}; 'sparse' and 'compact' take any universe."
            )
        if len(key) != 1:
            raise InvalidParameter(f"a universe numbers single keys, but there are {len(key)} key columns.")
        return cls(pa.table({key[0]: universe.keys(range(universe.size))}))

    def __len__(self) -> int:
        return int(self.table.num_rows)

    @property
    def schema(self) -> pa.Schema:
        """Names and types of the key columns."""
        return self.table.schema

    def check_types(self, schema: pa.Schema) -> None:
        """Refuse key columns of other types than the set has, before a row of them is read.

        Raises:
            InvalidParameter: names the column and both types.
        """
        if len(schema) == self.table.num_columns:
            self.places(schema.empty_table())

    def places(self, keys: pa.Table) -> NDArray[np.int64]:
        """The row of each key in the set, -1 where it is not there. Null is equal to null."""
        return self._index.places(keys)


class _Index:
    """Places of keys in a table of distinct keys. Null is equal to null.

    Columns are looked up one by one: the places of the first k columns' values, and the next column's, make one number
    that is looked up among those of the table. Numbers stay small because each step numbers its findings again.
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
