from __future__ import annotations

import json
from pathlib import Path

import pytest

from dptally.errors import InvalidParameter
from tests.cli.conftest import MARKER, PRIVACY, Run
from tests.report.releases import make


def test_report_writes_a_page_and_charts(tmp_path: Path, release: Path, run: Run) -> None:
    """The page and its charts are written, and nothing else; a key of one row is in none of them."""
    place, charts = tmp_path / "out" / "r.html", tmp_path / "out" / "charts"
    place.parent.mkdir()
    done = run("report", release, "-o", place, "--charts", charts, "--json")
    found = json.loads(done.out)
    names = [f"{name}.{kind}" for name in ("top-keys", "frequencies", "chance") for kind in ("svg", "png")]
    assert found == {
        "report": str(place),
        "bytes": place.stat().st_size,
        "charts": [str(charts / name) for name in names],
    }
    assert sorted(file.name for file in place.parent.iterdir()) == ["charts", "r.html"]
    text = place.read_text()
    assert "apple" in text and "dptally verify release.parquet" in text
    for file in (place, *charts.glob("*.svg")):
        assert MARKER not in file.read_text()


def test_report_names_the_file_by_its_fingerprint(tmp_path: Path, release: Path, run: Run) -> None:
    """The SHA-256 of the release's file is on the page, for citations."""
    import hashlib

    run("report", release, "-o", tmp_path / "r.html")
    assert hashlib.sha256(release.read_bytes()).hexdigest() in (tmp_path / "r.html").read_text()


def test_report_replaces_only_when_asked(tmp_path: Path, release: Path, run: Run) -> None:
    """An existing page needs --overwrite."""
    place = tmp_path / "r.html"
    place.write_text("mine")
    assert run("report", release, "-o", place).status == 2
    assert place.read_text() == "mine"
    assert run("report", release, "-o", place, "--overwrite").out == f"Report written to {place}.\n"


def test_report_refuses_before_it_reads(tmp_path: Path, run: Run) -> None:
    """A wrong ending is refused before the release is looked for; a missing release has status 1."""
    assert "must end in .html" in run("report", tmp_path / "none", "-o", tmp_path / "r.pdf").err
    missing = run("report", tmp_path / "none", "-o", tmp_path / "r.html")
    assert missing.status == 1
    assert "is not a file" in missing.err


@pytest.mark.parametrize("kind", ["compact", "ranges", "tree", "keys_only"])
def test_report_and_verify_read_every_kind_of_file(tmp_path: Path, run: Run, kind: str) -> None:
    """Files of each kind have a page, and their certificates can be checked."""
    file = tmp_path / "file"
    make(kind).save(file)
    assert run("report", file, "-o", tmp_path / "r.html").status == 0
    checked = json.loads(run("verify", file, "--json").out)
    assert checked["verified"] is True
    assert checked["certificate"]["table_sha256"] in (tmp_path / "r.html").read_text()


def test_title_and_confidence(tmp_path: Path, events: Path, release: Path, run: Run) -> None:
    """The heading can be chosen, and bounds have the confidence asked for."""
    place = tmp_path / "r.html"
    assert run("report", release, "-o", place, "--title", "Fruit & more", "--confidence", "0.99", "-n", "2").status == 0
    text = place.read_text()
    assert "<h1>Fruit &amp; more</h1>" in text and "99 % confidence" in text
    assert "the first 2 of 3" in text
    assert run("report", release, "-o", place, "--overwrite", "--confidence", "2").status == 2
    assert run("publish", events, "--key", "fruit", *PRIVACY, "-o", release, "--overwrite", "-q").status == 0


def test_a_release_has_a_report(tmp_path: Path) -> None:
    """`release.report(path)` does the same."""
    release = make("empty")
    release.report(tmp_path / "r.html", title="Nothing")
    assert "No key was released" in (tmp_path / "r.html").read_text()
    with pytest.raises(InvalidParameter, match="exists"):
        release.report(tmp_path / "r.html")
