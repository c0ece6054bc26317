"""The printed baseline in real numbers: closed forms against quadrature, and where the paper prints them wrong."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from scipy import integrate
from studies.baselines.stability import UncertifiedStability, printed_threshold, tight_threshold

from dptally.errors import InvalidParameter
from dptally.laws.sampling_schemes import Ppswor, Priority
from dptally.laws.stability import Stability
from dptally.laws.weighted_sample import WeightedSample

SCHEMES: list[Any] = [
    None,
    Ppswor("1"),
    Ppswor("0.1"),
    Ppswor("0.5"),
    Ppswor("0.003"),
    Priority("1"),
    Priority("0.05"),
    Priority("0.01"),
    Priority("0.002"),
]
PARAMETERS = [(0.1, 0.01), (0.5, 1e-6), (0.1, 1e-3)]


def included(scheme: Ppswor | Priority | None, j: float) -> float:
    """q_j."""
    if scheme is None:
        return 1.0
    mass = float(scheme.rate) * j
    return -math.expm1(-mass) if isinstance(scheme, Ppswor) else min(1.0, mass)


def by_quadrature(law: UncertifiedStability, i: float, h: Callable[[float], float]) -> float:
    """The integral over j >= T of h(j) times the density of i + Lap(1 / epsilon), by adaptive quadrature."""
    corners = {law.threshold, max(i, law.threshold), max(i, law.threshold) + 80 / law.epsilon}
    if isinstance(law.sampling, Priority):
        corners.add(max(law.threshold, 1 / float(law.sampling.rate)))
    places = sorted(corners)
    total = 0.0
    for low, high in pairwise(places):
        piece, _ = integrate.quad(
            lambda j: h(j) * law.epsilon / 2 * math.exp(-law.epsilon * abs(j - i)), low, high, epsrel=1e-11, limit=400
        )
        total += piece
    return total


@pytest.mark.parametrize("tight", [False, True])
@pytest.mark.parametrize("scheme", SCHEMES, ids=str)
@pytest.mark.parametrize(("epsilon", "delta"), PARAMETERS)
def test_closed_forms_agree_with_quadrature(epsilon: float, delta: float, scheme: Any, tight: bool) -> None:
    """Reporting probability, expectation and mean squared error, below, at and above the threshold and 1 / rate."""
    law = UncertifiedStability(epsilon, delta, scheme, tight)
    frequencies = np.array([1, 5, law.threshold - 1, law.threshold, law.threshold + 1, 99.5, 100, 101, 150, 600])
    for place, i in enumerate(frequencies.tolist()):
        phi = by_quadrature(law, i, lambda j: included(scheme, j))
        mean = by_quadrature(law, i, lambda j: j)
        second = by_quadrature(law, i, lambda j: j**2 / included(scheme, j))
        assert law.reporting_probability(frequencies)[place] == pytest.approx(phi, rel=1e-8, abs=1e-14)
        assert law.expectation(frequencies)[place] == pytest.approx(mean, rel=1e-8)
        assert law.bias(i) == pytest.approx(mean - i, rel=1e-8, abs=1e-6)
        error = i**2 - 2 * i * mean + second
        assert law.mse(frequencies)[place] == pytest.approx(error, rel=1e-7)
        assert law.variance(i) == pytest.approx(second - mean**2, rel=1e-6, abs=1e-9)


def test_printed_formulas_of_appendix_g() -> None:
    """(47), (49), (50) and (51), and the three cases for priority sampling, give the same numbers as printed."""
    epsilon, delta = 0.1, 0.01
    plain = UncertifiedStability(epsilon, delta)
    big_t = plain.threshold
    for i in (3.0, 30.0, 60.0, 120.0):
        e = math.exp(-epsilon * abs(i - big_t))
        phi = 1 - math.exp(-(i - 1) * epsilon) / (2 * delta) if i >= big_t else delta / 2 * math.exp(epsilon * (i - 1))
        assert plain.reporting_probability(i) == pytest.approx(phi)
        bracket = big_t**2 / 2 - i * big_t + abs(i - big_t) / epsilon + 1 / epsilon**2
        error = 2 / epsilon**2 - e * bracket if i > big_t else i**2 + e * bracket
        assert plain.mse(i) == pytest.approx(error)
        for rate in (0.1, 0.02):
            swap = epsilon / (2 * (epsilon + rate))
            if i <= big_t:
                phi = e / 2 * (1 - 2 * swap * math.exp(-big_t * rate))
            else:
                phi = 1 - e / 2 - swap * math.exp(-i * rate)
                if rate == epsilon:
                    phi -= epsilon * (i - big_t) * math.exp(-epsilon * i) / 2
                else:
                    part = math.exp(-epsilon * (i - big_t) - rate * big_t) - math.exp(-rate * i)
                    phi += epsilon / (2 * (epsilon - rate)) * part
            law = UncertifiedStability(epsilon, delta, Ppswor(rate))
            assert law.reporting_probability(i) == pytest.approx(phi)
        rate = 0.01
        end = 1 / rate
        if i < big_t:
            phi = rate / 2 * ((big_t + 1 / epsilon) * e - math.exp((i - end) * epsilon) / epsilon)
        elif i < end:
            phi = rate * (i - math.exp(epsilon * (i - end)) / (2 * epsilon) - (big_t - 1 / epsilon) * e / 2)
        else:
            phi = 1 - rate / (2 * epsilon) * math.exp(epsilon * (end - i)) - rate / 2 * (big_t - 1 / epsilon) * e
        law = UncertifiedStability(epsilon, delta, Priority("0.01"))
        assert law.reporting_probability(i) == pytest.approx(phi)


def test_printed_bound_of_the_second_integral_is_wrong() -> None:
    """(48) with its second integral up to infinity, as printed, diverges; up to i it is the mean squared error."""
    law = UncertifiedStability(0.1, 0.01)
    i = 80.0
    upper = law.epsilon / 2 * integrate.quad(lambda j: j**2 * math.exp(law.epsilon * (i - j)), i, 2000)[0]
    for end, agrees in ((i, True), (2 * i, False)):
        lower = (
            law.epsilon / 2 * integrate.quad(lambda j: j**2 * math.exp(law.epsilon * (j - i)), law.threshold, end)[0]
        )
        error = i**2 - 2 * i * float(law.expectation(i)) + upper + lower
        assert (error == pytest.approx(float(law.mse(i)))) is agrees


def test_printed_threshold_wastes_half_of_delta() -> None:
    """A key of frequency 1 is reported with delta / 2 at the printed threshold, and delta at the tight one."""
    for epsilon, delta in ((0.1, 0.01), (1.0, 1e-6), (0.01, 1e-8)):
        assert UncertifiedStability(epsilon, delta).reporting_probability(1) == pytest.approx(delta / 2)
        assert UncertifiedStability(epsilon, delta, tight=True).reporting_probability(1) == pytest.approx(delta)
        assert printed_threshold(epsilon, delta) - tight_threshold(epsilon, delta) == pytest.approx(
            math.log(2) / epsilon
        )
    assert tight_threshold(0.1, 1.0) == printed_threshold(0.1, 1.0) == 1


def test_integer_noise_is_near_the_tight_threshold() -> None:
    """The certified law of whole numbers reports about what the real-valued one with the tight threshold does."""
    for epsilon, delta in ((0.1, 0.001), (0.01, 1e-6)):
        exact, real = Stability(epsilon, delta), UncertifiedStability(epsilon, delta, tight=True)
        assert 0 <= exact.threshold - real.threshold < 1.5
        chances = np.array([float(exact.reporting_probability(i)) for i in range(1, 2 * exact.threshold)])
        assert np.abs(chances - real.reporting_probability(np.arange(1, 2 * exact.threshold))).max() < epsilon


def test_ratio_to_the_optimum_is_not_bounded_by_two_over_epsilon() -> None:
    """pi*_i / phi_i = 2 (1 - e^(-epsilon i)) / (1 - e^-epsilon) for i <= L, which exceeds the printed 2 / epsilon."""
    epsilon, delta = 0.1, 1e-6
    best = WeightedSample(epsilon, delta, values=False)
    printed = UncertifiedStability(epsilon, delta)
    ratios = []
    for i in range(1, best.width // 2 - 1):
        ratios.append(float(best.reporting_probability(i)) / float(printed.reporting_probability(i)))
        assert ratios[-1] == pytest.approx(2 * math.expm1(-epsilon * i) / math.expm1(-epsilon), rel=1e-9)
    assert max(ratios) > 2 / epsilon


def test_bad_requests() -> None:
    """Parameters outside their range and schemes without closed forms are refused."""
    with pytest.raises(InvalidParameter, match="epsilon must be positive"):
        UncertifiedStability(0, 0.1)
    with pytest.raises(InvalidParameter, match="power 1"):
        UncertifiedStability(1, 0.1, Ppswor("0.1", power=2))
