"""The compact histogram as the paper prints it, over GF(2^6), enumerated [BV19, Algorithms 8.2 and 8.5].

Two rows at most, a universe of four keys, a counting query on 5 elements and a field of 64: all polynomials are listed.
The printed proof takes elements of 1 .. d0 for field elements; here they are mapped back, as its claim needs.
"""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from functools import lru_cache
from itertools import product

import pytest

SIZE = 64
MODULUS = 0b1001001  # x^6 + x^3 + 1
ROWS = 1
QUERY_SIZE = 5
QUERY = {0: (1, 1, 1, 0, 0), 1: (1, 1, 0, 0, 0)}  # for each count, which of u = 1 .. 5 report 0
KEYS = range(4)


def times(first: int, second: int) -> int:
    """Product in GF(2^6)."""
    found = 0
    while second:
        if second & 1:
            found ^= first
        first <<= 1
        if first & SIZE:
            first ^= MODULUS
        second >>= 1
    return found


@lru_cache
def inverse(element: int) -> int:
    """By trying all."""
    return next(other for other in range(1, SIZE) if times(element, other) == 1)


def query(count: int, uniform: int) -> int:
    """The counting query M(c, u), u = 1 .. d."""
    return 1 - QUERY[count][uniform - 1]


def empty_bin(uniform: int) -> int:
    """Algorithm 8.5: M_0(u0), u0 = 1 .. d0."""
    quotient, rest = divmod(SIZE, QUERY_SIZE)
    if rest and uniform <= rest * (quotient + 1):
        return query(0, -(-uniform // (quotient + 1)))
    return query(0, -(-(uniform - rest) // quotient))


def law(count: int) -> dict[int, Fraction]:
    """P[M(count, U) = v]."""
    found = Counter(query(count, uniform) for uniform in range(1, QUERY_SIZE + 1))
    return {value: Fraction(found[value], QUERY_SIZE) for value in range(ROWS + 1)}


def empty_law() -> dict[int, Fraction]:
    """P[M_0(U0) = v]."""
    found = Counter(empty_bin(uniform) for uniform in range(1, SIZE + 1))
    return {value: Fraction(found[value], SIZE) for value in range(ROWS + 1)}


def line(points: tuple[int, int], elements: tuple[int, int]) -> tuple[int, int]:
    """The polynomial of degree 1 through two points."""
    slope = times(elements[0] ^ elements[1], inverse(points[0] ^ points[1]))
    return elements[0] ^ times(slope, points[0]), slope


def release_law(key: int | None) -> dict[tuple[int, int], Fraction]:
    """Algorithm 8.2 for a data set of one row, or of none: the chance of each polynomial."""
    found: dict[tuple[int, int], Fraction] = {}
    if key is None:
        return dict.fromkeys(product(range(SIZE), range(SIZE)), Fraction(1, SIZE**2))
    other = next(point for point in KEYS if point != key)
    for value, chance in law(1).items():
        cell = [uniform - 1 for uniform in range(1, SIZE + 1) if empty_bin(uniform) == value]  # T^-1(u0) = u0 - 1
        for element, rest in product(cell, range(SIZE)):
            found[line((key, other), (element, rest))] = chance / len(cell) / SIZE
    assert len(found) == SIZE**2 and sum(found.values()) == 1
    return found


def largest_ratio(first: dict[tuple[int, int], Fraction], second: dict[tuple[int, int], Fraction]) -> Fraction:
    """The largest ratio of two laws, both ways."""
    return max(max(first[p] / second[p], second[p] / first[p]) for p in first)


def step() -> Fraction:
    """e^(eps1 / 2): the largest ratio of the counting query for neighbouring counts."""
    return max(max(law(0)[v] / law(1)[v], law(1)[v] / law(0)[v]) for v in range(ROWS + 1))


def over_and_under() -> tuple[Fraction, Fraction]:
    """e^eps2 and e^eps3: by how much the empty bins' law exceeds the query's, and the other way round."""
    empty, full = empty_law(), law(0)
    return max(empty[v] / full[v] for v in empty), max(full[v] / empty[v] for v in empty)


@pytest.mark.parametrize("key", KEYS)
def test_values_have_the_printed_laws(key: int) -> None:
    """The key that occurs has the query's law, the others have that of empty bins."""
    for other in KEYS:
        found = Counter[int]()
        for (constant, slope), chance in release_law(key).items():
            found[empty_bin((constant ^ times(slope, other)) + 1)] += chance  # type: ignore[assignment]
        assert dict(found) == (law(1) if other == key else empty_law())


def test_replacing_a_row_costs_what_is_printed_at_most() -> None:
    """Two data sets of one row: e^(eps1 + eps2 + eps3) [BV19, Thm. 8.3 i]."""
    over, under = over_and_under()
    worst = max(largest_ratio(release_law(first), release_law(second)) for first in KEYS for second in KEYS)
    assert step() < worst <= step() ** 2 * over * under


def test_adding_a_row_costs_one_step_and_one_of_the_two_differences() -> None:
    """For adding or removing a row the loss is eps1 / 2 + max(eps2, eps3) at most."""
    assert largest_ratio(release_law(None), release_law(2)) <= step() * max(over_and_under())


def test_without_the_way_back_to_the_field_values_are_lost() -> None:
    """An element of 1 .. d0 that is used as it stands is one too high, and 64 is no element at all."""
    assert {empty_bin(uniform + 1) == empty_bin(uniform) for uniform in range(1, SIZE)} == {True, False}
