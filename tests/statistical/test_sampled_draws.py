"""Draws with a sampling scheme follow the law, also for keys that somebody else has sampled."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray

from dptally import Ppswor, Priority
from dptally.laws.sampling_schemes import Scheme
from dptally.laws.shortfall import noise_scale
from dptally.laws.weighted_sample import WeightedSample
from dptally.mechanisms.total import draw_total
from dptally.randomness import SeededBits
from tests.statistical.checks import FALSE_ALARM, chi_square_pvalue

DRAWS = 200_000
SCHEMES = [Ppswor("0.1"), Priority("0.02"), Ppswor("0.3", "0.5")]


def observed(drawn: NDArray[np.int64]) -> Counter[object]:
    """Counts of what was drawn; None is not reported."""
    return Counter(value or None for value in drawn.tolist())


@pytest.mark.parametrize("values", [True, False])
@pytest.mark.parametrize("scheme", SCHEMES, ids=str)
def test_draws_follow_the_law(scheme: Scheme, values: bool) -> None:
    """200,000 seeded draws for each of four frequencies pass a chi-square test; with delta doubled they do not."""
    law = WeightedSample("0.5", "0.01", scheme, values=values)
    wrong = WeightedSample("0.5", "0.02", scheme, values=values)
    for frequency in (1, 6, 30, 100):
        same = np.full(DRAWS, frequency, dtype=np.int64)
        expected = {value: float(chance) for value, chance in law.row(frequency).items()}
        assert chi_square_pvalue(observed(law.draw(same, SeededBits(frequency))), expected, DRAWS) > FALSE_ALARM
        if law.reporting_probability(frequency) < wrong.reporting_probability(frequency):
            assert chi_square_pvalue(observed(wrong.draw(same, SeededBits(frequency))), expected, DRAWS) < FALSE_ALARM


@pytest.mark.parametrize("scheme", SCHEMES, ids=str)
def test_sampled_keys_follow_the_law_divided_by_q(scheme: Scheme) -> None:
    """For keys that were sampled, 200,000 seeded draws follow pi_ij / q_i; the law without the division is rejected."""
    law = WeightedSample("0.5", "0.01", scheme)
    for frequency in (1, 6, 30):
        drawn = law.draw_given_sampled(np.full(DRAWS, frequency, dtype=np.int64), SeededBits(frequency + 1))
        q = float(scheme.bounds(frequency, 64)[0])
        row = {value: float(chance) / q for value, chance in law.row(frequency).items() if value is not None}
        row[None] = max(0.0, 1 - sum(row.values()))  # type: ignore[index]
        assert chi_square_pvalue(observed(drawn), row, DRAWS) > FALSE_ALARM
        undivided = {value: float(chance) for value, chance in law.row(frequency).items()}
        assert chi_square_pvalue(observed(drawn), undivided, DRAWS) < FALSE_ALARM


class FewBits:
    """A source that gives the words it was told to give, then zeros."""

    private = False

    def __init__(self, words: list[int]) -> None:
        self._words = words

    def words(self, count: int) -> NDArray[np.uint64]:
        """The next words."""
        taken, self._words = self._words[:count], self._words[count:]
        return np.array([*taken, *([0] * (count - len(taken)))], dtype=np.uint64)


@pytest.mark.parametrize(("more", "reported"), [(0, True), (2**64 - 1, False)])
def test_a_tie_takes_more_bits(more: int, reported: bool) -> None:
    """A number whose 128 bits are those of a threshold is settled by the bits that follow, on either side."""
    scheme = Ppswor("0.1")
    law = WeightedSample("0.5", "0.01", scheme, values=False)
    mass = 2 * law.sampled_rows.reported(3, 3)[0]
    low, high = (Fraction(mass) / bound for bound in reversed(scheme.bounds(3, 400)))
    whole = int(low)
    assert whole == int(high) and low > whole, "the threshold lies between two 128-bit numbers"
    bits = FewBits([whole & (2**64 - 1), whole >> 64, more])
    drawn = law.draw_given_sampled(np.array([3], dtype=np.int64), bits)
    assert bool(drawn[0]) is reported


def test_noisy_totals_follow_the_geometric_law() -> None:
    """20,000 seeded totals follow the two-sided geometric law; the law of another epsilon is rejected."""
    epsilon, draws = Fraction(1, 2), 20_000
    bits = SeededBits(4)
    found = Counter(draw_total(1000, epsilon, bits) - 1000 for _ in range(draws))
    for scale, accepted in ((noise_scale(epsilon), True), (noise_scale(epsilon) + 1, False)):
        ratio = scale / (scale + 1)
        law = {z: (1 - ratio) / (1 + ratio) * ratio ** abs(z) for z in range(-60, 61)}
        assert (chi_square_pvalue(found, law, draws) > FALSE_ALARM) is accepted


def test_the_noise_scale_is_the_smallest_that_is_private() -> None:
    """(K + 1) / K is at most e^epsilon, and would not be for K - 1."""
    from tests.exact.reference import growth

    for epsilon in (Fraction(1, 1000), Fraction(1, 20), Fraction(1), Fraction(3)):
        scale = noise_scale(epsilon)
        assert Fraction(scale + 1, scale) <= growth(epsilon)
        assert scale == 1 or Fraction(scale, scale - 1) > growth(epsilon)
