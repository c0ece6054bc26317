"""The sparse histogram: its noise, the parts of its strict form, and what it states about errors, exactly.

The laws of what is drawn are in `test_sparse_law.py` and `test_strict_law.py`.
"""

from __future__ import annotations

from fractions import Fraction
from itertools import accumulate, pairwise
from math import comb

import numpy as np
import pytest

from dptally.exact import exp_bounds
from dptally.laws.clamped_geometric import ClampedGeometric
from dptally.laws.tables.fixed_bits_noise import FixedBitsNoise
from dptally.laws.top_k_noise import TopKNoise
from dptally.mechanisms.strict_sparse import approximate_binomial, approximate_power
from dptally.universes import IntegerRange
from tests.exact.sparse_reference import dense_law
from tests.mechanisms import Made, SparseHistogram, StrictSparseHistogram


def simple_row(ratio: Fraction, bound: int, count: int) -> dict[int, Fraction]:
    """clamp(count + Z) for two-sided geometric noise, by summing its masses far out and giving the ends the rest."""
    inside = {value: (1 - ratio) / (1 + ratio) * ratio ** abs(value - count) for value in range(1, bound)}
    top = ratio ** (bound - count) / (1 + ratio) if bound > count else 1 - ratio / (1 + ratio)
    return {0: 1 - sum(inside.values()) - top, **inside, bound: top}


def strict_row(mechanism: Made, count: int) -> dict[int, Fraction]:
    """clamp(count + Z) for the noise of the strict mechanism, from its table."""
    table, reach = mechanism.law.noise, mechanism.bound
    assert isinstance(table, FixedBitsNoise)
    whole = 1 << table.length
    cumulative = [0, *table._cumulative, whole]
    law = dict.fromkeys(range(reach + 1), Fraction(0))
    for noise in range(-reach, reach + 1):
        mass = cumulative[noise + reach + 1] - cumulative[noise + reach]
        law[min(max(count + noise, 0), reach)] += Fraction(mass, whole)
    return law


@pytest.mark.parametrize("bound", [1, 2, 5])
@pytest.mark.parametrize("epsilon", ["0.1", "1", "3"])
def test_rows_of_the_noise_are_two_sided_geometric(epsilon: str, bound: int) -> None:
    """Every row sums to 1 and agrees with masses written down independently."""
    law = ClampedGeometric(epsilon, bound=bound)
    for count in range(bound + 1):
        assert law.row(count) == simple_row(law.ratio, bound, count)
        assert sum(law.row(count).values()) == 1


@pytest.mark.parametrize("epsilon", ["0.1", "1", "3", "32"])
def test_the_noise_spends_its_epsilon_and_no_more(epsilon: str) -> None:
    """1 / r is at most e^epsilon, and above e^epsilon (1 - 2^-80)."""
    loss = ClampedGeometric(epsilon).certify()
    low, high = exp_bounds(Fraction(epsilon), 256)
    assert high * (1 - Fraction(1, 1 << 80)) < loss <= low


