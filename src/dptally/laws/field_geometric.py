"""Two-sided geometric noise in units of a prime: the law of a count that one field element encodes."""

from __future__ import annotations

import math
from bisect import bisect_right
from fractions import Fraction
from functools import cached_property
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from dptally.errors import InvalidParameter
from dptally.exact import exp_bounds
from dptally.laws.clamped_noise import MixedNoise
from dptally.laws.key_errors import KeyErrors, errors_of_noise

FIELD_EXPONENTS = (61, 89, 107, 127, 521)  # of the Mersenne primes 2^e - 1 that a release may use
LARGEST_REACH = 1 << 20  # of the noise
STRAY = Fraction(1, 1 << 40)  # the largest chance of a value that says nothing about the count
_SPARE_BITS = 64  # an element of a cell is chosen with this many bits more than a field element has
_RATIO_BITS = 128


class FieldGeometric(MixedNoise):
    """Each count is a number from 0 to B, reported as a number from 0 to B, with all chances in units of 1/q.

    With q = 2^e - 1 elements in the field, B the largest count, f the floor, M = q - f (B + 1) and a the ratio, let Z
    be the symmetric noise with P[Z <= -j] = T_j / M, where

        T_1 = floor(M / (1 + a)),  T_{j+1} = floor(T_j / a),  until T_{R+1} = 0.

    Without the floors this is the two-sided geometric law, P[Z = z] proportional to a^-|z|. For a true count c

        with chance M/q: report c + Z, moved into 0 .. B,
        otherwise ("stray", chance f (B + 1) / q): report a uniform number from 0 to B.

    Both are one uniform number u from 0 to q - 1: u < M chooses Z by a table, the others are B + 1 pieces of length f.
    Row 0 read in this way is the *decoder*, which turns a field element into a value; the elements that mean the value
    v are the *cell* of v, as many as P[v | 0] has units.

    Why a neighbour's row differs by at most a factor a. Every mass is f plus a mass of Z (or a tail of Z at 0 and B).
    a T_{j+1} <= T_j < a T_{j+1} + a for j >= 1 and M < (1 + a)(T_1 + 1); hence both masses and tails of Z exceed a
    times their neighbour by less than 1 + a. Adding f to both sides pays for it as soon as f (a - 1) >= 1 + a. The
    verifier, `dptally.verifiers.compact`, does not rely on this: it compares all rows of the table itself.

    An element of a cell of s elements is chosen with `element_bits` = k random bits as floor(w s / 2^k): a fixed
    number of bits, whatever the data. Every element then has chance 1/s up to a factor 1 + s / 2^k, and the verifier
    counts that too.

    Error:
        A value differs from the count by more than E with chance 2 T_{E+1} / q + f (B - 2 E) / q or, for counts near
        0 or B, T_{E+1} / q + f (B - E) / q at most: see `error`. E is about ln(2 / ((1 + a^-1) beta)) / ln a.
    Cost:
        A table of R = ln(q) / ln(a) numbers; a bisection for each value.

    References:
        [BV19, Thm. 4.10 and Lem. 8.4]. There, noise and empty bins have denominators of their own, made close to each
        other; here both are q, so nothing is lost between them.

    Args:
        exponent: e, with 2^e - 1 prime.
        largest_count: B, at least 1; larger counts are cut to it.
        ratio: a > 1.
        floor: f, at least 1.
        element_bits: k.

    >>> law = choose_law(Fraction(1), universe_size=2**64, largest_count=2**32 - 1)
    >>> law.exponent, law.floor, law.reach, law.error(Fraction(1, 20))
    (89, 3, 61, 3)
    """

    lists_keys = False
    independent = False

    def __init__(self, exponent: int, largest_count: int, ratio: Fraction, floor: int, element_bits: int) -> None:
        if largest_count < 1 or ratio <= 1 or floor < 1 or element_bits < 1 or exponent < 2:
            raise InvalidParameter("the law of a compact histogram needs a ratio above 1 and positive whole numbers.")
        self.exponent = exponent
        self.size = (1 << exponent) - 1
        self.largest_count = self.most_distinct = self.bound = largest_count
        self.ratio = ratio
        self.floor = floor
        self.element_bits = element_bits
        self.noise_mass = self.size - floor * (largest_count + 1)
        if self.noise_mass < 1:
            raise InvalidParameter("the field is too small for the largest count.")
        tails = []
        tail = math.floor(self.noise_mass / (1 + ratio))
        while tail:
            tails.append(tail)
            if len(tails) > LARGEST_REACH:
                raise InvalidParameter(f"epsilon is too small: the noise of one count would reach {LARGEST_REACH}.")
            tail = tail * ratio.denominator // ratio.numerator
        self.tails = tuple(tails)  # T_1 .. T_R

    def __repr__(self) -> str:
        return (
            f"FieldGeometric(exponent={self.exponent}, largest_count={self.largest_count}, "
            f"ratio={float(self.ratio):.6g}, floor={self.floor})"
        )

    @cached_property
    def _integers(self) -> tuple[tuple[int, ...], int]:
        sides = [here - after for here, after in pairwise([*self.tails, 0])]
        return (self.noise_mass - 2 * sum(sides), *sides), self.floor

    @cached_property
    def _thresholds(self) -> list[int]:
        """P[Z <= z] for z = -R .. R - 1, in units of 1/q."""
        return [*reversed(self.tails), *(self.noise_mass - tail for tail in self.tails)]

    def _tail(self, distance: int) -> int:
        """P[Z <= -distance] in units of 1/q, for any distance from 0 on."""
        if distance == 0:
            return self.noise_mass - (self.tails[0] if self.tails else 0)
        return self.tails[distance - 1] if distance <= len(self.tails) else 0

    # ---- drawing ----

    def draw(self, count: int, uniform: int) -> int:
        """The value reported for a true count, from a uniform number of 0 .. q-1."""
        if uniform >= self.noise_mass:
            return (uniform - self.noise_mass) // self.floor
        noise = bisect_right(self._thresholds, uniform) - len(self.tails)
        return min(max(min(count, self.largest_count) + noise, 0), self.largest_count)

    def decode(self, element: int) -> int:
        """The value that a field element means: the draw for count 0."""
        return self.draw(0, element)

    def cell(self, value: int) -> tuple[int, int]:
        """Where the first stretch of a value's elements starts, and its length; f more are at M + f value."""
        if value == 0:
            return 0, self._tail(0)
        start = self.noise_mass - self._tail(value)
        end = self.noise_mass if value == self.largest_count else self.noise_mass - self._tail(value + 1)
        return start, end - start

    def encode(self, value: int, uniform: int) -> int:
        """An element of the value's cell, from a uniform number of 0 .. 2^k - 1."""
        start, length = self.cell(value)
        place = uniform * (length + self.floor) >> self.element_bits
        return start + place if place < length else self.noise_mass + self.floor * value + place - length

    # ---- the law ----

    def key_errors(self, frequencies: NDArray[np.float64]) -> KeyErrors:
        """By the tails of the noise."""
        return errors_of_noise(np.array([2 * tail / self.size for tail in self.tails]), frequencies)

    def error(self, beta: Fraction) -> int:
        """`error_quantile` for any beta: the smallest E with |value - count| <= E with chance 1 - beta at least."""
        return self._smallest_error(lambda chance: chance <= beta)


