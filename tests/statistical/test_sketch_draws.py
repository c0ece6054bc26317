"""Draws for sketches follow their laws: own noise, shared noise, and random rounding to a grid."""

from __future__ import annotations

from collections import Counter, defaultdict
from fractions import Fraction
from typing import Any

import numpy as np

from dptally.laws.shared_noise import SharedNoise
from dptally.laws.summed_noise import SummedNoise
from dptally.randomness import SeededBits
from tests.statistical.checks import FALSE_ALARM, Z_LIMIT, chi_square_pvalue, mean_z


def as_floats(law: dict[int | None, Fraction]) -> dict[object, float]:
    """A row for the chi-square test."""
    return {value: float(chance) for value, chance in law.items()}


def test_one_counter_has_both_noises() -> None:
    """8,000 seeded releases of one counter follow the law of L + eta; half the noise is rejected. Rate 1e-6."""
    law, wrong = SharedNoise("0.5", "0.01", 5), SharedNoise("1", "0.01", 5)
    for counter in (0, 8, 100):
        bits = SeededBits(counter)
        drawn = [int(law.draw(np.array([counter]), bits)[0]) or None for _ in range(8000)]
        observed = Counter(drawn)
        assert chi_square_pvalue(observed, as_floats(law.row(counter)), 8000) > FALSE_ALARM
        if counter:
            assert chi_square_pvalue(observed, as_floats(wrong.row(counter)), 8000) < FALSE_ALARM


def test_counters_of_a_release_share_one_noise() -> None:
    """Between counters of one release values correlate by one half; independent ones would not. Rate 1e-6."""
    law = SharedNoise("0.5", "0.01", 5)
    bits = SeededBits(3)
    pairs = np.array([law.draw(np.array([1000, 1000]), bits) - 1000 for _ in range(4000)], dtype=float)
    single = float(sum(chance * z**2 for z, chance in law.noise_law.items()))
    products = (pairs[:, 0] * pairs[:, 1]).tolist()
    spread = float(np.var(products))
    assert abs(mean_z(products, single / 2, spread)) < Z_LIMIT
    assert abs(mean_z(products, 0.0, spread)) > Z_LIMIT


def test_fractions_are_rounded_without_bias() -> None:
    """Counters of 7 and 5/11 have the mixture of the grid points beside them; rounding down is rejected. Rate 1e-6."""
    law = SummedNoise("2", "0.01", 10)
    scaled = 7 * 11 + 5
    drawn = law.draw_scaled(np.full(200_000, scaled, dtype=np.int64), SeededBits(4))
    exact = Fraction(scaled * law.grid, 11)
    low = exact.numerator // exact.denominator
    fine = _noise_on_grid(law)
    expected: dict[Any, Fraction] = defaultdict(Fraction)
    floor_only: dict[Any, Fraction] = defaultdict(Fraction)
    for start, share in ((low, low + 1 - exact), (low + 1, exact - low)):
        for z, chance in fine.items():
            value = (start + z) // law.grid
            expected[value if value >= law.threshold else None] += share * chance
            if start == low:
                floor_only[value if value >= law.threshold else None] += chance
    observed = Counter(value or None for value in drawn.tolist())
    assert chi_square_pvalue(observed, {k: float(v) for k, v in expected.items()}, 200_000) > FALSE_ALARM
    assert chi_square_pvalue(observed, {k: float(v) for k, v in floor_only.items()}, 200_000) < FALSE_ALARM


def test_small_fractions_are_mostly_dropped() -> None:
    """A counter of 1 / (k + 1) is rounded to 0 or one grid step; what is 0 is never reported, whatever the noise."""
    law = SummedNoise("2", "0.3", 10)
    drawn = law.draw_scaled(np.full(100_000, 1, dtype=np.int64), SeededBits(5))
    rounded_up = min(Fraction(law.grid, 11), Fraction(1))
    reported = sum(chance for z, chance in _noise_on_grid(law).items() if 1 + z >= law.threshold * law.grid)
    chance = float(rounded_up * reported)
    assert abs(mean_z((drawn > 0).tolist(), chance, chance * (1 - chance))) < Z_LIMIT
    always = float(reported)
    assert abs(mean_z((drawn > 0).tolist(), always, always * (1 - always))) > Z_LIMIT


def _noise_on_grid(law: SummedNoise) -> dict[int, Fraction]:
    """P[Z = z] in steps of 1 / g, from the table."""
    entries = [int.from_bytes(law.table[at : at + 16], "little") for at in range(0, len(law.table), 16)]
    reached = [0, *entries, 1 << 128]
    reach = len(entries) // 2
    return {reach - drop: Fraction(reached[drop + 1] - reached[drop], 1 << 128) for drop in range(2 * reach + 1)}
