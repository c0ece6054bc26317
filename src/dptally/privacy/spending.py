"""What a release spends, as plain data.

The meaning of an event never changes. It is stated by its numbers and the laws of its parts alone; the name of the
mechanism is for people, so a mechanism from outside of the package can be paid for like any other. A part with a law
that is not known here is refused: by a ledger that is asked to spend it, and by a reader of a history that a newer
version wrote.

A `Spending` states two things. `epsilon` and `delta`: the whole release is (epsilon, delta)-differentially private for
adding or removing one unit. `parts`: it consists of independent draws, or of draws each of which may depend on the
outcomes of earlier ones, that stay within the profiles the parts name; both statements are true, and an accountant may
use either.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from dptally.errors import InvalidParameter
from dptally.privacy.stored_facts import read_fraction

_NAME = re.compile(r"[a-z][a-z0-9_]{0,60}")
_PROFILED = frozenset({"WeightedSample", "Stability", "SampleAndThreshold", "DeclaredProfile"})
_MOST_COPIES = 1 << 20


@dataclass(frozen=True)
class Part:
    """Some draws of one kind."""

    epsilon: Fraction  # each draw is (epsilon, delta)-private
    delta: Fraction  # each draw is (epsilon, delta)-private
    # how many draws of this kind one unit can influence; in all of them it moves a count by one, in the same direction,
    # or not at all
    copies: int = 1
    # name and parameters of the law of each draw, where its profile is known; None where epsilon and delta are all
    # there is
    law: tuple[tuple[str, Any], ...] | None = None

    def facts(self) -> dict[str, Any]:
        """As plain data, fractions as text."""
        return {
            "epsilon": str(self.epsilon),
            "delta": str(self.delta),
            "copies": self.copies,
            "law": None if self.law is None else dict(self.law),
        }


@dataclass(frozen=True)
class Spending:
    """What one release spends; see the top of this module.

    Raises InvalidParameter for an event that nobody knows how to account for.
    """

    mechanism: str  # its name, as in `Guarantee.mechanism`
    epsilon: Fraction  # exact
    delta: Fraction  # exact
    parts: tuple[Part, ...] = ()  # what it consists of

    def __post_init__(self) -> None:
        if not (isinstance(self.mechanism, str) and _NAME.fullmatch(self.mechanism)):
            raise InvalidParameter(f"the event {str(self.mechanism)[:40]!r} is unknown: it cannot be accounted for.")
        if not (isinstance(self.epsilon, Fraction) and isinstance(self.delta, Fraction)):
            raise InvalidParameter("an event needs epsilon and delta as exact fractions.")
        if self.epsilon <= 0 or not 0 <= self.delta < 1:
            raise InvalidParameter("an event needs a positive epsilon, and a delta of at least 0 and below 1.")
        for part in self.parts:
            if part.epsilon <= 0 or not 0 <= part.delta < 1 or not 1 <= part.copies <= _MOST_COPIES:
                raise InvalidParameter("a part of an event has parameters that cannot be accounted for.")
            if part.law is not None and (dict(part.law).get("name") not in _PROFILED or not _plain(part.law)):
                raise InvalidParameter("a part of an event has a law that cannot be accounted for.")

    def __hash__(self) -> int:
        # Cheaper than what a dataclass would do: hashes of fractions are slow, and histories are long.
        epsilon, delta = self.epsilon, self.delta
        return hash((self.mechanism, epsilon.numerator, epsilon.denominator, delta.numerator, delta.denominator))

    def facts(self) -> dict[str, Any]:
        """As plain data, fractions as text."""
        return {
            "mechanism": self.mechanism,
            "epsilon": str(self.epsilon),
            "delta": str(self.delta),
            "parts": [part.facts() for part in self.parts],
        }

    @classmethod
    def read(cls, facts: Any) -> Spending:
        """From plain data.

        Raises InvalidParameter for an event that is unknown or damaged.
        """
        try:
            parts = tuple(
                Part(
                    read_fraction(part["epsilon"]),
                    read_fraction(part["delta"]),
                    _whole(part["copies"]),
                    None if part["law"] is None else tuple(sorted(part["law"].items())),
                )
                for part in facts["parts"]
            )
            return cls(facts["mechanism"], read_fraction(facts["epsilon"]), read_fraction(facts["delta"]), parts)
        except (KeyError, TypeError, ValueError, AttributeError, ZeroDivisionError) as error:
            if isinstance(error, InvalidParameter):
                raise
            raise InvalidParameter("the data is not an event that can be accounted for.") from None


def law_part(law: Any, copies: int) -> Part:
    """The part that `copies` draws from a law are: by its profile where that is known, otherwise by epsilon and delta.

    The law of a weighted sample with a sampling scheme has rows that are verified when they are drawn from, and no
    profile; two-sided geometric noise has the profile of its epsilon.
    """
    facts = law.facts()
    known = facts["name"] in _PROFILED and facts.get("scheme") is None
    return Part(law.epsilon, law.delta, copies, tuple(sorted(facts.items())) if known else None)


def _plain(law: tuple[tuple[str, Any], ...]) -> bool:
    """Whether all parameters of a law are numbers, texts or nothing."""
    return all(isinstance(value, str | int | float | None) for _, value in law)


def _whole(number: object) -> int:
    if isinstance(number, bool) or not isinstance(number, int):
        raise ValueError("not a whole number")
    return number
