"""A public set of keys that is listed, and the places of keys in it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dptally.errors import InvalidParameter
from dptally.universes.kinds import Universe

if TYPE_CHECKING:
    import polars as pl

LARGEST_LIST = 1 << 22


class ListedKeys:
    """Distinct keys in the order of keys, one or several columns of them.

    InvalidParameter if the set is empty or holds a key twice.
    """

    def __init__(self, keys: pa.Table) -> None:
        if keys.num_columns == 0 or keys.num_rows == 0:
            raise InvalidParameter("keys must have at least one column and at least one row.")
        if "value" in keys.column_names:
            raise InvalidParameter("keys must not have a column named 'value': that is the name of what is drawn.")
        order = pc.sort_indices(keys, sort_keys=[(column, "ascending") for column in keys.column_names])
        # Names and types only: metadata of whatever the set was made from stays behind.
        schema = pa.schema([pa.field(field.name, field.type) for field in keys.schema])
        self.table = keys.take(order).combine_chunks().cast(schema)
        self._columns = [_comparable(column) for column in self.table.columns]
        self._rows = _frame([*self._columns, pa.array(range(len(self)), type=pa.int64())])
        if _frame(self._columns).n_unique() < len(self):
            raise InvalidParameter("keys must be distinct, but some occur more than once.")

    @classmethod
    def of(cls, universe: Universe, key: Sequence[str]) -> ListedKeys:
        """All keys of a small universe; InvalidParameter for too many, or several key columns."""
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
        """Refuse key columns of other types than the set has, before a row of them is read."""
        if len(schema) == self.table.num_columns:
            self.places(schema.empty_table())

    def places(self, keys: pa.Table) -> NDArray[np.int64]:
        """The row of each key in the set, -1 where it is not there. Null is equal to null."""
        columns = [_comparable(column) for column in keys.columns]
        for name, given, known in zip(self.table.column_names, columns, self._columns, strict=True):
            if given.type != known.type:
                raise InvalidParameter(
                    f"key column {name!r} has type {given.type} in the data, but type {known.type} in the set of keys."
                )
        asked = _frame(columns)
        found = asked.join(self._rows, on=asked.columns, how="left", nulls_equal=True, maintain_order="left")
        places: NDArray[np.int64] = found.to_series(-1).fill_null(-1).to_numpy(writable=True)
        return places


def _frame(columns: list[pa.Array]) -> pl.DataFrame:
    import polars as pl

    exact = [_float_bits(column) if pa.types.is_floating(column.type) else column for column in columns]
    return pl.DataFrame(pl.from_arrow(pa.table(exact, [str(place) for place in range(len(columns))])))


def _float_bits(column: pa.Array) -> pa.Array:
    """Floats by their bits, of one NaN for all: 0.0 and -0.0 are two keys, which Polars takes for one."""
    wide = column.cast(pa.float64())
    return pc.if_else(pc.is_nan(wide), np.nan, wide).view(pa.int64())


def _comparable(column: pa.ChunkedArray) -> pa.Array:
    """One array, with types that differ in their storage only made equal."""
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
