"""The command ``combine``."""

from __future__ import annotations

import csv
import io
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import dptally
from dptally.randomness import SeededBits
from tests.cli.conftest import Run, on_terminal

Publish = Callable[..., Path]


@pytest.fixture
def publish(tmp_path: Path) -> Publish:
    """Publish counts into a file."""

    def call(name: str, counts: dict[object, int], **options: Any) -> Path:
        place = tmp_path / name
        request = {"epsilon": 1, "delta": "1e-6", "key": "fruit", **options}
        dptally.publish(counts, **request).save(place)
        return place

    return call


@pytest.fixture
def shops(publish: Publish) -> tuple[Path, Path]:
    """Two releases: "apple" is in both, "pear" and "plum" in one each."""
    first = publish("a.parquet", {"apple": 5000, "pear": 300, "rare": 1})
    return first, publish("b.parquet", {"apple": 2000, "plum": 100}, epsilon=2)


def rows(text: str) -> list[dict[str, str]]:
    """A printed table."""
    return list(csv.DictReader(io.StringIO(text)))


def test_sums_are_printed(shops: tuple[Path, Path], run: Run) -> None:
    """Largest sums first as CSV into a pipe; promise and bound go to standard error, or nowhere."""
    done = run("combine", *shops, "--units", "disjoint")
    assert done.status == 0
    found = rows(done.out)
    assert [row["fruit"] for row in found] == ["apple", "pear", "plum"]
    assert [row["reported_by"] for row in found] == ["2", "1", "1"]
    assert list(found[0]) == ["fruit", "value", "estimate", "lower", "upper", "reported_by"]
    assert abs(int(found[0]["estimate"]) - 7000) < 60
    combined = dptally.combine([dptally.load(path) for path in shops], units="disjoint")  # type: ignore[misc]
    assert combined.in_words() in done.err.replace("\n", " ") and "(epsilon = 2, delta = 1e-06)" in done.err
    assert f"a frequency of at most {combined.hidden()} in all streams together (95 % sure)." in done.err
    quiet = run("combine", *shops, "--units", "disjoint", "--quiet", "-n", 1)
    assert (quiet.out.count("\n"), quiet.err) == (2, "")


def test_units_decide_what_is_promised(shops: tuple[Path, Path], run: Run) -> None:
    """Shared units add up what was promised, disjoint ones do not; nobody is spared the choice."""
    said = {units: run("combine", *shops, "--units", units).err for units in ("disjoint", "shared")}
    assert (
        "(epsilon = 2, delta" in said["disjoint"]
        and "every unit is in one stream only, as was stated" in said["disjoint"]
    )
    assert "(epsilon = 3, delta = 2e-06)" in said["shared"] and "in every stream" in said["shared"]
    done = run("combine", *shops)
    assert (done.status, done.out) == (2, "") and "required: --units" in done.err


def test_json(shops: tuple[Path, Path], run: Run) -> None:
    """Everything that is printed, with exact numbers; confidence widens bounds and what may be hidden."""
    facts = json.loads(run("combine", *shops, "--units", "shared", "-n", 2, "--json").out)
    assert facts["guarantee"] == {
        "epsilon": "3", "delta": "1/500000", "units": "shared", "epsilon_float": 3.0, "delta_float": 2e-6
    }  # fmt: skip
    assert facts["releases"] == list(map(str, shops)) and facts["output"] is None
    assert (facts["keys"], len(facts["rows"]), facts["confidence"]) == (3, 2, 0.95)
    surer = json.loads(run("combine", *shops, "--units", "shared", "--confidence", "99.9%", "--json").out)
    assert surer["hidden"] > facts["hidden"] > 0 and "99.9 % sure" in surer["hidden_text"]
    assert surer["rows"][0]["upper"] > facts["rows"][0]["upper"]


@pytest.mark.parametrize("kind", ["csv", "json", "parquet"])
def test_all_keys_are_written(kind: str, shops: tuple[Path, Path], tmp_path: Path, run: Run) -> None:
    """With -o the whole table is a file, as the library makes it, in each format."""
    place = tmp_path / f"all.{kind}"
    done = run("combine", *shops, "--units", "disjoint", "-n", 1, "-o", place)
    assert done.status == 0 and len(rows(done.out)) == 1 and f"Wrote {place}: 3 keys." in done.err
    read = {"csv": pl.read_csv, "json": pl.read_json, "parquet": pl.read_parquet}[kind]
    combined = dptally.combine([dptally.load(path) for path in shops], units="disjoint")  # type: ignore[misc]
    assert read(place).rows() == combined.table().rows()
    again = run("combine", *shops, "--units", "disjoint", "-o", place)
    assert again.status == 2 and "exists; use --overwrite to replace it." in again.err
    assert run("combine", *shops, "--units", "disjoint", "-o", place, "--overwrite").status == 0


