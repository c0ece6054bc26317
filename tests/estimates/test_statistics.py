"""Intervals of sums, means, totals and roll-ups: how often they hold, in simulated releases with known sums."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from dptally.laws.statistics import FINE, Statistics, read_statistics
from dptally.laws.statistics_law import StatisticsLaw
from dptally.randomness import SeededBits
from dptally.releases.released_statistics import ReleasedStatistics

BETA = Fraction(1, 10)
_SLACK = 5.0  # deviations of a binomial: a false alarm has probability below 3e-7

SETTINGS: dict[str, dict[str, Any]] = {
    "usual": {"sums": {"x": (0, 100)}, "means": {"x": (0, 100)}},
    "from zero": {"sums": {"x": (-1, 1)}},
    "negative": {"sums": {"x": (-50, -40)}, "means": {"x": (-50, -40)}},
    "tiny epsilon": {"sums": {"x": (0, 100)}, "means": {"x": (0, 100)}, "shift": 0.01},
    "large epsilon": {"sums": {"x": (0, 100)}, "means": {"x": (0, 100)}, "shift": 6.0},
    "all clipped": {"sums": {"x": (0, 1)}, "means": {"x": (0, 1)}, "share": 1.0},
    "all at the lower end": {"means": {"x": (0, 1)}, "share": 0.0},
    "all null": {"means": {"x": (0, 1)}, "nulls": 1.0},
    "rows": {"means": {"x": (0, 1)}, "count": "rows", "max_rows_per_unit_and_key": 4},
}


def made(name: str) -> tuple[StatisticsLaw, float, float]:
    """A law, the share of the range that values reach, and the share of units without a value."""
    given = dict(SETTINGS[name])
    shift, share, nulls = given.pop("shift", 0.8), given.pop("share", 0.3), given.pop("nulls", 0.1)
    asked = read_statistics(unit="u", totals=True, combine_rows="average", **given)
    assert asked is not None
    return StatisticsLaw.within(asked, shift, 4, 3, Fraction(1), Fraction(1, 10**6)), share, nulls


def true_sums(law: StatisticsLaw, keys: int, share: float, without: float) -> tuple[dict[str, Any], Any, Any, Any]:
    """Exact sums of keys of 1 to 2,000 units, and what they are in units of the column: count, sum, mean."""
    column = law.asked.columns[0]
    units = np.linspace(1, 2000, keys).astype(np.int64)
    nulls = np.floor(units * without).astype(np.int64)
    value = column.low + (column.high - column.low) * Fraction(share)
    fine = column.fine(value) - column.fine(column.centre)
    sums = {"noisy_count": units, "noisy_units": units, "noisy_rows": 2 * units, "noisy_nulls_0": nulls}
    sums |= {"noisy_values_0": (units - nulls) * fine}
    sums |= {"noisy_all_units": np.array([5000]), "noisy_other": np.array([1234])}
    exact = float(column.centre) + fine * column.step
    return sums, units, exact * (units - nulls), np.full(keys, exact)


def missed(held: Any, rate: float, times: int) -> bool:
    """Whether fewer hold than a rate allows by chance."""
    return float(np.sum(held)) < times * rate - _SLACK * np.sqrt(times * rate * (1 - rate)) - 1


def released(law: StatisticsLaw, sums: dict[str, Any], seed: int) -> ReleasedStatistics:
    """With noise."""
    return ReleasedStatistics(law, law.draw(sums, None, SeededBits(seed)))  # type: ignore[arg-type]


def check_columns(name: str, keys: int) -> None:
    """Intervals of all columns hold as often as is stated, keys of few and of many units alike."""
    law, share, without = made(name)
    sums, units, total, mean = true_sums(law, keys, share, without)
    found = released(law, sums, 7).columns(BETA)
    truths = {"sum_x": total, "mean_x": mean, "units": units}
    for column, truth in truths.items():
        if column in found and not (column == "mean_x" and without == 1):
            held = (found[f"{column}_lower"] <= truth + 1e-6) & (truth <= found[f"{column}_upper"] + 1e-6)
            assert not missed(held, float(1 - BETA), keys), (name, column, float(held.mean()))
            assert (found[f"{column}_lower"] <= found[column]).all()
            assert (found[column] <= found[f"{column}_upper"]).all()
            if column == "sum_x":  # no wider than it must be
                assert held.mean() < 0.97 or name == "large epsilon"


@pytest.mark.parametrize("name", SETTINGS)
def test_intervals_of_keys_hold(name: str) -> None:
    """1,000 keys of each setting, 90 % intervals; rejects intervals of two thirds of the width."""
    check_columns(name, 1000)


def check_groups(name: str, groups: int, size: int) -> None:
    """Intervals of groups of keys hold as often as is stated."""
    law, share, without = made(name)
    sums, units, total, _ = true_sums(law, groups * size, share, without)
    places = np.arange(groups * size) % groups
    counts, columns = released(law, sums, 11).grouped(places, groups, BETA)
    of_counts = 2 * units if law.asked.rows else units
    for bounded, truth in ((counts, of_counts), (None, total)):
        added = np.bincount(places, weights=truth, minlength=groups)
        if bounded is None and "sum_x" not in columns:
            continue
        lower, upper = bounded[1:] if bounded is not None else (columns["sum_x_lower"], columns["sum_x_upper"])
        held = (lower <= added + 1e-6) & (added <= upper + 1e-6)
        assert not missed(held, float(1 - BETA), groups), (name, float(held.mean()))
        assert held.mean() < 0.97 or name == "large epsilon"


@pytest.mark.parametrize("name", ["usual", "from zero", "negative", "large epsilon", "rows"])
def test_intervals_of_roll_ups_hold(name: str) -> None:
    """300 groups of eight keys each, 90 % intervals."""
    check_groups(name, 300, 8)


def check_totals(name: str, times: int) -> None:
    """Intervals of units, pairs and other hold as often as is stated."""
    law, share, without = made(name)
    sums, units, _, _ = true_sums(law, 20, share, without)
    truth = {"units": 5000, "pairs": int(units.sum()) + 1234, "other": 1234}
    held = dict.fromkeys(truth, 0)
    for seed in range(times):
        for row in released(law, sums, 100 + seed).totals(BETA).iter_rows(named=True):
            held[row["name"]] += row["lower"] <= truth[row["name"]] <= row["upper"]
    for part, count in held.items():
        assert not missed(count, float(1 - BETA), times), (name, part, count)
        assert count < times or name == "large epsilon"


@pytest.mark.parametrize("name", ["usual", "tiny epsilon", "rows"])
def test_intervals_of_totals_hold(name: str) -> None:
    """150 simulated releases of each setting."""
    check_totals(name, 150)


@pytest.mark.slow
@pytest.mark.parametrize("name", SETTINGS)
def test_all_intervals_hold_in_many_releases(name: str) -> None:
    """20,000 keys, 2,000 groups and 1,000 releases of each setting."""
    check_columns(name, 20_000)
    check_groups(name, 2000, 10)
    check_totals(name, 1000)


def test_an_empty_release_has_totals() -> None:
    """Without keys, other is all there is."""
    law, _, _ = made("usual")
    nothing = {part.name: np.empty(0, dtype=np.int64) for part in law.of_keys}
    whole = {"noisy_all_units": np.array([40]), "noisy_other": np.array([7])}
    found = ReleasedStatistics(law, {**nothing, **whole}).totals(BETA)
    assert found.get_column("name").to_list() == ["units", "pairs", "other"]
    assert found.get_column("estimate").to_list()[1] == found.get_column("estimate").to_list()[2]


def test_shared_sums() -> None:
    """A sum and a mean of one range come from one noisy sum; other ranges and other rules have their own."""
    asked = read_statistics(sums={"x": (0, 1), "y": (0, 1)}, means={"x": (0, 1)}, unit="u", combine_rows="add")
    assert asked is not None and [column.column for column in asked.columns] == ["x", "y"]
    apart = read_statistics(sums={"x": (0, 1)}, means={"x": (0, 1)}, unit="u")
    assert apart is not None and len(apart.columns) == 2
    assert isinstance(asked, Statistics) and sum(asked.parts.values()) == 1
    assert asked.columns[0].fine(Fraction(1)) - asked.columns[0].fine(asked.columns[0].centre) == FINE
