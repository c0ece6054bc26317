"""The commands ``ledger ...``, and ``--ledger`` of every command that releases something."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from dptally import Ledger
from dptally.cli import main

PRIVACY = ("--epsilon", "1/4", "--delta", "1e-7")


@dataclass(frozen=True)
class Outcome:
    """What a command did."""

    status: int
    out: str
    err: str


Run = Callable[..., Outcome]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    """Run a command in this process."""

    def call(*arguments: object) -> Outcome:
        capsys.readouterr()
        status = main([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        return Outcome(status, captured.out, captured.err)

    return call


@pytest.fixture
def budget(tmp_path: Path, run: Run) -> Path:
    """A ledger made by the command."""
    place = tmp_path / "budget.db"
    assert run("ledger", "create", place, "--epsilon", "1", "--delta", "1e-6").status == 0
    return place


@pytest.fixture
def events(tmp_path: Path) -> Path:
    """A thousand rows with a fruit and a number."""
    place = tmp_path / "events.csv"
    place.write_text("fruit,size,n\n" + "".join(f"{'apple' if n % 2 else 'pear'},{n % 100},1\n" for n in range(1000)))
    return place


def test_create_says_what_was_made_and_never_replaces(budget: Path, run: Run) -> None:
    """A ledger is made once; making it again is a bad request."""
    again = run("ledger", "create", budget, "--epsilon", "9", "--delta", "0")
    assert (again.status, again.err) == (2, f"dptally: {budget} already exists; a ledger is never replaced.\n")
    assert Ledger(budget).epsilon == 1
    other = budget.with_name("other.db")
    options = ("--accounting", "tight", "--source", "a", "--source", "b", "--json")
    made = json.loads(run("ledger", "create", other, "--epsilon", "0.5", "--delta", "0", *options).out)
    assert made["epsilon"] == "1/2" and made["accounting"] == "tight" and made["sources"] == ["a", "b"]


def test_a_life_of_a_ledger(budget: Path, events: Path, run: Run, tmp_path: Path) -> None:
    """Publish until the budget is spent, look at it, verify the release against it, and close it."""
    place = tmp_path / "release.parquet"
    paid = ("--ledger", budget, "--ledger-source", "shop", "--ledger-who", "ada", "--quiet")
    done = run("publish", events, "--key", "fruit", *PRIVACY, "-o", place, *paid)
    assert done.status == 0, done.err
    verified = run("verify", place, "--ledger", budget, "--json")
    assert json.loads(verified.out)["entry"] == 1
    assert "as entry 1" in run("verify", place, "--ledger", budget).out
    for _ in range(3):
        assert run("publish", events, "--key", "fruit", *PRIVACY, *paid).status == 0
    refused = run("publish", events, "--key", "fruit", *PRIVACY, *paid)
    assert refused.status == 2 and refused.out == ""
    assert refused.err == (
        "dptally: Budget exceeded: this release needs epsilon 0.25, delta 1e-07; epsilon 0, delta 6e-07 remain.\n"
    )

    shown = json.loads(run("ledger", "show", budget, "--json").out)
    assert shown["remaining"] == {"epsilon": "0", "delta": "3/5000000"} and shown["entries"] == 4
    assert [total["method"] for total in shown["totals"]] == ["basic", "optimal", "tight"]
    assert shown["totals"][0]["epsilon"] == "1" and shown["totals"][2]["epsilon_float"] < 1
    text = run("ledger", "show", budget).out
    assert "Left: epsilon 0, delta 6e-07." in text and "Entries: 4 published." in text

    history = json.loads(run("ledger", "history", budget, "--json").out)
    assert [(entry["entry"], entry["source"], entry["who"], entry["state"]) for entry in history][:1] == [
        (1, "shop", "ada", "published")
    ]
    assert history[0]["epsilon"] == "1/4" and history[0]["mechanism"] == "weighted_sample"
    assert run("ledger", "history", budget).out.splitlines()[0].startswith("entry,time,state,mechanism,epsilon")

    checked = json.loads(run("ledger", "verify", budget, "--json").out)
    assert checked["verified"] and checked["rows"] == 13
    assert run("ledger", "verify", budget, "--head", checked["head"]["hash"]).status == 0
    mistyped = run("ledger", "verify", budget, "--head", "abc")
    assert mistyped.status == 2 and "--head must be a hash of 64 hexadecimal digits, got 'abc'" in mistyped.err
    wrong = run("ledger", "verify", budget, "--head", "0" * 64)
    assert wrong.status == 1 and "cut or rewritten" in wrong.err

    assert json.loads(run("ledger", "close", budget, "--json").out)["closed"]
    assert "is closed already" in run("ledger", "close", budget).err
    assert "Closed: nothing more can be spent." in run("ledger", "show", budget).out
    assert "is closed" in run("publish", events, "--key", "fruit", "--epsilon", "1e-3", "--delta", "1e-9", *paid).err


def test_every_command_spends(budget: Path, events: Path, run: Run, tmp_path: Path) -> None:
    """sanitize, sketch publish, heavy-hitters and quantile pay from the ledger too."""
    sample = tmp_path / "sample.csv"
    sample.write_text("fruit,n\napple,900\n")
    sketch = tmp_path / "s.sketch"
    assert run("sketch", "build", events, "--key", "fruit", "-k", "8", "-o", sketch, "--quiet").status == 0
    small, paid = ("--epsilon", "1/8", "--delta", "1e-8"), ("--ledger", budget, "--quiet")
    part = (*paid, "--ledger-part", "country=it")
    done = [
        run("sanitize", sample, "--key", "fruit", "--count", "n", "--sampling", "ppswor:0.5", *small, *part),
        run("sketch", "publish", sketch, *small, *paid),
        run("heavy-hitters", events, "--key", "fruit", *small, "--levels", "1", *paid),
        run(
            "quantile",
            events,
            "--value",
            "size",
            "--low",
            "0",
            "--high",
            "99",
            "--epsilon",
            "1/8",
            "--delta",
            "1e-8",
            *paid,
        ),
    ]
    assert [outcome.status for outcome in done] == [0, 0, 0, 0], [outcome.err for outcome in done]
    entries = Ledger(budget).history()
    assert [entry.spending.mechanism for entry in entries] == [
        "sanitized_sample",
        "misra_gries",
        "trie_heavy_hitters",
        "sample_and_threshold_tree",
    ]
    assert (entries[0].partitioning, entries[0].part) == ("country", "it")
    assert {entry.state for entry in entries} == {"published"}


def test_bad_requests(budget: Path, events: Path, run: Run, tmp_path: Path) -> None:
    """One sentence each, and exit status 2 for requests, 1 for damaged files."""
    ask = ("publish", events, "--key", "fruit", *PRIVACY)
    for options, status, words in (
        (("--ledger", tmp_path / "none.db"), 2, "does not exist"),
        (("--ledger-who", "ada"), 2, "need --ledger"),
        (("--ledger", budget, "--ledger-part", "it"), 2, "must be written as DIVISION=PART"),
        (("--ledger", events), 1, "is not a readable ledger"),
    ):
        outcome = run(*ask, *options)
        assert (outcome.status, outcome.err.count("\n")) == (status, 1) and words in outcome.err
    assert Ledger(budget).history() == []
    place = tmp_path / "free.parquet"
    assert run(*ask, "-o", place, "--quiet").status == 0
    unpaid = run("verify", place, "--ledger", budget)
    assert unpaid.status == 1 and "made without one" in unpaid.err


def test_a_second_opinion(budget: Path, run: Run, events: Path) -> None:
    """With --numerical the total of dp-accounting is shown beside the others."""
    pytest.importorskip("dp_accounting")
    assert run("publish", events, "--key", "fruit", *PRIVACY, "--ledger", budget, "--quiet").status == 0
    shown = json.loads(run("ledger", "show", budget, "--numerical", "--json").out)
    assert shown["numerical_delta"] == pytest.approx(shown["totals"][2]["delta_float"], rel=1e-3, abs=1e-11)
    assert "dp-accounting, not proved" in run("ledger", "show", budget, "--numerical").out
