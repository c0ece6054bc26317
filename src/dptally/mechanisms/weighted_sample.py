"""Report each key with the largest probability that privacy allows; first, where a sample has a size, the total."""

from __future__ import annotations

from typing import Any

from dptally.laws.spec import Question
from dptally.mechanisms import independent_keys
from dptally.mechanisms.total import draw_total
from dptally.randomness import BitSource


def draw(question: Question, summary: Any, bits: BitSource) -> Any:
    """Keys with values, from counts or a sample of keys; or the private total, from the number of occurrences."""
    if question.summary == "total":
        return draw_total(summary, question.parameters["epsilon"], bits)
    return independent_keys.draw(question, summary, bits)
