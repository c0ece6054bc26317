from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path

import pytest

import dptally
from dptally.cli import example
from tests.cli.conftest import Run


def test_the_example_publishes_a_real_data_set(tmp_path: Path, run: Run) -> None:
    """The example leaves data, a verified release, its page and two pictures, and shows the command for it."""
    directory = tmp_path / "example"
    done = run("example", "--directory", directory)
    assert (done.status, done.err) == (0, "")
    assert sorted(place.name for place in directory.iterdir()) == [
        "hamlet.csv", "release.parquet", "release.png", "release.svg", "report.html",
    ]  # fmt: skip
    assert "report.html" in done.out and "Words of Shakespeare&#x27;s Hamlet" in (directory / "report.html").read_text()
    release = dptally.load(directory / "release.parquet")
    release.verify()
    assert len(release.table()) >= 35
    command = next(line for line in done.out.splitlines() if line.strip().startswith("dptally publish"))
    again = [*shlex.split(command)[1:-1], str(directory / "again.parquet")]
    assert run(*again).status == 0
    assert dptally.load(directory / "again.parquet").guarantee == release.guarantee


def test_the_example_as_json_without_picture(tmp_path: Path, run: Run) -> None:
    """JSON names the files and the command."""
    facts = json.loads(run("example", "--directory", tmp_path, "--no-picture", "--json").out)
    assert facts["data"] == str(tmp_path / "hamlet.csv")
    assert facts["command"][:2] == ["dptally", "publish"]
    assert facts["pictures"] == [] and facts["report"] == str(tmp_path / "report.html")
    assert len(facts["rows"]) == 10


def test_the_example_replaces_nothing_unasked(tmp_path: Path, run: Run) -> None:
    """Existing files are kept unless --overwrite is given."""
    (tmp_path / "hamlet.csv").write_text("mine")
    done = run("example", "--directory", tmp_path, "--no-picture")
    assert done.status == 2
    assert "exists" in done.err
    assert (tmp_path / "hamlet.csv").read_text() == "mine"
    assert run("example", "--directory", tmp_path, "--no-picture", "--overwrite").status == 0


def test_the_example_runs_without_the_extra(tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without vl-convert everything but the PNG picture is done, and the line that installs it is printed."""
    monkeypatch.setitem(sys.modules, "vl_convert", None)
    done = run("example", "--directory", tmp_path)
    assert done.status == 0
    assert "pip install 'dptally[plots]'" in done.out
    assert (tmp_path / "release.svg").exists() and not (tmp_path / "release.png").exists()


def test_the_words_of_the_play() -> None:
    """The data set is the whole play: 32,396 words in 4,376 lines or fewer."""
    rows = list(example.words())
    assert len(rows) == 32_396
    assert max(line for line, _ in rows) <= 4_376
