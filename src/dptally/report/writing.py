"""From a release to the page and to files of its charts."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING

from dptally.errors import InvalidParameter
from dptally.estimates.frequencies import as_confidence
from dptally.files import check_target, complete_or_absent
from dptally.report.contents import Asked, put_together

if TYPE_CHECKING:
    from dptally.releases.base import Release
    from dptally.report.contents import Report

CHART_FORMATS = ("svg", "png")
_LARGEST_TABLE = 1000


def make_report(
    release: Release,
    *,
    title: str | None = None,
    n: int = 200,
    confidence: object = 0.95,
    file: str | Path | None = None,
) -> Report:
    """What a page says about a release, after it was verified again. Arguments as for `write`.

    Raises:
        PrivacyViolation: if the release does not keep its guarantee; see its `verify`.
    """
    if not 0 <= n <= _LARGEST_TABLE:
        raise InvalidParameter(f"n must be from 0 to {_LARGEST_TABLE:,}, got {n}.")
    release.verify()
    name = None if file is None else Path(file).name
    fingerprint = None if file is None else _fingerprint(Path(file))
    return release.contents(Asked(title, n, as_confidence(confidence), name, fingerprint))


def page(
    release: Release,
    *,
    title: str | None = None,
    n: int = 200,
    confidence: object = 0.95,
    file: str | Path | None = None,
) -> str:
    """The page as text: HTML that holds all it needs and loads nothing. Arguments as for `write`."""
    return put_together(make_report(release, title=title, n=n, confidence=confidence, file=file))


def write(
    release: Release,
    path: str | Path,
    *,
    title: str | None = None,
    n: int = 200,
    confidence: object = 0.95,
    file: str | Path | None = None,
    overwrite: bool = False,
) -> None:
    """Write the page of a release, complete or not at all.

    Args:
        release: a release of any kind.
        path: where to; its name ends in .html.
        title: heading of the page; None to name the key columns.
        n: how many keys the table lists at most, up to 1000.
        confidence: of intervals.
        file: the release's file, for command lines to copy and its SHA-256.
        overwrite: whether an existing page may be replaced.

    Raises:
        PrivacyViolation: if the release does not keep its guarantee.
    """
    place = Path(path)
    check_page(place, overwrite=overwrite)
    text = page(release, title=title, n=n, confidence=confidence, file=file)
    save_page(text, place, overwrite=overwrite)


def check_page(path: Path, *, overwrite: bool) -> None:
    """Refuse a place where no page can be written."""
    if path.suffix.lower() not in (".html", ".htm"):
        raise InvalidParameter(f"a report's name must end in .html, got {path.name!r}.")
    check_target(path, overwrite=overwrite)


def save_page(text: str, path: Path, *, overwrite: bool) -> None:
    """Write a page, complete or not at all."""
    with complete_or_absent(path, overwrite=overwrite) as file:
        file.write(text.encode("utf-8"))


def write_charts(
    report: Report, directory: str | Path, *, formats: tuple[str, ...] = CHART_FORMATS, overwrite: bool = False
) -> list[Path]:
    """Write the charts of a report, the same as on its page, as files of their own; no browser is needed.

    Args:
        report: made by `make_report`.
        directory: where to; made if it does not exist.
        formats: "svg", which needs nothing, and "png", which needs the extra ``plots``.
        overwrite: whether existing files may be replaced.

    Returns:
        list[Path]: the files written.

    Raises:
        MissingDependency: for PNG without the extra ``plots``.
    """
    folder = Path(directory)
    unknown = [kind for kind in formats if kind not in CHART_FORMATS]
    if unknown:
        raise InvalidParameter(f"formats must be of 'svg' and 'png', got {unknown[0]!r}.")
    if folder.exists() and not folder.is_dir():
        raise InvalidParameter(f"{folder} is not a directory.")
    contents = {
        folder / f"{chart.name}.{kind}": chart.content(f".{kind}") for chart in report.charts for kind in formats
    }
    folder.mkdir(parents=True, exist_ok=True)
    for target in contents:
        check_target(target, overwrite=overwrite)
    for target, content in contents.items():
        with complete_or_absent(target, overwrite=overwrite) as file:
            file.write(content)
    return list(contents)


def _fingerprint(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
