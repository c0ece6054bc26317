"""Pure differential privacy over a universe of keys far too large to go through."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray

from dptally.errors import InvalidParameter
from dptally.laws.clamped_geometric import ClampedGeometric
from dptally.laws.spec import Question
from dptally.laws.top_k_noise import TopKNoise
from dptally.mechanisms.base import Counted
from dptally.randomness import BitSource
from dptally.randomness.integers import draw_distinct, whole_numbers
from dptally.randomness.order_statistics import top_order_statistics
from dptally.universes import Universe

if TYPE_CHECKING:
    import pyarrow as pa


def draw(question: Question, summary: Counted, bits: BitSource) -> pa.Table:
    """Number the keys, draw once, and name what is released, in the order of keys.

    All keys are written from their numbers, so that those of the data look like the others. Keys outside the universe
    are left out.
    """
    if summary.scheme is not None:
        raise InvalidParameter("a sparse histogram needs all keys, but these are a sample.")
    if len(summary.key) != 1:
        raise InvalidParameter(f"a universe numbers single keys, and there are {len(summary.key)} key columns.")
    universe: Universe = question.parameters["universe"]
    numbers, counts = _number_keys(universe, summary)
    return named(universe, summary.key[0], *draw_bins(question.law, numbers, counts, bits))


def named(universe: Universe, column: str, numbers: NDArray[Any], values: NDArray[np.int64]) -> pa.Table:
    """Keys by their numbers, with values, in the order of keys."""
    import pyarrow as pa
    import pyarrow.compute as pc

    rows = pa.table({column: universe.keys(numbers), "value": pa.array(values, type=pa.int64())})
    return rows.take(pc.sort_indices(rows, sort_keys=[(column, "ascending")])).combine_chunks()


def draw_bins(
    law: TopKNoise, numbers: NDArray[Any], counts: NDArray[np.int64], bits: BitSource
) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Draw from counts of numbered keys; in strict time by `dptally.mechanisms.strict_sparse`.

    Postcondition: for uniform words the result follows exactly the law that `dptally.laws.specs.sparse.Sparse` states,
    of which the noisy histogram is never made. Let A be the keys of the data. The noisy counts of all other keys are
    independent and alike, so their keep + 1 largest are order statistics of |X| - |A| draws, and the keys that have
    them are, independently of the values, a uniformly random *sequence* of distinct keys outside A (KH' [BV19,
    Alg. 6.4, Prop. 6.5]). The keep + 1 largest of all noisy counts are among those of A and these. So the released
    table has exactly the law above, whatever the size of X; |X| >= keep + 1 is not needed, for the order statistics are
    then simply all there are. Labels are drawn only for those keys that are released.

    Cost:
        Time and memory linear in the number of distinct keys and `keep` (and the time to sort), and in log |X|. The
        time depends on the number of distinct keys and on the noise; strict time does not.

    Numbers of keys are distinct and increasing, in the type of `whole_numbers`, and so are those that are returned,
    with their noisy counts.
    """
    if law.mixing is not None:
        from dptally.mechanisms.strict_sparse import StrictDraw

        return StrictDraw(law)(numbers, counts, bits)
    noise = cast("ClampedGeometric", law.noise)  # what is verified is what is drawn from
    noisy = noise.draw(counts, bits)
    others = top_order_statistics(noise, law.size - len(numbers), law.keep + 1, bits)
    together = np.concatenate([noisy, others])
    cut = 0
    if len(together) > law.keep:
        place = len(together) - law.keep - 1
        cut = int(np.partition(together, place)[place])
    released = noisy > cut
    others = others[others > cut]
    labels = draw_distinct(law.size, numbers, len(others), bits)
    kept = np.concatenate([numbers[released], labels])
    order = np.argsort(kept, kind="stable")
    return kept[order], np.concatenate([noisy[released], others])[order]


def _number_keys(universe: Universe, frequencies: Counted) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Numbers of the keys inside the universe, increasing, and their counts."""
    numbers = [whole_numbers([], universe.size)]
    counts = [np.empty(0, dtype=np.int64)]
    for keys, found in frequencies.batches():
        there, inside = universe.indices(keys.column(0))
        numbers.append(there[inside])
        counts.append(found[inside])
    together = np.concatenate(numbers)
    order = np.argsort(together, kind="stable")
    return together[order], np.concatenate(counts)[order]
