"""The privacy profile of a release in stages: the function W_0 that was declared before its first stage.

Statement. Let P and Q be the laws of everything a release shows under two neighbours, in either order, and let every
stage have been accepted by `dptally.verifiers.key_rounds`. For every z > 0 the divergence at a = e^epsilon z is

    H_a(P, Q) = E_P max(0, 1 - e^epsilon z Q/P) = E_P W_end(z Q/P) <= W_0(z).

Proof. It is the proof of that module with z instead of 1 at the beginning: stages are compared with their functions at
every z, so the expected value of W_j at z times the likelihood ratio never grows. A release that ends early shows less:
W_j >= W_end for every j. So W_0(z) is delta at epsilon + ln z, for the same release, whatever was chosen on the way.

Rounding. W_0 does not increase and is convex; between two of its points it lies below their chord. A factor is replaced
by a smaller one, and its place on the chord by one further to the left, so that what is returned is above W_0.
"""

from __future__ import annotations

import base64
import math
from bisect import bisect_right
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

from dptally.errors import InvalidParameter, PrivacyViolation
from dptally.verifiers.key_rounds import COARSE, UNIT, Scale, check_function
from dptally.verifiers.loss_measures import ONE
from dptally.verifiers.profiles import Profile
from dptally.verifiers.tables import exp_lower, exp_upper

__all__ = ["DeclaredProfile"]

_NAME = "DeclaredProfile"  # in ledgers: its meaning never changes
_ENTRY = 16
_FINE = 1 << 192
_MOST_POINTS = 4096  # what the last one bounds, it bounds for all larger factors
_REFUSED = "a part of an event has a profile that cannot be accounted for."


@dataclass(frozen=True)
class DeclaredProfile:
    """W_0 of a release, as plain data that a ledger keeps."""

    epsilon: Fraction  # that W_0 belongs to
    delta: Fraction  # W_0(1) is at most this
    scale: Scale
    function: tuple[int, ...]  # at every eighth point, in units of 2^-120

    rate: ClassVar[None] = None

    def __post_init__(self) -> None:
        check_function(self.function, self.scale)
        if Fraction(self.function[self.scale.below // COARSE], UNIT) > self.delta:
            raise PrivacyViolation("a declared function exceeds delta at epsilon.")

    def facts(self) -> tuple[tuple[str, Any], ...]:
        """As the law of a part of an event."""
        packed = b"".join(value.to_bytes(_ENTRY, "little") for value in self.function)
        named = {
            "name": _NAME,
            "epsilon": str(self.epsilon),
            "delta": str(self.delta),
            "density": self.scale.density,
            "below": self.scale.below,
            "above": self.scale.above,
            "function": base64.b64encode(packed).decode(),
        }
        return tuple(sorted(named.items()))

    @classmethod
    def from_facts(cls, facts: dict[str, Any]) -> DeclaredProfile:
        """Back from plain data; InvalidParameter if it is no function, or exceeds delta at epsilon."""
        try:
            packed = base64.b64decode(facts["function"], validate=True)
            values = tuple(int.from_bytes(packed[at : at + _ENTRY], "little") for at in range(0, len(packed), _ENTRY))
            scale = Scale(facts["density"], facts["below"], facts["above"])
            return cls(Fraction(facts["epsilon"]), Fraction(facts["delta"]), scale, values)
        except (KeyError, TypeError, ValueError, ArithmeticError, PrivacyViolation):
            raise InvalidParameter(_REFUSED) from None

    def profile(self, step: Fraction) -> Profile:
        """Upper bounds of the divergence at e^(j step), j = 0, 1, ...; of either order alike."""
        scale = self.scale
        lows, highs = (powers[scale.points - scale.below :: COARSE] for powers in scale.powers)
        high, high_one = exp_upper(self.epsilon)
        found: list[int] = []
        for j in range(_MOST_POINTS):
            low, low_one = exp_lower(j * step)
            factor = _FINE * low * high_one // (low_one * high)  # e^(j step - epsilon) at least, in units of 2^-192
            place = bisect_right(highs, factor, hi=len(self.function)) - 1
            found.append(min(ONE, self._above(factor, place, lows, highs), *found[-1:]))
            if place == len(self.function) - 1:  # constant from here on
                break
        return found, list(found)

    def _above(self, factor: int, place: int, lows: list[int], highs: list[int]) -> int:
        """An upper bound of W_0 at or beyond `factor`, which lies at or after the point of this place."""
        if place == len(self.function) - 1:
            value = Fraction(self.function[-1])
        elif place < 0:  # on the line from (0, 1) to the first point
            value = UNIT - (UNIT - self.function[0]) * min(Fraction(1), Fraction(factor, highs[0]))
        else:
            here, after = self.function[place], self.function[place + 1]
            value = here - (here - after) * min(
                Fraction(1), Fraction(factor - highs[place], highs[place + 1] - lows[place])
            )
        return math.ceil(value * ONE / UNIT)
