"""The inverse question: what does it take to report keys of a given frequency with a given probability?

The answer is looked for on a grid of short decimal numbers (three significant digits for epsilon, two for delta), by
bisection between a point where the law reaches the probability and one where it does not. Both are evaluated exactly:
at the answer the probability is reached, at the next point of the grid it is not. More epsilon reports more; should the
choice of a law make a step back somewhere, the answer is still a point with exactly this property.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Literal

from dptally.errors import InvalidParameter
from dptally.exact import as_count, as_fraction
from dptally.exact.searching import first_near
from dptally.planning.mechanisms import Setting, make_mechanism
from dptally.privacy.composition import LARGEST_UNIT

__all__ = ["Need", "Sought", "as_probability", "find_need", "grid_value", "settled"]

Sought = Literal["epsilon", "delta", "max_keys_per_unit"]
_EPSILON_WHOLE, _EPSILON_RANGE = 100, (-3, 1)  # mantissas 100 .. 999, from 0.001 to below 32
_DELTA_WHOLE, _DELTA_RANGE = 10, (-18, -2)  # mantissas 10 .. 99, from 1e-18 to below 0.1
_LARGEST_EPSILON = 32


@dataclass(frozen=True)
class Need:
    """What one mechanism needs to report keys of a frequency with a probability.

    Attributes:
        sought: "epsilon" or "delta" (the smallest that will do), or "max_keys_per_unit" (the largest).
        frequency: of the keys that are to be reported.
        probability: with which they are to be reported, exact.
        answers: for each mechanism the number, or None where none of the grid will do. `Fraction`, or int for keys.
    """

    sought: Sought
    frequency: int
    probability: Fraction
    answers: dict[str, Fraction | int | None]

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


def grid_value(sought: Sought, place: int) -> Fraction:
    """The number at a place of the grid, from 0 on; for keys per unit from the largest on, so that all grids rise.

    >>> [str(grid_value("epsilon", place)) for place in (0, 1, 900)]
    ['1/1000', '101/100000', '1/100']
    """
    if sought == "max_keys_per_unit":
        return Fraction(LARGEST_UNIT - place)
    whole, (lowest, _) = _grid_of(sought)
    exponent, mantissa = divmod(place, 9 * whole)
    return (whole + mantissa) * Fraction(10) ** (lowest + exponent) / whole


def settled(setting: Setting, sought: Sought, number: Fraction | int) -> Setting:
    """The setting with what was sought put in."""
    if sought == "max_keys_per_unit":
        return replace(setting, max_keys_per_unit=int(number))
    if sought == "epsilon":
        return replace(setting, epsilon=Fraction(number))
    return replace(setting, delta=Fraction(number))


def find_need(names: list[str], setting: Setting, sought: Sought, frequency: object, probability: object) -> Need:
    """Ask every mechanism."""
    wanted = as_count("frequency", frequency, largest=1 << 40)
    chance = as_probability(probability)
    answers: dict[str, Fraction | int | None] = {}
    for name in names:
        guess = _place_of(sought, _first_guess(sought, setting, wanted))
        if sought == "epsilon":
            guess = _scaled_guess(name, setting, guess, wanted, chance)
        place = first_near(_reaches(name, setting, sought, wanted, chance), guess, 0, _size(sought) - 1)
        found = None if place is None else grid_value(sought, place)
        answers[name] = int(found) if found is not None and sought == "max_keys_per_unit" else found
    return Need(sought, wanted, chance, answers)


def _reaches(
    name: str, setting: Setting, sought: Sought, frequency: int, probability: Fraction
) -> Callable[[int], bool]:
    """Whether the law at a place of the grid reports the frequency with the probability; exact."""

    def reached(place: int) -> bool:
        try:
            planned = make_mechanism(name, settled(setting, sought, grid_value(sought, place)))
        except InvalidParameter:
            return False  # out of what this law can do: too little of everything
        return planned.reporting_probability(frequency) >= probability

    return reached


def _grid_of(sought: Sought) -> tuple[int, tuple[int, int]]:
    """The smallest mantissa, and the powers of ten from the first to the last."""
    return (_EPSILON_WHOLE, _EPSILON_RANGE) if sought == "epsilon" else (_DELTA_WHOLE, _DELTA_RANGE)


def _size(sought: Sought) -> int:
    """How many places the grid has."""
    if sought == "max_keys_per_unit":
        return LARGEST_UNIT
    whole, (lowest, highest) = _grid_of(sought)
    if sought == "epsilon":
        return (highest - lowest) * 9 * whole + (_LARGEST_EPSILON - 10) * whole // 10 + 1
    return (highest - lowest + 1) * 9 * whole


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
        epsilon = grid_value("epsilon", place)
        try:
            found = make_mechanism(name, replace(setting, epsilon=epsilon)).first_frequency(probability)
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
    whole, (lowest, highest) = _grid_of(sought)
    decade = math.log10(max(value, 10.0**lowest))
    exponent = min(math.floor(decade), highest)
    mantissa = min(9.999, 10.0 ** (decade - exponent))
    place: int = (exponent - lowest) * 9 * whole + math.floor((mantissa - 1) * whole)
    return min(_size(sought) - 1, place)
