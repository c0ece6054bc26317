"""Which mechanism "auto" stands for: decided by public parameters alone, before any data is read."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, NamedTuple

from dptally.errors import InvalidParameter
from dptally.laws.registry import USUAL, mechanism_class, mechanism_names, read_mechanism

if TYPE_CHECKING:
    from dptally.laws.spec import Mechanism, Request

__all__ = ["AUTO", "Choice", "advice", "choose_mechanism"]

AUTO = "auto"
_HALF = Fraction(1, 2)
_FAR_MORE = 8  # keys per unit from which mechanisms that measure release far more


class Choice(NamedTuple):
    """A mechanism, and why it was chosen, in a sentence."""

    mechanism: Mechanism
    why: str


def choose_mechanism(request: Request) -> Choice:
    """The certified mechanism that releases most keys for such a request.

    One key per unit: the optimal histogram. No stated bound: the mechanism that measures sizes. A given bound: the one
    that reports keys of the smallest count half of the time, if units have no more keys than the bound.
    """
    usual = read_mechanism(USUAL)
    if request.statistics is not None:
        chosen = next(name for name in mechanism_names() if mechanism_class(name).statistics)
        return Choice(read_mechanism(chosen), f"{chosen!r}: it releases more than counts of the keys that it finds.")
    if request.sampling is not None:
        return Choice(usual, f"{USUAL!r}, the one that samples.")
    if request.measured:
        chosen = next(name for name in mechanism_names() if mechanism_class(name).measures)
        why = "units may have many keys, and how many they have is measured within the budget."
        return Choice(read_mechanism(chosen), f"{chosen!r}: {why}")
    if request.max_keys_per_unit == 1 or not request.delta:
        return Choice(usual, f"{USUAL!r}: with one key per unit no mechanism reports any key more often.")
    reached: dict[str, int] = {}
    for name in mechanism_names():
        if mechanism_class(name).automatic:
            try:
                found = read_mechanism(name).spec(request).planned_law.first_frequency(_HALF)
            except InvalidParameter:  # not for such a request
                continue
            if found is not None:
                reached[name] = found
    if not reached:
        return Choice(usual, f"{USUAL!r}, as others do not take such a request.")
    best = min(reached, key=lambda name: reached[name])
    told = ", ".join(f"{name} {count}" for name, count in reached.items())
    why = f"with {request.max_keys_per_unit} keys per unit it reports keys of the smallest count half of the time"
    return Choice(read_mechanism(best), f"{best!r}: {why} ({told}).")


def advice(mechanism: Mechanism, request: Request) -> str | None:
    """A sentence where another mechanism would release far more keys than the one that was named; else None."""
    many = request.unit is not None and request.max_keys_per_unit >= _FAR_MORE
    if not many or mechanism.cluster is None or mechanism.bounded_memory or mechanism.measures:
        return None
    if request.sampling is not None or not request.delta:
        return None
    keys = request.max_keys_per_unit
    return f"mechanism 'auto' would release far more keys than {mechanism.name!r} for units with {keys} keys."
