"""Scales of axes: where a number stands on the page, and which numbers are written beside it."""

from __future__ import annotations

import math
from dataclasses import astuple, dataclass

__all__ = ["Linear", "Log", "Scale", "short_number"]


def short_number(number: float) -> str:
    """A number as a tick shows it.

    >>> [short_number(number) for number in (0, 2.5e-4, 0.5, 20, 1500, 2e6, 3.5e9)]
    ['0', '2.5e-4', '0.5', '20', '1.5k', '2M', '3.5G']
    """
    for power, letter in ((12, "T"), (9, "G"), (6, "M"), (3, "k")):
        if abs(number) >= 10**power:
            return f"{number / 10**power:.4g}{letter}"
    digits, exponent = f"{number:.3e}".split("e")
    return f"{float(digits):g}e{int(exponent)}" if 0 < abs(number) < 0.001 else f"{number:.4g}"


@dataclass(frozen=True)
class Scale:
    """A place on the page for each number from `low` to `high`."""

    low: float
    high: float
    start: float
    end: float

    def _part(self, number: float) -> float:
        raise NotImplementedError

    def __call__(self, number: float) -> float:
        """The place of a number; numbers beyond the ends are moved to them."""
        part = min(1.0, max(0.0, self._part(number)))
        return round(self.start + part * (self.end - self.start), 2)

    def ticks(self, most: int = 6) -> list[float]:
        """Round numbers between the ends."""
        raise NotImplementedError


@dataclass(frozen=True)
class Linear(Scale):
    """Equal distances for equal differences.

    >>> Linear(0, 100, 0, 1).ticks()
    [0.0, 20.0, 40.0, 60.0, 80.0, 100.0]
    """

    def _part(self, number: float) -> float:
        return (number - self.low) / (self.high - self.low) if self.high > self.low else 0.0

    def ticks(self, most: int = 6) -> list[float]:
        """Multiples of 1, 2 or 5 times a power of ten."""
        rough = ((self.high - self.low) or 1.0) / most
        power = 10.0 ** math.floor(math.log10(rough))
        step = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= rough * (1 - 1e-9))
        first = math.ceil(self.low / step - 1e-9)
        return [round(place * step, 12) for place in range(first, math.floor(self.high / step + 1e-9) + 1)]


@dataclass(frozen=True)
class Log(Scale):
    """Equal distances for equal ratios.

    >>> Log(1, 1000, 0, 1).ticks()
    [1.0, 10.0, 100.0, 1000.0]
    """

    def _part(self, number: float) -> float:
        if self.high <= self.low:
            return 0.0
        return math.log(max(number, self.low) / self.low) / math.log(self.high / self.low)

    def ticks(self, most: int = 6) -> list[float]:
        """Powers of ten, with 2 and 5 times them where there is room."""
        powers = range(math.floor(math.log10(self.low)), math.ceil(math.log10(self.high)) + 1)
        found: list[float] = []
        for factors in ((1, 2, 5), (1, 3), (1,)):
            found = [float(f"{factor}e{power}") for power in powers for factor in factors]
            found = [number for number in found if self.low * (1 - 1e-9) <= number <= self.high * (1 + 1e-9)]
            if 2 <= len(found) <= most:
                return found
        return found[:: -(-len(found) // most)] if len(found) > 1 else Linear(*astuple(self)).ticks(most)
