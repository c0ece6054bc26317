"""A million events over Zipf(1) keys: as many keys as the optimum allows, and values from the same budget."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray

import dptally
from dptally.laws.weighted_sample import WeightedSample
from dptally.randomness import SeededBits
from tests.exact.reference import optimal_probabilities


@pytest.fixture(scope="module")
def frequencies() -> NDArray[np.int64]:
    """10^6 draws from 10^5 keys with chances proportional to 1/rank; about 80,700 keys occur."""
    chances = 1 / np.arange(1, 100_001)
    drawn = np.random.default_rng(1).multinomial(10**6, chances / chances.sum())
    return drawn[drawn > 0].astype(np.int64)


@pytest.mark.parametrize(
    ("epsilon", "keys", "error"), [("1", 6394, 0.88), ("0.1", 772, 10.5)], ids=["epsilon 1", "epsilon 0.1"]
)
def test_expected_keys_and_error(frequencies: NDArray[np.int64], epsilon: str, keys: int, error: float) -> None:
    """Expected keys equal the optimum for the data, near the known figures; so is the mean error of `estimate`.

    The known figures belong to another draw of the same population, hence 2 % of tolerance on them.
    """
    law = WeightedSample(epsilon, "1e-6")
    counts = np.bincount(np.minimum(frequencies, law.width), minlength=law.width + 1)
    expected = sum(int(counts[i]) * law.reporting_probability(i) for i in range(1, law.width + 1))
    best = [Fraction(0), *optimal_probabilities(law.epsilon, law.delta)]
    optimum = sum(int(counts[i]) * best[min(i, len(best) - 1)] for i in range(1, law.width + 1))
    assert abs(expected - optimum) < Fraction(1, 2**20)
    assert abs(float(expected) - keys) < 0.02 * keys

    missed = sum(
        int(counts[i]) * sum(p * abs(value + law.likely_drop - i) for value, p in law.row(i).items() if value)
        for i in range(1, law.width + 1)
    )
    assert abs(float(missed / expected) - error) < 0.02 * error


def test_publish_releases_what_was_expected(frequencies: NDArray[np.int64]) -> None:
    """One seeded release through the public call has the expected number of keys, within 6 standard deviations."""
    release = dptally.publish(
        {f"key {rank}": int(count) for rank, count in enumerate(frequencies)},
        epsilon="1",
        delta="1e-6",
        randomness=SeededBits(3),
    )
    chances = np.array([float(release.law.reporting_probability(int(count))) for count in np.minimum(frequencies, 28)])
    assert abs(len(release) - chances.sum()) < 6 * np.sqrt((chances * (1 - chances)).sum())
    assert not release.guarantee.private
