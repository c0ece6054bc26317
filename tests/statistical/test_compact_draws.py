"""Compact histograms as they are drawn follow their law, for keys that occur and for keys that do not."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from functools import lru_cache

import pytest

from dptally.laws.field_geometric import FieldGeometric, choose_law
from dptally.randomness import BitSource, SeededBits, SystemBits
from dptally.releases.compact_release import CompactRelease
from tests.mechanisms import CompactHistogram
from tests.statistical.checks import FALSE_ALARM, chi_square_pvalue
from tests.universes.integer_range import IntegerRange

KEYS = 3000
COUNTS = (1, 7, 40)
RELEASES = 3
EPSILON = Fraction(1, 2)


def drawn(bits: BitSource) -> dict[int, Counter[int]]:
    """Values of KEYS keys of each count, and of as many keys that do not occur, in each of a few releases."""
    mechanism = CompactHistogram(
        EPSILON,
        universe=IntegerRange(2**64),
        capacity=KEYS * (len(COUNTS) + 1),  # so that the values of all keys asked for are independent
        largest_count=60,
        beyond_capacity="refuse",
    )
    spread = 2**64 // (KEYS * 8)
    found: dict[int, Counter[int]] = {count: Counter() for count in (0, *COUNTS)}
    for _ in range(RELEASES):
        keys = {
            count: [(8 * place + 2 * number) * spread for place in range(KEYS)] for number, count in enumerate(found)
        }
        counts = {key: count for count in COUNTS for key in keys[count]}
        release: CompactRelease = mechanism.build(counts, bits)
        for count, asked in keys.items():
            found[count].update(release.values(asked))
    return found


@lru_cache
def seeded() -> dict[int, Counter[int]]:
    """One run for all tests."""
    return drawn(SeededBits(20261116))


def row(law: FieldGeometric, count: int) -> dict[object, float]:
    """The exact law of a count, as floats."""
    return {value: float(law.probability(value, count)) for value in range(law.largest_count + 1)}


def pvalues(found: dict[int, Counter[int]], epsilon: Fraction, shift: int = 0) -> list[float]:
    """One p-value for each count."""
    law = choose_law(epsilon, universe_size=2**64, largest_count=60)
    return [
        chi_square_pvalue(dict(values), row(law, max(0, count + shift)), KEYS * RELEASES)
        for count, values in found.items()
    ]


def test_values_follow_the_law() -> None:
    """9000 values for each of four counts; false alarm 1e-6 in all four together."""
    assert min(pvalues(seeded(), EPSILON)) > FALSE_ALARM / 4


@pytest.mark.parametrize("factor", [Fraction(4, 5), Fraction(6, 5)])
def test_another_scale_is_rejected(factor: Fraction) -> None:
    """Noise for an epsilon 20% smaller or larger is told from ours at every count."""
    assert max(pvalues(seeded(), EPSILON * factor)) < FALSE_ALARM / 4


def test_counts_off_by_one_are_rejected() -> None:
    """A sampler that adds its noise to the count plus or minus one is told from ours at every positive count."""
    assert max(pvalues(seeded(), EPSILON, shift=1)) < FALSE_ALARM / 4
    assert max(pvalues(seeded(), EPSILON, shift=-1)[1:]) < FALSE_ALARM / 4


def test_error_bounds_are_kept() -> None:
    """The share of values further than E(beta) from their count is beta at most, within six standard deviations."""
    law = choose_law(EPSILON, universe_size=2**64, largest_count=60)
    draws = KEYS * RELEASES
    for beta in (Fraction(1, 5), Fraction(1, 20), Fraction(1, 100)):
        reach = law.error(beta)
        for count, values in seeded().items():
            missed = sum(times for value, times in values.items() if abs(value - count) > reach)
            assert missed <= float(beta) * draws + 6 * (float(beta) * draws) ** 0.5


@pytest.mark.slow
def test_values_follow_the_law_with_secret_bits() -> None:
    """The same with the system's bits: every run is a new one; false alarm 1e-6."""
    assert min(pvalues(drawn(SystemBits()), EPSILON)) > FALSE_ALARM / 4
