"""Report every key independently of the others, from one certified law."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from dptally.errors import InvalidParameter
from dptally.exact.integer_columns import integer_column
from dptally.mechanisms.base import Counted, in_order_of_keys, without_metadata
from dptally.randomness.keyed import KeyedWords, draw_secret

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray

    from dptally.laws.spec import Question
    from dptally.randomness import BitSource

__all__ = ["draw", "reported"]


def draw(question: Question, summary: Counted, bits: BitSource) -> pa.Table:
    """Draw once for every distinct key, and keep what is reported: key columns and "value", in the order of keys.

    Rows are copied out of the batches they came in, so no unreported key stays reachable from the result. Engines hand
    out keys in an order of their own that may change from run to run. Secret bits do not care; seeded bits are turned
    into words that belong to the key (`KeyedWords`), so that a seed repeats its release on every engine.
    """
    import pyarrow as pa

    sample = _sampler(question.law, summary)
    keyed = None if bits.private else KeyedWords(draw_secret(bits), private=False)
    parts = [
        reported(keys, sample(counts, bits if keyed is None else keyed.of_rows(keys.columns)))
        for keys, counts in summary.batches()
    ]
    rows = pa.concat_tables(parts).combine_chunks()
    return in_order_of_keys(without_metadata(rows), summary.key)


def reported(keys: pa.RecordBatch, values: NDArray[np.int64]) -> pa.Table:
    """The keys whose value is not 0, with it; also none of them, as the schema must survive a batch without reports."""
    import pyarrow as pa

    kept = np.flatnonzero(values)
    part = pa.Table.from_batches([keys]).take(integer_column(kept))
    return part.append_column("value", integer_column(values[kept]))


def _sampler(law: Any, summary: Counted) -> Callable[[NDArray[np.int64], BitSource], NDArray[np.int64]]:
    """How the counts of these keys are drawn for: all of the law, or the rest of it where a sample was taken before.

    Raises:
        InvalidParameter: the keys or rows were sampled in another way than the law was made for.
    """
    rate = getattr(summary, "sampled_at", None)
    if summary.scheme is None and rate is None:
        return law.draw  # type: ignore[no-any-return]
    if summary.scheme is not None and summary.scheme == law.scheme:
        return law.draw_given_sampled  # type: ignore[no-any-return]
    if rate is not None and rate == getattr(law, "rate", None):
        return lambda counts, bits: law.report(counts)
    raise InvalidParameter("the keys were sampled in another way than the law was made for.")
