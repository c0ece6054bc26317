"""What all release files share: guarantees and certificates as plain data, versions, and Parquet files with metadata.

Numbers that a guarantee rests on are exact fractions as text. Reading checks the type of every field, executes nothing,
and ends with a release or with `UnreadableRelease`.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from dataclasses import MISSING, asdict, fields
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from dptally.errors import UnreadableRelease
from dptally.files import check_target, complete_or_absent
from dptally.privacy.guarantee import Guarantee, Record
from dptally.releases.bounded_tables import read_table as read_bounded_table
from dptally.releases.stored_facts import DAMAGE, check_guarantee, read_fraction, read_json
from dptally.verifiers.tables import Certificate

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = [
    "check_version",
    "facts_of",
    "intact",
    "read_certificate",
    "read_guarantee",
    "read_table",
    "write_table",
]

_Kept = TypeVar("_Kept", Guarantee, Certificate)
_TYPES: dict[str, tuple[type, ...]] = {
    "int": (int,),
    "str": (str,),
    "bool": (bool,),
    "str | None": (str, type(None)),
    "int | None": (int, type(None)),
}
_NEVER_LEFT_OUT = ("private", "neighbours")  # a file that does not say it promises nothing


def facts_of(kept: Guarantee | Certificate) -> dict[str, Any]:
    """The fields of a guarantee or certificate, fractions as text.

    >>> facts_of(Guarantee(Fraction(1, 2), Fraction(0), None, 1, "sparse"))["epsilon"]
    '1/2'
    """
    return {
        name: str(part) if isinstance(part, Fraction) else list(part) if isinstance(part, tuple) else part
        for name, part in asdict(kept).items()
    }


def read_guarantee(facts: dict[str, Any]) -> Guarantee:
    """The guarantee back. Fields that earlier versions did not write have their defaults.

    Raises:
        ValueError: or KeyError, TypeError, ZeroDivisionError, for data that is no guarantee.
    """
    return check_guarantee(_read(Guarantee, facts))


def read_certificate(facts: dict[str, Any]) -> Certificate:
    """The certificate back; as `read_guarantee`. It is read, not judged."""
    return _read(Certificate, facts)


def _read(kind: type[_Kept], facts: dict[str, Any]) -> _Kept:
    found: dict[str, Any] = {}
    for field in fields(kind):
        if field.name not in facts and field.default is not MISSING and field.name not in _NEVER_LEFT_OUT:
            continue
        part = facts[field.name]
        if field.type == "Record | None":
            part = Record.read(part)
        elif field.type == "Fraction":
            part = read_fraction(part)
        elif field.type == "tuple[int, int]":
            first, second = part
            part = (int(first), int(second))
        elif not isinstance(part, _TYPES[str(field.type)]) or (isinstance(part, bool) and field.type != "bool"):
            raise ValueError("a field of another type")
        found[field.name] = part
    return kind(**found)


def check_version(place: Path, version: object, known: int) -> None:
    """Refuse a file of another version."""
    if version != known or isinstance(version, bool):
        raise UnreadableRelease(
            f"{place} has format version {str(version)[:20]}, and this dptally reads version {known}; "
            "a newer dptally may read it."
        )


@contextlib.contextmanager
def intact(place: Path, what: str = "metadata") -> Iterator[None]:
    """Say of whatever fails in the block that the file is damaged, and nothing of what it holds."""
    import pyarrow as pa

    try:
        yield
    except (pa.ArrowException, *DAMAGE):
        raise UnreadableRelease(f"{place} has damaged {what}.") from None


def write_table(table: pa.Table, facts: dict[str, Any], path: Path, *, name: str, overwrite: bool) -> None:
    """Write a Parquet file with metadata, under its name only when it is complete and on disk.

    Args:
        table: the rows.
        facts: the metadata, as plain data.
        path: where to.
        name: under which the schema holds the metadata, as JSON.
        overwrite: whether an existing file may be replaced.
    """
    import pyarrow.parquet as pq

    check_target(path, overwrite=overwrite)
    table = table.replace_schema_metadata({name.encode(): json.dumps(facts).encode()})
    with complete_or_absent(path, overwrite=overwrite) as file:
        pq.write_table(table, file, compression="zstd")


def read_table(path: str | Path, *, name: str, what: str, version: int) -> tuple[pa.Table, dict[str, Any]]:
    """Read a Parquet file that `write_table` wrote: its rows and its metadata.

    Args:
        path: the file.
        name: under which the schema holds the metadata.
        what: what the file should be, for the sentence that refuses another one.
        version: the `format_version` that is understood.

    Raises:
        UnreadableRelease: if the file is missing, damaged, something else, or of another version.
    """
    place = Path(path)
    table = read_bounded_table(place)
    packed = (table.schema.metadata or {}).get(name.encode())
    if packed is None:
        raise UnreadableRelease(f"{place} is a Parquet file but not {what}.")
    with intact(place):
        facts = read_json(packed)
        found = facts["format_version"]
    check_version(place, found, version)
    return table, facts
