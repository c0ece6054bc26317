"""Random parameters for audits: repeatable, and spread over orders of magnitude."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import TypeVar

from dptally.randomness import SeededBits

_Item = TypeVar("_Item")
_WORD = 1 << 64


class RandomSettings:
    """Choices that depend on a seed and a place alone, so that every setting of a grid can be repeated by itself.

    Nothing private rests on them: they are parameters. Integers are uniform up to 2^-40, which is enough for a grid.
    """

    def __init__(self, seed: int, place: int) -> None:
        self._bits = SeededBits(seed * 1_000_003 + place)

    def _word(self) -> int:
        return int(self._bits.words(1)[0])

    def number(self, low: int, high: int) -> int:
        """A whole number from `low` to `high`, both included."""
        return low + self._word() % (high - low + 1)

    def one_of(self, items: Sequence[_Item]) -> _Item:
        """One of the items."""
        return items[self._word() % len(items)]

    def coin(self) -> bool:
        """True or False."""
        return self._word() % 2 == 1

    def spread(self, low: float, high: float) -> Fraction:
        """A number between the two, uniform on a logarithmic scale.

        Written with three digits, or as the exact binary value of a float, or with a denominator that is a multiple of
        three: numbers of all the kinds that users give.
        """
        found = math.exp(math.log(low) + (math.log(high) - math.log(low)) * (self._word() / _WORD))
        kind = self.number(0, 2)
        if kind == 0:
            return Fraction(f"{found:.3g}")
        if kind == 1:
            return Fraction(found)
        whole = 3 * 10 ** max(2, math.ceil(-math.log10(found)) + 2)
        return Fraction(max(1, round(found * whole)), whole)

    def some(self, low: int, high: int, count: int) -> list[int]:
        """Up to `count` distinct whole numbers from `low` to `high`, in order."""
        if high < low:
            return []
        return sorted({self.number(low, high) for _ in range(count)})
