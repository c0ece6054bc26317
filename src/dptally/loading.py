"""Read a file that dptally wrote, whatever it is: a release of any kind, or a sketch."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, overload

from dptally.errors import UnreadableRelease
from dptally.releases.base import Release
from dptally.releases.release_file import load_release

if TYPE_CHECKING:
    from dptally.releases.range_release import RangeRelease

_SKETCH, _LEDGER = b"dptally sketch\0\0", b"SQLite format 3\0"
_Kind = TypeVar("_Kind")


@overload
def load(path: str | Path) -> Release: ...
@overload
def load(path: str | Path, kind: type[_Kind]) -> _Kind: ...
def load(path: str | Path, kind: type[Any] | None = None) -> Any:
    """Read a file that `save` wrote, and return what it holds.

    Args:
        path: the file.
        kind: None, or the class that the file must be of, such as `dptally.RangeRelease`; type checkers then know what
            is returned. Without it they take the file for a release. The file of a sketch gives the sketch all the
            same, which is private and no release: name its class, or use `dptally.load_sketch`.

    Returns:
        Release: a `TableRelease`, `CompactRelease`, `RangeRelease` or `PrefixTree`; or a sketch.

    Raises:
        UnreadableRelease: if the file is missing, damaged, not of that kind, or of a newer version.
        InvalidSource: if it is a damaged sketch.
    """
    place = Path(path)
    start = _start(place)
    if start == _LEDGER:
        raise UnreadableRelease(
            f"{place} is a SQLite database, such as a ledger, and not a release; dptally.Ledger opens ledgers."
        )
    if start != _SKETCH:
        return load_release(place, kind if kind is not None and issubclass(kind, Release) else Release)
    from dptally.sketches import load_sketch

    found = load_sketch(place)
    if kind is not None and not isinstance(found, kind):
        raise UnreadableRelease(f"{place} is a {type(found).__name__}, which is private, and not a {kind.__name__}.")
    return found


def load_ranges(path: str | Path) -> RangeRelease:
    """Read a tree of counts that `RangeRelease.save` wrote, and nothing else; as `load(path, RangeRelease)`."""
    from dptally.releases.range_release import RangeRelease

    return load(path, RangeRelease)


def _start(place: Path) -> bytes:
    if not place.is_file():
        return b""  # the reader of releases says what is wrong
    try:
        with place.open("rb") as file:
            return file.read(16)
    except OSError:
        raise UnreadableRelease(f"{place} cannot be read.") from None
