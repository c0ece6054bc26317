"""The file of a tree of counts: one Parquet file, readable by other tools, with versioned metadata inside.

Columns: `level`, `node`, `start`, `end`, `value`, `estimate`. The metadata is one JSON object under the key
``dptally.ranges``: parameters as exact fractions, never anything of the input but what was released. Reading takes
levels, nodes, values and the metadata; the rest is computed anew. Nothing in the file is executed.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from dptally.laws.registry import law_from_facts
from dptally.releases.range_release import RangeRelease
from dptally.releases.release_metadata import (
    facts_of,
    intact,
    read_certificate,
    read_guarantee,
    read_table,
    write_table,
)
from dptally.universes.grids import Grid

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["FORMAT_VERSION", "load_ranges", "metadata", "save_ranges"]

FORMAT_VERSION = 1
_NAME = "dptally.ranges"


def metadata(release: RangeRelease) -> dict[str, Any]:
    """Everything about a release but its nodes, as plain data."""
    return {
        "format_version": FORMAT_VERSION,
        "value": release.name,
        "grid": release.grid.facts(),
        "guarantee": facts_of(release.guarantee),
        "law": release.law.facts(),
        "certificate": facts_of(release.certificate),
    }


def save_ranges(release: RangeRelease, path: Path, *, overwrite: bool) -> None:
    """Write the file under its name only when it is complete and on disk."""
    write_table(release.nodes(), metadata(release), path, name=_NAME, overwrite=overwrite)


def load_ranges(path: str | Path) -> RangeRelease:
    """Read a file written by `RangeRelease.save`.

    Raises:
        UnreadableRelease: if the file is missing, damaged, not such a release, or of a newer version.
    """
    place = Path(path)
    table, facts = read_table(place, name=_NAME, what="a dptally release of ranges", version=FORMAT_VERSION)
    with intact(place, "metadata or nodes"):
        return _parse(table, facts)


def _parse(table: pa.Table, facts: dict[str, Any]) -> RangeRelease:
    import pyarrow as pa

    grid, law = Grid.read(facts["grid"]), law_from_facts(facts["law"])
    nodes = law.node_sums()
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
        if law.complete and len(places) != size:
            raise ValueError("a node is missing")
        found = np.zeros(size, dtype=np.int64)
        found[places] = value[level == number]
        values.append(found)
    if len(value) and not (nodes.smallest <= value.min() and value.max() <= nodes.largest):
        raise ValueError("not a reported value")
    guarantee, certificate = read_guarantee(facts["guarantee"]), read_certificate(facts["certificate"])
    return RangeRelease(grid, str(facts["value"]), values, guarantee, certificate, law)
