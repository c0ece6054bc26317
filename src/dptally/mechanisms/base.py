"""What the private halves of mechanisms take and give.

The contract: ``draw(question, summary, bits)`` samples one output from ``question.law`` for a private summary. The
output is public from there on: it shares no memory with the summary, its rows are in the order of keys, and nothing of
the data but the draw decides its type. It is the only door from private to public, on one machine, in a partition of a
cluster and in a federation.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Protocol

from dptally.laws.sampling_schemes import Scheme
from dptally.laws.spec import Question
from dptally.randomness import BitSource

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray


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


class Draw(Protocol):
    """The private half of a mechanism."""

    def __call__(self, question: Question, summary: Any, bits: BitSource) -> Any:
        """Sample one output."""


def without_metadata(rows: pa.Table) -> pa.Table:
    """Names and types only: metadata of the source (pandas writes the number of rows there) stays behind."""
    import pyarrow as pa

    return rows.cast(pa.schema([pa.field(field.name, field.type) for field in rows.schema]))


def in_order_of_keys(rows: pa.Table, key: tuple[str, ...]) -> pa.Table:
    """The rows in the order of their keys, copied out of what they came in."""
    import pyarrow.compute as pc

    return rows.take(pc.sort_indices(rows, sort_keys=[(column, "ascending") for column in key]))
