"""The law of one node when a unit is counted several times: once in each level of a tree, or in each round."""

from __future__ import annotations

from fractions import Fraction

from dptally.errors import InvalidParameter
from dptally.exact import as_delta, as_epsilon, as_fraction
from dptally.laws.registry import mechanism_class, mechanism_names
from dptally.laws.spec import Request, Spec


def make_tree_law(epsilon: object, delta: object, *, levels: int, mechanism: str, rate: object = None) -> Spec:
    """Share a budget between levels: the spec of one level's law, whose certificate is for all levels together.

    Epsilon and delta are for the unit (delta None or 0 for mechanisms that keep delta = 0), which is counted once in
    each of `levels` levels, with coins or noise of its own. The mechanism is one that has a law for the counts of a
    tree; `rate` None is the best one, for a mechanism that has one. Raises InvalidParameter for a request that cannot
    be met.
    """
    known = [name for name in mechanism_names() if mechanism_class(name).trees]
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
    return chosen(**options).one_law(Request(exact, whole or None, max_keys_per_unit=levels))
