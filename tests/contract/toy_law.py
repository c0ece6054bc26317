"""A mechanism from outside, public half: keys of count 1 are never reported, all others by a biased coin."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from dptally.laws.base import Parameters
from dptally.laws.finite import WHOLE, FiniteLaw
from dptally.laws.spec import Mechanism, Request, Spec, option
from dptally.laws.specs.copies import OneLaw
from dptally.privacy.composition import share_between_keys


class CoinLaw(FiniteLaw):
    """A key of count w is reported, with value 1, with probability delta min(w, steps)."""

    name: ClassVar[str] = "coin"
    stored_as: ClassVar[str] = "CoinLaw"
    parameters: ClassVar[Parameters] = {"epsilon": str, "delta": str, "steps": int}

    def __init__(self, epsilon: object, delta: object, steps: int = 5) -> None:
        super().__init__(epsilon, delta)
        self.steps = steps

    @property
    def largest(self) -> int:
        """The chance grows no more from here on."""
        return self.steps

    def masses(self, count: int) -> Sequence[int]:
        """Not reported, or the value 1."""
        reported = count * int(self.delta * WHOLE)
        return WHOLE - reported, reported


@dataclass(frozen=True)
class Coin(Mechanism):
    """Report keys by a coin."""

    name: ClassVar[str] = "coin"
    title: ClassVar[str] = "A coin"
    summary: ClassVar[str] = "keys by a coin"

    steps: int = option("how many steps the chance grows", 5)

    def spec(self, request: Request) -> Spec:
        """The law of one key, as often as a unit has keys."""
        share = share_between_keys(request.epsilon, self._checked(request), request.max_keys_per_unit)
        return OneLaw(self.name, CoinLaw(*share, steps=self.steps), request)
