"""The file of a tree of counts: one Parquet file, readable by other tools, with versioned metadata inside.

Columns: `level`, `node`, `start`, `end`, `value`, `estimate`. The metadata is one JSON object under the key
``dptally.ranges``: parameters as exact fractions, never anything of the input but what was released. Reading takes
levels, nodes, values and the metadata; the rest is computed anew. Nothing in the file is executed.
"""

from __future__ import annotations

import json
from dataclasses import asdict, fields
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from dptally.errors import UnreadableRelease
from dptally.estimates.node_sums import TreeLaw
from dptally.grids import Grid
from dptally.observation_models import DyadicGeometric
from dptally.observation_models.reading import read_law
from dptally.privacy import Certificate, Guarantee, Record
from dptally.range_release import RangeRelease
from dptally.stored_facts import DAMAGE, check_guarantee, read_fraction, read_json, read_table
from dptally.whole_files import check_target, complete_or_absent

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["FORMAT_VERSION", "load_ranges", "metadata", "save_ranges"]

FORMAT_VERSION = 1
_KEY = b"dptally.ranges"
_Record = TypeVar("_Record", Guarantee, Certificate)
_TYPES: dict[str, tuple[type, ...]] = {
    "int": (int,),
    "str": (str,),
    "bool": (bool,),
    "str | None": (str, type(None)),
    "int | None": (int, type(None)),
}


def metadata(release: RangeRelease) -> dict[str, Any]:
    """Everything about a release but its nodes, as plain data."""
    return {
        "format_version": FORMAT_VERSION,
        "value": release.name,
        "grid": release.grid.facts(),
        "guarantee": _facts(release.guarantee),
        "law": release.law.facts(),
        "certificate": _facts(release.certificate),
    }


def save_ranges(release: RangeRelease, path: Path, *, overwrite: bool) -> None:
    """Write the file under its name only when it is complete and on disk."""
    import pyarrow.parquet as pq

    check_target(path, overwrite=overwrite)
    table = release.nodes().replace_schema_metadata({_KEY: json.dumps(metadata(release)).encode()})
    with complete_or_absent(path, overwrite=overwrite) as file:
        pq.write_table(table, file, compression="zstd")


def load_ranges(path: str | Path) -> RangeRelease:
    """Read a file written by `RangeRelease.save`.

    Raises:
        UnreadableRelease: if the file is missing, damaged, not such a release, or of a newer version.
    """
    import pyarrow as pa

    place = Path(path)
    table = read_table(place)
    packed = (table.schema.metadata or {}).get(_KEY)
    if packed is None:
        raise UnreadableRelease(f"{place} is a Parquet file but not a dptally release of ranges.")
    try:
        facts = read_json(packed)
        version = facts["format_version"]
    except DAMAGE:
        raise UnreadableRelease(f"{place} has damaged metadata.") from None
    if version != FORMAT_VERSION:
        raise UnreadableRelease(
            f"{place} has format version {str(version)[:20]}, and this dptally reads version {FORMAT_VERSION}; "
            "a newer dptally may read it."
        )
    try:
        return _parse(table, facts)
    except (pa.ArrowException, *DAMAGE):
        raise UnreadableRelease(f"{place} has damaged metadata or nodes.") from None


def _parse(table: pa.Table, facts: dict[str, Any]) -> RangeRelease:
    import pyarrow as pa

    grid, law = Grid.read(facts["grid"]), read_law(facts["law"])
    if not isinstance(law, TreeLaw):
        raise ValueError("not a law of trees")
    level, node, value = (
        np.asarray(table.column(name).cast(pa.int64()).to_numpy(), dtype=np.int64)
        for name in ("level", "node", "value")
    )
    if len(level) and not 1 <= level.min() <= level.max() <= grid.levels:
        raise ValueError("no such level")
    values = []
    for number in range(1, grid.levels + 1):
        places, size = node[level == number], grid.nodes(number)
        if len(places) and not (places.min() >= 0 and places.max() < size and len(np.unique(places)) == len(places)):
            raise ValueError("no such node, or twice")
        if isinstance(law, DyadicGeometric) and len(places) != size:
            raise ValueError("a node is missing")
        found = np.zeros(size, dtype=np.int64)
        found[places] = value[level == number]
        values.append(found)
    if not isinstance(law, DyadicGeometric) and len(value) and value.min() < 1:
        raise ValueError("not a reported value")
    guarantee = check_guarantee(_read(Guarantee, facts["guarantee"]))
    certificate = _read(Certificate, facts["certificate"])
    return RangeRelease(grid, str(facts["value"]), values, guarantee, certificate, law)


def _facts(record: Guarantee | Certificate) -> dict[str, Any]:
    """The fields of a record, fractions as text."""
    return {name: str(part) if isinstance(part, Fraction) else part for name, part in asdict(record).items()}


def _read(kind: type[_Record], facts: dict[str, Any]) -> _Record:
    """The record back, every field checked to be of its type."""
    found: dict[str, Any] = {}
    for field in fields(kind):
        if field.type == "Record | None":  # not in files of earlier versions
            found[field.name] = Record.read(facts.get(field.name))
            continue
        part = facts[field.name]
        if field.type == "Fraction":
            part = read_fraction(part)
        elif field.type == "tuple[int, int]":
            first, second = part
            part = (int(first), int(second))
        elif not isinstance(part, _TYPES[str(field.type)]) or (isinstance(part, bool) and field.type != "bool"):
            raise ValueError("a field of another type")
        found[field.name] = part
    return kind(**found)
