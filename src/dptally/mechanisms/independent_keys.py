"""Mechanisms that report every key independently of the others, from one certified law."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from dptally.errors import InvalidParameter
from dptally.exact.integer_columns import integer_column
from dptally.laws.registry import law_from_facts
from dptally.laws.thresholded_noise import ThresholdedNoise
from dptally.mechanisms.base import Counted, Drawn
from dptally.privacy.guarantee import Guarantee
from dptally.privacy.spending import Part, Spending, law_part
from dptally.randomness.keyed import KeyedWords, draw_secret

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray

    from dptally.laws.base import Law
    from dptally.randomness import BitSource
    from dptally.verifiers.tables import Certificate

__all__ = ["IndependentKeys", "in_order_of_keys", "without_metadata"]


class IndependentKeys:
    """Draw every key's report independently, and let out what is reported.

    Args:
        name: of the mechanism.
        law: what is drawn from.
        certificate: the judge's finding for all keys of a unit together.
        epsilon: what is promised for the unit.
        delta: what is promised for the unit.
        max_keys_per_unit: bound on what one unit touches.
        spent_on_size: the part of epsilon that a private estimate took, before.
    """

    def __init__(
        self,
        name: str,
        law: Law,
        certificate: Certificate,
        *,
        epsilon: Fraction,
        delta: Fraction,
        max_keys_per_unit: int,
        spent_on_size: Fraction = Fraction(0),
    ) -> None:
        self.name = name
        self.law = law
        self.certificate = certificate
        self._epsilon, self._delta = epsilon, delta
        self._max_keys_per_unit = max_keys_per_unit
        self._spent_on_size = spent_on_size

    @property
    def spends(self) -> Spending:
        """What a draw spends: independent draws for the keys of a unit, all of whose counts it raises."""
        if isinstance(self.law, ThresholdedNoise) and self.law.judged_for_unit:
            parts = [Part(self._epsilon - self._spent_on_size, self._delta)]
        else:
            parts = [law_part(self.law, self._max_keys_per_unit)]
        if self._spent_on_size:
            parts.append(Part(self._spent_on_size, Fraction(0)))
        return Spending(self.name, self._epsilon, self._delta, tuple(parts))

    def draw(self, frequencies: Counted, bits: BitSource) -> Drawn:
        """Draw once for every distinct key, and keep what is reported.

        Rows leave in the order of their keys: neither the order of the input nor that of the engine shows. They are
        copied out of the batches they came in, so no unreported key stays reachable from the result.

        Engines hand out keys in an order of their own that may change from run to run. Secret bits do not care; seeded
        bits are turned into words that belong to the key (`KeyedWords`), so that a seed repeats its release on every
        engine.
        """
        import pyarrow as pa

        if frequencies.max_keys_per_unit > self._max_keys_per_unit:
            raise InvalidParameter(
                f"the mechanism protects units with at most {self._max_keys_per_unit} keys, "
                f"but contributions were bounded at {frequencies.max_keys_per_unit}."
            )
        draw = self._draw_for(frequencies)
        reported: list[pa.Table] = []
        keyed = None if bits.private else KeyedWords(draw_secret(bits), private=False)
        for keys, counts in frequencies.batches():
            values = draw(counts, bits if keyed is None else keyed.of_rows(keys.columns))
            kept = np.flatnonzero(values)
            # Always take, also nothing: the schema must survive a batch without reports.
            part = pa.Table.from_batches([keys]).take(integer_column(kept))
            reported.append(part.append_column("value", integer_column(values[kept])))
        rows = pa.concat_tables(reported).combine_chunks()
        rows = in_order_of_keys(without_metadata(rows), frequencies.key)
        # A law that samples remembers rows it has drawn from, which are true frequencies: a fresh one goes out.
        law = self.law if self.law.scheme is None else law_from_facts(self.law.facts())
        return Drawn(rows, self.promise(frequencies.unit, private=bits.private), self.certificate, law)

    def promise(self, unit: str | None, *, private: bool) -> Guarantee:
        """What is promised for what is drawn.

        Args:
            unit: the column that says whose rows they are, or None.
            private: whether the bits are secret.
        """
        return Guarantee(
            epsilon=self._epsilon,
            delta=self._delta,
            unit=unit,
            max_keys_per_unit=self._max_keys_per_unit,
            mechanism=self.name,
            spent_on_size=self._spent_on_size,
            private=private,
        )

    def _draw_for(self, frequencies: Counted) -> Callable[[NDArray[np.int64], BitSource], NDArray[np.int64]]:
        """How the counts of these keys are drawn for; refuses keys that were sampled."""
        if frequencies.scheme is not None:
            raise InvalidParameter(f"the mechanism '{self.name}' needs all keys, and these were sampled.")
        return self.law.draw


def without_metadata(rows: pa.Table) -> pa.Table:
    """Names and types only: metadata of the source (pandas writes the number of rows there) stays behind."""
    import pyarrow as pa

    return rows.cast(pa.schema([pa.field(field.name, field.type) for field in rows.schema]))


def in_order_of_keys(rows: pa.Table, key: tuple[str, ...]) -> pa.Table:
    """The rows in the order of their keys, copied out of what they came in."""
    return rows.take(_order(rows, key))


def _order(rows: pa.Table, key: tuple[str, ...]) -> pa.Array:
    """Places of the rows in the order of their keys."""
    import pyarrow.compute as pc

    return pc.sort_indices(rows, sort_keys=[(column, "ascending") for column in key])
