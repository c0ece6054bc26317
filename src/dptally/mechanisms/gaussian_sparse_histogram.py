"""Gaussian noise on every count, hidden below a threshold: for units with many keys."""

from __future__ import annotations

from fractions import Fraction

from dptally.errors import InvalidParameter
from dptally.laws.gaussian_histogram import GaussianHistogram
from dptally.mechanisms.independent_keys import IndependentKeys

__all__ = ["GaussianSparseHistogram"]


class GaussianSparseHistogram(IndependentKeys):
    """Noise for all keys of a unit at once, instead of a budget shared among them.

    Guarantee:
        (epsilon, delta)-differential privacy for adding or removing one unit, where a unit raises the frequency of at
        most `max_keys_per_unit` keys by one each; see `certify_gaussian_table`. Which keys of a unit are counted is
        chosen from that unit's rows alone, as for `PrivateWeightedSampling`.

    Error:
        Noise grows with the square root of `max_keys_per_unit`, not with `max_keys_per_unit` itself.

    References:
        [LT25, Thm. 23].

    Args:
        epsilon: for the unit.
        delta: for the unit.
        max_keys_per_unit: bound on what one unit touches.
        values: must be True: nothing is gained by leaving values out.
    """

    def __init__(self, epsilon: Fraction, delta: Fraction, *, max_keys_per_unit: int, values: bool) -> None:
        if not values:
            raise InvalidParameter("the mechanism 'gaussian' releases values with the keys; leave out keys only.")
        law = GaussianHistogram(epsilon, delta, max_keys_per_unit)
        super().__init__(
            "gaussian",
            law,
            law.certify(),
            epsilon=epsilon,
            delta=delta,
            max_keys_per_unit=max_keys_per_unit,
        )
