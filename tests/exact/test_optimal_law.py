"""The law of the optimal histogram: certified, optimal, monotone, and refused one unit past the bound."""

from __future__ import annotations

import random
from fractions import Fraction
from itertools import pairwise

import pytest

from dptally.errors import PrivacyViolation
from dptally.laws.registry import law_from_facts
from dptally.laws.tables.optimal_histogram import build_table, first_tail, value_thresholds
from dptally.laws.weighted_sample import WeightedSample
from dptally.verifiers.tables import certify_rows, certify_shift_table, certify_value_table
from tests.exact.reference import divergence, growth, optimal_probabilities

EPSILONS = [
    Fraction(n, d) for n, d in ((1, 1000), (1, 200), (1, 50), (1, 10), (1, 4), (1, 2), (1, 1), (2, 1), (4, 1), (10, 1))
]
DELTAS = [Fraction(1, 10**power) for power in (15, 12, 10, 9, 8, 7, 6, 5, 4, 3, 2)] + [
    Fraction(1, 31),
    Fraction(1, 10),
    Fraction(1, 4),
    Fraction(1, 2),
]
_CHANCE = random.Random(20261115)  # noqa: S311 - a grid, not a draw
RANDOM_SETTINGS = [
    (Fraction(_CHANCE.randint(20, 10_000), 1000), Fraction(_CHANCE.randint(1, 10**9), 10 ** _CHANCE.randint(10, 15)))
    for _ in range(110)
]
SETTINGS = [(epsilon, delta) for epsilon in EPSILONS for delta in DELTAS] + RANDOM_SETTINGS


def test_grid_is_as_large_as_promised() -> None:
    """At least 500 settings of (epsilon, delta, values) are judged below."""
    assert len(set(SETTINGS)) * 2 >= 500
    assert min(e for e, _ in SETTINGS) == Fraction(1, 1000) and max(e for e, _ in SETTINGS) == 10
    assert min(d for _, d in SETTINGS) <= Fraction(1, 10**15) and max(d for _, d in SETTINGS) == Fraction(1, 2)


@pytest.mark.parametrize("epsilon", sorted({epsilon for epsilon, _ in SETTINGS}), ids=str)
def test_law_is_certified_optimal_and_tight(epsilon: Fraction) -> None:
    """On the grid: certified, within 2^-40 of the optimum and never above it, monotone, refused one unit further."""
    for delta in [d for e, d in SETTINGS if e == epsilon]:
        optimum = optimal_probabilities(epsilon, delta)
        for values in (True, False):
            law = WeightedSample(epsilon, delta, values=values)
            certificate = law.certify()
            assert 0 < certificate.worst_delta <= delta
            assert law.width + 2 <= certificate.rows_checked <= law.width + 3

            reached = [Fraction(entry, 2**128) for entry in law.cumulative]
            assert all(here <= there for here, there in pairwise(reached))
            assert len(optimum) <= law.width <= len(optimum) + 1
            for frequency, best in enumerate(optimum, start=1):
                found = reached[min(frequency, law.width) - 1]
                assert best - Fraction(1, 2**40) <= found <= best + Fraction(1, 2**120)

            allowed = int(delta * 2**128)
            first = law.cumulative[0] if law.width > 1 else 2**128
            assert allowed - law.width - 10 <= first <= allowed, "the first row is filled up to the bound"
            moved = list(law._thresholds)
            place = 1 if values else 0
            moved[place] += allowed - first + 1
            if len(moved) > place + 1 and moved[place] > moved[place + 1]:
                continue  # there is not so much mass to move
            with pytest.raises(PrivacyViolation, match="exceeds its delta"):
                if values:
                    certify_value_table(_pack(moved), epsilon=epsilon, delta=delta)
                else:
                    certify_shift_table(_pack(moved), values=False, epsilon=epsilon, delta=delta)


