"""The law of one node when a unit is counted several times: once in each level of a tree, or in each round."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

from dptally.errors import InvalidParameter
from dptally.exact import as_delta, as_epsilon, as_fraction
from dptally.laws.bounded_geometric import DyadicGeometric
from dptally.laws.sample_and_threshold import SampleAndThreshold
from dptally.laws.weighted_sample import WeightedSample
from dptally.privacy.composition import share_between_keys
from dptally.verifiers.pure import certify_pure_copies
from dptally.verifiers.tables import certify_copies

if TYPE_CHECKING:
    from dptally.laws.base import Law
    from dptally.verifiers.tables import Certificate

__all__ = ["MECHANISMS", "CertifiedTreeLaw", "certify_tree", "make_tree_law"]

MECHANISMS = ("sample_and_threshold", "weighted_sample", "dense")
_BOUND = 1 << 40


@dataclass(frozen=True)
class CertifiedTreeLaw:
    """A law, what is promised for all levels together, and the judge's finding on both."""

    epsilon: Fraction
    delta: Fraction
    law: Law
    certificate: Certificate


def make_tree_law(
    epsilon: object, delta: object, *, levels: int, mechanism: str, rate: object = None
) -> CertifiedTreeLaw:
    """Share a budget between levels, and certify one level's law and all levels together.

    Args:
        epsilon: for the unit.
        delta: for the unit; None or 0 for "dense".
        levels: how often a unit is counted, each time once and with coins or noise of its own.
        mechanism: "sample_and_threshold", "weighted_sample" or "dense".
        rate: of "sample_and_threshold"; None for the best one.

    Raises:
        InvalidParameter: a request that cannot be met.
        PrivacyViolation: if the law does not pass the judge.
    """
    if mechanism not in MECHANISMS:
        raise InvalidParameter(f"mechanism must be one of {', '.join(map(repr, MECHANISMS))}, got {mechanism!r}.")
    if rate is not None and mechanism != "sample_and_threshold":
        raise InvalidParameter(f"rate is for the mechanism 'sample_and_threshold', got {mechanism!r}.")
    whole_epsilon, whole_delta = as_epsilon(epsilon), Fraction(0)
    law: Law
    if mechanism == "dense":
        if delta is not None and as_fraction("delta", delta) != 0:
            raise InvalidParameter(f"delta must be 0 for the mechanism 'dense', got {delta}.")
        law = DyadicGeometric(whole_epsilon / levels, _BOUND)
    else:
        if delta is None:
            raise InvalidParameter(f"delta must be given for the mechanism {mechanism!r}.")
        if as_fraction("delta", delta) == 0:
            raise InvalidParameter(f"delta must be positive for the mechanism {mechanism!r}; 'dense' needs none.")
        whole_delta = as_delta(delta)
        share = share_between_keys(whole_epsilon, whole_delta, levels)
        law = SampleAndThreshold(*share, rate=rate) if mechanism == MECHANISMS[0] else WeightedSample(*share)
    return CertifiedTreeLaw(whole_epsilon, whole_delta, law, certify_tree(law, levels, whole_epsilon, whole_delta))


def certify_tree(law: Law, levels: int, epsilon: Fraction, delta: Fraction) -> Certificate:
    """Judge a law for one node, and `levels` of them together: a unit is in one node of each level.

    Raises:
        PrivacyViolation: if the levels together exceed epsilon and delta.
    """
    if not law.delta:
        return certify_pure_copies(law.certify(), copies=levels, epsilon=epsilon)
    return certify_copies(law.certify(), copies=levels, epsilon=epsilon, delta=delta)
