"""Compact releases: questions, files, and what is refused."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from numpy.typing import NDArray

from dptally.errors import InvalidParameter, InvalidSource, PrivacyViolation, UnreadableRelease
from dptally.randomness import SeededBits, SystemBits
from dptally.releases.compact_release import CompactRelease
from tests.mechanisms import CompactHistogram, MadeCompact
from tests.releases.version_1 import metadata_1, save_1
from tests.universes.integer_range import IntegerRange

UNIVERSE = IntegerRange(2**64)
COUNTS = {7: 1000, 2**63: 50, 12345: 3}


def mechanism(**options: Any) -> MadeCompact:
    """A mechanism for three keys and a few more."""
    asked: dict[str, Any] = {"universe": UNIVERSE, "capacity": 5, "beyond_capacity": "refuse", **options}
    return CompactHistogram(asked.pop("epsilon", 1), **asked)


@pytest.fixture(scope="module")
def release() -> CompactRelease:
    """A release of three keys."""
    return mechanism().build(COUNTS, SeededBits(3), unit="user")


@pytest.fixture(params=[1, 2])
def saved(release: CompactRelease, tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """Its file, in both versions of the format."""
    path = tmp_path / "release.compact"
    if request.param == 1:
        save_1(release, path)
    else:
        release.save(path)
    return path


load = CompactRelease.load


@dataclass
class Frequencies:
    """Counted keys, as the summaries hand them over."""

    counts: dict[object, int]
    key: tuple[str, ...] = ("key",)
    unit: str | None = None
    max_keys_per_unit: int = 1
    scheme: None = None
    type: pa.DataType = field(default_factory=pa.uint64)

    def batches(self) -> Iterator[tuple[pa.RecordBatch, NDArray[np.int64]]]:
        """One batch for each key."""
        for key, count in self.counts.items():
            yield pa.RecordBatch.from_pydict({"key": pa.array([key], self.type)}), np.array([count])


# ---- questions ----


def test_any_key_has_a_count_with_bounds(release: CompactRelease) -> None:
    """Keys in the data and keys that are not are answered alike, within the error for this seed."""
    reach = release.error("0.01")
    for key, true in [*COUNTS.items(), (0, 0), (2**64 - 1, 0), (99, 0)]:
        value, lower, upper = release.count(key, confidence="0.99")
        assert abs(value - true) <= reach
        assert (lower, upper) == (max(0, value - reach), value + reach)


def test_many_counts_are_the_single_ones(release: CompactRelease) -> None:
    """A table of many keys has each key's own answer, in the order asked."""
    keys = [*COUNTS, *range(1000, 1200)]
    table = release.counts(keys, confidence="0.9")
    assert table.columns == ["key", "value", "lower", "upper"]
    assert table.rows() == [(key, *release.count(key, "0.9")) for key in keys]
    assert release.counts([]).rows() == []


def test_upper_bounds_stop_at_the_largest_count() -> None:
    """Counts beyond the largest are cut to it, and so are bounds."""
    release = mechanism(largest_count=20).build({1: 10**30}, SeededBits(1))
    value, lower, upper = release.count(1)
    assert lower <= 20 and value <= 20 and upper == 20
    assert release.counts([1, 2])["upper"].max() == 20


def test_the_error_is_the_law_s(release: CompactRelease) -> None:
    """E(beta) at epsilon 1: 2 r^(E+1) / (1 + r) <= beta with r = 1/e."""
    assert [release.error(beta) for beta in ("0.5", "0.05", "1e-6")] == [1, 3, 14]


def test_nothing_private_is_shown(release: CompactRelease) -> None:
    """The description has parameters only."""
    assert repr(release) == (
        "<CompactRelease of 'range:18446744073709551616', capacity 5, field 2^89-1: NOT PRIVATE (seeded)>"
    )
    assert "reach" not in repr(release.law) and repr(release.law).startswith("FieldGeometric(exponent=89")