@pytest.mark.parametrize("values", [True, False])
@pytest.mark.parametrize(("epsilon", "delta"), [("1", "1e-6"), ("0.1", "0.01"), ("3", "1/31"), ("0.5", "0.5")])
def test_certificate_agrees_with_rows_written_out(epsilon: str, delta: str, values: bool) -> None:
    """The judge's running sums equal the divergence of rows written out as fractions, for every pair, both ways."""
    law = WeightedSample(epsilon, delta, values=values)
    factor = growth(law.epsilon)
    found = []
    for frequency in range(1, law.width + 4):
        here, before = law.row(frequency), law.row(frequency - 1)
        assert sum(here.values()) == 1
        found += [divergence(here, before, factor), divergence(before, here, factor)]
    assert abs(max(found) - law.certify().worst_delta) < Fraction(1, 2**400)
    top = max(value for value in law.row(law.width + 3) if value is not None)
    rows = [
        [int(row.get(value if value else None, 0) * 2**128) for value in range(top + 1)]
        for row in (law.row(frequency) for frequency in range(law.width + 4))
    ]
    again = certify_rows(rows, epsilon=law.epsilon, delta=law.delta)
    assert (again.worst_delta, again.worst_pair) == (law.certify().worst_delta, law.certify().worst_pair)


def test_every_single_unit_of_mass_is_watched() -> None:
    """Moving enough mass between any two neighbouring places of the table is noticed by the judge."""
    epsilon, delta = Fraction(1, 2), Fraction(1, 100)
    law = WeightedSample(epsilon, delta)
    spare = int(delta * 2**128) // 4
    for place in range(len(law._thresholds) - 1):
        entries = list(law._thresholds)
        entries[place] += spare
        if entries[place] > entries[place + 1]:
            continue  # there is not so much mass to move
        with pytest.raises(PrivacyViolation):
            certify_value_table(_pack(entries), epsilon=epsilon, delta=delta)


