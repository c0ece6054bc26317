"""Frequencies to evaluate on: how many keys have each, for made-up and real data."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from dptally.errors import InvalidParameter

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["REAL_DATA", "Population", "headline_words", "interaction_degrees", "uniform", "zipf"]


@dataclass(frozen=True, eq=False)
class Population:
    """Distinct frequencies, and how many keys have each.

    Attributes:
        frequencies: increasing, at least 1.
        keys: as many as there are frequencies.
    """

    frequencies: NDArray[np.int64]
    keys: NDArray[np.int64]

    @property
    def size(self) -> int:
        """How many keys there are."""
        return int(self.keys.sum())

    def fraction(self, chances: NDArray[np.float64]) -> float:
        """Expected fraction of keys that are reported, given the chance for each distinct frequency."""
        return float(self.keys @ chances) / self.size


def zipf(size: int, alpha: str) -> Population:
    """The key of rank r has frequency floor((size / r)^alpha), in whole numbers; alpha is "1/2", "1" or "2"."""
    power = Fraction(alpha)
    if power.denominator > 2 or size**power.numerator >= 1 << 62:
        raise InvalidParameter("alpha must be a multiple of 1/2, and size^alpha below 2^62.")
    ranks = np.arange(1, size + 1, dtype=np.int64)
    found = size**power.numerator // ranks**power.numerator
    if power.denominator == 2:
        roots, places = np.unique(found, return_inverse=True)
        found = np.array([math.isqrt(int(root)) for root in roots], dtype=np.int64)[places]
    return _counted(found)


def uniform(last: int, keys: int) -> Population:
    """As many keys for each of the frequencies 1 .. last."""
    return Population(np.arange(1, last + 1, dtype=np.int64), np.full(last, keys, dtype=np.int64))


def headline_words(folder: Path) -> Population:
    """Words of ABC headlines, split on spaces, and how often each occurs."""
    lines = pl.read_parquet(folder / "abc_headlines_2003_2004.parquet", columns=["headline_text"])
    words = lines.select(pl.col("headline_text").str.split(" ").explode()).to_series()
    return _counted(words.filter(words != "").value_counts()["count"].to_numpy())


def interaction_degrees(folder: Path) -> Population:
    """Users of MathOverflow and their undirected degrees: interactions from them and to them."""
    ends = pl.read_parquet(folder / "mathoverflow_interactions.parquet", columns=["source_user", "target_user"])
    users = pl.concat([ends["source_user"].alias("user"), ends["target_user"].alias("user")])
    return _counted(users.value_counts()["count"].to_numpy())


REAL_DATA = {"ABC words": headline_words, "MathOverflow degrees": interaction_degrees}


def _counted(found: NDArray[np.generic]) -> Population:
    frequencies, keys = np.unique(found.astype(np.int64), return_counts=True)
    return Population(frequencies, keys.astype(np.int64))
