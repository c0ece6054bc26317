"""Pairs of unit and key while a method works on them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from data import DataSet
from numpy.typing import NDArray

__all__ = ["Pairs", "all_pairs", "cap_keys"]


@dataclass(frozen=True)
class Pairs:
    """Distinct pairs, those of a unit side by side.

    Attributes:
        units: number of the unit, for each pair, ascending.
        keys: number of the key, for each pair.
        occurrences: rows of the pair in the source.
        unit_count: how many units there are, those without pairs included.
    """

    units: NDArray[np.int64]
    keys: NDArray[np.int64]
    occurrences: NDArray[np.int64]
    unit_count: int

    @cached_property
    def counts(self) -> NDArray[np.int64]:
        """Number of pairs of each unit."""
        return np.bincount(self.units, minlength=self.unit_count)

    @property
    def sizes(self) -> NDArray[np.int64]:
        """Number of pairs that the unit of each pair has."""
        return self.counts[self.units]

    def keep(self, chosen: NDArray[np.bool_]) -> Pairs:
        """Only the chosen pairs."""
        return Pairs(self.units[chosen], self.keys[chosen], self.occurrences[chosen], self.unit_count)


def all_pairs(data: DataSet) -> Pairs:
    """The pairs of a data set."""
    return Pairs(data.unit_of_pair, data.keys, data.occurrences, data.unit_count)


def cap_keys(pairs: Pairs, cap: int, rng: np.random.Generator) -> Pairs:
    """At most `cap` pairs of each unit, chosen uniformly at random."""
    large = np.flatnonzero(pairs.sizes > cap)
    if not len(large):
        return pairs
    units = pairs.units[large]
    shuffled = large[np.lexsort((rng.random(len(large)), units))]
    starts = np.concatenate([[0], np.flatnonzero(np.diff(units)) + 1])
    lengths = np.diff(np.append(starts, len(large)))
    rank = np.arange(len(large)) - np.repeat(starts, lengths)
    chosen = np.ones(len(pairs.keys), dtype=bool)
    chosen[shuffled[rank >= cap]] = False
    return pairs.keep(chosen)
