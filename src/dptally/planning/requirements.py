"""The inverse question: what does it take to report keys of a given frequency with a given probability?

The answer is looked for on a grid of short decimal numbers (three significant digits for epsilon, two for delta), by
bisection between a point where the law reaches the probability and one where it does not. Both are evaluated exactly:
at the answer the probability is reached, at the next point of the grid it is not. More epsilon reports more; should the
choice of a law make a step back somewhere, the answer is still a point with exactly this property.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache, partial
from typing import Any, Literal

from dptally.errors import InvalidParameter
from dptally.exact import as_count, as_fraction
from dptally.exact.searching import first_near
from dptally.planning.mechanisms import Setting, make_mechanism
from dptally.privacy.composition import LARGEST_UNIT

Sought = Literal["epsilon", "delta", "max_keys_per_unit"]
_LARGEST_EPSILON = 32


@dataclass(frozen=True)
class Need:
    """What each mechanism needs to report keys of a frequency with a probability."""

    sought: Sought  # the smallest epsilon or delta that will do, or the largest number of keys per unit
    frequency: int
    probability: Fraction
    answers: dict[str, Fraction | int | None]  # by mechanism; None where none of the grid will do

    @property
    def best(self) -> tuple[str, Fraction | int] | None:
        """The mechanism that needs least (or allows the most keys), and its number."""
        found = [
            (number, -place, name) for place, (name, number) in enumerate(self.answers.items()) if number is not None
        ]
        if not found:
            return None
        if self.sought == "max_keys_per_unit":
            number, _, name = max(found)
        else:
            number, _, name = min(found, key=lambda each: (each[0], -each[1]))
        return name, number

    def __str__(self) -> str:
        chance = f"{float(100 * self.probability):g} %"
        asked = f"to report keys of frequency {self.frequency:,} with a probability of {chance}"
        best = self.best
        if best is None:
            return f"No {_WORDS[self.sought]} of the grid suffices {asked}."
        name, number = best
        if self.sought == "max_keys_per_unit":
            keys = "one key" if number == 1 else f"{number:,} keys"
            return f"A unit may have at most {keys} {asked}, with {name}."
        return f"The smallest {self.sought} {asked} is {float(number):.3g}, with {name}."

    def describe(self) -> dict[str, Any]:
        """Plain data for JSON; fractions are text."""
        answers = {name: str(found) if isinstance(found, Fraction) else found for name, found in self.answers.items()}
        return {**vars(self), "probability": str(self.probability), "answers": answers, "answer": str(self)}


_WORDS = {"epsilon": "epsilon", "delta": "delta", "max_keys_per_unit": "number of keys per unit"}


def as_probability(number: object) -> Fraction:
    """Read a probability above 0 and below 1; text may be a percentage, as "95%"."""
    if isinstance(number, str) and number.strip().endswith("%"):
        chance = as_fraction("probability", number.strip()[:-1]) / 100
    else:
        chance = as_fraction("probability", number)
    if not 0 < chance < 1:
        raise InvalidParameter(f"probability must be above 0 and below 1, got {number}.")
    return chance


@lru_cache
def grid_of(sought: Sought) -> Sequence[Fraction | int]:
    """The numbers that are looked at, each of which reports more than the one before: keys per unit fall, others rise.

    >>> [str(grid_of("epsilon")[place]) for place in (0, 1, 900, -1)]
    ['1/1000', '101/100000', '1/100', '32']
    """
    if sought == "max_keys_per_unit":
        return range(LARGEST_UNIT, 0, -1)
    smallest, powers = (100, range(-3, 2)) if sought == "epsilon" else (10, range(-18, -1))
    mantissas = [Fraction(number, smallest) for number in range(smallest, 10 * smallest)]
    numbers = [mantissa * Fraction(10) ** power for power in powers for mantissa in mantissas]
    return [number for number in numbers if number <= _LARGEST_EPSILON]


def settled(setting: Setting, sought: Sought, number: Fraction | int) -> Setting:
    """The setting with what was sought put in."""
    change: dict[str, Any] = {sought: int(number) if sought == "max_keys_per_unit" else Fraction(number)}
    return replace(setting, **change)


def find_need(names: list[str], setting: Setting, sought: Sought, frequency: object, probability: object) -> Need:
    """Ask every mechanism."""
    wanted = as_count("frequency", frequency, largest=1 << 40)
    chance = as_probability(probability)
    answers: dict[str, Fraction | int | None] = {}
    grid = grid_of(sought)

    def reached(name: str, place: int) -> bool:
        """Whether the law at a place of the grid reports the frequency with the probability; exact."""
        try:
            planned = make_mechanism(name, settled(setting, sought, grid[place]))
        except InvalidParameter:
            return False  # out of what this law can do: too little of everything
        return planned.law.chance(wanted) >= chance

    for name in names:
        guess = _place_of(sought, _first_guess(sought, setting, wanted))
        if sought == "epsilon":
            guess = _scaled_guess(name, setting, guess, wanted, chance)
        place = first_near(partial(reached, name), guess, 0, len(grid) - 1)
        answers[name] = None if place is None else grid[place]
    return Need(sought, wanted, chance, answers)


# ---- floating point from here on: where to start looking, which decides nothing ----


def _first_guess(sought: Sought, setting: Setting, frequency: int) -> float:
    """Keys are reported from about 1.3 ln(1 / delta) / epsilon on."""
    if sought == "max_keys_per_unit":
        return float(setting.epsilon) * frequency / 20
    budget = math.log(float(setting.universe_size or 1e6) if not setting.delta else 1 / float(setting.delta))
    if sought == "epsilon":
        return 1.3 * budget * setting.max_keys_per_unit / frequency
    return math.exp(-float(setting.epsilon) / setting.max_keys_per_unit * frequency / 1.4)


def _scaled_guess(name: str, setting: Setting, place: int, frequency: int, probability: Fraction) -> int:
    """Frequencies at which keys are reported are nearly proportional to 1 / epsilon: two steps lead close."""
    for _ in range(2):
        epsilon = Fraction(grid_of("epsilon")[place])
        try:
            found = make_mechanism(name, replace(setting, epsilon=epsilon)).law.first_frequency(probability)
        except InvalidParameter:
            return place
        if not found:
            return place
        place = _place_of("epsilon", float(epsilon) * (found - 0.5) / frequency)
    return place


def _place_of(sought: Sought, value: float) -> int:
    """The place of the grid nearest below a number."""
    if sought == "max_keys_per_unit":
        return LARGEST_UNIT - max(1, min(LARGEST_UNIT, round(value)))
    return max(0, bisect_right(grid_of(sought), value) - 1)
