"""Keys for a sketch: lists, arrays and series, seen as the buffers the native core reads.

Arrow arrays of text, bytes and 64-bit integers, NumPy's 64-bit integers and Polars series are not copied. Other
integers are widened, dictionaries and Python objects are turned into arrays first. Nulls are left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dptally.errors import InvalidParameter, InvalidSource

__all__ = ["ARROW_TYPES", "KeyBuffers", "Kind", "as_arrow", "key_buffers", "sorted_keys"]

Kind = Literal["string", "bytes", "integer"]
ARROW_TYPES: dict[str, pa.DataType] = {
    "string": pa.large_string(),
    "bytes": pa.large_binary(),
    "integer": pa.int64(),
}
_PYTHON_TYPES: tuple[tuple[tuple[type, ...], Kind], ...] = (
    ((str,), "string"),
    ((bytes, bytearray, memoryview), "bytes"),
    ((int, np.integer), "integer"),
)


@dataclass(frozen=True, repr=False)
class KeyBuffers:
    """Keys of one kind in one of the layouts of the native core.

    Attributes:
        kind: what the keys are, or None where there are none.
        layout: the ending of the native methods that read them.
        buffers: the arguments of those methods.
        rows: how many keys there are.
    """

    kind: Kind | None
    layout: str
    buffers: tuple[Any, ...]
    rows: int


def as_arrow(batch: Any) -> pa.Array | pa.ChunkedArray:
    """Turn what holds keys into Arrow, without a copy where the layout allows.

    Raises:
        InvalidParameter: it is not a collection of keys.
        InvalidSource: the keys are of several types, or of one that a sketch does not take.
    """
    home, name = type(batch).__module__.split(".")[0], type(batch).__name__
    if isinstance(batch, pa.Array | pa.ChunkedArray):
        return batch
    if home == "polars" and name == "Series":
        return _from_polars(batch)
    if home == "pandas" and (name == "Series" or name.endswith("Index")):
        from dptally.sources.frames import pandas_array

        return pandas_array(batch, "the pandas series")
    if isinstance(batch, np.ndarray) and batch.ndim != 1:
        raise InvalidParameter(f"an array of keys must have one dimension, got {batch.ndim}.")
    if isinstance(batch, np.ndarray) and batch.dtype.kind in "iuSU":
        return _converted(batch, None)
    if isinstance(batch, np.ndarray) and batch.dtype.kind != "O":
        raise InvalidSource(f"keys must be text, bytes or integers, not {batch.dtype.name}.")
    if isinstance(batch, str | bytes | bytearray) or not isinstance(batch, Iterable):
        raise InvalidParameter(f"a batch must be a list, an array or a series of keys, got {name}.")
    values = batch.tolist() if isinstance(batch, np.ndarray) else list(batch)
    kinds = {_kind_of_type(kind) for kind in set(map(type, values)) - {type(None)}}
    if len(kinds) > 1:
        raise InvalidSource("the keys are of several types; all must be of one.")
    return _converted(values, ARROW_TYPES[kinds.pop()] if kinds else pa.null())


def _from_polars(series: Any) -> pa.Array:
    import polars as pl

    labels = isinstance(series.dtype, pl.Categorical | pl.Enum)
    array = None
    try:
        array = (series.cast(pl.String) if labels else series).to_arrow(compat_level=pl.CompatLevel.newest())
    except (pl.exceptions.PolarsError, pa.ArrowException, NotImplementedError, TypeError):
        array = None
    if array is None:
        raise InvalidSource("the Polars series has a type that cannot be a key.")
    return array


def _kind_of_type(found: type) -> Kind:
    for types, kind in _PYTHON_TYPES:
        if issubclass(found, types) and not issubclass(found, bool):
            return kind
    raise InvalidSource(f"keys must be text, bytes or integers, not {found.__name__}.")


def _converted(values: Any, kind: pa.DataType | None) -> pa.Array:
    array = None
    try:
        array = pa.array(values, kind)
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        array = None
    if array is None:
        raise InvalidSource("a key cannot be read: integers must fit in 64 bits, text must be valid Unicode.")
    return array


def key_buffers(array: pa.Array | pa.ChunkedArray) -> Iterator[KeyBuffers]:
    """See the keys as buffers, one piece for each chunk; pieces without keys are left out.

    Raises:
        InvalidSource: keys of this type are not taken, or an integer does not fit.
    """
    for chunk in array.chunks if isinstance(array, pa.ChunkedArray) else [array]:
        found = _one_piece(chunk)
        if found.rows:
            yield found


def _one_piece(array: pa.Array) -> KeyBuffers:
    if isinstance(array.type, pa.BaseExtensionType):
        array = array.storage
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    if pa.types.is_null(array.type):
        return KeyBuffers(None, "", (), 0)
    if array.null_count:
        if pa.types.is_string_view(array.type) or pa.types.is_binary_view(array.type):
            # Arrow cannot filter views.
            array = array.cast(pa.large_string() if pa.types.is_string_view(array.type) else pa.large_binary())
        array = array.drop_null()
    kind = array.type
    if pa.types.is_integer(kind):
        return KeyBuffers("integer", "integers", (_integers(array),), len(array))
    if pa.types.is_fixed_size_binary(kind):
        array = array.cast(pa.large_binary())
        kind = array.type
    text = pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)
    if not text and not (pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_binary_view(kind)):
        raise InvalidSource(f"keys must be text, bytes or integers, not {_family(kind)}.")
    name: Kind = "string" if text else "bytes"
    buffers = array.buffers()
    if len(array) == 0:
        return KeyBuffers(name, "", (), 0)
    if pa.types.is_string_view(kind) or pa.types.is_binary_view(kind):
        views = _view(buffers[1], np.uint8)[16 * array.offset : 16 * (array.offset + len(array))]
        return KeyBuffers(name, "views", (views, [_view(buffer, np.uint8) for buffer in buffers[2:]]), len(array))
    large = pa.types.is_large_string(kind) or pa.types.is_large_binary(kind)
    offsets = _view(buffers[1], np.int64 if large else np.int32)[array.offset : array.offset + len(array) + 1]
    layout = "large_strings" if large else "strings"
    return KeyBuffers(name, layout, (offsets, _view(buffers[2], np.uint8)), len(array))


def _family(kind: pa.DataType) -> str:
    return str(kind).split("[")[0].split("(")[0].split("<")[0]


def _integers(array: pa.Array) -> NDArray[np.int64]:
    fitting = None
    try:
        fitting = array.cast(pa.int64())
    except pa.ArrowInvalid:
        fitting = None
    if fitting is None:
        raise InvalidSource("integer keys must lie between -2^63 and 2^63 - 1.")
    numbers: NDArray[np.int64] = _view(fitting.buffers()[1], np.int64)[fitting.offset : fitting.offset + len(fitting)]
    return numbers


def _view(buffer: pa.Buffer | None, kind: type[np.generic]) -> NDArray[Any]:
    if buffer is None or buffer.size == 0:
        return np.empty(0, dtype=kind)
    return np.frombuffer(buffer, dtype=kind, count=buffer.size // np.dtype(kind).itemsize)


def sorted_keys(native: Any, kind: Kind) -> tuple[pa.Array, NDArray[np.int64]]:
    """Keys and counts of a native sketch, in the order of the keys.

    Raises:
        InvalidSource: the keys were said to be text and are not.
    """
    *keys, packed = native.export()
    counts = np.frombuffer(packed, dtype=np.int64)
    parts = [pa.py_buffer(part) for part in keys]
    array = pa.Array.from_buffers(ARROW_TYPES[kind], len(counts), [None, *parts])
    valid = True
    try:
        array.validate(full=True)
    except pa.ArrowInvalid:
        valid = False
    if not valid:
        raise InvalidSource("the source holds text that is not valid UTF-8.")
    return array, counts
