"""Pages of one key column of Parquet files, decompressed and handed on as they lie in the file.

For the plain case only: a flat column of text, binary or integers, values plain or in a dictionary, pages not packed or
packed by Snappy, Zstandard or gzip, which notice a result that is too short. Everything else, and every page that is
not as its header says, raises `UnreadablePages`. That is no verdict on the file: the caller reads it by DuckDB instead,
and DuckDB judges.

Headers are Thrift's compact protocol; the numbers of fields and of their values are those of the Parquet format.
"""

from __future__ import annotations

import contextlib
import io
import zlib
from collections.abc import Iterator
from types import TracebackType
from typing import Any, NamedTuple, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dptally._core import decode_snappy

__all__ = ["ColumnChunk", "Page", "PageFile", "UnreadablePages", "find_chunks"]

_Fields = dict[int, Any]

_WINDOW = 1 << 20  # bytes of a file read at once, if no page is longer
_HEADER, _LONGEST_HEADER = 1 << 12, 1 << 24  # bytes looked at for a header, at first and at most
_MOST = (1 << 31) - 1  # numbers in headers are signed and have 32 bits
_DEPTH = 3  # structs within structs in a header
_KIND, _LENGTH, _STORED_SIZE = 1, 2, 3  # fields of every header
_DATA, _DICTIONARY, _DATA_AGAIN = 0, 2, 3  # kinds of pages, the last one version 2
_PLAIN, _INDEXES, _RUNS = {0}, {2, 8}, 3  # encodings; indexes have an older number too
_ENCODINGS = {"PLAIN", "PLAIN_DICTIONARY", "RLE_DICTIONARY", "RLE", "BIT_PACKED"}
_CODECS = {"UNCOMPRESSED", "SNAPPY", "ZSTD", "GZIP"}
_NOTHING = np.zeros(0, dtype=np.uint8)
# By DuckDB's type: how values are stored, and what else the footer may say of them.
_STORED = {
    "VARCHAR": ("BYTE_ARRAY", {"STRING"}),
    "BLOB": ("BYTE_ARRAY", {"NONE"}),
    "BIGINT": ("INT64", {"NONE", "INT"}),
    "INTEGER": ("INT32", {"NONE", "INT"}),
}


class UnreadablePages(Exception):  # noqa: N818 - no error: another reader takes over
    """The pages are not of the plain kind, or not as their headers say."""


class ColumnChunk(NamedTuple):
    """The key column of one row group.

    Attributes:
        path: the file.
        start: where its first page starts.
        size: how many bytes its pages take.
        first_row: number of its first row in the file.
        rows: how many rows it has.
        optional: whether rows may have no value.
        codec: how pages are compressed, as Parquet calls it.
        largest: no page is longer than this when decompressed.
    """

    path: str
    start: int
    size: int
    first_row: int
    rows: int
    optional: bool
    codec: str
    largest: int


class Page(NamedTuple):
    """What the header of a page says, and the page as it is stored.

    Attributes:
        rows: how many rows it has, or for a dictionary how many entries.
        is_dictionary: whether it holds the values that indexes point to.
        is_indexed: whether its values are such indexes.
        stored: its bytes in the file.
        length: how many they are once decompressed.
        levels_outside: how many bytes of levels come before what is compressed; None where they are part of it.
        is_compressed: whether anything is.
    """

    rows: int
    is_dictionary: bool
    is_indexed: bool
    stored: memoryview
    length: int
    levels_outside: int | None
    is_compressed: bool


def find_chunks(path: str, footer: Any, column: str, duckdb_type: str) -> list[ColumnChunk] | None:
    """Where the pages of a column lie, if it is of the plain kind as far as the footer tells; else None.

    Args:
        path: the file.
        footer: its metadata, as pyarrow reads it.
        column: name of the column.
        duckdb_type: its type, as DuckDB writes it.
    """
    physical, logical = _STORED.get(duckdb_type, ("", set[str]()))
    fields = [footer.schema.column(position) for position in range(len(footer.schema))]
    # A column inside another one may have the same path, but not the same name.
    found = [position for position, field in enumerate(fields) if field.path == field.name == column]
    if len(found) != 1:
        return None
    field = fields[found[0]]
    if field.physical_type != physical or field.logical_type.type not in logical:
        return None
    if field.max_repetition_level != 0 or field.max_definition_level > 1:
        return None
    chunks, first_row = [], 0
    for number in range(footer.num_row_groups):
        group = footer.row_group(number)
        chunk = group.column(found[0])
        if chunk.compression not in _CODECS or not set(chunk.encodings) <= _ENCODINGS or chunk.file_path:
            return None
        if chunk.num_values != group.num_rows or chunk.total_compressed_size < 0:
            return None
        starts = [chunk.data_page_offset, chunk.dictionary_page_offset if chunk.has_dictionary_page else None]
        start = min(offset for offset in starts if offset is not None)
        optional, largest = field.max_definition_level == 1, chunk.total_uncompressed_size
        size, codec = chunk.total_compressed_size, chunk.compression
        chunks.append(ColumnChunk(path, start, size, first_row, group.num_rows, optional, codec, largest))
        first_row += group.num_rows
    return chunks


