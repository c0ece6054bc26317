"""What a part of the evaluation is, what it is told, and what it finds."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

__all__ = ["Outcome", "Part", "Settings"]


@dataclass(frozen=True)
class Settings:
    """How much is done.

    Attributes:
        kills: processes killed while they publish.
        writers: processes on one ledger.
        seconds: how long they spend as fast as they can.
        publishes: releases over which the cost of a ledger is measured.
        seed: of the moments at which processes are killed.
    """

    kills: int = 300
    writers: int = 16
    seconds: float = 60.0
    publishes: int = 100
    seed: int = 1

    def moments(self, part: str) -> random.Random:
        """Random numbers for a part: which moments are tried is no secret."""
        return random.Random(f"{self.seed} {part}")  # noqa: S311


@dataclass
class Outcome:
    """What a part found.

    Attributes:
        counts: how often what happened.
        measured: figures.
        violations: every invariant that did not hold, a sentence each.
        skipped: why it could not be run here, if it could not.
    """

    counts: Counter[str] = field(default_factory=Counter)
    measured: dict[str, Any] = field(default_factory=dict)
    violations: list[str] = field(default_factory=list)
    skipped: str | None = None

    def blame(self, where: str, found: list[str]) -> None:
        """Note what did not hold, and where."""
        self.violations += [f"{where}: {violation}" for violation in found]

    def facts(self) -> dict[str, Any]:
        """As plain data."""
        return {
            "counts": dict(self.counts),
            "measured": self.measured,
            "violations": self.violations,
            "skipped": self.skipped,
        }


@dataclass(frozen=True)
class Part:
    """One thing that goes wrong.

    Attributes:
        name: for the command line.
        what: what is done, as the report says it.
        run: does it in a fresh directory and says what it found.
    """

    name: str
    what: str
    run: Callable[[Settings, Path], Outcome]
