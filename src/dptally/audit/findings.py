"""What an audit says: one line for each thing that was looked at."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

__all__ = ["ExactFinding"]


@dataclass(frozen=True)
class ExactFinding:
    """One setting of one mechanism, compared with what it claims.

    Attributes:
        mechanism: its name in the audit.
        place: of the setting in the grid; with the seed it repeats the setting.
        setting: the parameters, as text.
        epsilon: what is claimed for the unit.
        delta: what is claimed for the unit.
        found: the largest delta that was found at that epsilon (an upper bound within 2^-600 where laws were written
            out; a lower bound where it could only be bounded).
        where: the pair of data sets that shows it.
        comparisons: how many pairs of laws were compared, both ways.
        violations: what exceeds its claim, in words; empty where nothing does.
        control: what the law was made for in place of the claim; empty for the mechanism itself.
    """

    mechanism: str
    place: int
    setting: dict[str, str]
    epsilon: Fraction
    delta: Fraction
    found: float
    where: str
    comparisons: int
    violations: tuple[str, ...] = field(default=())
    control: str = ""

    @property
    def violated(self) -> bool:
        """Whether anything exceeds its claim."""
        return bool(self.violations)

    def describe(self) -> dict[str, Any]:
        """As plain data for JSON."""
        return {
            "mechanism": self.mechanism,
            "place": self.place,
            "control": self.control,
            "setting": self.setting,
            "epsilon": str(self.epsilon),
            "delta": str(self.delta),
            "found": self.found,
            "where": self.where,
            "comparisons": self.comparisons,
            "violations": list(self.violations),
        }
