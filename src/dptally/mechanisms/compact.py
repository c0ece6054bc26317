"""A noisy count for every key of a huge universe, in room for as many keys as the data has."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate

from dptally.errors import InvalidParameter, InvalidSource
from dptally.exact.field_polynomials import PrimeField
from dptally.laws.field_geometric import FieldGeometric
from dptally.laws.spec import Question
from dptally.laws.specs.compact import BeyondCapacity
from dptally.mechanisms.base import Counted
from dptally.randomness import BitSource
from dptally.universes import Universe


def draw(question: Question, summary: Counted, bits: BitSource) -> list[int]:
    """Draw once: the coefficients of the polynomial, lowest first; see `dptally.laws.specs.compact.Compact`.

    Raises InvalidParameter if the keys were sampled, or have several columns, InvalidSource if there are more distinct
    keys than the capacity and the rule is to refuse, or the type of the key column cannot hold keys of the universe.
    """
    if summary.scheme is not None:
        raise InvalidParameter("a compact histogram needs all keys, but these are a sample.")
    if len(summary.key) != 1:
        raise InvalidParameter(f"a universe numbers single keys, and there are {len(summary.key)} key columns.")
    universe: Universe = question.parameters["universe"]
    counts: dict[int, int] = {}
    for keys, numbers in summary.batches():
        indices, inside = universe.indices(keys.column(0))
        for index, count in zip(indices[inside].tolist(), numbers[inside].tolist(), strict=True):
            counts[index] = counts.get(index, 0) + count
    return build(
        question.law,
        counts,
        bits,
        size=universe.size,
        capacity=question.parameters["capacity"],
        beyond_capacity=question.parameters["beyond_capacity"],
    )


def build(
    law: FieldGeometric,
    counts: Mapping[int, int],
    bits: BitSource,
    *,
    size: int,
    capacity: int,
    beyond_capacity: BeyondCapacity,
) -> list[int]:
    """Draw once for counts by key number, contributions bounded as stated.

    `counts` maps key numbers to how many units count for them; zeros are as good as absent.
    """
    points = sorted(index for index, count in counts.items() if count > 0)
    numbers = [counts[index] for index in points]
    if points and (points[0] < 0 or points[-1] >= size):
        raise InvalidParameter("key numbers must be from 0 to below the universe's size.")
    if beyond_capacity == "subsample":
        numbers = keep_at_random(numbers, capacity, bits)
        kept = [place for place, number in enumerate(numbers) if number]
        points, numbers = [points[place] for place in kept], [numbers[place] for place in kept]
    elif len(points) > capacity:
        raise InvalidSource(
            f"the data has more distinct keys than the capacity of {capacity} declared for it; nothing was drawn."
        )
    values = [
        law.draw(number, uniform)
        for number, uniform in zip(numbers, _field_elements(law.exponent, len(points), bits), strict=True)
    ]
    elements = [
        law.encode(value, uniform)
        for value, uniform in zip(values, _wide_integers(law.element_bits, len(points), bits), strict=True)
    ]
    free = list(_field_elements(law.exponent, capacity + 1 - len(points), bits))
    return compact_polynomial(law.size, points, elements, free)


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
