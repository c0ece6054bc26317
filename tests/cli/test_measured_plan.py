"""Plans of the default for units, which measures how many keys they have."""

from __future__ import annotations

import json
from fractions import Fraction
from typing import Any

import pytest

import dptally
from dptally.cli import main
from dptally.laws.specs.rounds import RoundsSpec

ASKED: dict[str, Any] = {"epsilon": 2, "delta": "1e-4"}


def test_the_default_for_units_is_planned() -> None:
    """For some sizes of units: from which counts on keys are found, how many, and the noise on counts."""
    made = dptally.plan(**ASKED, unit="who", units=10_000, keys=1000, mechanisms=["rounds"])
    assert made.measured is not None and made.measured.mechanism == "rounds"
    spec = RoundsSpec("rounds", Fraction(2), Fraction("1e-4"), values=True, bound=None)
    sizes: list[tuple[int, Any]] = list(made.measured.sizes)
    halves = [each.half for _, each in sizes]
    assert [size for size, _ in sizes] == [3, 10, 30, 100] and halves == sorted(halves)
    size, forecast = sizes[1]
    law = spec.law_for_size(size)
    assert law.counts is not None
    assert forecast.half == law.first_frequency(Fraction(1, 2)) and forecast.at_least
    assert forecast.root_mean_square_error == pytest.approx(float(law.counts.sigma), rel=0.1)
    # Ten thousand units of three, ten, ... keys have more and more counts, and more keys are found.
    expected = [each.expected_keys for _, each in sizes]
    assert expected == sorted(expected) and expected[0]
    kinds = [kind for kind, _ in made.measured.shares]
    assert kinds == ["sizes", "round"] * 3 + ["sizes", "counts"]
    assert sum(share for _, share in made.measured.shares) == pytest.approx(1, abs=1e-9)


def test_nothing_is_measured_where_it_is_stated() -> None:
    """With a bound, without a unit, or with another mechanism there is no such plan."""
    assert dptally.plan(**ASKED, unit="who", max_keys_per_unit=3, mechanisms=["rounds"]).measured is None
    assert dptally.plan(**ASKED, mechanisms=["weighted_sample"]).measured is None
    assert dptally.plan(**ASKED, unit="who", mechanisms=["weighted_sample"]).measured is None


def test_the_command_line_says_it(capsys: pytest.CaptureFixture[str]) -> None:
    """``plan --unit`` prints the sizes and shares; ``publish --explain`` names counts for some sizes."""
    wanted = ["plan", "--epsilon", "2", "--delta", "1e-4", "--unit", "who", "--mechanism", "rounds"]
    assert main([*wanted, "--no-chart"]) == 0
    told = " ".join(capsys.readouterr().out.split())
    assert "keys of units are measured (rounds)" in told and "Shares of the budget, about: sizes" in told
    assert main([*wanted, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["measured"]["mechanism"] == "rounds"
    request = ["publish", "x.csv", "--key", "k", "--unit", "who", "--epsilon", "2", "--delta", "1e-4", "--explain"]
    assert main(request) == 0
    assert "if all units have 10 keys" in " ".join(capsys.readouterr().out.split())
