"""Sums, means and totals at the shell: what is written, printed, explained, planned and refused."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest

import dptally
from tests.cli.conftest import Run

PRIVACY = ("--epsilon", "8", "--delta", "1e-6")
ASKED = ("--sum", "amount:0..10", "--mean", "rating:-1..5", "--totals")


@pytest.fixture(scope="module")
def sales(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """400 units that bought two products, and one of their own."""
    rows = [
        (unit, product, 4.0, 3.0, place)
        for unit in range(400)
        for product, place in (("tea", "a"), ("rice", "b"), (f"own {unit}", "b"))
    ]
    place = tmp_path_factory.mktemp("sales") / "sales.csv"
    columns = ["who", "product", "amount", "rating", "place"]
    pl.DataFrame(rows, schema=columns, orient="row").write_csv(place)
    return place


def test_a_group_by_at_the_shell(tmp_path: Path, sales: Path, run: Run) -> None:
    """Written, verified, shown and added up; JSON and CSV have the columns of sums and means."""
    place = tmp_path / "r.parquet"
    told = ("publish", sales, "--key", "place", "--key", "product", "--unit", "who", "--max-keys-per-unit", "2")
    done = run(*told, *PRIVACY, *ASKED, "--type", "amount=decimal(9,2)", "-o", place)
    assert done.status == 0, done.err
    assert "It covers the choice of keys, counts, 2 clipped sums and means and totals together." in done.out
    assert run("verify", place).status == 0
    printed = run("top", place, "-n", "5", "--json")
    rows = json.loads(printed.out)
    assert "sum_amount_lower" in printed.out and rows
    assert run("top", place).out.splitlines()[0].endswith("mean_rating,mean_rating_lower,mean_rating_upper")
    assert "sum_amount" in run("show", place).out
    added = run("sum", place)
    assert "All pairs that were counted, released or not, add up to" in added.out
    estimate, lower, upper = json.loads(run("sum", place, "--json").out)["total"]
    assert lower <= estimate <= upper
    bounded = "after bounding to at most 2 keys per 'who'"
    assert bounded in added.err and bounded in run("top", place).err and bounded in run("count", place, "a", "tea").err
    assert dptally.load(place).by("place").get_column("keys").to_list() == [1, 1]
    page = tmp_path / "r.html"
    assert run("report", place, "-o", page).status == 0
    assert "Sums, means and totals" in page.read_text() and "privacy units" in page.read_text()


def test_shares_and_noise_are_explained_and_planned(sales: Path, run: Run) -> None:
    """--explain and plan say what each part gets and how far off it is."""
    asked = ("publish", sales, "--key", "product", "--unit", "who", *PRIVACY, *ASKED, "--share", "selection=0.5")
    done = run(*asked, "--explain")
    assert done.status == 0 and "Shares of the budget: selection 50 %, counts" in done.out
    assert "Deviation of the noise" in done.out and "mean_rating" in done.out
    planned = run("plan", *PRIVACY, "--max-keys-per-unit", "2", *ASKED, "--no-chart")
    assert planned.status == 0 and "Deviation of the noise, where 2 found keys" in planned.out


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (("--sum", "amount"), "--sum must be COLUMN:LOW..HIGH"),
        (("--sum", "amount:5"), "dptally quantile of the column, with the same ledger, finds one privately"),
        (("--sum", "amount:5..1"), "from a smaller to a larger number"),
        (("--mean", "a:0..1", "--mean", "a:0..2"), "--mean names column 'a' twice"),
        (("--totals", "--share", "counts"), "--share must be PART=SHARE"),
        (("--count", "rows"), "--max-rows-per-unit-and-key is missing"),
        (("--totals", "--mechanism", "stability"), "need the mechanism 'rounds'"),
    ],
)
def test_refusals(sales: Path, run: Run, options: tuple[str, ...], told: str) -> None:
    """One sentence, status 2, also with --explain."""
    for more in ((), ("--explain",)):
        done = run("publish", sales, "--key", "product", "--unit", "who", *PRIVACY, *options, *more)
        assert done.status == 2 and told in done.err, done.err
