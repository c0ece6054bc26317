"""Read a release file of whatever kind: a table of keys, a compact release, a tree of counts, a tree of prefixes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dptally.heavy_hitters.tree import PrefixTree
    from dptally.releases.compact_release import CompactRelease
    from dptally.releases.range_release import RangeRelease
    from dptally.releases.release import Release

    AnyRelease = Release | CompactRelease | RangeRelease | PrefixTree

__all__ = ["load_any"]


def load_any(path: str | Path) -> AnyRelease:
    """Read a file that dptally wrote, and return what it holds.

    Raises:
        UnreadableRelease: if the file is missing, damaged, not a release, or of a newer version.
    """
    kind = _kind(Path(path))
    if kind == b"dptally.ranges":
        from dptally.releases.range_release_file import load_ranges

        return load_ranges(path)
    if kind == b"dptally_tree":
        from dptally.heavy_hitters.tree_file import load_tree

        return load_tree(path)
    from dptally.releases.release_file import load

    return load(path)


def _kind(place: Path) -> bytes | None:
    """The name under which a Parquet file holds metadata of a tree; None for anything else, which `load` judges."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        held = pq.read_schema(place).metadata or {}
    except (pa.ArrowException, OSError, ValueError):
        return None
    return next((name for name in (b"dptally.ranges", b"dptally_tree") if name in held), None)
