"""The sparse histogram with a number of random bits fixed in advance: the reference in strict time, for small releases.

`SparseHistogram` draws until it is done, so its running time is random and, however little, depends on what is drawn.
Here every draw takes a fixed number of coins and a bounded number of steps. That forbids the exact law, some of whose
probabilities need more bits than there are keys; so it is approximated closely enough that a little random output hides
the difference completely, and the guarantee is pure all the same [BV19, Alg. 6.9, Lemma 3.2].

Corrections to the printed algorithms, all marked below:

- Algorithm 6.18 (d) must begin at floor(t' / 2): with ceil, t' = 1 looks at nothing and 0 is never returned. Its vector
  must be cut to t' entries.
- Algorithm A.3 must return a sequence, not a set.
- A uniform draw from [d] takes a fixed number of coins only if d is a power of two. So the noise is a table over 2^D,
  s is a power of two, and labels are drawn by rounding, at a distance that is counted.
- |X| >= 2n + 1 is not needed.
- Adding or removing a unit makes the number of rows private: the cap `keep` and `bound` are public and take its place.
"""

from __future__ import annotations

import math
from bisect import bisect_right, insort
from fractions import Fraction
from functools import cached_property
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from dptally.errors import MissingDependency, PrivacyViolation
from dptally.exact import as_count, as_epsilon, exp_bounds
from dptally.mechanisms.sparse_histogram import draw_release
from dptally.randomness.integers import whole_numbers

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from dptally.mechanisms.base import Counted
    from dptally.mechanisms.sparse_histogram import SparseDrawn
    from dptally.randomness import BitSource
    from dptally.universes import Universe

__all__ = ["LARGEST_KEEP", "StrictSparseHistogram", "approximate_binomial", "approximate_power", "noise_tails"]

LARGEST_KEEP = 300
_LARGEST_BOUND = 1 << 12
_WORD = 64


