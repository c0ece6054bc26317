"""What is supposed about the data, publicly: how many keys have each frequency."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dptally.errors import InvalidParameter
from dptally.exact import as_count, as_fraction

_MOST_ROWS = 10**15
_MOST_KEYS = 10**9
_SPREAD_UP_TO = 1000  # keys with a larger mean are taken at their mean: they vary by 3 % or less
_BLOCK = Fraction(1, 100)  # ranks within 1 % of each other share their mean


@dataclass(frozen=True, eq=False)
class Population:
    """Distinct frequencies, and how many keys are expected to have each. Public, whatever it was made from."""

    frequencies: NDArray[np.int64]  # increasing, at least 1
    keys: NDArray[np.float64]  # how many have each; not whole where the population is drawn at random
    told: str  # where it comes from, as part of a sentence
    from_example: bool  # whether a file or a list was looked at, which must then be public

    @property
    def size(self) -> float:
        """How many keys there are."""
        return float(self.keys.sum())

    @property
    def total(self) -> float:
        """The sum of all frequencies."""
        return float(self.keys @ self.frequencies)

    def describe(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return {"told": self.told, "must_be_public": self.from_example, "keys": self.size, "counts": self.total}

    def sketch_shortfall(self, capacity: int) -> int:
        """The most that a Misra-Gries counter can fall short of its key's frequency, whatever the order of rows.

        d reductions take at least capacity + 1 from the counters each. With R_j the sum of all but the j largest
        frequencies, those j keys alone keep (total - R_j) - j d of their counts, which is at most what all counters
        hold, total - d (capacity + 1). So d (capacity + 1 - j) <= R_j for every j, and the smallest quotient is taken.
        """
        largest = self.frequencies[::-1].astype(np.float64)
        keys = self.keys[::-1]
        before = np.concatenate(([0.0], np.cumsum(keys)))  # how many keys are larger
        rest = self.total - np.concatenate(([0.0], np.cumsum(keys * largest)))
        usable = before <= capacity
        return math.floor(max(0.0, float(np.min(rest[usable] / (capacity + 1 - before[usable])))) + 1e-9)


def zipf_population(rows: object, keys: object = None, exponent: object = 1) -> Population:
    """`rows` counts, each for one of `keys` keys, the key of rank r with a chance proportional to 1 / r^exponent.

    Frequencies are random: expected numbers of keys with each are those of Poisson counts. Keys expected more than 1000
    times are taken at their mean. Floating point: a supposition, not a guarantee.
    """
    total = as_count("rows", rows, largest=_MOST_ROWS)
    size = as_count("keys", max(1, total // 10) if keys is None else keys, largest=_MOST_KEYS)
    power = as_fraction("zipf", exponent)
    if not 0 <= power <= 5:
        raise InvalidParameter(f"zipf must be from 0 to 5, got {exponent}.")
    frequencies, numbers = _spread(total, size, float(power))
    guess = ", a guess" if keys is None else ""
    told = f"{total:,} counts over {size:,} possible keys{guess}, by Zipf's law with exponent {float(power):g}"
    return Population(frequencies, numbers, told, from_example=False)


def listed_population(numbers: Mapping[int, int]) -> Population:
    """A given number of keys for each frequency."""
    if not isinstance(numbers, Mapping) or not numbers:
        raise InvalidParameter("population must map frequencies to numbers of keys, and not be empty.")
    found = {
        as_count("frequencies", frequency, largest=1 << 62): as_count("numbers of keys", keys, largest=_MOST_ROWS)
        for frequency, keys in sorted(numbers.items())
    }
    frequencies = np.array(list(found), dtype=np.int64)
    keys = np.array(list(found.values()), dtype=np.float64)
    told = f"{int(keys.sum()):,} keys with {int(keys @ frequencies):,} counts, as listed"
    return Population(frequencies, keys, told, from_example=True)


def example_population(found: NDArray[np.int64], *, rows: object = None) -> Population:
    """The counts of a *public* example; with `rows`, scaled to as many.

    Nothing is protected: what is planned shows what the example holds.
    """
    if not found.size:
        raise InvalidParameter("the public example has no keys.")
    told = f"{found.size:,} keys with {int(found.sum()):,} counts, from the public example"
    if rows is not None:
        wanted = as_count("rows", rows, largest=_MOST_ROWS)
        found = np.rint(found * (wanted / float(found.sum()))).astype(np.int64)
        found = found[found > 0]
        if not found.size:
            raise InvalidParameter("rows is too small for this example: no key would be left.")
        told += f", scaled to {wanted:,}"
    frequencies, keys = np.unique(found, return_counts=True)
    return Population(frequencies, keys.astype(np.float64), told, from_example=True)


@lru_cache(maxsize=16)
def _spread(total: int, size: int, power: float) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Frequencies of at least 1, and the expected number of keys with each."""
    first, last = _blocks(size)
    numbers = (last - first + 1).astype(np.float64)
    # The mean of r^-power over a block: each block is narrow, and its middle stands for it.
    weights = ((first + last) / 2.0) ** -power
    means = total * weights / float(numbers @ weights)
    large = means > _SPREAD_UP_TO
    found: dict[int, float] = {}
    for mean, number in zip(np.rint(means[large]).astype(np.int64).tolist(), numbers[large].tolist(), strict=True):
        found[mean] = found.get(mean, 0.0) + number
    small, small_numbers = means[~large], numbers[~large]
    if small.size:
        top = float(small.max())
        points = np.arange(1, math.ceil(top + 10 * math.sqrt(top) + 10) + 1)
        logs = np.array([math.lgamma(point + 1) for point in points.tolist()])
        expected = np.zeros(len(points))
        for at in range(0, len(small), 64):
            part = small[at : at + 64, None]
            expected += small_numbers[at : at + 64] @ np.exp(points * np.log(part) - part - logs)
        for point, number in zip(points.tolist(), expected.tolist(), strict=True):
            if number > 1e-12:
                found[point] = found.get(point, 0.0) + number
    frequencies = np.array(sorted(found), dtype=np.int64)
    return frequencies, np.array([found[int(frequency)] for frequency in frequencies])


def _blocks(size: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Ranks 1 .. size in blocks of at most 1 % of their rank: first and last rank of each."""
    first, at = [], 1
    while at <= size:
        first.append(at)
        at += max(1, math.floor(at * _BLOCK))
    starts = np.array(first, dtype=np.int64)
    return starts, np.append(starts[1:] - 1, size)
