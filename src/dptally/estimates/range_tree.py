"""A tree of released counts: what ranges hold, where quantiles are, and leaves that agree with their ancestors."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dptally.laws.node_sums import NodeSums

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

_AT_ONCE = 1 << 13


class Part(NamedTuple):
    """Released facts about disjoint nodes: sum of reported values, number of nodes, how many are hidden."""

    sums: Integers
    nodes: Integers
    hidden: Integers


class RangeTree:
    """Levels of nodes, each the sum of `branching` nodes of the next level; the last one has the leaves.

    `values` and `reported` hold, per level from the children of the root to the leaves, the value of each existing node
    and whether it was reported; `sums` is what the law says about sums of nodes.
    """

    def __init__(
        self, sums: NodeSums, branching: int, values: list[Integers], reported: list[NDArray[np.bool_]]
    ) -> None:
        self._law = sums
        self.branching = branching
        self.values = values
        self.reported = reported
        self.leaves = len(values[-1])

    # ---- parts ----

    @cached_property
    def _running(self) -> list[tuple[Integers, Integers]]:
        """Per level, running sums of values and of hidden nodes, from 0."""
        return [
            (np.concatenate([[0], np.cumsum(values)]), np.concatenate([[0], np.cumsum(~reported)]))
            for values, reported in zip(self.values, self.reported, strict=True)
        ]

    def part(self, first: int, after: int) -> Part:
        """The leaves from `first` to below `after` as few nodes: at most 2 (branching - 1) of a level."""
        total = nodes = hidden = 0
        fan = self.branching
        for level in reversed(range(len(self.values))):
            values, missing = self._running[level]
            at_end = after == len(self.values[level])  # nothing exists beyond, so the parent ends here as well
            last_whole = -(-after // fan) * fan if at_end else after // fan * fan
            first_whole = -(-first // fan) * fan
            done = level == 0 or first_whole >= last_whole
            pieces = [(first, after)] if done else [(first, first_whole), (last_whole, after)]
            for start, end in pieces:
                if start < end:
                    total += int(values[end] - values[start])
                    hidden += int(missing[end] - missing[start])
                    nodes += end - start
            if done:
                break
            first, after = first_whole // fan, -(-last_whole // fan)
        return Part(np.array([total]), np.array([nodes]), np.array([hidden]))

    def bounds(self, first: int, after: int, error: float) -> tuple[float, float]:
        """Bounds of the units in leaves `first` to below `after`."""
        if first >= after:
            return 0.0, 0.0
        part = self.part(first, after)
        return float(self._law.lower(*part, error / 2)[0]), float(self._law.upper(*part, error / 2)[0])

    def _beside(self, edges: Integers, *, left: bool) -> Part:
        """All leaves before each edge, or from it on, for edges from 1 to leaves - 1: siblings on the way to a leaf."""
        found = np.zeros((3, len(edges)), dtype=np.int64)
        leaf = edges if left else edges - 1
        size = 1
        for level in reversed(range(len(self.values))):
            node = leaf // size
            start = node // self.branching * self.branching
            if left:
                end = node
            else:
                start, end = node + 1, np.minimum(start + self.branching, len(self.values[level]))
            values, missing = self._running[level]
            found += np.stack([values[end] - values[start], end - start, missing[end] - missing[start]])
            size *= self.branching
        return Part(*found)

    # ---- shares ----

    def share_bounds(self, edge: int, error: float) -> tuple[float, float]:
        """Bounds of the share of units in leaves before an edge."""
        if edge <= 0 or edge >= self.leaves:
            share = float(edge >= self.leaves)
            return share, share
        edges = np.array([edge])
        return float(self._least_share(edges, error / 2)[0]), float(self._most_share(edges, error / 2)[0])

    def _least_share(self, edges: Integers, error: float) -> Floats:
        """Exceeds the share before an edge with probability at most `error`, half of it for each side of the edge."""
        low = self._law.lower(*self._beside(edges, left=True), error / 2)
        rest = self._law.upper(*self._beside(edges, left=False), error / 2)
        return np.where(low > 0, low / np.maximum(low + rest, 1), 0.0)

    def _most_share(self, edges: Integers, error: float) -> Floats:
        """Is below the share before an edge with probability at most `error`, half of it for each side of the edge."""
        high = self._law.upper(*self._beside(edges, left=True), error / 2)
        rest = self._law.lower(*self._beside(edges, left=False), error / 2)
        return np.where(rest > 0, high / np.maximum(high + rest, 1), 1.0)

    def quantile_bounds(self, q: float, error: float) -> tuple[int, int]:
        """First and last leaf that may hold the smallest value with a share of at least q up to it.

        Edges are tested one after the other, from the left: is the share before the edge below q? The first edge that
        does not pass ends the walk. The true leaf's right edge is the first one at which the answer is no; to go wrong,
        the walk must pass there, and that one test is wrong with probability at most error / 2. So there is no price
        for the number of edges. The same from the right.
        """
        edges = np.arange(1, self.leaves)
        left = _first_open(edges, lambda some: self._most_share(some, error / 2) < q)
        right = _first_open(edges[::-1], lambda some: self._least_share(some, error / 2) >= q)
        first, last = self.leaves - 1 if left is None else left - 1, right or 0
        return min(first, last), max(first, last)

    # ---- agreement ----

    @cached_property
    def consistent(self) -> list[Floats]:
        """Estimates of all nodes, none negative, in which children add up to their parent.

        Two passes of weighted least squares [HRMS10]. Upwards, what a node says of itself is averaged with the sum of
        its children, each weighed by one over its variance. Downwards, what children miss of their parent's estimate is
        shared between them in proportion to their variances; negative ones become 0, and the others are scaled to the
        parent. A hidden node enters as 0 with the variance of what it may be (see `node_sums`): it takes most of a
        remainder that its reported siblings do not explain.
        """
        fan, levels = self.branching, len(self.values)
        own = [self._law.measure(values, reported) for values, reported in zip(self.values, self.reported, strict=True)]
        best = [own[-1]]
        for level in reversed(range(levels - 1)):
            size = len(self.values[level])
            children, noise = (_families(part, size, fan).sum(axis=1) for part in best[0])
            estimate, variance = own[level]
            weight = noise / (variance + noise)
            best.insert(0, (weight * estimate + (1 - weight) * children, weight * variance))
        parent = np.maximum(best[0][0].sum(keepdims=True), 0.0)
        result: list[Floats] = []
        for estimate, variance in best:
            size = len(parent)
            share, spread = _families(estimate, size, fan), _families(variance, size, fan)
            missing = parent - share.sum(axis=1)
            share = np.maximum(share + missing[:, None] * spread / spread.sum(axis=1, keepdims=True), 0.0)
            found = share.sum(axis=1)
            exists = spread > 0
            equal = exists / exists.sum(axis=1, keepdims=True)
            with np.errstate(invalid="ignore", divide="ignore"):
                share = np.where(found[:, None] > 0, share * (parent / found)[:, None], equal * parent[:, None])
            parent = share.reshape(-1)[: len(estimate)]
            result.append(parent)
        return result

    @cached_property
    def cumulative(self) -> Floats:
        """Estimated units in all leaves before each edge, from 0 to all."""
        return np.concatenate([[0.0], np.cumsum(self.consistent[-1])])


def _first_open(edges: Integers, passes: Callable[[Integers], NDArray[np.bool_]]) -> int | None:
    """The first edge that does not pass; not all are tested at once, as it is often among the first."""
    for start in range(0, len(edges), _AT_ONCE):
        some = edges[start : start + _AT_ONCE]
        closed = passes(some)
        if not closed.all():
            return int(some[np.argmin(closed)])
    return None


def _families(numbers: Floats, parents: int, fan: int) -> Floats:
    """One row for the children of each parent, 0 for children that do not exist."""
    padded = np.zeros(parents * fan)
    padded[: len(numbers)] = numbers
    return padded.reshape(parents, fan)
