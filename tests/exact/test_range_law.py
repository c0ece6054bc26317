"""Exact privacy of whole trees of counts, and exact coverage of their bounds."""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
import pytest

from dptally.errors import PrivacyViolation
from dptally.exact import exp_bounds
from dptally.exact.binomial import binomial_row
from dptally.laws.binomial_bounds import lower_of_binomial, upper_of_binomial
from dptally.laws.bounded_geometric import DyadicGeometric
from dptally.laws.node_sums import _SumOfCopies
from dptally.laws.quantile_search import QuantileRounds
from dptally.laws.range_trees import make_tree_law
from dptally.laws.sample_and_threshold import SampleAndThreshold
from dptally.laws.spec import Request
from dptally.laws.specs.copies import OneLaw
from dptally.laws.weighted_sample import WeightedSample
from dptally.randomness import SeededBits
from dptally.universes.grids import make_grid
from tests.mechanisms import RangeHistograms

EPSILON, DELTA = Fraction(1), Fraction(1, 10)


def divergence(
    first: dict[tuple[int | None, ...], Fraction], second: dict[tuple[int | None, ...], Fraction]
) -> Fraction:
    """The hockey-stick divergence at EPSILON, from above: e^epsilon is replaced by a lower bound."""
    growth = exp_bounds(EPSILON, 200)[0]
    return sum(
        (max(Fraction(0), mass - growth * second.get(key, Fraction(0))) for key, mass in first.items()), Fraction(0)
    )


def tree_law(
    law: SampleAndThreshold | WeightedSample, counts: tuple[int, ...]
) -> dict[tuple[int | None, ...], Fraction]:
    """The joint law of all nodes of a tree with these true counts."""
    joint: dict[tuple[int | None, ...], Fraction] = {(): Fraction(1)}
    for count in counts:
        row = law.row(count)
        joint = {(*seen, value): mass * part for seen, mass in joint.items() for value, part in row.items()}
    return joint


def nodes_of(leaves: tuple[int, int, int, int]) -> tuple[int, ...]:
    """Counts of the six nodes of a binary tree with four leaves."""
    return (leaves[0] + leaves[1], leaves[2] + leaves[3], *leaves)


@pytest.mark.parametrize("mechanism", ["sample_and_threshold", "weighted_sample"])
def test_whole_trees_of_neighbours_are_private(mechanism: str) -> None:
    """For every neighbouring pair of data sets on four leaves, all six nodes together keep epsilon and delta."""
    made = make_tree_law(EPSILON, DELTA, levels=2, mechanism=mechanism)
    law = made.law
    assert isinstance(law, SampleAndThreshold | WeightedSample)
    for rest in itertools.product(range(3), (0, 2), (0,), (1,)):
        smaller = tuple(rest)
        larger = (smaller[0] + 1, *smaller[1:])
        before, after = tree_law(law, nodes_of(smaller)), tree_law(law, nodes_of(larger))  # type: ignore[arg-type]
        assert sum(before.values()) == 1
        assert divergence(before, after) <= DELTA
        assert divergence(after, before) <= DELTA


@pytest.mark.parametrize("mechanism", ["sample_and_threshold", "weighted_sample"])
def test_the_nodes_of_one_unit_are_private_at_any_size(mechanism: str) -> None:
    """The nodes a unit is in, with counts up to past the threshold, together keep epsilon and delta (others cancel)."""
    made = make_tree_law(EPSILON, DELTA, levels=2, mechanism=mechanism)
    assert isinstance(made.law, SampleAndThreshold | WeightedSample)
    for leaf, parent in itertools.product(range(12), repeat=2):
        if leaf <= parent:
            smaller, larger = tree_law(made.law, (parent, leaf)), tree_law(made.law, (parent + 1, leaf + 1))
            assert max(divergence(larger, smaller), divergence(smaller, larger)) <= DELTA


