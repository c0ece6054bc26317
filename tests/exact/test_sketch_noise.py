"""Sketches with noise: the judge's statement against exact laws of the whole release, and smallest thresholds."""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from fractions import Fraction
from typing import Any

import pytest

import dptally
from dptally.errors import InvalidParameter, PrivacyViolation
from dptally.laws.registry import law_from_facts
from dptally.laws.shared_noise import SharedNoise
from dptally.laws.summed_noise import SummedNoise
from dptally.laws.tables.two_sided_geometric import noise_table, two_sided_masses
from dptally.verifiers.sketches import certify_shared_noise, certify_summed_noise
from dptally.verifiers.tables import exp_lower
from tests.exact.reference_sketches import misra_gries, reduced

EPSILON = Fraction(1)
GROWTH = Fraction(5, 2)  # below e: noise that loses less than EPSILON
REACH = 3
SKETCHES = {"single, two counters": (2, False), "single, one counter": (1, False), "standard": (2, True)}


def noise(growth: Fraction = GROWTH) -> dict[int, Fraction]:
    """The law of a small noise table."""
    half = two_sided_masses(growth, REACH)
    return {z: Fraction(half[abs(z)], 1 << 128) for z in range(-REACH, REACH + 1)}


def divergence(first: dict[Any, Fraction], second: dict[Any, Fraction]) -> Fraction:
    """The hockey-stick divergence at EPSILON."""
    growth = Fraction(*exp_lower(EPSILON))
    zero = Fraction(0)
    return sum((max(zero, mass - growth * second.get(outcome, zero)) for outcome, mass in first.items()), zero)


def neighbouring_streams(universe: int, longest: int) -> itertools.chain[tuple[tuple[int, ...], tuple[int, ...]]]:
    """All streams with each of the streams that lack one of their elements."""
    streams = itertools.chain.from_iterable(
        itertools.product(range(universe), repeat=length) for length in range(1, longest + 1)
    )
    return itertools.chain.from_iterable(
        ((stream, stream[:at] + stream[at + 1 :]) for at in range(len(stream))) for stream in streams
    )


def real_counters(capacity: int, stream: tuple[int, ...]) -> dict[int, int]:
    """Algorithm 1 without its dummies."""
    counters, _ = misra_gries(capacity, stream)
    return {key: counter for (real, key), counter in counters.items() if real}


def release_law(sketch: tuple[tuple[int, int], ...], threshold: int) -> dict[Any, Fraction]:
    """The exact law of a whole release: own noise for each key, and one noise shared by all."""
    law: dict[Any, Fraction] = defaultdict(Fraction)
    single = noise()
    for shared, chance in single.items():
        outcomes: dict[tuple[tuple[int, int], ...], Fraction] = {(): chance}
        for key, counter in sketch:
            step: dict[tuple[tuple[int, int], ...], Fraction] = defaultdict(Fraction)
            for own, mass in single.items():
                value = counter + own + shared
                for seen, reached in outcomes.items():
                    step[(*seen, (key, value)) if value >= threshold else seen] += reached * mass
            outcomes = step
        for seen, reached in outcomes.items():
            law[seen] += reached
    return law


@pytest.mark.parametrize("name", SKETCHES)
def test_no_pair_of_neighbouring_streams_exceeds_what_the_judge_states(name: str) -> None:
    """For every pair of small neighbouring streams the whole release diverges by at most the judge's delta."""
    capacity, standard = SKETCHES[name]
    ones, zeros = (capacity, 0) if standard else (1, 1 if capacity > 1 else 0)
    table = noise_table(two_sided_masses(GROWTH, REACH))
    pairs = set()
    for longer, shorter in neighbouring_streams(capacity + 2, 5):
        sketches = []
        for stream in (longer, shorter):
            found = real_counters(capacity, stream)
            sketches.append(tuple((key, counter) for key, counter in sorted(found.items()) if counter or not standard))
        if sketches[0] != sketches[1]:
            pairs.add((sketches[0], sketches[1]))
            pairs.add((sketches[1], sketches[0]))
    for threshold in (3, 5):
        claimed = certify_shared_noise(
            table, threshold=threshold, ones=ones, zeros=zeros, elements=1, epsilon=EPSILON, delta=Fraction(1)
        ).total_delta
        laws = {sketch: release_law(sketch, threshold) for pair in pairs for sketch in pair}
        worst = max(divergence(laws[first], laws[second]) for first, second in pairs)
        assert worst <= claimed
        # What the judge adds for the end of the noise's support is all that it has too much.
        assert worst >= claimed - 2 * noise()[REACH]


