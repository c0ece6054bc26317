"""What a round is, what a task of several rounds offers, and which tasks there are.

A task (`Rounds`) asks the devices one question after the other. Each question is a `Round`: public, sent to everybody.
A device answers with at most one vote, a short byte string, and takes part by a secret coin of its own. The server adds
votes up, drops every count below the round's threshold, and hands what is left to the task, which asks its next
question or is done. So a task sees released counts only, and whatever it keeps is public.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from fractions import Fraction
from typing import Any, Protocol, runtime_checkable

from dptally.errors import InvalidParameter
from dptally.exact import as_count, as_delta, as_epsilon

RATE_UNIT = 1 << 32
LARGEST_VOTE = 4096  # bytes
_LARGEST_ROUND = 10_000
_LARGEST_THRESHOLD = 1_000_000


@dataclass(frozen=True)
class Round:
    """One question to all devices. Everything in it is public.

    Attributes:
        task: name of the task, by which a client knows how to answer.
        number: 1 for the first round of the task.
        rate: the probability of taking part, in units of 2^-32.
        threshold: the smallest count that is released.
        epsilon: what this round spends, for adding or removing one device.
        delta: what this round spends.
        key_bytes: the longest vote; every vote and every abstention is sent padded to it.
        question: plain data for JSON: what the task wants to know.
    """

    task: str
    number: int
    rate: int
    threshold: int
    epsilon: Fraction
    delta: Fraction
    key_bytes: int
    question: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not isinstance(self.task, str) or not self.task:
            raise InvalidParameter("task must be the name of a task.")
        as_count("number", self.number, largest=_LARGEST_ROUND)
        as_count("rate", self.rate, largest=RATE_UNIT - 1)
        as_count("threshold", self.threshold, largest=_LARGEST_THRESHOLD)
        as_count("key_bytes", self.key_bytes, largest=LARGEST_VOTE)
        object.__setattr__(self, "epsilon", as_epsilon(self.epsilon))
        object.__setattr__(self, "delta", as_delta(self.delta))
        if not isinstance(self.question, Mapping):
            raise InvalidParameter("question must be a mapping of plain data.")

    @classmethod
    def of_law(cls, law: Any, **parts: Any) -> Round:
        """The round of a law that samples and applies a threshold."""
        rate = int(law.rate * RATE_UNIT)
        return cls(rate=rate, threshold=law.threshold, epsilon=law.epsilon, delta=law.delta, **parts)

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON; fractions are text."""
        fractions = {"epsilon": str(self.epsilon), "delta": str(self.delta)}
        return {**vars(self), **fractions, "question": dict(self.question)}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Round:
        """The round that `to_dict` describes."""
        names = [part.name for part in fields(cls)]
        if not isinstance(data, Mapping) or set(data) != set(names):
            raise InvalidParameter(f"a round has the parts {', '.join(names)} and no others.")
        return cls(**data)


@runtime_checkable
class Rounds(Protocol):
    """A task of one or several rounds.

    The first three methods run on the server, `answer` on the client. A task must be a function of its parameters and
    of the counts it receives: a server that was killed makes it again from `to_dict` and hands it the released counts
    of the finished rounds once more.

    A task whose rounds spend less together than their sum may have a property `spends`, a
    `dptally.privacy.accounting.Spending` for all of its rounds, each asked once: a ledger is then paid once for all.

    Attributes:
        task: the name it is registered by.
    """

    task: str

    def start(self) -> Any:
        """The first `Round`; or the result, where there is nothing to ask."""

    def receive(self, sampled: Mapping[bytes, int]) -> Any:
        """Take the counts of the running round, in the order of votes, none below its threshold.

        Returns:
            The next `Round`, or anything else: the task's result. A result with a `guarantee` is marked as not private
            where some coin was seeded.
        """

    def accepts(self, vote: bytes, asked: Round) -> bool:
        """Whether a vote is one that the round asked for; all others are dropped before they are counted."""

    def to_dict(self) -> dict[str, Any]:
        """Its parameters, public, as plain data for JSON; ``from_dict`` makes the task before its first round of it."""

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Rounds:
        """The task that `to_dict` describes."""

    @staticmethod
    def answer(value: Any, asked: Round) -> bytes | None:
        """The vote of a device that holds `value`, as its table has it (text, from CSV); None for no vote.

        It must look at nothing but its two arguments: each device votes for itself.
        """


_TASKS: dict[str, str | type[Rounds]] = {
    "heavy_hitters": "dptally.federated.prefix_task:HeavyHitterRounds",
    "histogram": "dptally.federated.histogram:HistogramRounds",
    "quantile": "dptally.federated.quantile_task:QuantileSearchRounds",
}


def register_task(name: str, rounds: type[Rounds]) -> None:
    """Make a task known by the name in `Round.task`, in this process. A client answers tasks it knows and no others."""
    if _TASKS.get(name, rounds) is not rounds:
        raise InvalidParameter(f"there is a task named {name!r} already.")
    _TASKS[name] = rounds


def task_named(name: str) -> type[Rounds]:
    """The class of a task."""
    found = _TASKS.get(name) if isinstance(name, str) else None
    if found is None:
        raise InvalidParameter(f"there is no task named {name!r}; known are {', '.join(sorted(_TASKS))}.")
    if isinstance(found, str):
        module, _, attribute = found.partition(":")
        known: type[Rounds] = getattr(importlib.import_module(module), attribute)
        return known
    return found


def read_rounds(data: Mapping[str, Any]) -> Rounds:
    """The task that plain data describes: its name under "task", and its parameters."""
    return task_named(data.get("task", "")).from_dict({name: part for name, part in data.items() if name != "task"})
