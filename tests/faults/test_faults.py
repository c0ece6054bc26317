"""Processes killed and disks full: what must hold holds, seen from outside. The parts of the reliability report."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from studies.reliability.__main__ import main
from studies.reliability.outcomes import Outcome, Part, Settings
from studies.reliability.parts import PARTS
from studies.reliability.report import write

FEW = Settings(kills=20, writers=4, seconds=1.0, publishes=5)
MANY = Settings(kills=300, writers=16, seconds=60.0)
FAST = [part for part in PARTS if part.name not in ("kills", "spills")]


def held(outcome: Outcome) -> None:
    """Nothing was violated; skips with the reason where it could not be tried."""
    if outcome.skipped:
        pytest.skip(outcome.skipped)
    assert outcome.violations == []


def test_twenty_kills(tmp_path: Path) -> None:
    """After each of 20 kills of `publish` everything published is paid for, whole, and nothing private is left."""
    (kills,) = (part for part in PARTS if part.name == "kills")
    outcome = kills.run(FEW, tmp_path)
    held(outcome)
    assert outcome.counts["killed"] == 20 and outcome.counts["killed from scratch"] >= 1
    assert outcome.counts["starts left alone"] >= 4


@pytest.mark.parametrize("part", FAST, ids=[part.name for part in FAST])
def test_every_part(part: Part, tmp_path: Path) -> None:
    """A small run of every other part finds nothing."""
    held(part.run(Settings(kills=12, writers=3, seconds=0.5, publishes=3), tmp_path))


@pytest.mark.slow
@pytest.mark.parametrize("part", PARTS, ids=[part.name for part in PARTS])
def test_every_part_at_length(part: Part, tmp_path: Path) -> None:
    """300 kills, 16 writers for a minute: still nothing."""
    held(part.run(MANY, tmp_path))


def test_the_report(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The command keeps what a page says, replaces the tables of an earlier run, and writes JSON beside it."""
    target = tmp_path / "reliability.md"
    target.write_text("# Reliability\n\nWords.\n")
    assert main(["--parts", "cost", "--publishes", "2", "--report", str(target)]) == 0
    write(json.loads(target.with_suffix(".json").read_text()), target)
    text = target.read_text()
    assert text.startswith("# Reliability\n\nWords.\n\n<!--") and text.count("## Run of") == 1
    assert (
        "**No violations.**" in text
        and "| cost | a release of 100 keys with and without a ledger | publishes: 2 | 0 |" in text
    )
    facts = json.loads(target.with_suffix(".json").read_text())
    assert facts["violations"] == 0 and facts["parts"]["cost"]["measured"]["ledger_alone_median_ms"] > 0
    assert facts["settings"]["publishes"] == 2 and "No violations" in capsys.readouterr().out


def test_an_unknown_part(capsys: pytest.CaptureFixture[str]) -> None:
    """A part that is not there is refused by name."""
    with pytest.raises(SystemExit):
        main(["--parts", "flood"])
    assert "there is no part 'flood'" in capsys.readouterr().err
