"""Files that hold what no mechanism gives, the same release twice, and what `load` says to files of every kind."""

from __future__ import annotations

import json
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dptally
from dptally.errors import InvalidParameter, PrivacyViolation, UnreadableRelease
from dptally.releases.prefix_tree import PrefixTree
from dptally.releases.table_release import TableRelease
from tests.abuse.forgeries import COUNTS, KINDS, RECORD, genuine
from tests.abuse.specimens import files
from tests.cli.conftest import Run, run
from tests.releases.version_1 import save_1

__all__ = ["run"]  # the fixture


def rewritten(path: Path, change: Callable[[pa.Table, dict[str, Any]], pa.Table]) -> Path:
    """A release file with other rows or metadata."""
    table = pq.read_table(path)
    facts = json.loads(table.schema.metadata[b"dptally"])
    table = change(table, facts)
    pq.write_table(table.replace_schema_metadata({b"dptally": json.dumps(facts).encode()}), path)
    return path


def with_values(value: int) -> Callable[[pa.Table, dict[str, Any]], pa.Table]:
    """All rows with this value."""

    def change(table: pa.Table, facts: dict[str, Any]) -> pa.Table:
        return table.set_column(table.column_names.index("value"), "value", pa.array([value] * len(table), pa.int64()))

    return change


def with_fact(part: str, **changed: Any) -> Callable[[pa.Table, dict[str, Any]], pa.Table]:
    """Other metadata."""

    def change(table: pa.Table, facts: dict[str, Any]) -> pa.Table:
        facts[part].update(changed)
        return table

    return change


def keys_named_twice(table: pa.Table, facts: dict[str, Any]) -> pa.Table:
    """One key column, named as two."""
    facts["key"] = [*facts["key"], *facts["key"]]
    return table


def hidden_column(table: pa.Table, facts: dict[str, Any]) -> pa.Table:
    """A column that is no key and nothing else."""
    return table.append_column("secret", pa.array(["x"] * len(table)))


TABLES = [kind for kind in KINDS if not kind.startswith(("compact", "ranges", "tree"))]


@pytest.mark.parametrize("kind", TABLES)
def test_rows_that_no_mechanism_gives(kind: str, tmp_path: Path, run: Run) -> None:
    """Values beyond all counts, keys that are there twice or named twice: nothing of it is read or verified."""
    doubled = lambda table, facts: table.take([0, *range(len(table))])  # noqa: E731
    changes = [with_values(2**63 - 1), with_values(-1), doubled, keys_named_twice, hidden_column]
    for change in changes:
        path = tmp_path / "r.parquet"
        genuine(kind).save(path, overwrite=True)
        rewritten(path, change)
        with pytest.raises(UnreadableRelease, match=r"has damaged metadata or rows\.$"):
            dptally.load(path)
        for command in (("verify", path), ("top", path), ("show", path)):
            done = run(*command)
            assert done.status == 1 and "unexpected" not in done.err


@pytest.mark.parametrize("changed", [{"reported": 2**63 - 1}, {"reported": 10**30}, {"scale": 2**60}, {"parts": 0}])
def test_a_shortfall_beyond_all_counts(changed: dict[str, int], tmp_path: Path) -> None:
    """A shortfall that no number of 64 bits holds is refused, not met in the middle of an answer."""
    path = tmp_path / "r.parquet"
    genuine("sketch").save(path)
    rewritten(path, with_fact("shortfall", **changed))
    with pytest.raises(UnreadableRelease, match="damaged metadata"):
        dptally.load(path)


@pytest.mark.parametrize("kind", ["weighted_sample", "stability", "gaussian", "sample_and_threshold", "sketch"])
def test_large_values_are_answered_or_not_verified(kind: str, tmp_path: Path) -> None:
    """Of the largest values that are read, those that verify have an estimate, and bounds around it."""
    release = genuine(kind)
    for value in (1 << 40, 1 << 59, 1 << 61, (1 << 62) - 1000, 1 << 62, (1 << 62) + (1 << 32)):
        path = tmp_path / "r.parquet"
        rows = pa.table({"key": ["a"], "value": pa.array([value], pa.int64())})
        try:
            made = TableRelease(rows, release.guarantee, release.certificate, release.law, release.shortfall)
            made.verify()
        except PrivacyViolation as refusal:
            assert "values" in str(refusal) or "value" in str(refusal)
            continue
        (_, _, estimate, lower, upper), *_ = made.table().rows()
        assert 0 < lower <= estimate <= upper
        made.save(path, overwrite=True)
        assert dptally.load(path).verify() == release.certificate


