"""Noise for every key of a huge universe, of which the heaviest are released: the law of sparse pure releases."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from dptally.errors import InvalidParameter
from dptally.exact import as_count, as_epsilon
from dptally.exact.powers import power_bounds
from dptally.exact.searching import first_from
from dptally.laws.base import (
    LARGEST_FREQUENCY,
    Law,
    Parameters,
    as_chance,
    as_given,
)
from dptally.laws.clamped_geometric import ClampedGeometric
from dptally.laws.estimators import SignificantValues
from dptally.laws.inversion import FrequencyEstimates
from dptally.laws.key_errors import KeyErrors, errors_of_noise
from dptally.laws.tables.fixed_bits_noise import FixedBitsNoise
from dptally.randomness import BitSource
from dptally.verifiers.pure import certify_clamped_noise, certify_geometric_noise, certify_hidden_difference
from dptally.verifiers.tables import Certificate

LARGEST_STRICT_KEEP = 300
_LARGEST_KEEP = 1 << 30
_LARGEST_SIZE = 1 << 256
_LARGEST_MIXING = 64
_PLACES = 128
_SPLITS = 16  # ways to share beta between two events, of which the best is taken
_BLOCKS = 1024
_TAILS_KEPT = 1 << 16
_USUAL_BETA = Fraction(1, 20)
_NO_ROWS = "what a sparse release says of a key depends on all other keys; law.key_error(beta, frequency) bounds it."


class TopKNoise(Law):
    """What a release holds for sure about a key: its noisy count, if that is among the `keep` largest of a universe.

    Every one of `size` keys, whether anybody has it or not, gets a noisy count clamp(c + Z) in 0 .. bound. Released are
    those above the (keep + 1)-th largest (above 0 if there are not so many keys), with it. Whether a key is released
    depends on all others, so there is no row P[value | frequency] on its own; what can be said of one key is below:
    exact for the noise, and as bounds for the selection. Bounds of what is *not* released, and of all keys at once, are
    for data with at most `keep` distinct keys, with counts up to `bound`.

    Z is two-sided geometric (`ClampedGeometric`). In strict time (`mixing` = g is given) it is `FixedBitsNoise`, the
    rest of the draw is within a tiny distance of this law, and with probability 2^-g a random histogram is released
    instead; bounds count both as failures.

    Guarantee:
        epsilon-differential privacy, delta = 0, for one count that changes by one: the noisy histogram of all keys has
        it, and what is released is a function of it. `certify` has the ratio of neighbouring rows judged, and in strict
        time also that the random histogram hides the distance.

    References:
        [BV19, section 6]; errors beside them are [BV19, Thm. 6.11], in `studies.sparse_printed`, and
        `least_possible_error`, [BV19, Thm. 7.2].

    Epsilon is that of one key; at most `keep` keys are released; `mixing` is g in strict time, else None.

    >>> law = TopKNoise(1, size=2**32, keep=1000, universe="ipv4")
    >>> law.significant_value("0.05"), law.noise_error("0.05"), law.first_frequency(Fraction(95, 100))
    (25, 3, 26)
    """

    name = "heaviest_noise"
    stored_as = "HeaviestNoise"
    parameters: ClassVar[Parameters] = {
        "epsilon": str,
        "universe": str,
        "size": lambda text: int(str(text)),
        "keep": as_given,
        "bound": as_given,
        "mixing": as_given,
    }
    delta = Fraction(0)
    keep: int
    universe: str
    at_least = True
    independent = False
    slow = True
    endless = True
    weighing = SignificantValues

    def __init__(
        self,
        epsilon: object,
        *,
        size: int,
        keep: int,
        bound: int = LARGEST_FREQUENCY,
        universe: str = "own",
        mixing: int | None = None,
    ) -> None:
        self.epsilon = as_epsilon(epsilon)
        self.size = as_count("size", size, largest=_LARGEST_SIZE)
        self.keep = as_count("keep", keep, largest=_LARGEST_KEEP if mixing is None else LARGEST_STRICT_KEEP)
        self.most_distinct = self.keep
        self.universe, self.universe_size = universe, self.size
        self.mixing = None if mixing is None else as_count("mixing", mixing, largest=_LARGEST_MIXING)
        self.noise: ClampedGeometric | FixedBitsNoise = (
            ClampedGeometric(self.epsilon, bound=bound) if mixing is None else FixedBitsNoise(self.epsilon, bound)
        )
        self.bound = self.noise.bound

    @property
    def largest_value(self) -> int:
        """The bound."""
        return self.bound

    @property
    def reading(self) -> str:
        """From which value on all keys are real."""
        return (
            f"A sparse release may list keys that nobody has. From value {self.real_from:,} on all listed keys are "
            "real (95 % sure); below, the estimate is 0."
        )

    # ---- the contract ----

    def facts(self) -> dict[str, Any]:
        """The law's name and parameters as plain data; the size as text, as it is longer than JSON's numbers."""
        return {**super().facts(), "size": str(self.size)}

    def certify(self) -> Certificate:
        """Verify the noise that is drawn, and in strict time the distance of the draw."""
        noise: Any = self.noise
        if self.mixing is None:
            ratio = noise.ratio * (1 << _PLACES)
            return certify_geometric_noise(ratio.numerator, bound=self.bound, epsilon=self.epsilon)
        certify_hidden_difference(
            size=self.size,
            keep=self.keep,
            bound=self.bound,
            mixing=self.mixing,
            scale_bits=self.scale_bits,
            label_bits=self.label_bits,
            epsilon=self.epsilon,
        )
        return certify_clamped_noise(noise.masses, uniform=0, bound=self.bound, epsilon=self.epsilon)

    @cached_property
    def _distance_bits(self) -> int:
        """In strict time: a whole number b with 2^-b at most half of the distance allowed; see the verifier."""
        least = (4 * self.size * (self.bound + 1)).bit_length() * self.keep
        return least + (self.mixing or 0) + math.ceil(3 / min(self.epsilon, Fraction(1))).bit_length() + 1

    @cached_property
    def scale_bits(self) -> int:
        """In strict time: log2 s, how finely binomial probabilities are computed."""
        return self._distance_bits + (self.bound * self.size * (self.keep + 2)).bit_length()

    @cached_property
    def label_bits(self) -> int:
        """In strict time: how many coins a label takes."""
        return self._distance_bits + ((self.keep + 1) * self.size).bit_length()

    @cached_property
    def _stray(self) -> Fraction:
        """An upper bound of the probability that something else than this law is released: 2^-g, and the distance.

        The distance is at most 2^-g q / 3, and q at most 1/8; see `certify_hidden_difference`.
        """
        return Fraction(0) if self.mixing is None else Fraction(25, 24 << self.mixing)

    def invert(self, values: NDArray[np.int64], beta: Fraction) -> FrequencyEstimates:
        """Estimates and bounds for each key by itself, whether it is released or not; see `invert_together`.

        A key that is picked because it was released although it is rare was released by chance, and more of those miss.
        """
        return self._bound(values, beta, keys=1)

    def invert_together(self, values: NDArray[np.int64], beta: Fraction, *, among: int) -> FrequencyEstimates:
        """Estimates and bounds for all released keys at once, if the data has at most `keep` distinct keys.

        A sparse release may hold keys that are not in the data. With probability 1 - beta two things hold: no such key
        reaches the value s (`significant_value` at beta / 2, all of them at once), and the noise of each of n keys,
        chosen without looking at the release, is at most a either way (`noise_error` at beta / (2 n); n is `keep`, or 1
        for `invert`). Then for all of these keys and all that are not in the data

            value - a <= frequency if value >= s,  0 <= frequency always,  frequency <= value + a.

        Frequencies count up to the bound of the release. The estimate is the value from `real_from` on, and 0 below:
        then the key may be one that is not in the data.
        """
        return self._bound(values, beta, keys=self.keep)

    def _bound(self, values: NDArray[np.int64], beta: Fraction, *, keys: int) -> FrequencyEstimates:
        error = self.noise_error(beta / (2 * keys))
        real = values >= self.significant_value(beta / 2)
        lower = np.where(real, np.maximum(values - error, 0), 0)
        upper = np.minimum(values, max(0, self.bound - error)) + min(error, self.bound)
        return FrequencyEstimates(np.where(values >= self.real_from, values, 0), lower, upper)

    def key_errors(self, frequencies: NDArray[np.float64]) -> KeyErrors:
        """By P[|Z| > a] = 2 r^(a+1) / (1 + r)."""
        ratio = math.exp(-float(self.epsilon))
        last = math.ceil(30 / float(self.epsilon))
        beyond = 2 * ratio ** np.arange(1, last + 2) / (1 + ratio)
        return errors_of_noise(np.asarray(beyond, dtype=np.float64), frequencies)

    def counter_error(self, beta: Fraction, counters: int) -> tuple[int, int, int]:
        """`simultaneous_error` each."""
        error = self.simultaneous_error(beta)
        return error, error, error

    def row(self, true_frequency: int) -> dict[int | None, Fraction]:
        """Refused: a key's value depends on the other keys."""
        raise InvalidParameter(_NO_ROWS)

    def draw(self, frequencies: NDArray[np.int64], bits: BitSource) -> NDArray[np.int64]:
        """Refused: keys are drawn together, by `dptally.mechanisms.sparse_histogram`."""
        raise InvalidParameter(_NO_ROWS)

    @cached_property
    def real_from(self) -> int:
        """`significant_value` at 5 %: all released keys from this value on are real, with probability 95 %."""
        return self.significant_value(_USUAL_BETA)

    def reporting_probability(self, true_frequency: int) -> Fraction:
        """A lower bound of the probability that a key of this frequency is released; see `missing_probability`."""
        return 1 - self.missing_probability(true_frequency)

    def first_frequency(self, probability: Fraction) -> int | None:
        """The smallest frequency with at least this `reporting_probability`; None if there is none up to the bound."""
        if probability <= 0:
            return 0
        found = self.reported_from(1 - probability) if probability < 1 else self.bound + 1
        return found if found <= self.bound else None

    # ---- what to expect ----

    def chance_of_reaching(self, value: int) -> Fraction:
        """An upper bound, within 2^-120, of P[a key that nobody has gets this value or more], for all of them at once.

        It is 1 - (1 - G(value))^m for m keys that nobody has, G the upper tail of the noise; m is at most |X|.
        """
        return min(Fraction(1), self._reached(value) + self._stray)

    def _reached(self, value: int) -> Fraction:
        if value <= 0:
            return Fraction(1)
        if value > self.bound:
            return Fraction(0)
        places = _PLACES + self.size.bit_length()
        one = 1 << places
        _, tail = self.noise.tail_bounds(value, places)
        none, _ = power_bounds(Fraction(one - min(tail, one), one), self.size, _PLACES)
        return 1 - Fraction(none, 1 << _PLACES)

    def significant_value(self, beta: object) -> int:
        """The smallest value that, with probability at least 1 - beta, no key that nobody has reaches.

        Whoever drops all rows below it keeps real keys only, but for beta. The value does not depend on the data, so
        that dropping costs nothing. It is bound + 1 if no value is large enough.
        """
        limit = as_chance("beta", beta)
        return first_from(lambda value: self.chance_of_reaching(value) <= limit, 0, self.bound + 1)

    def noise_error(self, beta: object) -> int:
        """The smallest a with P[|noisy count - count| > a] <= beta for one key: P[|Z| > a] = 2 r^(a+1) / (1 + r)."""
        limit = as_chance("beta", beta)
        return first_from(lambda error: self._noise_beyond(error) <= limit, 0, self.bound + 1)

    def missing_probability(self, true_frequency: int) -> Fraction:
        """An upper bound of the probability that a key of this frequency is not released.

        For at most `keep` distinct keys in the data. A key is left out only if keep + 1 noisy counts (its own among
        them, perhaps) are at least its own, so that a key nobody has reaches it: with R(v) = `chance_of_reaching` the
        bound is the expectation of R(noisy count). R decreases, so it is summed over blocks at the value of R at their
        lower ends; blocks are single values unless epsilon is below about 0.05.
        """
        ends, chances = self._blocks
        # P[block] R(lower end), summed by parts: then every factor has its bound in the right direction. All numbers
        # are multiples of 2^-128, so whole numbers do.
        one, total = 1 << _PLACES, 0
        for end, here, following in zip(ends[1:], chances, chances[1:], strict=False):
            reached = self._at_least(end - true_frequency) if end <= self.bound else 0
            total += (one - reached) * max(0, here - following)
        return min(Fraction(1), Fraction(total + (chances[-1] << _PLACES), 1 << 2 * _PLACES) + self._stray)

    @cached_property
    def _blocks(self) -> tuple[list[int], list[int]]:
        """Lower ends of blocks of values, from 0, and a bound of `chance_of_reaching` at each, in units of 2^-128."""
        tiny = Fraction(1, 1 << 64)
        lowest = first_from(lambda value: self._reached(value) < 1 - tiny, 0, self.bound + 1)
        highest = first_from(lambda value: self._reached(value) < tiny, 0, self.bound + 1)
        step = -(-(highest - lowest + 1) // _BLOCKS)
        ends = [0, *range(lowest, highest + step, step)]
        return ends, [int(self._reached(end) * (1 << _PLACES)) for end in ends]

    def reported_from(self, beta: object) -> int:
        """The smallest frequency whose key is released with probability at least 1 - beta; see above for when."""
        limit = as_chance("beta", beta)
        return first_from(lambda frequency: self.missing_probability(frequency) <= limit, 0, self.bound + 1)

    def key_error(self, beta: object, true_frequency: int) -> int | None:
        """The error of one key of this frequency, with probability at least 1 - beta; 0 is what is not released."""
        left = as_chance("beta", beta) - self.missing_probability(true_frequency)
        return self.noise_error(left) if left > 0 else None

    def simultaneous_error(self, beta: object) -> int:
        """An error that, with probability at least 1 - beta, no key of the universe exceeds.

        For at most `keep` distinct keys in the data, with counts up to `bound`. If no key that nobody has exceeds e,
        and no noise on a key in the data exceeds a either way, then released keys are within max(a, e), and a key left
        out has c - a <= noisy count <= e, so that c <= a + e. Both hold but for [1 - (1 - G(e + 1))^|X|] + [1 - (1 - 2
        G(a + 1))^keep]. The best of 15 ways to share beta between the two is taken. [BV19, Thm. 6.2] has a = e.
        """
        limit = as_chance("beta", beta)
        best = self.bound
        for part in range(1, _SPLITS):
            share = limit * part / _SPLITS
            others = self.significant_value(share) - 1
            rest = limit - share
            own = first_from(lambda error, rest=rest: self._any_noise_beyond(error) <= rest, 0, self.bound + 1)  # type: ignore[misc]
            best = min(best, others + own)
        return best

    def _noise_beyond(self, error: int) -> Fraction:
        """An upper bound of P[|Z| > error]."""
        return Fraction(2 * self.noise.tail_bounds(error + 1, _PLACES)[1], 1 << _PLACES) + self._stray

    def _any_noise_beyond(self, error: int) -> Fraction:
        """An upper bound of the probability that the noise of one of `keep` keys is larger than this."""
        within = max(Fraction(0), 1 - self._noise_beyond(error) + self._stray)
        return 1 - Fraction(power_bounds(within, self.keep, _PLACES)[0], 1 << _PLACES) + self._stray

    def _at_least(self, noise: int) -> int:
        """A lower bound of P[Z >= noise], in units of 2^-128."""
        found = self._tails.get(noise)
        if found is None:
            if noise >= 0:
                found = self.noise.tail_bounds(noise, _PLACES)[0]
            else:
                found = (1 << _PLACES) - self.noise.tail_bounds(1 - noise, _PLACES)[1]
            if len(self._tails) < _TAILS_KEPT:
                self._tails[noise] = found
        return found

    @cached_property
    def _tails(self) -> dict[int, int]:
        """What `_at_least` has found already: rows of different frequencies need the same numbers."""
        return {}


def least_possible_error(epsilon: object, size: int, keep: int, beta: object) -> float:
    """No pure release of at most `keep` keys has a smaller error for every key with probability 1 - beta, beta <= 1/2.

    [BV19, Thm. 7.2] with delta = 0 and data enough: (1/2) (ln(size / (16 beta keep)) / (2 epsilon) - 1). Its argument
    puts floor(2a) rows of one key into a data set, as many steps for adding as for replacing.
    """
    logarithm = math.log(size) - math.log(16 * float(as_chance("beta", beta)) * keep)
    return max(0.0, (logarithm / (2 * float(as_epsilon(epsilon))) - 1) / 2)
