"""Report every key independently of the others, from one certified law."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from dptally.errors import InvalidParameter
from dptally.exact.integer_columns import integer_column
from dptally.laws.base import Law
from dptally.laws.spec import Question
from dptally.mechanisms.base import Counted, in_order_of_keys, without_metadata
from dptally.randomness import BitSource
from dptally.randomness.keyed import KeyedWords, draw_secret

if TYPE_CHECKING:
    import pyarrow as pa


def draw(question: Question, summary: Counted, bits: BitSource) -> pa.Table:
    """Draw once for every distinct key, and keep what is reported: key columns and "value", in the order of keys.

    Rows are copied out of the batches they came in, so no unreported key stays reachable from the result. Engines hand
    out keys in an order of their own that may change from run to run. Secret bits do not care; seeded bits are turned
    into words that belong to the key (`KeyedWords`), so that a seed repeats its release on every engine.
    """
    import pyarrow as pa

    sampled = _was_sampled(question.law, summary)
    keyed = None if bits.private else KeyedWords(draw_secret(bits), private=False)
    parts = []
    for keys, counts in summary.batches():
        words = bits if keyed is None else keyed.of_rows(keys.columns)
        parts.append(draw_batch(question.law, keys, counts, words, sampled=sampled))
    rows = pa.concat_tables(parts).combine_chunks()
    return in_order_of_keys(without_metadata(rows), summary.key)


def draw_batch(
    law: Law, keys: pa.RecordBatch, counts: NDArray[np.int64], bits: BitSource, *, sampled: bool
) -> pa.Table:
    """Draw once for each key of a batch: the keys whose value is not 0, with it. On Spark and in federations too.

    Also none of them, as the schema must survive a batch without reports. With `sampled`, keys or rows were sampled
    before they were counted, as the law does, and only the rest of the law is left to draw.
    """
    import pyarrow as pa

    values = law.draw_given_sampled(counts, bits) if sampled else law.draw(counts, bits)
    kept = np.flatnonzero(values)
    part = pa.Table.from_batches([keys]).take(integer_column(kept))
    return part.append_column("value", integer_column(values[kept]))


def _was_sampled(law: Law, summary: Counted) -> bool:
    """Whether keys or rows were sampled as the law does; refuses those that were sampled in another way."""
    rate = getattr(summary, "sampled_at", None)
    if summary.scheme is None and rate is None:
        return False
    if summary.scheme not in (None, law.scheme) or rate not in (None, law.rate):
        raise InvalidParameter("the keys were sampled in another way than the law was made for.")
    return True
