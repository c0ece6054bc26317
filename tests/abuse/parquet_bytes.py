"""Parquet files made by hand, byte by byte, to say whatever an attacker wants them to say."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

__all__ = ["BYTES", "INT64", "Claim", "Column", "Page", "parquet"]

INT64, BYTES = 2, 6
_DATA, _DICTIONARY = 0, 2


@dataclass(frozen=True)
class Page:
    """A page, and what its header says about it.

    Attributes:
        payload: as it is stored.
        unpacked: the size that it claims to have when unpacked.
        values: how many it claims to hold.
        encoding: 0 plain, 3 runs, 6 and 7 with lengths and prefixes by differences, 8 by dictionary.
        dictionary: whether it is a dictionary.
    """

    payload: bytes
    unpacked: int
    values: int
    encoding: int = 0
    dictionary: bool = False

    def packed(self) -> bytes:
        """Header and payload."""
        own = {1: self.values, 2: self.encoding}
        if not self.dictionary:
            own |= {3: 3, 4: 3}
        kind, place = (_DICTIONARY, 7) if self.dictionary else (_DATA, 5)
        return _struct({1: kind, 2: self.unpacked, 3: len(self.payload), place: own}) + self.payload


@dataclass(frozen=True)
class Column:
    """A column of one row group; the footer claims that it unpacks to little."""

    name: str
    kind: int
    pages: list[Page]
    codec: int = 6
    facts: dict[int, Any] = field(default_factory=dict)


def parquet(columns: list[Column], rows: int, metadata: dict[bytes, bytes], **changed: Any) -> bytes:
    """A file of one row group.

    Args:
        columns: whose values are all there (no nulls).
        rows: how many, as the footer says.
        metadata: of the schema.
        changed: `footer`, fields that replace those of the footer.
    """
    content, chunks = b"PAR1", []
    for column in columns:
        start, pages = len(content), [page.packed() for page in column.pages]
        content += b"".join(pages)
        facts: dict[int, Any] = {
            1: column.kind, 2: [0, 3, 8], 3: [column.name.encode()], 4: column.codec, 5: _Long(rows), 6: _Long(100),
            7: _Long(len(content) - start), 9: _Long(start),
        }  # fmt: skip
        if column.pages[0].dictionary:
            facts |= {9: _Long(start + len(pages[0])), 11: _Long(start)}
        chunks.append({2: _Long(start), 3: facts | column.facts})
    schema: list[Any] = [{4: b"schema", 5: len(columns)}]
    schema += [{1: column.kind, 3: 0, 4: column.name.encode()} for column in columns]
    group = {1: chunks, 2: _Long(100), 3: _Long(rows)}
    kept = [{1: name, 2: text} for name, text in metadata.items()]
    footer: dict[int, Any] = {1: 2, 2: schema, 3: _Long(rows), 4: [group], 5: kept, **changed.get("footer", {})}
    packed = _struct(footer)
    return content + packed + len(packed).to_bytes(4, "little") + b"PAR1"


class _Long(int):
    """A number of 64 bits."""


@dataclass(frozen=True)
class Claim:
    """A list that claims more entries than it has."""

    entries: list[Any]
    size: int


def _struct(parts: dict[int, Any]) -> bytes:
    packed, before = b"", 0
    for number in sorted(parts):
        kind, content = _part(parts[number])
        packed += bytes([(number - before) << 4 | kind]) + content
        before = number
    return packed + b"\0"


def _part(part: Any) -> tuple[int, bytes]:
    if isinstance(part, int):
        return 6 if isinstance(part, _Long) else 5, _varint(part << 1 if part >= 0 else (-part << 1) - 1)
    if isinstance(part, bytes):
        return 8, _varint(len(part)) + part
    if isinstance(part, dict):
        return 12, _struct(part)
    entries, size = (part.entries, part.size) if isinstance(part, Claim) else (part, len(part))
    kind = _part(entries[0])[0]
    head = bytes([size << 4 | kind]) if size < 15 else bytes([0xF0 | kind]) + _varint(size)
    return 9, head + b"".join(_part(entry)[1] for entry in entries)


def _varint(number: int) -> bytes:
    packed = b""
    while number > 127:
        packed += bytes([number & 127 | 128])
        number >>= 7
    return packed + bytes([number])
