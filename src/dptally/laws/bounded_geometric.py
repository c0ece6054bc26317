"""Counting queries under pure differential privacy, in integers: three forms of the clamped geometric law.

- `DyadicGeometric`: denominator 2^128, a fixed number of random bits per draw, bounds up to 2^62. The one to publish
  with.
- `BoundedGeometric`: the geometric law itself with a rational ratio. Its integers grow with the bound.
- `FastGeometric`: the same cut where its tail is small and mixed with uniform values. Its integers do not.

The last two have denominators that are no powers of two: they are drawn exactly, with 128 random bits but for a
probability near 2^-120 of needing more. They are here for comparison, and for who wants the laws of the paper.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING

from dptally.errors import InvalidParameter, PrivacyViolation
from dptally.exact import as_count, exp_bounds
from dptally.exact.searching import first_where
from dptally.laws.base import as_chance
from dptally.laws.clamped_noise import ADD_OR_REMOVE, ClampedNoise, Neighbours
from dptally.laws.node_sums import NodeSums, ShiftedNodes
from dptally.laws.tables.two_sided_geometric import LARGEST_REACH
from dptally.randomness import BitSource
from dptally.verifiers.pure import certify_clamped_noise

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_BITS = 128
_WHOLE = 1 << _BITS
_UNIFORM_BITS = 64  # uniform values have 2^-64 together, or what rounding needs if that is more
_PRECISION = 256  # of e^epsilon, from below
_LARGEST_SCALE = 1 << 62
_LARGEST_DENOMINATOR = 4096
_LARGEST_TABLE = 1 << 26  # bits of the integers of a law


class DyadicGeometric(ClampedNoise):
    """Count plus geometric noise on 0 .. bound with denominator 2^128: strict time, any bound up to 2^62.

    Construction (see `dyadic_masses`). With rational a <= e^e, e the epsilon of one key, and the symbols of
    `ClampedNoise`, the masses satisfy

        (1)  M_z <= M_{z-1} <= a M_z for z = 1 .. R,      (2)  M_R <= (a - 1) g,      (3)  g >= 1.

    Why this is private, exactly, for every count and value. Put M_z = 0 for |z| > R and compare rows c and c + 1.
    - At an inner value both have g plus masses of neighbouring noise, say M_{z-1} and M_z for z >= 1 by symmetry. The
      larger is g + M_{z-1}: at most g + a M_z by (1) if z <= R, and g + M_R <= g + (a - 1) g by (2) if z = R + 1. Both
      are at most a (g + M_z).
    - At 0 they have g + H_c and g + H_{c+1}, where H_k sums M_z over z >= k. By (1), summed from c to R - 1, H_c <=
      a H_{c+1} + M_R for c <= R, and by (2) g + H_c <= a (g + H_{c+1}). For c > R both are g.
    - At the bound the same, from the other side.
    No probability is 0, by (3). Summing (1) is why the cut must be paid for once only, at the ends.

    Guarantee:
        epsilon-differential privacy, delta = 0, certified from the bytes that are drawn from.

    Error:
        That of the geometric law with factor e^-e, but for uniform values, which have probability 2^-64 or
        (bound + 1) / (2^128 (1 - e^-e)^2), whichever is more; `mixing` is the exact number.
    Cost:
        A table of 2R + 1 numbers, R near 0.7 (64 + log2(bound + 1)) / e; 128 bits and a number of table steps that
        depends on the length of the table alone for each draw.

    References:
        [BV19, section 4] for the problem, the clamp and the mixture; [GRS12] for the law. There the denominator is not
        a power of two, so that with coins alone the time of a draw has no bound.

    Args:
        epsilon: positive; see `dptally.exact.as_fraction` for how numbers are read.
        bound: the largest count and value, from 1 to 2^62. Public; larger counts are counted as `bound`.
        neighbours: "add or remove one unit" (one count changes), or "replace one unit" (two do).

    Raises:
        InvalidParameter: if a number is out of range, or epsilon so small that the table would be too long.

    >>> law = DyadicGeometric("1", 1000)
    >>> law.error_quantile("0.01"), law.simultaneous_error("0.01", bins=10**6)
    (4, 18)
    """

    name = "dyadic_geometric"
    stored_as = "DyadicGeometric"

    def __init__(self, epsilon: object, bound: object, *, neighbours: Neighbours = ADD_OR_REMOVE) -> None:
        super().__init__(epsilon, bound, neighbours)
        # 0.7 > ln 2, so noise of this size has a mass below (a - 1) g.
        reach = Fraction(7 * (_UNIFORM_BITS + self.bound.bit_length() + 1), 10) / self.key_epsilon
        if reach > LARGEST_REACH:
            raise InvalidParameter(
                f"epsilon is too small: the noise would have more than {2 * LARGEST_REACH} values, and half of all "
                f"values would be off by more than {float(Fraction(7, 10) / self.key_epsilon):.2g}."
            )

    def draw_nodes(self, counts: NDArray[np.int64], bits: BitSource) -> NDArray[np.int64]:
        """One independent draw for each node of a tree, not clamped at 0.

        A sum of clamped values is too large. So R is added to every count first, R the largest noise, and taken off
        again: counts of neighbours are neighbours after it as before, and values may be negative.
        """
        return self.draw(counts + self.reach, bits) - self.reach

    def node_sums(self) -> NodeSums:
        """Symmetric noise on every node."""
        return ShiftedNodes(self)

    @cached_property
    def _integers(self) -> tuple[tuple[int, ...], int]:
        return dyadic_masses(self.key_epsilon, self.bound)


class BoundedGeometric(ClampedNoise):
    """Count plus two-sided geometric noise, clamped to 0 .. bound: the exact law, with rational probabilities.

    P[Z = z] is proportional to (K / (K + 1))^|z| with the rational K of `rational_scale`, so that neighbouring rows
    differ by a factor of exactly (K + 1) / K <= e^e, e the epsilon of one key. Noise beyond -bound .. bound ends at the
    same clamped value whatever the count, so the tails are gathered there and the law has finitely many integers:
    denominator (2K + 1) (K + 1)^(bound - 1) for whole K.

    Guarantee:
        epsilon-differential privacy, delta = 0.

    Error:
        `error_quantile`, `simultaneous_error`.
    Cost:
        Integers of bound * log2(K + 1) bits, 2 bound + 1 of them.

    References:
        [BV19, Theorem 4.7, Algorithm 4.8], where K is a power of two and up to half of epsilon is not used.

    Args:
        epsilon: positive.
        bound: the largest count and value. Public; larger counts are counted as `bound`.
        neighbours: "add or remove one unit" (one count changes), or "replace one unit" (two do).
        largest_denominator: of K, or of 1 / K if K < 1; 1 for a whole K and short integers.

    Raises:
        InvalidParameter: if a number is out of range, or the integers would be too long.

    >>> BoundedGeometric("0.1", 10, neighbours="replace one unit", largest_denominator=1).scale
    Fraction(20, 1)
    """

    name = "bounded_geometric"

    def __init__(
        self, epsilon: object, bound: object, *, neighbours: Neighbours = ADD_OR_REMOVE, largest_denominator: int = 64
    ) -> None:
        super().__init__(epsilon, bound, neighbours)
        self.scale = rational_scale(self.key_epsilon, largest_denominator)
        if self.bound**2 * _step_bits(self.scale) > _LARGEST_TABLE:
            raise InvalidParameter(
                f"bound is too large for the law 'bounded_geometric', whose integers grow with it, got {self.bound}; "
                "use DyadicGeometric."
            )

    @cached_property
    def _integers(self) -> tuple[tuple[int, ...], int]:
        return geometric_masses(self.scale, self.bound), 0  # R is the bound; nothing is mixed in


class FastGeometric(ClampedNoise):
    """Geometric noise cut at t, mixed with uniform values: short rational numbers for any bound.

    The noise of `BoundedGeometric`, with all mass beyond -t .. t moved to 0, is taken with probability 1 - gamma, a
    uniform value with probability gamma. t (`reach`) is the smallest number the verifier accepts: t - 1 is refused.

    Guarantee:
        epsilon-differential privacy, delta = 0: by [BV19, Lemma 3.2] for the t given there, by exact comparison for
        this one.

    Error:
        With probability gamma a value says nothing; `error_quantile` has the exact numbers.
    Cost:
        2t + 1 integers of t log2(K + 1) + log2(bound / gamma) bits, t near ln(bound / gamma) / e.

    References:
        [BV19, Theorem 4.10, Algorithm 4.11], with t about four times as large.

    Args:
        epsilon: positive.
        bound: the largest count and value, up to 2^62. Public; larger counts are counted as `bound`.
        mixing: gamma, above 0 and below 1.
        neighbours: "add or remove one unit" (one count changes), or "replace one unit" (two do).
        largest_denominator: of K, or of 1 / K if K < 1.

    Raises:
        InvalidParameter: if a number is out of range, or the integers would be too long.
    """

    name = "fast_geometric"

    def __init__(
        self,
        epsilon: object,
        bound: object,
        *,
        mixing: object = Fraction(1, 1 << 40),
        neighbours: Neighbours = ADD_OR_REMOVE,
        largest_denominator: int = 64,
    ) -> None:
        super().__init__(epsilon, bound, neighbours)
        self.scale = rational_scale(self.key_epsilon, largest_denominator)
        self._share = as_chance("mixing", mixing)
        # By Lemma 3.2 the tail P[|Z| > t] may be this large. 0.7 > ln 2 and ln(1 + 1/K) >= 1 / (K + 1).
        tail = self._share / (1 - self._share) / (self.bound + 1) / (2 * self.scale + 1)
        halvings = math.ceil(1 / tail).bit_length() + 1
        self._enough = math.ceil(Fraction(7, 10) * halvings * (self.scale + 1))
        if self._enough**2 * _step_bits(self.scale) > _LARGEST_TABLE:
            raise InvalidParameter(
                "epsilon is too small for the law 'fast_geometric', whose integers would be too long; "
                "use DyadicGeometric."
            )

    def __repr__(self) -> str:
        return (
            f"FastGeometric(epsilon={self.epsilon}, bound={self.bound}, mixing={self._share}, "
            f"neighbours={self.neighbours!r})"
        )

    @cached_property
    def _integers(self) -> tuple[tuple[int, ...], int]:
        return fast_masses(self.scale, first_where(self._accepted, 0, self._enough), self._share, self.bound)

    def _accepted(self, reach: int) -> bool:
        half, uniform = fast_masses(self.scale, reach, self._share, self.bound)
        try:
            certify_clamped_noise(
                [*reversed(half), *half[1:]], uniform=uniform, bound=self.bound, epsilon=self.key_epsilon
            )
        except PrivacyViolation:
            return False
        return True


def rational_scale(epsilon: Fraction, largest_denominator: int) -> Fraction:
    """The smallest K with ln(1 + 1/K) <= epsilon among rationals whose denominator is bounded.

    The bound is on the denominator of K if K >= 1, on that of 1 / K otherwise: small epsilons have large K, large ones
    large 1 / K, and it is the larger of the two whose relative precision counts. e^epsilon is rounded down, so that K
    is never too small.
    """
    largest = as_count("largest_denominator", largest_denominator, largest=_LARGEST_DENOMINATOR)
    low, _ = exp_bounds(epsilon, _PRECISION)
    excess = low - 1
    if excess * _LARGEST_SCALE < 1:
        raise InvalidParameter(
            "epsilon is too small: no noise scale up to 2^62 keeps it, and every count would drown in the noise."
        )
    if excess <= 1:
        return min(Fraction(math.ceil(part / excess), part) for part in range(1, largest + 1))
    return 1 / max(Fraction(math.floor(part * excess), part) for part in range(1, largest + 1))


def geometric_masses(scale: Fraction, bound: int) -> tuple[int, ...]:
    """P[Z = 0], ..., P[Z = bound - 1] and P[Z >= bound] of geometric noise with factor r = K / (K + 1), as integers.

    With r = x / y in lowest terms the common denominator is (x + y) y^(bound - 1), and

        P[Z = z] = (1 - r) / (1 + r) r^z = (y - x) x^z y^(bound - 1 - z) / denominator,
        P[Z >= bound] = r^bound / (1 + r) = x^bound / denominator.
    """
    x, y = _factor(scale)
    powers_x, powers_y = [1], [1]
    for _ in range(bound):
        powers_x.append(powers_x[-1] * x)
        powers_y.append(powers_y[-1] * y)
    return (*((y - x) * powers_x[z] * powers_y[bound - 1 - z] for z in range(bound)), powers_x[bound])


def fast_masses(scale: Fraction, reach: int, mixing: Fraction, bound: int) -> tuple[tuple[int, ...], int]:
    """M_0, ..., M_t and g of [BV19, Algorithm 4.11]: geometric noise cut at t, and uniform values.

    With r = x / y as above, d' = (x + y) y^t and gamma = u / w, the denominator is N = (bound + 1) w d', so that
    g = u d' is gamma N / (bound + 1), and M_z = (bound + 1) (w - u) (y - x) x^z y^(t - z) for z = 1 .. t. M_0 is what
    remains: its own mass and both tails.
    """
    x, y = _factor(scale)
    gathered = geometric_masses(scale, reach + 1)  # over (x + y) y^t, the tail beyond t last
    whole = (x + y) * y**reach
    sides = gathered[1 : reach + 1]
    noise = (whole - 2 * sum(sides), *sides)
    factor = (bound + 1) * (mixing.denominator - mixing.numerator)
    return tuple(mass * factor for mass in noise), mixing.numerator * whole


def dyadic_masses(epsilon: Fraction, bound: int) -> tuple[tuple[int, ...], int]:
    """M_0, ..., M_R and g in units of 2^-128, satisfying (1) to (3) of `DyadicGeometric`.

    With rational a <= e^epsilon, side masses are made outward, M_z = ceil(M_{z-1} / a), until M_z <= (a - 1) g, and the
    middle takes what remains. Rounding up gives (1) for z >= 2. It also makes the sides heavier than without rounding,
    so that the middle is lighter: M_0 <= a M_1 holds once M_1 is large enough, which a few steps of Newton's method
    from below find. A sequence of ceilings stops falling at about a / (a - 1), so (2) needs g (a - 1) to be at least
    that: g is the larger of ceil(a / (a - 1)^2) and 2^64 / (bound + 1).
    """
    low, _ = exp_bounds(epsilon, _PRECISION)
    growth, one = low.numerator, low.denominator
    uniform = max(math.ceil(low / (low - 1) ** 2), (1 << _UNIFORM_BITS) // (bound + 1))
    last = math.floor((low - 1) * uniform)
    noise = _WHOLE - (bound + 1) * uniform
    slope = low + 2 * low / (low - 1)  # what M_1 = 1 stands for without rounding and cut: a + 2 (1 + 1/a + ...)
    first = math.ceil(noise / slope)
    while True:
        sides = [first]
        while sides[-1] > last:
            sides.append(-(-sides[-1] * one // growth))
        middle = noise - 2 * sum(sides)
        excess = middle - growth * first // one
        if excess <= 0:
            return (middle, *sides), uniform
        first += math.ceil(excess / slope)


def _factor(scale: Fraction) -> tuple[int, int]:
    """x and y with K / (K + 1) = x / y in lowest terms."""
    return scale.numerator, scale.numerator + scale.denominator


def _step_bits(scale: Fraction) -> int:
    """Bits that a step of the noise adds to the integers."""
    return _factor(scale)[1].bit_length()
