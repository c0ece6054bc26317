"""What all release files share: records come back as they were, and what is none is refused."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dptally.errors import InvalidParameter, UnreadableRelease
from dptally.privacy.guarantee import Guarantee, Record
from dptally.releases.release_metadata import (
    check_version,
    facts_of,
    intact,
    read_certificate,
    read_fraction,
    read_guarantee,
    read_table,
    write_table,
)
from dptally.verifiers.tables import Certificate

GUARANTEE = Guarantee(
    epsilon=Fraction(1, 3),
    delta=Fraction(1, 10**6),
    unit="user",
    max_keys_per_unit=3,
    mechanism="misra_gries",
    spent_on_size=Fraction(1, 60),
    spent_on_shortfall=Fraction(1, 61),
    sketch_capacity=9,
    sketches=2,
    elements_per_unit=4,
    most_distinct_keys=7,
    private=False,
    record=Record("0" * 32, "1" * 32, 5, "2" * 64),
)
CERTIFICATE = Certificate(
    epsilon=Fraction(1),
    delta=Fraction(1, 9),
    worst_delta=Fraction(1, 10),
    worst_pair=(3, 2),
    rows_checked=40,
    table_sha256="ab",
    copies=2,
    total_epsilon=Fraction(2),
    total_delta=Fraction(2, 9),
    judge="pure",
    worst_ratio=Fraction(5, 2),
)


def as_json(facts: Any) -> Any:
    """What a file would hold."""
    return json.loads(json.dumps(facts))


def test_every_field_comes_back() -> None:
    """Each field, whatever its type, is the same after writing and reading."""
    assert read_guarantee(as_json(facts_of(GUARANTEE))) == GUARANTEE
    assert read_certificate(as_json(facts_of(CERTIFICATE))) == CERTIFICATE


def test_fields_of_later_versions_may_be_missing() -> None:
    """A file without a record or a capacity is of an earlier version; one that does not say it is private is none."""
    facts = as_json(facts_of(GUARANTEE))
    for name in ("record", "sketch_capacity", "spent_on_shortfall"):
        del facts[name]
    found = read_guarantee(facts)
    assert (found.record, found.sketch_capacity, found.spent_on_shortfall) == (None, None, 0)
    for name in ("private", "neighbours", "epsilon", "unit"):
        with pytest.raises(KeyError):
            read_guarantee({other: part for other, part in facts.items() if other != name})


@pytest.mark.parametrize(
    ("name", "part"),
    [
        ("epsilon", "1e999999999"),
        ("epsilon", 0.5),
        ("epsilon", "1/0"),
        ("private", 1),
        ("private", "yes"),
        ("max_keys_per_unit", True),
        ("max_keys_per_unit", "3"),
        ("unit", 3),
        ("record", {"entry": 1}),
    ],
)
def test_fields_of_another_type_are_refused(name: str, part: object, tmp_path: Path) -> None:
    """Numbers must be exact and short to write, and every field of its type."""
    with pytest.raises(UnreadableRelease, match="has damaged metadata"), intact(tmp_path / "r.parquet"):
        read_guarantee({**as_json(facts_of(GUARANTEE)), name: part})


def test_fractions_have_no_exponent() -> None:
    """A fraction is read as written by Python, and nothing else is."""
    assert read_fraction(str(Fraction(-7, 3))) == Fraction(-7, 3)
    assert read_fraction("12") == 12
    for text in ("1e3", "0.5", "", "1/2/3"):
        with pytest.raises(ValueError, match="invalid literal"):
            read_fraction(text)


@pytest.mark.parametrize("version", [0, 2, "1", None, True, 1.5])
def test_other_versions_are_refused(version: object, tmp_path: Path) -> None:
    """Only the version that is known is read."""
    with pytest.raises(UnreadableRelease, match="a newer dptally may read it"):
        check_version(tmp_path, version, 1)
    check_version(tmp_path, 1, 1)


def test_tables_come_back_with_their_metadata(tmp_path: Path) -> None:
    """Rows and metadata are the same; existing files stay; other files are refused, each with its sentence."""
    place, rows = tmp_path / "r.parquet", pa.table({"a": [1, 2]})
    facts = {"format_version": 1, "x": "y"}
    write_table(rows, facts, place, name="kind", overwrite=False)
    table, found = read_table(place, name="kind", what="of this kind", version=1)
    assert table.column("a").to_pylist() == [1, 2] and found == facts
    with pytest.raises(InvalidParameter, match="exists; use overwrite"):
        write_table(rows, facts, place, name="kind", overwrite=False)
    with pytest.raises(UnreadableRelease, match="is a Parquet file but not of that kind"):
        read_table(place, name="other", what="of that kind", version=1)
    with pytest.raises(UnreadableRelease, match="is not a file"):
        read_table(tmp_path / "none", name="kind", what="of this kind", version=1)
    (tmp_path / "text").write_text("text")
    with pytest.raises(UnreadableRelease, match="is not a readable Parquet file"):
        read_table(tmp_path / "text", name="kind", what="of this kind", version=1)
    for packed in (b"{", b"[1]", b"{}", b"[" * 100_000):
        pq.write_table(rows.replace_schema_metadata({b"kind": packed}), place)
        with pytest.raises(UnreadableRelease, match="has damaged metadata"):
            read_table(place, name="kind", what="of this kind", version=1)
