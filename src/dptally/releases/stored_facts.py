"""Facts and tables out of files that anybody may have written: bounded in time and memory, whatever the bytes say.

Metadata is JSON, numbers that a guarantee rests on are written ``n`` or ``n/d``. Tables are Parquet, which can say in a
few bytes that a value repeats a billion times, or that a megabyte of zeros does. So the lengths in a file are checked
first, then it is read in batches, texts as a dictionary, and refused as soon as it unpacks to more than a small file
can reasonably hold. No extension type is known that runs code, and nothing is unpickled.
"""

from __future__ import annotations

import json
import os
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from dptally.errors import DptallyError, UnreadableRelease
from dptally.exact.parameters import MAX_EPSILON
from dptally.releases.parquet_layout import Layout, read_layout

if TYPE_CHECKING:
    import pyarrow as pa

    from dptally.privacy import Guarantee

__all__ = ["DAMAGE", "check_guarantee", "read_fraction", "read_json", "read_table"]

DAMAGE: tuple[type[Exception], ...] = (
    ArithmeticError,
    AttributeError,
    LookupError,
    RecursionError,
    NotImplementedError,
    OSError,
    TypeError,
    ValueError,
    DptallyError,
)
"""What reading facts may raise when they are not what was written; the reader says so in its own words."""

_ROWS, _ROWS_PER_BYTE = 1 << 20, 16
_BYTES, _BYTES_PER_BYTE = 1 << 26, 256
_BATCH, _BATCH_BYTES = 1 << 14, 1 << 24
_COLUMNS = 1000
_METADATA = 1 << 24  # bytes of one text in the metadata
_LARGEST_COUNT = 1 << 62
_NEIGHBOURS = "add or remove one unit"
_LONGEST_FIXED = 256  # bytes of a value of fixed length: decimals and UUIDs have 16


def read_json(packed: bytes) -> dict[str, Any]:
    """One JSON object.

    Raises:
        ValueError: if it is anything else, or nested deeper than Python reads.
    """
    try:
        facts = json.loads(packed)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    if not isinstance(facts, dict):
        raise ValueError("not an object")
    return facts


def read_fraction(text: object) -> Fraction:
    """A whole number, or two with a stroke between them: no exponents, which a few letters can make endless.

    Raises:
        ValueError: if it is anything else; Python reads up to 4300 digits.
        ZeroDivisionError: if the second number is 0.

    >>> read_fraction("1/3"), read_fraction("7"), read_fraction(0)
    (Fraction(1, 3), Fraction(7, 1), Fraction(0, 1))
    """
    if isinstance(text, bool) or not isinstance(text, str | int):
        raise ValueError("not a fraction")
    numerator, _, denominator = str(text).partition("/")
    return Fraction(int(numerator), int(denominator or "1"))


def check_guarantee(found: Guarantee) -> Guarantee:
    """A guarantee as it was read, if there can be such a one.

    Raises:
        ValueError: if a number in it is out of range.
    """
    sketch = found.sketch_capacity is not None
    counts = (found.sketches, found.elements_per_unit, found.sketch_capacity or 0 if sketch else 1)
    parts = (found.spent_on_size, found.spent_on_shortfall)
    if not (
        0 < found.epsilon <= MAX_EPSILON
        and 0 <= found.delta < 1
        and all(part >= 0 for part in parts)
        and sum(parts) < found.epsilon
        # Only a sketch may count every key of a unit, and only with a unit are there several.
        and (0 if sketch else 1) <= found.max_keys_per_unit <= _LARGEST_COUNT
        and (found.unit is not None or found.max_keys_per_unit == 1)
        and all(1 <= count <= _LARGEST_COUNT for count in counts)
        and (found.most_distinct_keys is None or 1 <= found.most_distinct_keys <= _LARGEST_COUNT)
        and found.neighbours == _NEIGHBOURS
    ):
        raise ValueError("no such guarantee")
    return found


def read_table(place: Path) -> pa.Table:
    """A Parquet file as a table, its metadata kept.

    A file of n bytes may hold up to 2^20 + 16 n rows, and unpack to 64 MB + 256 n bytes, by what its page headers say
    (`dptally.releases.parquet_layout`) and by what its rows turn out to be.

    Raises:
        UnreadableRelease: if it is missing, damaged, or unpacks to more; or has columns within columns, which no
            release has.
    """
    import pyarrow as pa

    if not place.is_file():
        raise UnreadableRelease(f"{place} is not a file.")
    try:
        with place.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            layout = read_layout(file, size)
            most_rows, most_bytes = _ROWS + _ROWS_PER_BYTE * size, _BYTES + _BYTES_PER_BYTE * size
            if layout.rows > most_rows or layout.columns > _COLUMNS or layout.memory > most_bytes:
                found = None
            elif max(layout.widths) > _LONGEST_FIXED or max(map(len, layout.metadata.values()), default=0) > _METADATA:
                raise ValueError("no column, or no metadata, of a release")
            else:
                found = _read(file, layout, most_rows, most_bytes)
    except (pa.ArrowException, MemoryError, *DAMAGE):
        raise UnreadableRelease(f"{place} is not a readable Parquet file.") from None
    if found is None:
        raise UnreadableRelease(f"{place} unpacks to far more than its size, and is not read.")
    return found


def _read(file: BinaryIO, layout: Layout, most_rows: int, most_bytes: int) -> pa.Table | None:
    """The table; None if it is too large."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    def opened(texts: list[str] | None = None) -> pq.ParquetFile:
        file.seek(0)
        return pq.ParquetFile(file, read_dictionary=texts, thrift_string_size_limit=_METADATA)

    schema = opened().schema_arrow
    if any(pa.types.is_nested(field.type) for field in schema):
        raise ValueError("no column of a release")
    texts = [field.name for field in schema if _is_text(field.type)]
    rows_at_once = max(1, min(_BATCH, _BATCH_BYTES // sum(max(width, 16) for width in layout.widths)))
    batches, rows, total = [], 0, 0
    for batch in opened(texts).iter_batches(batch_size=rows_at_once):
        rows += len(batch)
        total += sum(_unpacked_size(column) for column in batch.columns)
        if rows > most_rows or total > most_bytes:
            return None
        # Unpacked at once: every batch has a copy of the whole dictionary, of which its rows may use nothing.
        columns = [_as(column, field.type) for column, field in zip(batch.columns, schema, strict=True)]
        batches.append(pa.record_batch(columns, schema=schema))
    return pa.Table.from_batches(batches, schema)


def _as(column: pa.Array, kind: pa.DataType) -> pa.Array:
    """A column in the type it was written in; views are not made of a dictionary in one step."""
    import pyarrow as pa

    if pa.types.is_dictionary(column.type) and not pa.types.is_dictionary(kind):
        column = column.cast(column.type.value_type)
    return column.cast(kind)


def _is_text(kind: pa.DataType) -> bool:
    import pyarrow as pa

    variable = (pa.string(), pa.large_string(), pa.string_view(), pa.binary(), pa.large_binary(), pa.binary_view())
    return kind in variable


def _unpacked_size(column: pa.Array) -> int:
    """How many bytes a column takes once each row has its own text."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if not isinstance(column, pa.DictionaryArray) or not _is_text(column.type.value_type):
        return int(column.nbytes)
    lengths = pc.binary_length(column.dictionary).take(column.indices)
    return 8 * len(column) + (pc.sum(lengths.cast(pa.int64())).as_py() or 0)
