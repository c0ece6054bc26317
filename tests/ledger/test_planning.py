"""Which epsilon each of many releases may have, and how many more like the last one fit."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path

import pytest

import dptally
from dptally.errors import BudgetExceeded, InvalidParameter
from dptally.ledger.budget import Accounting
from dptally.privacy.spending import Spending
from tests.cli.conftest import Run, run

__all__ = ["run"]  # the fixture


def test_a_year_of_nights() -> None:
    """365 releases of (0.1, 1e-8) fit into 9.59 at 1e-5 by tight accounting; basic accounting gives epsilon / 365."""
    plan = dptally.Ledger.plan(365, epsilon="9.59", delta="1e-5", delta_each="1e-8")
    assert Fraction(1, 10) <= plan.tight < Fraction(102, 1000)
    assert plan.basic <= Fraction("9.59") / 365 < plan.basic + Fraction(1, 10**5)
    assert plan.tight > 3 * plan.basic
    assert dptally.Ledger.plan(365, epsilon=10, delta="1e-5").delta_each == Fraction(1, 10**5) / 730


@pytest.mark.parametrize("accounting", ["basic", "tight"])
def test_ledgers_take_what_was_planned(accounting: Accounting, tmp_path: Path) -> None:
    """All planned releases fit into a ledger, it says how many more do, and slightly larger ones do not fit."""
    plan = dptally.Ledger.plan(12, epsilon=2, delta="1e-6", delta_each="2e-8")
    each = getattr(plan, accounting)
    for factor, fits in ((1, True), (Fraction(103, 100), False)):
        ledger = dptally.Ledger(tmp_path / f"{fits}.db", epsilon=2, delta="1e-6", accounting=accounting)
        assert ledger.fitting() is None
        spending = Spending("release", each * factor, Fraction(2, 10**8))
        for number in range(11):
            ledger.reserve(spending)
            if number in (0, 10):
                assert (ledger.fitting() or 0) >= 11 - number if fits else (ledger.fitting() or 0) < 11 - number
        if fits:
            ledger.reserve(spending)
            assert ledger.fitting() == 0
        with pytest.raises(BudgetExceeded):
            ledger.reserve(spending)
        ledger.end_spending()
        assert ledger.fitting() == 0


def test_bad_plans() -> None:
    """What cannot be planned is said in one sentence."""
    for releases, epsilon, delta, each, said in (
        (0, 1, "1e-6", None, "releases must be"),
        (10**7, 1, "1e-6", None, "releases must be"),
        (10, 0, "1e-6", None, "epsilon must be"),
        (10, 1, 1, None, "delta must be at least 0 and below 1"),
        (10, 1, "1e-6", "1e-6", "delta_each must be at least 0 and at most 1e-07"),
    ):
        with pytest.raises(InvalidParameter, match=said):
            dptally.Ledger.plan(releases, epsilon=epsilon, delta=delta, delta_each=each)
    pure = dptally.Ledger.plan(4, epsilon=2, delta=0)
    assert (pure.basic, pure.tight, pure.delta_each) == (Fraction(1, 2), Fraction(1, 2), 0)


def test_commands(run: Run, tmp_path: Path) -> None:
    """The commands plan, make a ledger that renews, and show what fits."""
    asked = ("ledger", "plan", "--releases", "365", "--epsilon", "10", "--delta", "1e-5", "--delta-each", "1e-8")
    assert "0.02739 each under basic accounting, 0.10" in run(*asked).out
    told = json.loads(run(*asked, "--json").out)
    assert told["basic_float"] == 0.02739 and 0.1 < told["tight_float"] < 0.11
    assert run(*asked, "--explain").status == 0
    assert run("ledger", "plan", "--releases", "0", "--epsilon", "1", "--delta", "0").status == 2
    path, rows = tmp_path / "months.db", tmp_path / "rows.csv"
    rows.write_text("k,day\n" + "a,2026-11-05\n" * 500, encoding="utf-8")
    budget = ("--epsilon", "2", "--delta", "1e-5")
    made = run("ledger", "create", path, *budget, "--renew", "month", "--time-column", "day")
    assert "Renews every month of 'day' (UTC)" in made.out and "within one month" in made.out
    publish = ("publish", rows, "--key", "k", "--epsilon", "0.5", "--delta", "1e-6", "--ledger", path, "-q")
    assert run(*publish).status == 2
    assert run(*publish, "--since", "2026-11-05", "--until", "2026-11-06", "--time-column", "day").status == 0
    shown = run("ledger", "show", path).out
    assert "Releases like the last one that still fit: 3." in shown
    assert "Left for the part 2026-11 of month: epsilon 1.5" in shown
    facts = json.loads(run("ledger", "show", path, "--json").out)
    assert (facts["fitting"], facts["renew"]) == (3, {"period": "month", "time_column": "day"})
