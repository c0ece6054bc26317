"""A count plus two-sided geometric noise, clamped to a public range: pure differential privacy for one count."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from dptally.errors import InvalidParameter, PrivacyViolation
from dptally.exact import as_epsilon, exp_bounds
from dptally.exact.powers import power_bounds
from dptally.exact.searching import first_near
from dptally.randomness import BitSource
from dptally.randomness.geometric import LARGEST, Geometric
from dptally.randomness.lazy_uniforms import Thresholds

_WORD = 64
_RATIO_BITS = 128
_SMALLEST_EPSILON = Fraction(1, 1 << 32)


class ClampedGeometric:
    """Report clamp(c + Z) to 0 .. bound, where P[Z = z] = (1 - r) / (1 + r) r^|z| for all whole z.

    r is the smallest multiple of 2^-128 with 1 / r <= e^epsilon, so that less than 2^-90 of epsilon is left unused.
    [BV19] takes r = 2^k / (2^k + 1), whose tables have small denominators, and spends as little as 4/9 of epsilon.

    Guarantee:
        epsilon-differential privacy for adding or removing one: P[Z = z] and P[Z = z + 1] differ by a factor of at most
        1 / r <= e^epsilon for every z, and clamping is a function of the sum. Every value has positive probability
        for every count. There is no table to cut and no tail to lose.

    Error:
        P[|Z| > a] = 2 r^(a+1) / (1 + r).

    References:
        [BV19, Alg. 4.5, Thm. 4.6].

    Epsilon is at least 2^-32, the bound, which is public, at most 2^62.

    >>> law = ClampedGeometric("1", bound=3)
    >>> sum(law.row(2).values()), float(law.tail(1))
    (Fraction(1, 1), 0.2689414213699951)
    """

    def __init__(self, epsilon: object, *, bound: int = LARGEST) -> None:
        self.epsilon = as_epsilon(epsilon)
        if self.epsilon < _SMALLEST_EPSILON:
            raise InvalidParameter(f"epsilon must be at least 2^-32 for geometric noise, got {epsilon}.")
        if isinstance(bound, bool) or not isinstance(bound, int) or not 1 <= bound <= LARGEST:
            raise InvalidParameter(f"bound must be a whole number from 1 to 2^62, got {bound}.")
        self.bound = bound
        growth, _ = exp_bounds(self.epsilon, 2 * _RATIO_BITS)
        self.ratio = Fraction(math.ceil((1 << _RATIO_BITS) / growth), 1 << _RATIO_BITS)

    def __repr__(self) -> str:
        return f"ClampedGeometric(epsilon={self.epsilon}, bound={self.bound})"

    # ---- the law ----

    def tail(self, value: int) -> Fraction:
        """P[Z >= value] for value >= 0, exactly. A fraction of 128 `value` bits."""
        return self.ratio**value / (1 + self.ratio)

    def tail_bounds(self, value: int, bits: int) -> tuple[int, int]:
        """Bounds of 2^bits P[Z >= value] for value >= 0, at most 4 apart."""
        low, high = power_bounds(self.ratio, value, bits)
        whole = 1 + self.ratio
        return low * whole.denominator // whole.numerator, -(-high * whole.denominator // whole.numerator)

    def probability(self, true_frequency: int, value: int) -> Fraction:
        """P[value is reported | the true frequency], exactly."""
        if not 0 <= value <= self.bound:
            return Fraction(0)
        shift = value - true_frequency
        below, above = value == 0, value == self.bound
        if below and shift <= 0:
            return self.tail(-shift)
        if above and shift >= 0:
            return self.tail(shift)
        if below or above:
            return 1 - self.tail(abs(shift) + 1)
        return (1 - self.ratio) / (1 + self.ratio) * self.ratio ** abs(shift)

    def row(self, true_frequency: int) -> dict[int, Fraction]:
        """The exact law of what is reported; for small bounds, since it has bound + 1 fractions."""
        return {value: self.probability(true_frequency, value) for value in range(self.bound + 1)}

    def certify(self, epsilon: Fraction | None = None) -> Fraction:
        """Verify the ratio that is drawn with, and return the loss 1 / r."""
        loss = 1 / self.ratio
        if loss > exp_bounds(self.epsilon if epsilon is None else epsilon, 512)[0]:
            raise PrivacyViolation("the noise shrinks by more than a factor e^epsilon per step.")
        return loss

    # ---- drawing ----

    @cached_property
    def _geometric(self) -> Geometric:
        return Geometric(self.ratio)

    @cached_property
    def _sign(self) -> Thresholds:
        """P[Z < 0] and P[Z <= 0]."""
        places = [self.ratio / (1 + self.ratio), 1 / (1 + self.ratio)]

        def bounds(place: int, bits: int) -> tuple[int, int]:
            scaled = places[place] * (1 << bits)
            return scaled.numerator // scaled.denominator, -(-scaled.numerator // scaled.denominator)

        return Thresholds(bounds, [bounds(place, _WORD)[0] for place in range(2)])

    def draw(self, frequencies: NDArray[np.int64], bits: BitSource) -> NDArray[np.int64]:
        """One independent draw of clamp(c + Z) for each frequency c.

        Postcondition: for frequencies from 0 to 2^62 and uniform words, results follow the rows exactly. Sign and size
        of Z are independent given that it is not 0, and |Z| - 1 is then geometric. A size cut off at 2^62 changes
        nothing: the sum is beyond the range either way.
        """
        sign = self._sign.draw(len(frequencies), bits) - 1
        size = np.minimum(self._geometric.draw(len(frequencies), bits), LARGEST - 1) + 1
        noisy: NDArray[np.int64] = np.clip(frequencies + sign * size, 0, self.bound)
        return noisy

    def draw_between(self, low: Fraction, high: Fraction, count: int, bits: BitSource) -> NDArray[np.int64]:
        """Draw max {v : W < G(v)} for `count` independent W, uniform on [low, high), exactly.

        G(v) = P[clamp(Z) >= v] is the upper tail of the row of 0: 1 at v = 0, and r^v / (1 + r) for v = 1 .. bound.
        For low = 0: with v the largest number such that G(v) >= high, the draw is v if W >= G(v + 1) and otherwise v +
        1 + a geometric number, since G(v + 1 + g) / G(v + 1) = r^g. For low > 0, draws with W < low are passed over:
        all those beyond the largest v such that G(v) >= low, and of those equal to it the share that lies below.
        """
        if low == 0:
            return self._draw_below(high, count, bits)
        edge = self._level(low)

        # Given the value, W is uniform between the tails on both sides of it (or the end of the cell).
        def bounds(_: int, precision: int) -> tuple[int, int]:
            return self._edge_bounds(edge, low, high, precision)

        share = Thresholds(bounds, [bounds(0, _WORD)[0]])
        found: list[NDArray[np.int64]] = [np.empty(0, dtype=np.int64)]
        missing = count
        while missing:
            drawn = self._draw_below(high, missing, bits)
            at_edge = np.flatnonzero(drawn == edge)
            kept = drawn < edge
            kept[at_edge] = share.draw(len(at_edge), bits) == 0
            found.append(drawn[kept])
            missing -= len(found[-1])
        return np.concatenate(found)

    def _draw_below(self, high: Fraction, count: int, bits: BitSource) -> NDArray[np.int64]:
        level = self._level(high)
        drawn = np.full(count, level, dtype=np.int64)
        if level == self.bound:
            return drawn

        def bounds(_: int, precision: int) -> tuple[int, int]:
            # 2^k G(level + 1) / high, with as many more places as high has leading zeros.
            more = (1 / high).__ceil__().bit_length() + 3
            least, most = self._upper_bounds(level + 1, precision + more)
            scale = high * (1 << more)
            return (least * scale.denominator // scale.numerator, -(-most * scale.denominator // scale.numerator))

        beyond = np.flatnonzero(Thresholds(bounds, [bounds(0, _WORD)[0]]).draw(count, bits) == 0)
        further = self._geometric.draw(len(beyond), bits)
        drawn[beyond] = np.minimum(further, self.bound - level - 1) + level + 1
        return drawn

    def _upper_bounds(self, value: int, bits: int) -> tuple[int, int]:
        """Bounds of 2^bits G(value), G the upper tail of the row of 0."""
        if value == 0:
            return 1 << bits, 1 << bits
        return self.tail_bounds(value, bits) if value <= self.bound else (0, 0)

    def _level(self, probability: Fraction) -> int:
        """The largest v with G(v) >= probability > 0.

        Comparisons end because G(v) is never equal to a fraction with a power of two below the line, such as the ends
        of cells are: the odd part of 2^128 (1 + r) is above 1 and has no divisor in common with 2^128 r.
        """
        guess = -math.log(probability.numerator) + math.log(probability.denominator)
        near = int(guess / -math.log1p(float(self.ratio - 1)))  # only where to look first
        above = first_near(lambda value: not self._reaches(value, probability), near, 1, self.bound + 1)
        return (self.bound + 1 if above is None else above) - 1

    def _reaches(self, value: int, probability: Fraction) -> bool:
        """Whether G(value) >= probability."""
        precision = 2 * _WORD
        while True:
            low, high = self._upper_bounds(value, precision)
            scaled = probability * (1 << precision)
            if low >= scaled:
                return True
            if high < scaled:
                return False
            precision *= 2

    def _edge_bounds(self, edge: int, low: Fraction, high: Fraction, bits: int) -> tuple[int, int]:
        """Bounds of 2^bits (T - low) / (T - G(edge + 1)), where T = min(G(edge), high)."""
        work = 2 * bits + 2 * low.denominator.bit_length() + _WORD
        top_low, top_high = (min(Fraction(bound), high * (1 << work)) for bound in self._upper_bounds(edge, work))
        next_low, next_high = self._upper_bounds(edge + 1, work)
        cut = low * (1 << work)
        # (T - low) / (T - next) grows with T and with next, as next < low <= T.
        least = max(Fraction(0), (top_low - cut) / (top_low - next_low) * (1 << bits))
        most = (top_high - cut) / (top_high - next_high) * (1 << bits)
        return math.floor(least), math.ceil(most)
