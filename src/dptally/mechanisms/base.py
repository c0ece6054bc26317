"""What every mechanism offers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import pyarrow as pa

    from dptally.observation_models import WeightedSample
    from dptally.privacy import Certificate, Guarantee
    from dptally.randomness import BitSource
    from dptally.summaries.frequencies import Frequencies

__all__ = ["Drawn", "Mechanism"]


@dataclass(frozen=True, repr=False)
class Drawn:
    """What a mechanism lets out: public from here on.

    Attributes:
        rows: the key columns and an int64 column "value", sorted by key, sharing no memory with private data.
        guarantee: what is promised.
        certificate: the judge's finding on the table the values were drawn from.
        law: the law of the values, for estimates.
    """

    rows: pa.Table
    guarantee: Guarantee
    certificate: Certificate
    law: WeightedSample


class Mechanism(Protocol):
    """Draws a public table from private frequencies. Ready, and certified, once it exists."""

    def draw(self, frequencies: Frequencies, bits: BitSource) -> Drawn:
        """Draw once. Refuses frequencies whose contributions were not bounded as the mechanism needs."""
