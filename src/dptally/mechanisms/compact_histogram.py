"""A noisy count for every key of a huge universe, in room for as many keys as the data has."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from itertools import accumulate
from typing import TYPE_CHECKING

from dptally.errors import InvalidParameter, InvalidSource
from dptally.exact import as_count, as_epsilon
from dptally.exact.field_polynomials import PrimeField
from dptally.laws.field_geometric import choose_law
from dptally.privacy.guarantee import Guarantee
from dptally.privacy.spending import Part, Spending
from dptally.releases.compact_release import (
    BeyondCapacity,
    CompactRelease,
    certify_law,
    changes_per_unit,
)

if TYPE_CHECKING:
    from dptally.laws.field_geometric import FieldGeometric
    from dptally.mechanisms.base import Counted
    from dptally.randomness import BitSource
    from dptally.universes import Universe
    from dptally.verifiers.compact import CompactCertificate

__all__ = ["LARGEST_CAPACITY", "CompactHistogram", "compact_polynomial", "keep_at_random"]

LARGEST_CAPACITY = 10_000_000
_LARGEST_COUNT = (1 << 62) - 1
_USUAL_LARGEST_COUNT = (1 << 32) - 1


class CompactHistogram:
    """Every key of a universe gets a noisy count, all of them written as one random polynomial.

    Key number x has the value that the field element p(x) means, where p is a polynomial with n + 1 coefficients over
    a field of q >= |universe| elements and n is the capacity. For a uniformly random p, the values of any n + 1 keys
    are independent draws of the law of count 0. For the data, a value is drawn for every key of positive count c from
    the law of count c, then an element that means this value, and p is a uniformly random one among the polynomials
    that have these elements at these keys: the interpolating one, plus a random multiple of the polynomial that
    vanishes there.

    Guarantee:
        Pure epsilon-differential privacy for adding or removing one unit, where a unit adds one to at most
        `max_keys_per_unit` = l keys. The chance of p is

            q^-(n+1) prod_x E_{c_x}(p(x)) / E_0(p(x)),

        one expression for all data sets with at most n + 1 distinct keys (the derivation is in
        `dptally.verifiers.compact`), so one step of one count changes it by the ratio of E_{c+1} and E_c, at most
        rho. This is the whole loss: the two losses that [BV19, Thm. 8.3] adds for its empty bins are 0 because counts 0
        and above have the same denominator q, and one of the two counts of a replaced unit is not there for an added
        one. Keys outside the universe are left out, each row by itself; different writings of one key add up, which
        leaves the sum of changes as it is.

        The number of distinct keys is private and the number of coefficients is not, so data beyond the capacity needs
        a rule that is private as well:

        "subsample" (default): of more than n occurrences (units times keys) n are kept, a uniformly random choice. Put
        all occurrences of both data sets in one uniformly random order and keep the first n of each: a unit with l
        keys moves at most l occurrences in and at most l out, so the kept counts differ by 2 l in sum, for every order;
        mixing over orders keeps the bound. Hence rho^(2 l) <= e^epsilon is required, **for all data sets**. Replacing
        a unit also moves at most l in and l out, so the same epsilon holds for replacing one unit. This is the price
        the paper pays, whose neighbours replace a row. No fixed rule does with changes of 1 for l = 1 and n >= 3: let D
        have n distinct keys and x be another; what is kept of D + x would have to be within 1 of D + x - y for all y in
        D, and only D + x itself is.

        "refuse": data with more than n *distinct keys* is refused before anything is drawn. Only
        rho^l <= e^epsilon is required, half the noise. The refusal itself tells something, so the guarantee compares
        data sets of at most n distinct keys: declare it when the bound is public knowledge (there are no more than n
        units, or a quota). Replacing one unit costs twice epsilon.

    Error:
        Each key's value follows `FieldGeometric` for its count exactly, whether the key occurs or not: with at most n
        of n + 1 coefficients taken by other keys, p(x) is uniform for a key that does not. With chance 1 - beta the
        error is O(log(1/beta) / epsilon), without the factor log |universe| that every release of sparse counts must
        pay [BV19, Thm. 7.2]. If a subsample was taken, the counts are those of the subsample, and no factor is known to
        scale them back: choose a generous capacity.
    Cost:
        O(n log^2 n) field operations and n + 1 field elements, whatever the data; the time also depends on the number
        of distinct keys. For each key of positive count a fixed number of random bits.

    References:
        [BV19, section 8]. Deviations are listed in docs/mechanisms/compact.md.

    Args:
        epsilon: for the unit.
        universe: all possible keys.
        capacity: n, public.
        largest_count: counts are cut to it, public; by default the capacity for "subsample" and 2^32 - 1 for "refuse".
        max_keys_per_unit: bound on what one unit touches.
        beyond_capacity: "subsample" or "refuse".

    Raises:
        InvalidParameter: for parameters that no field can hold.
        PrivacyViolation: if the law does not pass the judge; then nothing has been read or drawn.
    """

    name = "compact"

    def __init__(
        self,
        epsilon: object,
        *,
        universe: Universe,
        capacity: int,
        largest_count: int | None = None,
        max_keys_per_unit: int = 1,
        beyond_capacity: BeyondCapacity = "subsample",
    ) -> None:
        if beyond_capacity not in ("subsample", "refuse"):
            raise InvalidParameter(f"beyond_capacity must be 'subsample' or 'refuse', got {str(beyond_capacity)!r}.")
        self._epsilon = as_epsilon(epsilon)
        self._universe = universe
        self._beyond_capacity: BeyondCapacity = beyond_capacity
        self._capacity = as_count("capacity", capacity, largest=LARGEST_CAPACITY)
        self._max_keys_per_unit = as_count("max_keys_per_unit", max_keys_per_unit, largest=_LARGEST_COUNT)
        if largest_count is None:
            largest_count = self._capacity if beyond_capacity == "subsample" else _USUAL_LARGEST_COUNT
        largest = as_count("largest_count", largest_count, largest=_LARGEST_COUNT)
        changes = changes_per_unit(self._max_keys_per_unit, beyond_capacity)
        self.law: FieldGeometric = choose_law(
            self._epsilon / changes, universe_size=universe.size, largest_count=largest
        )
        self.certificate: CompactCertificate = certify_law(
            self.law, self._epsilon, self._max_keys_per_unit, beyond_capacity
        )

    @property
    def spends(self) -> Spending:
        """What a draw spends."""
        return Spending(self.name, self._epsilon, Fraction(0), (Part(self._epsilon, Fraction(0)),))

    def draw(self, frequencies: Counted, bits: BitSource) -> CompactRelease:
        """Draw once.

        Raises:
            InvalidParameter: if the contributions were not bounded as the mechanism needs, the keys were sampled, or
                have several columns.
            InvalidSource: if there are more distinct keys than the capacity and the rule is to refuse, or the type of
                the key column cannot hold keys of the universe.
        """
        if frequencies.max_keys_per_unit > self._max_keys_per_unit:
            raise InvalidParameter(
                f"the mechanism protects units with at most {self._max_keys_per_unit} keys, "
                f"but contributions were bounded at {frequencies.max_keys_per_unit}."
            )
        if frequencies.scheme is not None:
            raise InvalidParameter("the mechanism 'compact' takes all keys; it has no sampling.")
        if len(frequencies.key) != 1:
            raise InvalidParameter(f"the mechanism 'compact' takes one key column, got {len(frequencies.key)}.")
        counts: dict[int, int] = {}
        for keys, numbers in frequencies.batches():
            indices, inside = self._universe.indices(keys.column(0))
            for index, count in zip(indices[inside].tolist(), numbers[inside].tolist(), strict=True):
                counts[index] = counts.get(index, 0) + count
        return self.build(counts, bits, unit=frequencies.unit)

    def build(self, counts: Mapping[int, int], bits: BitSource, *, unit: str | None = None) -> CompactRelease:
        """Draw once for counts by key number, contributions bounded as stated.

        Args:
            counts: key number -> how many units count for it; zeros are as good as absent.
            bits: where randomness comes from.
            unit: the column whose values are protected, for the guarantee's sentence.
        """
        points = sorted(index for index, count in counts.items() if count > 0)
        numbers = [counts[index] for index in points]
        if points and (points[0] < 0 or points[-1] >= self._universe.size):
            raise InvalidParameter("key numbers must be from 0 to below the universe's size.")
        if self._beyond_capacity == "subsample":
            numbers = keep_at_random(numbers, self._capacity, bits)
            kept = [place for place, number in enumerate(numbers) if number]
            points, numbers = [points[place] for place in kept], [numbers[place] for place in kept]
        elif len(points) > self._capacity:
            raise InvalidSource(
                f"the data has more distinct keys than the capacity of {self._capacity} declared for it; "
                "nothing was drawn."
            )
        law = self.law
        values = [
            law.draw(number, uniform)
            for number, uniform in zip(numbers, _field_elements(law.exponent, len(points), bits), strict=True)
        ]
        elements = [
            law.encode(value, uniform)
            for value, uniform in zip(values, _wide_integers(law.element_bits, len(points), bits), strict=True)
        ]
        free = list(_field_elements(law.exponent, self._capacity + 1 - len(points), bits))
        guarantee = Guarantee(
            epsilon=self._epsilon,
            delta=Fraction(0),
            unit=unit,
            max_keys_per_unit=self._max_keys_per_unit,
            mechanism=self.name,
            private=bits.private,
        )
        coefficients = compact_polynomial(law.size, points, elements, free)
        return CompactRelease(coefficients, law, self._universe, guarantee, self._beyond_capacity)


def compact_polynomial(size: int, points: Sequence[int], elements: Sequence[int], free: Sequence[int]) -> list[int]:
    """The coefficients of L + Z F: L has the elements at the points, Z vanishes there, F has coefficients `free`.

    Postcondition: for distinct points and uniform `free`, a uniform polynomial among those of len(points) + len(free)
    coefficients with the given elements at the points. For F -> L + Z F is one to one (Z is monic), its images have
    those elements at those points, and there are as many of them as there are such polynomials.
    """
    field = PrimeField(size)
    interpolating, vanishing = field.interpolate(points, elements)
    return field.coefficients(interpolating + vanishing * field.polynomial(free), len(points) + len(free))


def keep_at_random(counts: Sequence[int], capacity: int, bits: BitSource) -> list[int]:
    """Keep `capacity` of all occurrences, a uniformly random choice without replacement; all if there are no more.

    Floyd's algorithm: for j from total - capacity to total - 1, take a uniform number of 0 .. j, or j itself if that
    was taken before. Every subset has the same chance.
    """
    total = sum(counts)
    if total <= capacity:
        return list(counts)
    taken: set[int] = set()
    width = total.bit_length() + 64
    for last, uniform in zip(range(total - capacity, total), _wide_integers(width, capacity, bits), strict=True):
        limit = (1 << width) // (last + 1) * (last + 1)
        while uniform >= limit:  # with chance below 2^-64: numbers below the limit are uniform modulo last + 1
            uniform = next(_wide_integers(width, 1, bits))
        place = uniform % (last + 1)
        taken.add(last if place in taken else place)
    kept = [0] * len(counts)
    ends = list(accumulate(counts))
    for place in taken:
        kept[bisect_right(ends, place)] += 1
    return kept


def _wide_integers(width: int, count: int, bits: BitSource) -> Iterator[int]:
    """Independent uniform numbers of 0 .. 2^width - 1."""
    words = -(-width // 64)
    stream = memoryview(bits.words(words * count).astype("<u8", copy=False).tobytes())
    spare = 64 * words - width
    for at in range(0, len(stream), 8 * words):
        yield int.from_bytes(stream[at : at + 8 * words], "little") >> spare


def _field_elements(exponent: int, count: int, bits: BitSource) -> Iterator[int]:
    """Independent uniform numbers of 0 .. 2^exponent - 2.

    The one number too large is drawn again, with chance 2^-exponent whatever the data.
    """
    excluded = (1 << exponent) - 1
    for number in _wide_integers(exponent, count, bits):
        while number == excluded:
            number = next(_wide_integers(exponent, 1, bits))
        yield number