@pytest.mark.parametrize("kind", ["stability", "gaussian", "sample_and_threshold", "sketch"])
def test_values_below_the_threshold(kind: str, tmp_path: Path, run: Run) -> None:
    """A value that the law hides cannot have been released."""
    release = genuine(kind)
    rows = pa.table({"key": ["a"], "value": pa.array([release.law.threshold - 1], pa.int64())})
    with pytest.raises(PrivacyViolation, match="below the threshold"):
        TableRelease(rows, release.guarantee, release.certificate, release.law, release.shortfall).verify()
    release.save(tmp_path / "r.parquet")
    rewritten(tmp_path / "r.parquet", with_values(release.law.threshold - 1))
    for command in ("verify", "top"):
        done = run(command, tmp_path / "r.parquet")
        assert done.status in (1, 2) and "unexpected" not in done.err


def test_keys_outside_of_the_universe() -> None:
    """A release over a named universe holds keys of that universe."""
    release = genuine("strict_sparse")
    rows = pa.table({"key": pa.array([7, 1000]), "value": pa.array([5, 5], pa.int64())})
    with pytest.raises(PrivacyViolation, match="not of the universe"):
        TableRelease(rows, release.guarantee, release.certificate, release.law).verify()


# ---- load ----


@pytest.mark.parametrize("kind", KINDS)
def test_load_reads_every_kind(kind: str, tmp_path: Path) -> None:
    """One function for all release files: what was saved comes back, and verifies."""
    release = genuine(kind)
    release.save(tmp_path / "release")
    found = dptally.load(tmp_path / "release")
    assert type(found) is type(release) and found.describe() == release.describe()
    found.verify()


def test_trees_are_read_by_name() -> None:
    """The kinds above are really of all four types."""
    kinds = {type(genuine(kind)) for kind in KINDS}
    assert kinds == {TableRelease, dptally.CompactRelease, dptally.RangeRelease, PrefixTree}


@pytest.mark.parametrize("name", ["sketch_single", "sketch_users", "sketch_numbers", "sketch_summed"])
def test_load_reads_sketches(name: str, tmp_path: Path, run: Run) -> None:
    """A sketch is private and no release: `load` gives the sketch, not where a release is asked for."""
    path = tmp_path / "s.sketch"
    path.write_bytes(files()[name].packed)
    found = dptally.load(path)
    assert not isinstance(found, dptally.Release) and repr(found) == repr(dptally.load_sketch(path))
    assert repr(dptally.load(path, type(found))) == repr(found)
    with pytest.raises(UnreadableRelease, match="which is private, and not a Release"):
        dptally.load(path, dptally.Release)
    assert run("show", path).status == run("report", path, "-o", tmp_path / "p.html").status == 1


@pytest.mark.parametrize("kind", KINDS)
def test_version_1_of_every_kind_is_read(kind: str, tmp_path: Path) -> None:
    """A file as version 1 wrote it holds the same release, which verifies."""
    release = genuine(kind)
    save_1(release, tmp_path / "release")
    found = dptally.load(tmp_path / "release")
    assert type(found) is type(release) and found.describe() == release.describe()
    found.verify()


def test_load_of_a_kind(tmp_path: Path) -> None:
    """A file of another kind than the one asked for is named as what it is."""
    genuine("ranges_dense").save(tmp_path / "r.parquet")
    assert dptally.load(tmp_path / "r.parquet", dptally.RangeRelease).total().estimate > 0
    with pytest.raises(UnreadableRelease, match=r"is a tree of counts.* and not a table of keys"):
        dptally.load(tmp_path / "r.parquet", dptally.TableRelease)


@pytest.mark.parametrize("kind", ["weighted_sample", "compact", "ranges_dense", "tree"])
def test_a_release_does_not_change(kind: str) -> None:
    """What was published stays what it is; another guarantee makes another release."""
    release = genuine(kind)
    for name in ("guarantee", "law"):
        with pytest.raises(AttributeError, match="a release does not change"):
            setattr(release, name, None)
    signed = release.signed(RECORD)
    assert (signed.guarantee.record, release.guarantee.record) == (RECORD, None) and signed.verify()
    assert release.signed(None) is release


