"""The file of a release of any kind: one Parquet file, readable by other tools, with versioned metadata inside.

The metadata is one JSON object under the key ``dptally``: `format_version`, `kind`, `guarantee`, `certificate`, and
what the kind adds (see `facts` of each class): parameters as exact fractions, never anything of the input but what was
released. Columns are those of `stored_rows` of the kind; what can be computed from the others is computed again when
the file is read. Nothing in a file is executed. Files of version 1 are read by `dptally.releases.version_1`.
"""

from __future__ import annotations

import contextlib
import importlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from dptally.errors import UnreadableRelease
from dptally.files import check_target, complete_or_absent
from dptally.privacy.stored_facts import DAMAGE, facts_of, read_json
from dptally.releases import version_1
from dptally.releases.bounded_tables import read_table

if TYPE_CHECKING:
    import pyarrow as pa

    from dptally.releases.base import Release

FORMAT_VERSION = 2
NAME = b"dptally"
KINDS = {
    "table": "dptally.releases.table_release:TableRelease",
    "polynomial": "dptally.releases.compact_release:CompactRelease",
    "ranges": "dptally.releases.range_release:RangeRelease",
    "prefixes": "dptally.releases.prefix_tree:PrefixTree",
    "series": "dptally.releases.series_release:SeriesRelease",
}
"""Which class reads files of a kind; imported when it is needed."""

_Kind = TypeVar("_Kind", bound="Release")


def metadata(release: Release) -> dict[str, Any]:
    """Everything about a release but its rows, as plain data."""
    return {
        "format_version": FORMAT_VERSION,
        "kind": release.kind,
        "guarantee": facts_of(release.guarantee),
        "certificate": facts_of(release.certificate),
        **release.facts(),
    }


def write_release(release: Release, path: Path, *, overwrite: bool) -> None:
    """Write the file under its name only when it is complete and on disk."""
    import pyarrow.parquet as pq

    check_target(path, overwrite=overwrite)
    packed = json.dumps(metadata(release)).encode()
    table = release.stored_rows().replace_schema_metadata({NAME: packed})
    with complete_or_absent(path, overwrite=overwrite) as file:
        pq.write_table(table, file, compression="zstd")


def load_release(path: str | Path, kind: type[_Kind]) -> _Kind:
    """Read a release that is of this kind: `Release` for any.

    Raises:
        UnreadableRelease: if the file is missing, damaged, not such a release, or of a newer version.
    """
    place = Path(path)
    table, facts = read_release(place)
    with intact(place):
        module, name = KINDS[facts["kind"]].split(":")
        found = getattr(importlib.import_module(module), name)
        release = found.from_facts(table, facts)
    if not isinstance(release, kind):
        raise UnreadableRelease(f"{place} is {release.noun}, and not {kind.noun}; dptally.load reads every kind.")
    return release


def read_release(place: Path) -> tuple[pa.Table, dict[str, Any]]:
    """Rows and metadata of a release file, those of version 1 as version 2 would have written them."""
    if version_1.is_compact(place):
        with intact(place):
            return version_1.read_compact(place)
    table = read_table(place)
    held = table.schema.metadata or {}
    name = next((name for name in (NAME, *version_1.NAMES) if name in held), None)
    if name is None:
        raise UnreadableRelease(f"{place} is a Parquet file but not a dptally release.")
    with intact(place):
        facts = read_json(held[name])
        version = facts["format_version"]
        if version == version_1.FORMAT_VERSION and not isinstance(version, bool):
            return table, version_1.upgraded(facts, name)
        if version != FORMAT_VERSION or name != NAME:
            raise version_1.other_version(version)
    return table, facts


@contextlib.contextmanager
def intact(place: Path) -> Iterator[None]:
    """Say of whatever fails in the block that the file is damaged, and nothing of what it holds."""
    import pyarrow as pa

    try:
        yield
    except UnreadableRelease as error:  # which says what is wrong, of a file it does not know
        raise UnreadableRelease(f"{place} {error}") from None
    except (pa.ArrowException, *DAMAGE):
        raise UnreadableRelease(f"{place} has damaged metadata or rows.") from None
