"""Release the counters of a Misra-Gries sketch, and how far they fall short."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dptally.laws.spec import Question
from dptally.mechanisms.sparse import draw_bins, named
from dptally.mechanisms.total import draw_total
from dptally.randomness import BitSource
from dptally.randomness.integers import draw_integers
from dptally.summaries.sketch_files import SketchContents

if TYPE_CHECKING:
    import pyarrow as pa


def draw(question: Question, summary: SketchContents, bits: BitSource) -> Any:
    """Counters as rows in the order of keys, which share no memory with the sketch; or the number for its shortfall."""
    if question.summary == "shortfall":
        more = question.parameters["more"] * summary.missing_parts
        return draw_total(summary.missing + more, question.parameters["epsilon"], bits)
    if question.parameters["universe"] is not None:
        return _over_universe(question, summary, bits)
    return _counters(question, summary, bits)


def _counters(question: Question, summary: SketchContents, bits: BitSource) -> pa.Table:
    import pyarrow as pa

    # Summed sketches count in units of 1 / (capacity + 1).
    scaled = question.parameters["sketch"].form == "summed"
    sample = question.law.draw_scaled if scaled else question.law.draw
    values = sample(summary.counters, bits)
    kept = np.flatnonzero(values)
    keys = summary.keys.take(pa.array(kept))
    return pa.table({summary.column: keys, "value": pa.array(values[kept], type=pa.int64())})


def _over_universe(question: Question, summary: SketchContents, bits: BitSource) -> pa.Table:
    """Reduced counters in units of 1 / (capacity + 1), rounded at random; keys outside the universe are left out."""
    universe, parts = question.parameters["universe"], question.parameters["sketch"].capacity + 1
    numbers, inside = universe.indices(summary.keys)
    numbers, scaled = numbers[inside], summary.counters[inside]
    order = np.argsort(numbers, kind="stable")
    rounded = (scaled + draw_integers(parts, len(scaled), bits).astype(np.int64)) // parts
    return named(universe, summary.column, *draw_bins(question.law, numbers[order], rounded[order], bits))