class StrictSparseHistogram:
    """KeepHeavy over a large universe from a fixed number of coins.

    The law. Let M be the exact release of `SparseHistogram`, with noise from the table `noise_tails`, and M' the same
    with order statistics and labels drawn approximately, within statistical distance d of M for all data. With
    probability 1 - 2^-g the result of M' is released, otherwise a random histogram: `keep` random keys, each with a
    random value from 0 to `bound`, those with 0 left out.

    Guarantee:
        epsilon-differential privacy for adding or removing one unit. M is (see `SparseHistogram`; the table is checked
        by `certify`). Let q be the least probability of any result under the random histogram, and g' = 2^-g. For any
        result h and neighbours, (1 - g') P[M' = h] + g' q_h <= (1 - g') (e^epsilon (P[M'* = h] + d) + d) + g' q_h,
        which is at most e^epsilon ((1 - g') P[M'* = h] + g' q_h) if (e^epsilon + 1) d <= (e^epsilon - 1) g' q. Every
        result has at most `keep` keys and values up to `bound`; it comes about if the first keys drawn are its own and
        all others repeat one of them. Rounded draws give every key at least 1 / (2 |X|) and every value at least
        1 / (2 (bound + 1)), so q >= (4 |X| (bound + 1))^-keep. With (e^x - 1) / (e^x + 1) >= min(x, 1) / 3 it suffices
        that d <= min(epsilon, 1) / 3 * 2^-g q. Half of that goes to the order statistics, at distance at most
        bound |X| (keep + 2) / s [BV19, Prop. 6.19], and half to the labels, at most (keep + 1) |X| / 2^k.

    Cost:
        The number of coins depends on the parameters alone as long as the data has at most `keep` distinct keys. Steps
        are bounded: of order keep^2 log^2 |X|; those of the order statistics vary with the noise of keys nobody has.

    References:
        [BV19, Alg. 6.9, 6.16, 6.18, 6.20, 6.21 and A.3].

    Args:
        epsilon: for the unit.
        universe: all keys there may be.
        keep: how many keys are released at most, up to 300. Public.
        bound: largest value released, up to 4096. Public; counts are cut at it before noise is added.
        max_keys_per_unit: bound on what one unit touches.
        mixing: g: a random histogram is released with probability 2^-g.
    """

    name = "strict_sparse"

    def __init__(
        self,
        epsilon: object,
        *,
        universe: Universe,
        keep: int,
        bound: int,
        max_keys_per_unit: int = 1,
        mixing: int = 20,
    ) -> None:
        self.epsilon = as_epsilon(epsilon)
        self.universe = universe
        self.keep = as_count("keep", keep, largest=LARGEST_KEEP)
        self.bound = as_count("bound", bound, largest=_LARGEST_BOUND)
        self.max_keys_per_unit = as_count("max_keys_per_unit", max_keys_per_unit, largest=1 << 20)
        self.mixing = as_count("mixing", mixing, largest=_WORD)
        self.length, self.tails = noise_tails(self.epsilon / self.max_keys_per_unit, self.bound)
        self.certify()

    def certify(self) -> None:
        """Judge the table of the noise: every pair of neighbouring rows of clamp(c + Z), c and values from 0 to bound.

        The row of c has P[Z >= c] at the value 0 (Z is symmetric), P[Z >= bound - c] at the value `bound`, and
        P[Z = v - c] at the values v between. The row of c + 1 has the same with the next or the previous argument, so
        that steps along P[Z >= 0], P[Z >= 1], ... and P[Z = 0], P[Z = 1], ... cover all pairs.

        Raises:
            PrivacyViolation: if one exceeds e^epsilon.
        """
        growth, _ = exp_bounds(self.epsilon / self.max_keys_per_unit, 512)
        whole, tails = 1 << self.length, self.tails
        ends = [whole - tails[1], *tails[1:]]  # P[Z >= 0], P[Z >= 1], ..., P[Z >= bound]
        between = [whole - 2 * tails[1], *(a - b for a, b in pairwise(tails[1:]))]
        for law in (ends, between):
            for here, there in pairwise(law):
                if not (there > 0 and here <= growth * there and there <= growth * here):
                    raise PrivacyViolation("the noise changes by more than a factor e^epsilon per step.")

    @cached_property
    def _distance_bits(self) -> int:
        """A whole number b with 2^-b at most half of the distance allowed between M' and M."""
        least = (4 * self.universe.size * (self.bound + 1)).bit_length() * self.keep
        return least + self.mixing + math.ceil(3 / min(self.epsilon, Fraction(1))).bit_length() + 1

    @cached_property
    def scale_bits(self) -> int:
        """log2 s: how finely binomial probabilities are computed."""
        return self._distance_bits + (self.bound * self.universe.size * (self.keep + 2)).bit_length()

    @cached_property
    def label_bits(self) -> int:
        """How many coins a label takes."""
        return self._distance_bits + ((self.keep + 1) * self.universe.size).bit_length()

    def draw(self, frequencies: Counted, bits: BitSource) -> SparseDrawn:
        """Draw once; see `draw_release`."""
        return draw_release(self, frequencies, bits)

    def draw_bins(
        self, numbers: NDArray[Any], counts: NDArray[np.int64], bits: BitSource
    ) -> tuple[NDArray[Any], NDArray[np.int64]]:
        """Draw from counts of numbered keys; see `SparseHistogram.draw_bins`."""
        size = self.universe.size
        taken = [int(number) for number in numbers]
        # As many draws as the cap allows keys, used or not.
        noise = [self._noise(_coins(self.length, bits)) for _ in range(max(self.keep, len(taken)))]
        noisy = [
            min(max(min(int(count), self.bound) + z, 0), self.bound) for count, z in zip(counts, noise, strict=False)
        ]
        others = self._order_statistics(size - len(taken), bits)
        labels = self._labels(taken, bits)
        candidates = sorted(zip([*noisy, *others], [*taken, *labels], strict=False), reverse=True)
        cut = candidates[self.keep][0] if len(candidates) > self.keep else 0
        released = {key: value for value, key in candidates if value > cut}
        random = self._random_histogram(bits)
        chosen = random if _coins(self.mixing, bits) == 0 else released
        kept = sorted(chosen)
        return whole_numbers(kept, size), np.array([chosen[key] for key in kept], dtype=np.int64)

    def _noise(self, uniform: int) -> int:
        """Z from a uniform number below 2^D: how many of P[Z <= z], z = -bound .. bound - 1, are at most it."""
        return bisect_right(self._cumulative, uniform) - self.bound

    @cached_property
    def _cumulative(self) -> list[int]:
        below = list(reversed(self.tails[1:]))  # P[Z <= -bound], ..., P[Z <= -1]
        return below + [(1 << self.length) - tail for tail in self.tails[1:]]  # P[Z <= 0], ..., P[Z <= bound - 1]

    def _order_statistics(self, draws: int, bits: BitSource) -> list[int]:
        """[BV19, Alg. 6.20]: the keep + 1 largest (or all) of so many draws of clamp(Z), approximately."""
        wanted = min(self.keep + 1, draws)
        found: list[int] = []
        for value in range(self.bound, 0, -1):
            reaching = self.tails[value] - (self.tails[value + 1] if value < self.bound else 0)
            below_next = (1 << self.length) - (self.tails[value + 1] if value < self.bound else 0)
            here = approximate_binomial(
                _coins(self.scale_bits, bits) + 1,
                self.scale_bits,
                wanted - len(found),
                draws - len(found),
                Fraction(reaching, below_next),
            )
            found += [value] * here
        return found + [0] * (wanted - len(found))

    def _labels(self, taken: Sequence[int], bits: BitSource) -> list[int]:
        """[BV19, Alg. A.3], returning a sequence: distinct keys outside, each next one nearly uniform on the rest."""
        seen = sorted(taken)
        labels = []
        for _ in range(min(self.keep + 1, self.universe.size - len(taken))):
            label = _coins(self.label_bits, bits) * (self.universe.size - len(seen)) >> self.label_bits
            for other in seen:  # every step is taken whatever is found
                label += other <= label
            insort(seen, label)
            labels.append(label)
        return labels

    def _random_histogram(self, bits: BitSource) -> dict[int, int]:
        size = self.universe.size
        length, value_length = size.bit_length() + 1, (self.bound + 1).bit_length() + 1
        keys = [_coins(length, bits) * size >> length for _ in range(self.keep)]
        values = [_coins(value_length, bits) * (self.bound + 1) >> value_length for _ in range(self.keep)]
        return {key: value for key, value in dict(zip(keys, values, strict=True)).items() if value > 0}


