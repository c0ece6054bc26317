"""Data without rows. Whether there are any is private, so a release must come out as of any other data."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import dptally
from dptally.errors import InvalidParameter, InvalidSource
from dptally.heavy_hitters import publish_heavy_hitters
from dptally.ledger import Ledger
from dptally.randomness import SeededBits
from dptally.releases.compact_release import CompactRelease
from dptally.releases.table_release import TableRelease

APPROXIMATE: dict[str, dict[str, Any]] = {
    "weighted_sample": {"mechanism": "weighted_sample"},
    "keys only": {"mechanism": "weighted_sample", "values": False},
    "stability": {"mechanism": "stability"},
    "gaussian": {"mechanism": "gaussian"},
    "sample_and_threshold": {"mechanism": "sample_and_threshold"},
    "sampled by rows": {"sampling": dptally.Ppswor("0.001")},
    "sampled by keys": {"sampling": dptally.Ppswor("0.5")},
    "priority": {"sampling": dptally.Priority("0.5")},
    "sketch": {"mechanism": "misra_gries", "capacity": 8},
}
PURE: dict[str, dict[str, Any]] = {
    "dense": {"mechanism": "dense", "universe": ["a", "b"]},
    "sparse": {"mechanism": "sparse", "universe": "words:12", "capacity": 8},
    "strict": {"mechanism": "sparse", "universe": "words:12", "capacity": 8, "strict_time": True},
    "compact": {"mechanism": "compact", "universe": "words:12", "capacity": 8},
}
OPTIONS = {name: {**options, "delta": "1e-6"} for name, options in APPROXIMATE.items()} | PURE
COLUMNS = {"k": pl.String, "u": pl.String, "n": pl.Int64}


def nothing(form: str, directory: Path) -> tuple[Any, dict[str, Any]]:
    """A source without rows, and how it is read."""
    frame = pl.DataFrame({name: [] for name in COLUMNS}, schema=COLUMNS)
    path = directory / f"nothing.{form}"
    if form == "csv":
        frame.write_csv(path)
    elif form == "parquet":
        frame.write_parquet(path)
    elif form == "jsonl":
        path.touch()
    elif form == "only nulls":
        return pl.DataFrame({"k": [None, None]}, schema={"k": pl.String}), {"key": "k"}
    elif form == "list":
        return [], {}
    elif form == "frame":
        return frame, {"key": "k"}
    return path, {"key": "k"}


@pytest.mark.parametrize("seed", [None, 1], ids=["secret", "seeded"])
@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_every_mechanism(options: dict[str, Any], seed: int | None, tmp_path: Path) -> None:
    """A header alone makes a release with the guarantee asked for, paid for, saved and loaded like any other."""
    source, how = nothing("csv", tmp_path)
    ledger = Ledger(tmp_path / "budget.db", epsilon=1, delta="1e-6")
    bits = None if seed is None else SeededBits(seed)
    release = dptally.publish(source, **how, epsilon=1, ledger=ledger, randomness=bits, **options)
    assert (release.guarantee.epsilon, release.guarantee.delta) == (1, Fraction(options.get("delta", 0)))
    assert release.guarantee.private == (seed is None)
    assert ledger.find(release.guarantee).state == "published" and ledger.remaining()[0] == 0
    release.save(tmp_path / "release.parquet")
    found = dptally.load(tmp_path / "release.parquet")
    assert found.guarantee == release.guarantee
    if "delta" in options:
        assert isinstance(found, TableRelease) and len(found) == 0 and found.key == ("k",)
        assert found.table().columns[0] == "k" and found.table().height == 0
    elif options["mechanism"] == "dense":
        assert isinstance(found, TableRelease) and len(found) == 2
    else:
        assert isinstance(found, TableRelease | CompactRelease)


@pytest.mark.parametrize("form", ["csv", "parquet", "jsonl", "only nulls", "list", "frame"])
@pytest.mark.parametrize("name", ["weighted_sample", "sampled by rows", "sample_and_threshold", "sketch", "sparse"])
def test_every_source(form: str, name: str, tmp_path: Path) -> None:
    """Files, tables and lists without rows are read as such, whichever way rows are counted or sampled."""
    source, how = nothing(form, tmp_path)
    release = dptally.publish(source, **how, epsilon=1, **OPTIONS[name])
    assert isinstance(release, TableRelease) and release.guarantee.private
    assert name == "sparse" or len(release) == 0


@pytest.mark.parametrize("how", [{"unit": "u", "max_keys_per_unit": 3}, {"count": "n"}, {"nulls": "keep"}])
@pytest.mark.parametrize("form", ["csv", "parquet", "jsonl"])
def test_units_counts_and_nulls(form: str, how: dict[str, Any], tmp_path: Path) -> None:
    """So it is with units, with counts, and where null is a key."""
    source, key = nothing(form, tmp_path)
    release = dptally.publish(source, **key, **how, epsilon=1, delta="1e-6")
    assert isinstance(release, TableRelease) and len(release) == 0 and release.guarantee.unit == how.get("unit")


def test_several_key_columns(tmp_path: Path) -> None:
    """A release of nothing has all its key columns."""
    source, _ = nothing("parquet", tmp_path)
    release = dptally.publish(source, key=["k", "n"], epsilon=1, delta="1e-6")
    assert isinstance(release, TableRelease) and release.key == ("k", "n") and len(release) == 0


def test_a_mapping_of_nothing() -> None:
    """An empty mapping is data without keys."""
    release = dptally.publish({}, epsilon=1, delta="1e-6")
    assert isinstance(release, TableRelease) and len(release) == 0


def test_a_sample_of_nothing() -> None:
    """A sample that happened to take no key is made private like any other."""
    release = dptally.sanitize({}, "ppswor:0.01", epsilon=1, delta="1e-6")
    assert len(release) == 0 and release.guarantee.mechanism == "sanitized_sample"


def test_a_size_is_decided_by_the_private_total_alone() -> None:
    """With a sample size the estimate of the total decides whether there is a release: public, whatever it says."""
    outcomes: set[int | str] = set()
    for seed in range(20):
        try:
            outcomes.add(
                len(
                    dptally.publish(
                        {}, epsilon=1, delta="1e-6", sampling=dptally.Ppswor(size=10), randomness=SeededBits(seed)
                    )
                )
            )
        except InvalidParameter as error:
            outcomes.add(str(error))
    assert outcomes == {0, next(text for text in outcomes if isinstance(text, str))}


def test_a_sketch_of_nothing(tmp_path: Path) -> None:
    """A sketch that was never given an element is published, with and without units."""
    sketches = (dptally.MisraGriesSketch(4), dptally.UserMisraGriesSketch(4, 2))
    for sketch in sketches:
        release = sketch.publish(1, "1e-6")
        assert len(release) == 0 and release.guarantee.epsilon == 1


def test_a_tree_of_nothing(tmp_path: Path) -> None:
    """Heavy hitters of no rows come out with their guarantee."""
    source, how = nothing("parquet", tmp_path)
    tree = publish_heavy_hitters(source, **how, epsilon=1, delta="1e-6", levels=3)
    assert tree.guarantee.epsilon == 1 and tree.guarantee.private


@pytest.mark.parametrize("options", [{"delta": "1e-6"}, {"mechanism": "dense"}], ids=["sampled", "noise"])
def test_quantiles_of_nothing(options: dict[str, Any], tmp_path: Path) -> None:
    """Ranges and single quantiles of no rows come out with their guarantees."""
    how: dict[str, Any] = {"value": "n", "low": 0, "high": 1000, "epsilon": 1, **options}
    for form in ("parquet", "csv", "jsonl"):
        source, _ = nothing(form, tmp_path)
        assert dptally.publish_quantiles(source, **how).guarantee.epsilon == 1
    assert dptally.find_quantile(source, "1/2", **how).guarantee.epsilon == 1


@pytest.mark.parametrize("form", ["csv", "tsv", "parquet"])
def test_files_without_even_columns(form: str, tmp_path: Path) -> None:
    """A file of no bytes where there must be a header or a footer is not data without rows, and is refused."""
    (tmp_path / f"nothing.{form}").touch()
    with pytest.raises(InvalidSource, match="it has neither columns nor rows"):
        dptally.publish(tmp_path / f"nothing.{form}", key="k", epsilon=1, delta="1e-6")
