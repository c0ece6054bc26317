"""Bounds of ranges, shares and quantiles are exceeded no more often than stated.

Runs are seeded. With a true rate of misses of at most 1 - confidence, the number of misses in a run of tests exceeds
the limit with probability at most FALSE_ALARM / 100, fewer than 100 limits being looked at.
"""

from __future__ import annotations

import copy

import numpy as np
import pytest
from scipy import stats

from dptally.laws.quantile_search import QuantileAnswer, QuantileRounds
from dptally.privacy.guarantee import Guarantee
from dptally.randomness import SeededBits
from dptally.releases.range_release import RangeRelease
from dptally.universes.grids import make_grid
from tests.mechanisms import RangeHistograms
from tests.statistical.checks import FALSE_ALARM

MISS = 0.1
SHARES = (0.02, 0.5, 0.95)
RANGES = ((0, 255), (3, 3), (10, 200), (100, 131))


def population(kind: str) -> np.ndarray:
    """3,000 units in 256 bins: even, heavy at one end, or in five places."""
    chance = np.random.default_rng(1)
    drawn = {
        "even": chance.random(3000),
        "skewed": np.minimum(chance.lognormal(0, 1, 3000) / 30, 0.999),
        "lumps": chance.choice([0.01, 0.3, 0.5, 0.52, 0.9], 3000),
    }[kind]
    return np.bincount((drawn * 256).astype(int), minlength=256)


def misses(mechanism: str, kind: str, runs: int, *, wrong_rate: bool = False) -> dict[str, int]:
    """How often each question's bounds missed the truth; a wrong sampler draws at a rate that it does not state."""
    grid = make_grid(0, 255)
    counts = population(kind)
    made = RangeHistograms(2, None if mechanism == "dense" else "1e-4", levels=grid.levels, mechanism=mechanism)
    drawn_by = RangeHistograms(1, "1e-4", levels=grid.levels, mechanism=mechanism) if wrong_rate else made
    guarantee = Guarantee(made.epsilon, made.delta, None, 1, mechanism, private=False)
    cumulative = np.cumsum(counts)
    found: dict[str, int] = {}
    for run in range(runs):
        values = drawn_by.draw(counts, grid, SeededBits(run))
        release = RangeRelease(grid, "x", values, guarantee, made.certificate, made.law)
        for low, high in RANGES:
            answer = release.range(low, high, confidence=1 - MISS)
            truth = counts[low : high + 1].sum()
            found[f"range {low}"] = found.get(f"range {low}", 0) + (not answer.lower <= truth <= answer.upper)
        share = release.cdf(99, confidence=1 - MISS)
        found["share"] = found.get("share", 0) + (not share.lower <= cumulative[99] / 3000 <= share.upper)
        for q in SHARES:
            quantile = release.quantile(q, confidence=1 - MISS)
            true = int(np.searchsorted(cumulative, q * 3000))
            missed = not quantile.lower <= true <= quantile.upper  # type: ignore[operator]
            found[f"quantile {q}"] = found.get(f"quantile {q}", 0) + missed
    return found


def limit(runs: int) -> int:
    """The most misses that are no alarm."""
    return int(stats.binom.isf(FALSE_ALARM / 100, runs, MISS))


@pytest.mark.parametrize("kind", ["even", "skewed", "lumps"])
@pytest.mark.parametrize("mechanism", ["sample_and_threshold", "weighted_sample", "dense"])
def test_bounds_hold_as_often_as_stated(mechanism: str, kind: str) -> None:
    """In 60 seeded runs no question's bounds are missed more often than 10 % of runs allow (false alarm 1e-8 each)."""
    assert max(misses(mechanism, kind, 60).values()) <= limit(60)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["even", "skewed", "lumps"])
@pytest.mark.parametrize("mechanism", ["sample_and_threshold", "weighted_sample", "dense"])
def test_bounds_hold_as_often_as_stated_in_a_thousand_runs(mechanism: str, kind: str) -> None:
    """In 1,000 seeded runs no bounds are missed more often than 10 % of runs allow (false alarm 1e-8 each)."""
    assert max(misses(mechanism, kind, 1000).values()) <= limit(1000)


def test_a_sampler_with_another_rate_is_noticed() -> None:
    """Values drawn at the rate of half the epsilon, but stated otherwise, miss the total nearly always."""
    found = misses("sample_and_threshold", "even", 60, wrong_rate=True)
    assert found["range 0"] > limit(60)


@pytest.mark.parametrize("mechanism", ["sample_and_threshold", "weighted_sample", "dense"])
def test_bounds_of_searches_hold_as_often_as_stated(mechanism: str) -> None:
    """In 50 seeded searches of each quantile, bounds are missed no more often than 10 % allow (false alarm 1e-8)."""
    grid, counts = make_grid(0, 255), population("skewed")
    below = np.concatenate([[0], np.cumsum(counts)])
    delta = None if mechanism == "dense" else "1e-4"
    for q in SHARES:
        # Laws are made once; a search is copied before it starts.
        fresh = QuantileRounds(grid, q, epsilon=4, delta=delta, mechanism=mechanism, confidence=1 - MISS)
        true, missed = int(np.searchsorted(below[1:], q * 3000)), 0
        for run in range(50):
            search, bits = copy.copy(fresh), SeededBits(run)
            search._received, search._shares = [], dict(fresh._shares)
            step = search.start()
            while not isinstance(step, QuantileAnswer):
                cells = np.array([below[step.split], 3000 - below[step.split]])
                reported = fresh.law.draw_nodes(cells, bits)
                step = search.receive((int(reported[0]), int(reported[1])))
            missed += not step.lower <= true <= step.upper  # type: ignore[operator]
        assert missed <= limit(50)
