"""Read a release file of whatever kind: a table of keys, a compact release, a tree of counts, a tree of prefixes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from dptally.errors import UnreadableRelease
from dptally.releases.bounded_tables import read_footer

if TYPE_CHECKING:
    from dptally.releases.compact_release import CompactRelease
    from dptally.releases.prefix_tree import PrefixTree
    from dptally.releases.range_release import RangeRelease
    from dptally.releases.release import Release

    AnyRelease = Release | CompactRelease | RangeRelease | PrefixTree

__all__ = ["load"]

_COMPACT, _SKETCH, _LEDGER = b"DPTALLYC", b"dptally sketch\0\0", b"SQLite format 3\0"
_RANGES, _TREE = b"dptally.ranges", b"dptally_tree"


def load(path: str | Path) -> AnyRelease:
    """Read a release file, and return what it holds.

    Returns:
        Release: a table of keys; a `CompactRelease`, a `RangeRelease` (ranges and quantiles) or a `PrefixTree` (heavy
        hitters), if the file is one.

    Raises:
        UnreadableRelease: if the file is missing, damaged, not a release, or of a newer version.
    """
    place = Path(path)
    kind = _kind(place)
    if kind == _SKETCH:
        raise UnreadableRelease(
            f"{place} is a sketch, which is private, and not a release; dptally.load_sketch reads it."
        )
    if kind == _LEDGER:
        raise UnreadableRelease(
            f"{place} is a SQLite database, such as a ledger, and not a release; dptally.Ledger opens ledgers."
        )
    if kind == _COMPACT:
        from dptally.releases import compact_release_file

        return compact_release_file.load(place)
    if kind == _RANGES:
        from dptally.releases.range_release_file import load_ranges

        return load_ranges(place)
    if kind == _TREE:
        from dptally.releases.prefix_tree_file import load_tree

        return load_tree(place)
    from dptally.releases.release_file import load_release

    return load_release(place)


def _kind(place: Path) -> bytes | None:
    """How a file begins, or the name under which a Parquet file holds its metadata; None for anything else."""
    if not place.is_file():
        return None
    try:
        with place.open("rb") as file:
            start = file.read(16)
        for kind in (_COMPACT, _SKETCH, _LEDGER):
            if start.startswith(kind):
                return kind
        held = read_footer(place).metadata
    except OSError:
        raise UnreadableRelease(f"{place} cannot be read.") from None
    except UnreadableRelease:
        return None  # the reader of tables says what is wrong
    return next((kind for kind in (_RANGES, _TREE) if kind in held), None)
