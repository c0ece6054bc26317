"""The release file: one Parquet file, readable by other tools, with versioned metadata inside.

Columns: the key column(s), then `value`, `estimate`, `lower`, `upper` (bounds at 95 %). The metadata is one JSON object
under the key ``dptally``: parameters as exact fractions, never anything of the input but what was released. Reading
takes the keys, the values and the metadata; estimates and bounds are computed anew. Nothing in the file is executed.
"""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dptally.laws.registry import law_from_facts
from dptally.laws.shortfall import Shortfall
from dptally.releases.release import RESERVED_COLUMNS, Release
from dptally.releases.release_metadata import (
    facts_of,
    intact,
    read_certificate,
    read_guarantee,
    read_table,
    write_table,
)
from dptally.releases.released_rows import check_rows

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["FORMAT_VERSION", "load_release", "metadata", "save"]

FORMAT_VERSION = 1
_NAME = "dptally"
_LARGEST_SHORTFALL, _LARGEST_SCALE = 1 << 61, 1 << 40  # added to a value, it stays a number of 64 bits


def metadata(release: Release) -> dict[str, Any]:
    """Everything about a release but its rows, as plain data."""
    return {
        "format_version": FORMAT_VERSION,
        "key": list(release.key),
        "guarantee": facts_of(release.guarantee),
        "law": release.law.facts(),
        "certificate": facts_of(release.certificate),
        "shortfall": None if release.shortfall is None else asdict(release.shortfall),
    }


def save(release: Release, path: Path, *, overwrite: bool) -> None:
    """Write the file under its name only when it is complete and on disk."""
    write_table(release.to_arrow(), metadata(release), path, name=_NAME, overwrite=overwrite)


def load_release(path: str | Path) -> Release:
    """Read the file of a table of keys; `dptally.load` reads files of every kind.

    Raises:
        UnreadableRelease: if the file is missing, damaged, not such a release, or of a newer version.
    """
    place = Path(path)
    table, facts = read_table(place, name=_NAME, what="a dptally release", version=FORMAT_VERSION)
    with intact(place):
        return _parse(table, facts)


def _parse(table: pa.Table, facts: dict[str, Any]) -> Release:
    import pyarrow as pa
    import pyarrow.compute as pc

    law = law_from_facts(facts["law"])
    guarantee, certificate = read_guarantee(facts["guarantee"]), read_certificate(facts["certificate"])
    shortfall = _read_shortfall(facts.get("shortfall"))
    key = [str(name) for name in facts["key"]]
    if key != [name for name in table.column_names if name not in RESERVED_COLUMNS]:
        raise ValueError("not the names of key columns")
    rows = table.select([*key, "value"])
    values = rows.column("value").cast(pa.int64())
    values = values if law.values else pc.fill_null(values, 1)
    rows = rows.set_column(len(key), "value", values).replace_schema_metadata(None).combine_chunks()
    check_rows(rows, law)
    return Release(rows, guarantee, certificate, law, shortfall)


def _read_shortfall(facts: dict[str, Any] | None) -> Shortfall | None:
    if facts is None:
        return None
    found = Shortfall(int(facts["reported"]), int(facts["scale"]), int(facts["parts"]))
    if not (0 <= found.reported <= _LARGEST_SHORTFALL and 0 <= found.scale <= _LARGEST_SCALE and found.parts >= 1):
        raise ValueError("not a shortfall")
    return found
