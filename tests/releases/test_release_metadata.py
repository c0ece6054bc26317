"""What all release files share: records come back as they were, and what is none is refused."""

from __future__ import annotations

import importlib
import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dptally
from dptally.errors import InvalidParameter, UnreadableRelease
from dptally.privacy.guarantee import Guarantee, Record
from dptally.privacy.stored_facts import facts_of, read_certificate, read_fraction, read_guarantee
from dptally.releases.release_file import KINDS, intact, read_release
from dptally.verifiers.tables import Certificate

GUARANTEE = Guarantee(
    epsilon=Fraction(1, 3),
    delta=Fraction(1, 10**6),
    unit="user",
    max_keys_per_unit=3,
    mechanism="misra_gries",
    private=False,
    record=Record("0" * 32, "1" * 32, 5, "2" * 64),
).under(
    spent_on_size=Fraction(1, 60),
    spent_on_shortfall=Fraction(1, 61),
    sketch_capacity=9,
    sketches=2,
    elements_per_unit=4,
    most_distinct_keys=7,
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
    assert read_certificate(as_json(facts_of(CERTIFICATE)), Certificate) == CERTIFICATE


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
        ("sketches", None),
        ("sketches", True),
        ("sketch_capacity", "9"),
        ("spent_on_size", 0.5),
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


@pytest.mark.parametrize("version", [0, 3, "2", None, True, 1.5])
def test_other_versions_are_refused(version: object, tmp_path: Path) -> None:
    """Only versions that are known are read."""
    packed = json.dumps({"format_version": version, "kind": "table"}).encode()
    pq.write_table(pa.table({"a": [1]}).replace_schema_metadata({b"dptally": packed}), tmp_path / "r.parquet")
    with pytest.raises(UnreadableRelease, match="a newer dptally may read it"):
        read_release(tmp_path / "r.parquet")


def test_files_are_complete_or_refused(tmp_path: Path) -> None:
    """Rows and metadata come back; existing files stay; other files are refused, each with its sentence."""
    place = tmp_path / "r.parquet"
    release = dptally.publish({"a": 500, "b": 400}, epsilon=1, delta="1e-6")
    release.save(place)
    table, found = read_release(place)
    assert table.column("key").to_pylist() == ["a", "b"] and (found["format_version"], found["kind"]) == (2, "table")
    with pytest.raises(InvalidParameter, match="exists"):
        release.save(place)
    with pytest.raises(UnreadableRelease, match="is not a file"):
        read_release(tmp_path / "none")
    (tmp_path / "text").write_text("text")
    with pytest.raises(UnreadableRelease, match="is not a readable Parquet file"):
        read_release(tmp_path / "text")
    pq.write_table(table.replace_schema_metadata({b"other": b"{}"}), place)
    with pytest.raises(UnreadableRelease, match="is a Parquet file but not a dptally release"):
        read_release(place)
    known = b'{"format_version": 2}', b'{"format_version": 2, "kind": "x"}'
    for packed in (b"{", b"[1]", b"{}", b"[" * 100_000, *known):
        pq.write_table(table.replace_schema_metadata({b"dptally": packed}), place)
        with pytest.raises(UnreadableRelease, match="has damaged metadata"):
            dptally.load(place)


def test_every_kind_is_known() -> None:
    """The table of kinds names classes that say the same of themselves."""
    for kind, home in KINDS.items():
        module, name = home.split(":")
        assert getattr(importlib.import_module(module), name).kind == kind
