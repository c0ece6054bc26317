"""Report each key with the largest probability that privacy allows, with a value from the same draw."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import TYPE_CHECKING

from dptally.errors import InvalidParameter
from dptally.laws.weighted_sample import WeightedSample
from dptally.mechanisms.independent_keys import IndependentKeys
from dptally.privacy.composition import share_between_keys
from dptally.verifiers.tables import certify_copies

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from dptally.laws.sampling_schemes import Scheme
    from dptally.mechanisms.base import Counted
    from dptally.randomness import BitSource

__all__ = ["PrivateWeightedSampling"]


class PrivateWeightedSampling(IndependentKeys):
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
        self._sampled_law = law = WeightedSample(
            *share_between_keys(epsilon, delta, max_keys_per_unit), scheme, values=values
        )
        super().__init__(
            "weighted_sample",
            law,
            certify_copies(law.certify(), copies=max_keys_per_unit, epsilon=epsilon, delta=delta),
            epsilon=epsilon + spent_on_size,
            delta=delta,
            max_keys_per_unit=max_keys_per_unit,
            spent_on_size=spent_on_size,
        )

    def _draw_for(self, frequencies: Counted) -> Callable[[NDArray[np.int64], BitSource], NDArray[np.int64]]:
        if frequencies.scheme is None:
            return self._sampled_law.draw
        if frequencies.scheme != self._sampled_law.scheme:
            raise InvalidParameter("the keys were sampled with another scheme than the law was made for.")
        return self._sampled_law.draw_given_sampled
