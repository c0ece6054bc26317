"""The sparse histogram with a number of random bits fixed in advance: the reference in strict time, for small releases.

`dptally.mechanisms.sparse` draws until it is done, so its running time is random and, however little, depends on what
is drawn. Here every draw takes a fixed number of coins and a bounded number of steps. That forbids the exact law, some
of whose probabilities need more bits than there are keys; so it is approximated closely enough that a little random
output hides the difference completely, and the guarantee is pure all the same [BV19, Alg. 6.9, Lemma 3.2].

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
from bisect import insort
from collections.abc import Sequence
from fractions import Fraction
from itertools import accumulate
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from dptally.errors import MissingDependency
from dptally.laws.tables.fixed_bits_noise import FixedBitsNoise
from dptally.laws.top_k_noise import TopKNoise
from dptally.randomness import BitSource
from dptally.randomness.integers import whole_numbers

_WORD = 64


class StrictDraw:
    """KeepHeavy over a large universe from a fixed number of coins.

    The law. Let M be the exact release of `dptally.mechanisms.sparse`, with `FixedBitsNoise`, and M' the same with
    order statistics and labels drawn approximately, within statistical distance d of M for all data. With
    probability 1 - 2^-g the result of M' is released, otherwise a random histogram: `keep` random keys, each with a
    random value from 0 to `bound`, those with 0 left out.

    Guarantee:
        epsilon-differential privacy for adding or removing one unit. M is (see `dptally.mechanisms.sparse`); the
        table and the distance are verified by `TopKNoise.certify`. Let q be the least probability of any result under
        the random histogram, and g' = 2^-g. For any result h and neighbours, (1 - g') P[M' = h] + g' q_h
        <= (1 - g') (e^epsilon (P[M'* = h] + d) + d) + g' q_h, which is at most
        e^epsilon ((1 - g') P[M'* = h] + g' q_h) if (e^epsilon + 1) d <= (e^epsilon - 1) g' q. Every
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

    The law has `mixing` = g: a random histogram is released with probability 2^-g.
    """

    def __init__(self, law: TopKNoise) -> None:
        assert law.mixing is not None  # noqa: S101 - for the type checker
        self.law, self.keep, self.bound, self.mixing, self._size = law, law.keep, law.bound, law.mixing, law.size
        self._noise = cast("FixedBitsNoise", law.noise)  # what is verified is what is drawn from

    def __call__(
        self, numbers: NDArray[Any], counts: NDArray[np.int64], bits: BitSource
    ) -> tuple[NDArray[Any], NDArray[np.int64]]:
        """Draw from counts of numbered keys; see `dptally.mechanisms.sparse.draw_bins`."""
        size = self._size
        taken = [int(number) for number in numbers]
        # As many draws as the cap allows keys, used or not.
        noise = [self._noise.from_uniform(_coins(self._noise.length, bits)) for _ in range(max(self.keep, len(taken)))]
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

    def _order_statistics(self, draws: int, bits: BitSource) -> list[int]:
        """[BV19, Alg. 6.20]: the keep + 1 largest (or all) of so many draws of clamp(Z), approximately."""
        wanted = min(self.keep + 1, draws)
        tails, whole = [*self._noise.tails, 0], 1 << self._noise.length
        found: list[int] = []
        for value in range(self.bound, 0, -1):
            here = approximate_binomial(
                _coins(self.law.scale_bits, bits) + 1,
                self.law.scale_bits,
                wanted - len(found),
                draws - len(found),
                Fraction(tails[value] - tails[value + 1], whole - tails[value + 1]),
            )
            found += [value] * here
        return found + [0] * (wanted - len(found))

    def _labels(self, taken: Sequence[int], bits: BitSource) -> list[int]:
        """[BV19, Alg. A.3], returning a sequence: distinct keys outside, each next one nearly uniform on the rest."""
        seen = sorted(taken)
        labels = []
        for _ in range(min(self.keep + 1, self._size - len(taken))):
            label = _coins(self.law.label_bits, bits) * (self._size - len(seen)) >> self.law.label_bits
            for other in seen:  # every step is taken whatever is found
                label += other <= label
            insort(seen, label)
            labels.append(label)
        return labels

    def _random_histogram(self, bits: BitSource) -> dict[int, int]:
        size = self._size
        length, value_length = size.bit_length() + 1, (self.bound + 1).bit_length() + 1
        keys = [_coins(length, bits) * size >> length for _ in range(self.keep)]
        values = [_coins(value_length, bits) * (self.bound + 1) >> value_length for _ in range(self.keep)]
        return {key: value for key, value in dict(zip(keys, values, strict=True)).items() if value > 0}


def _coins(length: int, bits: BitSource) -> int:
    """A uniform number below 2^length, from a fixed number of words."""
    words = -(-length // _WORD)
    return int.from_bytes(bits.words(words).astype("<u8").tobytes(), "little") >> (words * _WORD - length)


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

    Symbols: `uniform` from 1 to s = 2^b >= trials, b is `scale_bits`, t the cap, m the trials, p / q the chance.
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
