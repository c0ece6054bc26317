"""Seeded releases hold as many keys as was planned."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import dptally
from dptally.planning import Plan
from dptally.randomness import SeededBits
from tests.statistical.checks import Z_LIMIT, mean_z

POPULATION = {4: 300, 9: 60, 13: 40, 15: 40, 18: 30, 40: 20, 90: 20}
RELEASES = 200


def planned(mechanism: str) -> tuple[Plan, float, float]:
    """The plan for one mechanism, the expected number of keys, and its variance; keys are independent."""
    plan = dptally.plan(epsilon=1, delta="1e-6", population=POPULATION, mechanisms=[mechanism])
    assert isinstance(plan, Plan)
    expected = plan.forecasts[0].expected_keys
    assert expected is not None
    chances = {frequency: float(plan.mechanisms[0].law.chance(frequency)) for frequency in POPULATION}
    variance = sum(keys * chances[frequency] * (1 - chances[frequency]) for frequency, keys in POPULATION.items())
    return plan, expected, variance


@pytest.mark.parametrize("mechanism", ["weighted_sample", "stability", "gaussian", "sample_and_threshold"])
def test_draws_hold_as_many_keys_as_planned(mechanism: str) -> None:
    """The mean of 200 seeded draws is the expected number of keys; false-alarm rate 1e-6.

    It rejects a planner that takes every frequency for one more than it is.
    """
    plan, expected, variance = planned(mechanism)
    law: Any = plan.mechanisms[0].law
    frequencies = np.repeat(list(POPULATION), list(POPULATION.values()))
    found = [float(np.count_nonzero(law.draw(frequencies, SeededBits(seed)))) for seed in range(RELEASES)]
    assert abs(mean_z(found, expected, variance)) < Z_LIMIT
    shifted = sum(keys * float(law.chance(frequency + 1)) for frequency, keys in POPULATION.items())
    assert abs(mean_z(found, shifted, variance)) > Z_LIMIT


def test_releases_hold_as_many_keys_as_planned() -> None:
    """200 populations, published eight at a time with seeds, have as many keys as planned; false-alarm rate 1e-6."""
    _, expected, variance = planned("weighted_sample")
    at_once = 8
    source = {
        f"{frequency} {number}": frequency for frequency, keys in POPULATION.items() for number in range(at_once * keys)
    }
    found = []
    for seed in range(RELEASES // at_once):
        release = dptally.publish(source, epsilon=1, delta="1e-6", randomness=SeededBits(seed), progress=False)
        assert isinstance(release, dptally.TableRelease)
        found.append(float(len(release)))
    assert abs(mean_z(found, at_once * expected, at_once * variance)) < Z_LIMIT


def test_a_sketch_releases_at_least_as_many_keys_as_planned() -> None:
    """With as many counters as keys, the expected number is exact; 200 releases, false-alarm rate 1e-6.

    Keys of one release share a noise, so the variance is estimated from the releases themselves.
    """
    plan = dptally.plan(epsilon=1, delta="1e-6", population=POPULATION, mechanisms=["misra_gries"], capacity=1000)
    expected = plan.forecasts[0].expected_keys
    assert expected is not None and plan.forecasts[0].shortfall == 0
    source = {f"{frequency} {number}": frequency for frequency, keys in POPULATION.items() for number in range(keys)}
    keys = [key for key, frequency in source.items() for _ in range(frequency)]
    sketch = dptally.MisraGriesSketch(1000, bits=SeededBits(0))
    sketch.update(keys)
    found = [float(len(sketch.publish(1, Fraction(1, 10**6), randomness=SeededBits(seed)))) for seed in range(RELEASES)]
    mean = sum(found) / RELEASES
    variance = sum((number - mean) ** 2 for number in found) / (RELEASES - 1)
    assert abs(mean_z(found, expected, variance)) < Z_LIMIT
