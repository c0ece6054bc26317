"""Release a sketch under pure differential privacy: noise for every key of a universe, the heaviest released."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from dptally.exact import as_epsilon
from dptally.mechanisms.base import Drawn
from dptally.mechanisms.sketch_terms import ShortfallChoice, sketch_terms
from dptally.mechanisms.sparse_histogram import SparseHistogram
from dptally.privacy.spending import Part, Spending
from dptally.randomness.integers import draw_integers
from dptally.verifiers.pure import certify_rounded_counters

if TYPE_CHECKING:
    from dptally.estimates.shortfall import Shortfall
    from dptally.randomness import BitSource
    from dptally.summaries.sketch_contents import SketchContents
    from dptally.universes import Universe
    from dptally.verifiers.tables import Certificate

__all__ = ["PureMisraGries", "reduced_distance"]


def reduced_distance(capacity: int, elements_per_unit: int) -> Fraction:
    """How far reduced counters of neighbouring data sets are apart, all together [LT25, Lem. 16, made exact]."""
    return elements_per_unit * Fraction(max(1, 2 * capacity - 1), capacity + 1)


class PureMisraGries:
    """Reduced counters, rounded at random to whole ones, then treated like the counts of a sparse histogram.

    Every key of the universe gets a noisy counter, whether it is in the sketch or not, and the heaviest are released:
    `SparseHistogram` draws them without going through the universe. Keys that nobody has may be among them.

    Guarantee:
        epsilon-differential privacy, delta = 0, for adding or removing one unit with at most `elements_per_unit`
        elements in one of the streams; see `certify_rounded_counters` for statement and proof.

    Error:
        Noise of scale about 2 / epsilon on each counter, whatever the capacity, and what the reduced sketch falls
        short: (length of all streams) / (capacity + 1).

    References:
        [LT25] Algorithm 3, Lemmas 15, 16 and 22; [BV19, section 6] for the draw.

    Args:
        universe: all keys there may be.
        capacity: of the sketches.
        epsilon: for the unit.
        sketches: how many were added up.
        elements_per_unit: how many elements of one unit the streams may hold, equal ones or not.
        shortfall: as for `PrivateMisraGries`.
    """

    name = "misra_gries"

    def __init__(
        self,
        universe: Universe,
        capacity: int,
        epsilon: object,
        *,
        sketches: int = 1,
        elements_per_unit: int = 1,
        shortfall: ShortfallChoice = "private",
    ) -> None:
        self._terms = sketch_terms(
            as_epsilon(epsilon), Fraction(0), elements_per_unit=elements_per_unit, shortfall=shortfall
        )
        self._capacity, self._sketches, rest = capacity, sketches, self._terms.rest
        distance = reduced_distance(capacity, self._terms.elements_per_unit)
        # ln(1 + x) >= 2x / (2 + x): noise whose masses shrink by a factor of at most 1 + x per step.
        step = rest / distance
        self._sparse = SparseHistogram(_short(2 * step / (2 + step)), universe=universe, keep=capacity * sketches)
        self.law = self._sparse.law
        self.certificate: Certificate = certify_rounded_counters(self.law.certify(), distance=distance, epsilon=rest)

    @property
    def spends(self) -> Spending:
        """What a draw spends."""
        parts = [Part(epsilon, Fraction(0)) for epsilon in (self._terms.rest, self._terms.spent) if epsilon]
        return Spending(self.name, self._terms.epsilon, Fraction(0), tuple(parts))

    def draw(self, contents: SketchContents, key: str, bits: BitSource) -> tuple[Drawn, Shortfall | None]:
        """Draw once from reduced counters in units of 1 / (capacity + 1). Keys outside the universe are left out."""
        import pyarrow as pa
        import pyarrow.compute as pc

        universe, parts = self._sparse.universe, self._capacity + 1
        numbers, inside = universe.indices(contents.keys)
        numbers, scaled = numbers[inside], contents.counters[inside]
        order = np.argsort(numbers, kind="stable")
        rounded = (scaled + draw_integers(parts, len(scaled), bits).astype(np.int64)) // parts
        kept, values = self._sparse.draw_bins(numbers[order], rounded[order], bits)
        rows = pa.table({key: universe.keys(kept), "value": pa.array(values, type=pa.int64())})
        rows = rows.take(pc.sort_indices(rows, sort_keys=[(key, "ascending")])).combine_chunks()
        guarantee = self._terms.guarantee(capacity=self._capacity, sketches=self._sketches, private=bits.private)
        # One more than the sketch falls short: a counter may have been rounded down by nearly one.
        return Drawn(rows, guarantee, self.certificate, self.law), self._terms.shortfall(contents, bits, more=1)


def _short(number: Fraction) -> Fraction:
    """Rounded down to a multiple of 2^-64."""
    return Fraction(math.floor(number * (1 << 64)), 1 << 64)