def test_the_reported_probability_is_that_of_two_paired_keys() -> None:
    """The judge's first term equals P[max(1 + L1, L2) + eta >= t], by enumeration of the three noises."""
    table, law = noise_table(two_sided_masses(GROWTH, REACH)), noise()
    flat = certify_shared_noise(
        table, threshold=99, ones=1, zeros=1, elements=1, epsilon=EPSILON, delta=Fraction(1)
    ).worst_delta
    for threshold in range(1, 8):
        exact = sum(
            first * second * shared
            for (a, first), (b, second), (e, shared) in itertools.product(law.items(), repeat=3)
            if max(1 + a, b) + e >= threshold
        )
        judged = certify_shared_noise(
            table, threshold=threshold, ones=1, zeros=1, elements=1, epsilon=EPSILON, delta=Fraction(2)
        )
        assert 0 <= judged.worst_delta - flat - exact < Fraction(1, 1 << 400)


ERRATA = [
    ("0.1", "1e-6", 1000, False, 161),
    ("0.1", "1e-10", 1000, False, 258),
    ("1", "1e-6", 1000, False, 17),
    ("1", "1e-10", 1000, False, 27),
    ("0.1", "1e-6", 10, True, 178),
    ("1", "1e-6", 10, True, 19),
]


@pytest.mark.parametrize(("epsilon", "delta", "capacity", "standard", "threshold"), ERRATA)
def test_thresholds_are_the_known_ones_and_the_smallest(
    epsilon: str, delta: str, capacity: int, standard: bool, threshold: int
) -> None:
    """The threshold is about half of the printed one, and one less is refused by the judge.

    Values for Algorithm 1: the exact thresholds for unbounded geometric noise, 161, 258, 17 and 27; for sketches
    without zero counters, where real-valued noise gives 176.6 and 18.56, own values.
    """
    law = SharedNoise(epsilon, delta, capacity, standard=standard)
    assert law.threshold == threshold
    printed = 1 + 2 * math.log((capacity + 1) / 2 / float(delta) if standard else 3 / float(delta)) / float(epsilon)
    assert law.threshold < 0.62 * printed
    law.certify()
    ones, zeros = law.differing
    with pytest.raises(PrivacyViolation, match="exceeds its delta"):
        certify_shared_noise(
            law.table,
            threshold=threshold - 1,
            ones=ones,
            zeros=zeros,
            elements=1,
            epsilon=law.epsilon,
            delta=law.delta,
        )


@pytest.mark.parametrize("epsilon", ["0.2", "1", "8"])
@pytest.mark.parametrize("delta", ["0.1", "1e-6", "1e-18"])
@pytest.mark.parametrize("capacity", [1, 10_000])
@pytest.mark.parametrize("standard", [True, False])
@pytest.mark.parametrize("elements", [1, 5])
def test_every_setting_is_certified(epsilon: str, delta: str, capacity: int, standard: bool, elements: int) -> None:
    """On a grid of settings the table passes the judge and delta is nearly used up."""
    law = SharedNoise(epsilon, delta, capacity, standard=standard, elements=elements)
    found = law.certify()
    assert found.total_delta <= law.delta
    assert found.total_epsilon == law.epsilon
    # One step of the threshold changes the probability by no more than about e^(2 epsilon).
    assert law.threshold <= 2 or found.total_delta * Fraction(math.exp(2 * float(law.element_epsilon)) + 1) > law.delta


def test_group_privacy_beats_the_printed_parameters() -> None:
    """For m elements delta is divided by a geometric sum, which is below the printed m e^epsilon."""
    law = SharedNoise(1, "1e-6", 100, elements=10)
    assert law.element_delta > Fraction("1e-6") / (10 * Fraction(math.e))
    assert law.element_epsilon == Fraction(1, 10)


