"""What one mechanism leads to: when keys are reported, how many are, and how far off numbers are.

Frequencies and reporting probabilities are exact, from the law. Floating point begins where probabilities are added up
over a population and where errors are averaged; each probability is rounded once. Averages of errors are taken over at
most 200 frequencies of a population, and read off between them; with sampling they are close, not exact.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, cast

import numpy as np

from dptally.errors import InvalidParameter
from dptally.estimates.frequencies import estimate_frequencies
from dptally.laws.bounded_geometric import DyadicGeometric
from dptally.laws.clamped_noise import ClampedNoise
from dptally.laws.sample_and_threshold import SampleAndThreshold
from dptally.laws.thresholded_noise import ThresholdedNoise
from dptally.laws.top_k_noise import TopKNoise
from dptally.laws.weighted_sample import WeightedSample
from dptally.planning.costs import estimate_cost
from dptally.planning.mechanisms import AllLevels, AnyKey

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dptally.planning.mechanisms import Planned, Setting
    from dptally.planning.populations import Population

__all__ = ["HALF", "LIKELY", "NEARLY", "Forecast", "KeyErrors", "drop_table", "key_errors", "make_forecast"]

HALF, LIKELY, NEARLY = Fraction(1, 2), Fraction(95, 100), Fraction(999, 1000)
_BETA = Fraction(1, 20)
_GRID, _GRID_WITH_SAMPLING = 200, 12
_FINE = 24  # frequencies below are all looked at
_CERTAIN_ENOUGH, _LOOKED_AT = Fraction((1 << 20) - 1, 1 << 20), 128
_CERTAIN = Fraction((1 << 60) - 1, 1 << 60)


@dataclass(frozen=True)
class Forecast:
    """What one mechanism leads to.

    Attributes:
        mechanism: its name; with sampling, the scheme beside it.
        half: the smallest frequency reported with probability at least 50 %; None if there is none.
        likely: the same for 95 %.
        nearly: the same for 99.9 %.
        at_least: whether reporting probabilities, and what follows from them, are lower bounds rather than exact.
        expected_keys: how many keys of the population are reported, on average; None without a population.
        mean_absolute_error: of `estimate`, for reported keys: averaged over those of the population, or else for a key
            of frequency `nearly` (`likely` if there is none). None where there is no such number.
        root_mean_square_error: the same, squared and averaged.
        bounds_width: of 95 % bounds, `upper` - `lower`, for a key of that frequency.
        sum_error: root mean square error of the estimated sum of all counts, or of a share of the keys, chosen without
            looking at the release; relative to the sum. None without a population or where it is not known.
        shortfall: how far counters of a sketch may fall short of frequencies, for this population; 0 for others.
        seconds: of processor time, an estimate; None without a population.
        memory_bytes: at the peak, an estimate; None without a population.
        note: what else to know.
    """

    mechanism: str
    half: int | None
    likely: int | None
    nearly: int | None
    at_least: bool
    expected_keys: float | None
    mean_absolute_error: float | None
    root_mean_square_error: float | None
    bounds_width: int | None
    sum_error: float | None
    shortfall: int
    seconds: float | None
    memory_bytes: float | None
    note: str


@dataclass(frozen=True)
class KeyErrors:
    """Errors at given frequencies, as floats; the first two among reported keys.

    Attributes:
        absolute: mean absolute error of `estimate`.
        square: mean square error of it.
        bias: of what the key adds to an estimated sum ("mle"), reported or not.
        variance: of the same.
    """

    absolute: NDArray[np.float64]
    square: NDArray[np.float64]
    bias: NDArray[np.float64]
    variance: NDArray[np.float64]


def make_forecast(planned: Planned, setting: Setting, population: Population | None, share: float) -> Forecast:
    """The forecast for one mechanism."""
    law = planned.law
    shortfall = 0
    if population is not None and planned.name == "misra_gries":
        shortfall = population.sketch_shortfall(setting.capacity)
    first = [law.first_frequency(level) for level in (HALF, LIKELY, NEARLY)]
    half, likely, nearly = (None if found is None else found + shortfall for found in first)
    typical = next((found for found in (first[2], first[1]) if found), None)
    absolute, square, sum_error, expected, cost, note = None, None, None, None, None, planned.note
    if population is not None:
        cost = estimate_cost(planned.name, setting, population)
        if not isinstance(law, AnyKey | TopKNoise) or population.size <= setting.capacity:
            chances = _chances(planned, population, shortfall)
            expected = None if isinstance(law, AnyKey) else float(population.keys @ chances)
            absolute, square, sum_error = _averages(planned, population, chances, shortfall, share)
        elif isinstance(law, AnyKey):
            note = f"Data with more than {setting.capacity:,} distinct keys is refused: raise the capacity."
        else:
            absolute, square = _at(planned, typical)
            note = f"Nothing is known for data with more than {setting.capacity:,} distinct keys: raise the capacity."
    elif setting.values:
        absolute, square = _at(planned, typical)
    return Forecast(
        mechanism=planned.name,
        half=half,
        likely=likely,
        nearly=nearly,
        at_least=planned.at_least or bool(shortfall),
        expected_keys=expected,
        mean_absolute_error=absolute,
        root_mean_square_error=square,
        bounds_width=_width(planned, typical) if setting.values else None,
        sum_error=sum_error,
        shortfall=shortfall,
        seconds=None if cost is None else cost.seconds,
        memory_bytes=None if cost is None else cost.memory_bytes,
        note=note,
    )


# ---- floating point from here on: a forecast, not a guarantee ----


def _chances(planned: Planned, population: Population, shortfall: int) -> NDArray[np.float64]:
    """The reporting probability at each frequency of the population, each rounded once."""
    found = np.ones(len(population.frequencies))
    if planned.at_least:
        return _lower_chances(planned, population.frequencies)
    for place, frequency in enumerate(population.frequencies.tolist()):
        # A key whose counter may be gone is counted as hidden: the number of keys is a lower bound then.
        exact = planned.reporting_probability(frequency - shortfall) if frequency > shortfall else Fraction(0)
        found[place] = float(exact)
        if exact >= _CERTAIN:  # it does not fall again, and a float cannot tell it from 1
            break
    return found


def _lower_chances(planned: Planned, frequencies: NDArray[np.int64]) -> NDArray[np.float64]:
    """Lower bounds of them: at every frequency the probability of the last one before it that was looked at."""
    last = planned.first_frequency(_CERTAIN_ENOUGH) or int(frequencies[-1])
    points = sorted({*range(1, min(last, _FINE)), *np.linspace(1, last, _LOOKED_AT).astype(np.int64).tolist()})
    chances = np.array([0.0, *(float(planned.reporting_probability(point)) for point in points)])
    return np.maximum.accumulate(chances)[np.searchsorted(points, frequencies, side="right")]


def _averages(
    planned: Planned, population: Population, chances: NDArray[np.float64], shortfall: int, share: float
) -> tuple[float | None, float | None, float | None]:
    """Mean absolute and root mean square error over reported keys, and the relative error of a sum."""
    grid = _grid(population, sampled=getattr(planned.law, "scheme", None) is not None)
    try:
        errors = key_errors(planned, grid)
    except InvalidParameter:
        return None, None, None
    if errors is None:
        return None, None, None
    every, keys = population.frequencies, population.keys
    read = np.log(grid)

    def spread(numbers: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.interp(np.log(every), read, numbers)

    weight = keys * chances
    reported = float(weight.sum())
    absolute = square = None
    if reported > 0:
        # A counter that falls short is off by that much more, at most.
        absolute = float(weight @ spread(errors.absolute)) / reported + shortfall
        square = math.sqrt(float(weight @ spread(errors.square)) / reported) + shortfall
    if planned.name == "misra_gries" or isinstance(planned.law, TopKNoise | AllLevels | AnyKey):
        return absolute, square, None  # counts of a sketch, or of keys that are chosen together
    # Relative to the frequency both change slowly; a bias grows with it.
    bias = float(keys @ (spread(errors.bias / grid) * every))
    variance = float(keys @ (spread(errors.variance / grid**2) * every.astype(np.float64) ** 2))
    truth = population.total
    return absolute, square, math.sqrt((share * bias) ** 2 + share * variance) / (share * truth)


def _grid(population: Population, *, sampled: bool) -> NDArray[np.float64]:
    """Frequencies of the population to look at: the small ones, and others at even distances of their logarithms."""
    every, most = population.frequencies, _GRID_WITH_SAMPLING if sampled else _GRID
    if len(every) <= most:
        return every.astype(np.float64)
    fine = every[: 0 if sampled else _FINE]
    aims = np.geomspace(float(every[0]), float(every[-1]), most)
    places = np.unique(np.searchsorted(every, np.rint(aims)))
    return np.unique(np.concatenate((fine, every[np.minimum(places, len(every) - 1)]))).astype(np.float64)


def _at(planned: Planned, frequency: int | None) -> tuple[float | None, float | None]:
    """Mean absolute and root mean square error for a reported key of one frequency."""
    if frequency is None and not isinstance(planned.law, AnyKey | DyadicGeometric):
        return None, None
    try:
        errors = key_errors(planned, np.array([float(frequency or 1)]))
    except InvalidParameter:
        return None, None
    return (None, None) if errors is None else (float(errors.absolute[0]), math.sqrt(float(errors.square[0])))


def _width(planned: Planned, frequency: int | None) -> int | None:
    """Of the 95 % bounds, for the most likely value of a key of this frequency."""
    law = planned.law
    if isinstance(law, AnyKey):
        return 2 * law.field.error(_BETA)
    if isinstance(law, DyadicGeometric):
        return 2 * law.error_quantile(_BETA)
    if frequency is None:
        return None
    if isinstance(law, AllLevels):
        law = law.level
    value = frequency
    if isinstance(law, SampleAndThreshold):
        value = max(law.threshold, math.floor(frequency * law.rate))
    elif isinstance(law, ThresholdedNoise):
        value = max(law.threshold, frequency)
    elif isinstance(law, WeightedSample) and law.scheme is None:
        value = max(1, frequency - law.likely_drop)
    elif isinstance(law, WeightedSample):
        row = law.row(frequency)
        value = max((mass, value) for value, mass in row.items() if value is not None)[1]
    try:
        found = estimate_frequencies(law, np.array([value], dtype=np.int64), 1 - _BETA)
    except InvalidParameter:
        return None
    return None if found.upper is None else int(found.upper[0] - found.lower[0])


def key_errors(planned: Planned, frequencies: NDArray[np.float64]) -> KeyErrors | None:
    """Errors for a key of each frequency, or None for a law without values.

    The estimate of a value is the frequency that makes it most likely, and its weight in a sum is that frequency over
    the probability that it is reported [CGSS21, (11)].
    """
    law = planned.law
    if isinstance(law, AllLevels):
        law = law.level
    if isinstance(law, AnyKey | DyadicGeometric | TopKNoise):
        return _noise_errors(law, frequencies)
    if isinstance(law, ClampedNoise) or not law.values:
        return None
    rows = np.array([_moments(cast("WeightedSample", law), int(frequency)) for frequency in frequencies])
    return KeyErrors(*rows.T)


def _moments(law: WeightedSample | ThresholdedNoise | SampleAndThreshold, frequency: int) -> tuple[float, ...]:
    """Absolute and square error among reported keys, bias and variance in a sum."""
    estimates, masses, weights = _reports(law, frequency)
    reported = float(masses.sum())
    off = estimates - frequency
    # A frequency that is never reported has no error of its own; it weighs nothing either.
    absolute = float(masses @ np.abs(off)) / reported if reported > 0 else 0.0
    square = float(masses @ off**2) / reported if reported > 0 else 0.0
    mean = float(masses @ weights)
    # Around the mean, so that large frequencies lose no digits; what is not reported adds 0.
    variance = float(masses @ (weights - mean) ** 2) + max(0.0, 1 - reported) * mean**2
    return absolute, square, mean - frequency, variance


def _reports(
    law: WeightedSample | ThresholdedNoise | SampleAndThreshold, frequency: int
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """For each value a key may have: its estimate, its probability, its weight in a sum."""
    if isinstance(law, SampleAndThreshold):
        return _sampled_reports(law, frequency)
    if isinstance(law, WeightedSample) and law.scheme is not None:
        return _scheme_reports(law, frequency)
    masses, curve = drop_table(law)
    if isinstance(law, WeightedSample):
        drops = np.arange(min(frequency, len(masses)))
        values = np.concatenate([frequency + 1 - drops, [1]])
        chances = np.concatenate([masses[drops], [float(law.lowest_value(frequency))]])
        estimates = np.maximum(values + law.likely_drop, 1)
        return estimates.astype(np.float64), chances, estimates / curve[np.minimum(estimates, len(curve)) - 1]
    moved = frequency + law.shift  # the law is "report w + shift - D if positive", with the threshold less 1 added
    if moved <= 0:
        return np.empty(0), np.empty(0), np.empty(0)
    drops = np.arange(min(moved, len(masses)))
    estimates = moved - drops + law.threshold - 1 + law.likely_drop
    at = np.clip(estimates + law.shift - 1, 0, len(curve) - 1)
    return estimates.astype(np.float64), masses[drops], estimates / curve[at]


def _scheme_reports(
    law: WeightedSample, frequency: int
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """With sampling: each estimate is taken to be as far from its value as that of the most likely value is.

    The exact one differs from it by little, and takes a sweep over all rows for each value.
    """
    row = {value: float(mass) for value, mass in law.row(frequency).items() if value is not None}
    if not row:
        return np.empty(0), np.empty(0), np.empty(0)
    values, masses = np.array(list(row), dtype=np.int64), np.array(list(row.values()))
    likely = values[[int(masses.argmax())]]
    found = estimate_frequencies(law, likely, 1 - _BETA).estimate
    estimates = np.maximum(1, values + (0 if found is None else int(found[0] - likely[0])))
    reported = np.array([float(law.reporting_probability(estimate)) for estimate in estimates.tolist()])
    return estimates.astype(np.float64), masses, estimates / reported


@lru_cache(maxsize=64)
def drop_table(law: WeightedSample | ThresholdedNoise) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """P[D = d], and with which probability places 1, 2, ... of the law are reported, as floats."""
    reached = law.tails if isinstance(law, WeightedSample) else law.cumulative
    whole, before = reached[-1], (0, *reached)
    masses = [(here - less) / whole for less, here in zip(before, reached, strict=False)]
    return np.array(masses), np.array([here / whole for here in law.cumulative])


def _sampled_reports(
    law: SampleAndThreshold, frequency: int
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Binomial masses within twelve deviations of their mean."""
    rate, threshold = float(law.rate), law.threshold
    mean, spread = frequency * rate, math.sqrt(frequency * rate * (1 - rate))
    low = max(threshold, math.floor(mean - 12 * spread))
    high = min(frequency, math.ceil(mean + 12 * spread) + 12)
    if high < low:
        return np.empty(0), np.empty(0), np.empty(0)
    values = np.arange(low, high + 1)
    start = math.lgamma(frequency + 1) - math.lgamma(low + 1) - math.lgamma(frequency - low + 1)
    start += low * math.log(rate) + (frequency - low) * math.log1p(-rate)
    steps = np.log((frequency - values[:-1]) / (values[:-1] + 1)) + math.log(rate) - math.log1p(-rate)
    masses = np.exp(start + np.concatenate(([0.0], np.cumsum(steps))))
    estimates = np.floor(values / rate).astype(np.int64)
    curve = _sampled_curve(law)
    weights = estimates / curve[np.minimum(estimates, len(curve) - 1)]
    return estimates.astype(np.float64), masses, weights


