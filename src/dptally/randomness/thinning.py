"""Exact binomial draws for numbers of trials up to 2^62 and rates that are multiples of 2^-32.

Up to 2^22 trials, coins are counted: the uniform numbers of all trials are held against the rate one binary digit at a
time, and a trial is out of play once a digit decides it, so that about two fair coins per trial are needed.

Beyond, rejection. Let b be the law with mode M. It is log-concave, which gives [Dev87]

    b(M + i) <= b(M) min(1, e^(1 - b(M) |i|)).

(If b(M + i) = c b(M), then b(M + j) >= c^(j/i) b(M) for j = 0 .. i, and these add up to at most 1: b(M) i (1 - c) <=
ln(1/c), so b(M) i <= L / (1 - e^-L) <= 1 + L with L = ln(1/c).) Distances are cut into blocks of w >= 1 / b(M); block j
is proposed with probability 2^-(j+1), a place in it uniformly, and accepted with probability 2^(j-1) b(v) / b(M), which
is at most 1 by the inequality. The comparison of a uniform number with this probability is settled by bounds of
logarithms that are tightened, and digits that are drawn, until they decide: what is drawn has the binomial law exactly.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from dptally.randomness.bits import BitSource

if TYPE_CHECKING:
    from flint import arb

RATE_BITS = 32
_MOST_COINS = 1 << 22
_PIECE = 1 << 20  # words of coins held at once
_GUARD = 192  # digits beyond those wanted: logarithms are multiplied by numbers up to 2^62


@runtime_checkable
class Streams(Protocol):
    """A stream of words for each of many numbers."""

    def words_of(self, owners: NDArray[np.int64], counts: NDArray[np.int64]) -> NDArray[np.uint64]:
        """The next `counts[i]` words of the stream `owners[i]`, one after the other."""

    def one(self, owner: int) -> BitSource:
        """One of the streams by itself."""


def thin_counts(trials: NDArray[np.int64], rate: int, bits: BitSource | Streams) -> NDArray[np.int64]:
    """One independent draw of Binomial(n, rate / 2^32) for each n.

    Postcondition: for n from 0 to 2^62, 0 < rate < 2^32 and uniform words, exactly these laws, independently. Words
    come from one source for all, or from a stream for each n, which then depends on no other.

    Cost: about 2 n random bits up to 2^22 trials, below a millisecond beyond.
    """
    drawn = np.zeros(len(trials), dtype=np.int64)
    few = np.flatnonzero(trials <= _MOST_COINS)
    ends = np.cumsum(trials[few] // 64 + 1)
    start = 0
    while start < len(few):
        # At least one number of trials, and then as many as fit; the words of one are at most 2^16.
        stop = max(start + 1, int(np.searchsorted(ends, (ends[start - 1] if start else 0) + _PIECE)))
        drawn[few[start:stop]] = _count_coins(trials[few[start:stop]], rate, bits, few[start:stop])
        start = stop
    for place in np.flatnonzero(trials > _MOST_COINS).tolist():
        drawn[place] = _reject(int(trials[place]), rate, bits.one(place) if isinstance(bits, Streams) else bits)
    return drawn


# ---- few trials: coins ----


def _count_coins(
    trials: NDArray[np.int64], rate: int, bits: BitSource | Streams, owners: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Hold every trial's uniform number against the rate, from the first binary digit on.

    Where the rate has a 1, trials with a 0 are below it: hits. Where it has a 0, trials with a 1 are above it: misses.
    The others go on. Trials that agree in all digits are not below the rate.
    """
    hits = np.zeros(len(trials), dtype=np.int64)
    places, open_trials = np.arange(len(trials)), trials
    for digit in range(RATE_BITS - 1, -1, -1):
        if not rate & ((1 << digit) - 1 | 1 << digit):
            break  # only zeros are left in the rate: no hit can follow
        playing = open_trials > 0
        if not playing.any():
            break
        places, open_trials = places[playing], open_trials[playing]
        zeros = _fair(open_trials, bits, owners[places])
        if rate >> digit & 1:
            hits[places] += zeros
            open_trials = open_trials - zeros
        else:
            open_trials = zeros
    return hits


def _fair(trials: NDArray[np.int64], bits: BitSource | Streams, owners: NDArray[np.int64]) -> NDArray[np.int64]:
    """Binomial(n, 1/2) for each n >= 1: the ones among n random bits."""
    words = (trials + 63) // 64
    ends = np.cumsum(words)
    coins = bits.words_of(owners, words) if isinstance(bits, Streams) else bits.words(int(ends[-1]))
    unused = (words * 64 - trials).astype(np.uint64)
    coins[ends - 1] >>= unused
    ones = np.bitwise_count(coins).astype(np.int64)
    result: NDArray[np.int64] = np.add.reduceat(ones, ends - words)
    return result


# ---- many trials: rejection ----


def _reject(trials: int, rate: int, bits: BitSource) -> int:
    mode = (trials + 1) * rate >> RATE_BITS
    width = _width(trials, mode, rate)
    while True:
        block = 0
        while (coins := int(bits.words(1)[0])) == 0:
            block += 64
        block += (coins & -coins).bit_length() - 1
        distance = block * width + _below(width, bits)
        hits = mode + distance if int(bits.words(1)[0]) & 1 else mode - 1 - distance
        if 0 <= hits <= trials and _accepted(trials, hits, mode, block, rate, bits):
            return hits


def _accepted(trials: int, hits: int, mode: int, block: int, rate: int, bits: BitSource) -> bool:
    """Whether a uniform number is below 2^(block-1) b(hits) / b(mode)."""
    from flint import arb  # loaded for very large counts alone

    from dptally.verifiers.gaussian import working_precision

    number, digits = int(bits.words(1)[0]), 64
    while True:
        # The uniform number is between number and number + 1, in units of 2^-digits. An order of balls is certain.
        with working_precision(digits + _GUARD):
            ratio = (
                _log_mass(trials, hits, rate) - _log_mass(trials, mode, rate) + (block - 1 + digits) * arb.const_log2()
            )
            if arb(number + 1).log() <= ratio:
                return True
            if number and arb(number).log() >= ratio:
                return False
        number, digits = number << 64 | int(bits.words(1)[0]), digits + 64


def _width(trials: int, mode: int, rate: int) -> int:
    """A whole number that is at least 1 / b(mode), and close to it."""
    from flint import arb

    from dptally.verifiers.gaussian import working_precision

    with working_precision(64 + _GUARD):
        inverse = -_log_mass(trials, mode, rate)
        width = max(1, math.floor(math.exp(float(inverse))))
        while not arb(width).log() >= inverse:  # decided by balls; the float is where to begin
            width += width // 1024 + 1
    return width


def _below(width: int, bits: BitSource) -> int:
    """Uniform on 0 .. width - 1."""
    shift = 64 - width.bit_length()
    while (number := int(bits.words(1)[0]) >> shift) >= width:
        pass
    return number


def _log_mass(trials: int, hits: int, rate: int) -> arb:
    """ln b(hits), a ball; narrow if the working precision has 192 digits more than are compared."""
    from flint import arb

    misses = trials - hits
    ways = arb(trials + 1).lgamma() - arb(hits + 1).lgamma() - arb(misses + 1).lgamma()
    whole = arb(1 << RATE_BITS)
    return ways + hits * (rate / whole).log() + misses * (1 - rate / whole).log()
