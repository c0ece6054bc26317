"""Budgets that renew: a period's budget is drawn on by releases that read its rows, and by nothing else."""

from __future__ import annotations

import datetime
import sqlite3
from fractions import Fraction
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import dptally
from dptally.errors import BudgetExceeded, InvalidParameter, UnreadableLedger
from dptally.exact.exponential import exp_bounds
from dptally.ledger.history import EACH_ROW
from dptally.ledger.renewal import Interval, Renewal
from dptally.privacy.spending import Spending
from dptally.sources.intervals import read_filter_for

DAYS = [datetime.date(2026, 10, 1) + datetime.timedelta(days=i) for i in range(92)]
ROWS = pl.DataFrame({
    "k": ["a"] * 92 * 20,
    "u": [f"u{i % 500}" for i in range(92 * 20)],
    "day": [day for day in DAYS for _ in range(20)],
})  # fmt: skip
ASKED: dict[str, Any] = {"key": "k", "epsilon": "1", "delta": "1e-6"}


@pytest.fixture
def ledger(tmp_path: Path) -> dptally.Ledger:
    """A budget of (1, 1e-6) for each month."""
    return dptally.Ledger(tmp_path / "months.db", epsilon=1, delta="1e-6", renew="month", time_column="day")


def spent(ledger: dptally.Ledger) -> dict[str, tuple[Fraction, Fraction]]:
    """What remains of each month that something was spent on."""
    return {part: ledger.remaining("month", part) for _, part in ledger.parts()}


def test_each_month_has_its_budget(ledger: dptally.Ledger) -> None:
    """A month that is used up refuses, and the next one does not, whatever the date of the release is."""
    november: dict[str, Any] = {"since": "2026-11-01", "until": "2026-12-01", "time_column": "day"}
    release = dptally.publish(ROWS, unit="u", max_keys_per_unit=1, ledger=ledger, **ASKED, **november)
    assert release.guarantee.where is not None and "2026-12-01" in release.guarantee.where
    assert spent(ledger) == {"2026-11": (0, 0)}
    for same in ("day = DATE '2026-11-15'", "day >= '2026-11-30' AND day < DATE '2026-12-01'"):
        with pytest.raises(BudgetExceeded):
            dptally.publish(ROWS, unit="u", max_keys_per_unit=1, ledger=ledger, where=same, **ASKED)
    dptally.publish(
        ROWS, unit="u", max_keys_per_unit=1, ledger=ledger, **ASKED, where="day BETWEEN '2026-12-01' AND '2026-12-31'"
    )
    assert spent(ledger) == {"2026-11": (0, 0), "2026-12": (0, 0)}
    assert ledger.find(release.guarantee).part == "2026-11"
    assert ledger.fitting() == 0
    again = dptally.Ledger(ledger.path)
    assert again.renewal == Renewal("month", "day") and spent(again) == spent(ledger)


def test_releases_must_say_what_they_read(ledger: dptally.Ledger) -> None:
    """Without both ends of an interval of the right column nothing is spent; other parts are refused."""
    other: dict[str, Any] = {"since": "2026-11-01", "until": "2026-12-01", "time_column": "date"}
    for given in (
        {}, {"where": "k = 'a'"}, {"where": "day >= DATE '2026-11-01'"},
        {"where": "day = DATE '2026-11-01' OR k = 'a'"},
        {"since": "2026-11-01", "time_column": "day"}, other, {"where": "NOT day = DATE '2026-11-01'"},
    ):  # fmt: skip
        with pytest.raises(InvalidParameter, match="this ledger renews every month of 'day'"):
            dptally.publish(ROWS.with_columns(date="day"), ledger=ledger, **ASKED, **given)
    with pytest.raises(InvalidParameter, match="this ledger renews every month"):
        dptally.publish({"a": 5}, epsilon=1, delta="1e-6", ledger=ledger)
    with pytest.raises(InvalidParameter, match="takes no other parts"):
        account = ledger.account(partitioning="country", part="is")
        dptally.publish(ROWS, ledger=account, where="day = DATE '2026-11-01'", **ASKED)
    assert ledger.history() == []


def test_the_interval_is_enforced(tmp_path: Path) -> None:
    """A condition that reads a column otherwise than the ledger does cannot read rows of another month."""
    rows = pl.DataFrame({"k": ["a"] * 500 + ["b"] * 500, "day": ["2026-11-05"] * 500 + ["2026-1-05"] * 500})
    path = tmp_path / "months.db"
    ledger = dptally.Ledger(path, epsilon=10, delta="1e-3", renew="month", time_column="day")
    text = "day >= '2026-09-01' AND day < '2026-12-01'"  # as text, "2026-1-05" is in between, and as a time it is none
    plain = dptally.publish(rows, where=text, **ASKED)
    assert plain.table().get_column("k").to_list() == ["a", "b"]
    bound = dptally.publish(rows, where=text, ledger=ledger, **ASKED)
    assert bound.table().get_column("k").to_list() == ["a"]
    assert [entry.part for entry in ledger.history()] == ["2026-09/2026-11"]


