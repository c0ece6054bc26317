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
from functools import lru_cache
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from dptally.randomness.bits import BitSource

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
    # Kept here and not in a cache: it depends on private numbers.
    log_mode = {scale: _log_mass(trials, mode, rate, scale) for scale in (64 + _GUARD,)}
    width = _width(log_mode[64 + _GUARD])
    while True:
        block = 0
        while (coins := int(bits.words(1)[0])) == 0:
            block += 64
        block += (coins & -coins).bit_length() - 1
        distance = block * width + _below(width, bits)
        hits = mode + distance if int(bits.words(1)[0]) & 1 else mode - 1 - distance
        if 0 <= hits <= trials and _accepted(trials, hits, mode, log_mode, block, rate, bits):
            return hits


def _accepted(
    trials: int, hits: int, mode: int, log_mode: dict[int, int], block: int, rate: int, bits: BitSource
) -> bool:
    """Whether a uniform number is below 2^(block-1) b(hits) / b(mode)."""
    number, digits = int(bits.words(1)[0]), 64
    while True:
        # The uniform number is between number and number + 1, in units of 2^-digits.
        scale = digits + _GUARD
        if scale not in log_mode:
            log_mode[scale] = _log_mass(trials, mode, rate, scale)
        ratio = _log_mass(trials, hits, rate, scale) - log_mode[scale] + (block - 1 + digits) * _log(2, scale)
        slack = 1 << (scale - digits)  # far more than the error of all logarithms here
        if _log(number + 1, scale) + slack <= ratio:
            return True
        if number and _log(number, scale) - slack >= ratio:
            return False
        number, digits = number << 64 | int(bits.words(1)[0]), digits + 64


def _width(log_mass: int) -> int:
    """A whole number that is at least 1 / b(mode), and close to it, from ln b(mode)."""
    scale = 64 + _GUARD
    width = max(1, math.floor(math.exp(-math.ldexp(float(log_mass >> _GUARD), -64))))
    while _log(width, scale) + log_mass < 1 << (scale - 64):  # decided by bounds; the float is where to begin
        width += width // 1024 + 1
    return width


def _below(width: int, bits: BitSource) -> int:
    """Uniform on 0 .. width - 1."""
    shift = 64 - width.bit_length()
    while (number := int(bits.words(1)[0]) >> shift) >= width:
        pass
    return number


def _log_mass(trials: int, hits: int, rate: int, scale: int) -> int:
    """ln b(hits) in units of 2^-scale, with an error below 2^92 units.

    A logarithm has an error below 2^24 units and is multiplied by at most 2^63, and a dozen of them are added up. With
    192 digits more than are compared, 2^192 units are the last digit that matters.
    """
    misses = trials - hits
    choices = _log_factorial(trials, scale) - _log_factorial(hits, scale) - _log_factorial(misses, scale)
    return choices + hits * _log_rate(rate, scale) + misses * _log_rate((1 << RATE_BITS) - rate, scale)


@lru_cache(maxsize=64)
def _log_rate(rate: int, scale: int) -> int:
    """ln(rate / 2^32) in units of 2^-scale."""
    return _log(rate, scale) - RATE_BITS * _log(2, scale)


def _log_factorial(number: int, scale: int) -> int:
    """ln(number!) in units of 2^-scale: by Stirling's series where its error is below one unit, otherwise directly.

    The series for ln(n!) = (n + 1/2) ln n - n + ln(2 pi) / 2 + sum_i B_2i / (2i (2i - 1) n^(2i-1)) is enveloping: what
    is left out is below the first term left out, which is reached below one unit for n >= scale.
    """
    if number < scale:
        return _log(math.factorial(number), scale)
    return _stirling(number, scale) + _stirling_constant(scale)


def _stirling(number: int, scale: int) -> int:
    """ln(number!) without the constant."""
    from flint import fmpq  # loaded for very large counts alone

    total = (2 * number + 1) * _log(number, scale) // 2 - (number << scale)
    power = number
    for i in range(1, scale):
        bernoulli = fmpq.bernoulli(2 * i)
        term = (int(bernoulli.p) << scale) // (int(bernoulli.q) * 2 * i * (2 * i - 1) * power)
        total += term
        if -1 <= term <= 1:
            break
        power *= number * number
    return total


@lru_cache(maxsize=16)
def _stirling_constant(scale: int) -> int:
    """ln(2 pi) / 2, from the logarithm of a factorial that is known without the series."""
    return _log(math.factorial(scale), scale) - _stirling(scale, scale)


def _log(number: int, scale: int) -> int:
    """ln(number) in units of 2^-scale for number >= 1, with an error below 2^24 units (for scale below 2^12).

    Written as 2^e m with 1 <= m < 2; eight square roots bring m below 1 + 2^-8, each rounding down by less than a unit,
    so the logarithm is off by less than 2 units, times 2^8. Then ln m = 2 atanh((m - 1) / (m + 1)), whose terms shrink
    by 2^-18, each rounded by less than a unit. ln 2 itself is computed so, and multiplied by e < 2^13.
    """
    exponent = number.bit_length() - 1
    whole = exponent * _log_two(scale) if exponent else 0
    if number == 1 << exponent:
        return whole
    mantissa = (number << scale) >> exponent
    return whole + _log_mantissa(mantissa, scale)


@lru_cache(maxsize=64)
def _log_two(scale: int) -> int:
    """ln 2, with eight more digits than `_log_mantissa` gives, as it is multiplied."""
    more = scale + 16
    return _log_mantissa(2 << more, more) >> 16


def _log_mantissa(mantissa: int, scale: int) -> int:
    for _ in range(8):
        mantissa = math.isqrt(mantissa << scale)
    one = 1 << scale
    ratio = ((mantissa - one) << scale) // (mantissa + one)
    square = ratio * ratio >> scale
    total, power, order = 0, ratio, 1
    while power:
        total += power // order
        power, order = power * square >> scale, order + 2
    return total << 9
