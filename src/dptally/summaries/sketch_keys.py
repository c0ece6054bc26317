"""Keys for a sketch: lists, arrays and series, seen as the buffers the native core reads.

**What keys are is public.** The kind of a sketch's keys shows in its releases, whether or not there are any, so that it
must not depend on them. It comes from a declaration alone: from the caller (``kind=``), or from the type of the array,
series or column that is given first, which it has without any rows. Python lists, NumPy arrays of objects and columns
of nulls declare nothing. Their values are read as what the sketch holds already, and as text where that is not decided
(`read_values`); a value that has no such reading is left out, like a null: an error would tell that it was there.

Arrow arrays of text, bytes and 64-bit integers, NumPy's 64-bit integers and Polars series are not copied. Other
integers are widened, dictionaries and Python objects are turned into arrays first. Nulls are left out.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dptally.errors import InvalidParameter, InvalidSource
from dptally.exact.integer_columns import buffer_of
from dptally.sources.frames import is_declared, pandas_array, polars_array
from dptally.sources.undeclared import texts

Kind = Literal["string", "bytes", "integer", "unsigned"]
ARROW_TYPES: dict[str, pa.DataType] = {
    "string": pa.large_string(),
    "bytes": pa.large_binary(),
    "integer": pa.int64(),
    "unsigned": pa.uint64(),
}
_FLIP = np.int64(-(1 << 63))  # takes unsigned integers to signed ones, in their order


@dataclass(frozen=True, repr=False)
class KeyBuffers:
    """Keys of one kind in one of the layouts of the native core."""

    layout: str  # the ending of the native methods that read them
    buffers: tuple[Any, ...]  # the arguments of those methods
    rows: int  # how many keys there are


def kind_of(declared: pa.DataType) -> Kind:
    """What keys of an Arrow type are. A column of nulls has no type of its own: text serves.

    Text, bytes (also of a fixed size) and integers are keys; a dictionary is what its values are. Integers have 64
    bits with a sign, but for those of 64 bits without one. Dates, times, decimals, floating-point numbers, booleans and
    nested types are refused: turn them into text or integers first.
    """
    if isinstance(declared, pa.BaseExtensionType):
        return kind_of(declared.storage_type)
    if pa.types.is_dictionary(declared):
        return kind_of(declared.value_type)
    if pa.types.is_integer(declared):
        return "unsigned" if pa.types.is_uint64(declared) else "integer"
    if pa.types.is_null(declared) or _is_text(declared):
        return "string"
    if (
        pa.types.is_binary(declared)
        or pa.types.is_large_binary(declared)
        or pa.types.is_binary_view(declared)
        or pa.types.is_fixed_size_binary(declared)
    ):
        return "bytes"
    family = str(declared).split("[")[0].split("(")[0].split("<")[0]
    raise InvalidSource(f"keys must be text, bytes or integers, not {family}.")


def _is_text(declared: pa.DataType) -> bool:
    return bool(pa.types.is_string(declared) or pa.types.is_large_string(declared) or pa.types.is_string_view(declared))


def as_arrow(batch: Any, kind: Kind | None) -> pa.Array | pa.ChunkedArray:
    """Turn what holds keys into Arrow, without a copy where the layout allows."""
    home, name = type(batch).__module__.split(".")[0], type(batch).__name__
    if home == "polars" and name == "Series":
        batch = batch.to_list() if str(batch.dtype) == "Object" else polars_array(batch, views=True)
    elif home == "pandas" and (name == "Series" or name.endswith("Index")):
        batch = pandas_array(batch, "the pandas series") if is_declared(batch) else batch.tolist()
    if isinstance(batch, pa.Array | pa.ChunkedArray):
        return pa.nulls(len(batch), ARROW_TYPES[kind or "string"]) if pa.types.is_null(batch.type) else batch
    if isinstance(batch, np.ndarray) and batch.ndim != 1:
        raise InvalidParameter(f"an array of keys must have one dimension, got {batch.ndim}.")
    if isinstance(batch, np.ndarray) and batch.dtype.kind in "iuS":
        return pa.array(batch.astype(batch.dtype.newbyteorder("="), copy=False))
    if isinstance(batch, np.ndarray) and batch.dtype.kind not in "OU":
        raise InvalidSource(f"keys must be text, bytes or integers, not {batch.dtype.name}.")
    if isinstance(batch, str | bytes | bytearray) or not isinstance(batch, Iterable):
        raise InvalidParameter(f"a batch must be a list, an array or a series of keys, got {name}.")
    if isinstance(batch, np.ndarray):
        return read_values(batch.tolist(), "string" if batch.dtype.kind == "U" else kind or "string")
    return read_values(list(batch), kind or "string")


def read_values(values: Sequence[Any], kind: Kind) -> pa.Array:
    """Values without a declared type as keys of a kind; null where one has no such reading.

    Each value is read by itself, so that no value decides how another one is read:

    - as text: the label of any value, as everywhere in dptally (`dptally.sources.undeclared`);
    - as integers: integers that fit, and nothing else; as bytes: bytes.
    """
    if kind == "string":
        return texts(values)
    plain, reading = _READINGS[kind]
    if set(map(type, values)) <= {plain, type(None)}:
        with contextlib.suppress(pa.ArrowException, ValueError, OverflowError):  # one of them has no reading
            return pa.array(values, ARROW_TYPES[kind])
    return pa.array([reading(value) for value in values], ARROW_TYPES[kind])


def decoded(key: bytes) -> str | None:
    """The text that bytes are in UTF-8, or None."""
    try:
        return key.decode()
    except UnicodeDecodeError:
        return None


def _integer(low: int, high: int) -> Callable[[Any], int | None]:
    def read(value: Any) -> int | None:
        whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
        return int(value) if whole and low <= int(value) < high else None

    return read


def _bytes(value: Any) -> bytes | None:
    return bytes(value) if isinstance(value, bytes | bytearray | memoryview) else None


_READINGS: dict[Kind, tuple[type, Callable[[Any], Any]]] = {
    "bytes": (bytes, _bytes),
    "integer": (int, _integer(-(1 << 63), 1 << 63)),
    "unsigned": (int, _integer(0, 1 << 64)),
}


def key_buffers(array: pa.Array | pa.ChunkedArray) -> Iterator[KeyBuffers]:
    """See the keys, of a type that `kind_of` takes, as buffers: a piece for each chunk, if there are keys in it."""
    for chunk in array.chunks if isinstance(array, pa.ChunkedArray) else [array]:
        found = _one_piece(chunk)
        if found.rows:
            yield found


def _one_piece(array: pa.Array) -> KeyBuffers:
    if isinstance(array.type, pa.BaseExtensionType):
        array = array.storage
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    if array.null_count:
        if pa.types.is_string_view(array.type) or pa.types.is_binary_view(array.type):
            # Arrow cannot filter views.
            array = array.cast(pa.large_string() if pa.types.is_string_view(array.type) else pa.large_binary())
        array = array.drop_null()
    if len(array) == 0:
        return KeyBuffers("", (), 0)
    if pa.types.is_integer(array.type):
        return KeyBuffers("integers", (_integers(array),), len(array))
    if pa.types.is_fixed_size_binary(array.type):
        array = array.cast(pa.large_binary())
    kind, buffers = array.type, array.buffers()
    if pa.types.is_string_view(kind) or pa.types.is_binary_view(kind):
        views = _view(buffers[1], np.uint8)[16 * array.offset : 16 * (array.offset + len(array))]
        return KeyBuffers("views", (views, [_view(buffer, np.uint8) for buffer in buffers[2:]]), len(array))
    large = pa.types.is_large_string(kind) or pa.types.is_large_binary(kind)
    offsets = _view(buffers[1], np.int64 if large else np.int32)[array.offset : array.offset + len(array) + 1]
    return KeyBuffers("large_strings" if large else "strings", (offsets, _view(buffers[2], np.uint8)), len(array))


def _integers(array: pa.Array) -> NDArray[np.int64]:
    if pa.types.is_uint64(array.type):
        return buffer_of(array, np.int64) ^ _FLIP
    return buffer_of(array.cast(pa.int64()), np.int64)


def _view(buffer: pa.Buffer | None, kind: type[np.generic]) -> NDArray[Any]:
    if buffer is None or buffer.size == 0:
        return np.empty(0, dtype=kind)
    return np.frombuffer(buffer, dtype=kind, count=buffer.size // np.dtype(kind).itemsize)


def native_integer(key: int, kind: Kind) -> int:
    """What the native core holds in place of an integer."""
    return key + int(_FLIP) if kind == "unsigned" else key


def stored_integers(numbers: NDArray[np.int64], kind: Kind) -> pa.Array:
    """The integers that the native core holds, as keys."""
    return pa.array((numbers ^ _FLIP).view(np.uint64) if kind == "unsigned" else numbers)


def sorted_keys(native: Any, kind: Kind) -> tuple[pa.Array, NDArray[np.int64]]:
    """Keys and counts of a native sketch, in the order of the keys. Text may not be valid UTF-8; see `readable`."""
    *keys, packed = native.export()
    counts = np.frombuffer(packed, dtype=np.int64)
    if kind in ("integer", "unsigned"):
        return stored_integers(np.frombuffer(keys[0], dtype=np.int64), kind), counts
    return pa.Array.from_buffers(ARROW_TYPES[kind], len(counts), [None, *map(pa.py_buffer, keys)]), counts


def readable(keys: pa.Array) -> NDArray[np.bool_]:
    """Which keys can be shown: all but text that is not valid UTF-8, which Arrow passes on without a look at it."""
    try:
        keys.validate(full=True)
    except pa.ArrowInvalid:
        return np.array([decoded(key) is not None for key in keys.cast(pa.large_binary()).to_pylist()], dtype=bool)
    return np.ones(len(keys), dtype=bool)
