"""A histogram of every level of a tree over a public interval."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dptally.errors import InvalidParameter
from dptally.laws.range_trees import make_tree_law
from dptally.privacy.spending import Spending, law_part

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dptally.randomness import BitSource
    from dptally.universes.grids import Grid

__all__ = ["RangeHistograms"]


class RangeHistograms:
    """Draw what is released of each node of a tree, every level by itself, with coins or noise of its own.

    Guarantee:
        (epsilon, delta)-differential privacy for adding or removing one unit that has one value. Such a unit is in one
        node of each of L levels, and changes the counts of these L nodes by one. Nodes are drawn independently. One
        node's law is certified at (e, d), and L of them together stay within (epsilon, delta) by [KOV15, Thm. 3.3],
        checked by the judge. The noise of "dense" keeps epsilon / L each, epsilon together, and delta = 0.

        One coin per unit for all levels would not do by this argument: counts of different levels would depend on each
        other, and composition needs draws that do not; see `dptally.mechanisms.sample_and_threshold`.

    Error:
        See `dptally.laws.node_sums`. With sampling rate p and threshold t, a range of W units that takes k nodes,
        h of them hidden, is known to about sqrt(W (1 - p) / p) + h (t - 1) / p, where h <= k <= 2 (branching - 1) L:
        linear in t [BC22, Lemma 9, where the printed bound has t^2].
    Cost:
        One draw for each node; "dense" releases all of them.

    References:
        [BC22] section 4.2; [KOV15].

    Args:
        epsilon: for the unit.
        delta: for the unit; None or 0 for "dense".
        levels: L.
        mechanism: "sample_and_threshold", "weighted_sample" or "dense".
        rate: of "sample_and_threshold"; None for the best one.

    Raises:
        PrivacyViolation: if the law does not pass the judge; then nothing has been read or drawn.
    """

    def __init__(self, epsilon: object, delta: object, *, levels: int, mechanism: str, rate: object = None) -> None:
        self.name = mechanism
        self.levels = levels
        made = make_tree_law(epsilon, delta, levels=levels, mechanism=mechanism, rate=rate)
        self.epsilon, self.delta, self.law, self.certificate = made.epsilon, made.delta, made.law, made.certificate

    @property
    def spends(self) -> Spending:
        """What a draw spends: one count in each level, raised by the unit."""
        return Spending(f"{self.name}_tree", self.epsilon, self.delta, (law_part(self.law, self.levels),))

    def draw(self, leaves: NDArray[np.int64], grid: Grid, bits: BitSource) -> list[NDArray[np.int64]]:
        """What is released of each level, from the children of the root to the leaves; 0 where a node is hidden."""
        if grid.levels != self.levels or len(leaves) != grid.bins:
            raise InvalidParameter("the mechanism was made for a tree of another size.")
        released, counts = [], leaves
        for _ in range(grid.levels):
            released.append(self.law.draw_nodes(counts, bits))
            padded = np.zeros(-(-len(counts) // grid.branching) * grid.branching, dtype=np.int64)
            padded[: len(counts)] = counts
            counts = padded.reshape(-1, grid.branching).sum(axis=1)
        return released[::-1]
