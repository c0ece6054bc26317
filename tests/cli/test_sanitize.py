"""The command ``sanitize``, and sampling on the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import dptally
from tests.cli.conftest import PRIVACY, Run


@pytest.fixture
def sample(tmp_path: Path) -> Path:
    """A small sample with counts."""
    place = tmp_path / "sample.csv"
    place.write_text("query,n\n" + "".join(f"q{i},{100 * i}\n" for i in range(1, 20)))
    return place


def test_sanitize_writes_a_release(tmp_path: Path, sample: Path, run: Run) -> None:
    """A sample becomes a release that verifies and names its scheme."""
    place = tmp_path / "r.parquet"
    done = run(
        "sanitize", sample, "--key", "query", "--count", "n", "--sampling", "ppswor:0.01", *PRIVACY, "-o", place
    )  # fmt: skip
    assert done.status == 0
    assert "provided that the sample was drawn as stated" in done.out
    assert str(dptally.load(place).law.scheme) == "ppswor:1/100"
    assert run("verify", place).status == 0


def test_bottom_k_is_refused(sample: Path, run: Run) -> None:
    """A bottom-k sample is refused with the reason, as a bad request."""
    done = run("sanitize", sample, "--key", "query", "--count", "n", "--sampling", "bottom-k:10", *PRIVACY)
    assert done.status == 2
    assert "cannot be made private afterwards" in done.err


def test_publish_with_sampling(sample: Path, run: Run) -> None:
    """--sampling takes schemes and sizes."""
    for scheme, name in (("priority:0.001", "priority:1/1000"), ("ppswor:size=5", "ppswor:")):
        done = run(
            "publish", sample, "--key", "query", "--count", "n", "--sampling", scheme, *PRIVACY, "--json"
        )  # fmt: skip
        assert json.loads(done.out)["law"]["scheme"].startswith(name)


def test_plan_with_sampling(run: Run) -> None:
    """--sampling in a plan shows frequencies, or never."""
    done = run("plan", *PRIVACY, "--sampling", "ppswor:0.01")
    assert done.status == 0
    assert "sampling ppswor:1/100" in done.out and "never" in done.out
