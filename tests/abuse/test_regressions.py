"""Inputs that once did harm: each is refused in one sentence now, or read."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.abuse.fuzz.targets import TARGETS, harmless
from tests.abuse.limits import time_limit

FOUND = sorted(path for path in (Path(__file__).parent / "regressions").iterdir() if path.name != "README.md")


@pytest.mark.parametrize("path", FOUND, ids=lambda path: path.name)
def test_found_inputs(path: Path) -> None:
    """What a fuzzer found stays harmless."""
    target = TARGETS[path.name.partition("-")[0]]()
    with time_limit():
        harmless(target, path.read_bytes())


@pytest.mark.parametrize("name", sorted(TARGETS))
def test_seeds(name: str) -> None:
    """Every target reads its seeds, the empty input and a few bytes, so that fuzzing it means something."""
    target = TARGETS[name]()
    for content in (*target.seeds, b"", b"\xff" * 40):
        with time_limit():
            harmless(target, content)
    with time_limit():
        target.run(target.seeds[0])