def printed_binomial(uniform: int, scale_bits: int, cap: int, trials: int, chance: Fraction) -> int:
    """[BV19, Alg. 6.18] with the loop as printed, which begins at ceil(t' / 2)."""
    whole = 1 << scale_bits
    happens, entries = int(whole * chance), 1
    while entries < 2 * cap:
        law = approximate_power([whole - happens, happens, *[0] * entries][:entries], trials, scale_bits)
        reached = list(accumulate(law))
        for number in range(-(-entries // 2), entries):
            if reached[number] >= uniform:
                return min(number, cap)
        entries *= 2
    return cap


def capped_binomial_law(cap: int, trials: int, chance: Fraction) -> list[Fraction]:
    """min(binomial number, cap)."""
    masses = [comb(trials, n) * chance**n * (1 - chance) ** (trials - n) for n in range(cap)]
    return [*masses, 1 - sum(masses, Fraction(0))]


@pytest.mark.parametrize(("cap", "trials", "chance"), [(1, 5, "1/4"), (3, 9, "1/3"), (4, 4, "2/3"), (6, 50, "1/20")])
def test_the_corrected_binomial_of_fixed_bits_is_as_close_as_stated(cap: int, trials: int, chance: str) -> None:
    """Over all uniform numbers the law is within (m (t + 1) - t) / s of the exact one."""
    scale_bits, probability = 12, Fraction(chance)
    whole = 1 << scale_bits
    found = [0] * (cap + 1)
    for uniform in range(1, whole + 1):
        found[approximate_binomial(uniform, scale_bits, cap, trials, probability)] += 1
    exact = capped_binomial_law(cap, trials, probability)
    distance = sum(abs(Fraction(n, whole) - mass) for n, mass in zip(found, exact, strict=True)) / 2
    assert distance <= Fraction(trials * (cap + 1) - cap, whole)


def test_the_printed_binomial_never_returns_nothing() -> None:
    """Algorithm 6.18 as printed returns 0 for no uniform number, though 0 has probability 0.24 here."""
    drawn = {printed_binomial(uniform, 8, 3, 5, Fraction(1, 4)) for uniform in range(1, 257)}
    assert 0 not in drawn
    assert capped_binomial_law(3, 5, Fraction(1, 4))[0] > Fraction(23, 100)


@pytest.mark.parametrize(("exponent", "entries"), [(1, 3), (2, 3), (7, 4), (20, 6)])
def test_approximate_powers_are_as_close_as_stated(exponent: int, entries: int) -> None:
    """Algorithm 6.16 loses at most entries * (exponent - 1) / s over all entries."""
    scale_bits = 10
    whole = 1 << scale_bits
    law = approximate_power([whole - 300, 300, *[0] * (entries - 2)], exponent, scale_bits)
    chance = Fraction(300, whole)
    exact = [comb(exponent, n) * chance**n * (1 - chance) ** (exponent - n) for n in range(entries)]
    lost = sum(abs(Fraction(n, whole) - mass) for n, mass in zip(law, exact, strict=True))
    assert lost <= Fraction(entries * (exponent - 1), whole)
    assert sum(law) <= whole


@pytest.mark.parametrize("bound", [1, 2, 3, 12])
@pytest.mark.parametrize("epsilon", ["0.1", "1", "5"])
def test_the_noise_of_fixed_bits_is_private(epsilon: str, bound: int) -> None:
    """All neighbouring rows of the strict mechanism's table differ by at most e^epsilon, and nearly by as much."""
    mechanism = StrictSparseHistogram(epsilon, universe=IntegerRange(0, 9), keep=2, bound=bound)
    rows = [strict_row(mechanism, count) for count in range(bound + 1)]
    assert all(sum(row.values()) == 1 for row in rows)
    worst = max(
        max(row[v] / following[v], following[v] / row[v]) for row, following in pairwise(rows) for v in range(bound + 1)
    )
    low, high = exp_bounds(Fraction(epsilon), 256)
    assert high * (1 - Fraction(1, 1 << 40)) < worst <= low


def test_tails_of_the_noise_of_fixed_bits_add_up() -> None:
    """P[Z >= 0] and P[Z < 0] make the whole, and the tail decreases."""
    table = FixedBitsNoise(Fraction(1), 20)
    assert table.tails[0] + table.tails[1] == sum(table.masses) == 1 << table.length
    assert all(here > there > 0 for here, there in pairwise(table.tails))


# ---- errors ----


def test_the_significant_value_is_the_smallest() -> None:
    """One below it, the chance that some empty key reaches it is above beta; compared with the exact power."""
    mechanism = SparseHistogram("1", universe=IntegerRange(0, 9), keep=3)
    value = mechanism.law.significant_value("0.05")
    assert (
        1 - (1 - mechanism.law.noise.tail(value)) ** 10
        <= Fraction(1, 20)
        < 1 - (1 - mechanism.law.noise.tail(value - 1)) ** 10
    )


def test_the_chance_of_being_left_out_bounds_the_exact_one() -> None:
    """For every frequency the stated bound is at least the exact probability, summed over whole releases."""
    mechanism = SparseHistogram("2", universe=IntegerRange(0, 3), keep=2, bound=4)
    for count in range(5):
        law = dense_law(4, {1: count, 2: 1}, 2, mechanism.law.noise.row)
        missing = sum(chance for release, chance in law.items() if all(key != 1 for key, _ in release))
        assert missing <= mechanism.law.missing_probability(count)


@pytest.mark.parametrize("beta", ["0.1", "0.3"])
@pytest.mark.parametrize(("epsilon", "keep"), [("3", 2), ("1", 1), ("2", 1)])
def test_the_simultaneous_error_holds_for_whole_releases(epsilon: str, keep: int, beta: str) -> None:
    """Some key is off by more with probability at most beta, for all data with at most `keep` keys that is tried."""
    mechanism = SparseHistogram(epsilon, universe=IntegerRange(0, 3), keep=keep, bound=6)
    allowed = mechanism.law.simultaneous_error(beta)
    for counts in ({}, {0: 1}, {0: 2}, {0: 3}, {0: 2, 3: 1}, {1: 3, 2: 6}):
        if len(counts) > keep:
            continue
        law = dense_law(4, counts, keep, mechanism.law.noise.row)
        wrong = sum(
            chance
            for release, chance in law.items()
            if max(abs(dict(release).get(key, 0) - counts.get(key, 0)) for key in range(4)) > allowed
        )
        assert wrong <= Fraction(beta)


@pytest.mark.parametrize("beta", ["0.05"])
def test_the_error_of_one_key_holds_for_whole_releases(beta: str) -> None:
    """A key of frequency c is off by more than `key_error` with probability at most beta, where it has a bound."""
    mechanism = SparseHistogram("3", universe=IntegerRange(0, 3), keep=2, bound=8)
    stated = {count: mechanism.law.key_error(beta, count) for count in range(9)}
    assert stated[0] is None and stated[8] is not None
    for count, allowed in stated.items():
        if allowed is not None:
            law = dense_law(4, {2: count}, 2, mechanism.law.noise.row)
            wrong = sum(chance for h, chance in law.items() if abs(dict(h).get(2, 0) - count) > allowed)
            assert wrong <= Fraction(beta)


@pytest.mark.parametrize("bound", [1, 2, 5])
@pytest.mark.parametrize("mixing", [None, 20])
def test_the_judge_finds_the_largest_ratio_of_all_rows(bound: int, mixing: int | None) -> None:
    """The certificate's ratio is the largest of all neighbouring rows and values, from rows written out."""
    if mixing is None:
        law = TopKNoise("1/2", size=9, keep=2, bound=bound)
        rows = [simple_row(law.noise.ratio, bound, count) for count in range(bound + 1)]  # type: ignore[union-attr]
    else:
        mechanism = StrictSparseHistogram("1/2", universe=IntegerRange(0, 8), keep=2, bound=bound, mixing=mixing)
        law, rows = mechanism.law, [strict_row(mechanism, count) for count in range(bound + 1)]
    ratios = [row[v] / other[v] for row, other in pairwise(rows) for v in row]
    assert law.certify().worst_ratio == max(max(ratio, 1 / ratio) for ratio in ratios)


def test_bounds_of_single_keys_hold_for_whole_releases() -> None:
    """A key of any frequency has bounds that miss it with probability at most beta, whether somebody has it or not."""
    mechanism, beta = SparseHistogram("3", universe=IntegerRange(0, 3), keep=2, bound=6), Fraction(1, 5)
    values = np.arange(7)
    found = mechanism.law.invert(values, beta)
    assert found.upper is not None
    for count in range(7):
        law = dense_law(4, {2: count, 0: 3}, 2, mechanism.law.noise.row)  # type: ignore[union-attr]
        missed = sum(
            chance
            for release, chance in law.items()
            for key, value in release
            if key == 2 and not found.lower[value] <= count <= found.upper[value]
        )
        assert missed <= beta


def test_bounds_of_all_keys_hold_together() -> None:
    """With as many keys as are kept, no released key is outside its bounds, but for beta."""
    mechanism, beta = SparseHistogram("3", universe=IntegerRange(0, 3), keep=2, bound=6), Fraction(1, 5)
    found = mechanism.law.invert_together(np.arange(7), beta, among=7)
    assert found.upper is not None
    for counts in ({}, {0: 1}, {0: 2, 3: 1}, {1: 3, 2: 6}):
        law = dense_law(4, counts, 2, mechanism.law.noise.row)  # type: ignore[union-attr]
        missed = sum(
            chance
            for release, chance in law.items()
            if any(not found.lower[value] <= counts.get(key, 0) <= found.upper[value] for key, value in release)
        )
        assert missed <= beta
