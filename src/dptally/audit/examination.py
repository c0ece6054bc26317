"""The comparison of many pairs of laws with one claim, and what it found."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from fractions import Fraction
from typing import Any

from dptally.audit.divergences import Law, as_masses, composed, composed_at_least, excess, product
from dptally.audit.random_settings import RandomSettings
from dptally.audit.subjects import law_of, made_for
from dptally.laws.spec import Mechanism

NOTHING = Fraction(0)
_MOST_OUTCOMES = 20_000  # of a product that is written out


@dataclass(frozen=True)
class ExactFinding:
    """One setting of one mechanism, compared with what it claims."""

    mechanism: str  # its name in the audit
    place: int  # of the setting in the grid; with the seed it repeats the setting
    control: str  # what the law was made for in place of the claim; empty for the mechanism itself
    setting: dict[str, str]  # the parameters, as text
    epsilon: Fraction  # what is claimed for the unit, as is delta
    delta: Fraction
    # the largest delta that was found at that epsilon (an upper bound within 2^-600 where laws were written out; a
    # lower bound where it could only be bounded)
    found: float
    where: str  # the pair of data sets that shows it
    comparisons: int  # how many pairs of laws were compared, both ways
    violations: tuple[str, ...]  # what exceeds its claim, in words; empty where nothing does

    @property
    def violated(self) -> bool:
        """Whether anything exceeds its claim."""
        return bool(self.violations)

    def describe(self) -> dict[str, Any]:
        """As plain data for JSON."""
        exact = {"epsilon": str(self.epsilon), "delta": str(self.delta), "violations": list(self.violations)}
        return asdict(self) | exact


class Examination:
    """Collects what is found for one setting, of a place in the grid of a seed; for a control, or for none."""

    def __init__(self, name: str, mechanism: type[Mechanism], seed: int, place: int, control: str) -> None:
        self.mechanism = mechanism
        self.choose = RandomSettings(seed, place)
        self.epsilon, self.delta = NOTHING, NOTHING
        self._name, self._place, self._control = name, place, control
        self._setting: dict[str, str] = {}
        self._worst, self._where = -1.0, "nothing"
        self._compared = 0
        self._violations: list[str] = []
        self._worst_key: tuple[Fraction, tuple[Law, Law]] | None = None

    def claim(self, epsilon: Fraction, delta: Fraction, setting: Mapping[str, object]) -> None:
        """Say what is claimed for the unit, and for which parameters."""
        self.epsilon, self.delta = epsilon, delta
        self._setting = {name: str(part) for name, part in setting.items()}

    def made_for(self, epsilon: Fraction, delta: Fraction = NOTHING) -> tuple[Fraction, Fraction]:
        """What the law is made for, where these are claimed; the same but for controls."""
        return made_for(epsilon, delta, self._control)

    def law(self, epsilon: Fraction, delta: Fraction, options: Mapping[str, Any] | None = None, **request: Any) -> Any:
        """The law that a release with this claim would be drawn from, not yet verified."""
        return law_of(self.mechanism, *self.made_for(epsilon, delta), options, **request)

    def finding(self) -> ExactFinding:
        """What was found."""
        return ExactFinding(
            self._name,
            self._place,
            self._control,
            self._setting,
            self.epsilon,
            self.delta,
            max(0.0, self._worst),
            self._where,
            self._compared,
            tuple(self._violations[:5]),
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
            self.bounded(excess(one, other, self.epsilon), order)

    def keys(self, first: Law, second: Law, where: str, epsilon: Fraction, delta: Fraction = NOTHING) -> None:
        """Compare two rows with what one key's law claims, both ways, and remember the worst."""
        for one, other, order in ((first, second, where), (second, first, where + ", the other way")):
            found = excess(one, other, epsilon)
            self._compare(found, delta, f"one key, {order}: ")
            if self._worst_key is None or found > self._worst_key[0]:
                self._worst_key = (found, (one, other))

    def together(self, copies: int, epsilon: Fraction) -> None:
        """Compare what the worst key found means for a unit of several keys, by composition, with the claim."""
        if self._worst_key is None:
            return
        worst, pair = self._worst_key
        alone = copies == 1 and epsilon <= self.epsilon
        found = worst if alone else composed(epsilon, worst, copies, self.epsilon)
        self.bounded(found, f"{copies} keys by composition")
        self.several([(*pair, copies)], f"{copies} times the worst pair of rows")

    def several(self, pairs: Sequence[tuple[Law, Law, int]], where: str) -> None:
        """Compare independent draws: written out where that is short, else by a lower bound, as far as it goes."""
        size = 1
        for one, other, copies in pairs:
            size *= max(len(one), len(other)) ** copies
        if size <= _MOST_OUTCOMES:
            first = product([one for one, _, copies in pairs for _ in range(copies)])
            second = product([other for _, other, copies in pairs for _ in range(copies)])
            self.bounded(excess(first, second, self.epsilon), where)
        else:
            self.bounded(composed_at_least(pairs, self.epsilon), where, least="at least ")

    def bounded(self, found: Fraction | float, where: str, *, least: str = "") -> None:
        """Compare a bound of delta for the unit, computed here or elsewhere, with the claim."""
        self._compare(found, self.delta, f"{where}: {least}")
        if float(found) > self._worst:
            self._worst, self._where = float(found), where

    def _compare(self, found: Fraction | float, delta: Fraction, said: str) -> None:
        self._compared += 1
        if found > delta:
            self._violations.append(f"{said}{float(found):.9g} where {float(delta):.9g} is claimed")
