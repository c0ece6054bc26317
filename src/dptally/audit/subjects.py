"""What is audited: every registered mechanism, and what is made of several of them.

Which audits suit a mechanism, and for which settings, is stated beside its spec (`dptally.laws.audits`).
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from dptally.errors import InvalidParameter
from dptally.laws.registry import mechanism_class, mechanism_names
from dptally.laws.spec import Mechanism, Request

OTHERS = ("ranges", "heavy_hitters", "total")
"""What is audited beside mechanisms: trees of counts, prefixes in rounds, and the private number of occurrences."""


DELTA_TIMES_4 = "delta x 4"
EPSILON_TIMES_2 = "epsilon x 2"


def made_for(epsilon: Fraction, delta: Fraction, control: str) -> tuple[Fraction, Fraction]:
    """The epsilon and delta that a law is made for, where the given ones are claimed.

    An audit that finds nothing shows little unless it is known to find something. A positive control is an ordinary
    law, verified and released as any other, but made for more than is claimed: for twice epsilon, or for four times
    delta. Only the claim that it is held against is wrong. Faults in laws and verifiers are injected by the tests.
    """
    if control == EPSILON_TIMES_2:
        return 2 * epsilon, delta
    if control == DELTA_TIMES_4:
        return epsilon, min(4 * delta, Fraction(9, 10))
    return epsilon, delta


def law_of(
    mechanism: type[Mechanism],
    epsilon: Fraction,
    delta: Fraction,
    options: Mapping[str, Any] | None = None,
    **request: Any,
) -> Any:
    """The law of a release, as its spec makes it."""
    return mechanism(**(options or {})).spec(Request(epsilon, delta or None, **request)).law


def asked_for(name: str) -> tuple[str, ...]:
    """What is audited under a name: all, or the one; InvalidParameter if there is nothing of this name."""
    if name not in ("all", *OTHERS):
        with contextlib.suppress(InvalidParameter):
            mechanism_class(name)  # of an installed package, which is found when it is asked for
    known = (*mechanism_names(), *OTHERS)
    if name == "all":
        return known
    if name not in known:
        raise InvalidParameter(f"mechanism must be 'all' or one of {', '.join(sorted(known))}, got {name[:40]!r}.")
    return (name,)


def mechanisms() -> list[type[Mechanism]]:
    """The public halves of all registered mechanisms."""
    return [mechanism_class(name) for name in mechanism_names()]
