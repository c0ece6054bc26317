"""The sketch file: everything a sketch holds, versioned, with a checksum. Private data, readable by its owner alone.

Layout, all numbers little-endian::

    16 bytes  "dptally sketch" and two zero bytes
    header    version, class, kind, flags, capacity, total, decrements, max_keys_per_unit, number of counters, key bytes
    names     their size in 4 bytes, then of the columns of keys and of units, as JSON; version 1 has none.
              The third of them, in version 4, is the filter of its rows
    streams   how many in 4 bytes, then 16 bytes for each, in their order; versions 1 and 2 have none
    counts    one 64-bit number for each counter
    keys      64-bit integers; or 64-bit offsets, one more than counters, then the bytes
    32 bytes  SHA-256 of all before

Counters are in the order of their keys. Integers without a sign are stored less 2^63. Text that is not valid UTF-8,
which a damaged Arrow array may bring in, is kept: it has its place among the counters, and is left out when they are
read.

A file of an older version has no streams. The first half of its checksum takes their place, so that the file and a copy
of it are known to be the same; one whose kind is not decided has taken in nothing, and has no stream.
"""

from __future__ import annotations

import hashlib
import json
import os
import struct
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dptally.errors import InvalidSource, attempt
from dptally.files import check_target, complete_or_absent
from dptally.sources.undeclared import is_unicode
from dptally.summaries.sketch_keys import ARROW_TYPES, KeyBuffers, Kind, key_buffers, stored_integers
from dptally.summaries.stream_identities import IDENTITY_BYTES

SKETCH_VERSION = 4
_MAGIC = b"dptally sketch\0\0"
_START = struct.Struct("<16sH")
_HEADER = struct.Struct("<16sHBBIQQQQQQ")
_SIZE = struct.Struct("<I")
_KINDS: tuple[Kind | None, ...] = (None, "string", "bytes", "integer", "unsigned")
_NUMBERS = ("integer", "unsigned")
_MERGED, _STANDARD, _SEEDED = 1, 2, 4
_LARGEST_NUMBER = (1 << 62) - 1  # of elements or decrements: what adds two of them up still fits 64 bits
_NO_LIMIT = 1 << 62  # of keys per unit
_SUMMED = 3  # the class of added-up sketches, whose number stands in place of decrements


class ColumnNames(NamedTuple):
    """What the columns of keys and of units were called, and which rows were read; None where nothing says it.

    They are public, as they are in every release.
    """

    key: str | None = None
    unit: str | None = None
    where: str | None = None

    @classmethod
    def shared(cls, several: Iterable[ColumnNames]) -> ColumnNames:
        """What all that have a name agree on, and the filter that all rows have met: one of theirs, if each has one."""
        keys, units, filters = (list(dict.fromkeys(names)) for names in zip(*several, strict=True))
        agreed = [[name for name in names if name is not None] for names in (keys, units)]
        key, unit = (names[0] if len(names) == 1 else None for names in agreed)
        either = filters[0] if len(filters) == 1 else " OR ".join(f"({each})" for each in filters)
        return cls(key, unit, None if None in filters else either)


_NO_NAMES = ColumnNames()


@dataclass(frozen=True, repr=False)
class SketchState:
    """What a file holds."""

    capacity: int  # the number of counters
    kind: Kind | None  # what keys are, or None if it is not decided
    total: int  # elements counted
    keys: pa.Array | None  # the keys in order, of a type in `ARROW_TYPES`; None if it is not decided
    counts: NDArray[np.int64]  # as many counts
    by_unit: bool = False  # whether it is a sketch of users (Algorithm 4), not of elements (Algorithm 1)
    decrements: int = 0  # by how much a counter may be too low
    max_keys_per_unit: int = 1  # the most keys a user counts for; 1 in a sketch of elements
    merged: bool = False  # whether it was merged from others
    standard: bool = False  # whether it was imported without zero counters
    seeded: bool = False  # whether random choices were made with bits that are not secret
    # how many reduced sketches were added up; 0 for one that is a sketch itself. Then there may be more counters than
    # the capacity, all positive and in units of 1 / (capacity + 1)
    sketches: int = 0
    names: ColumnNames = _NO_NAMES  # of the columns it was read from
    streams: frozenset[bytes] = frozenset()  # the streams it holds; see `dptally.summaries.stream_identities`


