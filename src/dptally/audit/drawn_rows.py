"""Whether draws follow the rows that are compared: the compiled sampler is fed chosen numbers in place of random ones.

A law of 128 bits draws by one uniform number u from 0 to 2^128 - 1. Where its row puts a border between two outcomes,
the number just below must give the one and the number on it the other. With all borders of a row right, and outcomes
between borders the same, the draw has exactly the probabilities of the row.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

__all__ = ["GivenWords", "follows_rows"]

_MOST_BORDERS = 400


class GivenWords:
    """A source that hands out words that were given to it. Not random at all."""

    private = False

    def __init__(self, numbers: list[int]) -> None:
        halves = [half for number in numbers for half in (number & 0xFFFFFFFFFFFFFFFF, number >> 64)]
        self._words = np.array(halves, dtype=np.uint64)
        self._at = 0

    def words(self, count: int) -> NDArray[np.uint64]:
        """The next words."""
        found = self._words[self._at : self._at + count]
        self._at += count
        if len(found) < count:
            raise ValueError("more words were asked for than were given")
        return found


def follows_rows(law: Any, frequency: int, row: Mapping[Any, int]) -> bool:
    """Whether a law that reports larger values for smaller numbers draws its row for a frequency, border by border."""
    borders, outcomes = [], []
    reached = 0
    for outcome in sorted((value for value in row if value is not None), reverse=True):
        borders.append((reached, reached + row[outcome] - 1))
        outcomes.append(outcome)
        reached += row[outcome]
    if row.get(None, 0):
        borders.append((reached, (1 << 128) - 1))
        outcomes.append(0)
    borders, outcomes = borders[-_MOST_BORDERS:], outcomes[-_MOST_BORDERS:]
    numbers = [number for border in borders for number in border]
    drawn = law.draw(np.full(len(numbers), frequency, dtype=np.int64), GivenWords(numbers))
    expected = [outcome for outcome in outcomes for _ in range(2)]
    return list(drawn.tolist()) == expected
