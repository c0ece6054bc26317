"""Facts out of files that anyone may have written: bounded in time and memory, whatever the bytes say.

Metadata is JSON, numbers that a guarantee rests on are written ``n`` or ``n/d``. Reading checks the type of every
field, executes nothing and unpickles nothing.
"""

from __future__ import annotations

import json
from dataclasses import MISSING, asdict, fields
from fractions import Fraction
from typing import Any, TypeVar

from dptally.errors import DptallyError
from dptally.exact.parameters import MAX_EPSILON
from dptally.privacy.guarantee import CONDITIONS, WITHIN, Guarantee, Record
from dptally.verifiers.compact import CompactCertificate
from dptally.verifiers.tables import Certificate

DAMAGE: tuple[type[Exception], ...] = (
    ArithmeticError, AttributeError, LookupError, RecursionError, NotImplementedError, OSError, TypeError, ValueError,
    DptallyError,
)  # fmt: skip
"""What reading facts may raise when they are not what was written; the reader says so in its own words."""

_Certificate = TypeVar("_Certificate", Certificate, CompactCertificate)
_Kept = TypeVar("_Kept", Guarantee, Certificate, CompactCertificate)
_LARGEST_COUNT = 1 << 62
_NEIGHBOURS = "add or remove one unit"
_NEVER_LEFT_OUT = ("private", "neighbours")  # a file that does not say it promises nothing
_TYPES: dict[str, tuple[type, ...]] = {
    "int": (int,),
    "str": (str,),
    "bool": (bool,),
    "str | None": (str, type(None)),
    "int | None": (int, type(None)),
}


def read_json(packed: bytes) -> dict[str, Any]:
    """One JSON object.

    Raises ValueError if it is anything else, or nested deeper than Python reads.
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

    Raises ValueError if it is anything else, or longer than the 4300 digits that Python reads; ZeroDivisionError if the
    second number is 0.

    >>> read_fraction("1/3"), read_fraction("7"), read_fraction(0)
    (Fraction(1, 3), Fraction(7, 1), Fraction(0, 1))
    """
    if isinstance(text, bool) or not isinstance(text, str | int):
        raise ValueError("not a fraction")
    numerator, _, denominator = str(text).partition("/")
    return Fraction(int(numerator), int(denominator or "1"))


def facts_of(kept: Guarantee | Certificate | CompactCertificate) -> dict[str, Any]:
    """The fields of a guarantee or certificate, fractions as text; conditions beside the other fields.

    >>> facts_of(Guarantee(Fraction(1, 2), Fraction(0), None, 1, "sparse"))["epsilon"]
    '1/2'
    """
    named = asdict(kept)
    named.update(named.pop("conditions", ()))
    if named.get("where", "") is None:
        del named["where"]  # all rows were read, as in files of earlier versions
    return {
        name: str(part) if isinstance(part, Fraction) else list(part) if isinstance(part, tuple) else part
        for name, part in named.items()
    }


def read_guarantee(facts: dict[str, Any]) -> Guarantee:
    """The guarantee back. Fields that earlier versions did not write have their defaults.

    Raises ValueError, KeyError, TypeError or ZeroDivisionError for data that is no guarantee.
    """
    found = _read(Guarantee, {name: part for name, part in facts.items() if name != "conditions"})
    named = {name: _condition(facts[name], neutral) for name, neutral in CONDITIONS.items() if name in facts}
    return _possible(found.under(**named))


def _condition(part: object, neutral: int | Fraction | None) -> int | Fraction | None:
    """A condition of the type that it has where it is not named."""
    if isinstance(neutral, Fraction):
        return read_fraction(part)
    if isinstance(part, int) and not isinstance(part, bool):
        return part
    if part is None and neutral is None:
        return None
    raise ValueError("a field of another type")


def read_certificate(facts: dict[str, Any], kind: type[_Certificate]) -> _Certificate:
    """A certificate of this kind back; as `read_guarantee`. It is read, not verified."""
    return _read(kind, facts)


def _read(kind: type[_Kept], facts: dict[str, Any]) -> _Kept:
    found: dict[str, Any] = {}
    for field in fields(kind):
        if field.name not in facts and field.default is not MISSING and field.name not in _NEVER_LEFT_OUT:
            continue
        part = facts[field.name]
        if field.type == "Record | None":
            part = Record.read(part)
        elif field.type == "Fraction":
            part = read_fraction(part)
        elif field.type == "tuple[int, int]":
            first, second = part
            part = (int(first), int(second))
        elif not isinstance(part, _TYPES[str(field.type)]) or (isinstance(part, bool) and field.type != "bool"):
            raise ValueError("a field of another type")
        found[field.name] = part
    return kind(**found)


def _possible(found: Guarantee) -> Guarantee:
    """A guarantee as it was read, if there can be such a one."""
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
        and found.periods >= 1
        and found.periods_per_key >= 1
        and 0 <= found.within < len(WITHIN)
    ):
        raise ValueError("no such guarantee")
    return found
