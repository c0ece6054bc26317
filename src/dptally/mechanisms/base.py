"""What every mechanism offers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

    from dptally.laws.base import Law
    from dptally.laws.sampling_schemes import Scheme
    from dptally.privacy.guarantee import Guarantee
    from dptally.randomness import BitSource
    from dptally.verifiers.tables import Certificate

__all__ = ["Counted", "Drawn", "Mechanism"]


class Counted(Protocol):
    """Private keys with counts whose contributions have been bounded, as `dptally.summaries` makes them."""

    key: tuple[str, ...]
    unit: str | None
    max_keys_per_unit: int

    @property
    def scheme(self) -> Scheme | None:
        """How the keys were sampled, or None if all are there."""

    def batches(self) -> Iterator[tuple[pa.RecordBatch, NDArray[np.int64]]]:
        """Distinct keys and their counts, each key once."""


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
    law: Law


class Mechanism(Protocol):
    """Draws a public table from private frequencies. Ready, and certified, once it exists."""

    def draw(self, frequencies: Counted, bits: BitSource) -> Drawn:
        """Draw once. Refuses frequencies whose contributions were not bounded as the mechanism needs."""
