"""Gaussian noise on every count, hidden below a threshold: for units with many keys."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from dptally.laws.audits import BOTH_CONTROLS, Audits, Exact
from dptally.laws.gaussian_histogram import GaussianHistogram
from dptally.laws.spec import Mechanism, Request, Spec
from dptally.privacy.spending import Part


@dataclass(frozen=True)
class Gaussian(Mechanism):
    """Add noise for all keys of a unit at once, instead of sharing the budget among them.

    Guarantee:
        (epsilon, delta)-differential privacy for adding or removing one unit that raises the counts of at most
        `max_keys_per_unit` keys by one each; see `certify_gaussian_table`. Which keys of a unit are counted is chosen
        from that unit's rows alone, as for `OneLaw`.

    Error:
        Noise grows with the square root of `max_keys_per_unit`, not with `max_keys_per_unit` itself.

    References:
        [LT25, Thm. 23].
    """

    name: ClassVar[str] = "gaussian"
    title: ClassVar[str] = "Gaussian sparse histogram"
    summary: ClassVar[str] = "Gaussian noise for all keys of a unit at once, released where it reaches a threshold"
    because: ClassVar[str] = "its noise grows only with the root of the keys per unit"
    references: ClassVar[tuple[str, ...]] = ("WKZK24", "LT25")
    audits: ClassVar[Audits] = Audits(exact=(Exact("rows of a unit", 3),), controls=BOTH_CONTROLS)
    automatic: ClassVar[bool] = True
    cluster: ClassVar[Literal["rows"]] = "rows"

    def spec(self, request: Request) -> Spec:
        """See `Mechanism.spec`."""
        delta = self._checked(request)
        law = GaussianHistogram(request.epsilon, delta, request.max_keys_per_unit)
        return Spec(
            self.name,
            law,
            law.certify,
            epsilon=request.epsilon,
            delta=delta,
            parts=(Part(request.epsilon, delta),),
            max_keys_per_unit=request.max_keys_per_unit,
        )
