"""The stability-based histogram: noise and a threshold for every key that occurs."""

from __future__ import annotations

from fractions import Fraction

from dptally.laws.stability import Stability
from dptally.mechanisms.independent_keys import IndependentKeys
from dptally.privacy.composition import share_between_keys
from dptally.verifiers.tables import certify_copies

__all__ = ["StabilityHistogram"]


class StabilityHistogram(IndependentKeys):
    """Noise on every count, and what is below a threshold stays hidden.

    Guarantee:
        (epsilon, delta)-differential privacy for adding or removing one unit, where a unit raises the frequency of at
        most `max_keys_per_unit` keys by one each; as for `PrivateWeightedSampling`.

    Error:
        See `Stability`. `PrivateWeightedSampling` reports every frequency at least as often for the same guarantee;
        this one is here for its values, which are centred on the count and have no upper end.

    References:
        [BV19] section 5.4, with the smallest threshold that keeps delta.

    Args:
        epsilon: for the unit.
        delta: for the unit.
        max_keys_per_unit: bound on what one unit touches.
        values: whether values are reported with the keys.
    """

    def __init__(self, epsilon: Fraction, delta: Fraction, *, max_keys_per_unit: int, values: bool) -> None:
        law = Stability(*share_between_keys(epsilon, delta, max_keys_per_unit), values=values)
        super().__init__(
            "stability",
            law,
            certify_copies(law.certify(), copies=max_keys_per_unit, epsilon=epsilon, delta=delta),
            epsilon=epsilon,
            delta=delta,
            max_keys_per_unit=max_keys_per_unit,
        )
