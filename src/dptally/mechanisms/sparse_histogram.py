"""Pure differential privacy over a universe of keys far too large to go through."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from dptally.errors import InvalidParameter
from dptally.exact import as_count, as_epsilon, as_fraction
from dptally.exact.powers import power_bounds
from dptally.observation_models.clamped_geometric import ClampedGeometric
from dptally.privacy import Guarantee
from dptally.randomness.geometric import LARGEST
from dptally.randomness.integers import draw_distinct, whole_numbers
from dptally.randomness.order_statistics import top_order_statistics

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray

    from dptally.mechanisms.base import Counted
    from dptally.randomness import BitSource
    from dptally.universes import Universe

__all__ = [
    "NumberedMechanism",
    "PrintedErrors",
    "SparseDrawn",
    "SparseHistogram",
    "draw_release",
    "least_possible_error",
    "printed_errors",
]

_LARGEST_KEEP = 1 << 30
_PLACES = 128
_SPLITS = 16  # ways to share beta between two events, of which the best is taken
_BLOCKS = 1024


class NumberedMechanism(Protocol):
    """A pure mechanism that draws from counts of numbered keys."""

    @property
    def name(self) -> str:
        """As it is asked for."""

    epsilon: Fraction
    universe: Universe
    max_keys_per_unit: int

    def draw_bins(
        self, numbers: NDArray[Any], counts: NDArray[np.int64], bits: BitSource
    ) -> tuple[NDArray[Any], NDArray[np.int64]]:
        """From numbers of keys, increasing, and their counts to those that are released, increasing."""


@dataclass(frozen=True, repr=False)
class SparseDrawn:
    """What the mechanism lets out: public from here on.

    Attributes:
        rows: the key column and an int64 column "value", sorted by key; at most `keep` rows.
        guarantee: what is promised, with delta = 0.
        mechanism: what drew it, for thresholds and errors.
    """

    rows: pa.Table
    guarantee: Guarantee
    mechanism: NumberedMechanism


class SparseHistogram:
    """Add noise to the count of every key of a universe, and release the heaviest.

    The law. Every key x of the universe X, whether anybody has it or not, gets a noisy count clamp(c_x + Z_x) in 0 ..
    bound, the Z_x independent and two-sided geometric (`ClampedGeometric`). Released are the keys whose noisy count is
    above the (keep + 1)-th largest one (above 0 if there are not so many keys), with it: at most `keep`. Ties with the
    (keep + 1)-th largest are left out, all of them, whoever has them. This is KeepHeavy [BV19, Alg. 6.1] with a public
    cap in place of the number of rows, which is private when rows may be added or removed.

    Keys that nobody has may be released. It cannot be otherwise with delta = 0: a key that appears only if somebody has
    it gives that somebody away. `significant_value` says from which value on a released key is real, all of them at
    once, with a stated probability; cutting there is free.

    Guarantee:
        epsilon-differential privacy (delta = 0) for adding or removing one unit that raises the counts of at most
        `max_keys_per_unit` = l keys by one each. Each noisy count changes its probabilities by a factor of at most
        e^(epsilon / l), at most l of them are touched, and they are independent: the whole noisy histogram is epsilon-
        differentially private. What is released is a function of it alone. Nothing else is used: the cap, the bound and
        the universe are public, and rows outside the universe are left out without a word, since a refusal would tell
        that they exist. For l keys nothing better than epsilon / l is possible with independent noise of this kind: the
        outcome that all l counts end up at `bound` attains the product of the factors.

        The noisy histogram is never made. Let A be the keys that somebody has. The noisy counts of all other keys are
        independent and alike, so their keep + 1 largest are order statistics of |X| - |A| draws, and the keys that have
        them are, independently of the values, a uniformly random *sequence* of distinct keys outside A (KH' [BV19,
        Alg. 6.4, Prop. 6.5]). The keep + 1 largest of all noisy counts are among those of A and these. So the released
        table has exactly the law above, whatever the size of X; |X| >= keep + 1 is not needed, for the order statistics
        are then simply all there are. Labels are drawn only for those keys that are released.

    Error:
        See `key_error`, `reported_from` and `simultaneous_error`, all for at most `keep` distinct keys in the data;
        [BV19, Thm. 6.11] is beside them as `printed_errors`, and [BV19, Thm. 7.2], which says that no release of
        at most `keep` keys does better than about half of that, as `least_possible_error`.

    Cost:
        Time and memory linear in the number of distinct keys and `keep` (and the time to sort), and in log |X|. The
        time depends on the number of distinct keys and on the noise; `strict_sparse` has a version of fixed time.

    References:
        [BV19, section 6].

    Args:
        epsilon: for the unit.
        universe: all keys there may be.
        keep: how many keys are released at most. Public: choose it without looking.
        max_keys_per_unit: bound on what one unit touches.
        bound: largest value released. Public.
    """

    name = "sparse"

    def __init__(
        self,
        epsilon: object,
        *,
        universe: Universe,
        keep: int,
        max_keys_per_unit: int = 1,
        bound: int = LARGEST,
    ) -> None:
        self.epsilon = as_epsilon(epsilon)
        self.universe = universe
        self.keep = as_count("keep", keep, largest=_LARGEST_KEEP)
        self.max_keys_per_unit = as_count("max_keys_per_unit", max_keys_per_unit, largest=1 << 20)
        self.law = ClampedGeometric(self.epsilon / self.max_keys_per_unit, bound=bound)
        self.law.certify(self.epsilon / self.max_keys_per_unit)

    def __repr__(self) -> str:
        return f"SparseHistogram(epsilon={self.epsilon}, universe={self.universe.name!r}, keep={self.keep})"

    # ---- drawing ----

    def draw(self, frequencies: Counted, bits: BitSource) -> SparseDrawn:
        """Draw once; see `draw_release`."""
        return draw_release(self, frequencies, bits)

    def draw_bins(
        self, numbers: NDArray[Any], counts: NDArray[np.int64], bits: BitSource
    ) -> tuple[NDArray[Any], NDArray[np.int64]]:
        """Draw from counts of numbered keys.

        Postcondition: for uniform words the result follows the law of the class exactly.

        Args:
            numbers: of the keys somebody has; distinct, increasing, in the type of `whole_numbers`.
            counts: from 0 to 2^62.
            bits: the source of randomness.

        Returns:
            Numbers of the released keys, increasing, and their noisy counts.
        """
        noisy = self.law.draw(counts, bits)
        others = top_order_statistics(self.law, self.universe.size - len(numbers), self.keep + 1, bits)
        together = np.concatenate([noisy, others])
        cut = 0
        if len(together) > self.keep:
            place = len(together) - self.keep - 1
            cut = int(np.partition(together, place)[place])
        released = noisy > cut
        others = others[others > cut]
        labels = draw_distinct(self.universe.size, numbers, len(others), bits)
        kept = np.concatenate([numbers[released], labels])
        order = np.argsort(kept, kind="stable")
        return kept[order], np.concatenate([noisy[released], others])[order]

    # ---- what to expect ----

    def chance_of_reaching(self, value: int) -> Fraction:
        """An upper bound, within 2^-120, of P[a key that nobody has gets this value or more], for all of them at once.

        It is 1 - (1 - G(value))^m for m keys that nobody has, G the upper tail of the noise; m is at most |X|.
        """
        if value <= 0:
            return Fraction(1)
        if value > self.law.bound:
            return Fraction(0)
        places = _PLACES + self.universe.size.bit_length()
        one = 1 << places
        _, tail = self.law.tail_bounds(value, places)
        none, _ = power_bounds(Fraction(one - min(tail, one), one), self.universe.size, _PLACES)
        return 1 - Fraction(none, 1 << _PLACES)

    def significant_value(self, beta: object) -> int:
        """The smallest value that, with probability at least 1 - beta, no key that nobody has reaches.

        Whoever drops all rows below it keeps real keys only, but for beta. The value does not depend on the data, so
        that dropping costs nothing. It is bound + 1 if no value is large enough.
        """
        limit = _beta(beta)
        return _first(lambda value: self.chance_of_reaching(value) <= limit, self.law.bound + 1)

    def noise_error(self, beta: object) -> int:
        """The smallest a with P[|noisy count - count| > a] <= beta for one key: P[|Z| > a] = 2 r^(a+1) / (1 + r)."""
        limit = _beta(beta)
        return _first(lambda error: self._noise_beyond(error) <= limit, self.law.bound + 1)

    def missing_probability(self, true_frequency: int) -> Fraction:
        """An upper bound of the probability that a key of this frequency is not released.

        For at most `keep` distinct keys in the data. A key is left out only if keep + 1 noisy counts (its own among
        them, perhaps) are at least its own, so that a key nobody has reaches it: with R(v) = `chance_of_reaching` the
        bound is the expectation of R(noisy count). R decreases, so it is summed over blocks at the value of R at their
        lower ends; blocks are single values unless epsilon is below about 0.05.
        """
        ends, chances = self._blocks
        # P[block] R(lower end), summed by parts: then every factor has its bound in the right direction.
        total = chances[-1]
        for end, here, following in zip(ends[1:], chances, chances[1:], strict=False):
            reached = self._at_least(end - true_frequency) if end <= self.law.bound else Fraction(0)
            total += (1 - reached) * max(Fraction(0), here - following)
        return min(Fraction(1), total)

    @cached_property
    def _blocks(self) -> tuple[list[int], list[Fraction]]:
        """Lower ends of blocks of values, from 0, and a bound of `chance_of_reaching` at each."""
        tiny = Fraction(1, 1 << 64)
        lowest = _first(lambda value: self.chance_of_reaching(value) < 1 - tiny, self.law.bound + 1)
        highest = _first(lambda value: self.chance_of_reaching(value) < tiny, self.law.bound + 1)
        step = -(-(highest - lowest + 1) // _BLOCKS)
        ends = [0, *range(lowest, highest + step, step)]
        return ends, [self.chance_of_reaching(end) for end in ends]

    def reported_from(self, beta: object) -> int:
        """The smallest frequency whose key is released with probability at least 1 - beta; see above for when."""
        limit = _beta(beta)
        return _first(lambda frequency: self.missing_probability(frequency) <= limit, self.law.bound + 1)

    def key_error(self, beta: object, true_frequency: int) -> int | None:
        """The error of one key of this frequency, with probability at least 1 - beta; 0 is what is not released.

        Returns:
            The smallest a with P[|Z| > a] + P[not released] <= beta, or None if the second alone is too large.
        """
        left = _beta(beta) - self.missing_probability(true_frequency)
        return self.noise_error(left) if left > 0 else None

    def simultaneous_error(self, beta: object) -> int:
        """An error that, with probability at least 1 - beta, no key of the universe exceeds.

        For at most `keep` distinct keys in the data, with counts up to `bound`. If no key that nobody has exceeds e,
        and no noise on a key in the data exceeds a either way, then released keys are within max(a, e), and a key left
        out has c - a <= noisy count <= e, so that c <= a + e. Both hold but for [1 - (1 - G(e + 1))^|X|] + [1 - (1 - 2
        G(a + 1))^keep]. The best of 15 ways to share beta between the two is taken. [BV19, Thm. 6.2] has a = e.
        """
        limit = _beta(beta)
        best = self.law.bound
        for part in range(1, _SPLITS):
            share = limit * part / _SPLITS
            others = self.significant_value(share) - 1
            rest = limit - share
            own = _first(lambda error, rest=rest: self._any_noise_beyond(error) <= rest, self.law.bound + 1)  # type: ignore[misc]
            best = min(best, others + own)
        return best

    def _noise_beyond(self, error: int) -> Fraction:
        """An upper bound of P[|Z| > error]."""
        return Fraction(2 * self.law.tail_bounds(error + 1, _PLACES)[1], 1 << _PLACES)

    def _any_noise_beyond(self, error: int) -> Fraction:
        """An upper bound of the probability that the noise of one of `keep` keys is larger than this."""
        within = max(Fraction(0), 1 - self._noise_beyond(error))
        return 1 - Fraction(power_bounds(within, self.keep, _PLACES)[0], 1 << _PLACES)

    def _at_least(self, noise: int) -> Fraction:
        """A lower bound of P[Z >= noise]."""
        one = 1 << _PLACES
        if noise >= 0:
            return Fraction(self.law.tail_bounds(noise, _PLACES)[0], one)
        return 1 - Fraction(self.law.tail_bounds(1 - noise, _PLACES)[1], one)


def draw_release(mechanism: NumberedMechanism, frequencies: Counted, bits: BitSource) -> SparseDrawn:
    """Number the keys, draw once, and name what is released.

    Rows leave in the order of their keys. All keys are written from their numbers, so that those somebody has look like
    those nobody has. Keys outside the universe are left out.

    Raises:
        InvalidParameter: if the frequencies are not what the mechanism protects.
        InvalidSource: if the type of the key column cannot hold keys of the universe.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    if frequencies.max_keys_per_unit > mechanism.max_keys_per_unit:
        raise InvalidParameter(
            f"the mechanism protects units with at most {mechanism.max_keys_per_unit} keys, "
            f"but contributions were bounded at {frequencies.max_keys_per_unit}."
        )
    if frequencies.scheme is not None:
        raise InvalidParameter(f"the mechanism {mechanism.name!r} does not take sampled keys.")
    if len(frequencies.key) != 1:
        raise InvalidParameter(
            f"the mechanism {mechanism.name!r} takes one key column, got {len(frequencies.key)}: a universe numbers "
            "single keys."
        )
    universe, column = mechanism.universe, frequencies.key[0]
    numbers, values = mechanism.draw_bins(*_number_keys(universe, frequencies), bits)
    rows = pa.table({column: universe.keys(numbers), "value": pa.array(values, type=pa.int64())})
    rows = rows.take(pc.sort_indices(rows, sort_keys=[(column, "ascending")])).combine_chunks()
    guarantee = Guarantee(
        epsilon=mechanism.epsilon,
        delta=Fraction(0),
        unit=frequencies.unit,
        max_keys_per_unit=mechanism.max_keys_per_unit,
        mechanism=mechanism.name,
        private=bits.private,
    )
    return SparseDrawn(rows, guarantee, mechanism)