def choose_law(key_epsilon: Fraction, *, universe_size: int, largest_count: int) -> FieldGeometric:
    """The law with the least noise for a loss of `key_epsilon` per step of a count, in the smallest field that fits.

    The ratio is e^key_epsilon (1 - 2^-62) rounded down to 2^-128: what is left pays for choosing an element of a cell
    with finitely many bits. The floor is the smallest of which the rounding of the table can be paid, about
    2 / key_epsilon. The field has at least `universe_size` elements, and enough of them that a stray value has chance
    2^-40 at most.
    """
    low, _ = exp_bounds(key_epsilon, 2 * _RATIO_BITS)
    ratio = Fraction(math.floor(low * (1 - Fraction(1, 1 << 62)) * (1 << _RATIO_BITS)), 1 << _RATIO_BITS)
    if ratio <= 1:
        raise InvalidParameter(f"epsilon is too small: the noise of one count would reach {LARGEST_REACH}.")
    floor = math.ceil((ratio + 1) / (ratio - 1))
    for exponent in FIELD_EXPONENTS:
        size = (1 << exponent) - 1
        if size >= universe_size and floor * (largest_count + 1) <= STRAY * size:
            return FieldGeometric(exponent, largest_count, ratio, floor, exponent + _SPARE_BITS)
    raise InvalidParameter(
        f"no field is large enough: the universe may have at most 2^{FIELD_EXPONENTS[-1]} - 1 keys, "
        f"got about 2^{(universe_size - 1).bit_length()}."
    )
