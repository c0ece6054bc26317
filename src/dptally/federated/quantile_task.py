"""The task of several rounds: which value does a share q of the devices not exceed?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any

from dptally.errors import InvalidParameter
from dptally.federated.protocol import Round
from dptally.laws.quantile_search import QuantileAnswer, QuantileRounds
from dptally.laws.quantile_search import Round as Question
from dptally.laws.quantile_search import answer as answer_question
from dptally.laws.specs.sample_and_threshold import SampleAndThreshold as SampleAndThresholdMechanism
from dptally.privacy.guarantee import Guarantee
from dptally.privacy.spending import Spending
from dptally.universes.grids import Grid


@dataclass(frozen=True)
class FederatedQuantile:
    """What a search found, with its guarantee."""

    found: QuantileAnswer
    guarantee: Guarantee

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        found = {name: str(getattr(self.found, name)) for name in ("q", "estimate", "lower", "upper", "confidence")}
        spent = {"epsilon": str(self.guarantee.epsilon), "delta": str(self.guarantee.delta)}
        return {**found, **spent, "private": self.guarantee.private, "guarantee_text": str(self.guarantee)}


class QuantileSearchRounds:
    """A public interval is halved: in each round devices say, by a fresh coin, on which side their value is.

    Guarantee:
        (epsilon, delta)-differential privacy for adding or removing one device, for all rounds together, by the
        optimal composition theorem; each round keeps its share.

    References:
        [BC22, Lemma 8].

    Args:
        grid: of the values; `dptally.universes.grids.make_grid`.
        q: from 0 to 1.
        epsilon: for the device, for all rounds.
        delta: for the device, for all rounds.
        rounds: how many at most; None for as many as the grid needs.
        confidence: of the bounds.
    """

    task = "quantile"

    def __init__(
        self,
        grid: Grid,
        q: object,
        epsilon: object,
        delta: object,
        *,
        rounds: int | None = None,
        confidence: object = 0.95,
    ) -> None:
        self._search = QuantileRounds(
            grid,
            q,
            epsilon=epsilon,
            delta=delta,
            mechanism=SampleAndThresholdMechanism.name,
            rounds=rounds,
            confidence=confidence,
        )
        self._parameters = {name: part for name, part in self._search.to_dict().items() if name != "received"}

    @property
    def spends(self) -> Spending:
        """What all rounds together spend."""
        return self._search.spends

    def start(self) -> Round | FederatedQuantile:
        """The first question."""
        self._search = QuantileRounds.from_dict({**self._parameters, "received": []})
        return self._step(self._search.start())

    def receive(self, sampled: Mapping[bytes, int]) -> Round | FederatedQuantile:
        """The next question, or the quantile."""
        return self._step(self._search.receive((sampled.get(b"0", 0), sampled.get(b"1", 0))))

    def _step(self, step: Question | QuantileAnswer) -> Round | FederatedQuantile:
        if isinstance(step, QuantileAnswer):
            named = step.drawn_for("device", private=True)
            return FederatedQuantile(named, named.guarantee)
        law = self._search.law
        if law.rate is None:
            raise InvalidParameter("a federated search samples and applies a threshold.")
        return Round.of_law(law, task=self.task, number=step.number, key_bytes=1, question=step.to_dict())

    def accepts(self, vote: bytes, asked: Round) -> bool:
        """Whether a vote says "below" or "not below"."""
        return vote in (b"0", b"1")

    def to_dict(self) -> dict[str, Any]:
        """Its parameters."""
        return dict(self._parameters)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> QuantileSearchRounds:
        """From parameters as `to_dict` gives them."""
        made = cls.__new__(cls)
        made._search = QuantileRounds.from_dict({**data, "received": []})
        made._parameters = dict(data)
        return made

    @staticmethod
    def answer(value: Any, asked: Round) -> bytes | None:
        """The side of the device's value, or None where it has none that counts."""
        question = Question.from_dict(dict(asked.question))
        side = answer_question(_parsed(value, question.grid.kind), question)
        return None if side is None else b"%d" % side


def _parsed(value: Any, kind: str) -> Any:
    """A value as its grid takes it; None for text that is no such value."""
    if not isinstance(value, str):
        return value
    readers = {"date": date.fromisoformat, "timestamp": datetime.fromisoformat}
    try:
        return readers.get(kind, float)(value)
    except ValueError:
        return None
