"""Draws of the compiled sampler follow the law they were certified for."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction

import numpy as np
import pytest

from dptally.laws.weighted_sample import WeightedSample
from dptally.randomness import BitSource, SeededBits, SystemBits
from tests.statistical.checks import FALSE_ALARM, Z_LIMIT, chi_square_pvalue, mean_z

DRAWS = 400_000
SETTINGS = [("1", "0.01"), ("0.3", "0.05"), ("2", "0.001")]


def pvalue(drawn_from: WeightedSample, law: WeightedSample, frequency: int, bits: BitSource) -> float:
    """P-value of draws from one law under another one."""
    drawn = drawn_from.draw(np.full(DRAWS, frequency, dtype=np.int64), bits)
    observed = Counter(value or None for value in drawn.tolist())
    return chi_square_pvalue(observed, {value: float(chance) for value, chance in law.row(frequency).items()}, DRAWS)


def frequencies(law: WeightedSample) -> list[int]:
    """Rare, in the middle, always reported, and huge."""
    return [1, law.width // 2, law.width, 2**62]


@pytest.mark.parametrize("values", [True, False])
@pytest.mark.parametrize(("epsilon", "delta"), SETTINGS)
def test_draws_follow_the_law(epsilon: str, delta: str, values: bool) -> None:
    """400,000 seeded draws for each of four frequencies pass a chi-square test at false-alarm rate 1e-6."""
    law = WeightedSample(epsilon, delta, values=values)
    for frequency in frequencies(law):
        assert pvalue(law, law, frequency, SeededBits(frequency % 1000)) > FALSE_ALARM


@pytest.mark.parametrize(("epsilon", "delta"), SETTINGS)
def test_twice_the_delta_is_noticed(epsilon: str, delta: str) -> None:
    """Draws from the law with delta doubled are rejected, at frequency 1 and at a frequency that is always reported."""
    law = WeightedSample(epsilon, delta)
    wrong = WeightedSample(epsilon, Fraction(delta) * 2)
    for frequency in (1, max(law.width, wrong.width)):
        assert pvalue(wrong, law, frequency, SeededBits(7)) < FALSE_ALARM


def test_sums_have_the_exact_bias_and_variance() -> None:
    """The mean of 20,000 seeded estimates lies within the limit for false-alarm rate 1e-6 of its exact expectation."""
    law = WeightedSample("1", "0.01")
    weigh = law.estimator("mle")
    for frequency in (2, 5, 30):
        drawn = law.draw(np.full(20_000, frequency, dtype=np.int64), SeededBits(11))
        estimates = np.where(drawn > 0, weigh.weights(np.maximum(drawn, 1)), 0.0)
        z = mean_z(estimates.tolist(), float(weigh.expectation(frequency)), float(weigh.variance(frequency)))
        assert abs(z) < Z_LIMIT
        wrong = mean_z(estimates.tolist(), float(weigh.expectation(frequency + 1)), float(weigh.variance(frequency)))
        assert abs(wrong) > Z_LIMIT


@pytest.mark.slow
def test_draws_with_fresh_bits_follow_the_law() -> None:
    """The same chi-square tests with secret bits of the system; fails once in 40,000 runs when all is well."""
    for epsilon, delta in SETTINGS:
        law = WeightedSample(epsilon, delta)
        for frequency in frequencies(law):
            for _ in range(2):
                assert pvalue(law, law, frequency, SystemBits()) > FALSE_ALARM
