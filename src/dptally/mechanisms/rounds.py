"""Rounds of keys: noisy sizes of units, keys by a yes or no, counts of those that were found."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dptally.exact.integer_columns import integer_column, integers
from dptally.mechanisms import independent_keys
from dptally.mechanisms.base import without_metadata

if TYPE_CHECKING:
    import pyarrow as pa

    from dptally.laws.spec import Question
    from dptally.randomness import BitSource
    from dptally.summaries.pair_values import KeyStatistics

__all__ = ["draw"]


def draw(question: Question, summary: Any, bits: BitSource) -> Any:
    """Counts of units by size become noisy counts; sums of weights, or counts of found keys, become rows of keys."""
    if question.summary == "unit_sizes":
        return question.law.draw(summary.counts, bits)
    if question.summary == "found_statistics":
        return _draw_statistics(question, summary, bits)
    return independent_keys.draw(question, summary, bits)


def _draw_statistics(question: Question, summary: KeyStatistics, bits: BitSource) -> tuple[pa.Table, dict[str, Any]]:
    """Found keys with a value, in their order, and every noisy number by its name.

    Found keys are public, so noise can be drawn for them in their order: a seed finds the same numbers everywhere.
    """
    import pyarrow.compute as pc

    law = question.law.statistics
    keys = without_metadata(summary.keys)
    order = pc.sort_indices(keys, sort_keys=[(column, "ascending") for column in summary.key])
    places = integers(order.cast("int64"))
    sums = {part.name: summary.sums[part.name][places] for part in law.of_keys}
    sums |= {part.name: summary.sums[part.name] for part in law.of_all}
    numbers = law.draw(sums, question.law.certify(), bits)
    values = np.maximum(numbers[law.counts.name] * law.counts.grain, 1)
    return keys.take(order).append_column("value", integer_column(values)), numbers
