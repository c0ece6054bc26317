"""Count plus noise, clamped to 0 .. bound and mixed with uniform values: what the laws of counting queries share."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from fractions import Fraction
from functools import cached_property
from itertools import accumulate
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from dptally import _core
from dptally.errors import InvalidParameter
from dptally.exact import as_count, as_epsilon
from dptally.exact.powers import power_bounds
from dptally.exact.searching import first_where
from dptally.laws.base import (
    LARGEST_FREQUENCY,
    CountFunction,
    Law,
    Parameters,
    Reporting,
    as_chance,
    as_frequencies,
    as_frequency,
    as_given,
)
from dptally.laws.estimators import Identity
from dptally.laws.inversion import FrequencyEstimates
from dptally.laws.key_errors import KeyErrors, errors_of_noise
from dptally.laws.sum_bounds import bound_clamped_sum, unclamped
from dptally.randomness import BitSource
from dptally.verifiers.pure import certify_clamped_noise, certify_dyadic_noise, certify_prefixes, certify_pure_copies
from dptally.verifiers.tables import Certificate

Neighbours = Literal["add or remove one unit", "replace one unit"]
ADD_OR_REMOVE: Neighbours = "add or remove one unit"
REPLACE: Neighbours = "replace one unit"
LARGEST_ROW = 1 << 20  # values in a row that is written out
_BITS = 128
_ENTRY = _BITS // 8
_BATCH = 1 << 14  # draws per call into the native core: 256 KB of random words, which stay in cache
_POWER_BITS = 256


class MixedNoise(Reporting):
    """A count c in 0 .. B becomes, with probability gamma, a uniform value, else c + Z clamped to 0 .. B.

    Z is symmetric on -R .. R. All probabilities are integers over one denominator N: M_z for the noise and g for each
    of the B + 1 uniform values, N = sum of M_z + (B + 1) g, gamma = (B + 1) g / N. Every count has a value.
    """

    bound: int  # B
    complete = True

    @cached_property
    def _integers(self) -> tuple[tuple[int, ...], int]:
        raise NotImplementedError

    @property
    def half_masses(self) -> tuple[int, ...]:
        """M_0, M_1, ..., M_R."""
        return self._integers[0]

    @property
    def uniform_mass(self) -> int:
        """The mass g that every value has besides."""
        return self._integers[1]

    @property
    def reach(self) -> int:
        """R: the largest noise."""
        return len(self.half_masses) - 1

    @cached_property
    def whole(self) -> int:
        """N: the common denominator."""
        return self._cumulative[-1] + (self.bound + 1) * self.uniform_mass

    @property
    def mixing(self) -> Fraction:
        """The probability gamma of a uniform value."""
        return Fraction((self.bound + 1) * self.uniform_mass, self.whole)

    @cached_property
    def _masses(self) -> list[int]:
        return [*reversed(self.half_masses), *self.half_masses[1:]]

    @cached_property
    def _cumulative(self) -> list[int]:
        """Sums of the masses: noise R - d has the numbers from [d - 1] to below [d]; uniform values have the rest."""
        return list(accumulate(self._masses))

    @cached_property
    def _tails(self) -> list[int]:
        """Mass of noise of at least z, for z = 0 .. R + 1."""
        return [*reversed(list(accumulate(reversed(self.half_masses), initial=0)))]

    def _at_least(self, noise: int) -> int:
        return (
            self._tails[min(noise, self.reach + 1)] if noise >= 0 else self._cumulative[-1] - self._at_least(1 - noise)
        )

    def probability(self, value: int, true_frequency: int) -> Fraction:
        """The exact probability of one value."""
        count, value = self._count(true_frequency), int(value)
        if not 0 <= value <= self.bound:
            return Fraction(0)
        return Fraction(self._noise_mass(value, count) + self.uniform_mass, self.whole)

    def _noise_mass(self, value: int, count: int) -> int:
        """Mass of the noise that leads to a value in 0 .. B."""
        low = -self.reach - 1 if value == 0 else value - count  # the clamp gathers all noise beyond
        above = self.reach + 1 if value == self.bound else value - count + 1
        return self._at_least(low) - self._at_least(above)

    def first_frequency(self, probability: Fraction) -> int:
        """The smallest frequency that is reported with at least this probability: 0, all are reported."""
        return 0

    def reporting_probability(self, true_frequency: int) -> Fraction:
        """1: every key of the public set has a value, whatever its frequency."""
        self._count(true_frequency)
        return Fraction(1)

    def interval_width(self, frequency: int | None, beta: Fraction) -> int:
        """The same for all counts."""
        return 2 * self.error_quantile(beta)

    # ---- errors ----

    def error_probability(self, error: int) -> Fraction:
        """The largest probability, over all counts, that a value is more than `error` away from the count. Exact.

        On the left of count c this happens with mass P[Z > error] + (c - error) g if c > error and never otherwise; the
        same on the right with B - c. The sum over both sides does not depend on c while both are possible, and one side
        alone is most likely at an end, where it has the most uniform values.
        """
        error = max(-1, int(error))
        if error < 0:
            return Fraction(1)
        if error >= self.bound:
            return Fraction(0)
        noise, uniform = self._at_least(error + 1), self.uniform_mass
        worst = noise + (self.bound - error) * uniform
        if self.bound >= 2 * error + 2:
            worst = max(worst, 2 * noise + (self.bound - 2 * error) * uniform)
        return Fraction(worst, self.whole)

    def error_quantile(self, beta: object) -> int:
        """The smallest a such that a value is within a of its count with probability at least 1 - beta, exactly.

        Whatever the count: (a, beta)-accuracy of [BV19, Def. 4.2] with the smallest a.
        """
        allowed = as_chance("beta", beta)
        return self._smallest_error(lambda chance: chance <= allowed)

    def _smallest_error(self, suffices: Callable[[Fraction], bool]) -> int:
        return first_where(lambda error: suffices(self.error_probability(error)), 0, self.bound)

    def _count(self, true_frequency: int) -> int:
        return min(as_frequency(true_frequency), self.bound)


class ClampedNoise(MixedNoise, Law):
    """Laws of this kind for the keys of a public list, drawn independently from one table.

    How the integers are chosen is what the laws differ in; see `dptally.laws.bounded_geometric`. 0 is a value like any
    other: nothing is left unreported. This differs from laws for private keys, where 0 stands for "not reported"; it is
    why the keys must be public.

    Counts above B are counted as B, in silence: to refuse them would tell that there is one. Clamping moves
    neighbouring counts to neighbouring or equal ones, so it takes nothing from the guarantee.

    Guarantee:
        Pure differential privacy, delta = 0. A unit that counts once for one key changes one count by one if it is
        added or removed (the rows are verified at epsilon), and two counts if it is replaced by another one (they are
        verified at epsilon / 2, and the number of units is public). Certified in integers before the first draw.
    """

    name = "clamped_noise"
    parameters: ClassVar[Parameters] = {"epsilon": str, "bound": as_given, "neighbours": as_given}
    delta = Fraction(0)
    threshold = 0
    bounds_sums = True
    weighing = Identity

    def __init__(self, epsilon: object, bound: object, neighbours: Neighbours) -> None:
        self.epsilon = as_epsilon(epsilon)
        self.bound = as_count("bound", bound, largest=LARGEST_FREQUENCY)
        if neighbours not in (ADD_OR_REMOVE, REPLACE):
            raise InvalidParameter(
                f"neighbours must be {ADD_OR_REMOVE!r} or {REPLACE!r}, got {str(neighbours)[:40]!r}."
            )
        self.neighbours = neighbours

    @property
    def keys_changed(self) -> int:
        """How many counts differ by one between neighbours: 1, or 2 where a unit is replaced."""
        return 1 if self.neighbours == ADD_OR_REMOVE else 2

    @property
    def key_epsilon(self) -> Fraction:
        """What one key's law keeps: epsilon divided by the number of counts that change."""
        return self.epsilon / self.keys_changed

    @property
    def largest_value(self) -> int:
        """B."""
        return self.bound

    reading = "Every key of the public list has a value, also those that nobody has; noise is part of it."

    # ---- what is drawn from ----

    @property
    def _dyadic(self) -> bool:
        """Whether the table alone decides which noise, or that the value is uniform."""
        return self.whole == 1 << _BITS and self.uniform_mass > 0

    @cached_property
    def table(self) -> bytes:
        """Thresholds that are drawn from: the cumulative masses in units of 2^-128, rounded down, those below 1.

        Little-endian 128-bit integers. Rounding happens only where N does not divide 2^128; then a number that starts
        with an entry's bits is decided by more bits, so what is drawn is the exact law in any case.
        """
        whole = self.whole
        below_one = [reached for reached in self._cumulative if reached < whole]
        return b"".join(((reached << _BITS) // whole).to_bytes(_ENTRY, "little") for reached in below_one)

    # ---- the contract ----

    def cumulative(self, value: int, true_frequency: int) -> Fraction:
        """The exact probability of a value of at most `value`; for frequency 0 the function F of [BV19, Def. 4.3]."""
        return Fraction(self._reached(int(value), self._count(true_frequency)), self.whole)

    def _reached(self, value: int, count: int) -> int:
        """Mass of values of at most `value`."""
        if value < 0:
            return 0
        if value >= self.bound:
            return self.whole
        return self._cumulative[-1] - self._at_least(value - count + 1) + (value + 1) * self.uniform_mass

    def value_at(self, number: int, true_frequency: int) -> int:
        """The smallest value v with P[value <= v] >= number / N, for a number from 1 to N (`whole`).

        The law as a function M(c, u) of count and randomness, never falling in u [BV19, Def. 4.1, Thm. 4.7 iv]: for a
        uniform number this is the law, in another order of the random numbers than `draw` has.
        """
        count = self._count(true_frequency)
        if not 1 <= number <= self.whole:
            raise InvalidParameter("number must be a whole number from 1 to the denominator of the law.")
        return first_where(lambda value: self._reached(value, count) >= number, 0, self.bound)

    def noise_masses(self, true_frequency: int) -> dict[int, int]:
        """What the noise alone adds to the row: mass, over `whole`, of the values it leads to."""
        count = self._count(true_frequency)
        values = range(max(0, count - self.reach), min(self.bound, count + self.reach) + 1)
        return {value: self._noise_mass(value, count) for value in values}

    def row(self, true_frequency: int) -> dict[int | None, Fraction]:
        """The exact law of the value for a key of this frequency; None, "not reported", has probability 0."""
        self.check_row()
        law: dict[int | None, Fraction] = {None: Fraction(0)}
        law.update((value, self.probability(value, true_frequency)) for value in range(self.bound + 1))
        return law

    def check_row(self) -> None:
        """Refuse to go through all values where there are too many."""
        if self.bound > LARGEST_ROW:
            raise InvalidParameter(
                f"a row has a probability for every value up to the bound and is written out up to {LARGEST_ROW} only; "
                "use probability(value, true_frequency) or cumulative(value, true_frequency)."
            )

    @cached_property
    def _certificate(self) -> Certificate:
        if self._dyadic:
            found = certify_dyadic_noise(
                self.table, uniform=self.uniform_mass, bound=self.bound, epsilon=self.key_epsilon
            )
        else:
            found = certify_clamped_noise(
                self._masses, uniform=self.uniform_mass, bound=self.bound, epsilon=self.key_epsilon
            )
            certify_prefixes(self.table, self._masses, uniform=self.uniform_mass, bound=self.bound)
        return certify_pure_copies(found, copies=self.keys_changed, epsilon=self.epsilon)

    def certify(self) -> Certificate:
        """Verify the numbers that are drawn from."""
        return self._certificate

    def draw(self, frequencies: NDArray[np.int64], bits: BitSource) -> NDArray[np.int64]:
        """One independent draw for each frequency; 0 is a value like any other.

        Postcondition: for frequencies from 0 to 2^62 and uniform words, results are independent and follow the
        certified rows exactly. Frequencies take part in one addition and one clamp without branches: which random
        words are read and which table entries are looked at depends on the words alone. Each draw takes 128 bits; where
        N does not divide 2^128, 64 more with probability below 2R / 2^128, and so on.
        """
        given = as_frequencies(frequencies)
        self.certify()
        values = np.minimum(given, self.bound)
        for start in range(0, len(values), _BATCH):
            self._draw_batch(values[start : start + _BATCH], bits)
        return values

    def _draw_batch(self, values: NDArray[np.int64], bits: BitSource) -> None:
        words = bits.words(2 * len(values))
        left = np.empty(len(values), dtype=np.int64)  # thresholds not passed, plus one
        self._sampler.draw(self._places[: len(values)], words, left)
        open_draws = self._undecided(left, words)
        counts = values[open_draws]
        left += self.reach - len(self.table) // _ENTRY - 1  # now the noise R - D
        values += left
        np.clip(values, 0, self.bound, out=values)
        for place, count in zip(open_draws.tolist(), counts.tolist(), strict=True):
            prefix = int(words[2 * place]) | int(words[2 * place + 1]) << 64
            values[place] = self._decide(prefix, count, bits)

    def _undecided(self, left: NDArray[np.int64], words: NDArray[np.uint64]) -> NDArray[np.intp]:
        """Which draws the table leaves open: uniform values, and numbers that start with an entry's very bits."""
        uniform = left == 1 if self.uniform_mass else np.zeros(len(left), dtype=bool)
        if self._dyadic:
            return np.flatnonzero(uniform)
        low, high = self._entries
        last_passed = len(low) - left  # -1 where none is: then the last entry of all is compared, which is not reached
        same = (high[last_passed] == words[1::2]) & (low[last_passed] == words[::2])
        return np.flatnonzero(uniform | same)

    def _decide(self, prefix: int, count: int, bits: BitSource) -> int:
        """The value for a uniform number that starts with this 128-bit prefix; reads more bits while it must.

        Invariant: the number is in [prefix, prefix + 1) / 2^length, so that the integer below N times it is one from
        `first` to `last`; it is decided once both belong to the same outcome.
        """
        length, whole = _BITS, self.whole
        while True:
            first, last = prefix * whole >> length, ((prefix + 1) * whole - 1) >> length
            outcome = self._outcome(first)
            if outcome == self._outcome(last):
                break
            prefix, length = prefix << 64 | int(bits.words(1)[0]), length + 64
        noise, value = outcome
        return value if noise is None else min(max(count + noise, 0), self.bound)

    def _outcome(self, number: int) -> tuple[int | None, int]:
        """What a number from 0 to N - 1 stands for: noise, or None and a uniform value."""
        if number < self._cumulative[-1]:
            return self.reach - bisect_right(self._cumulative, number), 0
        return None, (number - self._cumulative[-1]) // self.uniform_mass

    @cached_property
    def _sampler(self) -> _core.ShiftTable:
        return _core.ShiftTable(np.frombuffer(self.table, dtype=np.uint8))

    @cached_property
    def _entries(self) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
        pairs = np.frombuffer(self.table, dtype="<u8").reshape(-1, 2).astype(np.uint64)
        return np.ascontiguousarray(pairs[:, 0]), np.ascontiguousarray(pairs[:, 1])

    @cached_property
    def _places(self) -> NDArray[np.int64]:
        """The same number for every draw, so that the sampler counts thresholds and knows nothing of frequencies."""
        return np.full(_BATCH, len(self.table) // _ENTRY + 1, dtype=np.int64)

    def invert(self, values: NDArray[np.int64], beta: Fraction) -> FrequencyEstimates:
        """The value and `error_quantile` on both sides: every key has a value, so nothing is selected."""
        error = self.error_quantile(beta)
        lower, upper = np.maximum(values - error, 0), np.minimum(values, self.bound - error) + error
        return FrequencyEstimates(values.copy(), lower, upper)

    def key_errors(self, frequencies: NDArray[np.float64]) -> KeyErrors:
        """By the largest probability of each error."""
        last = self.error_quantile(Fraction(1, 1 << 40))
        return errors_of_noise(
            np.array([float(self.error_probability(error)) for error in range(last + 1)]), frequencies
        )

    def unbiased(self, values: NDArray[np.int64], of: CountFunction) -> NDArray[np.float64]:
        """See `dptally.laws.sum_bounds.unclamped`."""
        return unclamped(self, values, of)

    def bound_sum(self, values: NDArray[np.int64], beta: float) -> tuple[float, float] | None:
        """See `dptally.laws.sum_bounds.bound_clamped_sum`."""
        return bound_clamped_sum(self, values, beta)

    def simultaneous_error(self, beta: object, bins: int) -> int:
        """The smallest a such that all of `bins` values are within a of their counts with probability 1 - beta.

        Draws are independent, so this is (1 - q)^bins >= 1 - beta for the probability q of one error
        [BV19, Thm. 5.2 iii]; the power is rounded down, to 200 bits, which can only make a larger.
        """
        allowed = as_chance("beta", beta)
        count = as_count("bins", bins, largest=LARGEST_FREQUENCY)
        power = 1 << _POWER_BITS
        return self._smallest_error(
            lambda chance: Fraction(power_bounds(1 - chance, count, _POWER_BITS)[0], power) >= 1 - allowed
        )
