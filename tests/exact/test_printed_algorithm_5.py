"""Algorithm 5 of [CGSS21] as printed is not differentially private, and the judge says so; corrected, it is."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import pairwise
from typing import Any

import pytest

from dptally.errors import PrivacyViolation
from dptally.verifiers.tables import certify_rows

Piece = tuple[Fraction, Fraction, Fraction]  # from, to, density
LN_2 = Fraction(69314718056, 10**11)  # just above ln 2, so that e^epsilon is just above 2


def _mass(pieces: list[Piece], start: Fraction, end: Fraction) -> Fraction:
    return sum(
        ((min(b, end) - max(a, start)) * density for a, b, density in pieces if min(b, end) > max(a, start)),
        Fraction(0),
    )


def _cut(pieces: list[Piece], point: Fraction) -> list[Piece]:
    cut: list[Piece] = []
    for a, b, density in pieces:
        cut += [(a, point, density), (point, b, density)] if a < point < b else [(a, b, density)]
    return cut


def _point(pieces: list[Piece], wanted: Fraction, slope: object) -> Fraction:
    """The z at which a function that starts at 0 and has the given slope on each piece reaches `wanted`."""
    assert callable(slope)
    reached = Fraction(0)
    for a, b, density in pieces:
        step = (b - a) * slope(a, density)
        if step and reached + step >= wanted:
            return a + (wanted - reached) / slope(a, density)
        reached += step
    return pieces[-1][1]


def pieces_of_algorithm_5(a: int, delta: Fraction, last: int, *, factor: int) -> list[tuple[Fraction, list[Piece]]]:
    """Rows 0 .. last for q = 1: the mass of "not reported", and the density of values piece by piece.

    `factor` is that of the not-reported term in the equation for b_i: printed 1, correct a.
    """
    missing, pieces, reported = Fraction(1), list[Piece](), Fraction(0)
    laws: list[tuple[Fraction, list[Piece]]] = [(missing, [])]
    for row in range(1, last + 1):
        now = min(Fraction(1), a * reported + delta, 1 + (reported + delta - 1) / a)
        debt = factor * max(Fraction(0), missing / a - (1 - now))
        low = pieces
        edge = Fraction(row - 1)
        if debt + _mass(pieces, Fraction(0), edge) <= delta:
            low = [(x, y, Fraction(0)) for x, y, _ in pieces]
        elif pieces:
            b = _point(pieces, delta - debt, lambda _, density: density)
            pieces = _cut(pieces, b)
            low = [(x, y, Fraction(0) if y <= b else density / a) for x, y, density in pieces]
        top = min(now, delta)
        fresh: list[Piece] = []
        if pieces:
            # F(z) = low mass up to z + a times old mass from z on; it falls from a * old mass to the low mass.
            lows = {x: density for x, _, density in low}
            fall = a * _mass(pieces, Fraction(0), edge) - (now - top)
            c = _point(pieces, fall, lambda x, density, lows=lows: a * density - lows[x]) if fall > 0 else Fraction(0)
            pieces, low = _cut(pieces, c), _cut(low, c)
            fresh = [
                (x, y, a * density if x >= c else bound)
                for (x, y, density), (_, _, bound) in zip(pieces, low, strict=True)
            ]
        fresh.append((edge, Fraction(row), top))
        assert 1 - now + _mass(fresh, Fraction(0), Fraction(row)) == 1
        missing, pieces, reported = 1 - now, fresh, now
        laws.append((missing, pieces))
    return laws


def rows_of_algorithm_5(
    a: int, delta: Fraction, last: int, *, factor: int, whole_numbers: bool = False
) -> list[list[Any]]:
    """The same, with densities summed over pieces, as whole numbers; or over whole values, as fractions."""
    laws = pieces_of_algorithm_5(a, delta, last, factor=factor)
    if whole_numbers:
        return [
            [gone, *(_mass(row, Fraction(x), Fraction(x + 1)) for x in range(i))] for i, (gone, row) in enumerate(laws)
        ]
    points = sorted({point for _, row in laws for x, y, _ in row for point in (x, y)})
    spans = list(pairwise(points))
    exact = [[gone, *(_mass(row, x, y) for x, y in spans)] for gone, row in laws]
    whole = math.lcm(*(entry.denominator for row in exact for entry in row))
    return [[int(entry * whole) for entry in row] for row in exact]


def test_printed_algorithm_5_is_refused() -> None:
    """With e^epsilon = 2, delta = 1/10 the printed algorithm reaches delta 3/20, and gets no certificate."""
    rows = rows_of_algorithm_5(2, Fraction(1, 10), 8, factor=1)
    with pytest.raises(PrivacyViolation, match="exceeds its delta"):
        certify_rows(rows, epsilon=LN_2, delta=Fraction(1, 10))
    found = certify_rows(rows, epsilon=LN_2, delta=Fraction(1, 2)).worst_delta
    assert abs(found - Fraction(3, 20)) < Fraction(1, 10**9)


@pytest.mark.parametrize("delta", [Fraction(1, 10), Fraction(1, 31), Fraction(1, 100), Fraction(3, 7)])
def test_corrected_algorithm_5_passes(delta: Fraction) -> None:
    """With the missing factor e^epsilon the same rows keep delta."""
    rows = rows_of_algorithm_5(2, delta, 12, factor=2)
    assert certify_rows(rows, epsilon=LN_2, delta=delta).worst_delta <= delta


def test_rows_that_are_no_laws_are_refused() -> None:
    """A row with another sum, or a negative entry, gets no certificate."""
    for rows in ([[4, 0], [2, 1]], [[4, 0], [5, -1]]):
        with pytest.raises(PrivacyViolation, match="not a law"):
            certify_rows(rows, epsilon=Fraction(1), delta=Fraction(1, 2))
