"""Release files of version 1, as version 2 would have written them.

Tables had their metadata under the key ``dptally``, trees of counts under ``dptally.ranges``, both with what version 2
has but the kind. Trees of prefixes, under ``dptally_tree``, had the certificate in the plan, and of the guarantee only
what the plan does not say. A compact release was a file of its own format, with its certificate left out:

::

    bytes       what
    8           the letters DPTALLYC
    4           format version, little-endian
    4           length of the header, little-endian
    ...         header: JSON
    w (n + 1)   coefficients, little-endian, lowest first, w = ceil(exponent / 8) bytes each
    32          SHA-256 of everything before
"""

from __future__ import annotations

import hashlib
import struct
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dptally.errors import UnreadableRelease
from dptally.privacy.stored_facts import read_json

if TYPE_CHECKING:
    import pyarrow as pa

FORMAT_VERSION = 1
NAMES = {b"dptally": "table", b"dptally.ranges": "ranges", b"dptally_tree": "prefixes"}
_MAGIC = b"DPTALLYC"
_START = struct.Struct("<8sII")
_CHECKSUM = 32
_LARGEST_WIDTH = 66  # bytes of an element of the largest field


def upgraded(facts: dict[str, Any], name: bytes) -> dict[str, Any]:
    """The metadata of a Parquet file of version 1, held under this name."""
    kind = NAMES[name]
    if kind != "prefixes":
        return {**facts, "kind": kind}
    plan = dict(facts["plan"])
    said = {field: facts.get(field) for field in ("unit", "private", "neighbours", "record")}
    guarantee = {
        "epsilon": plan["epsilon"],
        "delta": plan["delta"],
        "max_keys_per_unit": 1,
        "mechanism": "trie_heavy_hitters",
        **said,
    }
    return {"kind": kind, "guarantee": guarantee, "certificate": plan.pop("certificate"), "plan": plan}


def is_compact(place: Path) -> bool:
    """Whether a file begins as a compact release of version 1 does."""
    if not place.is_file():
        return False
    try:
        with place.open("rb") as file:
            return file.read(len(_MAGIC)) == _MAGIC
    except OSError:
        raise UnreadableRelease(f"{place} cannot be read.") from None


def read_compact(place: Path) -> tuple[pa.Table, dict[str, Any]]:
    """Coefficients and metadata of such a file; UnreadableRelease, or an error of `DAMAGE`, if it is not whole."""
    import pyarrow as pa

    content = place.read_bytes()
    if len(content) < _START.size + _CHECKSUM:
        raise UnreadableRelease("is damaged: it ends too early.")
    _, version, header_length = _START.unpack_from(content)
    if version != FORMAT_VERSION:
        raise other_version(version)
    if hashlib.sha256(content[:-_CHECKSUM]).digest() != content[-_CHECKSUM:]:
        raise UnreadableRelease("is damaged: its checksum does not match.")
    start = _START.size + header_length
    facts, body = read_json(content[_START.size : start]), content[start:-_CHECKSUM]
    width = -(-int(facts["law"]["exponent"]) // 8)
    if not 1 <= width <= _LARGEST_WIDTH or len(body) % width:
        raise ValueError("not as many numbers")
    held = pa.FixedSizeBinaryArray.from_buffers(pa.binary(width), len(body) // width, [None, pa.py_buffer(body)])
    facts.update(kind="polynomial", certificate=None, sha256=hashlib.sha256(body).hexdigest())
    return pa.table({"coefficient": held}), facts


def other_version(version: object) -> UnreadableRelease:
    """What is said of a file of a version that is not known here."""
    return UnreadableRelease(
        f"has format version {str(version)[:20]}, and this dptally reads versions 1 and 2; a newer dptally may read it."
    )
