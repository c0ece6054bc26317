"""Taking keys or rows with an irrational probability, exactly.

Inclusion probabilities such as 1 - e^-x are compared with a uniform number that is drawn digit by digit, only as far as
needed: leading binary digits are held against rational bounds of q, and where those cannot tell, more digits are drawn
and the bounds tightened. What is taken therefore has probability exactly q, for uniform bits.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from dptally.errors import InvalidParameter
from dptally.laws.sampling_schemes import Ppswor, Scheme
from dptally.randomness import BitSource

Bounds = Callable[[int], tuple[Fraction, Fraction]]

_WORD = 64
_BYTE = 8
_DIRECT = 1 << 20  # frequencies below it find their thresholds by indexing
_SLACK = 1 << 24  # thresholds of 64 digits may be this far apart: a comparison is undecided with chance 2^-40
_PIECE = 1 << 20  # keys drawn for at once: the words stay in cache


def sample_counts(frequencies: NDArray[np.int64], scheme: Scheme, bits: BitSource) -> NDArray[np.bool_]:
    """Take keys by their true frequencies: threshold sampling over aggregated counts.

    Postcondition: key k is taken with probability exactly q_i, where i is `frequencies[k]` and q is the scheme's,
    independently of all other keys; a key of frequency 0 is never taken. One word is drawn per key whatever its
    frequency, and more only where 64 digits leave a comparison undecided, with chance below 2^-39. Returns for each key
    whether it is in the sample.
    """
    frequencies = np.asarray(frequencies)
    if frequencies.ndim != 1 or (frequencies.size and frequencies.dtype.kind not in "iu"):
        raise InvalidParameter("frequencies must be a one-dimensional array of integers.")
    frequencies = frequencies.astype(np.int64, copy=False)
    if frequencies.size and int(frequencies.min()) < 0:
        raise InvalidParameter("frequencies must not be negative.")
    thresholds = _Thresholds(frequencies, scheme)
    taken = np.empty(len(frequencies), dtype=bool)
    for start in range(0, len(frequencies), _PIECE):
        piece = frequencies[start : start + _PIECE]
        words = bits.words(len(piece))
        below, undecided = thresholds.compare(piece, words)
        for place in np.flatnonzero(undecided).tolist():
            below[place] = _settle(_bounds_of(scheme, int(piece[place])), int(words[place]), _WORD, bits)
        taken[start : start + _PIECE] = below
    return taken


def _bounds_of(scheme: Scheme, frequency: int) -> Bounds:
    return lambda precision: scheme.bounds(frequency, precision)


def _between(bounds: Bounds, digits: int) -> tuple[int, int]:
    """Integers low and high with low <= 2^digits q <= high, at most 2 apart."""
    low, high = bounds(digits + 16)
    one = 1 << digits
    return max(0, math.floor(low * one)), min(one, math.ceil(high * one))


def _settle(bounds: Bounds, prefix: int, digits: int, bits: BitSource) -> bool:
    """Go on with a comparison that `digits` digits left undecided.

    Postcondition: for a uniform number that starts with the digits `prefix`, whether it is below q. Each further word
    decides with a chance of at least 1 - 2^-63, unless q is 0 or 1 up to there; those cannot reach this place.
    """
    while True:
        prefix, digits = prefix << _WORD | int(bits.words(1)[0]), digits + _WORD
        low, high = _between(bounds, digits)
        # The number lies in [prefix, prefix + 1) / 2^digits.
        if prefix < low:
            return True
        if prefix >= high:
            return False


def _compare(words: NDArray[np.uint64], low: int, high: int) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Which words are surely below q, and which cannot be told, for low <= 2^64 q <= high."""
    # Against the last word below, since 2^64 does not fit into a word; 0 has none.
    below = words <= np.uint64(low - 1) if low else np.zeros(len(words), dtype=bool)
    possible = words <= np.uint64(high - 1) if high else np.zeros(len(words), dtype=bool)
    return below, possible & ~below


