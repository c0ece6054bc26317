"""The comparison of many pairs of laws with one claim."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

from dptally.audit.divergences import Law, as_masses, composed, composed_at_least, excess, product
from dptally.audit.findings import ExactFinding

__all__ = ["Examination"]

_MOST_OUTCOMES = 20_000  # of a product that is written out


class Examination:
    """Collects what is found for one setting.

    Args:
        mechanism: its name in the audit.
        place: of the setting in the grid.
        epsilon: claimed for the unit.
        delta: claimed for the unit.
        setting: the parameters.
        control: what the law was made for in place of the claim, or nothing.
    """

    def __init__(
        self,
        mechanism: str,
        place: int,
        epsilon: Fraction,
        delta: Fraction,
        setting: Mapping[str, object],
        control: str,
    ) -> None:
        self.epsilon, self.delta = epsilon, delta
        self._mechanism, self._place, self._control = mechanism, place, control
        self._setting = {name: str(part) for name, part in setting.items()}
        self._worst, self._where = -1.0, "nothing"
        self._compared = 0
        self._violations: list[str] = []
        self.worst_key: tuple[Fraction, tuple[Law, Law]] | None = None

    def finding(self) -> ExactFinding:
        """What was found."""
        return ExactFinding(
            self._mechanism,
            self._place,
            self._setting,
            self.epsilon,
            self.delta,
            max(0.0, self._worst),
            self._where,
            self._compared,
            tuple(self._violations[:5]),
            self._control,
        )

    def require(self, holds: bool, otherwise: str) -> None:
        """Note a violation unless something holds."""
        self._compared += 1
        if not holds:
            self._violations.append(otherwise)

    def masses(self, row: Mapping[Any, Fraction], whole: int) -> dict[Any, int]:
        """A row in units; one that is no law is a violation, and the empty law."""
        try:
            return as_masses(row, whole)
        except ValueError as error:
            self._violations.append(f"not a law: {error}")
            return {None: whole}

    def neighbours(self, first: Law, second: Law, where: str) -> None:
        """Compare two data sets with the claim for the unit, both ways."""
        for one, other, order in ((first, second, where), (second, first, where + ", the other way")):
            self._note(excess(one, other, self.epsilon), order)

    def keys(self, first: Law, second: Law, where: str, *, epsilon: Fraction, delta: Fraction) -> None:
        """Compare two rows with what one key's law claims, both ways, and remember the worst."""
        for one, other, order in ((first, second, where), (second, first, where + ", the other way")):
            found = excess(one, other, epsilon)
            self._compared += 1
            if found > delta:
                self._violations.append(f"one key, {order}: {float(found):.9g} where {float(delta):.9g} is claimed")
            if self.worst_key is None or found > self.worst_key[0]:
                self.worst_key = (found, (one, other))

    def together(self, copies: int, *, epsilon: Fraction) -> None:
        """Compare what the worst key found means for a unit of several keys, by composition, with the claim."""
        if self.worst_key is None:
            return
        worst, pair = self.worst_key
        self._note(worst if copies == 1 and epsilon <= self.epsilon else composed(epsilon, worst, copies, self.epsilon),
                   f"{copies} keys by composition")  # fmt: skip
        self.several([(*pair, copies)], f"{copies} times the worst pair of rows")

    def several(self, pairs: Sequence[tuple[Law, Law, int]], where: str) -> None:
        """Compare independent draws: written out where that is short, else by a lower bound, as far as it goes."""
        size = 1
        for one, other, copies in pairs:
            size *= max(len(one), len(other)) ** copies
        if size <= _MOST_OUTCOMES:
            first = product([one for one, _, copies in pairs for _ in range(copies)])
            second = product([other for _, other, copies in pairs for _ in range(copies)])
            self._note(excess(first, second, self.epsilon), where)
            return
        found = composed_at_least(pairs, self.epsilon)
        self._compared += 1
        if found > self.delta:
            self._violations.append(f"{where}: at least {found:.9g} where {float(self.delta):.9g} is claimed")
        if found > self._worst:
            self._worst, self._where = found, where

    def bounded(self, found: Fraction, where: str) -> None:
        """Compare an upper bound that was computed elsewhere with delta."""
        self._note(found, where)

    def _note(self, found: Fraction, where: str) -> None:
        self._compared += 1
        if found > self.delta:
            self._violations.append(f"{where}: {float(found):.9g} where {float(self.delta):.9g} is claimed")
        if float(found) > self._worst:
            self._worst, self._where = float(found), where
