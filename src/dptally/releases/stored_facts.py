"""Facts out of files that anyone may have written: bounded in time and memory, whatever the bytes say.

Metadata is JSON, numbers that a guarantee rests on are written ``n`` or ``n/d``. No extension type is known that runs
code, and nothing is unpickled.
"""

from __future__ import annotations

import json
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from dptally.errors import DptallyError
from dptally.exact.parameters import MAX_EPSILON

if TYPE_CHECKING:
    from dptally.privacy.guarantee import Guarantee

__all__ = ["DAMAGE", "check_guarantee", "read_fraction", "read_json"]

DAMAGE: tuple[type[Exception], ...] = (
    ArithmeticError,
    AttributeError,
    LookupError,
    RecursionError,
    NotImplementedError,
    OSError,
    TypeError,
    ValueError,
    DptallyError,
)
"""What reading facts may raise when they are not what was written; the reader says so in its own words."""

_LARGEST_COUNT = 1 << 62
_NEIGHBOURS = "add or remove one unit"


def read_json(packed: bytes) -> dict[str, Any]:
    """One JSON object.

    Raises:
        ValueError: if it is anything else, or nested deeper than Python reads.
    """
    try:
        facts = json.loads(packed)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    if not isinstance(facts, dict):
        raise ValueError("not an object")
    return facts


def read_fraction(text: object) -> Fraction:
    """A whole number, or two with a stroke between them: no exponents, which a few letters can make endless.

    Raises:
        ValueError: if it is anything else; Python reads up to 4300 digits.
        ZeroDivisionError: if the second number is 0.

    >>> read_fraction("1/3"), read_fraction("7"), read_fraction(0)
    (Fraction(1, 3), Fraction(7, 1), Fraction(0, 1))
    """
    if isinstance(text, bool) or not isinstance(text, str | int):
        raise ValueError("not a fraction")
    numerator, _, denominator = str(text).partition("/")
    return Fraction(int(numerator), int(denominator or "1"))


def check_guarantee(found: Guarantee) -> Guarantee:
    """A guarantee as it was read, if there can be such a one.

    Raises:
        ValueError: if a number in it is out of range.
    """
    sketch = found.sketch_capacity is not None
    counts = (found.sketches, found.elements_per_unit, found.sketch_capacity or 0 if sketch else 1)
    parts = (found.spent_on_size, found.spent_on_shortfall)
    if not (
        0 < found.epsilon <= MAX_EPSILON
        and 0 <= found.delta < 1
        and all(part >= 0 for part in parts)
        and sum(parts) < found.epsilon
        # Only a sketch may count every key of a unit, and only with a unit are there several.
        and (0 if sketch else 1) <= found.max_keys_per_unit <= _LARGEST_COUNT
        and (found.unit is not None or found.max_keys_per_unit == 1)
        and all(1 <= count <= _LARGEST_COUNT for count in counts)
        and (found.most_distinct_keys is None or 1 <= found.most_distinct_keys <= _LARGEST_COUNT)
        and found.neighbours == _NEIGHBOURS
    ):
        raise ValueError("no such guarantee")
    return found
