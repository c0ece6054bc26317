"""Statistics of many seeded releases agree with the exact bias, variance and order of the law."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from scipy import stats
from studies.baselines.inverse_probability import estimate_sum_from_sample, inverse_probability_accuracy

import dptally
from dptally.estimates.accuracy import population_accuracy
from dptally.estimates.functions import frequency_function
from dptally.estimates.order_statistics import expected_kendall_tau
from dptally.laws.sampling_schemes import Ppswor, Priority, Scheme
from dptally.laws.weighted_sample import WeightedSample
from dptally.randomness import SeededBits
from tests.statistical.checks import FALSE_ALARM, Z_LIMIT, mean_z

RELEASES = 1000
POPULATION = {1: 60, 2: 50, 3: 40, 5: 40, 8: 30, 12: 30, 20: 20, 35: 20, 60: 10}
FREQUENCIES = np.repeat(list(POPULATION), list(POPULATION.values())).astype(np.int64)
SCHEMES: list[tuple[Scheme | None, int]] = [(None, 1), (Priority("0.05"), 1), (Ppswor("0.1"), 4)]


def law_of(scheme: Scheme | None, sub_tokens: int, delta: object = "0.01") -> WeightedSample:
    """The law under test, or one with another delta."""
    return WeightedSample("1", delta, scheme, sub_tokens=sub_tokens)


def estimates(law: WeightedSample, weigh: Any) -> list[float]:
    """Estimates of the sum from 1,000 releases, each drawn with its own seed."""
    found = []
    for seed in range(RELEASES):
        drawn = law.draw(FREQUENCIES, SeededBits(seed))
        found.append(float(weigh.weights(drawn[drawn > 0]).sum()))
    return found


def fourth_cumulant(law: WeightedSample, weigh: Any) -> float:
    """Of the estimated sum, exactly from the rows: fourth cumulants of independent keys add up."""
    total = 0.0
    for frequency, keys in POPULATION.items():
        row = law.row(frequency)
        parts = [
            (float(weigh(value)) if value is not None and chance else 0.0, float(chance))
            for value, chance in row.items()
        ]
        mean = sum(part * chance for part, chance in parts)
        second, fourth = (sum(chance * (part - mean) ** power for part, chance in parts) for power in (2, 4))
        total += keys * (fourth - 3 * second**2)
    return total


def variance_pvalue(samples: Sequence[float], mean: float, variance: float, cumulant: float) -> float:
    """Two-sided p-value of the mean squared distance from a known mean.

    Divided by the variance, it has expectation 1 and variance (2 + excess kurtosis) / n; its law is taken to be the
    chi-square law with the same two moments, as for normal samples; sums over hundreds of keys are nearly normal.
    """
    ratio = float(np.mean((np.array(samples) - mean) ** 2)) / variance
    freedom = 2 * len(samples) / (2 + cumulant / variance**2)
    return float(2 * min(stats.chi2.cdf(freedom * ratio, freedom), stats.chi2.sf(freedom * ratio, freedom)))


@pytest.mark.parametrize("of", [None, "keys", "power:0.5", "log"])
@pytest.mark.parametrize(("scheme", "sub_tokens"), SCHEMES, ids=str)
def test_releases_have_the_exact_bias_and_variance(scheme: Scheme | None, sub_tokens: int, of: str | None) -> None:
    """1,000 seeded releases of 300 keys: mean and variance pass at rate 1e-6 each; draws with delta doubled fail."""
    law = law_of(scheme, sub_tokens)
    exact = population_accuracy(law, POPULATION, of=of)
    weigh = law.estimator("mle", frequency_function(of))
    mean = exact.truth + exact.bias
    found = estimates(law, weigh)
    assert abs(mean_z(found, mean, exact.variance)) < Z_LIMIT
    assert variance_pvalue(found, mean, exact.variance, fourth_cumulant(law, weigh)) > FALSE_ALARM
    wrong = estimates(law_of(scheme, sub_tokens, Fraction(2, 100)), weigh)
    assert abs(mean_z(wrong, mean, exact.variance)) > Z_LIMIT


@pytest.mark.parametrize(("scheme", "sub_tokens"), SCHEMES, ids=str)
def test_a_wrong_variance_is_noticed(scheme: Scheme | None, sub_tokens: int) -> None:
    """The test of the variance rejects a variance that is 35 % too large and one that is 35 % too small."""
    law = law_of(scheme, sub_tokens)
    exact = population_accuracy(law, POPULATION)
    weigh = law.estimator()
    found, cumulant = estimates(law, weigh), fourth_cumulant(law, weigh)
    for factor in (0.65, 1.35):
        assert variance_pvalue(found, exact.truth + exact.bias, factor * exact.variance, cumulant) < FALSE_ALARM


@pytest.mark.parametrize("scheme", [None, Priority("0.05")], ids=str)
def test_published_sums_have_the_exact_bias_and_variance(scheme: Scheme | None) -> None:
    """Extrapolations of 40 seeded published releases pass a z-test at rate 1e-6; the unbiased mean is rejected."""
    counts = {f"key {place}": int(frequency) for place, frequency in enumerate(FREQUENCIES)}
    found = []
    for seed in range(40):
        release = dptally.publish(counts, epsilon=1, delta="0.01", sampling=scheme, randomness=SeededBits(seed))
        extrapolation = release.sum(kind="mle").extrapolation
        assert extrapolation is not None
        found.append(extrapolation)
    exact = population_accuracy(WeightedSample("1", "0.01", scheme), POPULATION)
    assert abs(mean_z(found, exact.truth + exact.bias, exact.variance)) < Z_LIMIT
    assert abs(mean_z(found, exact.truth, exact.variance)) > Z_LIMIT


@pytest.mark.parametrize(("scheme", "sub_tokens"), SCHEMES, ids=str)
def test_drawn_orders_have_the_expected_correlation(scheme: Scheme | None, sub_tokens: int) -> None:
    """The mean rank correlation of 1,000 seeded releases passes a t-test at rate 1e-6; that of delta 1e-5 fails."""
    law = law_of(scheme, sub_tokens)
    differ = np.triu(FREQUENCIES[None, :] > FREQUENCIES[:, None])
    found = []
    for seed in range(RELEASES):
        drawn = law.draw(FREQUENCIES, SeededBits(seed))
        found.append(float(np.sign(drawn[None, :] - drawn[:, None])[differ].mean()))
    assert stats.ttest_1samp(found, expected_kendall_tau(law, POPULATION)).pvalue > FALSE_ALARM
    other = law_of(scheme, sub_tokens, "1e-5")
    assert stats.ttest_1samp(found, expected_kendall_tau(other, POPULATION)).pvalue < FALSE_ALARM


def test_samples_without_privacy_have_the_stated_variance() -> None:
    """1,000 samples by NumPy's generator: estimates pass z-tests of mean and variance; twice the rate is rejected."""
    scheme = Priority("0.05")
    chances = np.array([float(scheme.bounds(int(frequency), 64)[0]) for frequency in FREQUENCIES])
    generator = np.random.default_rng(3)
    samples = [FREQUENCIES[generator.random(len(chances)) < chances] for _ in range(RELEASES)]
    exact = inverse_probability_accuracy(scheme, POPULATION)
    found = [estimate_sum_from_sample(sample, scheme).estimate for sample in samples]
    assert abs(mean_z(found, exact.truth, exact.variance)) < Z_LIMIT
    cumulant = float(np.sum((FREQUENCIES / chances) ** 4 * chances * (1 - chances) * (1 - 6 * chances * (1 - chances))))
    assert variance_pvalue(found, exact.truth, exact.variance, cumulant) > FALSE_ALARM
    wrong = [estimate_sum_from_sample(sample, Priority("0.1")).estimate for sample in samples]
    assert abs(mean_z(wrong, exact.truth, exact.variance)) > Z_LIMIT
