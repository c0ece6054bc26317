"""Keep each unit of a key with some probability, and report the keys of which enough units were kept."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import TYPE_CHECKING

from dptally.errors import InvalidParameter
from dptally.laws.sample_and_threshold import SampleAndThreshold
from dptally.mechanisms.independent_keys import IndependentKeys
from dptally.privacy.composition import share_between_keys
from dptally.verifiers.tables import certify_copies

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from dptally.mechanisms.base import Counted
    from dptally.randomness import BitSource

__all__ = ["SampleAndThresholdHistogram"]


class SampleAndThresholdHistogram(IndependentKeys):
    """Privacy from sampling alone: values are counts in a secret sample.

    One coin per unit and key. A unit with several keys must not be kept or left out as a whole: if many units have the
    keys A and B, and one has A alone, then the counts of A and B in a sample of whole units are equal exactly if that
    one was left out. So the sample of whole units betrays it with probability `rate`, whatever the threshold
    (`tests/exact/test_sample_and_threshold.py`). With a coin for each unit and key, keys are independent.

    Guarantee:
        (epsilon, delta)-differential privacy for adding or removing one unit, where a unit raises the frequency of at
        most `max_keys_per_unit` keys by one each. One key's law is certified at (e, d); `max_keys_per_unit` of them
        together stay within (epsilon, delta) by [KOV15, Thm. 3.3], checked by the judge.

    Error:
        See `SampleAndThreshold`.
    Cost:
        About two random bits per occurrence of a key that may be reported; or, where rows were sampled while they were
        read (`dptally.summaries.row_sample`), nothing.

    References:
        [BC22], [KOV15].

    Args:
        epsilon: for the unit.
        delta: for the unit.
        max_keys_per_unit: bound on what one unit touches.
        values: must be True: without values nothing is gained.
        rate: of sampling; None for the best one.
        threshold: the smallest count that is reported; None for the best one.

    Raises:
        PrivacyViolation: if rate and threshold do not pass the judge; then nothing has been read or drawn.
    """

    def __init__(
        self,
        epsilon: Fraction,
        delta: Fraction,
        *,
        max_keys_per_unit: int,
        values: bool = True,
        rate: object = None,
        threshold: object = None,
    ) -> None:
        if not values:
            raise InvalidParameter("the mechanism 'sample_and_threshold' reports values; use values=True.")
        share = share_between_keys(epsilon, delta, max_keys_per_unit)
        self._sampling_law = law = SampleAndThreshold(*share, rate=rate, threshold=threshold)
        super().__init__(
            "sample_and_threshold",
            law,
            certify_copies(law.certify(), copies=max_keys_per_unit, epsilon=epsilon, delta=delta),
            epsilon=epsilon,
            delta=delta,
            max_keys_per_unit=max_keys_per_unit,
        )

    def _draw_for(self, frequencies: Counted) -> Callable[[NDArray[np.int64], BitSource], NDArray[np.int64]]:
        law = self._sampling_law
        sampled_at: Fraction | None = getattr(frequencies, "sampled_at", None)
        if sampled_at is None:
            return super()._draw_for(frequencies)
        if sampled_at != law.rate:
            raise InvalidParameter("the rows were sampled at another rate than the law was made for.")
        return lambda counts, bits: law.report(counts)
