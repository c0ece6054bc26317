"""How far a released sketch can be from frequencies, for all keys at once: what noise adds, what sketching takes."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from dptally.errors import InvalidParameter
from dptally.estimates.frequencies import as_confidence
from dptally.laws.base import Law
from dptally.laws.shortfall import Shortfall
from dptally.privacy.guarantee import Guarantee

__all__ = ["SketchError", "sketch_error"]


@dataclass(frozen=True)
class SketchError:
    """Bounds that hold for all keys at once.

    A released key of value v has a frequency from v - `over` to v + `under` + `sketch`. A key that was not released has
    a frequency of at most `hidden` + `sketch`.

    Attributes:
        over: how much noise may have added to a counter.
        under: how much noise may have taken from a counter.
        hidden: the largest counter that noise and threshold may hide.
        sketch: how far counters may fall short of frequencies; None if the release does not tell.
        confidence: of all bounds together.
    """

    over: int
    under: int
    hidden: int
    sketch: int | None
    confidence: float

    def __str__(self) -> str:
        text = (
            f"With {100 * self.confidence:.6g} % confidence for all keys at once: noise added at most {self.over:,} to "
            f"a counter and took at most {self.under:,}; counters up to {self.hidden:,} may be hidden"
        )
        if self.sketch is None:
            return text + "; how far the sketch falls short of frequencies is not told."
        return text + f"; the sketch falls short of frequencies by at most {self.sketch:,}."


def sketch_error(law: Law, guarantee: Guarantee, shortfall: Shortfall | None, confidence: object) -> SketchError:
    """The exact form of [LT25, Thm. 14, Lem. 26, Thm. 30] for the law that was drawn from.

    A tenth of the allowed error beta goes to the private estimate of the shortfall. The rest is divided among the
    counters, of which a sketch has `guarantee.sketch_capacity` and each of several summed ones has so many: noise
    exceeds the bound at one of them with probability at most the sum over them.
    """
    if guarantee.sketch_capacity is None:
        raise InvalidParameter("this release was not made from a sketch; its table has the bounds of each key.")
    level = as_confidence(confidence)
    beta = (1 - level) * (Fraction(9, 10) if shortfall is not None else 1)
    counters = guarantee.sketch_capacity * guarantee.sketches
    over, under, hidden = law.counter_error(beta, counters)
    sketch = None if shortfall is None else shortfall.upper((1 - level) / 10)
    return SketchError(over, under, hidden, sketch, float(level))
