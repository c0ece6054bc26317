"""What each unit has for each of its keys beside the key: how many rows, and values of columns; on disk.

Files beside those of `dptally.summaries.unit_pairs`, with four bytes for each pair and column, in the same order.

Why it is stable: what a unit has for a key is computed from its own rows by integers, which can be added in any order,
so that no other row has a say in it; and it is an integer within stated bounds whatever the rows hold.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dptally.errors import InvalidSource, attempt
from dptally.exact.integer_columns import integers
from dptally.laws.statistics import FINE

if TYPE_CHECKING:
    from dptally.laws.statistics import Clipped
    from dptally.laws.statistics_law import NoisyPart

__all__ = ["KeyStatistics", "PairValues", "close_file", "columns_of", "no_room", "part_of", "write_numbers"]

_NULL = -(1 << 31)
_MOST_ROWS = (1 << 31) - 1
_MOST_PAIRS = 1 << 32  # times 2^30 is a number of 64 bits
Integers = NDArray[np.int64]
Places = NDArray[np.int32]


def columns_of(clipped: Sequence[Clipped], *, grouped: bool) -> list[str]:
    """SQL for the number of rows as w, and for what a unit has of each column as x0, x1, ...; null without a value.

    Several rows are added up, or averaged with a rounded quotient; the result is clipped into the range and counts
    from the centre. The last bounds hold for every number that an engine may come up with.
    """
    found = [f"CAST(least(count(*), {_MOST_ROWS}) AS INTEGER) AS w" if grouped else "CAST(1 AS INTEGER) AS w"]
    for place, column in enumerate(clipped):
        value = f"v{place}"
        if grouped:
            value = f"sum({value})" + (f" // count({value})" if column.combine == "average" else "")
        low, high, centre = (column.fine(each) for each in (column.low, column.high, column.centre))
        inside = f"least(greatest({value}, {low}), {high}) - {centre}"
        there = f"count(v{place}) > 0" if grouped else f"v{place} IS NOT NULL"
        found.append(
            f"CASE WHEN {there} THEN CAST(least(greatest({inside}, -{FINE}), {FINE}) AS INTEGER) END AS x{place}"
        )
    return found


class PairValues:
    """One file for the number of rows, and one for each column."""

    def __init__(self, path: Path, columns: int) -> None:
        self._paths = [path.with_suffix(f".value-{i}") for i in range(columns + 1)]
        self._files: list[IO[bytes]] = []
        self._pairs = 0

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Write from the beginning."""
        self._pairs, self._files = 0, [path.open("wb") for path in self._paths]
        try:
            yield
        finally:
            for file in self._files:
                close_file(file)

    def add(self, batch: pa.RecordBatch) -> None:
        """The columns w, x0, x1, ... of pairs."""
        self._pairs += batch.num_rows
        if self._pairs > _MOST_PAIRS:
            raise InvalidSource("sums and means are of at most 2^32 pairs of a unit and a key.")
        for file, column in zip(self._files, batch.columns, strict=True):
            filled = column.fill_null(_NULL) if column.null_count else column
            write_numbers(integers(filled.cast(pa.int64())), file)

    def read(self, start: int, count: int) -> list[Places]:
        """All columns of so many pairs from one on."""
        return [np.fromfile(path, dtype=np.int32, count=count, offset=4 * start) for path in self._paths]


def part_of(part: NoisyPart, values: Sequence[Places], chosen: Integers) -> Integers | None:
    """What each of the chosen pairs adds to a part; None for one each."""
    if part.kind in ("count", "units"):
        return None
    if part.kind == "rows":
        rows: Integers = np.minimum(values[0][chosen], part.limit).astype(np.int64)
        return rows
    assert part.column is not None  # noqa: S101 - values and nulls are of a column
    found = values[1 + part.column][chosen].astype(np.int64)
    nulls: Integers = (found == _NULL).astype(np.int64)
    clipped: Integers = np.clip(np.where(nulls, 0, found), -part.limit, part.limit)
    return nulls if part.kind == "nulls" else clipped


class KeyStatistics:
    """Found keys with the exact sum of every part, and those of the whole; private.

    Attributes:
        key: names of the key columns.
        unit: the column that identifies the unit, or None.
        max_keys_per_unit: how many keys of a unit were kept at most.
        keys: the found keys.
        sums: by name of the part, one number for each key, or one for the whole.
    """

    scheme = None

    def __init__(
        self, key: tuple[str, ...], unit: str | None, kept: int, keys: pa.Table, sums: Mapping[str, Integers]
    ) -> None:
        self.key, self.unit, self.max_keys_per_unit, self.keys, self.sums = key, unit, kept, keys, sums


def write_numbers(numbers: NDArray[Any], file: IO[bytes]) -> None:
    """Numbers of four bytes."""
    attempt(lambda: file.write(numbers.astype(np.int32).tobytes()), no_room, OSError)


def close_file(file: IO[bytes]) -> None:
    """Close it, with the sentence of a full disk where it does not hold all."""
    attempt(file.close, no_room, OSError)


def no_room(error: Exception) -> InvalidSource:
    """What is said where a temporary file cannot be written: how much there was to write is private."""
    return InvalidSource(f"a temporary file cannot be written ({type(error).__name__}); set TMPDIR to a larger disk.")
