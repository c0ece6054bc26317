"""The gate every law must pass before it may be published from: never more keys than privacy allows.

A mechanism that reports more than the optimum for its (epsilon, delta) is not private; another library's threshold
mechanism fails exactly this by an off-by-one. Every later mechanism joins by adding its laws to LAWS.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import pytest

from dptally import Ppswor, Priority
from dptally.laws.gaussian_histogram import GaussianHistogram
from dptally.laws.sample_and_threshold import SampleAndThreshold
from dptally.laws.stability import Stability
from dptally.laws.summed_noise import SummedNoise
from dptally.laws.weighted_sample import WeightedSample
from dptally.observation_models import ObservationModel
from tests.exact.reference import optimal_probabilities
from tests.mechanisms import PrivateWeightedSampling

PARAMETERS = [(Fraction(1, 10), Fraction(1, 10**6)), (Fraction(1), Fraction(1, 10**6)), (Fraction(2), Fraction(1, 100))]
LAWS: dict[str, Callable[[Fraction, Fraction], ObservationModel]] = {
    "weighted_sample": lambda epsilon, delta: WeightedSample(epsilon, delta),
    "weighted_sample, keys only": lambda epsilon, delta: WeightedSample(epsilon, delta, values=False),
    "weighted_sample, ppswor": lambda epsilon, delta: WeightedSample(epsilon, delta, Ppswor("0.05")),
    "weighted_sample, priority, keys only": lambda epsilon, delta: WeightedSample(
        epsilon, delta, Priority("0.01"), values=False
    ),
    "stability": lambda epsilon, delta: Stability(epsilon, delta),
    "gaussian": lambda epsilon, delta: GaussianHistogram(epsilon, delta),
    "summed sketches": lambda epsilon, delta: SummedNoise(epsilon, delta, 10),
    "sample_and_threshold": lambda epsilon, delta: SampleAndThreshold(epsilon, delta),
    "sample_and_threshold, at a rate": lambda epsilon, delta: SampleAndThreshold(epsilon, delta, rate="0.5"),
}


@pytest.mark.parametrize("name", LAWS)
@pytest.mark.parametrize(("epsilon", "delta"), PARAMETERS)
def test_no_frequency_is_reported_more_often_than_the_optimum(name: str, epsilon: Fraction, delta: Fraction) -> None:
    """For every frequency the reporting probability is at most the optimum, hence so is any expected number of keys."""
    law = LAWS[name](epsilon, delta)
    for frequency, best in enumerate(optimal_probabilities(epsilon, delta), start=1):
        assert law.reporting_probability(frequency) <= best + Fraction(1, 2**120)
    assert law.reporting_probability(0) == 0


@pytest.mark.parametrize("name", LAWS)
@pytest.mark.parametrize(("epsilon", "delta"), PARAMETERS)
def test_keys_of_one_unit_are_released_with_probability_at_most_delta(
    name: str, epsilon: Fraction, delta: Fraction
) -> None:
    """A key that only one unit has must stay hidden but for delta."""
    assert LAWS[name](epsilon, delta).reporting_probability(1) <= delta


@pytest.mark.parametrize("keys", [1, 2, 3, 10, 30])
@pytest.mark.parametrize(("epsilon", "delta"), PARAMETERS)
def test_all_keys_of_one_unit_together_are_released_with_probability_at_most_delta(
    epsilon: Fraction, delta: Fraction, keys: int
) -> None:
    """If all l keys of a unit are its own, the chance that any of them appears is at most delta."""
    law = PrivateWeightedSampling(epsilon, delta, max_keys_per_unit=keys, values=True).law
    assert 1 - (1 - law.reporting_probability(1)) ** keys <= delta


def test_the_gate_stops_an_off_by_one() -> None:
    """A law that reports frequency w as if it were w + 1 would not pass."""
    law = WeightedSample(1, "1e-6")
    best = optimal_probabilities(Fraction(1), Fraction(1, 10**6))
    assert law.reporting_probability(2) > best[0]