class _Thresholds:
    """Integers below and above 2^64 q_i for every frequency that occurs.

    Kept as the last word below, since 2^64 does not fit into a word, with a mark where there is none.
    """

    def __init__(self, frequencies: NDArray[np.int64], scheme: Scheme) -> None:
        small = frequencies[frequencies < _DIRECT]
        seen = np.zeros(int(small.max()) + 1 if len(small) else 1, dtype=bool)
        seen[small] = True
        seen[0] = False
        self._few = np.flatnonzero(seen)
        self._many = np.unique(frequencies[frequencies >= _DIRECT])
        self._direct = len(seen)
        distinct = np.concatenate([self._few, self._many]).tolist()
        # One entry for every frequency that is found by indexing, then one for each of the others.
        place = np.concatenate([self._few, self._direct + np.arange(len(self._many))]).astype(np.intp)
        size = self._direct + len(self._many)
        self._low, self._high = np.zeros(size, dtype=np.uint64), np.zeros(size, dtype=np.uint64)
        self._some_low, self._some_high = np.zeros(size, dtype=bool), np.zeros(size, dtype=bool)
        lows, highs = _monotone_thresholds(distinct, scheme)
        for last, some, found in ((self._low, self._some_low, lows), (self._high, self._some_high, highs)):
            last[place] = np.array([max(0, threshold - 1) for threshold in found], dtype=np.uint64)
            some[place] = [threshold > 0 for threshold in found]

    def compare(
        self, frequencies: NDArray[np.int64], words: NDArray[np.uint64]
    ) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Which words are surely below q of their frequencies, and which cannot be told."""
        place = frequencies
        if len(self._many):
            others = self._direct + np.searchsorted(self._many, frequencies)
            place = np.where(frequencies < _DIRECT, frequencies, others)
        below = (words <= self._low[place]) & self._some_low[place]
        possible = (words <= self._high[place]) & self._some_high[place]
        return below, possible & ~below


def _monotone_thresholds(distinct: list[int], scheme: Scheme) -> tuple[list[int], list[int]]:
    """Thresholds of 64 digits for each of the rising frequencies.

    Because q never falls, a lower bound holds for all larger frequencies and an upper bound for all smaller ones: where
    those of the ends of a stretch nearly agree, as they do once q is nearly 1, they serve for all of it.
    """
    lows, highs = [0] * len(distinct), [0] * len(distinct)
    known: dict[int, tuple[int, int]] = {}

    def at(position: int) -> tuple[int, int]:
        if position not in known:
            known[position] = _between(_bounds_of(scheme, distinct[position]), _WORD)
        return known[position]

    stretches = [(0, len(distinct) - 1)] if distinct else []
    while stretches:
        first, last = stretches.pop()
        low, high = at(first)[0], at(last)[1]
        if high - low <= _SLACK:
            length = last - first + 1
            lows[first : last + 1], highs[first : last + 1] = [low] * length, [high] * length
        elif last - first <= 1:
            for position in (first, last):
                lows[position], highs[position] = at(position)
        else:
            middle = (first + last) // 2
            stretches += [(first, middle), (middle + 1, last)]
    return lows, highs


class RowHits:
    """Draws which rows hit, each independently with probability exactly q_1 of the scheme.

    The first eight digits decide nearly every row; where they do not, 64 more are drawn, and so on.
    """

    def __init__(self, scheme: Ppswor, bits: BitSource) -> None:
        self._bits = bits
        self._bounds = _bounds_of(scheme, 1)
        self._first = _between(self._bounds, _BYTE)
        self._second = _between(self._bounds, _BYTE + _WORD)

    def expected(self, rows: int) -> int:
        """About how many of so many rows hit."""
        return rows * self._second[1] >> (_BYTE + _WORD)

    def draw(self, rows: int) -> NDArray[np.int64]:
        """Return which of `rows` rows hit, in order."""
        digits = self._bits.words(-(-rows // 8)).view(np.uint8)[:rows]
        low, high = self._first
        found = np.flatnonzero(digits < high) if high < 1 << _BYTE else np.arange(rows)
        leading = digits[found]
        hits = leading < low
        undecided = np.flatnonzero(~hits)
        words = self._bits.words(len(undecided))
        for digit in range(low, high):
            # These rows start with `digit`: what is left to compare are the digits after it.
            places = np.flatnonzero(leading[undecided] == digit)
            bounds = (min(max(bound - (digit << _WORD), 0), 1 << _WORD) for bound in self._second)
            below, still = _compare(words[places], *bounds)
            for place in np.flatnonzero(still).tolist():
                prefix = digit << _WORD | int(words[places[place]])
                below[place] = _settle(self._bounds, prefix, _BYTE + _WORD, self._bits)
            hits[undecided[places]] = below
        return found[hits]