def test_bytes_and_empty_releases(publish: Publish, tmp_path: Path, run: Run) -> None:
    """Keys of bytes are hexadecimal in CSV and JSON; releases without keys add up to a table without rows."""
    place = tmp_path / "all.csv"
    done = run("combine", publish("bytes.parquet", {b"\x00\xff": 900}), "--units", "shared", "-o", place)
    assert done.status == 0 and rows(place.read_text())[0]["fruit"] == rows(done.out)[0]["fruit"] == "00ff"
    empty = [publish(f"{name}.parquet", {"rare": 1}) for name in "cd"]
    done = run("combine", *empty, "--units", "shared")
    assert (done.status, done.out) == (0, "fruit,value,estimate,lower,upper,reported_by\n")


def test_a_table_on_a_terminal(shops: tuple[Path, Path]) -> None:
    """A terminal gets a table and what is left out of it."""
    status, written = on_terminal("combine", *shops, "--units", "disjoint", "-n", "2")
    assert status == 0 and b"reported_by" in written and b"apple" in written
    assert b"... and 1 more; ask for them with -n" in written


def test_what_a_sketch_does_not_tell(tmp_path: Path, run: Run) -> None:
    """Where a sketch keeps its shortfall to itself, the bound is said to be beyond it."""
    sketch = dptally.MisraGriesSketch(4)
    sketch.update(["a"] * 900 + ["b"] * 300)
    for name, shortfall in (("told", "private"), ("untold", None)):
        sketch.publish(1, "1e-6", shortfall=shortfall).save(tmp_path / name)  # type: ignore[arg-type]
        done = run("combine", tmp_path / name, "--units", "disjoint")
        assert ("fall short of frequencies, which is not told." in done.err) == (name == "untold")


def test_what_cannot_be_added_up(shops: tuple[Path, Path], publish: Publish, tmp_path: Path, run: Run) -> None:
    """One sentence each, status 2, and nothing is written."""
    first, second = shops
    seeded = publish("seeded.parquet", {"apple": 900}, randomness=SeededBits(1))
    numbers = publish("numbers.parquet", {1: 900}, types={"fruit": "int64"})
    only_keys = publish("keys.parquet", {"apple": 900}, values=False)
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    target = tmp_path / "all.csv"
    for arguments, message in (
        ((first, f"{tmp_path}/./a.parquet"), "is named twice; a release is added up once."),
        ((first, seeded), "was sampled from a seed and is not private."),
        ((first, numbers), "different key columns, or key columns of different types."),
        ((only_keys,), "a release without values cannot be added up."),
        ((first, "-n", -1), "n must not be negative, got -1."),
        ((first, "--confidence", 2), "confidence must be"),
        ((first, "--units", "both"), "invalid choice: 'both'"),
        ((first, "-o", tmp_path / "all.xlsx"), "-o writes .csv, .json or .parquet, and"),
        ((first, second, "-o", second, "--overwrite"), "is also an input; what is written needs a file of its own."),
        ((first, "-o", tmp_path / "nowhere" / "all.csv"), "is not a directory."),
    ):
        done = run("combine", "--units", "disjoint", "-o", target, *arguments)
        assert (done.status, done.out) == (2, "") and message in done.err and done.err.count("\n") == 1
    done = run("combine", "--units", "disjoint", first, tmp_path / "missing.parquet", "-o", target)
    assert (done.status, done.out) == (1, "")
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_other_releases_say_what_they_are(tmp_path: Path, run: Run) -> None:
    """Trees have no table to add up, and say what reads them."""
    dptally.publish_quantiles(range(900), low=0, high=999, epsilon=1, mechanism="dense").save(tmp_path / "tree.parquet")
    done = run("combine", tmp_path / "tree.parquet", "--units", "shared")
    assert done.status == 2 and "is a tree of counts, which has no keys" in done.err


def test_an_interruption_leaves_nothing(
    shops: tuple[Path, Path], tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C while the file is written: status 130, no file and no part of one."""

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    before = set(tmp_path.iterdir())
    monkeypatch.setattr(os, "fsync", interrupt)
    done = run("combine", *shops, "--units", "disjoint", "-o", tmp_path / "all.csv")
    assert (done.status, done.out, done.err) == (130, "", "dptally: interrupted.\n")
    assert set(tmp_path.iterdir()) == before
