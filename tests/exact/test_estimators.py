"""Weights for sums: exact bias, variance and mean squared error, and what each kind promises."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from dptally.errors import InvalidParameter
from dptally.laws.weighted_sample import WeightedSample
from dptally.observation_models import Estimator, ObservationModel

LAWS = [WeightedSample("1", "1e-6"), WeightedSample("0.5", "0.01"), WeightedSample("2", "1/31")]
FUNCTIONS: list[Any] = [None, lambda w: 1, lambda w: min(w, 5), lambda w: w**2]


@pytest.mark.parametrize("law", LAWS, ids=repr)
def test_contracts_are_met(law: WeightedSample) -> None:
    """Laws and estimators offer what the contract lists."""
    assert isinstance(law, ObservationModel)
    assert isinstance(law.estimator(), Estimator)


@pytest.mark.parametrize("law", LAWS, ids=repr)
def test_maximum_likelihood_weights(law: WeightedSample) -> None:
    """a_j = g(i) / pi_i with i the frequency that makes j most likely, found here by searching all rows."""
    weigh = law.estimator("mle")
    rows = {i: law.row(i) for i in range(1, 3 * law.width)}
    for value in range(1, 2 * law.width):
        likely = max(rows, key=lambda i: (rows[i].get(value, Fraction(0)), -i))
        assert weigh(value) == Fraction(likely) / law.reporting_probability(likely)


@pytest.mark.parametrize("of", FUNCTIONS)
@pytest.mark.parametrize("law", LAWS, ids=repr)
def test_never_over_is_never_over(law: WeightedSample, of: Any) -> None:
    """Expectations never exceed g(i), through the recursion, where it is left, and far beyond."""
    weigh = law.estimator("lower", of)
    for frequency in [*range(1, 7 * law.width), 10**6, 2**40]:
        assert weigh.bias(frequency) <= 0


def test_never_over_follows_its_recursion() -> None:
    """The weights are (41) of [CGSS21], computed here with plain fractions, rounded down at 2^-64."""
    law = WeightedSample("1", "0.01")
    known: list[Fraction] = []
    for value in range(1, 4 * law.width):
        ratios = []
        for i in range(max(1, value - 1), value + law.width + 1):
            row = law.row(i)
            spent = sum((known[h - 1] * row.get(h, Fraction(0)) for h in range(1, value)), Fraction(0))
            before = sum((row.get(h, Fraction(0)) for h in range(1, value)), Fraction(0))
            ratios.append((i - spent) / (law.reporting_probability(i) - before))
        known.append(min(ratios))
        assert abs(known[-1] - law.estimator("lower")(value)) < Fraction(1, 2**32)


@pytest.mark.parametrize("of", FUNCTIONS)
@pytest.mark.parametrize("law", LAWS, ids=repr)
def test_unbiased_is_unbiased_and_wild(law: WeightedSample, of: Any) -> None:
    """The unbiased weights have no bias at all, and a variance of about 1 / delta already at frequency 1."""
    weigh = law.estimator("unbiased", of)
    assert all(weigh.bias(frequency) == 0 for frequency in range(1, 40))
    assert weigh.variance(1) >= 1 / law.delta - 2


@pytest.mark.parametrize("kind", ["mle", "lower"])
def test_bias_and_error_by_hand(kind: Any) -> None:
    """Bias, variance and mean squared error agree with their definitions written out over a row."""
    law = WeightedSample("1", "0.01")
    weigh = law.estimator(kind)
    for frequency in (1, 3, law.width, 50):
        contributions = {v: (weigh(v) if v else Fraction(0), p) for v, p in law.row(frequency).items()}
        mean = sum((a * p for a, p in contributions.values()), Fraction(0))
        second = sum((a * a * p for a, p in contributions.values()), Fraction(0))
        assert weigh.expectation(frequency) == mean
        assert weigh.bias(frequency) == mean - frequency
        assert weigh.variance(frequency) == second - mean**2
        assert weigh.mse(frequency) == second - 2 * frequency * mean + frequency**2


def test_without_values() -> None:
    """Keys only: the weight of a reported key is g at the first certain frequency, or the largest never over."""
    law = WeightedSample("1", "1e-6", values=False)
    assert law.estimator("mle")(1) == law.width
    lower = law.estimator("lower")
    assert all(lower.bias(frequency) <= 0 for frequency in range(1, 2 * law.width))
    assert max(lower.bias(frequency) for frequency in range(1, law.width)) == 0
    with pytest.raises(InvalidParameter, match="no unbiased estimator without values"):
        law.estimator("unbiased")


def test_bad_requests() -> None:
    """Unknown kinds, value 0 and unbiased weights of large values are refused in one sentence."""
    law = WeightedSample("1", "1e-6")
    with pytest.raises(InvalidParameter, match="kind must be one of"):
        law.estimator("best")  # type: ignore[arg-type]
    with pytest.raises(InvalidParameter, match="value must be at least 1"):
        law.estimator()(0)
    with pytest.raises(InvalidParameter, match="use kind='mle'"):
        law.estimator("unbiased")(5000)


def test_many_weights_at_once() -> None:
    """The array version gives the same numbers as single calls."""
    weigh = WeightedSample("1", "1e-6").estimator()
    values = np.array([5, 1, 5, 1000, 2**50])
    assert weigh.weights(values).tolist() == [float(weigh(int(value))) for value in values]