WRONG = {
    "noise halved": lambda law: noise_table(two_sided_masses(Fraction(7), law.reach // 2)),
    "noise cut short": lambda law: noise_table(two_sided_masses(Fraction(5, 2), 9)),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_tables_are_refused(name: str) -> None:
    """The judge looks at the table, not at where it comes from."""
    law = SharedNoise(1, "1e-6", 100)
    with pytest.raises(PrivacyViolation):
        certify_shared_noise(
            WRONG[name](law),
            threshold=law.threshold,
            ones=1,
            zeros=1,
            elements=1,
            epsilon=law.epsilon,
            delta=law.delta,
        )


# Summed sketches.


def summed_law(
    counters: dict[int, Fraction], grid: int, threshold: int, single: dict[int, Fraction]
) -> dict[Any, Fraction]:
    """The exact law of a release of counters with fractions, keys independent."""
    outcomes: dict[Any, Fraction] = {(): Fraction(1)}
    for key, counter in sorted(counters.items()):
        exact = grid * counter
        low = exact.numerator // exact.denominator
        rounded = {low: low + 1 - exact, low + 1: exact - low}
        step: dict[Any, Fraction] = defaultdict(Fraction)
        for start, share in rounded.items():
            for own, mass in single.items():
                value = start + own
                for seen, reached in outcomes.items():
                    assert isinstance(seen, tuple)
                    shown = (*seen, (key, value)) if start > 0 and value >= threshold else seen
                    step[shown] += reached * share * mass
        outcomes = step
    return outcomes


def test_summed_sketches_keep_what_the_judge_states() -> None:
    """Sums of reduced sketches of small streams diverge by at most the judge's delta, for every neighbouring pair."""
    capacity, grid, threshold = 2, 2, 4
    distance = Fraction(2 * capacity - 1, capacity + 1)
    growth = 1 + EPSILON / (grid * distance)
    table = noise_table(two_sided_masses(growth, REACH))
    claimed = certify_summed_noise(
        table, threshold=threshold, grid=grid, distance=distance, epsilon=EPSILON, delta=Fraction(100)
    ).total_delta
    other = {0: Fraction(2, 3), 2: Fraction(1)}  # another sketch that both are added to
    pairs = set()
    for longer, shorter in neighbouring_streams(3, 5):
        sums = []
        for stream in (longer, shorter):
            found = reduced(capacity, real_counters(capacity, stream))
            total = {key: found.get(key, Fraction(0)) + other.get(key, Fraction(0)) for key in {*found, *other}}
            sums.append(tuple(sorted(total.items())))
        pairs |= {(sums[0], sums[1]), (sums[1], sums[0])}
    single = noise(growth)
    laws = {one: summed_law(dict(one), grid, threshold, single) for pair in pairs for one in pair}
    assert max(divergence(laws[first], laws[second]) for first, second in pairs) <= claimed


@pytest.mark.parametrize("epsilon", ["0.5", "4"])
@pytest.mark.parametrize("delta", ["1e-3", "1e-12"])
@pytest.mark.parametrize("capacity", [1, 10, 10_000])
@pytest.mark.parametrize("elements", [1, 3])
def test_summed_settings_are_certified(epsilon: str, delta: str, capacity: int, elements: int) -> None:
    """On a grid of settings the table passes the judge, and a threshold one count lower does not."""
    law = SummedNoise(epsilon, delta, capacity, elements=elements)
    law.certify()
    assert sum(law.row(50).values()) == 1
    if law.threshold > 2:
        with pytest.raises(PrivacyViolation):
            certify_summed_noise(
                law.table,
                threshold=(law.threshold - 1) * law.grid,
                grid=law.grid,
                distance=law.distance,
                epsilon=law.epsilon,
                delta=law.delta,
            )


def test_summed_noise_beyond_epsilon_is_refused() -> None:
    """A table that is too steep for the distance of neighbouring counters is refused."""
    law = SummedNoise(1, "1e-6", 10)
    with pytest.raises(PrivacyViolation, match="exceeds its epsilon"):
        certify_summed_noise(
            law.table,
            threshold=law.threshold * law.grid,
            grid=law.grid,
            distance=law.distance * 2,
            epsilon=law.epsilon,
            delta=law.delta,
        )


@pytest.mark.parametrize("law", [SharedNoise(1, "1e-6", 10, standard=True, elements=2), SummedNoise(1, "1e-6", 7)])
def test_laws_can_be_read_from_their_facts(law: SharedNoise | SummedNoise) -> None:
    """A law is the same after its facts were written and read."""
    again = law_from_facts(law.facts())
    assert again.facts() == law.facts()
    assert again.certify() == law.certify()


def test_bad_parameters() -> None:
    """One sentence each."""
    with pytest.raises(InvalidParameter, match="capacity must be"):
        SharedNoise(1, "1e-6", 0)
    with pytest.raises(InvalidParameter, match="elements must be"):
        SharedNoise(1, "1e-6", 10, elements=0)
    with pytest.raises(InvalidParameter, match="epsilon"):
        SummedNoise(-1, "1e-6", 10)


# What is told about the shortfall.


def test_shortfall_moves_by_at_most_one() -> None:
    """One element or one user more changes how often counters were lowered by at most one, merged or not."""
    other = dptally.MisraGriesSketch(2, kind="integer")
    other.update([0, 1, 1, 3])
    users = dptally.UserMisraGriesSketch(2, kind="integer")
    users.update([[0], [1, 3], [1]])
    seen = set()
    for longer, shorter in neighbouring_streams(4, 5):
        lowered = []
        for stream in (longer, shorter):
            sketch = dptally.MisraGriesSketch(2, kind="integer")
            sketch.update(list(stream))
            by_user = dptally.UserMisraGriesSketch(2, kind="integer")
            by_user.update([[key, (key + 1) % 4] if key % 2 else [key] for key in stream])
            lowered.append(
                (
                    sketch.contents().missing,
                    sketch.merge(other).contents().missing,
                    by_user.contents().missing,
                    by_user.merge(users).contents().missing,
                )
            )
        difference = tuple(more - less for more, less in zip(*lowered, strict=True))
        assert set(difference) <= {0, 1}
        seen.add(difference)
    assert len(seen) > 4
