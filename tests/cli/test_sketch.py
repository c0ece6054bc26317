"""The commands of ``sketch``: build, merge, show, publish."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

import dptally
from tests.cli.conftest import MARKER, PRIVACY, Run


@pytest.fixture
def sketch(tmp_path: Path, events: Path, run: Run) -> Path:
    """A sketch of the events."""
    place = tmp_path / "s.sketch"
    assert run("sketch", "build", events, "--key", "fruit", "-k", "20", "-o", place, "-q").status == 0
    return place


def test_build_and_publish(tmp_path: Path, sketch: Path, run: Run) -> None:
    """A file becomes a sketch for its owner only, and the sketch a release that verifies."""
    assert sketch.stat().st_mode & 0o777 == 0o600
    place = tmp_path / "r.parquet"
    done = run("sketch", "publish", sketch, *PRIVACY, "--name", "fruit", "-o", place)
    assert done.status == 0
    assert "3 keys released" in done.out
    assert "how far the sketch falls short" in done.out
    assert dptally.load(place).table()["fruit"].to_list() == ["apple", "pear", "plum"]
    for command in ("verify", "show", "top"):
        assert run(command, place).status == 0


def test_show_is_for_the_owner(sketch: Path, run: Run) -> None:
    """What a sketch holds can be seen by whoever has the file, with a warning, and as JSON."""
    done = run("sketch", "show", sketch, "-n", "2")
    assert "private" in done.out and "apple" in done.out
    facts = json.loads(run("sketch", "show", sketch, "--json").out)
    assert (facts["total"], facts["shortfall"], facts["counters"], facts["form"]) == (1200, 0, 4, "single")
    assert facts["rows"][0] == {"key": "apple", "estimate": 500, "lower": 500, "upper": 500}


@pytest.mark.parametrize(("options", "form"), [((), "merged"), (("--sum",), "summed")])
def test_merge(tmp_path: Path, events: Path, sketch: Path, run: Run, options: tuple[str, ...], form: str) -> None:
    """Sketches are merged, or added up, and published."""
    both, other = tmp_path / "both.sketch", tmp_path / "other.sketch"
    assert run("sketch", "build", events, "--key", "fruit", "-k", "20", "-o", other, "-q").status == 0
    done = run("sketch", "merge", sketch, other, *options, "-o", both, "--json")
    assert json.loads(done.out)["form"] == form
    facts = json.loads(run("sketch", "publish", both, *PRIVACY, "--json").out)
    assert facts["guarantee"]["mechanism"] == "misra_gries"
    assert [row["fruit"] for row in facts["rows"]] == ["apple", "pear", "plum"]


def test_units(tmp_path: Path, events: Path, run: Run) -> None:
    """With a unit the sketch is one of users."""
    place = tmp_path / "u.sketch"
    done = run(
        "sketch", "build", events, "--key", "fruit", "--unit", "user", "--max-keys-per-unit", "2", "-o", place, "--json"
    )  # fmt: skip
    assert json.loads(done.out)["form"] == "user"
    facts = json.loads(run("sketch", "publish", place, *PRIVACY, "--json").out)
    assert facts["guarantee"]["max_keys_per_unit"] == 2


def test_standard_input(tmp_path: Path, events: Path) -> None:
    """A stream comes from a pipe."""
    place = tmp_path / "p.sketch"
    command = [sys.executable, "-m", "dptally", "sketch", "build", "-", "--format", "csv", "--key", "fruit"]
    with events.open("rb") as file:
        subprocess.run([*command, "-k", "20", "-o", place], stdin=file, check=True, capture_output=True)
    loaded = dptally.load_sketch(place)
    assert loaded.total == 1200


BAD = {
    "needs --unit": ("sketch", "build", "EVENTS", "--key", "fruit", "--max-keys-per-unit", "2", "-o", "OUT"),
    "capacity must be": ("sketch", "build", "EVENTS", "--key", "fruit", "-k", "0", "-o", "OUT"),
    "is not a dptally sketch": ("sketch", "publish", "EVENTS", *PRIVACY),
    "cannot be opened": ("sketch", "show", "MISSING"),
    "--shortfall must be": ("sketch", "publish", "SKETCH", *PRIVACY, "--shortfall", "some"),
    "exists": ("sketch", "build", "EVENTS", "--key", "fruit", "-o", "SKETCH"),
    "column": ("sketch", "build", "EVENTS", "--key", "vegetable", "-o", "OUT"),
}


@pytest.mark.parametrize("message", BAD)
def test_bad_requests(tmp_path: Path, events: Path, sketch: Path, run: Run, message: str) -> None:
    """One sentence each, nothing private in it, nothing written."""
    places = {"EVENTS": events, "OUT": tmp_path / "o.sketch", "SKETCH": sketch, "MISSING": tmp_path / "none.sketch"}
    done = run(*(places.get(part, part) for part in BAD[message]))
    assert done.status in (1, 2)
    assert message in done.err
    assert done.err.count("\n") == 1
    assert MARKER not in done.err + done.out
    assert not (tmp_path / "o.sketch").exists()


def test_the_error_is_part_of_what_is_said(tmp_path: Path, sketch: Path, run: Run) -> None:
    """Noise and sketch are stated apart, as text and as JSON."""
    done = run("sketch", "publish", sketch, *PRIVACY, "-o", tmp_path / "r.parquet")
    assert "noise added at most" in done.out and "the sketch falls short" in done.out
    facts = json.loads(run("sketch", "publish", sketch, *PRIVACY, "--json").out)
    assert facts["sketch_error"]["over"] > 0
    assert facts["sketch_error"]["sketch"] >= 0


def test_an_empty_release_of_a_sketch_tells_its_shortfall(tmp_path: Path, run: Run) -> None:
    """A key must exceed what the sketch takes from frequencies, whether publish or sketch publish made the release."""
    many = tmp_path / "many.csv"
    many.write_text("key\n" + "".join(f"{number % 500}\n" for number in range(50_000)))
    made = tmp_path / "many.sketch"
    assert run("sketch", "build", many, "--key", "key", "-k", 10, "-o", made).status == 0
    known = run("publish", many, "--key", "key", "--mechanism", "misra_gries", "--capacity", 10, *PRIVACY)
    assert "above the shortfall of the sketch of up to 4," in known.err
    assert "More counters (--capacity)" in known.err
    assert "falls short of frequencies by at most 4," in known.err
    unknown = run("sketch", "publish", made, *PRIVACY, "--shortfall", "unknown")
    assert "above a shortfall of the sketch that is not known. More counters" in unknown.err
    assert unknown.err.count("confidence for all keys at once") == 1