def test_the_condition_is_said(release: CompactRelease) -> None:
    """A declared capacity is part of what the guarantee rests on; a subsample needs nothing."""
    assert release.guarantee.most_distinct_keys == 5
    private = mechanism().build({}, SystemBits()).guarantee
    assert "at most 5 distinct keys" in str(private) and "public knowledge" in str(private)
    assert mechanism(beyond_capacity="subsample").build({}, SeededBits(1)).guarantee.most_distinct_keys is None


def test_the_certificate_reads_as_a_sentence(release: CompactRelease) -> None:
    """It names the ratio, what is allowed and the loss."""
    text = str(release.certificate)
    assert "compared in exact fractions" in text and "pure loss 1 of epsilon 1." in text


def test_questions_that_cannot_be_answered(release: CompactRelease) -> None:
    """Keys outside the universe and impossible chances are refused in a sentence without the key."""
    with pytest.raises(InvalidParameter, match=r"^key 1 of 1 is not in the universe 'range:18446744073709551616'\.$"):
        release.count(-1)
    with pytest.raises(InvalidParameter, match=r"^key 2 of 3 is not in the universe"):
        release.counts([1, "secret", 2])
    with pytest.raises(InvalidParameter, match="key numbers must be from 0"):
        release.values([2**64])
    for beta in (0, 1, -1):
        with pytest.raises(InvalidParameter, match="beta must be between 0 and 1"):
            release.error(beta)
    with pytest.raises(InvalidParameter, match="confidence must be between 0 and 1, got 1"):
        release.count(1, confidence=1)


# ---- drawing ----


def test_counted_keys_are_drawn_for() -> None:
    """Batches are numbered by the universe; keys outside it are left out, whatever they are."""
    found = mechanism().draw(Frequencies({7: 1000, 2**63: 50, 12345: 3}, unit="user"), SeededBits(3))
    expected = mechanism().build(COUNTS, SeededBits(3), unit="user")
    assert found.coefficients == expected.coefficients
    assert found.guarantee == expected.guarantee
    assert (found.guarantee.epsilon, found.guarantee.delta, found.guarantee.private) == (1, 0, False)
    strings = mechanism().draw(Frequencies({"7": 1000}, type=pa.string()), SeededBits(3))
    assert strings.coefficients == mechanism().build({}, SeededBits(3)).coefficients


def test_writings_of_one_key_add_up() -> None:
    """Different keys with the same number are one key."""

    class Parities(IntegerRange):
        def indices(self, keys: Any) -> tuple[NDArray[Any], NDArray[np.bool_]]:
            return np.array([key % 2 for key in keys.to_pylist()]), np.ones(len(keys), dtype=bool)

    parities = mechanism(universe=Parities(2**64))
    found = parities.draw(Frequencies({1: 4, 2: 5, 3: 6}), SeededBits(1))
    assert found.coefficients == mechanism().build({0: 5, 1: 10}, SeededBits(1)).coefficients


def test_a_subsample_keeps_the_capacity() -> None:
    """Beyond the capacity, so many occurrences are kept: values at a tiny noise add up to it."""
    made = mechanism(epsilon=32, beyond_capacity="subsample", capacity=50)
    release = made.build({1: 40, 2: 40, 3: 0, 4: 20}, SeededBits(5))
    values = release.values([1, 2, 3, 4])
    assert sum(values) == 50 and values[2] == 0
    fewer = made.build({1: 20, 2: 29}, SeededBits(5))
    assert fewer.values([1, 2, 3]) == [20, 29, 0]


def test_secret_bits_make_a_private_release() -> None:
    """With the system's bits two releases differ, and both say that they are private."""
    first, second = (mechanism().build(COUNTS, SystemBits()) for _ in range(2))
    assert first.coefficients != second.coefficients
    assert first.guarantee.private and "differential privacy" in str(first.guarantee)


