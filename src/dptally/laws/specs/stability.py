"""The stability-based histogram: noise and a threshold for every key that occurs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from dptally.laws.audits import BOTH_CONTROLS, Audits, Exact
from dptally.laws.spec import Mechanism, Request, Spec
from dptally.laws.specs.copies import OneLaw
from dptally.laws.stability import Stability as StabilityLaw
from dptally.privacy.composition import share_between_keys


@dataclass(frozen=True)
class Stability(Mechanism):
    """Add two-sided geometric noise to every count, and release those that reach a threshold.

    Guarantee:
        (epsilon, delta)-differential privacy for adding or removing one unit; see `OneLaw`. The mechanism
        `WeightedSample` releases every count at least as often; this one is here for its values, which are centred on
        the count and have no upper end.

    References:
        [BV19] section 5.4, with the smallest threshold that keeps delta.
    """

    name: ClassVar[str] = "stability"
    title: ClassVar[str] = "Stability-based histogram"
    summary: ClassVar[str] = "geometric noise on every count, released where it reaches a threshold"
    references: ClassVar[tuple[str, ...]] = ("BV19",)
    audits: ClassVar[Audits] = Audits(exact=(Exact("rows", 3),), epsilons=(0.08, 4), controls=BOTH_CONTROLS)
    keys_only: ClassVar[bool] = True
    cluster: ClassVar[Literal["rows"]] = "rows"

    def spec(self, request: Request) -> Spec:
        """See `Mechanism.spec`."""
        share = share_between_keys(request.epsilon, self._checked(request), request.max_keys_per_unit)
        return OneLaw(self.name, StabilityLaw(*share, values=request.values), request)
