"""Compact releases as files: a few facts, the coefficients, and a checksum of both.

::

    bytes       what
    8           the letters DPTALLYC
    4           format version, little-endian
    4           length of the header, little-endian
    ...         header: JSON, numbers that a guarantee rests on as exact fractions
    w (n + 1)   coefficients, little-endian, lowest first, w = ceil(exponent / 8) bytes each
    32          SHA-256 of everything before

The checksum finds damage, not malice: whoever can write the file can write another one.
"""

from __future__ import annotations

import hashlib
import json
import struct
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dptally.errors import InvalidParameter, UnreadableRelease
from dptally.files import check_target, complete_or_absent
from dptally.laws.field_geometric import FIELD_EXPONENTS, FieldGeometric
from dptally.privacy.guarantee import Guarantee
from dptally.releases.compact_release import CompactRelease
from dptally.releases.release_metadata import check_version, facts_of, intact, read_guarantee
from dptally.releases.stored_facts import read_fraction, read_json
from dptally.universes import Universe, read_universe

if TYPE_CHECKING:
    from dptally.laws.specs.compact import BeyondCapacity

__all__ = ["FORMAT_VERSION", "MAGIC", "load", "metadata", "save"]

FORMAT_VERSION = 1
MAGIC = b"DPTALLYC"
_START = struct.Struct("<8sII")
_CHECKSUM = 32
_LARGEST_ELEMENT_BITS = 1024


def save(release: CompactRelease, path: Path, *, overwrite: bool) -> None:
    """Write the file under its name only when it is complete and on disk."""
    check_target(path, overwrite=overwrite)
    header = json.dumps(metadata(release)).encode()
    width = -(-release.law.exponent // 8)
    body = b"".join(coefficient.to_bytes(width, "little") for coefficient in release.coefficients)
    content = _START.pack(MAGIC, FORMAT_VERSION, len(header)) + header + body
    with complete_or_absent(path, overwrite=overwrite) as file:
        file.write(content)
        file.write(hashlib.sha256(content).digest())


def load(path: str | Path, universe: Universe | None = None) -> CompactRelease:
    """Read a release file.

    Args:
        path: the file.
        universe: the keys; by default the universe of the name in the file.

    Raises:
        UnreadableRelease: if the file is missing, damaged, not a compact release, or of a newer version.
        InvalidParameter: if the universe given is not the one the release is about.
    """
    place = Path(path)
    if not place.is_file():
        raise UnreadableRelease(f"{place} is not a file.")
    try:
        content = place.read_bytes()
    except OSError:
        raise UnreadableRelease(f"{place} cannot be read.") from None
    if content[: len(MAGIC)] != MAGIC:
        raise UnreadableRelease(f"{place} is not a compact dptally release.")
    if len(content) < _START.size + _CHECKSUM:
        raise UnreadableRelease(f"{place} is damaged: it ends too early.")
    _, version, header_length = _START.unpack_from(content)
    check_version(place, version, FORMAT_VERSION)
    if hashlib.sha256(content[:-_CHECKSUM]).digest() != content[-_CHECKSUM:]:
        raise UnreadableRelease(f"{place} is damaged: its checksum does not match.")
    body_start = _START.size + header_length
    with intact(place):
        facts = read_json(content[_START.size : body_start])
        law = _read_law(facts["law"])
        guarantee = _read_guarantee(facts["guarantee"])
        capacity, beyond_capacity = int(facts["capacity"]), _read_beyond(facts["beyond_capacity"])
        name, size = str(facts["universe"]), int(facts["universe_size"])
    width = -(-law.exponent // 8)
    body = content[body_start:-_CHECKSUM]
    if capacity < 1 or len(body) != width * (capacity + 1) or not 1 <= size <= law.size:
        raise UnreadableRelease(f"{place} has damaged metadata.")
    coefficients = [int.from_bytes(body[at : at + width], "little") for at in range(0, len(body), width)]
    if max(coefficients) >= law.size:
        raise UnreadableRelease(f"{place} is damaged: a number is not in its field.")
    keys = _read_universe(name, place) if universe is None else universe
    if (keys.name, keys.size) != (name, size):
        raise InvalidParameter(f"{place} is about the universe {name!r} of {size} keys, not {keys.name!r}.")
    return CompactRelease(coefficients, law, keys, guarantee, beyond_capacity)


def metadata(release: CompactRelease) -> dict[str, Any]:
    """Everything about a release but its coefficients, as plain data."""
    law = release.law
    return {
        "universe": release.universe.name,
        "universe_size": release.universe.size,
        "capacity": release.capacity,
        "beyond_capacity": release.beyond_capacity,
        "law": {
            "name": "FieldGeometric",
            "exponent": law.exponent,
            "largest_count": law.largest_count,
            "ratio": str(law.ratio),
            "floor": law.floor,
            "element_bits": law.element_bits,
        },
        "guarantee": facts_of(release.guarantee),
    }


def _read_law(facts: dict[str, Any]) -> FieldGeometric:
    exponent, largest_count, element_bits = (int(facts[name]) for name in ("exponent", "largest_count", "element_bits"))
    if facts["name"] != "FieldGeometric" or exponent not in FIELD_EXPONENTS:
        raise ValueError("another law")
    if largest_count >= 1 << 62 or element_bits > _LARGEST_ELEMENT_BITS:
        raise ValueError("too large")
    return FieldGeometric(exponent, largest_count, read_fraction(facts["ratio"]), int(facts["floor"]), element_bits)


def _read_guarantee(facts: dict[str, Any]) -> Guarantee:
    found = read_guarantee(facts)
    if found.epsilon <= 0 or found.delta != 0 or found.max_keys_per_unit < 1:
        raise ValueError("another guarantee")
    return found


def _read_beyond(text: object) -> BeyondCapacity:
    if text == "subsample":
        return "subsample"
    if text == "refuse":
        return "refuse"
    raise ValueError("another rule")


def _read_universe(name: str, place: Path) -> Universe:
    """The universe of that name, if it is one of the named ones."""
    try:
        return read_universe(name)
    except InvalidParameter:
        raise UnreadableRelease(
            f"{place} is about the universe {name[:60]!r}, which has to be given: CompactRelease.load(path, universe)."
        ) from None
