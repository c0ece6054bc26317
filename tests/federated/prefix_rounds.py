"""A stand-in for tasks of several rounds: prefixes of texts, one letter longer in every round."""

from __future__ import annotations

import json
from collections.abc import Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any

from dptally.federated.protocol import RATE_UNIT, Round, register_task
from dptally.laws.sample_and_threshold import SampleAndThreshold


class Prefixes:
    """The prefixes that every round released."""

    def __init__(self, levels: list[dict[str, int]]) -> None:
        """Keep them."""
        self.levels = levels

    def save(self, path: Path, *, overwrite: bool = False) -> None:
        """Write them as JSON."""
        Path(path).write_text(json.dumps(self.levels))


class PrefixRounds:
    """Which prefixes are frequent? In round r devices vote for r letters, if r - 1 of them were released before."""

    task = "test_prefixes"

    def __init__(self, levels: int, epsilon: str, delta: str) -> None:
        """Keep the parameters."""
        self._levels, self._epsilon, self._delta = levels, epsilon, delta
        self._law = SampleAndThreshold(epsilon, delta)
        self._found: list[dict[str, int]] = []

    def start(self) -> Round:
        """The first round."""
        return self._round([""])

    def _round(self, prefixes: list[str]) -> Round:
        return Round(
            task=self.task,
            number=len(self._found) + 1,
            rate=int(self._law.rate * RATE_UNIT),
            threshold=self._law.threshold,
            epsilon=Fraction(self._epsilon),
            delta=Fraction(self._delta),
            key_bytes=16,
            question={"prefixes": prefixes},
        )

    def receive(self, sampled: Mapping[bytes, int]) -> Round | Prefixes:
        """Extend what was found."""
        self._found.append({vote.decode(): count for vote, count in sampled.items()})
        if len(self._found) == self._levels or not sampled:
            return Prefixes(self._found)
        return self._round(sorted(self._found[-1]))

    def accepts(self, vote: bytes, asked: Round) -> bool:
        """One letter more than a prefix that was asked for."""
        text = vote.decode(errors="replace")
        return len(text) == asked.number and text[:-1] in asked.question["prefixes"]

    def to_dict(self) -> dict[str, Any]:
        """The parameters."""
        return {"levels": self._levels, "epsilon": self._epsilon, "delta": self._delta}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> PrefixRounds:
        """The task with these parameters."""
        return cls(**data)

    @staticmethod
    def answer(value: Any, asked: Round) -> bytes | None:
        """The value's prefix of this round, if what comes before its last letter was asked for."""
        text = str(value)
        if len(text) < asked.number or text[: asked.number - 1] not in asked.question["prefixes"]:
            return None
        return text[: asked.number].encode()


register_task(PrefixRounds.task, PrefixRounds)