def _coins(length: int, bits: BitSource) -> int:
    """A uniform number below 2^length, from a fixed number of words."""
    words = -(-length // _WORD)
    return int.from_bytes(bits.words(words).astype("<u8").tobytes(), "little") >> (words * _WORD - length)


def noise_tails(epsilon: Fraction, bound: int) -> tuple[int, list[int]]:
    """A length D, and P[Z >= z] for z = 0 .. bound in units of 2^-D; Z is symmetric and stands for +-bound beyond it.

    With rational a <= e^epsilon the masses are m_z = ceil(m_(z-1) / a) from m_1 outward, the last, which is all that
    reaches `bound`, ceil(m_(bound-1) / (a - 1)), and m_0 what is left. Then m_(z-1) <= a m_z and t_(z-1) <= a t_z by
    induction from the end. m_1 is rounded up from its value without any rounding, so m_0 <= a m_1. The length leaves 64
    bits for the smallest mass, which is what the roundings cost. `StrictSparseHistogram.certify` checks all of it.
    """
    growth, _ = exp_bounds(epsilon, 128)
    length = 2 * _WORD + math.ceil(Fraction(3, 2) * epsilon * bound)
    shrink = 1 / growth
    first = math.ceil((1 << length) * (1 - shrink) * shrink / (1 + shrink)) + 1
    masses = [first]
    for _ in range(bound - 2):
        masses.append(math.ceil(masses[-1] * shrink))
    # For bound = 1 all that is not 0 is in the last mass: 2^D / (1 + a).
    last = math.ceil(masses[-1] / (growth - 1)) if bound > 1 else math.ceil((1 << length) / (1 + growth))
    outward = [*masses, last] if bound > 1 else [last]
    tails = list(accumulate(reversed(outward)))[::-1]
    return length, [(1 << length) - tails[0], *tails]


def approximate_power(base: Sequence[int], exponent: int, scale_bits: int) -> list[int]:
    """[BV19, Alg. 6.16]: the exponent-fold convolution of base / s with itself, times s, cut and rounded down, s = 2^b.

    The vectors have as many entries as `base`. The sum of errors is at most entries * (exponent - 1) / s.
    """
    try:
        from flint import fmpz_poly
    except ImportError:
        raise MissingDependency("strict time needs python-flint: pip install python-flint") from None
    entries = len(base)
    first = fmpz_poly(list(base))
    power = first
    for digit in bin(exponent)[3:]:
        power = power.mul_low(power, entries)
        by = scale_bits
        if digit == "1":
            power = power.mul_low(first, entries)
            by += scale_bits
        power = fmpz_poly([coefficient >> by for coefficient in power.coeffs()])
    found = [int(coefficient) for coefficient in power.coeffs()]
    return found + [0] * (entries - len(found))


def approximate_binomial(uniform: int, scale_bits: int, cap: int, trials: int, chance: Fraction) -> int:
    """[BV19, Alg. 6.18]: min(binomial number, cap) from one uniform draw, within distance (trials (cap + 1) - cap) / s.

    Args:
        uniform: from 1 to s.
        scale_bits: b, for s = 2^b >= trials.
        cap: t.
        trials: m.
        chance: p / q.
    """
    if cap == 0:
        return 0
    whole = 1 << scale_bits
    happens = math.floor(whole * chance)
    entries = 1
    while entries < 2 * cap:
        # The printed vector has two entries even where one is asked for.
        law = approximate_power([whole - happens, happens, *[0] * (entries - 2)][:entries], trials, scale_bits)
        reached = list(accumulate(law))
        # The printed loop begins at ceil(t' / 2) and never returns 0.
        for number in range(entries // 2, entries):
            if reached[number] >= uniform:
                return min(number, cap)
        entries *= 2
    return cap
