"""Heavy hitters of strings, level by level over a tree of prefixes, each level from a fresh secret sample."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from dptally.laws.prefix_plans import MECHANISM, TriePlan
from dptally.laws.prefix_rounds import TrieRounds
from dptally.laws.spec import Question, Spec

if TYPE_CHECKING:
    import pyarrow as pa


class PrefixSpec(Spec):
    """TrieHH++ with exact accounting: which prefixes are frequent, and how frequent, at every level.

    At each level every unit whose value extends a released prefix is kept by a fresh coin, and extensions of which at
    least a threshold of units were kept are released with that count.

    Guarantee:
        (epsilon, delta)-differential privacy for adding or removing one unit, which has one value. At each level the
        unit counts once, for one node; levels are added up by `dptally.verifiers.rounds`, which holds for every way in
        which a level may depend on what was released before.

    Error:
        A value of count w is released if it and all its prefixes are; each is, independently, with probability
        P[Binomial(w', p) >= t], where w' >= w is the number of units of the prefix. Bounds as in `SampleAndThreshold`.
    Cost:
        Distinct values are held in memory. About two random bits per unit and level.

    References:
        [BC22] section 4.1, whose Lemma 7 is basic composition.
    """

    kind: ClassVar[str] = "prefixes"
    summary: ClassVar[str] = "strings"
    drawn_by: ClassVar[str] = "prefixes"

    def __init__(self, plan: TriePlan) -> None:
        super().__init__(
            MECHANISM,
            plan.observation_model,
            lambda: plan.law.certificate,
            epsilon=plan.epsilon,
            delta=plan.delta,
            parts=plan.spends.parts,
        )
        self.plan = plan
        self._rounds, self._received = TrieRounds(plan, unit=None, private=False), 0

    def _after(self, outputs: Sequence[Any]) -> TrieRounds:
        """The rounds after these outputs, of which those that were seen before are not received again."""
        if len(outputs) < self._received:
            self._rounds, self._received = TrieRounds(self.plan, unit=None, private=False), 0
        for counts in outputs[self._received :]:
            self._rounds.receive(counts)
        self._received = len(outputs)
        return self._rounds

    def next(self, outputs: Sequence[Any]) -> Question | None:
        """The next level."""
        asked = self._after(outputs).round
        if asked is None:
            return None
        return Question(self.law, self.certificate, summary="strings", parameters={"round": asked})

    def result(self, outputs: Sequence[Any]) -> dict[str, Any]:
        """The nodes that all outputs together have reported."""
        return {"plan": self.plan, "nodes": self._after(outputs).nodes}

    def assumed_keys(self, key: Sequence[str] | None) -> pa.Schema | None:
        """The type of values that have no declared one: that of the domain."""
        import pyarrow as pa

        return pa.schema([((key or ["key"])[0], pa.uint64())]) if self.plan.domain.name == "bits" else None