@pytest.mark.parametrize("epsilon", ["0.01", "0.1", "0.5", "1", "2", "4", "8"])
@pytest.mark.parametrize("delta", ["1e-12", "1e-6", "1/1000", "1/31", "1/4"])
def test_noise_is_geometric_and_has_the_least_error(epsilon: str, delta: str) -> None:
    """Away from the ends masses change by e^epsilon from one drop to the next, one top: two-sided geometric noise.

    Its mean absolute error is then below 1 / sinh(epsilon), that of the noise without ends, and below that of every
    other grouping of values that reports keys as often.
    """
    law = WeightedSample(epsilon, delta)
    a = growth(law.epsilon)
    top = law.likely_drop + 1
    masses = law.drop_law
    for drop in range(2, top):
        assert abs(masses[drop] - masses[drop - 1] * a) < Fraction(1, 2**60)
    for drop in range(top, len(masses) - 2):
        assert abs(masses[drop] - masses[drop + 1] * a) < Fraction(1, 2**60)

    error = _mean_error(law)
    assert error <= 2 * a / (a**2 - 1) + Fraction(1, 2**60)
    first, whole = first_tail(law.epsilon, law.delta), int(law.delta * 2**128)
    for share in (0, first // 2, (first + whole) // 2, whole):
        other = WeightedSample(epsilon, delta)
        other.__dict__["table"] = _pack(value_thresholds(law.epsilon, law.delta, share))
        other.certify()
        assert error <= _mean_error(other) + Fraction(1, 2**60)
        for frequency in range(1, law.width + 2):
            difference = law.reporting_probability(frequency) - other.reporting_probability(frequency)
            assert abs(difference) < Fraction(1, 2**60)


def test_values_of_algorithm_4_are_further_off() -> None:
    """Golden values: mean absolute errors of this law and of Algorithm 4 for q = 1, as the docstring states them."""
    for epsilon, ours, theirs in (("1", 0.8509, 0.8821), ("4", 0.0366, 0.1844), ("0.1", 9.9813, 9.9911)):
        for centred, expected in ((True, ours), (False, theirs)):
            law = WeightedSample(epsilon, "1e-6", centred=centred)
            law.certify()
            assert abs(float(_mean_error(law)) - expected) < 1e-4
        assert law.tails[1:] == law.cumulative, "Algorithm 4: a value above x with probability pi_{i-x}"


def test_laws_of_older_releases_are_read_as_they_were() -> None:
    """A release file that does not say how values are grouped was made when they were grouped from 0 on."""
    facts = WeightedSample("1", "1e-6").facts()
    assert law_from_facts(facts).facts() == facts
    del facts["centred"]
    older = law_from_facts(facts)
    assert isinstance(older, WeightedSample) and not older.centred


def _mean_error(law: WeightedSample) -> Fraction:
    return sum((chance * abs(drop - 1 - law.likely_drop) for drop, chance in enumerate(law.drop_law)), Fraction(0))


@pytest.mark.parametrize(
    ("table", "reason"),
    [(b"123", "whole 128-bit"), ((5).to_bytes(16, "little") + (4).to_bytes(16, "little"), "thresholds decrease")],
)
def test_what_is_not_a_law_is_refused(table: bytes, reason: str) -> None:
    """Bytes that are not a law get no certificate."""
    for values in (True, False):
        with pytest.raises(PrivacyViolation, match=reason):
            certify_shift_table(table, values=values, epsilon=Fraction(1), delta=Fraction(1, 2))
    with pytest.raises(PrivacyViolation, match=reason):
        certify_value_table(table, epsilon=Fraction(1), delta=Fraction(1, 2))


def test_smaller_epsilon_than_built_for_is_refused() -> None:
    """A table does not pass for an epsilon smaller than its own."""
    table = build_table(Fraction(1), Fraction(1, 10**6), values=True)
    with pytest.raises(PrivacyViolation):
        certify_value_table(table, epsilon=Fraction(999, 1000), delta=Fraction(1, 10**6))


def test_doubles_are_not_enough() -> None:
    """The same recursion in floating point exceeds delta by a fifth at epsilon 1, delta 1e-15, and is refused."""
    import math

    epsilon, delta = Fraction(1), Fraction(1, 10**15)
    reached, entries = 0.0, []
    while reached < 1:
        reached = min(1.0, math.e * reached + 1e-15, 1 + (reached + 1e-15 - 1) / math.e)
        entries.append(int(Fraction(reached) * 2**128))
    with pytest.raises(PrivacyViolation):
        certify_shift_table(_pack(entries[:-1]), values=True, epsilon=epsilon, delta=delta)


@pytest.mark.parametrize("turn", [1, 2, 5, 13, 40])
@pytest.mark.parametrize("epsilon", [Fraction(1, 10), Fraction(1), Fraction(3)])
def test_closed_form_for_integral_turning_point(epsilon: Fraction, turn: int) -> None:
    """Corrected Lemma 4.2 and row law (34) of Lemma 5.2 of [CGSS21]: exponent 2L+1-i, probability 1 from 2L+1 on."""
    a = growth(epsilon)
    exact = (a - 1) / (a**turn * (a + 1) - 2)
    delta = Fraction(int(exact * 2**300), 2**300)
    if delta < Fraction(1, 2**60):
        pytest.skip("delta below what a 128-bit table represents")
    keys, values = (WeightedSample(epsilon, delta, values=wanted) for wanted in (False, True))
    tolerance = Fraction(1, 2**60)
    for frequency in range(1, 2 * turn + 2):
        if frequency <= turn + 1:
            expected = delta * (a**frequency - 1) / (a - 1)
        else:
            expected = 1 - delta * (a ** (2 * turn + 1 - frequency) - 1) / (a - 1)
        assert abs(keys.reporting_probability(frequency) - expected) < tolerance
        assert abs(values.reporting_probability(frequency) - expected) < tolerance
    for drop in range(2 * turn + 1):  # for whole L the values of Algorithm 4 are centred as they are
        expected = delta * a ** min(drop, 2 * turn - drop)
        assert abs(values.drop_law[drop + 1] - expected) < tolerance


def test_printed_lemma_4_2_is_off_by_one() -> None:
    """The exponent printed in Lemma 4.2, 2L+2-i, contradicts the algorithm already at i = L+2."""
    epsilon, turn = Fraction(1), 5
    a = growth(epsilon)
    delta = Fraction(int((a - 1) / (a**turn * (a + 1) - 2) * 2**300), 2**300)
    printed = 1 - delta * (a ** (2 * turn + 2 - (turn + 2)) - 1) / (a - 1)
    assert abs(WeightedSample(epsilon, delta).reporting_probability(turn + 2) - printed) > Fraction(1, 100)


def test_frequency_zero_and_huge_frequencies() -> None:
    """Frequency 0 is never reported; rows of 2^62 are rows of W shifted."""
    law = WeightedSample("1", "1e-6")
    assert law.row(0) == {None: 1}
    far, near = law.row(2**62), law.row(law.width)
    assert far[None] == 0
    assert {2**62 - value: chance for value, chance in far.items() if value is not None} == {
        law.width - value: chance for value, chance in near.items() if value is not None
    }


def _pack(entries: list[int]) -> bytes:
    return b"".join(entry.to_bytes(16, "little") for entry in entries)