@pytest.mark.parametrize("unit", [None, "u"])
def test_several_months(unit: str | None, tmp_path: Path) -> None:
    """Each month pays: what is stated if rows are units, two steps of group privacy if a unit stays with other rows."""
    ledger = dptally.Ledger(tmp_path / "m.db", epsilon=10, delta="1e-3", renew="month", time_column="day")
    both: dict[str, Any] = {"since": "2026-10-31", "until": "2026-11-02", "time_column": "day"}
    dptally.publish(ROWS, unit=unit, max_keys_per_unit=1, ledger=ledger, **ASKED, **both)
    assert set(spent(ledger)) == {"2026-10", "2026-11"}
    low, high = exp_bounds(Fraction(1), 40)
    for month in ("2026-10", "2026-11"):
        epsilon, delta = spent(ledger)[month]
        assert 10 - epsilon == (1 if unit is None else 2)
        paid = (Fraction(1, 1000) - delta) * 10**6
        assert paid == 1 if unit is None else 1 + low <= paid <= 1 + high


def test_a_month_used_up_stops_all_of_them(ledger: dptally.Ledger) -> None:
    """A release over months is refused if one of them has too little left, and draws on none."""
    dptally.publish(ROWS, ledger=ledger, where="day = DATE '2026-11-03'", **ASKED)
    with pytest.raises(BudgetExceeded):
        dptally.publish(ROWS, ledger=ledger, where="day BETWEEN '2026-10-05' AND '2026-11-05'", **ASKED)
    assert set(spent(ledger)) == {"2026-11"}


def test_failures_stay_spent_and_can_be_taken_back(ledger: dptally.Ledger) -> None:
    """A process that dies leaves all months of its release spent; the owner takes all of them back at once."""
    spending = Spending("weighted_sample", Fraction(1, 4), Fraction(1, 10**7))
    interval = Interval("day", datetime.datetime(2026, 10, 1), datetime.datetime(2026, 12, 1))
    ledger.reserve(spending, unit=EACH_ROW, interval=interval)
    again = dptally.Ledger(ledger.path)  # as after a crash
    assert {month: left[0] for month, left in spent(again).items()} == {
        "2026-10": Fraction(3, 4), "2026-11": Fraction(3, 4)
    }  # fmt: skip
    again.void(1, reason="the process was killed")
    assert spent(again) == {} and spent(dptally.Ledger(ledger.path)) == {}
    assert again.verify()[0] == 2


def test_periods() -> None:
    """The end is not included, and names of periods are read back as they were written."""
    at = datetime.datetime
    for period, since, until, part, count in (
        ("month", at(2026, 11, 1), at(2026, 12, 1), "2026-11", 1),
        ("month", at(2026, 11, 30, 23), at(2026, 12, 1, 0, 0, 0, 1), "2026-11/2026-12", 2),
        ("month", at(2025, 12, 5), at(2027, 2, 1), "2025-12/2027-01", 14),
        ("day", at(2026, 2, 28), at(2026, 3, 2), "2026-02-28/2026-03-01", 2),
        ("year", at(2026, 1, 1), at(2027, 1, 1), "2026", 1),
    ):
        renewal, spending = Renewal(period, "t"), Spending("release", Fraction(1), Fraction(0))
        assert renewal.part(Interval("t", since, until)) == part
        drawn = renewal.drawn(part, EACH_ROW, spending)
        assert len(drawn) == count and {amount for _, amount in drawn} == {spending}
    with pytest.raises(InvalidParameter, match="at most 4,000 periods"):
        Renewal("day", "t").part(Interval("t", at(2000, 1, 1), at(2026, 1, 1)))
    for damaged in ("2026-13", "2026-11/2026-11", "2026-12/2026-11", "11-2026", "", "2026-1"):
        with pytest.raises(ValueError, match=""):
            Renewal("month", "t").drawn(damaged, EACH_ROW, Spending("release", Fraction(1), Fraction(0)))


def test_other_ledgers_stay_as_they_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A ledger without renewal has the format it had, and earlier versions refuse one with it."""
    plain, renewing = tmp_path / "plain.db", tmp_path / "renewing.db"
    dptally.Ledger(plain, epsilon=1, delta=0)
    dptally.Ledger(renewing, epsilon=1, delta=0, renew="year", time_column="t").disconnect()
    versions = []
    for path in (plain, renewing):
        with sqlite3.connect(path) as connection:
            versions.append(connection.execute("PRAGMA user_version").fetchone()[0])
        connection.close()
    assert versions == [2, 3]
    monkeypatch.setattr("dptally.ledger.storage.READABLE", (1, 2))
    with pytest.raises(UnreadableLedger, match="format version 3"):
        dptally.Ledger(renewing)


def test_what_cannot_renew(tmp_path: Path) -> None:
    """Each refusal says what is missing or cannot be changed."""
    path = tmp_path / "m.db"
    budget: dict[str, Any] = {"epsilon": 1, "delta": 0}
    cases: tuple[tuple[dict[str, Any], str], ...]
    cases = (
        ({"renew": "week", "time_column": "t"}, "renew must be one of day, month, year"),
        ({"renew": "month"}, "needs time_column"),
        ({"time_column": "t"}, "time_column is for budgets that renew"),
    )
    for given, said in cases:
        with pytest.raises(InvalidParameter, match=said):
            dptally.Ledger(path, **budget, **given)
    dptally.Ledger(path, **budget)
    with pytest.raises(InvalidParameter, match="does not renew like this"):
        dptally.Ledger(path, renew="month", time_column="t")


def test_without_renewal_intervals_change_nothing(tmp_path: Path) -> None:
    """A ledger that does not renew takes filters as they are, and its filter is not widened by it."""
    ledger = dptally.Ledger(tmp_path / "b.db", epsilon=1, delta="1e-6")
    found = read_filter_for(ledger, "day = DATE '2026-11-03'")
    assert found is not None and found.interval is None
    dptally.publish(ROWS, ledger=ledger, where="day = DATE '2026-11-03'", **ASKED)
    assert ledger.remaining() == (0, 0)
