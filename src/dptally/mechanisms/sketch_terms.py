"""What all releases of sketches agree on: what a unit may hold, what is promised, and how a shortfall is told."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Literal

from dptally.estimates.shortfall import Shortfall
from dptally.exact import as_count
from dptally.mechanisms.private_total import draw_total, noise_scale
from dptally.privacy.guarantee import Guarantee

if TYPE_CHECKING:
    from dptally.randomness import BitSource
    from dptally.summaries.sketch_contents import SketchContents

__all__ = ["ShortfallChoice", "SketchTerms", "sketch_terms"]

ShortfallChoice = Literal["private"] | int | None
_SHARE = Fraction(1, 20)


@dataclass(frozen=True)
class SketchTerms:
    """The terms of a release; made by `sketch_terms`.

    A share of epsilon, a twentieth, goes to telling how far the sketch falls short, where that is to be estimated
    privately. One element more changes the number that is told by at most one, so with m elements per unit its noise
    is that of epsilon / m.

    Attributes:
        epsilon: for the unit, all of it.
        delta: for the unit.
        elements_per_unit: how many elements of one unit the stream may hold.
        spent: the part of epsilon that goes to the shortfall.
        stated: the shortfall, where the owner states it publicly.
    """

    epsilon: Fraction
    delta: Fraction
    elements_per_unit: int
    spent: Fraction
    stated: int | None

    @property
    def rest(self) -> Fraction:
        """What counters may spend of epsilon."""
        return self.epsilon - self.spent

    def guarantee(
        self, *, capacity: int, sketches: int, private: bool, unit: str | None = None, max_keys_per_unit: int = 1
    ) -> Guarantee:
        """What the release promises."""
        return Guarantee(
            epsilon=self.epsilon,
            delta=self.delta,
            unit=unit,
            max_keys_per_unit=max_keys_per_unit,
            mechanism="misra_gries",
            spent_on_shortfall=self.spent,
            sketch_capacity=capacity,
            sketches=sketches,
            elements_per_unit=self.elements_per_unit,
            private=private,
        )

    def shortfall(self, contents: SketchContents, bits: BitSource, *, more: int = 0) -> Shortfall | None:
        """How far counters fall short: estimated, as stated, or left open.

        Args:
            contents: of the sketch.
            bits: to draw from.
            more: by how many more counters may fall short than the sketch knows.
        """
        if self.spent:
            step = self.spent / self.elements_per_unit
            reported = draw_total(contents.missing + more * contents.missing_parts, step, bits)
            return Shortfall(reported, noise_scale(step), contents.missing_parts)
        return None if self.stated is None else Shortfall(self.stated + more, 0, 1)


def sketch_terms(
    epsilon: Fraction, delta: Fraction, *, elements_per_unit: int, shortfall: ShortfallChoice
) -> SketchTerms:
    """Check what a release of a sketch takes beside epsilon and delta.

    Args:
        epsilon: for the unit, checked.
        delta: for the unit, checked.
        elements_per_unit: how many elements of one unit the stream may hold, equal ones or not.
        shortfall: "private" to estimate it; a number that the owner states publicly (the largest amount by which any
            counter may fall short); or None to leave it open.
    """
    stated: int | None = None
    if shortfall is not None and shortfall != "private":
        stated = as_count("shortfall", shortfall, smallest=0, largest=1 << 62)
    spent = epsilon * _SHARE if shortfall == "private" else Fraction(0)
    return SketchTerms(epsilon, delta, as_count("elements_per_unit", elements_per_unit, largest=10_000), spent, stated)
