"""Arrow columns of numbers as NumPy arrays, and of 64-bit integers back.

Arrow's own conversions import pandas where it is installed, which takes 35 MB and most of a second.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray


def integers(column: pa.Array | pa.ChunkedArray) -> NDArray[np.int64]:
    """A column of 64-bit integers without nulls as an array; without a copy if it is one piece."""
    if isinstance(column, pa.ChunkedArray):
        if column.num_chunks != 1:
            parts = [integers(chunk) for chunk in column.chunks]
            return np.concatenate(parts) if parts else np.empty(0, dtype=np.int64)
        column = column.chunk(0)
    return buffer_of(column, np.int64)


def buffer_of(column: pa.Array, kind: type[np.generic]) -> NDArray[Any]:
    """The values of an array whose buffer holds them one after the other, without a copy."""
    if not len(column):
        return np.empty(0, dtype=kind)  # an empty column may have no buffer
    return np.frombuffer(column.buffers()[1], dtype=kind)[column.offset : column.offset + len(column)]


def integer_column(values: NDArray[np.int64]) -> pa.Array:
    """The inverse of `integers`, without a copy."""
    return pa.Array.from_buffers(pa.int64(), len(values), [None, pa.py_buffer(np.ascontiguousarray(values))])
