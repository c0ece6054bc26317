"""Draws of rounds follow the tables that were certified."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from dptally.laws.key_rounds import KeyRounds
from dptally.laws.round_stages import CountLaw, ReportingLaw, SizeLaw
from dptally.laws.rounds_plan import plan_for
from dptally.laws.tables.reporting_curve import Shape, Weights, propose
from dptally.randomness import SeededBits
from tests.statistical.checks import FALSE_ALARM, Z_LIMIT, chi_square_pvalue

DRAWS = 200_000
WEIGHTS = Weights(2, 6, 4)


def law() -> ReportingLaw:
    """A law of the builder, with chances of every size."""
    return ReportingLaw(WEIGHTS, propose(WEIGHTS, Shape(6, 0.8, 0.01)).table())


def reported(drawn: np.ndarray, chance: Fraction) -> float:  # type: ignore[type-arg]
    """P-value of how often ones were drawn."""
    return float(stats.binomtest(int(drawn.sum()), len(drawn), float(chance)).pvalue)


@pytest.mark.parametrize("share", [0.0, 0.2, 0.4, 0.6, 0.8, 1.0])
def test_keys_are_reported_as_often_as_the_table_says(share: float) -> None:
    """200,000 seeded draws at each of six sums pass a binomial test at false-alarm rate 1e-6."""
    made = law()
    total = WEIGHTS.multiple + round(share * (made.certain - 1 - WEIGHTS.multiple))
    drawn = made.draw(np.full(DRAWS, total, dtype=np.int64), SeededBits(total))
    assert set(drawn.tolist()) <= {0, 1} and reported(drawn, made.chance(total)) > FALSE_ALARM


@pytest.mark.parametrize("off", [-1, 1])
def test_a_sampler_that_is_off_by_one_weight_is_noticed(off: int) -> None:
    """The wrong sampler reads the entry of the next or the last sum: rejected at a false-alarm rate of 1e-6."""
    made = law()
    total = next(place for place in range(made.certain) if made.chance(place) >= Fraction(1, 4))
    wrong = made.draw(np.full(DRAWS, total + off, dtype=np.int64), SeededBits(8))
    assert reported(wrong, made.chance(total)) < FALSE_ALARM


def test_a_sampler_of_one_word_is_noticed_by_its_entries() -> None:
    """The wrong sampler compares the low words alone; the chance is then another one and is rejected."""
    made = law()
    total = next(place for place in range(made.certain) if made.chance(place) >= Fraction(1, 4))
    words = SeededBits(9).words(2 * DRAWS).reshape(-1, 2)
    entry = int(made.chance(total) * (1 << 128))
    right = words[:, 1] < np.uint64(entry >> 64)
    assert reported(right, made.chance(total)) > FALSE_ALARM
    wrong = words[:, 0] < np.uint64(entry & ((1 << 64) - 1))
    assert reported(wrong, made.chance(total)) < FALSE_ALARM or abs((entry % (1 << 64)) / 2**64 - 0.25) < 0.02


def test_keys_are_independent() -> None:
    """Draws next to each other agree as often as independent ones, within the limit for rate 1e-6."""
    made = law()
    total = next(place for place in range(made.certain) if made.chance(place) >= Fraction(1, 2))
    drawn = made.draw(np.full(DRAWS, total, dtype=np.int64), SeededBits(3))
    chance = float(made.chance(total))
    both, expected = int((drawn[:-1] & drawn[1:]).sum()), chance**2 * (DRAWS - 1)
    spread = np.sqrt((DRAWS - 1) * (chance**2 * (1 - chance**2) + 2 * (chance**3 - chance**4)))
    assert abs(both - expected) < Z_LIMIT * spread
    assert abs(int(drawn[1:].sum()) - expected) > Z_LIMIT * spread  # one draw for two keys


@pytest.mark.parametrize("count", [0, 3, 400])
def test_counts_follow_their_row(count: int) -> None:
    """200,000 seeded values pass a chi-square test at rate 1e-6; noise that is a tenth smaller does not."""
    plan = plan_for(Fraction(4), Fraction(1, 100), values=True, bound=2)
    laws = [
        plan.count_law(2) if stage.kind == "counts" else plan.round_law(place, Weights.between(2, 2))
        for place, stage in enumerate(plan.stages)
    ]
    made = KeyRounds(Fraction(4), Fraction(1, 100), plan.scale, plan.declared, laws)
    noise = made.counts
    assert isinstance(noise, CountLaw)

    def row(given: CountLaw) -> dict[int, float]:
        found: dict[int, float] = {}
        before = 0
        for drop, here in enumerate(given.cumulative):
            value = max(1, count + given.reach - drop)
            found[value] = found.get(value, 0.0) + (here - before) / 2**128
            before = here
        return found

    drawn, times = np.unique(made.draw(np.full(DRAWS, count), SeededBits(count)), return_counts=True)
    seen = dict(zip(drawn.tolist(), times.tolist(), strict=True))
    assert chi_square_pvalue(seen, row(noise), DRAWS) > FALSE_ALARM
    if count:
        assert chi_square_pvalue(seen, row(CountLaw(noise.sigma * 9 / 10, 2, noise.reach)), DRAWS) < FALSE_ALARM


def test_noise_on_sizes_is_geometric() -> None:
    """200,000 noisy counts of a bin pass a chi-square test at rate 1e-6; a loss that is a tenth larger does not."""
    made, centre = SizeLaw(Fraction(1, 2)), 100
    drawn = np.array(made.draw(np.full(DRAWS, centre, dtype=np.int64), SeededBits(4))) - centre
    found, times = np.unique(drawn, return_counts=True)
    seen = dict(zip(found.tolist(), times.tolist(), strict=True))

    def row(ratio: float) -> dict[int, float]:
        return {value: (1 - ratio) / (1 + ratio) * ratio ** abs(value) for value in range(-centre, 20 * centre)}

    assert chi_square_pvalue(seen, row(float(made.stage.ratio)), DRAWS) > FALSE_ALARM
    assert chi_square_pvalue(seen, row(float(SizeLaw(Fraction(11, 20)).stage.ratio)), DRAWS) < FALSE_ALARM
    assert min(made.draw(np.zeros(1000, dtype=np.int64), SeededBits(5))) < 0  # not cut, which would favour sizes
