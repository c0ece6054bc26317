"""Numbers of Figures 8 and 9 of [CGSS21]: error of estimated sums of frequencies, delta = 2^-20, priority sampling.

Rows and weights of the optimal law are exact; bias and variance are summed from them in floats (for single frequencies
the exact ones are `law.estimator("mle").bias(i)` and `.variance(i)`; a test compares). Nothing is simulated.

Columns of the tables: ``optimal`` is `WeightedSample` with its most likely weights, ``stability_printed`` and
``stability_tight`` are Algorithm 6 sampled from afterwards (not certified), ``sampled`` is inverse-probability
estimation from the sample alone, without privacy.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from dptally.laws.sampling_schemes import Priority
from dptally.laws.weighted_sample import WeightedSample
from studies.baselines.stability import UncertifiedStability
from studies.figures.populations import Population, uniform
from studies.figures.tables import Row, Table

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["EPSILONS", "bias_by_frequency", "error_by_rate", "most_likely_errors", "variance_by_frequency"]

DELTA = "1/1048576"
EPSILONS = ("0.5", "0.25", "0.1")
SHOWN_RATES = ("1", "0.01", "0.001", "1e-4", "1e-5")
ALL_RATES = ("1", "0.3", "0.1", "0.03", "0.01", "0.003", "0.001", "3e-4", "1e-4", "3e-5", "1e-5", "3e-6", "1e-6")
_LAST = 240
_SHOWN = np.unique(np.geomspace(1, _LAST, 56).round().astype(np.int64))


def bias_by_frequency(*, epsilons: Sequence[str] = EPSILONS) -> Table:
    """Figure 8, top: bias over frequency. That of the baseline does not depend on the rate."""
    rows: list[Row] = []
    for epsilon in epsilons:
        printed, tight = (baseline.bias(_SHOWN) / _SHOWN for baseline in _baselines(epsilon, None))
        for rate in SHOWN_RATES:
            bias, _ = most_likely_errors(epsilon, DELTA, rate, _LAST)
            for place, frequency in enumerate(_SHOWN.tolist()):
                rows.append(
                    {
                        "epsilon": epsilon,
                        "rate": rate,
                        "frequency": frequency,
                        "optimal": float(bias[frequency - 1]) / frequency,
                        "stability_printed": float(printed[place]),
                        "stability_tight": float(tight[place]),
                    }
                )
    return Table("figure_8_bias", rows)


def error_by_rate(*, epsilons: Sequence[str] = EPSILONS, rates: Sequence[str] = ALL_RATES) -> Table:
    """Figure 8, bottom: normalised root mean squared error of the sum over 1000 keys of each frequency 1 .. 200."""
    population = uniform(200, 1000)
    frequencies = population.frequencies
    rows: list[Row] = []
    for epsilon in epsilons:
        for rate in rates:
            scheme = Priority(rate)
            printed, tight = (
                _normalised_error(population, baseline.bias(frequencies), baseline.variance(frequencies))
                for baseline in _baselines(epsilon, scheme)
            )
            bias, variance = most_likely_errors(epsilon, DELTA, rate, _LAST)
            rows.append(
                {
                    "epsilon": epsilon,
                    "rate": rate,
                    "sampled": _normalised_error(population, 0 * bias[:200], _sampled_variance(scheme, frequencies)),
                    "optimal": _normalised_error(population, bias[:200], variance[:200]),
                    "stability_printed": printed,
                    "stability_tight": tight,
                }
            )
    return Table("figure_8_error", rows)


def variance_by_frequency(*, epsilons: Sequence[str] = EPSILONS) -> Table:
    """Figure 9: variance over squared frequency; times the squared frequency it is the variance."""
    rows: list[Row] = []
    for epsilon in epsilons:
        for rate in ("1", "0.01", "1e-4"):
            scheme = Priority(rate)
            printed, tight = (baseline.variance(_SHOWN) / _SHOWN**2 for baseline in _baselines(epsilon, scheme))
            _, variance = most_likely_errors(epsilon, DELTA, rate, _LAST)
            sampled = _sampled_variance(scheme, _SHOWN) / _SHOWN**2
            for place, frequency in enumerate(_SHOWN.tolist()):
                rows.append(
                    {
                        "epsilon": epsilon,
                        "rate": rate,
                        "frequency": frequency,
                        "sampled": float(sampled[place]),
                        "optimal": float(variance[frequency - 1]) / frequency**2,
                        "stability_printed": float(printed[place]),
                        "stability_tight": float(tight[place]),
                    }
                )
    return Table("figure_9", rows)


@lru_cache(maxsize=64)
def most_likely_errors(
    epsilon: str, delta: str, rate: str, last: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Bias and variance of the optimal law with its most likely weights, for frequencies 1 .. last."""
    law = WeightedSample(epsilon, delta, Priority(rate))
    frequencies = np.arange(1, last + 1, dtype=np.int64)
    weights = law.estimator("mle").weights(frequencies)
    chances = np.zeros((last, last))
    for band in law.sampled_rows.bands(range(1, last + 1)):
        for value, mass in band.masses().items():
            if value is not None:
                chances[band.frequency - 1, value - 1] = mass / 2**128
    expectation = chances @ weights
    # Variance as a sum of squares about the mean, so that nothing cancels.
    missed = 1 - chances.sum(axis=1)
    spread = (weights[None, :] - expectation[:, None]) ** 2
    return expectation - frequencies, (chances * spread).sum(axis=1) + missed * expectation**2


def _normalised_error(population: Population, bias: NDArray[np.float64], variance: NDArray[np.float64]) -> float:
    """Root of (sum of variances + squared sum of biases), over the sum of frequencies."""
    error = float(population.keys @ variance) + float(population.keys @ bias) ** 2
    return math.sqrt(error) / float(population.keys @ population.frequencies)


def _sampled_variance(scheme: Priority, frequencies: NDArray[np.int64]) -> NDArray[np.float64]:
    """i^2 (1 / q_i - 1)."""
    taken = np.minimum(1, float(scheme.rate) * frequencies)
    result: NDArray[np.float64] = frequencies**2 * (1 / taken - 1)
    return result


def _baselines(epsilon: str, scheme: Priority | None) -> tuple[UncertifiedStability, UncertifiedStability]:
    chance = 2.0**-20
    return (
        UncertifiedStability(float(epsilon), chance, scheme),
        UncertifiedStability(float(epsilon), chance, scheme, tight=True),
    )
