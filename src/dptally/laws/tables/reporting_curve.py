"""Proposals for rounds of keys: floating point that looks for good laws and declared functions, never a guarantee.

What is proposed here is verified by `dptally.verifiers.key_rounds`, which shares no code with this module. The chance
to report a key grows with its sum as fast as a Renyi divergence of one order allows for every weight [HM26]; the scale
is then the largest at which the chain of the verifier stays below the declared function, so the order only shapes the
curve. The functions are the largest of those of some reference laws, which leaves room for laws of other sizes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from dptally._core import propose_reporting, worst_turns

__all__ = ["COARSE", "Chain", "Curve", "Shape", "Weights", "propose"]

COARSE = 8
_RESOLUTION = 640  # points of the scale for each epsilon
_BELOW, _ABOVE = 1024, 512
_UNIT = 1 << 120
_LONGEST = 1 << 16
_TRIES = 12
_MOVED, _NEARER, _OUTWARD = 1e-10, 1e-6, 2e-12
_ROWS = 1200  # sums that a table has, about
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Weights:
    """Which integer each of k kept keys adds: isqrt(m m hi // max(k, lo)); squares add up to at most m m hi."""

    low: int
    high: int
    multiple: int

    @classmethod
    def between(cls, low: int, high: int, half: float = 0.0) -> Weights:
        """With a multiple that is fine enough for the sizes; for one weight alone it is 1.

        Args:
            low: lo.
            high: hi.
            half: about the count that is reported half of the time; where it is large, whole numbers are fine enough.
        """
        fine = min(16 if high <= 16 else 8 if high <= 64 else 4, max(1, round(_ROWS / (2 * max(half, 1)))))
        return cls(low, high, 1 if low == high else fine)

    @cached_property
    def of_keys(self) -> NDArray[np.int64]:
        """The weight of each key of a unit that keeps 0, 1, ..., hi keys."""
        square = self.multiple * self.multiple * self.high
        return np.array([0, *(math.isqrt(square // max(keys, self.low)) for keys in range(1, self.high + 1))])

    @cached_property
    def classes(self) -> list[tuple[int, int]]:
        """Each weight with the largest number of keys that have it."""
        most: dict[int, int] = {}
        for keys, weight in enumerate(self.of_keys.tolist()):
            most[weight] = keys
        return sorted(each for each in most.items() if each[0])


@dataclass(frozen=True)
class Shape:
    """How a curve grows: the order, the Renyi divergence of a whole unit, and its chance to show a key of its own."""

    order: float
    divergence: float
    new_keys: float

    @classmethod
    def order_for(cls, epsilon: float, delta: float) -> float:
        """The order of the largest Gaussian shift within (epsilon, delta) by Renyi accounting, times 0.7.

        Exact chains prefer a lower order than Renyi accounting does: .6 to .8 of it was best at 3 to 100 keys.
        """

        def shift(order: float) -> float:
            lost = math.log(delta) + math.log(order) - (order - 1) * math.log1p(-1 / order)
            return 2 * (epsilon + lost / (order - 1)) / order

        return 0.7 * max((1 + 0.5 * 1.02**step for step in range(500)), key=shift)


@dataclass(frozen=True)
class Curve:
    """A proposal: the log-odds of each sum to be reported; the last is certain."""

    weights: Weights
    odds: Floats

    @property
    def half(self) -> float:
        """The smallest count that is reported half of the time, every unit of it with the smallest weight."""
        return int(np.argmax(self.odds >= 0)) / self.weights.multiple

    def table(self) -> bytes:
        """The chances below 1, as little-endian integers in units of 2^-128."""
        whole = 1 << 128
        odds = self.odds[np.isfinite(self.odds) | (self.odds < 0)].tolist()
        entries = (int(_chance(odd) * 2.0**128) if odd < 0 else whole - int(_chance(-odd) * 2.0**128) for odd in odds)
        return b"".join(entry.to_bytes(16, "little") for entry in entries)


def _chance(odds: float) -> float:
    return math.exp(odds) / (1 + math.exp(odds)) if odds > -700 else 0.0


def propose(weights: Weights, shape: Shape, *, half_only: bool = False) -> Curve:
    """The curve that grows as fast as its shape allows."""
    sizes = np.array([weight for weight, _ in weights.classes], dtype=np.int64)
    parts = sizes**2 / (weights.multiple**2 * weights.high)
    starts = -np.expm1(math.log1p(-shape.new_keys) * parts)
    stop = 1e-9 if half_only else 1e300
    odds = propose_reporting(sizes, shape.divergence * parts, starts, shape.order, int(sizes[0]), _LONGEST, stop)
    return Curve(weights, np.array(odds))


class Chain:
    """Functions of the likelihood ratio z on the points rho^g, from the end of a release backwards; in floats."""

    def __init__(self, epsilon: float, delta: float) -> None:
        self.epsilon, self.delta = epsilon, delta
        self.density = min(max(math.ceil(_RESOLUTION / epsilon), 16), 1 << 22)
        self.below, self.above = _BELOW, _ABOVE
        self.step = math.log1p(1 / self.density)
        self.logs = np.arange(-self.below, self.above + 1) * self.step

    @property
    def one(self) -> int:
        """Where z = 1 is among the values of a declared function."""
        return self.below // COARSE

    def end(self) -> Floats:
        """max(0, 1 - e^epsilon z)."""
        found: Floats = np.maximum(0.0, -np.expm1(np.minimum(0.0, self.epsilon + self.logs)))
        return found

    def gaussian(self, shift: float) -> Floats:
        """Before counts are released with Gaussian noise of deviation 1 / shift."""
        at = self.epsilon + self.logs
        ends = (shift / 2 - at / shift, -shift / 2 - at / shift)
        above, below = (np.array([math.erfc(-end / math.sqrt(2)) / 2 for end in part]) for part in ends)
        found: Floats = np.maximum(0.0, above - np.exp(at) * below)
        return found

    def coin(self, after: Floats, loss: float) -> Floats:
        """Before something of pure privacy loss is released."""
        likely = 1 / (1 + math.exp(-loss))
        reach = np.exp(self.logs)
        padded = np.concatenate([[0.0], reach]), np.concatenate([[1.0], after])
        left, right = np.interp(reach * math.exp(-loss), *padded), np.interp(reach * math.exp(loss), *padded)
        found: Floats = likely * left + (1 - likely) * right
        return found

    def round(self, after: Floats, curve: Curve) -> Floats:
        """Before a round of this curve."""
        worst, least = after, curve.weights.classes[0][0]
        for weight, keys in curve.weights.classes:
            values = after.copy()
            worst_turns(values, curve.odds, weight, least, self.step, keys)
            worst = np.maximum(worst, values)
        return worst

    def declared(self, function: Floats) -> list[int]:
        """A convex function that does not increase and is a little above this one, at every eighth point as integers.

        Its argument is moved to the left by a share of 10^-10, and it is brought nearer to 1 by 10^-6 of delta: more
        than the verifier rounds, and both leave a convex function with the value 1 at z = 0 one.
        """
        moved = function + (np.concatenate([[1.0], function[:-1]]) - function) * _MOVED * self.density
        moved[0] = function[0] + (1 - function[0]) * _MOVED
        moved += _NEARER * self.delta * (1 - moved)
        moved *= 1 + _OUTWARD  # where a function is nearly 1, the above is less than what the verifier rounds
        falling = np.minimum(1.0, np.maximum.accumulate(moved[::-1])[::-1])
        points = np.concatenate([[0.0], np.exp(self.logs)])
        hull = _lower_hull(points, np.concatenate([[1.0], falling]))[1::COARSE]
        one, more = self.density**COARSE, (self.density + 1) ** COARSE
        found = [math.ceil(hull[0] * 2.0**120)]
        drop = (_UNIT - found[0]) * (more - one) // more  # of the line from 1 at z = 0, one point before
        for value in hull[1:].tolist():
            steepest = drop * more // one  # a convex function falls no faster from here on
            found.append(min(found[-1], max(math.ceil(value * 2.0**120), found[-1] - steepest)))
            drop = found[-2] - found[-1]
        return found

    def at_all_points(self, declared: Sequence[int]) -> Floats:
        """The declared function between its points."""
        every = np.exp(self.logs)
        found: Floats = np.interp(every, every[::COARSE], np.array([value / _UNIT for value in declared]))
        return found

    def fit(self, weights: Weights, shape: Shape, before: Sequence[int], after: Floats) -> Shape:
        """The shape of this order whose chain just stays below a declared function.

        The logarithm of the largest ratio of the two is nearly linear in that of the divergence.
        """
        allowed = np.array([value / _UNIT for value in before])

        def excess(divergence: float) -> float:
            curve = propose(weights, Shape(shape.order, divergence, shape.new_keys))
            return float(np.log(self.round(after, curve)[::COARSE] / allowed).max()) + 1e-9

        low = high = 0.97 * shape.divergence
        at_low = at_high = excess(low)
        while at_low > 0 and low > shape.divergence / 1024:
            high, at_high, low = low, at_low, low * 0.93
            at_low = excess(low)
        while at_high <= 0 and high < 4 * shape.divergence:
            low, at_low, high = high, at_high, high * 1.04
            at_high = excess(high)
        for _ in range(_TRIES):
            if high < low * 1.004 or not at_low < at_high:
                break
            share = min(0.75, max(0.35, -at_low / (at_high - at_low)))
            middle = low * (high / low) ** share
            at_middle = excess(middle)
            if at_middle <= 0:
                low, at_low = middle, at_middle
            else:
                high, at_high = middle, at_middle
        return Shape(shape.order, low, shape.new_keys)


def _lower_hull(points: Floats, values: Floats) -> Floats:
    """The largest convex function that is nowhere above the values, at the points."""
    kept: list[int] = []
    x, y = points.tolist(), values.tolist()
    for place in range(len(x)):
        while len(kept) > 1:
            first, second = kept[-2], kept[-1]
            if (y[second] - y[first]) * (x[place] - x[first]) < (y[place] - y[first]) * (x[second] - x[first]):
                break
            kept.pop()
        kept.append(place)
    return np.interp(points, points[kept], values[kept])
