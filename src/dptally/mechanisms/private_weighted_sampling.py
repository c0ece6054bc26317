"""Report each key with the largest probability that privacy allows, with a value from the same draw."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from dptally.errors import InvalidParameter
from dptally.mechanisms.base import Counted, Drawn
from dptally.observation_models import WeightedSample
from dptally.privacy import Guarantee
from dptally.privacy.certifier import certify_copies
from dptally.privacy.composition import share_between_keys

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa
    from numpy.typing import NDArray

    from dptally.observation_models.sampling_schemes import Scheme
    from dptally.privacy import Certificate
    from dptally.randomness import BitSource

__all__ = ["PrivateWeightedSampling"]


class PrivateWeightedSampling:
    """Draw every key's report independently from one certified law.

    Guarantee:
        (epsilon, delta)-differential privacy for adding or removing one unit, where a unit raises the frequency of at
        most `max_keys_per_unit` keys by one each. One key's law is certified at (e, d); `max_keys_per_unit` of them
        together stay within (epsilon, delta) by [KOV15, Thm. 3.3], checked by the judge. Which keys of a unit are
        counted is chosen at random from that unit's rows alone; given the choice, the unit touches at most that many
        keys, and a mixture over choices of pairs that are each (epsilon, delta)-close is (epsilon, delta)-close.

    Error:
        See `WeightedSample`.
    Cost:
        One table; 128 random bits and a fixed number of table steps per distinct key.

    References:
        [CGSS21], [KOV15].

    Args:
        epsilon: for the unit.
        delta: for the unit.
        max_keys_per_unit: bound on what one unit touches.
        values: whether values are reported with the keys.
        scheme: a sampling scheme, or None. Sampling and reporting are one draw from the law of both together, with
            fresh secret bits, and the scheme is fixed here, before data is read.
        spent_on_size: what a private estimate took that the scheme's rate was set from; promised on top of epsilon
            (basic composition).

    Raises:
        PrivacyViolation: if the table does not pass the judge; then nothing has been read or drawn.
    """

    name = "weighted_sample"

    def __init__(
        self,
        epsilon: Fraction,
        delta: Fraction,
        *,
        max_keys_per_unit: int,
        values: bool,
        scheme: Scheme | None = None,
        spent_on_size: Fraction = Fraction(0),
    ) -> None:
        self._epsilon, self._delta = epsilon + spent_on_size, delta
        self._spent_on_size = spent_on_size
        self._max_keys_per_unit = max_keys_per_unit
        self.law = WeightedSample(*share_between_keys(epsilon, delta, max_keys_per_unit), scheme, values=values)
        self.certificate: Certificate = certify_copies(
            self.law.certify(), copies=max_keys_per_unit, epsilon=epsilon, delta=delta
        )

    def draw(self, frequencies: Counted, bits: BitSource) -> Drawn:
        """Draw once for every distinct key, and keep what is reported.

        Rows leave in the order of their keys: neither the order of the input nor that of the engine shows. They are
        copied out of the batches they came in, so no unreported key stays reachable from the result.

        Engines hand out keys in an order of their own that may change from run to run. Secret bits do not care; for
        seeded bits all keys are put in order first, so that a seed repeats its release.
        """
        import pyarrow as pa

        if frequencies.max_keys_per_unit > self._max_keys_per_unit:
            raise InvalidParameter(
                f"the mechanism protects units with at most {self._max_keys_per_unit} keys, "
                f"but contributions were bounded at {frequencies.max_keys_per_unit}."
            )
        if frequencies.scheme is not None and frequencies.scheme != self.law.scheme:
            raise InvalidParameter("the keys were sampled with another scheme than the law was made for.")
        draw = self.law.draw if frequencies.scheme is None else self.law.draw_given_sampled
        reported: list[pa.Table] = []
        batches = frequencies.batches() if bits.private else _in_order(frequencies)
        for keys, counts in batches:
            values = draw(counts, bits)
            kept = np.flatnonzero(values)
            # Always take, also nothing: the schema must survive a batch without reports.
            part = pa.Table.from_batches([keys]).take(pa.array(kept))
            reported.append(part.append_column("value", pa.array(values[kept], type=pa.int64())))
        rows = pa.concat_tables(reported).combine_chunks()
        # Names and types only: metadata of the source (pandas writes the number of rows there) stays behind.
        rows = rows.cast(pa.schema([pa.field(field.name, field.type) for field in rows.schema]))
        rows = rows.take(_order(rows, frequencies.key))
        guarantee = Guarantee(
            epsilon=self._epsilon,
            delta=self._delta,
            unit=frequencies.unit,
            max_keys_per_unit=self._max_keys_per_unit,
            mechanism=self.name,
            spent_on_size=self._spent_on_size,
            private=bits.private,
        )
        return Drawn(rows, guarantee, self.certificate, self.law)


def _order(rows: pa.Table, key: tuple[str, ...]) -> pa.Array:
    """Places of the rows in the order of their keys."""
    import pyarrow.compute as pc

    return pc.sort_indices(rows, sort_keys=[(column, "ascending") for column in key])


def _in_order(frequencies: Counted) -> Iterator[tuple[pa.RecordBatch, NDArray[np.int64]]]:
    """All keys as one batch, in the order of keys."""
    import pyarrow as pa

    keys, counts = zip(*frequencies.batches(), strict=True)
    table = pa.Table.from_batches(keys).combine_chunks()
    order = _order(table, frequencies.key)
    # A table of one chunk is one batch; an empty table has none.
    for batch in table.take(order).combine_chunks().to_batches() or [pa.RecordBatch.from_pylist([], table.schema)]:
        yield batch, np.concatenate(counts)[order.to_numpy()]
