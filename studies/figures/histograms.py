"""Histograms over B buckets of a million persons, as in section 5 of [BC22]."""

from __future__ import annotations

import hashlib
import math
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from dptally.randomness import SeededBits
from studies.baselines.histograms import uniform_numbers

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["PERSONS", "SEED", "binomial", "geometric", "seeded", "shakespeare"]

PERSONS = 10**6
SEED = 2022
_WORD = r"[a-z]+(?:'[a-z]+)*"


def seeded(*setting: object) -> SeededBits:
    """Bits of their own for each setting, so that any of them can be drawn again without the others."""
    text = " ".join(str(part) for part in (SEED, *setting))
    return SeededBits(int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big"))


def binomial(buckets: int, persons: int = PERSONS) -> NDArray[np.int64]:
    """Each person has bucket Binomial(B, 1/2); the outcome B, one more than there are buckets, counts as 0."""
    logarithms = [math.lgamma(buckets + 1) - math.lgamma(k + 1) - math.lgamma(buckets - k + 1) for k in range(buckets)]
    masses: NDArray[np.float64] = np.exp(np.array(logarithms) - buckets * math.log(2))
    masses[0] *= 2
    return _drawn("Binomial", masses, persons)


def geometric(buckets: int, persons: int = PERSONS) -> NDArray[np.int64]:
    """Each person has a geometric number of 0, 1, ... with chance 1 / sqrt(B), modulo B."""
    masses: NDArray[np.float64] = (1 - 1 / math.sqrt(buckets)) ** np.arange(buckets, dtype=np.float64)
    return _drawn("Geometric", masses, persons)


def _drawn(name: str, masses: NDArray[np.float64], persons: int) -> NDArray[np.int64]:
    sums = np.cumsum(masses)
    uniform = uniform_numbers(persons, seeded(name, len(masses))) * sums[-1]
    return np.bincount(np.searchsorted(sums, uniform), minlength=len(masses)).astype(np.int64)


def shakespeare(buckets: int, folder: Path) -> NDArray[np.int64]:
    """Each word occurrence is a person; a word's bucket is its SHA-256 modulo B.

    Raises:
        FileNotFoundError: without the data.
    """
    places, counts = _words(folder)
    return np.bincount(places % np.uint64(buckets), weights=counts, minlength=buckets).astype(np.int64)


@lru_cache(maxsize=1)
def _words(folder: Path) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
    lines = pl.read_parquet(folder / "shakespeare_lines.parquet", columns=["text"])["text"]
    words = lines.str.to_lowercase().str.extract_all(_WORD).explode().drop_nulls().value_counts()
    hashes = [int.from_bytes(hashlib.sha256(word.encode()).digest()[:8], "big") for word in words["text"]]
    return np.array(hashes, dtype=np.uint64), words["count"].to_numpy().astype(np.int64)
