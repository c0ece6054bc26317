"""The command ``heavy-hitters``."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import dptally
from tests.cli.conftest import MARKER, PRIVACY, Run

FRUIT = ("--key", "fruit", *PRIVACY)


def test_writes_a_tree(tmp_path: Path, events: Path, run: Run) -> None:
    """With -o a file is written that loads and verifies; the guarantee is printed, and no rare key."""
    place = tmp_path / "tree.parquet"
    done = run("heavy-hitters", events, *FRUIT, "--unit", "user", "--levels", "1,3,5", "-o", place)
    assert done.status == 0
    assert "all rows of one 'user'" in done.out and "3 rounds of sampling" in done.out
    tree = dptally.load(place, dptally.PrefixTree)
    tree.verify()
    assert set(tree.frequencies()) == {"apple", "pear", "plum"}
    assert MARKER not in done.out + done.err


def test_csv_into_a_pipe(events: Path, run: Run) -> None:
    """Without -o the table is CSV, and the rest goes to standard error."""
    done = run("heavy-hitters", events, *FRUIT, "--levels", "2", "--step", "3", "--domain", "utf8")
    assert done.out.splitlines()[0] == "prefix,level,whole,value,estimate,lower,upper"
    assert any(line.startswith("apple,2,true,") for line in done.out.splitlines())
    assert "prefixes released" in done.err


def test_json(tmp_path: Path, events: Path, run: Run) -> None:
    """--json prints one value with plan, promise and rows."""
    done = run(
        "heavy-hitters", events, *FRUIT, "--levels", "2", "--step", "5", "--single-round", "--json",
        "--not-private-seed", "1",
    )  # fmt: skip
    facts = json.loads(done.out)
    assert facts["plan"]["single_round"] is True and facts["private"] is False
    assert facts["guarantee_text"].startswith("NOT PRIVATE")
    assert {row["prefix"] for row in facts["rows"] if row["whole"]} == {"apple", "pear", "plum"}
    assert facts["output"] is None


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--levels", "few"), "--levels must be a number"),
        (("--levels", "3,1"), "lengths that grow"),
        (("--domain", "bits"), "width must be given"),
        (("--step", "x"), "must be a whole number"),
        (("--levels", "2", "-o", "tree.csv"), "-o writes a Parquet file"),
    ],
)
def test_bad_requests(events: Path, run: Run, options: tuple[str, ...], message: str) -> None:
    """A request that cannot be met is refused in one sentence with status 2."""
    done = run("heavy-hitters", events, *FRUIT, *options)
    assert done.status == 2 and message in done.err and not done.out