@pytest.mark.parametrize(
    ("kind", "question"),
    [
        ("compact", lambda release: release.top(3)),
        ("compact", lambda release: release.to_pandas()),
        ("ranges_dense", lambda release: release.sum()),
        ("ranges_dense", lambda release: release.count("a")),
        ("tree", lambda release: release.quantile(0.5)),
        ("tree", lambda release: release.rank("a")),
    ],
)
def test_questions_of_another_kind_are_refused(kind: str, question: Callable[[Any], Any]) -> None:
    """One sentence says what the release is and what it answers."""
    with pytest.raises(InvalidParameter, match=r"^a (compact release|tree of).* has no answer to '\w+'; .*\.$"):
        question(genuine(kind))


def test_load_says_what_a_ledger_is(tmp_path: Path) -> None:
    """A ledger is named as what it may be."""
    dptally.Ledger(tmp_path / "l.db", epsilon=1, delta="1e-6")
    with pytest.raises(UnreadableRelease, match="is a SQLite database, such as a ledger, and not a release"):
        dptally.load(tmp_path / "l.db")


# ---- the same release twice ----


def other_layout(path: Path, target: Path) -> Path:
    """The same release in several row groups, in another compression."""
    pq.write_table(pq.read_table(path), target, row_group_size=2, compression="snappy")
    return target


def secret(**options: Any) -> Any:
    """A release by secret bits."""
    return dptally.publish(COUNTS, epsilon=1, delta="1e-6", **options)


@pytest.mark.parametrize("units", ["disjoint", "shared"])
def test_the_same_release_is_added_up_once(units: Any, tmp_path: Path) -> None:
    """By object, by file, by copy, and in another layout of its file."""
    release, other = secret(), secret(mechanism="stability")
    release.save(tmp_path / "a.parquet")
    (tmp_path / "b.parquet").write_bytes((tmp_path / "a.parquet").read_bytes())
    layout = other_layout(tmp_path / "a.parquet", tmp_path / "c.parquet")
    copies = [release, *(dptally.load(tmp_path / f"{name}.parquet") for name in "aab"), dptally.load(layout)]
    for copied in copies:
        with pytest.raises(InvalidParameter, match="releases 1 and 3 are the same"):
            dptally.combine([release, other, copied], units=units)
    assert len(dptally.combine([release, other], units=units).releases) == 2


def test_releases_of_a_ledger_are_told_apart_by_name(tmp_path: Path, run: Run) -> None:
    """One identity is one release, whatever its rows say; two are two, even if they are equal."""
    ledger = dptally.Ledger(tmp_path / "l.db", epsilon=3, delta="1e-5")
    first, second = secret(ledger=ledger), secret(ledger=ledger)
    shorter = TableRelease(first._rows.slice(1), first.guarantee, first.certificate, first.law)
    with pytest.raises(InvalidParameter, match="are the same"):
        dptally.combine([first, shorter], units="disjoint")
    equal = TableRelease(first._rows, second.guarantee, second.certificate, second.law)
    assert dptally.combine([first, equal], units="shared").epsilon == Fraction(2)
    first.save(tmp_path / "a.parquet")
    other_layout(tmp_path / "a.parquet", tmp_path / "b.parquet")
    done = run("combine", tmp_path / "a.parquet", tmp_path / "b.parquet", "--units", "disjoint")
    assert done.status == 2 and "releases 1 and 2 are the same" in done.err and done.out == ""


def test_releases_without_rows_may_be_equal() -> None:
    """Two streams of which nothing is released have equal tables, and add up to nothing."""
    empty = [dptally.publish({"a": 1}, epsilon=1, delta="1e-6") for _ in range(2)]
    assert len(dptally.combine(empty, units="disjoint").table()) == 0
    with pytest.raises(InvalidParameter, match="are the same"):
        dptally.combine([empty[0], empty[0]], units="disjoint")


def test_only_tables_are_added_up() -> None:
    """A tree of counts has no keys to add up."""
    with pytest.raises(InvalidParameter, match="only tables of keys can be added up"):
        dptally.combine([genuine("ranges_dense")], units="disjoint")