def test_requests_that_cannot_be_met() -> None:
    """One sentence for each parameter."""
    with pytest.raises(InvalidParameter, match="beyond_capacity must be 'subsample' or 'refuse', got 'drop'"):
        mechanism(beyond_capacity="drop")
    with pytest.raises(InvalidParameter, match="capacity must be at least 1, got 0"):
        mechanism(capacity=0)
    with pytest.raises(InvalidParameter, match="bound must be at most 4611686018427387903"):
        mechanism(largest_count=2**62)
    with pytest.raises(InvalidParameter, match="max_keys_per_unit must be at least 1"):
        mechanism(max_keys_per_unit=0)
    with pytest.raises(InvalidParameter, match="epsilon must be a positive number, got 0"):
        mechanism(epsilon=0)
    with pytest.raises(InvalidParameter, match="epsilon is too small"):
        mechanism(epsilon="1e-9")


def test_data_that_cannot_be_drawn_for() -> None:
    """Too many distinct keys, unbounded contributions, samples and several columns are refused before any draw."""

    class NoBits:
        private = True

        def words(self, count: int) -> NDArray[np.uint64]:
            raise NotImplementedError

    made = mechanism()
    with pytest.raises(InvalidSource, match=r"^the data has more distinct keys than the capacity of 5 declared for it"):
        made.build(dict.fromkeys(range(6), 1), NoBits())
    with pytest.raises(InvalidParameter, match="key numbers must be from 0 to below"):
        made.build({-1: 1}, NoBits())
    with pytest.raises(InvalidParameter, match="at most 1 keys, but contributions were bounded at 2"):
        made.draw(Frequencies({}, max_keys_per_unit=2), NoBits())
    with pytest.raises(InvalidParameter, match="there are 2 key columns"):
        made.draw(Frequencies({}, key=("a", "b")), NoBits())
    with pytest.raises(InvalidParameter, match="these are a sample"):
        made.draw(Frequencies({}, scheme="any"), NoBits())  # type: ignore[arg-type]


# ---- files ----


def test_a_file_holds_everything(release: CompactRelease, saved: Path) -> None:
    """What is read is what was written: answers, guarantee, law and condition."""
    found = CompactRelease.load(saved, UNIVERSE)
    assert found.coefficients == release.coefficients
    assert found.guarantee == release.guarantee
    assert (found.law.ratio, found.law.tails) == (release.law.ratio, release.law.tails)
    assert (found.capacity, found.beyond_capacity) == (release.capacity, release.beyond_capacity)
    assert found.verify() == release.certificate
    assert found.count(7) == release.count(7)
    assert saved.stat().st_size < 4096


def test_an_existing_file_stays(release: CompactRelease, saved: Path) -> None:
    """Nothing is overwritten without being asked to."""
    before = saved.read_bytes()
    with pytest.raises(InvalidParameter, match="exists"):
        release.save(saved)
    assert saved.read_bytes() == before
    release.save(saved, overwrite=True)
    assert load(saved, UNIVERSE).coefficients == release.coefficients


def test_every_truncation_is_refused(saved: Path) -> None:
    """Whatever is missing at the end, the file is not read."""
    content = saved.read_bytes()
    for length in [*range(60), *range(60, len(content), 7), len(content) - 1]:
        saved.write_bytes(content[:length])
        with pytest.raises(UnreadableRelease, match=r"damaged|not a readable Parquet file"):
            load(saved, UNIVERSE)


def test_every_changed_byte_is_refused(release: CompactRelease, saved: Path) -> None:
    """One bit anywhere in what answers questions is found; in version 1, anywhere."""
    content = saved.read_bytes()
    old = content.startswith(b"DPTALLYC")
    for place in range(0, len(content), 5):
        saved.write_bytes(content[:place] + bytes([content[place] ^ 4]) + content[place + 1 :])
        try:
            found = load(saved, UNIVERSE)
        except (UnreadableRelease, InvalidParameter) as refusal:
            assert str(refusal).count("\n") == 0
            continue
        assert not old and found.coefficients == release.coefficients