def test_one_coin_for_all_levels_betrays_a_unit() -> None:
    """One coin per unit shows a lone unit with probability near the rate: parent and child differ if it was kept."""
    law = make_tree_law(EPSILON, DELTA, levels=2, mechanism="sample_and_threshold").law
    assert isinstance(law, SampleAndThreshold) and law.threshold > 1
    units = 20 * law.threshold  # enough for the child to be reported nearly always
    masses, whole = binomial_row(units, law.rate)
    without: dict[tuple[int | None, ...], Fraction] = {}
    with_unit: dict[tuple[int | None, ...], Fraction] = {}
    for kept, mass in enumerate(masses):
        shown = int(law.report(np.array([kept]))[0]) or None
        without[shown, shown] = without.get((shown, shown), Fraction(0)) + Fraction(mass, whole)
        for coin, chance in ((0, 1 - law.rate), (1, law.rate)):
            parent = int(law.report(np.array([kept + coin]))[0]) or None
            key = (parent, shown)
            with_unit[key] = with_unit.get(key, Fraction(0)) + Fraction(mass, whole) * chance
    assert divergence(with_unit, without) > law.rate * Fraction(9, 10) > DELTA


@pytest.mark.parametrize("mechanism", ["sample_and_threshold", "weighted_sample", "dense"])
def test_every_level_has_coins_of_its_own(mechanism: str) -> None:
    """A lone leaf has the same count on both levels; what is drawn for the two agrees no more often than by chance.

    300 seeded draws. Two independent draws from one row agree with the probability of its sum of squares, below 0.3
    here; a coin for all levels would make all of them agree. 150 agree by chance with probability below 1e-12.
    """
    delta = None if mechanism == "dense" else DELTA
    histograms = RangeHistograms(EPSILON, delta, levels=2, mechanism=mechanism)
    grid = make_grid(0, 3, resolution=4, branching=2)
    leaves = np.array([400, 0, 0, 0], dtype=np.int64)
    bits = SeededBits(6)
    agree = 0
    for _ in range(300):
        above, below = histograms.draw(leaves, grid, bits)
        agree += int(above[0] == below[0])
    assert agree < 150


def certify_tree(law: object, levels: int, epsilon: Fraction, delta: Fraction) -> None:
    """Verify a law for one node, and `levels` of them together, as a spec does."""
    OneLaw("tree", law, Request(epsilon, delta or None, levels)).certificate  # noqa: B018 - raises


@pytest.mark.parametrize("mechanism", ["sample_and_threshold", "weighted_sample", "dense"])
def test_searches_share_their_budget_between_rounds(mechanism: str) -> None:
    """A search of h rounds is verified as h copies of its law: those keep epsilon and delta, one more does not."""
    delta = None if mechanism == "dense" else DELTA
    search = QuantileRounds(make_grid(0, 15, branching=2), "1/2", epsilon=EPSILON, delta=delta, mechanism=mechanism)
    assert search.rounds == 4
    certify_tree(search.law, 4, EPSILON, DELTA if delta else Fraction(0))
    with pytest.raises(PrivacyViolation):
        certify_tree(search.law, 5, EPSILON, DELTA if delta else Fraction(0))


def test_a_budget_for_one_level_does_not_pass_for_two() -> None:
    """The judge refuses a tree of two levels whose law spends everything on each of them."""
    law = SampleAndThreshold(EPSILON, DELTA)
    with pytest.raises(PrivacyViolation):
        certify_tree(law, 2, EPSILON, DELTA)
    with pytest.raises(PrivacyViolation):
        certify_tree(DyadicGeometric(EPSILON, 100), 2, EPSILON, Fraction(0))


@pytest.mark.parametrize("rate", [Fraction(1, 16), Fraction(1, 4), Fraction(3, 4)])
@pytest.mark.parametrize("error", [0.5, 0.05, 0.001])
def test_binomial_bounds_cover_exactly(rate: Fraction, error: float) -> None:
    """For each number of trials, each side of the bounds is wrong with at most the stated error, by enumeration."""
    for trials in [*range(1, 40), 97, 300]:
        masses, whole = binomial_row(trials, rate)
        values = np.arange(trials + 1)
        lower, upper = (find(values, float(rate), error) for find in (lower_of_binomial, upper_of_binomial))
        too_high = Fraction(sum(mass for mass, bound in zip(masses, lower, strict=True) if bound > trials), whole)
        too_low = Fraction(sum(mass for mass, bound in zip(masses, upper, strict=True) if bound < trials), whole)
        assert max(too_high, too_low) <= Fraction(error)


