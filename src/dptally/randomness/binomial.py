"""Exact binomial numbers, however many trials there are."""

from __future__ import annotations

import math
from fractions import Fraction

from dptally.randomness.bits import BitSource
from dptally.randomness.integers import draw_integer

_WORD = 64
_PRECISION = 128


def draw_binomial(trials: int, chance: Fraction, bits: BitSource) -> int:
    """How many of `trials` independent events of probability `chance` happen.

    Postcondition: for uniform words the result has the binomial law exactly, for any number of trials.

    Rejection. Let f be the binomial law, M its mode, s its standard deviation, and w >= 2 / f(M) a whole number.
    The law is log-concave. Among f(M), ..., f(M + w - 1), which decrease, the last is at most 1 / w <= f(M) / 2, and so
    is f(M + w); log-concavity then gives f(M + k) <= f(M) 2^-b for k >= b w, and likewise to the left. A side, a block
    b with probability 2^-(b+1), and a place within it are drawn, and the number found is accepted with probability
    2^b f(M + k) / f(M) <= 1, so that accepted numbers follow f. For w: at least 3/4 of the mass is nearer to the mean
    than 2 s, where there are at most 4 s + 1 numbers, so f(M) >= 3 / (4 (4 s + 1)) and w = 8 (4 s + 1) / 3 suffices.

    f(M + k) / f(M) is a product of k fractions, kept between bounds in fixed point. A uniform number is compared with
    it, with more bits of both where the comparison is open. No tail is cut and no logarithm is taken.

    Cost:
        About 20 proposals, and about 3 s multiplications for all of them together: the products are kept.
    """
    if trials == 0 or chance == 0:
        return 0
    if chance == 1:
        return trials
    mode = min(trials, math.floor((trials + 1) * chance))
    variance = trials * chance * (1 - chance)
    spread = math.isqrt(math.floor(16 * variance)) + 1  # above 4 s
    width = -(-8 * (spread + 1) // 3)
    right, left = (_Products(trials, chance, mode, step) for step in (1, -1))
    while True:
        coins = int(bits.words(1)[0])
        side, nearest = (right, 0) if coins & 1 else (left, 1)  # the left side starts one below the mode
        blocks = _run_of_ones(coins >> 1, bits)
        distance = nearest + blocks * width + draw_integer(width, bits)
        if side.accepts(distance, blocks, bits):
            return mode + side.step * distance


def _run_of_ones(coins: int, bits: BitSource) -> int:
    """How many coins show 1 before the first 0: b with probability 2^-(b+1). `coins` holds 63 of them."""
    length, run = _WORD - 1, 0
    while coins == (1 << length) - 1:
        run += length
        coins, length = int(bits.words(1)[0]), _WORD
    return run + (~coins & (coins + 1)).bit_length() - 1


class _Products:
    """Bounds of f(M + step k) / f(M) for k = 0, 1, 2, ..., made as far as they are asked for."""

    def __init__(self, trials: int, chance: Fraction, mode: int, step: int) -> None:
        self._trials, self._mode, self.step = trials, mode, step
        self._yes, self._no = chance.numerator, chance.denominator - chance.numerator
        self._lows = [1 << _PRECISION]
        self._highs = [1 << _PRECISION]

    def _factor(self, distance: int) -> tuple[int, int]:
        """f(M + step k) / f(M + step (k - 1)) as numerator and denominator, 0 beyond the end."""
        here = self._mode + self.step * distance
        if self.step == 1:
            return (self._trials - here + 1) * self._yes, here * self._no
        return (here + 1) * self._no, (self._trials - here) * self._yes

    def accepts(self, distance: int, blocks: int, bits: BitSource) -> bool:
        """True with probability 2^blocks f(M + step distance) / f(M)."""
        here = self._mode + self.step * distance
        if not 0 <= here <= self._trials:
            return False
        known, length = int(bits.words(1)[0]), _WORD
        # The products decrease: as soon as one is too small, so are all further out.
        floor = (known << _PRECISION) >> (length + blocks)
        while len(self._highs) <= distance and self._highs[-1] > floor:
            numerator, denominator = self._factor(len(self._highs))
            self._lows.append(self._lows[-1] * numerator // denominator)
            self._highs.append(-(-self._highs[-1] * numerator // denominator))
        reached = min(distance, len(self._highs) - 1)
        low, high = self._lows[reached], self._highs[reached]
        precision = _PRECISION
        while True:
            # A uniform number U in [known, known + 1) 2^-length against 2^blocks times the product.
            if known << precision >= high << (length + blocks):
                return False
            if reached == distance and (known + 1) << precision <= low << (length + blocks):
                return True
            known = known << _WORD | int(bits.words(1)[0])
            length += _WORD
            precision = length + blocks + distance.bit_length() + _WORD
            low, high = self._bounds(distance, precision)
            reached = distance

    def _bounds(self, distance: int, precision: int) -> tuple[int, int]:
        low = high = 1 << precision
        for place in range(1, distance + 1):
            numerator, denominator = self._factor(place)
            low, high = low * numerator // denominator, -(-high * numerator // denominator)
        return low, high