def rewrite(release: CompactRelease, path: Path, *, version: int | None = None, **changes: Any) -> None:
    """Change facts in the metadata, with a checksum that matches where there is one."""
    old = path.read_bytes().startswith(b"DPTALLYC")
    table = None if old else pq.read_table(path)
    facts = metadata_1(release) if table is None else json.loads(table.schema.metadata[b"dptally"])
    for name, value in changes.items():
        place = facts
        *parts, last = name.split("__")
        for part in parts:
            place = place[part]
        place[last] = value
    if table is None:
        save_1(release, path, facts, version=version or 1)
        return
    facts["format_version"] = version or 2
    pq.write_table(table.replace_schema_metadata({b"dptally": json.dumps(facts).encode()}), path)


@pytest.mark.parametrize(
    "change",
    [
        {"capacity": 6},
        {"capacity": "x"},
        {"capacity": -1},
        {"law": None},
        {"law__name": "Other"},
        {"law__exponent": 90},
        {"law__exponent": 61},
        {"law__ratio": "1/0"},
        {"law__ratio": "1e999999999"},
        {"law__ratio": "1/2"},
        {"law__ratio": f"{10**9 + 1}/{10**9}"},
        {"law__floor": 0},
        {"law__element_bits": 10**12},
        {"law__largest_count": 2**62},
        {"beyond_capacity": "drop"},
        {"guarantee__epsilon": "-1"},
        {"guarantee__delta": "1/2"},
        {"guarantee__max_keys_per_unit": 0},
        {"universe_size": 2**90},
    ],
    ids=str,
)
def test_facts_that_cannot_be_are_refused(release: CompactRelease, saved: Path, change: dict[str, Any]) -> None:
    """A well-formed file with impossible facts is not read."""
    rewrite(release, saved, **change)
    with pytest.raises(UnreadableRelease, match="damaged"):
        load(saved, UNIVERSE)


def test_a_number_outside_the_field_is_refused(release: CompactRelease, tmp_path: Path) -> None:
    """Coefficients are below the field's size, also where the checksum fits."""
    wrong = release.stating(release.guarantee)
    vars(wrong)["coefficients"] = (*release.coefficients[:-1], (1 << 96) - 1)
    wrong.save(tmp_path / "2")
    save_1(wrong, tmp_path / "1")
    for version in "12":
        with pytest.raises(UnreadableRelease, match="a number is not in its field"):
            load(tmp_path / version, UNIVERSE)


def test_a_newer_version_is_refused(release: CompactRelease, saved: Path) -> None:
    """The sentence says which versions are which."""
    rewrite(release, saved, version=3)
    with pytest.raises(UnreadableRelease, match="version 3, and this dptally reads versions 1 and 2"):
        load(saved, UNIVERSE)


def test_what_is_no_release_is_refused(tmp_path: Path) -> None:
    """Missing files, directories and other files."""
    with pytest.raises(UnreadableRelease, match="is not a file"):
        load(tmp_path / "nothing", UNIVERSE)
    with pytest.raises(UnreadableRelease, match="is not a file"):
        load(tmp_path, UNIVERSE)
    (tmp_path / "text").write_text("hello")
    with pytest.raises(UnreadableRelease, match="is not a readable Parquet file"):
        load(tmp_path / "text", UNIVERSE)


def test_a_smaller_epsilon_than_was_kept_is_found(release: CompactRelease, saved: Path) -> None:
    """A file that promises more than its law keeps is read, and `verify` refuses it."""
    rewrite(release, saved, guarantee__epsilon="1/2")
    found = load(saved, UNIVERSE)
    assert found.guarantee.epsilon == Fraction(1, 2)
    with pytest.raises(PrivacyViolation, match="the table exceeds its epsilon"):
        found.verify()


def test_the_universe_must_be_the_one_in_the_file(saved: Path) -> None:
    """Another universe would give answers to other questions; an unnamed one has to be given."""
    with pytest.raises(InvalidParameter, match="is about the universe 'range:18446744073709551616' of"):
        load(saved, IntegerRange(10))
    with pytest.raises(UnreadableRelease, match="which has to be given"):
        load(saved)