@dataclass(frozen=True, repr=False)
class SketchContents:
    """What a sketch hands over. Private."""

    keys: pa.Array  # of the counters, sorted, without placeholders; for the form "single" with zero counters
    counters: NDArray[np.int64]  # one for each key; for the form "summed" in units of 1 / (capacity + 1)
    missing: int  # S: no frequency exceeds its counter by more than S / `missing_parts`
    missing_parts: int  # capacity + 1 for the form "summed", where S is the length of all streams; otherwise 1
    column: str = "key"  # what the keys are called in a release


def pack(state: SketchState) -> bytes:
    """The bytes of a sketch file."""
    columns: list[bytes] = [state.counts.astype("<i8").tobytes()]
    text = b""
    if state.keys is not None and len(state.keys):
        found: KeyBuffers = next(key_buffers(state.keys))
        columns.append(found.buffers[0].astype("<i8").tobytes())
        if state.kind not in _NUMBERS:
            text = found.buffers[1].tobytes()
    flags = _MERGED * state.merged | _STANDARD * state.standard | _SEEDED * state.seeded
    header = _HEADER.pack(
        _MAGIC,
        SKETCH_VERSION if state.names.where is not None else 3,
        _SUMMED if state.sketches else 2 if state.by_unit else 1,
        _KINDS.index(state.kind),
        flags,
        state.capacity,
        state.total,
        state.sketches or state.decrements,
        state.max_keys_per_unit,
        len(state.counts),
        len(text),
    )
    names = json.dumps(state.names if state.names.where is not None else state.names[:2]).encode()
    streams = [_SIZE.pack(len(state.streams)), *sorted(state.streams)]
    body = b"".join([header, _SIZE.pack(len(names)), names, *streams, *columns, text])
    return body + hashlib.sha256(body).digest()


def unpack(packed: bytes, name: str) -> SketchState:
    """Read the bytes of a sketch file; `name` is what errors call it."""
    if len(packed) < _START.size or packed[: len(_MAGIC)] != _MAGIC:
        raise InvalidSource(f"{name} is not a dptally sketch.")
    version = _START.unpack_from(packed)[1]
    if not 1 <= version <= SKETCH_VERSION:
        raise InvalidSource(
            f"{name} has format version {version}, and this dptally reads versions up to {SKETCH_VERSION}; "
            "a newer dptally may read it."
        )
    state = None
    if len(packed) >= _HEADER.size + 32 and hashlib.sha256(packed[:-32]).digest() == packed[-32:]:
        state = _parse(packed)
    if state is None:
        raise InvalidSource(f"{name} is damaged or incomplete.")
    return state


