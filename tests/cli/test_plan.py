from __future__ import annotations

import json

from tests.cli.conftest import PRIVACY, Run


def test_plan_says_at_which_frequency_keys_are_reported(run: Run) -> None:
    """The sentence and the table give the frequencies for the bound asked for and for others."""
    done = run("plan", *PRIVACY, "--max-keys-per-unit", 5)
    assert done.status == 0
    assert "at most 5 keys per unit" in done.out
    assert "always, if divided" in done.out
    assert [line.split()[0] for line in done.out.splitlines() if line.strip()[:1].isdigit()] == [
        "1",
        "3",
        "5",
        "10",
        "30",
    ]


def test_plan_as_json(run: Run) -> None:
    """JSON holds the exact parameters and a line for each bound."""
    facts = json.loads(run("plan", *PRIVACY, "--json").out)
    assert (facts["epsilon"], facts["delta"]) == ("1", "1/1000000")
    assert facts["asked"]["always"] == 28
    assert [line["max_keys_per_unit"] for line in facts["others"]] == [3, 10, 30]


def test_plan_for_keys_only_has_no_error_of_estimates(run: Run) -> None:
    """Without values there is no estimate to be off."""
    assert json.loads(run("plan", *PRIVACY, "--keys-only", "--json").out)["asked"]["mean_absolute_error"] is None
    assert run("plan", *PRIVACY, "--keys-only").status == 0


def test_plan_refuses_bad_parameters(run: Run) -> None:
    """A plan for a negative epsilon is refused like a publication."""
    done = run("plan", "--epsilon", "-1", "--delta", "1e-6")
    assert (done.status, done.err) == (2, "dptally: epsilon must be a positive number, got -1.\n")
