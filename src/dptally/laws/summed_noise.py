"""The law of sketches whose sensitivity was reduced before a trusted aggregator added them up."""

from __future__ import annotations

import math
from bisect import bisect_right
from fractions import Fraction
from functools import cached_property
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from dptally.errors import InvalidParameter
from dptally.exact import as_count, as_delta, as_epsilon, exp_bounds
from dptally.laws.base import Parameters, as_frequencies, as_given
from dptally.laws.shared_noise import LARGEST_CAPACITY
from dptally.laws.tables.certified_table import CertifiedTable
from dptally.laws.tables.two_sided_geometric import noise_table, reach_of_noise, two_sided_masses
from dptally.laws.thresholded_noise import ThresholdedNoise, read_entries
from dptally.randomness import BitSource
from dptally.randomness.integers import draw_integers
from dptally.verifiers.sketches import certify_summed_noise
from dptally.verifiers.tables import TABLE_BITS

_WHOLE = 1 << TABLE_BITS
_GRIDS = (1, 2, 4, 8, 16, 32, 64)
_PRECISION = 256


class SummedNoise(ThresholdedNoise):
    """Counters that are fractions: rounded at random to a grid, noise added, hidden below a threshold.

    A sketch of capacity k has its sum of counters divided by k + 1 subtracted from every counter, and what is positive
    is kept [LT25, Alg. 3]. Counters are then multiples of 1 / (k + 1). One element more in one of the streams moves all
    counters together by at most (2k - 1) / (k + 1), whichever sketches are added up, and however many. A counter y is
    rounded at random to one of the two multiples of 1 / g beside it, two-sided geometric noise is added, and the whole
    part is reported if it is at least T. Counters rounded to 0 are not reported.

    The grid g trades a finer noise against a higher threshold; the one with the smallest threshold is taken. `row` and
    `reporting_probability` are for whole counters, which rounding leaves as they are.

    Guarantee:
        (epsilon, delta)-differential privacy for adding or removing up to `elements` elements in one of the streams,
        certified in integers on the table that is drawn from; see `certify_summed_noise` for statement and proof.

    Error:
        About 2 (2 / epsilon)^2 in variance, whatever the capacity. Counters fall short of frequencies by no more than
        (length of all streams) / (k + 1).
    Cost:
        A table of about 2 g (64 + log2(1 / delta)) / epsilon numbers.

    References:
        [LT25] Algorithm 3, Lemma 16 (corrected: the sensitivity is (2k - 1) / (k + 1)) and section 7.

    Args:
        epsilon: positive.
        delta: from 2^-64 to below 1.
        capacity: of the sketches.
        elements: how many elements of one unit the streams may hold, equal ones or not.
    """

    name = "summed_noise"
    stored_as = "SummedNoise"
    parameters: ClassVar[Parameters] = {"epsilon": str, "delta": str, "capacity": as_given, "elements": as_given}
    judged_for_unit = True
    slack = 1  # a counter that is a fraction may exceed the whole number that bounds are given for

    def __init__(self, epsilon: object, delta: object, capacity: int, *, elements: int = 1) -> None:
        self.epsilon = as_epsilon(epsilon)
        self.delta = as_delta(delta)
        self.capacity = as_count("capacity", capacity, largest=LARGEST_CAPACITY)
        self.elements = as_count("elements", elements, largest=10_000)

    @property
    def distance(self) -> Fraction:
        """How far counters of neighbouring data sets are apart, all together."""
        return reduced_distance(self.capacity, self.elements)

    @cached_property
    def _best(self) -> tuple[int, int, bytes]:
        """Grid, threshold on it (a multiple of the grid), table."""
        found = [(grid, *self._on_grid(grid)) for grid in _GRIDS]
        return min(found, key=lambda one: (Fraction(one[1], one[0]), one[0]))

    def _on_grid(self, grid: int) -> tuple[int, bytes]:
        rate = self.epsilon / (grid * self.distance)  # rho - 1
        rate = Fraction(math.floor(rate * (1 << 64)), 1 << 64)
        # ln(1 + x) >= 2x / (2 + x)
        reach = reach_of_noise(2 * rate / (2 + rate), self.delta / (grid * self.distance * math.ceil(self._growth)))
        masses = two_sided_masses(1 + rate, reach)
        table = noise_table(masses)
        above = (*read_entries(table), _WHOLE)  # P[Z >= R - d]
        spent = grid * self.distance * rate
        first = grid * self.distance if spent <= 1 else exp_bounds(spent - 1, _PRECISION)[1] / rate
        allowed = (self.delta - grid * self.distance * self._growth * Fraction(masses[-1], _WHOLE)) / first * _WHOLE
        # The largest d with P[Z >= R - d] <= allowed; then 1 + Z >= T is Z >= R - d for T = R - d + 1.
        place = bisect_right(above, math.floor(allowed)) - 1
        threshold = max(1, reach - place + 1)
        return -(-threshold // grid) * grid, table

    @cached_property
    def _growth(self) -> Fraction:
        return exp_bounds(self.epsilon, _PRECISION)[1]

    @property
    def grid(self) -> int:
        """g: counters are rounded to multiples of 1 / g."""
        return self._best[0]

    @property
    def threshold(self) -> int:  # type: ignore[override]
        """T: the smallest value that is reported."""
        return self._best[1] // self._best[0]

    @property
    def table(self) -> bytes:
        """The law of the noise, in steps of 1 / g."""
        return self._best[2]

    @cached_property
    def cumulative(self) -> tuple[int, ...]:
        """P[D <= d] for D = R' - floor(Z / g), R' the noise's reach in whole counts, in units of 2^-128."""
        fine = (*read_entries(self.table), _WHOLE)
        reach = len(fine) // 2
        steps = -(-reach // self.grid)
        # D <= d when Z >= g (R' - d).
        places = (reach - self.grid * (steps - d) for d in range(2 * steps + 1))
        return tuple(0 if place < 0 else fine[min(place, 2 * reach)] for place in places)

    @cached_property
    def _certified(self) -> CertifiedTable:
        grid, threshold, table = self._best
        certificate = certify_summed_noise(
            table, threshold=threshold, grid=grid, distance=self.distance, epsilon=self.epsilon, delta=self.delta
        )
        return CertifiedTable(table, certificate)

    def draw(self, frequencies: NDArray[np.int64], bits: BitSource) -> NDArray[np.int64]:
        """One independent draw for each whole counter; 0 means not reported. See `draw_scaled`."""
        return self.draw_scaled(as_frequencies(frequencies) * (self.capacity + 1), bits)

    def draw_scaled(self, scaled: NDArray[np.int64], bits: BitSource) -> NDArray[np.int64]:
        """One independent draw for each counter, given in units of 1 / (k + 1); 0 means not reported.

        Postcondition: for uniform words, U is floor(g y) or one more with mean g y exactly, Z follows the certified
        table, and the result is floor((U + Z) / g) where U is positive and that is at least T. The number of words
        taken depends on how many counters there are, and on rejected words, not on counters.
        """
        grid, threshold, _ = self._best
        if len(scaled) and (int(scaled.min()) < 0 or int(scaled.max()) > (1 << 62) // grid):
            raise InvalidParameter("counters must be from 0 to about 2^62 / (64 (capacity + 1)).")
        parts = self.capacity + 1
        rounded = (scaled * grid + draw_integers(parts, len(scaled), bits).astype(np.int64)) // parts
        noisy = self._certified.draw_above(rounded, threshold, bits)
        result: NDArray[np.int64] = np.where(rounded > 0, noisy // grid, 0)
        return result


def reduced_distance(capacity: int, elements: int) -> Fraction:
    """How far reduced counters of neighbouring data sets are apart, all together [LT25, Lem. 16, made exact]."""
    return elements * Fraction(max(1, 2 * capacity - 1), capacity + 1)
