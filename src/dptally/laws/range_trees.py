"""The law of one node when a unit is counted several times: once in each level of a tree, or in each round."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from dptally.errors import InvalidParameter
from dptally.exact import as_delta, as_epsilon, as_fraction
from dptally.laws.registry import mechanism_class, mechanism_names
from dptally.laws.spec import Request
from dptally.verifiers.tables import Certificate


@dataclass(frozen=True)
class CertifiedTreeLaw:
    """A law, what is guaranteed for all levels together, and the verifier's finding on both."""

    epsilon: Fraction
    delta: Fraction
    law: Any
    certificate: Certificate


def tree_mechanisms() -> tuple[str, ...]:
    """Names of the mechanisms that have a law for the counts of a tree."""
    return tuple(name for name in mechanism_names() if mechanism_class(name).trees)


def make_tree_law(
    epsilon: object, delta: object, *, levels: int, mechanism: str, rate: object = None
) -> CertifiedTreeLaw:
    """Share a budget between levels, and certify one level's law and all levels together.

    Epsilon and delta are for the unit (delta None or 0 for mechanisms that keep delta = 0), which is counted once in
    each of `levels` levels, with coins or noise of its own. The mechanism is a name of `tree_mechanisms`; `rate` None
    is the best one, for a mechanism that has one. Raises InvalidParameter for a request that cannot be met,
    PrivacyViolation if the law does not pass the verifier.
    """
    known = tree_mechanisms()
    if mechanism not in known:
        raise InvalidParameter(f"mechanism must be one of {', '.join(map(repr, known))}, got {mechanism!r}.")
    chosen = mechanism_class(mechanism)
    options = {}
    if rate is not None:
        if "rate" not in {each.name for each in chosen.options()}:
            raise InvalidParameter(f"rate is for the mechanism 'sample_and_threshold', got {mechanism!r}.")
        options["rate"] = rate
    exact = as_epsilon(epsilon)
    if chosen.pure:
        if delta is not None and as_fraction("delta", delta) != 0:
            raise InvalidParameter(f"delta must be 0 for the mechanism {mechanism!r}, got {delta}.")
    elif delta is None:
        raise InvalidParameter(f"delta must be given for the mechanism {mechanism!r}.")
    elif as_fraction("delta", delta) == 0:
        raise InvalidParameter(f"delta must be positive for the mechanism {mechanism!r}; 'dense' needs none.")
    whole = Fraction(0) if chosen.pure else as_delta(delta)
    spec = chosen(**options).one_law(Request(exact, whole or None, max_keys_per_unit=levels))
    return CertifiedTreeLaw(exact, whole, spec.law, spec.certificate)
