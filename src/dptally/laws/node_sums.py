"""How many units the nodes of a tree hold together, from what was released of them: estimates and exact bounds.

The nodes asked about are disjoint, fixed without looking at the release, and of any levels; every unit is in at most
one of them, with a coin or noise of its own. Floating point: estimates, not guarantees. The allowed error is lowered by
one part in a million, which is more than the arithmetic is off by.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from dptally.laws.base import LARGEST_VALUE
from dptally.laws.binomial_bounds import lower_of_binomial, upper_of_binomial

if TYPE_CHECKING:
    from dptally.laws.bounded_geometric import DyadicGeometric
    from dptally.laws.sample_and_threshold import SampleAndThreshold
    from dptally.laws.weighted_sample import WeightedSample

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

_SAFE = 1 - 1e-6
_ROUNDING = 1e-11  # more than a convolution by FFT is off by


class NodeSums(Protocol):
    """What a law says about sums of nodes."""

    smallest: int  # value that a reported node may have
    largest: int  # the same

    def measure(self, values: Integers, reported: NDArray[np.bool_]) -> tuple[Floats, Floats]:
        """An estimate of each node by itself, and the variance to weigh it by."""

    def lower(self, sums: Integers, nodes: Integers, hidden: Integers, error: float) -> Floats:
        """A number that exceeds the true number of units in some nodes with probability at most `error`."""

    def upper(self, sums: Integers, nodes: Integers, hidden: Integers, error: float) -> Floats:
        """A number that is below the true number of units with probability at most `error`; see `lower`."""


class SampledNodes:
    """Values are numbers of kept units, those of hidden nodes are from 0 to t - 1.

    The kept units of all nodes together, V, are Binomial(W, p) for W units, whatever nodes and levels they are in. With
    R the sum of reported values and h hidden nodes, R <= V <= R + h (t - 1), so the binomial bounds of W at the two
    ends hold: no error is added up over nodes. The part h (t - 1) / p is what Lemma 9 of [BC22] counts.
    """

    smallest, largest = 1, LARGEST_VALUE

    def __init__(self, law: SampleAndThreshold) -> None:
        self._rate, self._threshold = float(law.rate), law.threshold

    def measure(self, values: Integers, reported: NDArray[np.bool_]) -> tuple[Floats, Floats]:
        """Estimates and variances; see `NodeSums`."""
        kept = values / self._rate
        return np.where(reported, kept, 0.0), np.where(
            reported, kept * (1 - self._rate) / self._rate, (self._threshold / self._rate) ** 2 / 3
        )

    def lower(self, sums: Integers, nodes: Integers, hidden: Integers, error: float) -> Floats:
        """A lower bound; see `NodeSums`."""
        return lower_of_binomial(sums, self._rate, error)

    def upper(self, sums: Integers, nodes: Integers, hidden: Integers, error: float) -> Floats:
        """An upper bound; see `NodeSums`."""
        return upper_of_binomial(sums + hidden * (self._threshold - 1), self._rate, error)


class _SumOfCopies:
    """The law of a sum of independent copies of a number from 0 up.

    Long laws are put into groups of neighbouring numbers. A sum of numbers is at least that of the groups' smallest
    ones, and at most that of their largest ones, which is what bounds are taken from.
    """

    def __init__(self, masses: Floats, longest: int = 8192) -> None:
        self._grain = -(-len(masses) // longest)
        padded = np.zeros(-(-len(masses) // self._grain) * self._grain)
        padded[: len(masses)] = masses
        self._masses = padded.reshape(-1, self._grain).sum(axis=1)
        self._known: dict[tuple[int, float, bool], int] = {}

    def _cumulative(self, copies: int) -> Floats:
        length = copies * (len(self._masses) - 1) + 1
        size = 1 << max(1, (length - 1).bit_length())
        masses = np.fft.irfft(np.fft.rfft(self._masses, size) ** copies, size)[:length]
        return _floats(np.cumsum(np.maximum(masses, 0.0)))

    def upper(self, copies: int, share: float) -> int:
        """The smallest q with P[sum > q] <= share, or a larger one."""
        key = copies, share, True
        if key not in self._known:
            reached = self._cumulative(copies)
            last = len(reached) - 1
            group = last if share <= 10 * _ROUNDING else min(int(np.searchsorted(reached, 1 - share + _ROUNDING)), last)
            self._known[key] = group * self._grain + copies * (self._grain - 1)
        return self._known[key]

    def lower(self, copies: int, share: float) -> int:
        """The largest q with P[sum < q] <= share, or a smaller one."""
        key = copies, share, False
        if key not in self._known:
            reached = self._cumulative(copies)
            group = 0 if share <= 10 * _ROUNDING else int(np.searchsorted(reached, share - _ROUNDING, side="right"))
            self._known[key] = group * self._grain
        return self._known[key]


class DroppedNodes:
    """A node of w units that is reported has the value w + 1 - D, D of one law on 0 .. d; a hidden one has D >= w.

    With X the sum of values, r of k nodes reported and W the units of all, W - X + r is the sum of D_i over reported
    nodes and of w_i over hidden ones: at most the sum of all D_i, and at least that less d for each hidden node.
    """

    smallest, largest = 1, LARGEST_VALUE

    def __init__(self, law: WeightedSample) -> None:
        drops = np.array([float(mass) for mass in law.drop_law])
        places = np.arange(len(drops))
        self._most = len(drops) - 1
        self._mean = float(places @ drops) - 1
        self._variance = max(float(((places - 1 - self._mean) ** 2) @ drops), 1e-6)
        self._half = float(law.first_frequency(Fraction(1, 2)) or len(drops))
        self._sums = _SumOfCopies(drops)

    def measure(self, values: Integers, reported: NDArray[np.bool_]) -> tuple[Floats, Floats]:
        """Estimates and variances; see `NodeSums`."""
        return np.where(reported, values + self._mean, 0.0), np.where(reported, self._variance, self._half**2 / 3)

    def lower(self, sums: Integers, nodes: Integers, hidden: Integers, error: float) -> Floats:
        """A lower bound; see `NodeSums`."""
        below = _for_each(nodes, lambda count: self._sums.lower(count, error * _SAFE))
        return _floats(np.maximum(sums - (nodes - hidden) + np.maximum(below - hidden * self._most, 0), 0))

    def upper(self, sums: Integers, nodes: Integers, hidden: Integers, error: float) -> Floats:
        """An upper bound; see `NodeSums`."""
        above = _for_each(nodes, lambda count: self._sums.upper(count, error * _SAFE))
        return _floats(sums - (nodes - hidden) + above)


class ShiftedNodes:
    """Every node has its number of units plus symmetric noise, or, rarely, a uniform value."""

    def __init__(self, law: DyadicGeometric) -> None:
        half = np.array([mass / law.whole for mass in law.half_masses])
        masses = np.concatenate([half[:0:-1], half])
        self._reach = law.reach
        self.smallest, self.largest = -law.reach, law.bound - law.reach
        self._uniform = float(law.mixing)
        self._variance = float(2 * (np.arange(len(half)) ** 2) @ half)
        self._sums = _SumOfCopies(masses)

    def measure(self, values: Integers, reported: NDArray[np.bool_]) -> tuple[Floats, Floats]:
        """Estimates and variances; see `NodeSums`."""
        return values.astype(np.float64), np.full(len(values), max(self._variance, 1e-6))

    def lower(self, sums: Integers, nodes: Integers, hidden: Integers, error: float) -> Floats:
        """A lower bound; see `NodeSums`."""
        return _floats(np.maximum(sums - self._off(nodes, error), 0))

    def upper(self, sums: Integers, nodes: Integers, hidden: Integers, error: float) -> Floats:
        """An upper bound; see `NodeSums`."""
        return _floats(np.maximum(sums + self._off(nodes, error), 0))

    def _off(self, nodes: Integers, error: float) -> Integers:
        """What the noise of so many nodes exceeds with at most this probability."""

        def off(count: int) -> int:
            # A uniform value, of probability below 2^-60, counts as an error.
            return self._sums.upper(count, error * _SAFE - count * self._uniform) - count * self._reach

        return _for_each(nodes, off)


def _floats(numbers: NDArray[Any]) -> Floats:
    return np.asarray(numbers, dtype=np.float64)


def _for_each(counts: Integers, of: Callable[[int], int]) -> Integers:
    """A function of each count, evaluated once for equal ones."""
    distinct, places = np.unique(counts, return_inverse=True)
    return np.array([of(count) for count in distinct.tolist()], dtype=np.int64)[places]
