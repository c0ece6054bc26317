"""Draws of the Gaussian sparse histogram follow the table it was certified for."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction

import numpy as np
import pytest

from dptally.laws.gaussian_histogram import GaussianHistogram, noise_masses
from dptally.randomness import SeededBits
from tests.statistical.checks import FALSE_ALARM, Z_LIMIT, chi_square_pvalue, mean_z

DRAWS = 200_000
SETTINGS = [("1", "0.01", 3), ("0.5", "1e-6", 10), ("4", "0.001", 1)]


def observed(law: GaussianHistogram, frequency: int, seed: int) -> Counter[int | None]:
    """How often each value came, None for not reported."""
    drawn = law.draw(np.full(DRAWS, frequency, dtype=np.int64), SeededBits(seed))
    return Counter(value or None for value in drawn.tolist())


def rounded_gaussian_row(sigma: Fraction, law: GaussianHistogram, frequency: int) -> dict[object, float]:
    """The row with noise of another deviation."""
    masses = noise_masses(sigma, law.reach)
    row: dict[object, float] = {}
    for noise in range(-law.reach, law.reach + 1):
        outcome = frequency + noise if frequency + noise >= law.threshold else None
        if not law.values and outcome is not None:
            outcome = 1
        row[outcome] = row.get(outcome, 0.0) + masses[abs(noise)] / 2**128
    return row


@pytest.mark.parametrize("values", [True, False])
@pytest.mark.parametrize(("epsilon", "delta", "keys"), SETTINGS)
def test_draws_follow_the_law(epsilon: str, delta: str, keys: int, values: bool) -> None:
    """200,000 seeded draws for each of four frequencies pass a chi-square test at false-alarm rate 1e-6."""
    law = GaussianHistogram(epsilon, delta, keys, values=values)
    for frequency in (1, law.threshold, law.width, 10**15):
        row: dict[object, float] = {value: float(chance) for value, chance in law.row(frequency).items()}
        assert chi_square_pvalue(observed(law, frequency, frequency % 1000), row, DRAWS) > FALSE_ALARM


@pytest.mark.parametrize("factor", [Fraction(9, 10), Fraction(11, 10)])
@pytest.mark.parametrize(("epsilon", "delta", "keys"), SETTINGS)
def test_noise_ten_per_cent_off_is_noticed(epsilon: str, delta: str, keys: int, factor: Fraction) -> None:
    """The same draws are rejected under the law whose sigma is 10 % smaller or larger; the helper row is right at 1."""
    law = GaussianHistogram(epsilon, delta, keys)
    for frequency in (law.threshold, law.width):
        seen = observed(law, frequency, 5)
        assert chi_square_pvalue(seen, rounded_gaussian_row(law.sigma * factor, law, frequency), DRAWS) < FALSE_ALARM
        assert chi_square_pvalue(seen, rounded_gaussian_row(law.sigma, law, frequency), DRAWS) > FALSE_ALARM


@pytest.mark.parametrize(("epsilon", "delta", "keys"), SETTINGS)
def test_values_have_the_right_mean_and_deviation(epsilon: str, delta: str, keys: int) -> None:
    """Mean and variance of 200,000 seeded values lie within the limit for rate 1e-6; a deviation 2 % larger does not.

    The variance of rounded Gaussian noise is sigma^2 + 1/12 but for terms far below what is seen here.
    """
    law = GaussianHistogram(epsilon, delta, keys)
    noise = law.draw(np.full(DRAWS, 10**6, dtype=np.int64), SeededBits(8)) - 10**6
    spread = sum(float(p) * z**2 for z, p in law.noise_law.items())
    fourth = sum(float(p) * z**4 for z, p in law.noise_law.items())
    if law.sigma > 1:
        assert spread == pytest.approx(float(law.sigma) ** 2 + 1 / 12, rel=1e-6)
    assert abs(mean_z(noise.tolist(), 0.0, spread)) < Z_LIMIT
    assert abs(mean_z((noise**2).tolist(), spread, fourth - spread**2)) < Z_LIMIT
    assert abs(mean_z((noise**2).tolist(), spread * 1.02**2, fourth - spread**2)) > Z_LIMIT
