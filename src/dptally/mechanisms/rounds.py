"""Rounds of keys: noisy sizes of units, keys by a yes or no, counts of those that were found."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dptally.mechanisms import independent_keys

if TYPE_CHECKING:
    from dptally.laws.spec import Question
    from dptally.randomness import BitSource

__all__ = ["draw"]


def draw(question: Question, summary: Any, bits: BitSource) -> Any:
    """Counts of units by size become noisy counts; sums of weights, or counts of found keys, become rows of keys."""
    if question.summary == "unit_sizes":
        return question.law.draw(summary.counts, bits)
    return independent_keys.draw(question, summary, bits)
