from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import Run
from tests.report.releases import make


@pytest.mark.parametrize(("name", "start"), [("p.png", b"\x89PNG"), ("p.svg", b"<svg"), ("p.html", b"<!DOCTYPE html>")])
def test_plot_writes_each_kind_of_picture(tmp_path: Path, release: Path, run: Run, name: str, start: bytes) -> None:
    """The ending decides the kind; nothing but the picture is left."""
    directory = tmp_path / "pictures"
    directory.mkdir()
    done = run("plot", release, "-o", directory / name, "--json")
    assert json.loads(done.out) == {"picture": str(directory / name)}
    assert (directory / name).read_bytes().startswith(start)
    assert len(list(directory.iterdir())) == 1


def test_plot_replaces_only_when_asked(tmp_path: Path, release: Path, run: Run) -> None:
    """An existing picture needs --overwrite."""
    place = tmp_path / "p.svg"
    place.write_text("mine")
    assert run("plot", release, "-o", place).status == 2
    assert place.read_text() == "mine"
    assert run("plot", release, "-o", place, "--overwrite").out == f"Picture written to {place}.\n"


@pytest.mark.parametrize("kind", ["compact", "ranges", "tree"])
def test_plot_draws_every_kind_of_release(tmp_path: Path, run: Run, kind: str) -> None:
    """Whatever a release holds, there is a picture of it."""
    make(kind).save(tmp_path / "release")
    assert run("plot", tmp_path / "release", "-o", tmp_path / "p.svg").status == 0
    assert b"Differentially private" in (tmp_path / "p.svg").read_bytes()


def test_plot_refuses_other_formats(tmp_path: Path, release: Path, run: Run) -> None:
    """Another ending is a bad request."""
    done = run("plot", release, "-o", tmp_path / "p.pdf")
    assert done.status == 2
    assert "must end in .png, .svg or .html" in done.err


def test_plot_without_the_extra(tmp_path: Path, release: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without vl-convert a PNG picture fails with the line that installs it; SVG needs nothing."""
    monkeypatch.setitem(sys.modules, "vl_convert", None)
    done = run("plot", release, "-o", tmp_path / "p.png")
    assert done.status == 1
    assert "pip install 'dptally[plots]'" in done.err
    assert run("plot", release, "-o", tmp_path / "p.svg").status == 0
