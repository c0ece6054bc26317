"""Functions g of frequency that sums are asked for, by name."""

from __future__ import annotations

import math
from fractions import Fraction

from dptally.errors import InvalidParameter
from dptally.exact import as_fraction
from dptally.laws.base import FrequencyFunction

__all__ = ["frequency_function", "one_per_key"]


def frequency_function(of: FrequencyFunction | str | None) -> FrequencyFunction | None:
    """The function g of frequency that a name stands for.

    ===========  ===============  =================================
    name         g(w)             a sum over keys then is
    ===========  ===============  =================================
    "count"      w                how many counts; the same as None
    "keys"       1                how many distinct keys
    "power:P"    w^P              a frequency moment
    "capped:C"   min(w, C)        counts, each key at most C times
    "log"        log(1 + w)
    ===========  ===============  =================================

    where P is from 0 to 2 and C is positive, both read exactly ("0.5", "1/3"). Logarithms, and powers that are not
    whole, are floating point; everything else is exact.

    Args:
        of: a name, None, or a function, which is returned as it is. It must not decrease, and g(0) counts as 0.

    Returns:
        FrequencyFunction | None: None for the frequency itself.

    Raises:
        InvalidParameter: for anything else.

    >>> [frequency_function(name)(9) for name in ("keys", "power:2", "power:0.5", "capped:5")]
    [1, 81, 3.0, 5]
    """
    if of is None or callable(of):
        return of
    name, _, number = of.strip().partition(":") if isinstance(of, str) else ("", "", "")
    plain: dict[str, FrequencyFunction | None] = {"count": None, "keys": one_per_key, "log": math.log1p}
    if name in plain and not number:
        return plain[name]
    if name == "power" and number:
        return _power(as_fraction("the power in of", number))
    if name == "capped" and number:
        return _capped(as_fraction("the cap in of", number))
    raise InvalidParameter(
        f"of must be 'count', 'keys', 'log', 'power:P', 'capped:C' or a function of frequency, got {str(of)[:40]!r}."
    )


def one_per_key(frequency: int) -> int:
    """The function that counts keys."""
    return 1


def _power(power: Fraction) -> FrequencyFunction | None:
    if not 0 <= power <= 2:
        raise InvalidParameter(f"the power in of must be from 0 to 2, got {power}.")
    if power in (0, 1):
        return one_per_key if power == 0 else None
    if power.denominator == 1:
        return lambda frequency: frequency**power.numerator
    exponent = float(power)
    return lambda frequency: float(frequency) ** exponent


def _capped(cap: Fraction) -> FrequencyFunction:
    if cap <= 0:
        raise InvalidParameter(f"the cap in of must be positive, got {cap}.")
    limit = cap.numerator if cap.denominator == 1 else cap
    return lambda frequency: min(frequency, limit)
