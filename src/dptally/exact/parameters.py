"""Privacy parameters as exact fractions, and the limits within which a table can be built.

A float means its exact binary value, a string its decimal or fractional value: ``0.1`` is
3602879701896397/36028797018963968 and ``"0.1"`` is 1/10. Both are accepted, and a release stores the fraction.
"""

from __future__ import annotations

import math
import numbers
from decimal import Decimal
from fractions import Fraction

from dptally.errors import InvalidParameter

Number = int | float | str | Fraction | Decimal

MAX_EPSILON = 32
MIN_DELTA = Fraction(1, 2**64)
_LARGEST_EXPONENT = 1000
_LONGEST_NUMBER = 9000  # two numbers of as many digits as Python reads, and a stroke


def as_fraction(name: str, number: object) -> Fraction:
    """Read a number exactly.

    The number is an int, float, Fraction, Decimal, NumPy number, or a string such as ``"0.1"``, ``"1e-6"`` or
    ``"1/3"``; `name` is what an error calls it. Raises InvalidParameter if it is not a finite number.

    >>> as_fraction("delta", "0.1"), as_fraction("delta", 0.5)
    (Fraction(1, 10), Fraction(1, 2))
    """
    if isinstance(number, str):
        try:
            _check_size(name, number)
            return Fraction(number.strip())
        except InvalidParameter:
            raise
        except (ValueError, ZeroDivisionError):
            raise InvalidParameter(f"{name} must be a number, got {number[:40]!r}.") from None
    if isinstance(number, Decimal):
        if not number.is_finite():
            raise InvalidParameter(f"{name} must be a finite number, got {number}.")
        _check_size(name, str(number))
        return Fraction(number)
    if isinstance(number, bool) or not isinstance(number, numbers.Real):
        raise InvalidParameter(f"{name} must be a number, got {type(number).__name__}.")
    if isinstance(number, numbers.Rational):
        return Fraction(int(number.numerator), int(number.denominator))
    value = float(number)
    if not math.isfinite(value):
        raise InvalidParameter(f"{name} must be a finite number, got {value}.")
    return Fraction(value)


def _check_size(name: str, text: str) -> None:
    """Refuse what would take more digits than anybody means: a few letters, such as 1e999999999, can ask for a billion.

    Raises InvalidParameter if the number has too many digits, ValueError if the exponent is no number.
    """
    _, _, exponent = text.lower().partition("e")
    if len(text) > _LONGEST_NUMBER or (exponent and abs(int(exponent)) > _LARGEST_EXPONENT):
        raise InvalidParameter(
            f"{name} must have an exponent of at most {_LARGEST_EXPONENT} and {_LONGEST_NUMBER} characters, "
            f"got {text[:40]!r}."
        )


def as_epsilon(number: object) -> Fraction:
    """Read epsilon: positive, and at most `MAX_EPSILON`, beyond which 128-bit tables lose their precision."""
    epsilon = as_fraction("epsilon", number)
    if epsilon <= 0:
        raise InvalidParameter(f"epsilon must be a positive number, got {number}.")
    if epsilon > MAX_EPSILON:
        raise InvalidParameter(f"epsilon must be at most {MAX_EPSILON}, got {number}; that much protects no one.")
    return epsilon


def as_delta(number: object) -> Fraction:
    """Read delta: at least 2^-64 and below 1.

    With delta = 0 a key held by one unit may never be reported, and by induction no key at all: reporting private keys
    under pure differential privacy takes a mechanism that knows the universe of keys.
    """
    delta = as_fraction("delta", number)
    if delta < 0 or delta >= 1:
        raise InvalidParameter(f"delta must be at least 0 and below 1, got {number}.")
    if delta == 0:
        raise InvalidParameter(
            "delta must be positive for a mechanism that reports keys of the data, got 0: with delta = 0 no private "
            "key can ever be reported. Mechanisms with delta = 0 are 'dense', 'sparse' and 'compact', over a universe."
        )
    if delta < MIN_DELTA:
        raise InvalidParameter(f"delta must be at least 2^-64 (about 5.4e-20), got {number}: tables have 128 bits.")
    return delta


def as_count(name: str, number: object, *, largest: int, smallest: int = 1) -> int:
    """Read a whole number from `smallest` to `largest`."""
    if isinstance(number, bool) or not isinstance(number, numbers.Integral):
        raise InvalidParameter(f"{name} must be a whole number, got {type(number).__name__}.")
    value = int(number)
    if value < smallest:
        raise InvalidParameter(f"{name} must be at least {smallest}, got {value}.")
    if value > largest:
        raise InvalidParameter(f"{name} must be at most {largest}, got {value}.")
    return value


def as_share(q: object) -> Fraction:
    """Read a share from 0 to 1."""
    share = as_fraction("q", q)
    if not 0 <= share <= 1:
        raise InvalidParameter(f"q must be from 0 to 1, got {q}.")
    return share
