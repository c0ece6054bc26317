"""The command that audits."""

from __future__ import annotations

import json
from fractions import Fraction
from typing import Any

import pytest

from dptally.audit import black_box
from dptally.audit.black_box import BlackBoxFinding
from dptally.randomness import SeededBits
from tests.cli.conftest import Run


def test_black_box_on_the_command_line(run: Run) -> None:
    """A table with claim, bound, event and verdict; the same as JSON."""
    words = ("audit", "dense", "--epsilon", "1", "--runs", 2000, "--seed", 3)
    done = run(*words)
    assert done.status == 0 and "lower bound" in done.out and "kept" in done.out
    facts = json.loads(run(*words, "--json").out)
    assert facts["passed"] is True and facts["seed"] == 3
    assert facts["black_box"][0]["mechanism"] == "dense" and facts["black_box"][0]["lower_bound"] < 1


def test_exact_on_the_command_line(run: Run) -> None:
    """Settings, seed and controls are told."""
    words = ("audit", "sparse", "--exact", "--settings", 4)
    done = run(*words)
    assert done.status == 0 and "seed 8" in done.out and "every control was found" in done.out
    facts = json.loads(run(*words, "--json").out)["exact"]
    assert facts["all_settings"] == 4 and facts["violations"] == [] and facts["passed"] is True


def test_side_channels_on_the_command_line(run: Run) -> None:
    """Each channel has a verdict, or says that there is none."""
    done = run("audit", "--side-channels")
    assert done.status == 0 and "order of rows (closed)" in done.out and "time of draws (no verdict)" in done.out


def test_a_violation_ends_with_status_1(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """What exceeds its claim is shown, and the exit status tells."""

    def found(*arguments: object, **options: Any) -> list[BlackBoxFinding]:
        finding = black_box._audit(
            black_box.chosen_boxes("dense")[0], Fraction(1), Fraction(0), 4000,
            SeededBits(5), "epsilon x 2", 1e-6,
        )  # fmt: skip
        return [finding]

    monkeypatch.setattr("dptally.audit.audit_black_box", found)
    done = run("audit", "dense")
    assert done.status == 1 and "VIOLATED" in done.out and "the audit did not pass" in done.err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("nonsense",), "argument MECHANISM: invalid choice: 'nonsense'"),
        (("dense", "--runs", 5), "--runs must be at least 100, got 5"),
        (("dense", "--exact", "--settings", 0), "--settings must be at least 1, got 0"),
        (("dense", "--exact", "--side-channels"), "ask for one at a time"),
        (("dense", "--epsilon", "-1"), "epsilon must be a positive number, got -1"),
    ],
)
def test_bad_requests(run: Run, options: tuple[object, ...], message: str) -> None:
    """What cannot be done is refused in one sentence."""
    done = run("audit", *options)
    assert done.status == 2 and message in done.err
