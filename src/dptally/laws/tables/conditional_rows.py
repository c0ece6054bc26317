"""Draws for keys that somebody else has sampled already: the law of the report, given that the key was sampled.

A key of frequency i enters the sample with probability q_i and must be reported with value j with probability pi_ij in
all, so a sampled key is reported with probability pi_ij / q_i. q_i may be irrational; it is known by rational bounds to
any precision. A draw compares a uniform real number, of which 128 bits are known, with thresholds t / q_i, of which
bounds are known, and looks further only where the two cannot be told apart.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from dptally import _core
from dptally.errors import InvalidSource
from dptally.laws.sampling_schemes import Scheme
from dptally.laws.tables.certified_rows import CertifiedRows
from dptally.laws.thresholded_noise import read_entries
from dptally.randomness import BitSource
from dptally.randomness.keyed import WordsOfRows
from dptally.verifiers.tables import TABLE_BITS, Band

_MORE_BITS = 64


def draw_given_sampled(
    rows: CertifiedRows, scheme: Scheme, frequencies: NDArray[np.int64], bits: BitSource
) -> NDArray[np.int64]:
    """One independent draw for each sampled key; 0 means not reported.

    Postcondition: for keys that were sampled independently with probability q_i each, the pair of steps follows the
    certified rows exactly. A draw takes 128 random bits in the order of keys, and 64 more with probability about 2^-120
    per threshold.
    """
    reported = np.zeros(len(frequencies), dtype=np.int64)
    all_words = bits.words(2 * len(frequencies)).reshape(-1, 2)
    for _, band, keys in rows.by_frequency(frequencies):
        thresholds = _Thresholds(band, scheme)
        words = all_words[keys].reshape(-1)
        certain, possible = thresholds.count(words, surely=True), thresholds.count(words, surely=False)
        for place in np.flatnonzero(certain != possible):
            number = int(words[2 * place + 1]) << 64 | int(words[2 * place])
            more = bits.streams(keys[place : place + 1]).one(0) if isinstance(bits, WordsOfRows) else bits
            certain[place] = thresholds.settle(number, more)
        values = band.top - certain
        if not band.sure:
            values[certain == thresholds.size] = 0
        reported[keys] = values
    return reported


class _Thresholds:
    """The thresholds t / q of one row, between bounds."""

    def __init__(self, band: Band, scheme: Scheme) -> None:
        self._band, self._scheme = band, scheme
        self._masses = read_entries(band.thresholds)
        self.size = len(self._masses)
        low, high = self._bounds(0)
        self._samplers = {True: _sampler(high), False: _sampler(low)}

    def _bounds(self, more: int) -> tuple[list[int], list[int]]:
        """Whole numbers below and above each 2^more t / q."""
        low, high = self._scheme.bounds(self._band.frequency, 2 * TABLE_BITS + 2 * more)
        if low <= 0:
            raise InvalidSource("the sample holds a key of a frequency that its scheme never takes.")
        scale = 1 << more
        return (
            [math.floor(Fraction(mass * scale) / high) for mass in self._masses],
            [math.ceil(Fraction(mass * scale) / low) for mass in self._masses],
        )

    def count(self, words: NDArray[np.uint64], *, surely: bool) -> NDArray[np.int64]:
        """How many thresholds a number that begins with these bits has surely, or possibly, passed."""
        count = len(words) // 2
        left = np.empty(count, dtype=np.int64)
        self._samplers[surely].draw(np.full(count, self.size, dtype=np.int64), words, left)
        return self.size - left

    def settle(self, number: int, bits: BitSource) -> int:
        """Draw more bits until it is certain how many thresholds are passed."""
        more = 0
        while True:
            more += _MORE_BITS
            number = number << _MORE_BITS | int(bits.words(1)[0])
            low, high = self._bounds(more)
            certain = sum(threshold <= number for threshold in high)
            if certain == sum(threshold <= number for threshold in low):
                return certain


def _sampler(thresholds: list[int]) -> _core.ShiftTable:
    """Thresholds from 2^128 on cannot be passed, and are left out."""
    entries = [threshold.to_bytes(16, "little") for threshold in thresholds if threshold < 1 << TABLE_BITS]
    return _core.ShiftTable(np.frombuffer(b"".join(entries), dtype=np.uint8))
