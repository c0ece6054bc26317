"""Counts of the nodes of a tree over a public interval, or of the two sides of a threshold."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dptally.errors import InvalidParameter
from dptally.laws.spec import Question
from dptally.randomness import BitSource
from dptally.universes.grids import Grid


def draw(question: Question, summary: NDArray[np.int64], bits: BitSource) -> Any:
    """What is released of each level of a tree, from the children of the root to the leaves; 0 where a node is hidden.

    Where the question has a split, the two counts below it and from it on. The question has the grid, and the split of
    a search; the summary is how many units are in each bin.
    """
    grid: Grid = question.parameters["grid"]
    if len(summary) != grid.bins:
        raise InvalidParameter("the mechanism was made for a tree of another size.")
    split = question.parameters.get("split")
    if split is not None:
        sides = np.array([summary[:split].sum(), summary[split:].sum()], dtype=np.int64)
        below, rest = question.law.draw_nodes(sides, bits)
        return int(below), int(rest)
    released, counts = [], summary
    for _ in range(grid.levels):
        released.append(question.law.draw_nodes(counts, bits))
        padded = np.zeros(-(-len(counts) // grid.branching) * grid.branching, dtype=np.int64)
        padded[: len(counts)] = counts
        counts = padded.reshape(-1, grid.branching).sum(axis=1)
    return released[::-1]
