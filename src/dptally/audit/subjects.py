"""What is audited: every registered mechanism, and what is made of several of them.

Which audits suit a mechanism, and for which settings, is stated beside its spec (`dptally.laws.audits`).
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from dptally.errors import InvalidParameter
from dptally.laws.audits import Audits
from dptally.laws.registry import mechanism_class, mechanism_names
from dptally.laws.spec import Mechanism, Request

if TYPE_CHECKING:
    from dptally.audit.findings import ExactFinding
    from dptally.audit.random_settings import RandomSettings

__all__ = ["OTHERS", "Subject", "asked_for", "audited_names", "law_of", "mechanisms"]

OTHERS = ("ranges", "heavy_hitters", "total")
"""What is audited beside mechanisms: trees of counts, prefixes in rounds, and the private number of occurrences."""


@dataclass(frozen=True)
class Subject:
    """One exact audit: of a mechanism, or of what is made of several.

    Attributes:
        name: in reports.
        mechanism: the public half; that of any where it is made of several.
        asked: the names under which it is asked for.
        kind: compares one setting with its claim.
        weight: how many of the settings it gets, in proportion.
        controls: those that must be found to exceed the claim.
    """

    name: str
    mechanism: type[Mechanism]
    asked: tuple[str, ...]
    kind: Callable[[Subject, RandomSettings, int, str], ExactFinding]
    weight: int
    controls: tuple[str, ...]

    @property
    def audits(self) -> Audits:
        """What the mechanism says about how it is audited."""
        return self.mechanism.audits

    def audit(self, choose: RandomSettings, place: int, control: str) -> ExactFinding:
        """One setting, of a place in the grid; as a control, or as it is."""
        return self.kind(self, choose, place, control)

    def law(
        self, epsilon: Fraction, delta: Fraction, *, options: Mapping[str, Any] | None = None, **request: Any
    ) -> Any:
        """The law that a release would be drawn from, not yet verified."""
        return law_of(self.mechanism, epsilon, delta, options, **request)


def law_of(
    mechanism: type[Mechanism],
    epsilon: Fraction,
    delta: Fraction,
    options: Mapping[str, Any] | None = None,
    **request: Any,
) -> Any:
    """The law of a release, as its spec makes it."""
    return mechanism(**(options or {})).spec(Request(epsilon, delta or None, **request)).law


def audited_names() -> tuple[str, ...]:
    """Names that audits take."""
    return (*mechanism_names(), *OTHERS)


def asked_for(name: str) -> tuple[str, ...]:
    """What is audited under a name: all, or the one.

    Raises:
        InvalidParameter: there is nothing of this name.
    """
    if name not in ("all", *audited_names()):
        with contextlib.suppress(InvalidParameter):
            mechanism_class(name)  # of an installed package, which is found when it is asked for
    known = audited_names()
    if name == "all":
        return known
    if name not in known:
        raise InvalidParameter(f"mechanism must be 'all' or one of {', '.join(sorted(known))}, got {name[:40]!r}.")
    return (name,)


def mechanisms() -> list[type[Mechanism]]:
    """The public halves of all registered mechanisms."""
    return [mechanism_class(name) for name in mechanism_names()]
