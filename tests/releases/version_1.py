"""Release files as version 1 wrote them, so that what reads them goes on being attacked."""

from __future__ import annotations

import hashlib
import json
import struct
from fractions import Fraction
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from dptally.privacy.guarantee import CONDITIONS
from dptally.releases.release_file import metadata
from dptally.releases.version_1 import NAMES

START = struct.Struct("<8sII")
NAME_OF = {kind: name for name, kind in NAMES.items()}


NEUTRAL_TEXTS = {
    name: str(part) if isinstance(part, Fraction) else part for name, part in CONDITIONS.items()
}  # which version 1 wrote in full


def metadata_1(release: Any) -> dict[str, Any]:
    """The metadata of version 1, as plain data."""
    facts = json.loads(json.dumps(metadata(release)))
    kind = facts.pop("kind")
    if kind == "prefixes":
        said = {name: facts["guarantee"][name] for name in ("unit", "private", "neighbours", "record")}
        return {"format_version": 1, "plan": json.loads(json.dumps(release.plan.to_dict())), **said}
    if kind == "polynomial":
        return {name: part for name, part in facts.items() if name not in ("format_version", "certificate", "sha256")}
    facts["guarantee"] = {**NEUTRAL_TEXTS, **facts["guarantee"]}
    return {**facts, "format_version": 1}


def save_1(release: Any, path: Path, facts: dict[str, Any] | None = None, *, version: int = 1) -> None:
    """Write a file of version 1, with other metadata if it is given."""
    packed = json.dumps(metadata_1(release) if facts is None else facts).encode()
    if release.kind == "polynomial":
        width = -(-release.law.exponent // 8)
        body = b"".join(number.to_bytes(width, "little") for number in release.coefficients)
        content = START.pack(b"DPTALLYC", version, len(packed)) + packed + body
        path.write_bytes(content + hashlib.sha256(content).digest())
        return
    pq.write_table(release.stored_rows().replace_schema_metadata({NAME_OF[release.kind]: packed}), path)