def _parse(packed: bytes) -> SketchState | None:
    """Take the parts out, or None if they contradict each other."""
    _, version, sort, kind_number, flags, capacity, total, decrements, limit, count, text_size = _HEADER.unpack_from(
        packed
    )
    if (
        sort not in (1, 2, _SUMMED)
        or kind_number >= len(_KINDS)
        or flags > 7
        or not 1 <= capacity <= 1 << 30
        or limit < 1
        or max(total, decrements) > _LARGEST_NUMBER
        or limit > _NO_LIMIT
    ):
        return None
    kind = _KINDS[kind_number]
    start, names = (_HEADER.size, _NO_NAMES) if version == 1 else _parse_names(packed)
    streams: frozenset[bytes] | None = frozenset() if kind is None else frozenset({packed[-32:][:IDENTITY_BYTES]})
    if version > 2:
        start, streams = _parse_streams(packed, start)
    if names is None or streams is None or (total and not streams):
        return None
    words = 0 if kind is None else count if kind in _NUMBERS or count == 0 else count + 1
    if (
        len(packed) != start + 8 * (count + words) + text_size + 32
        or (count > capacity and sort != _SUMMED)
        or (kind is None and count)
    ):
        return None
    counts = np.frombuffer(packed, dtype="<i8", count=count, offset=start).astype(np.int64)
    if (counts > _LARGEST_NUMBER).any():
        return None
    keys = None
    if kind is not None:
        keys = _parse_keys(packed, kind, count, start + 8 * count, start + 8 * (count + words), text_size)
        if keys is None:
            return None
    if sort == _SUMMED:
        if flags or not decrements or (counts < 1).any():
            return None
        return SketchState(capacity, kind, total, keys, counts, sketches=decrements, names=names, streams=streams)
    merged, standard, seeded = (bool(flags & flag) for flag in (_MERGED, _STANDARD, _SEEDED))
    by_unit = sort == 2
    lost = int(total) - sum(counts.tolist())
    zeros = int((counts == 0).sum())
    plain = not (by_unit or merged or standard)
    if (counts < 0).any() or lost < decrements * (capacity + 1) or (plain and lost != decrements * (capacity + 1)):
        return None
    if zeros and (not plain or count < capacity):  # the slots without a key are taken before any counter gets to zero
        return None
    return SketchState(
        capacity, kind, total, keys, counts, by_unit, decrements, limit, merged, standard, seeded, 0, names, streams
    )


def _parse_names(packed: bytes) -> tuple[int, ColumnNames | None]:
    """Where they end, and what they are; None if they are nothing of the kind."""
    start = _HEADER.size + _SIZE.size
    if len(packed) < start + 32:
        return start, None
    end = start + _SIZE.unpack_from(packed, _HEADER.size)[0]
    try:
        found = json.loads(packed[start:end])
    except (ValueError, RecursionError):
        return end, None
    if (
        not isinstance(found, list)
        or len(found) not in (2, 3)
        or not all(name is None or is_unicode(name) for name in found)
    ):
        return end, None
    return end, ColumnNames(*found)


def _parse_streams(packed: bytes, start: int) -> tuple[int, frozenset[bytes] | None]:
    """Where they end, and what they are; None if they are not there, or not in order."""
    first = start + _SIZE.size
    if len(packed) < first + 32:
        return first, None
    end = first + IDENTITY_BYTES * _SIZE.unpack_from(packed, start)[0]
    if len(packed) < end + 32:
        return end, None
    found = [packed[place : place + IDENTITY_BYTES] for place in range(first, end, IDENTITY_BYTES)]
    return end, frozenset(found) if all(one < other for one, other in pairwise(found)) else None


def _parse_keys(packed: bytes, kind: Kind, count: int, start: int, end: int, text_size: int) -> pa.Array | None:
    if count == 0:
        return pa.array([], ARROW_TYPES[kind])
    numbers = np.frombuffer(packed, dtype="<i8", count=(end - start) // 8, offset=start).astype(np.int64)
    if kind in _NUMBERS:
        return stored_integers(numbers, kind)
    if numbers[0] != 0 or numbers[-1] != text_size or (np.diff(numbers) < 0).any():
        return None
    text = pa.py_buffer(packed[end : end + text_size])
    return pa.Array.from_buffers(ARROW_TYPES[kind], count, [None, pa.py_buffer(numbers.tobytes()), text])


def write_sketch_file(state: SketchState, path: Path, *, overwrite: bool) -> None:
    """Write the file under its name only when it is complete and on disk, for its owner alone to read."""
    check_target(path, overwrite=overwrite)
    with complete_or_absent(path, overwrite=overwrite) as file:
        os.fchmod(file.fileno(), 0o600)
        file.write(pack(state))


def read_sketch_file(path: Path) -> SketchState:
    """Read a file that `write_sketch_file` made."""
    closed = InvalidSource(f"'{path}' cannot be opened; check that it is there and that you may read it.")
    return unpack(attempt(path.read_bytes, lambda _: closed, OSError), f"'{path}'")
