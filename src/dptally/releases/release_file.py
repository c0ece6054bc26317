"""The release file: one Parquet file, readable by other tools, with versioned metadata inside.

Columns: the key column(s), then `value`, `estimate`, `lower`, `upper` (bounds at 95 %). The metadata is one JSON object
under the key ``dptally``: parameters as exact fractions, never anything of the input but what was released. Reading
takes the keys, the values and the metadata; estimates and bounds are computed anew. Nothing in the file is executed.
"""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dptally.errors import UnreadableRelease
from dptally.estimates.shortfall import Shortfall
from dptally.observation_models.clamped_noise import ClampedNoise
from dptally.observation_models.reading import ReleasedLaw, read_law
from dptally.releases.release import RESERVED_COLUMNS, Release
from dptally.releases.release_metadata import (
    facts_of,
    intact,
    read_certificate,
    read_guarantee,
    read_table,
    write_table,
)

if TYPE_CHECKING:
    import pyarrow as pa

    from dptally.releases.compact_release import CompactRelease

__all__ = ["FORMAT_VERSION", "load", "metadata", "save"]

FORMAT_VERSION = 1
_NAME = "dptally"


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


def load(path: str | Path) -> Release | CompactRelease:
    """Read a release file.

    Returns:
        Release: or a `CompactRelease`, if the file is one.

    Raises:
        UnreadableRelease: if the file is missing, damaged, not a release, or of a newer version.
    """
    place = Path(path)
    if _starts_like_a_compact_release(place):
        from dptally.releases import compact_release_file

        return compact_release_file.load(place)
    table, facts = read_table(place, name=_NAME, what="a dptally release", version=FORMAT_VERSION)
    with intact(place):
        return _parse(table, facts)


def _starts_like_a_compact_release(place: Path) -> bool:
    from dptally.releases.compact_release_file import MAGIC

    if not place.is_file():
        return False
    try:
        with place.open("rb") as file:
            return file.read(len(MAGIC)) == MAGIC
    except OSError:
        raise UnreadableRelease(f"{place} cannot be read.") from None


def _parse(table: pa.Table, facts: dict[str, Any]) -> Release:
    import pyarrow as pa
    import pyarrow.compute as pc

    law = read_law(facts["law"])
    guarantee, certificate = read_guarantee(facts["guarantee"]), read_certificate(facts["certificate"])
    shortfall = _read_shortfall(facts.get("shortfall"))
    key = [str(name) for name in facts["key"]]
    if not key or any(name in RESERVED_COLUMNS for name in key):
        raise ValueError("not the names of key columns")
    rows = table.select([*key, "value"])
    values = pc.fill_null(rows.column("value").cast(pa.int64()), 1 if not law.values else 0)
    if len(rows) and pc.min(values).as_py() < _smallest_value(law):
        raise ValueError("not a reported value")
    rows = rows.set_column(len(key), "value", values).replace_schema_metadata(None)
    return Release(rows.combine_chunks(), guarantee, certificate, law, shortfall)


def _smallest_value(law: ReleasedLaw) -> int:
    return 0 if isinstance(law, ClampedNoise) else 1


def _read_shortfall(facts: dict[str, Any] | None) -> Shortfall | None:
    if facts is None:
        return None
    found = Shortfall(int(facts["reported"]), int(facts["scale"]), int(facts["parts"]))
    if found.reported < 0 or found.scale < 0 or found.parts < 1:
        raise ValueError("not a shortfall")
    return found
