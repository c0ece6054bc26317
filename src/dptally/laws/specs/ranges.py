"""Quantiles and ranges: a tree of counts over a public interval, or a search in rounds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

from dptally.laws.quantile_search import QuantileRounds, Round
from dptally.laws.range_trees import make_tree_law
from dptally.laws.spec import Question, Spec
from dptally.privacy.guarantee import Guarantee
from dptally.privacy.spending import law_part
from dptally.universes.grids import Grid


class RangeSpec(Spec):
    """Release each node of a tree, every level by itself, with coins or noise of its own.

    Guarantee:
        (epsilon, delta)-differential privacy for adding or removing one unit that has one value. Such a unit is in one
        node of each of L levels, and changes the counts of these L nodes by one. Nodes are drawn independently. One
        node's law is certified at (e, d), and L of them together stay within (epsilon, delta) by [KOV15, Thm. 3.3],
        which the verifier checks. The noise of "dense" keeps epsilon / L each, epsilon together, and delta = 0.

        One coin per unit for all levels would not do by this argument: counts of different levels would depend on each
        other, and composition needs draws that do not; see `dptally.laws.specs.sample_and_threshold`.

    Error:
        See `dptally.estimates.node_sums`. With sampling rate p and threshold t, a range of W units that takes k nodes,
        h of them hidden, is known to about sqrt(W (1 - p) / p) + h (t - 1) / p, where h <= k <= 2 (branching - 1) L:
        linear in t [BC22, Lemma 9, where the printed bound has t^2].
    Cost:
        One draw for each node; "dense" releases all of them.

    References:
        [BC22] section 4.2; [KOV15].

    Epsilon and delta are for the unit (delta None or 0 for a mechanism with delta = 0); `mechanism` names the one whose
    law single counts have; `rate` None is the best one.
    """

    kind: ClassVar[str] = "ranges"
    summary: ClassVar[str] = "bins"
    drawn_by: ClassVar[str] = "ranges"

    def __init__(self, grid: Grid, epsilon: object, delta: object, *, mechanism: str, rate: object = None) -> None:
        made = make_tree_law(epsilon, delta, levels=grid.levels, mechanism=mechanism, rate=rate)
        super().__init__(
            f"{mechanism}_tree",
            made.law,
            lambda: made.certificate,
            epsilon=made.epsilon,
            delta=made.delta,
            parts=(law_part(made.law, grid.levels),),
        )
        self.grid = grid

    @property
    def parameters(self) -> Mapping[str, Any]:
        """The grid."""
        return {"grid": self.grid}

    def result(self, outputs: Sequence[Any]) -> dict[str, Any]:
        """Values of the nodes, level by level."""
        return {"grid": self.grid, "values": outputs[-1]}


class SearchSpec(Spec):
    """Find one quantile in rounds, each of which sees what earlier ones released; see `QuantileRounds`."""

    kind: ClassVar[str] = "quantile"
    summary: ClassVar[str] = "bins"
    drawn_by: ClassVar[str] = "ranges"

    def __init__(self, search: QuantileRounds) -> None:
        certificate = search.certificate
        super().__init__(
            f"{search.mechanism}_search",
            search.law,
            lambda: certificate,
            epsilon=search.epsilon,
            delta=search.delta,
            parts=(law_part(search.law, search.rounds),),
        )
        self.grid = search.grid
        self._start = search.to_dict()
        self._search, self._received = search, 0

    def _after(self, outputs: Sequence[Any]) -> Any:
        """The open question after these outputs, or the answer."""
        if len(outputs) < self._received:
            self._search, self._received = QuantileRounds.from_dict(self._start), 0
        for counts in outputs[self._received :]:
            self._search.receive(counts)
        self._received = len(outputs)
        return self._search.start()

    def next(self, outputs: Sequence[Any]) -> Question | None:
        """The next threshold."""
        step = self._after(outputs)
        if not isinstance(step, Round):
            return None
        asked = {"grid": self.grid, "split": step.split}
        return Question(self.law, self.certificate, summary="bins", parameters=asked)

    def answer(self, outputs: Sequence[Any], guarantee: Guarantee) -> Any:
        """The quantile that all outputs together give."""
        return replace(self._after(outputs), guarantee=guarantee)
