"""Exact laws of drawing code: run it once for every sequence of random choices, and add up the chances.

Nothing here knows a law of the package. A test says what the random choices are (pieces of a uniform number, orders of
words), runs the package's own code on each, and gets the law of what comes out as fractions.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from fractions import Fraction
from itertools import permutations
from math import factorial
from typing import TypeVar

import numpy as np
import pytest
from numpy.typing import NDArray

from dptally.randomness.lazy_uniforms import Thresholds

__all__ = [
    "Choices",
    "OrderedWords",
    "PieceWords",
    "enumerate_thresholds",
    "law_of",
    "law_of_pieces",
    "sizes_of",
    "steps",
]

Outcome = TypeVar("Outcome", bound=Hashable)
_PLACES = 256


class _UnlikelyError(Exception):
    """The rest of this branch is left out."""


class Choices:
    """The choices of one run: those of the script first, then the first possible one each time."""

    def __init__(self, script: Sequence[int], least: Fraction) -> None:
        self._script, self._least = script, least
        self.taken: list[int] = []
        self.open: list[list[int]] = []  # for each choice, what is left to try
        self.chance = Fraction(1)

    def among(self, chances: Sequence[Fraction]) -> int:
        """Which of several possibilities, whose chances are given; those without a chance are passed over."""
        place = len(self.taken)
        possible = [index for index, chance in enumerate(chances) if chance]
        index = self._script[place] if place < len(self._script) else possible[0]
        self.taken.append(index)
        self.open.append(possible[possible.index(index) + 1 :])
        self.chance *= chances[index]
        if self.chance < self._least:
            raise _UnlikelyError
        return index


def law_of(run: Callable[[Choices], Outcome], least: Fraction = Fraction(0)) -> dict[Outcome, Fraction]:
    """The law of what `run` returns, over all choices it makes.

    Branches below `least` are left out, so that the chances add up to a little less than 1.
    """
    law: dict[Outcome, Fraction] = {}
    script: list[int] | None = []
    while script is not None:
        choices = Choices(script, least)
        try:
            outcome = run(choices)
        except _UnlikelyError:
            pass
        else:
            law[outcome] = law.get(outcome, Fraction(0)) + choices.chance
        script = next(
            (
                [*choices.taken[:place], choices.open[place][0]]
                for place in reversed(range(len(choices.taken)))
                if choices.open[place]
            ),
            None,
        )
    return law


def steps(rising: Callable[[int], int], size: int) -> list[tuple[int, int, int]]:
    """Where a whole-valued function that never falls is constant on 0 .. size - 1: value, first and last place."""
    found = []
    first = 0
    while first < size:
        value = rising(first)
        low, high = first, size - 1  # invariant: rising(low) == value, and everything above `high` is larger
        while low < high:
            middle = (low + high + 1) // 2
            low, high = (middle, high) if rising(middle) == value else (low, middle - 1)
        found.append((value, first, low))
        first = low + 1
    return found


class OrderedWords:
    """Random words of which only the order counts, and the leading bits.

    The leading bits of each word are independent and uniform, and what follows puts equal ones in every order equally
    often, so that all orders of the words have the same chance.

    Args:
        choices: of this run.
        leading: how many leading bits are looked at.
    """

    private = False

    def __init__(self, choices: Choices, leading: int = 0) -> None:
        self._choices, self._leading = choices, leading

    def words(self, count: int) -> NDArray[np.uint64]:
        """Distinct words."""
        values = 1 << self._leading
        fronts = [self._choices.among([Fraction(1, values)] * values) for _ in range(count)]
        orders = list(permutations(range(count)))
        order = orders[self._choices.among([Fraction(1, factorial(count))] * len(orders))]
        shift = 64 - self._leading
        return np.array(
            [(front << shift if self._leading else 0) + rank for front, rank in zip(fronts, order, strict=True)],
            dtype=np.uint64,
        )


class PieceWords:
    """Pairs of words, each a number of 128 bits in a chosen piece, at the first or at the last number of the piece.

    Args:
        choices: of this run; or the pieces to take.
        sizes: how many numbers each piece has, 2^128 in all.
        last: which end.
    """

    private = True  # they stand for secret bits: every one is tried

    def __init__(self, choices: Choices | list[int], sizes: Sequence[int], last: bool) -> None:
        self._choices, self._sizes, self._last = choices, sizes, last
        self.chosen: list[int] = []

    def words(self, count: int) -> NDArray[np.uint64]:
        """The low word of each number first."""
        found = []
        for _ in range(count // 2):
            if isinstance(self._choices, list):
                place = self._choices[len(self.chosen)]
            else:
                place = self._choices.among([Fraction(size, 1 << 128) for size in self._sizes])
            self.chosen.append(place)
            start = sum(self._sizes[:place])
            number = start + self._sizes[place] - 1 if self._last else start
            found += [number % (1 << 64), number >> 64]
        return np.array(found, dtype=np.uint64)


def sizes_of(table: bytes) -> list[int]:
    """How many numbers of 128 bits are between neighbouring entries of a table of thresholds."""
    entries = [int.from_bytes(table[at : at + 16], "little") for at in range(0, len(table), 16)]
    return [here - before for before, here in zip([0, *entries], [*entries, 1 << 128], strict=True)]


def law_of_pieces(draw: Callable[[PieceWords], Outcome], sizes: Sequence[int]) -> dict[Outcome, Fraction]:
    """The law of what is drawn from pairs of words; both ends of every piece must give the same."""

    def run(choices: Choices) -> Outcome:
        first = PieceWords(choices, sizes, last=False)
        outcome = draw(first)
        assert draw(PieceWords(first.chosen, sizes, last=True)) == outcome
        return outcome

    return {outcome: chance for outcome, chance in law_of(run).items() if chance}


def enumerate_thresholds(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[Choices], None]]:
    """Let comparisons of endless uniform numbers with thresholds be choices, with the chances that they have.

    What is replaced is `Thresholds.draw` alone, whose exactness is tested in
    `tests/mechanisms/test_sparse_histogram.py`; its thresholds are those of the package, to 256 binary places.
    """
    current: list[Choices] = []

    def draw(self: Thresholds, count: int, bits: object) -> NDArray[np.int64]:
        del bits
        reached = [Fraction(self._bounds(place, _PLACES)[0], 1 << _PLACES) for place in range(len(self))]
        chances = [high - low for low, high in zip([Fraction(0), *reached], [*reached, Fraction(1)], strict=True)]
        return np.array([current[0].among(chances) for _ in range(count)], dtype=np.int64)

    def use(choices: Choices) -> None:
        current[:] = [choices]

    monkeypatch.setattr(Thresholds, "draw", draw)
    yield use