def test_binomial_bounds_are_hardly_wider_than_the_exact_ones() -> None:
    """Beside the inverted tails, bounds give away less than two values, that is 2 / rate units."""
    rate, error = Fraction(1, 4), 0.05
    values = np.array([0, 1, 3, 10, 40, 100])
    lower, upper = (find(values, 0.25, error / 2) for find in (lower_of_binomial, upper_of_binomial))
    for value, low, high in zip(values.tolist(), lower, upper, strict=True):

        def tails(trials: int, value: int = value) -> tuple[Fraction, Fraction]:
            masses, whole = binomial_row(trials, rate)
            return Fraction(sum(masses[value:]), whole), Fraction(sum(masses[: value + 1]), whole)

        half = Fraction(error) / 2
        exact_low = next(trials for trials in range(value, 2000) if tails(trials)[0] > half)
        exact_high = next(trials for trials in range(value + 1, 2000) if tails(trials)[1] <= half) - 1
        assert exact_low - 8 <= low <= exact_low
        assert exact_high <= high <= exact_high + 8


@pytest.mark.parametrize("counts", [(0,), (3,), (1, 0), (2, 9), (20, 20), (4, 0, 1)])
@pytest.mark.parametrize("mechanism", ["sample_and_threshold", "weighted_sample"])
def test_sums_of_nodes_are_covered_exactly(mechanism: str, counts: tuple[int, ...]) -> None:
    """For given true counts, bounds of the sum over all outcomes of all nodes miss with at most the stated error."""
    law = make_tree_law("2", "0.2", levels=2, mechanism=mechanism).law
    assert isinstance(law, SampleAndThreshold | WeightedSample)
    sums, error = law.node_sums(), 0.1
    outcomes = list(tree_law(law, counts).items())
    shown = np.array([[value or 0 for value in values] for values, _ in outcomes])
    hidden = (shown == 0).sum(axis=1)
    facts = shown.sum(axis=1), np.full(len(shown), len(counts)), hidden
    lower, upper = (find(*facts, error / 2) for find in (sums.lower, sums.upper))
    missed = (lower > sum(counts)) | (upper < sum(counts))
    assert sum((mass for (_, mass), out in zip(outcomes, missed, strict=True) if out), Fraction(0)) <= Fraction(error)


def test_sums_of_noise_are_covered_exactly() -> None:
    """Bounds from geometric noise on two nodes miss with at most the stated error, by convolution of exact masses."""
    law = DyadicGeometric("1/2", 1 << 20)
    masses = [Fraction(mass, law.whole) for mass in law.half_masses[:40]]

    def noise(size: int) -> Fraction:
        return masses[abs(size)] if abs(size) < 40 else Fraction(0)

    error = 0.05
    facts = np.array([1000]), np.array([2]), np.array([0])
    lower, upper = (find(*facts, error / 2) for find in (law.node_sums().lower, law.node_sums().upper))
    width = int(upper[0]) - 1000
    assert lower[0] == 1000 - width
    inside = sum(noise(first) * noise(total - first) for total in range(-width, width + 1) for first in range(-39, 40))
    assert 1 - Fraction(error) <= inside < 1 - Fraction(error) / 2


@pytest.mark.parametrize("longest", [100, 16, 5])
def test_grouped_laws_bound_sums_on_the_safe_side(longest: int) -> None:
    """In groups of any size, quantiles of a sum of three copies are exact or beyond, never short."""
    masses = [Fraction(2 + at % 7, 1) for at in range(64)]
    whole = sum(masses)
    law = [mass / whole for mass in masses]
    total = [Fraction(1)]
    for _ in range(3):
        total = [
            sum((total[at - step] * law[step] for step in range(64) if 0 <= at - step < len(total)), Fraction(0))
            for at in range(len(total) + 63)
        ]
    grouped = _SumOfCopies(np.array([float(mass) for mass in law]), longest)
    for share in (Fraction(1, 3), Fraction(1, 40), Fraction(1, 10**5)):
        upper, lower = grouped.upper(3, float(share)), grouped.lower(3, float(share))
        assert sum(total[upper + 1 :], Fraction(0)) <= share
        assert sum(total[:lower], Fraction(0)) <= share
        if longest == 100:
            assert sum(total[upper:], Fraction(0)) > share
            assert sum(total[: lower + 1], Fraction(0)) > share


def test_bounds_end_beyond_what_floats_tell_apart() -> None:
    """Kept units near 2^50, whose bounds are beyond 2^53, have bounds around v / p; a search over floats never ends."""
    kept = np.array([1 << 50])
    lower, upper = lower_of_binomial(kept, 0.001, 0.05)[0], upper_of_binomial(kept, 0.001, 0.05)[0]
    assert lower < kept[0] / 0.001 < upper < 1.001 * lower
