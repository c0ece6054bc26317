"""The release file: one Parquet file, readable by other tools, with versioned metadata inside.

Columns: the key column(s), then `value`, `estimate`, `lower`, `upper` (bounds at 95 %). The metadata is one JSON object
under the key ``dptally``: parameters as exact fractions, never anything of the input but what was released. Reading
takes the keys, the values and the metadata; estimates and bounds are computed anew. Nothing in the file is executed.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dptally.errors import UnreadableRelease
from dptally.estimates.shortfall import Shortfall
from dptally.observation_models.clamped_noise import ClampedNoise
from dptally.observation_models.reading import ReleasedLaw, read_law
from dptally.privacy import Certificate, Guarantee, Record
from dptally.release import RESERVED_COLUMNS, Release
from dptally.stored_facts import DAMAGE, check_guarantee, read_fraction, read_json, read_table
from dptally.whole_files import check_target, complete_or_absent

if TYPE_CHECKING:
    import pyarrow as pa

    from dptally.compact_release import CompactRelease

__all__ = ["FORMAT_VERSION", "load", "metadata", "save"]

FORMAT_VERSION = 1
_KEY = b"dptally"


def metadata(release: Release) -> dict[str, Any]:
    """Everything about a release but its rows, as plain data."""
    guarantee, certificate, law = release.guarantee, release.certificate, release.law
    return {
        "format_version": FORMAT_VERSION,
        "key": list(release.key),
        "guarantee": {
            "epsilon": str(guarantee.epsilon),
            "delta": str(guarantee.delta),
            "unit": guarantee.unit,
            "max_keys_per_unit": guarantee.max_keys_per_unit,
            "mechanism": guarantee.mechanism,
            "spent_on_size": str(guarantee.spent_on_size),
            "spent_on_shortfall": str(guarantee.spent_on_shortfall),
            "sketch_capacity": guarantee.sketch_capacity,
            "sketches": guarantee.sketches,
            "elements_per_unit": guarantee.elements_per_unit,
            "private": guarantee.private,
            "neighbours": guarantee.neighbours,
            "record": None if guarantee.record is None else guarantee.record.facts(),
        },
        "law": law.facts(),
        "certificate": {
            "epsilon": str(certificate.epsilon),
            "delta": str(certificate.delta),
            "worst_delta": str(certificate.worst_delta),
            "worst_pair": list(certificate.worst_pair),
            "rows_checked": certificate.rows_checked,
            "table_sha256": certificate.table_sha256,
            "copies": certificate.copies,
            "total_epsilon": str(certificate.total_epsilon),
            "total_delta": str(certificate.total_delta),
            "judge": certificate.judge,
            "worst_ratio": str(certificate.worst_ratio),
        },
        "shortfall": None if release.shortfall is None else asdict(release.shortfall),
    }


def save(release: Release, path: Path, *, overwrite: bool) -> None:
    """Write the file under its name only when it is complete and on disk."""
    import pyarrow.parquet as pq

    check_target(path, overwrite=overwrite)
    table = release.to_arrow()
    table = table.replace_schema_metadata({_KEY: json.dumps(metadata(release)).encode()})
    with complete_or_absent(path, overwrite=overwrite) as file:
        pq.write_table(table, file, compression="zstd")


def load(path: str | Path) -> Release | CompactRelease:
    """Read a release file.

    Returns:
        Release: or a `CompactRelease`, if the file is one.

    Raises:
        UnreadableRelease: if the file is missing, damaged, not a release, or of a newer version.
    """
    place = Path(path)
    if not place.is_file():
        raise UnreadableRelease(f"{place} is not a file.")
    if _starts_like_a_compact_release(place):
        from dptally import compact_release_file

        return compact_release_file.load(place)
    return _parse(read_table(place), place)


def _starts_like_a_compact_release(place: Path) -> bool:
    from dptally.compact_release_file import MAGIC

    try:
        with place.open("rb") as file:
            return file.read(len(MAGIC)) == MAGIC
    except OSError:
        raise UnreadableRelease(f"{place} cannot be read.") from None


def _parse(table: pa.Table, place: Path) -> Release:
    import pyarrow as pa
    import pyarrow.compute as pc

    packed = (table.schema.metadata or {}).get(_KEY)
    if packed is None:
        raise UnreadableRelease(f"{place} is a Parquet file but not a dptally release.")
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
        law = read_law(facts["law"])
        guarantee = check_guarantee(_read_guarantee(facts["guarantee"]))
        certificate = _read_certificate(facts["certificate"])
        shortfall = _read_shortfall(facts.get("shortfall"))
        key = [str(name) for name in facts["key"]]
        rows = table.select([*key, "value"])
        values = pc.fill_null(rows.column("value").cast(pa.int64()), 1 if not law.values else 0)
        rows = rows.set_column(len(key), "value", values).replace_schema_metadata(None)
        damaged = (
            not key
            or any(name in RESERVED_COLUMNS for name in key)
            or (len(rows) and pc.min(values).as_py() < _smallest_value(law))
        )
    except (pa.ArrowException, *DAMAGE):
        raise UnreadableRelease(f"{place} has damaged metadata.") from None
    if damaged:
        raise UnreadableRelease(f"{place} has damaged metadata.")
    return Release(rows.combine_chunks(), guarantee, certificate, law, shortfall)


def _smallest_value(law: ReleasedLaw) -> int:
    return 0 if isinstance(law, ClampedNoise) else 1


def _read_guarantee(facts: dict[str, Any]) -> Guarantee:
    return Guarantee(
        epsilon=read_fraction(facts["epsilon"]),
        delta=read_fraction(facts["delta"]),
        unit=None if facts["unit"] is None else str(facts["unit"]),
        max_keys_per_unit=int(facts["max_keys_per_unit"]),
        mechanism=str(facts["mechanism"]),
        spent_on_size=read_fraction(facts["spent_on_size"]),
        spent_on_shortfall=read_fraction(facts.get("spent_on_shortfall", 0)),
        sketch_capacity=None if facts.get("sketch_capacity") is None else int(facts["sketch_capacity"]),
        sketches=int(facts.get("sketches", 1)),
        elements_per_unit=int(facts.get("elements_per_unit", 1)),
        private=facts["private"] is True,
        neighbours=str(facts["neighbours"]),
        record=Record.read(facts.get("record")),
    )


def _read_certificate(facts: dict[str, Any]) -> Certificate:
    higher, lower = facts["worst_pair"]
    return Certificate(
        epsilon=read_fraction(facts["epsilon"]),
        delta=read_fraction(facts["delta"]),
        worst_delta=read_fraction(facts["worst_delta"]),
        worst_pair=(int(higher), int(lower)),
        rows_checked=int(facts["rows_checked"]),
        table_sha256=str(facts["table_sha256"]),
        copies=int(facts["copies"]),
        total_epsilon=read_fraction(facts["total_epsilon"]),
        total_delta=read_fraction(facts["total_delta"]),
        judge=str(facts.get("judge", "rows")),
        worst_ratio=read_fraction(facts.get("worst_ratio", 0)),
    )


def _read_shortfall(facts: dict[str, Any] | None) -> Shortfall | None:
    if facts is None:
        return None
    found = Shortfall(int(facts["reported"]), int(facts["scale"]), int(facts["parts"]))
    if found.reported < 0 or found.scale < 0 or found.parts < 1:
        raise ValueError("not a shortfall")
    return found
