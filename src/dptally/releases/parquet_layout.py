"""How much memory a Parquet file will ask for, found out before Arrow reads it.

Arrow believes lengths: a page header of a few bytes makes it unpack two gigabytes of zeros, a list that claims a
million entries gets room for them, some encodings repeat a long text for each row. What the footer says about sizes is
no protection, since whoever made the file wrote it, too. So the footer and the header of every page are read here, in
Python, from their bytes alone: nothing is unpacked, nothing is reserved, and a length that exceeds what is there is
refused. The pages of a column must follow each other without gaps and end where the column ends, so that Arrow finds
the headers that were checked and no others; fields must come in the order of their numbers, each once, and lists must
hold what the format says, so that there are no two ways to read them. Only compressions and encodings are let through
whose memory these headers bound.

References:
    The format is apache/parquet-format, `parquet.thrift`; its encoding is the compact protocol of Apache Thrift.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, BinaryIO

__all__ = ["Layout", "read_layout"]

_MAGIC = b"PAR1"
_LONGEST_FOOTER = 1 << 25
_MOST_STRUCTS = 1 << 18
_MOST_PAGES = 100_000
_DEEPEST = 32
_FIRST_WINDOW = 1 << 12

# The types of the compact protocol.
_TRUE, _FALSE, _BYTE, _SHORT, _INT, _LONG, _DOUBLE, _BINARY, _LIST, _SET, _MAP, _STRUCT, _UUID = range(1, 14)
_RANGES = {_SHORT: 1 << 15, _INT: 1 << 31, _LONG: 1 << 63}

# What is kept of each structure, by number of field, with its type; the others are passed over. Lists are all here:
# only of their entries does Arrow not compare the type.
_SIZE_STATISTICS = {2: [_LONG], 3: [_LONG]}
_COLUMN_FACTS: dict[int, Any] = {
    2: [_INT],
    3: [_BINARY],
    4: _INT,  # codec
    5: _LONG,  # number of values
    7: _LONG,  # size, compressed
    8: [{}],
    9: _LONG,  # where data pages begin
    10: _LONG,  # where an index page is
    11: _LONG,  # where the dictionary page is
    13: [{}],
    16: _SIZE_STATISTICS,
    17: {2: [_INT]},
}
_COLUMN_CHUNK = {1: _BINARY, 3: _COLUMN_FACTS, 8: {}, 9: _BINARY}
_ROW_GROUP = {1: [_COLUMN_CHUNK], 3: _LONG, 4: [{}]}
_SCHEMA_ELEMENT = {1: _INT, 2: _INT, 3: _INT, 5: _INT}
_FOOTER = {2: [_SCHEMA_ELEMENT], 3: _LONG, 4: [_ROW_GROUP], 5: [{1: _BINARY, 2: _BINARY}], 7: [{}], 8: {}}
_PAGE_HEADER: dict[int, Any] = {
    1: _INT,
    2: _INT,
    3: _INT,
    5: {1: _INT, 2: _INT},
    7: {1: _INT, 2: _INT},
    8: {1: _INT, 4: _INT, 5: _INT, 6: _INT},
}

_UNCOMPRESSED = 0
_CODECS = (_UNCOMPRESSED, 1, 6)  # none, Snappy, Zstandard: they unpack to no more than the header says
_DATA_PAGE, _DICTIONARY_PAGE, _DATA_PAGE_V2 = 0, 2, 3
_DATA_ENCODINGS = (0, 2, 3, 8)  # plain, by dictionary (old and new), runs of booleans
_DICTIONARY_ENCODINGS = (0, 2)
_PER_DICTIONARY_VALUE = 64  # bytes that Arrow takes for an entry of a dictionary, besides its text
_FIXED = 7  # the type whose values have a stated length


@dataclass(frozen=True)
class Layout:
    """What a Parquet file holds, by its own headers.

    Attributes:
        rows: how many.
        columns: how many.
        widths: of values of stated length, for each column; 0 for other types.
        memory: bytes that all pages take when they are unpacked, with the entries of their dictionaries.
        metadata: of the schema; the last text of each name.
    """

    rows: int
    columns: int
    widths: tuple[int, ...]
    memory: int
    metadata: dict[bytes, bytes]


def read_layout(file: BinaryIO, size: int) -> Layout:
    """Read footer and page headers.

    Args:
        file: open for reading, at any place.
        size: of the file.

    Raises:
        ValueError: if the file is damaged, is encrypted or has columns within columns, or takes a compression or an
            encoding that no release is written with.
    """
    start, footer = _read_footer(file, size)
    elements = footer.get(2, [])
    # The first element is the table itself, the others are its columns: none of them repeats or has parts.
    if not elements or elements[0].get(5, 0) != len(elements) - 1 or len(elements) < 2:
        raise ValueError("no columns, or columns within columns")
    if any(element.get(5) or element.get(3, 0) not in (0, 1) or 1 not in element for element in elements[1:]):
        raise ValueError("columns within columns")
    widths = tuple(element.get(2, 0) if element[1] == _FIXED else 0 for element in elements[1:])
    if 8 in footer or min(widths) < 0:
        raise ValueError("encrypted, or a value of negative length")
    rows = memory = pages = 0
    for group in footer.get(4, []):
        chunks, group_rows = group.get(1, []), group.get(3, -1)
        if len(chunks) != len(widths) or group_rows < 0:
            raise ValueError("a row group without its columns")
        rows += group_rows
        for chunk in chunks:
            taken, found = _read_pages(file, chunk, group_rows, start, _MOST_PAGES - pages)
            memory, pages = memory + taken, pages + found
    if footer.get(3) != rows:
        raise ValueError("another number of rows")
    metadata = {entry[1]: entry.get(2, b"") for entry in footer.get(5, []) if 1 in entry}
    return Layout(rows, len(widths), widths, memory, metadata)


def _read_footer(file: BinaryIO, size: int) -> tuple[int, dict[int, Any]]:
    """Where the footer starts, and what it holds."""
    if size < 12 or _read_at(file, 0, 4) != _MAGIC:
        raise ValueError("no Parquet file")
    tail = _read_at(file, size - 8, 8)
    length = int.from_bytes(tail[:4], "little")
    if tail[4:] != _MAGIC or length > min(size - 12, _LONGEST_FOOTER):
        raise ValueError("no Parquet file, or an encrypted one")
    start = size - 8 - length
    reader = _Reader(_read_at(file, start, length))
    footer = reader.structure(_FOOTER)
    return start, footer


def _read_pages(file: BinaryIO, chunk: dict[int, Any], rows: int, end: int, most: int) -> tuple[int, int]:
    """What the pages of a column chunk take, and how many there are."""
    if 1 in chunk or 8 in chunk or 9 in chunk or 3 not in chunk:
        raise ValueError("a column in another file, or encrypted")
    facts = chunk[3]
    codec, values, length, first_data = facts[4], facts[5], facts[7], facts[9]
    first = facts.get(11, first_data)
    if codec not in _CODECS or values != rows or 10 in facts:
        raise ValueError("another compression, or another number of values")
    if not values and 0 <= first_data + length <= end and min(first_data, length) >= 0:
        return 0, 0  # Arrow reads no page of it
    if not (4 <= first <= first_data and length >= 0 and first + length <= end):
        raise ValueError("pages outside of the file")
    at, stop, seen, memory, pages = first, first + length, 0, 0, 0
    while at < stop:
        if pages >= most:
            raise ValueError("too many pages")
        header, taken = _read_page_header(file, at, stop)
        kind, unpacked, packed = header[1], header[2], header[3]
        at += taken
        if unpacked < 0 or not 0 <= packed <= stop - at or (codec == _UNCOMPRESSED and packed != unpacked):
            raise ValueError("a page that does not fit")
        memory += unpacked
        if kind == _DICTIONARY_PAGE:
            entries, encoding = header[7][1], header[7][2]
            if pages or not 0 <= entries <= unpacked or encoding not in _DICTIONARY_ENCODINGS:
                raise ValueError("not a dictionary")
            memory += _PER_DICTIONARY_VALUE * entries
        elif kind in (_DATA_PAGE, _DATA_PAGE_V2):
            held = header[5] if kind == _DATA_PAGE else header[8]
            count, encoding = held[1], held[2 if kind == _DATA_PAGE else 4]
            if count < 0 or encoding not in _DATA_ENCODINGS:
                raise ValueError("another encoding")
            if kind == _DATA_PAGE_V2 and not (held[5] >= 0 and held[6] == 0 and held[5] <= min(packed, unpacked)):
                raise ValueError("levels that do not fit")
            seen += count
        else:
            raise ValueError("another kind of page")
        at += packed
        pages += 1
    if seen != values:
        raise ValueError("another number of values")
    return memory, pages


def _read_page_header(file: BinaryIO, at: int, stop: int) -> tuple[dict[int, Any], int]:
    """A page header and its length; statistics in it may be long, so more is read as it is needed."""
    window = _FIRST_WINDOW
    while True:
        packed = _read_at(file, at, min(window, stop - at))
        reader = _Reader(packed)
        try:
            return reader.structure(_PAGE_HEADER), reader.at
        except IndexError:
            if window >= stop - at or window >= _LONGEST_FOOTER:
                raise ValueError("a page header that does not end") from None
            window *= 8


def _read_at(file: BinaryIO, place: int, length: int) -> bytes:
    file.seek(place)
    found = file.read(length)
    if len(found) != length:
        raise ValueError("the file ends too early")
    return found


class _Reader:
    """The compact protocol, from bytes that anyone may have written.

    Raises IndexError where the bytes end too early, ValueError for what is not well formed.
    """

    def __init__(self, packed: bytes) -> None:
        self._packed = packed
        self.at = 0
        self._structs = 0

    def structure(self, kept: dict[int, Any], depth: int = 0) -> dict[int, Any]:
        """A structure: the fields of `kept` by their numbers, which must grow."""
        self._structs += 1
        if depth > _DEEPEST or self._structs > _MOST_STRUCTS:
            raise ValueError("nested too deeply, or too much of it")
        found: dict[int, Any] = {}
        number = 0
        while head := self._byte():
            kind, step = head & 15, head >> 4
            following = number + step if step else self._integer(_SHORT)
            if following <= number:
                raise ValueError("fields out of order")
            number = following
            if number in kept:
                found[number] = self._kept(kind, kept[number], depth)
            else:
                self._pass_over(kind, depth, in_list=False)
        return found

    def _kept(self, kind: int, wanted: Any, depth: int) -> Any:
        if wanted == kind == _BINARY:
            return self._bytes()
        if wanted == kind and kind in _RANGES:
            return self._integer(kind)
        if isinstance(wanted, dict) and kind == _STRUCT:
            return self.structure(wanted, depth + 1)
        if isinstance(wanted, list) and kind == _LIST:
            entry, size = self._list_head()
            return [self._kept(entry, wanted[0], depth) for _ in range(size)]
        raise ValueError("a field of another type")

    def _pass_over(self, kind: int, depth: int, *, in_list: bool) -> None:
        if depth > _DEEPEST:
            raise ValueError("nested too deeply")
        if kind in (_TRUE, _FALSE, _BYTE):
            if in_list or kind == _BYTE:
                self._byte()
        elif kind in _RANGES:
            self._integer(kind)
        elif kind in (_DOUBLE, _UUID):
            self._take(8 if kind == _DOUBLE else 16)
        elif kind == _BINARY:
            self._bytes()
        elif kind in (_LIST, _SET):
            entry, size = self._list_head()
            for _ in range(size):
                self._pass_over(entry, depth + 1, in_list=True)
        elif kind == _STRUCT:
            self.structure({}, depth + 1)
        else:
            raise ValueError("a type that Parquet does not use")

    def _list_head(self) -> tuple[int, int]:
        head = self._byte()
        size = head >> 4
        if size == 15:
            size = self._varint()
        if size > len(self._packed) - self.at:  # every entry takes a byte at least
            raise IndexError
        return head & 15, size

    def _integer(self, kind: int) -> int:
        number = self._varint()
        if number >= 2 * _RANGES[kind]:  # Arrow would cut it off
            raise ValueError("a number out of range")
        return (number >> 1) ^ -(number & 1)

    def _varint(self) -> int:
        number = 0
        for place in range(10):
            part = self._byte()
            number |= (part & 127) << (7 * place)
            if part < 128:
                return number
        raise ValueError("a number without end")

    def _bytes(self) -> bytes:
        return self._take(self._varint())

    def _byte(self) -> int:
        found = self._packed[self.at]
        self.at += 1
        return found

    def _take(self, length: int) -> bytes:
        if length > len(self._packed) - self.at:
            raise IndexError
        self.at += length
        return self._packed[self.at - length : self.at]