class PageFile:
    """Reads pages; for one thread. Memory is that of the longest page."""

    def __init__(self) -> None:
        self._path: str | None = None
        self._file: io.FileIO | None = None
        self._buffer = bytearray(_WINDOW)
        self._window = memoryview(b"")  # what of the file is in the buffer
        self._window_start = 0
        self._unpacked = np.empty(_WINDOW, dtype=np.uint8)
        self._zstd = pa.Codec("zstd")

    def pages(self, chunk: ColumnChunk) -> Iterator[Page]:
        """Yield the pages of a chunk up to its last row; each is good until the next is taken.

        Raises:
            UnreadablePages: a header cannot be read or says what is not supported, or rows are missing.
        """
        self._open(chunk.path)
        at, end, left = chunk.start, chunk.start + chunk.size, chunk.rows
        while left:
            header, length = self._header(at, end)
            stored = self._look(at + length, _whole(header, _STORED_SIZE), end)
            at += length + len(stored)
            page = _page(header, stored, chunk)
            if page is not None:
                left -= 0 if page.is_dictionary else page.rows
                if left < 0:
                    raise UnreadablePages
                yield page

    def content(self, page: Page, chunk: ColumnChunk) -> tuple[NDArray[np.uint8], NDArray[np.uint8] | None]:
        """Decompress a page.

        Returns:
            Its values, and its definition levels if the column has them; good until the next page is decompressed.

        Raises:
            UnreadablePages: it does not decompress to what its header says.
        """
        outside = page.levels_outside or 0
        codec = chunk.codec if page.is_compressed else "UNCOMPRESSED"
        values = self._decompress(page.stored[outside:], page.length - outside, codec)
        if page.is_dictionary or not chunk.optional:
            return values, None
        if page.levels_outside is not None:
            return values, np.frombuffer(page.stored, dtype=np.uint8, count=outside) if outside else _NOTHING
        length = int.from_bytes(values[:4].tobytes(), "little")
        if len(values) < 4 or length > len(values) - 4:
            raise UnreadablePages
        return values[4 + length :], values[4 : 4 + length]

    def _decompress(self, stored: memoryview, length: int, codec: str) -> NDArray[np.uint8]:
        if length == 0:
            return _NOTHING
        found: Any = b""
        if codec == "SNAPPY":
            return self._decode_snappy(stored, length)
        if codec == "UNCOMPRESSED":
            found = stored
        elif codec == "ZSTD":  # Arrow notices a result that is too short, which it does not for every codec
            with contextlib.suppress(pa.ArrowException, OSError):
                found = self._zstd.decompress(stored, length)
        elif codec == "GZIP":
            stream = zlib.decompressobj(wbits=47)
            with contextlib.suppress(zlib.error):
                found = stream.decompress(stored, length + 1)
            found = found if stream.eof else b""
        if len(found) != length:
            raise UnreadablePages
        return np.frombuffer(found, dtype=np.uint8)

    def _decode_snappy(self, stored: memoryview, length: int) -> NDArray[np.uint8]:
        # Most of the time of a pass. Arrow's decoder takes half as long again, and a new buffer for every page.
        if length > len(self._unpacked):
            self._unpacked = np.empty(length, dtype=np.uint8)
        unpacked = self._unpacked[:length]
        if not stored or not decode_snappy(np.frombuffer(stored, dtype=np.uint8), unpacked):
            raise UnreadablePages
        return unpacked

    def _header(self, at: int, end: int) -> tuple[_Fields, int]:
        """The header that starts at a byte of the file, and its length; statistics may make it long."""
        size, most = _HEADER, min(_LONGEST_HEADER, end - at)
        while True:
            with contextlib.suppress(IndexError):
                return _read_fields(self._look(at, min(size, most), end), 0, _DEPTH)
            if size >= most:
                raise UnreadablePages
            size *= 16

    def _look(self, at: int, size: int, end: int) -> memoryview:
        """So many bytes of the file; more are read ahead, but not past `end`."""
        place = at - self._window_start
        if place < 0 or place + size > len(self._window):
            if at + size > end:
                raise UnreadablePages
            self._window, self._window_start, place = self._read(at, min(max(size, _WINDOW), end - at)), at, 0
        return self._window[place : place + size]

    def _read(self, at: int, size: int) -> memoryview:
        if size > len(self._buffer):
            self._buffer = bytearray(size)
        view, filled = memoryview(self._buffer)[:size], 0
        try:
            if self._file is None:
                raise UnreadablePages
            self._file.seek(at)
            while filled < size and (count := self._file.readinto(view[filled:])):
                filled += count
        except (OSError, ValueError):
            raise UnreadablePages from None
        if filled < size:
            raise UnreadablePages
        return view

    def _open(self, path: str) -> None:
        if path != self._path:
            self.close()
            try:
                self._file = io.FileIO(path)
            except OSError:
                raise UnreadablePages from None
            self._path = path

    def close(self) -> None:
        """Close the file. May be called again."""
        file, self._file, self._path, self._window = self._file, None, None, memoryview(b"")
        if file is not None:
            file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