@lru_cache(maxsize=64)
def _sampled_curve(law: SampleAndThreshold) -> NDArray[np.float64]:
    """P[Binomial(i, p) >= t] for i = 0, 1, ... until it is 1 - 2^-40: P[the t-th hit comes at trial n] summed up."""
    rate, threshold = float(law.rate), law.threshold
    last = max(threshold, law.first_frequency(1 - Fraction(1, 1 << 40)) or threshold)
    trials = np.arange(threshold, last)
    steps = np.log(trials / (trials - threshold + 1)) + math.log1p(-rate)
    reached = np.cumsum(np.exp(threshold * math.log(rate) + np.concatenate(([0.0], np.cumsum(steps)))))
    return np.concatenate((np.zeros(threshold), np.minimum(reached, 1.0)))


def _noise_errors(law: AnyKey | DyadicGeometric | TopKNoise, frequencies: NDArray[np.float64]) -> KeyErrors:
    """For noise that does not depend on the frequency; that values are not below 0 is left out."""
    if isinstance(law, AnyKey):
        field = law.field
        beyond = np.array([2 * tail / field.size for tail in field.tails])
    elif isinstance(law, DyadicGeometric):
        last = law.error_quantile(Fraction(1, 1 << 40))
        beyond = np.array([float(law.error_probability(distance)) for distance in range(last + 1)])
    else:
        # P[|Z| > a] = 2 r^(a+1) / (1 + r)
        ratio = math.exp(-float(law.epsilon))
        last = math.ceil(30 / float(law.epsilon))
        beyond = 2 * ratio ** np.arange(1, last + 2) / (1 + ratio)
    distances = np.arange(len(beyond))
    ones = np.ones(len(frequencies))
    absolute, square = float(beyond.sum()), float((2 * distances + 1) @ beyond)
    return KeyErrors(absolute * ones, square * ones, 0 * ones, square * ones)
