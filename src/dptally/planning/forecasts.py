"""What one mechanism leads to: when keys are reported, how many are, and how far off numbers are.

Frequencies and reporting probabilities are exact, from the law. Floating point begins where probabilities are added up
over a population and where errors are averaged; each probability is rounded once. Averages of errors are taken over at
most 200 frequencies of a population, and read off between them; with sampling they are close, not exact.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from dptally.errors import InvalidParameter
from dptally.laws.base import Reporting
from dptally.laws.registry import mechanism_class
from dptally.planning.mechanisms import TREE, Planned, Setting
from dptally.planning.populations import Population

HALF, LIKELY, NEARLY = Fraction(1, 2), Fraction(95, 100), Fraction(999, 1000)
_BETA = Fraction(1, 20)
_GRID, _GRID_WITH_SAMPLING = 200, 12
_FINE = 24  # frequencies below are all looked at
_CERTAIN_ENOUGH, _LOOKED_AT = Fraction((1 << 20) - 1, 1 << 20), 128
_CERTAIN = Fraction((1 << 60) - 1, 1 << 60)

_START_SECONDS, _START_BYTES = 0.3, 220e6  # the interpreter with its engines
_PER_ROW = 7e-8
_PER_ROW_BY_UNIT, _BYTES_PER_ROW_BY_UNIT = 6e-7, 110.0  # sorting by unit; it spills to disk beyond the memory limit
_PER_KEY, _BYTES_PER_KEY = 2.5e-7, 150.0
_BUFFERS = 50e6
_FOR_ROWS_OF_A_SCHEME = 0.6  # verifying two thousand rows of a law with sampling


@dataclass(frozen=True)
class Forecast:
    """What one mechanism leads to. Numbers are None where there are none; some of them need a population."""

    mechanism: str  # its name; with sampling, the scheme beside it
    half: int | None  # the smallest frequency reported with probability at least 50 %
    likely: int | None  # the same for 95 %
    nearly: int | None  # the same for 99.9 %
    at_least: bool  # whether reporting probabilities, and what follows from them, are lower bounds rather than exact
    expected_keys: float | None  # how many keys of the population are reported, on average
    mean_absolute_error: float | None  # of `estimate`, over reported keys, or for a key of frequency `nearly`
    root_mean_square_error: float | None  # the same, squared and averaged
    bounds_width: int | None  # of 95 % bounds, `upper` - `lower`, for a key of that frequency
    sum_error: float | None  # root mean square error of the estimated sum over a share of the keys, relative
    shortfall: int  # how far counters of a sketch may fall short of frequencies, for this population; 0 for others
    seconds: float | None  # of processor time, an estimate
    memory_bytes: float | None  # at the peak, an estimate
    note: str  # what else to know


def make_forecast(planned: Planned, setting: Setting, population: Population | None, share: float) -> Forecast:
    """The forecast for one mechanism."""
    law = planned.law
    shortfall = 0
    if population is not None and planned.of_counters:
        shortfall = population.sketch_shortfall(setting.capacity)
    first = [law.first_frequency(level) for level in (HALF, LIKELY, NEARLY)]
    half, likely, nearly = (None if found is None else found + shortfall for found in first)
    typical = next((found for found in (first[2], first[1]) if found), None)
    absolute = square = sum_error = expected = seconds = memory = None
    note = planned.note
    if population is not None:
        seconds, memory = _cost(planned.name, setting, population)
        if law.most_distinct is None or population.size <= law.most_distinct:
            chances = _chances(planned, population, shortfall)
            expected = float(population.keys @ chances) if law.lists_keys else None
            absolute, square, sum_error = _averages(planned, population, chances, shortfall, share)
        elif not law.lists_keys:
            note = f"Data with more than {law.most_distinct:,} distinct keys is refused: raise the capacity."
        else:
            absolute, square = _at(law, typical)
            note = f"Nothing is known for data with more than {law.most_distinct:,} distinct keys: raise the capacity."
    elif setting.values:
        absolute, square = _at(law, typical)
    return Forecast(
        mechanism=planned.name,
        half=half,
        likely=likely,
        nearly=nearly,
        at_least=planned.at_least or bool(shortfall),
        expected_keys=expected,
        mean_absolute_error=absolute,
        root_mean_square_error=square,
        bounds_width=_width(law, typical) if setting.values else None,
        sum_error=sum_error,
        shortfall=shortfall,
        seconds=seconds,
        memory_bytes=memory,
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
        exact = planned.law.chance(frequency - shortfall) if frequency > shortfall else Fraction(0)
        found[place] = float(exact)
        if exact >= _CERTAIN:  # it does not fall again, and a float cannot tell it from 1
            break
    return found


def _lower_chances(planned: Planned, frequencies: NDArray[np.int64]) -> NDArray[np.float64]:
    """Lower bounds of them: at every frequency the probability of the last one before it that was looked at."""
    last = planned.law.first_frequency(_CERTAIN_ENOUGH) or int(frequencies[-1])
    points = sorted({*range(1, min(last, _FINE)), *np.linspace(1, last, _LOOKED_AT).astype(np.int64).tolist()})
    chances = np.array([0.0, *(float(planned.law.chance(point)) for point in points)])
    return np.maximum.accumulate(chances)[np.searchsorted(points, frequencies, side="right")]


def _averages(
    planned: Planned, population: Population, chances: NDArray[np.float64], shortfall: int, share: float
) -> tuple[float | None, float | None, float | None]:
    """Mean absolute and root mean square error over reported keys, and the relative error of a sum."""
    grid = _grid(population, sampled=planned.law.scheme is not None)
    try:
        errors = planned.law.key_errors(grid)
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
    if planned.of_counters or not planned.law.independent:
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


def _at(law: Reporting, frequency: int | None) -> tuple[float | None, float | None]:
    """Mean absolute and root mean square error for a reported key of one frequency."""
    if frequency is None and not law.complete:
        return None, None
    try:
        errors = law.key_errors(np.array([float(frequency or 1)]))
    except InvalidParameter:
        return None, None
    return (None, None) if errors is None else (float(errors.absolute[0]), math.sqrt(float(errors.square[0])))


def _width(law: Reporting, frequency: int | None) -> int | None:
    """Of the 95 % bounds, for the most likely value of a key of this frequency."""
    try:
        return law.interval_width(frequency, _BETA)
    except InvalidParameter:
        return None


def _cost(name: str, setting: Setting, population: Population) -> tuple[float, float]:
    """Seconds of processor time and bytes at the peak that publishing such data takes: a line through measured runs.

    Measured on one core of a small server (Zipf keys as strings of about 15 bytes in Parquet files, 10^6 and 4 10^6
    rows, 10^5 and 10^6 possible keys). Other machines, longer keys and CSV files change it by a factor of a few; it
    tells seconds from hours, and megabytes from what does not fit.
    """
    rows, keys = population.total, population.size
    by_unit = setting.by_unit or setting.max_keys_per_unit > 1
    seconds = _START_SECONDS + rows * (_PER_ROW + (_PER_ROW_BY_UNIT if by_unit else 0.0))
    memory = _START_BYTES + rows * (_BYTES_PER_ROW_BY_UNIT if by_unit else 0.0)
    chosen = None if name == TREE else mechanism_class(name.split(" ")[0])
    if chosen is not None and chosen.bounded_memory:
        memory += _BUFFERS
    else:
        seconds, memory = seconds + keys * _PER_KEY, memory + keys * _BYTES_PER_KEY
    if " " in name:
        seconds += _FOR_ROWS_OF_A_SCHEME + rows * 2 * _PER_ROW
    if chosen is None:
        seconds += (setting.levels or 1) * keys * _PER_KEY
    elif chosen.costs is not None:
        of, per_second, per_byte = chosen.costs
        size = setting.capacity if of == "capacity" else setting.universe_size
        seconds, memory = seconds + size * per_second, memory + size * per_byte
    return seconds, memory