def _page(header: _Fields, stored: memoryview, chunk: ColumnChunk) -> Page | None:
    """What the header says, in one form for all kinds of pages; None for a page that holds no values."""
    kind, length = _whole(header, _KIND), _whole(header, _LENGTH)
    if length > chunk.largest:
        raise UnreadablePages
    if kind == _DATA:
        says = _inner(header, 5)
        rows, encoding = _whole(says, 1), _whole(says, 2)
        if chunk.optional and _whole(says, 3) != _RUNS:
            raise UnreadablePages
        page = Page(rows, False, encoding in _INDEXES, stored, length, None, True)
    elif kind == _DICTIONARY:
        says = _inner(header, 7)
        rows, encoding = _whole(says, 1), _whole(says, 2)
        if encoding not in _PLAIN | _INDEXES:  # the older name of the dictionary's encoding, for plain values
            raise UnreadablePages
        return Page(rows, True, False, stored, length, None, True)
    elif kind == _DATA_AGAIN:
        says = _inner(header, 8)
        rows, encoding, levels = _whole(says, 1), _whole(says, 4), _whole(says, 5)
        if _whole(says, 6) or levels > min(length, len(stored)) or (levels and not chunk.optional):
            raise UnreadablePages
        page = Page(rows, False, encoding in _INDEXES, stored, length, levels, says.get(7) is not False)
    else:
        return None
    if encoding not in _PLAIN | _INDEXES:
        raise UnreadablePages
    return page


# Thrift's compact protocol, as far as headers of pages use it.


def _whole(fields: _Fields, number: int) -> int:
    """A field that must be there and hold an integer that is not negative."""
    value = fields.get(number)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= _MOST:
        raise UnreadablePages
    return value


def _inner(fields: _Fields, number: int) -> _Fields:
    value = fields.get(number)
    if not isinstance(value, dict):
        raise UnreadablePages
    return value


def _read_number(data: memoryview, at: int) -> tuple[int, int]:
    """Seven bits a byte, the lowest first; an IndexError where the data ends."""
    number = 0
    for shift in range(0, 70, 7):
        byte = data[at]
        at += 1
        number |= (byte & 127) << shift
        if byte < 128:
            return number, at
    raise UnreadablePages


def _read_fields(data: memoryview, at: int, depth: int) -> tuple[_Fields, int]:
    """Fields by number, and where they end; an IndexError where the data ends before they do."""
    fields: _Fields = {}
    number = 0
    while byte := data[at]:
        at += 1
        kind = byte & 15
        if byte >> 4:
            number += byte >> 4
        else:
            number, at = _read_number(data, at)
            number = number >> 1 ^ -(number & 1)
        if kind in (1, 2):
            fields[number] = kind == 1
        elif kind in (4, 5, 6):
            value, at = _read_number(data, at)
            fields[number] = value >> 1 ^ -(value & 1)
        elif kind in (3, 7):
            at += 1 if kind == 3 else 8
        elif kind == 8:
            length, at = _read_number(data, at)
            at += length
        elif kind == 12 and depth:
            fields[number], at = _read_fields(data, at, depth - 1)
        else:
            raise UnreadablePages
    return fields, at + 1
