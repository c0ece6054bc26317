"""Units with several elements of a stream, over a universe: the noise covers all that they may change."""

from __future__ import annotations

from fractions import Fraction

import pytest

import dptally
from dptally.errors import PrivacyViolation
from dptally.laws.clamped_geometric import ClampedGeometric
from dptally.laws.top_k_noise import TopKNoise
from dptally.randomness import SeededBits
from dptally.universes import read_universe
from dptally.verifiers.pure import certify_rounded_counters
from tests.exact.reference import growth
from tests.mechanisms import PureMisraGries


def reduced(stream: list[int], capacity: int) -> dict[int, int]:
    """Counters of the sketch of a stream, in units of 1 / (capacity + 1)."""
    sketch = dptally.MisraGriesSketch(capacity, kind="integer", bits=SeededBits(1))
    if stream:
        sketch.update(stream)
    keys, scaled = sketch.reduced()
    return dict(zip(keys.to_pylist(), scaled.tolist(), strict=True))


def chance(noise: ClampedGeometric, scaled: int, parts: int, value: int) -> Fraction:
    """The probability of a value for one counter: rounded at random, then with noise."""
    low, rest = divmod(scaled, parts)
    masses = [noise.probability(count, value) for count in (low, low + 1)]
    return (masses[0] * (parts - rest) + masses[1] * rest) / parts


@pytest.mark.parametrize("elements", [1, 2, 5])
@pytest.mark.parametrize("capacity", [1, 3, 10])
def test_all_elements_of_a_unit_are_covered(capacity: int, elements: int) -> None:
    """Streams with and without the elements of one unit: no outcome is more than e^epsilon times as likely in one."""
    epsilon = Fraction(1)
    made = PureMisraGries(
        read_universe("integers:0..999"), capacity, epsilon, elements_per_unit=elements, shortfall=None
    )
    noise = made.law.noise
    assert isinstance(noise, ClampedGeometric)
    limit, parts = growth(epsilon), capacity + 1
    base = [1, 2, 3, 4] * 3 + [5] * 40
    for stream in ([], base):
        for unit in ([7] * elements, [5] * elements, list(range(100, 100 + elements))):
            first, second = reduced(stream + unit, capacity), reduced(stream, capacity)
            # Keys are drawn independently: the worst ratio of all together is the product of each one's worst.
            for order in ((first, second), (second, first)):
                together = Fraction(1)
                for key in {*first, *second}:
                    scaled = [state.get(key, 0) for state in order]
                    if scaled[0] != scaled[1]:
                        ends = {0, *(count // parts + step for count in scaled for step in (0, 1, 2))}
                        together *= max(chance(noise, scaled[0], parts, v) / chance(noise, scaled[1], parts, v)
                                        for v in ends)  # fmt: skip
                assert together <= limit


def test_releases_are_drawn_with_noise_for_all_elements() -> None:
    """A sketch that is published over a universe for more elements has more noise, and a guarantee that says so."""
    noises = []
    for elements in (1, 5):
        sketch = dptally.MisraGriesSketch(10, kind="integer")
        sketch.update([1, 2, 3])
        release = sketch.publish(1, universe="integers:0..999", elements_per_unit=elements, shortfall=None)
        assert release.guarantee.elements_per_unit == elements
        assert isinstance(release.law, TopKNoise) and isinstance(release.law.noise, ClampedGeometric)
        noises.append(release.law.noise.ratio)
    few, many = (1 / ratio - 1 for ratio in noises)
    assert many < few / 4
    # Five elements, 19 / 11 each: what the rounded counters are apart, times what one step costs.
    assert 5 * Fraction(19, 11) * many <= 1


def test_the_verifier_multiplies_by_the_distance() -> None:
    """Noise for a distance of one does not pass for two: ratio minus one, times the distance, is what is spent."""
    one_step = PureMisraGries(read_universe("integers:0..999"), 1, Fraction(1), shortfall=None).law.certify()
    spent = one_step.worst_ratio - 1
    for distance in (Fraction(1, 2), Fraction(1), Fraction(19, 11), Fraction(5)):
        certify_rounded_counters(one_step, distance=distance, epsilon=distance * spent)
        with pytest.raises(PrivacyViolation, match="rounded counters exceed epsilon"):
            certify_rounded_counters(one_step, distance=distance, epsilon=distance * spent * Fraction(999, 1000))


@pytest.mark.parametrize("universe", [None, "integers:0..999"])
@pytest.mark.parametrize("elements", [1, 4])
def test_what_is_told_about_the_shortfall_covers_all_elements(universe: str | None, elements: int) -> None:
    """One element changes the number that is told by one: the noise of that many steps keeps its share of epsilon.

    The noise that is drawn, with its largest outcome ratio (K + 1) / K for a step, and not one that is computed anew.
    """
    sketch = dptally.MisraGriesSketch(10, kind="integer")
    sketch.update([1, 2, 3])
    delta = None if universe else "1e-6"
    release = sketch.publish(1, delta, universe=universe, elements_per_unit=elements)
    scale, share = release.shortfall.scale, release.guarantee.spent_on_shortfall
    assert share == Fraction(1, 20)
    assert Fraction(scale + 1, scale) ** elements <= growth(share)
    assert Fraction(scale, scale - 1) ** elements > growth(share)