def _number_keys(universe: Universe, frequencies: Counted) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Numbers of the keys inside the universe, increasing, and their counts."""
    numbers = [whole_numbers([], universe.size)]
    counts = [np.empty(0, dtype=np.int64)]
    for keys, found in frequencies.batches():
        there, inside = universe.indices(keys.column(0))
        numbers.append(there[inside])
        counts.append(found[inside])
    together = np.concatenate(numbers)
    order = np.argsort(together, kind="stable")
    return together[order], np.concatenate(counts)[order]


def _beta(beta: object) -> Fraction:
    number = as_fraction("beta", beta)
    if not 0 < number < 1:
        raise InvalidParameter(f"beta must be above 0 and below 1, got {beta}.")
    return number


def _first(holds: Callable[[int], bool], last: int) -> int:
    """The smallest whole number from 0 to `last` for which something holds that then goes on holding; else `last`."""
    reach = 1
    while reach < last and not holds(reach):
        reach *= 2
    low, high = 0, min(reach, last)
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle + 1, high)
    return low


@dataclass(frozen=True)
class PrintedErrors:
    """Errors of PureSparseHistogram with geometric noise as [BV19, Thm. 6.11] states them, for replacing one row.

    Attributes:
        key_error: of one key, with probability 1 - beta, if its count is above `from_count`.
        from_count: see there.
        simultaneous_error: of all keys at once.
    """

    key_error: int
    from_count: int
    simultaneous_error: int


def printed_errors(epsilon: object, size: int, beta: object) -> PrintedErrors:
    """The bounds of [BV19, Thm. 6.11] for a universe of this size, with beta_0 = beta.

    >>> printed_errors(1, 2**64, "0.05")
    PrintedErrors(key_error=20, from_count=440, simultaneous_error=434)
    """
    scale = 9 / (2 * float(as_epsilon(epsilon)))
    rest = -math.log(float(_beta(beta)))
    return PrintedErrors(
        math.ceil(scale * (math.log(4) + rest)),
        2 * math.ceil(scale * (math.log(4) + math.log(size) + rest)),
        2 * math.ceil(scale * (math.log(2) + math.log(size) + rest)),
    )


def least_possible_error(epsilon: object, size: int, keep: int, beta: object) -> float:
    """No pure release of at most `keep` keys has a smaller error for every key with probability 1 - beta, beta <= 1/2.

    [BV19, Thm. 7.2] with delta = 0 and data enough: (1/2) (ln(size / (16 beta keep)) / (2 epsilon) - 1). Its argument
    puts floor(2a) rows of one key into a data set, as many steps for adding as for replacing.
    """
    logarithm = math.log(size) - math.log(16 * float(_beta(beta)) * keep)
    return max(0.0, (logarithm / (2 * float(as_epsilon(epsilon))) - 1) / 2)
