"""Sampling schemes: the probability q_i with which a key of frequency i enters a sample.

A scheme is public: it says how a sample is drawn, never what is in it. Probabilities never pass through floating point:
each is known by rational bounds to any precision, and by the exact floor of 2^127 q_i, which is what laws are built on.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from fractions import Fraction
from itertools import pairwise
from typing import Self

from dptally.errors import InvalidParameter
from dptally.exact import as_count, as_fraction, exp_bounds
from dptally.exact.searching import first_where

UNIT_BITS = 127
_FIRST_PRECISION = 192
_LARGEST_PART = 1 << 512
_LARGEST_FREQUENCY = 1 << 64


class Scheme(ABC):
    """Non-decreasing inclusion probabilities q_1, q_2, ...; q_0 = 0."""

    size: int | None = None

    @abstractmethod
    def bounds(self, frequency: int, bits: int) -> tuple[Fraction, Fraction]:
        """Rational numbers below and above q_frequency, at most about 2^-bits apart."""

    @abstractmethod
    def __str__(self) -> str:
        """The scheme as text that `read_scheme` understands."""

    @property
    @abstractmethod
    def certain_from(self) -> int | None:
        """The smallest frequency from which on q no longer changes, or None if it always does."""

    def floor(self, frequency: int) -> int:
        """The whole part of 2^127 q, by bounds tight enough to agree; an exact tie is met by both bounds."""
        bits = _FIRST_PRECISION
        while True:
            low, high = (math.floor(bound * (1 << UNIT_BITS)) for bound in self.bounds(frequency, bits))
            if low == high:
                return low
            if bits > 1 << 14:
                return low  # q is within 2^-16000 of a multiple of 2^-127: rounded down all the same
            bits *= 2

    def of_total(self, total: int) -> Scheme:
        """The scheme with its rate set, if that depends on the total number of occurrences; otherwise itself."""
        return self

    def floors(self, first: int, last: int) -> list[int]:
        """`floor` for all frequencies first .. last."""
        return [self.floor(frequency) for frequency in range(first, last + 1)]

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and str(self) == str(other)

    def __hash__(self) -> int:
        return hash(str(self))


class _Threshold(Scheme):
    """Threshold sampling: a key is taken when a secret random number is below rate * frequency^power."""

    _name: str

    def __init__(self, rate: object = None, power: object = 1, *, size: int | None = None) -> None:
        if (rate is None) == (size is None):
            raise InvalidParameter("give either a rate or a size.")
        self.size = None if size is None else as_count("size", size, largest=1 << 40)
        self._rate = None if rate is None else as_fraction("rate", rate)
        self.power = as_fraction("power", power)
        if self._rate is not None and self._rate <= 0:
            raise InvalidParameter(f"rate must be a positive number, got {rate}.")
        if self._rate is not None and max(self._rate.numerator, self._rate.denominator) >= _LARGEST_PART:
            raise InvalidParameter("rate must be a fraction of two numbers below 2^512.")
        if not 0 <= self.power <= 2:
            raise InvalidParameter(f"power must be from 0 to 2, got {power}.")
        if self.power.denominator > 1000:
            raise InvalidParameter(
                f"power must be a fraction with a denominator of at most 1000, got {power}; write it as '0.5' or '1/3'."
            )
        if size is not None and self.power != 1:
            raise InvalidParameter("a size needs power 1: the rate is then size / total.")

    @property
    def rate(self) -> Fraction:
        """The rate.

        Raises InvalidParameter for a scheme that has a size: it gets its rate when data is published.
        """
        if self._rate is None:
            raise InvalidParameter("a scheme with a size has no rate before it has met the data; give a rate.")
        return self._rate

    def of_total(self, total: int) -> Self:
        """The scheme with its rate set, size / total.

        Raises InvalidParameter if the size is not below the total.
        """
        if self.size is None:
            return self
        if self.size >= total:
            raise InvalidParameter(
                f"size must be below the number of occurrences in the data, and {self.size} is not; "
                "ask for fewer keys, or publish without sampling."
            )
        return type(self)(Fraction(self.size, total))

    def _mass(self, frequency: int, bits: int) -> tuple[Fraction, Fraction]:
        """Bounds of rate * frequency^power."""
        whole = frequency**self.power.numerator
        root = self.power.denominator
        if root == 1:
            return self.rate * whole, self.rate * whole
        scale = 1 << (bits + self.rate.numerator.bit_length())
        low = _integer_root(whole * scale**root, root)
        exact = low**root == whole * scale**root
        return self.rate * Fraction(low, scale), self.rate * Fraction(low if exact else low + 1, scale)

    def __str__(self) -> str:
        rate = f"size={self.size}" if self._rate is None else str(self._rate)
        return f"{self._name}:{rate}" + ("" if self.power == 1 else f":{self.power}")

    def __repr__(self) -> str:
        if self.size is not None:
            return f"{type(self).__name__}(size={self.size})"
        return f"{type(self).__name__}({str(self.rate)!r}, power={str(self.power)!r})"


class Ppswor(_Threshold):
    """Probability proportional to size without replacement: q_i = 1 - exp(-rate i^power).

    With power 1 it needs no aggregated table: every row hits independently with probability 1 - e^-rate, and a key is
    in the sample when one of its rows hits.

    Args:
        rate: positive.
        power: from 0 to 2.
        size: instead of a rate: how many keys to expect at most. `publish` then spends a part of epsilon on a private
            estimate of the number of occurrences and sets rate = size / estimate.

    >>> Ppswor("0.01").bounds(1, 60)[0] < 1 - Fraction(99004983, 10**8)
    True
    """

    _name = "ppswor"

    def bounds(self, frequency: int, bits: int) -> tuple[Fraction, Fraction]:
        """Rational numbers below and above 1 - exp(-rate i^power)."""
        low, high = self._mass(frequency, bits + 8)
        if low > bits:
            return 1 - Fraction(1, 1 << bits), Fraction(1)  # e^-mass is below 2^-bits, and not worth its digits
        return 1 - exp_bounds(-low, bits)[1], 1 - exp_bounds(-high, bits)[0]

    def floor(self, frequency: int) -> int:
        """The whole part of 2^127 q; q is never 1, however large the frequency."""
        if self._mass(frequency, 64)[0] > UNIT_BITS:
            return (1 << UNIT_BITS) - 1
        return super().floor(frequency)

    @property
    def certain_from(self) -> int | None:
        """The probability only tends to 1, but for power 0, where it is the same for all."""
        return 1 if self.power == 0 else None

    def floors(self, first: int, last: int) -> list[int]:
        """`floor` for all frequencies; with power 1 by multiplying with e^-rate, checked to be exact."""
        if self.power != 1 or last - first < 8:
            return super().floors(first, last)
        if self.rate * first > UNIT_BITS:
            return [(1 << UNIT_BITS) - 1] * (last - first + 1)
        bits = UNIT_BITS + 128
        one = 1 << bits
        step_low, step_high = (bound * one for bound in exp_bounds(-self.rate, bits))
        low, high = (bound * one for bound in exp_bounds(-self.rate * first, bits))
        shrink_low, shrink_high, left_low, left_high = (
            math.floor(step_low),
            math.ceil(step_high),
            math.floor(low),
            math.ceil(high),
        )
        found = []
        for frequency in range(first, last + 1):
            below, above = (one - left_high) >> 128, (one - left_low) >> 128
            found.append(below if below == above else self.floor(frequency))
            left_low, left_high = (left_low * shrink_low) >> bits, -((-left_high * shrink_high) >> bits)
        return found


class Priority(_Threshold):
    """Poisson sampling with probability proportional to size: q_i = min(1, rate i^power).

    Args:
        rate: positive.
        power: from 0 to 2.
        size: instead of a rate: how many keys to expect at most. `publish` then spends a part of epsilon on a private
            estimate of the number of occurrences and sets rate = size / estimate.

    >>> Priority("0.01").bounds(3, 60)[0]
    Fraction(3, 100)
    """

    _name = "priority"

    def bounds(self, frequency: int, bits: int) -> tuple[Fraction, Fraction]:
        """Rational numbers below and above min(1, rate i^power); equal where the power is whole."""
        low, high = self._mass(frequency, bits + 8)
        return min(Fraction(1), low), min(Fraction(1), high)

    def floors(self, first: int, last: int) -> list[int]:
        """`floor` for all frequencies; with a whole power in integers."""
        if self.power.denominator != 1:
            return super().floors(first, last)
        above, below, power = self.rate.numerator << UNIT_BITS, self.rate.denominator, self.power.numerator
        return [min(1 << UNIT_BITS, above * i**power // below) for i in range(first, last + 1)]

    @property
    def certain_from(self) -> int | None:
        """The smallest frequency with rate i^power >= 1; None if no frequency there can be reaches it."""
        if self.power == 0:
            return 1
        # rate i^(p/r) >= 1 exactly if i^p >= 1 / rate^r.
        least = math.ceil(1 / self.rate**self.power.denominator)
        if _LARGEST_FREQUENCY**self.power.numerator < least:
            return None
        return first_where(lambda i: i**self.power.numerator >= least, 1, _LARGEST_FREQUENCY)


class SamplingScheme(Scheme):
    """Any non-decreasing probabilities q_1, q_2, ..., q_n; frequencies above n have q_n.

    Args:
        probabilities: numbers from 0 to 1, each at least as large as the one before. Privacy needs that: a scheme that
            takes frequent keys less often is refused, with the index where it falls; see `repaired`.

    >>> SamplingScheme.repaired([0, "0.5", "0.25", 1]).probabilities
    (Fraction(0, 1), Fraction(1, 4), Fraction(1, 4), Fraction(1, 1))
    """

    def __init__(self, probabilities: Sequence[object]) -> None:
        self.probabilities = _read(probabilities)
        for place, (before, here) in enumerate(pairwise(self.probabilities), start=2):
            if here < before:
                raise InvalidParameter(
                    f"sampling probabilities must not fall, but the one of frequency {place} is below the one of "
                    f"{place - 1}; SamplingScheme.repaired lowers the earlier ones."
                )

    @classmethod
    def repaired(cls, probabilities: Sequence[object]) -> SamplingScheme:
        """The largest non-decreasing scheme below the given probabilities: their running minimum from the right."""
        lowest = list(_read(probabilities))
        for place in range(len(lowest) - 2, -1, -1):
            lowest[place] = min(lowest[place], lowest[place + 1])
        return cls(lowest)

    def bounds(self, frequency: int, bits: int) -> tuple[Fraction, Fraction]:
        """The exact probability, twice."""
        exact = self.probabilities[min(frequency, len(self.probabilities)) - 1]
        return exact, exact

    @property
    def certain_from(self) -> int | None:
        """The number of probabilities given: after it they repeat."""
        return len(self.probabilities)

    def __str__(self) -> str:
        return "table:" + ",".join(map(str, self.probabilities))

    def __repr__(self) -> str:
        return f"SamplingScheme({len(self.probabilities)} probabilities)"


def read_scheme(text: str) -> Scheme:
    """Read a scheme as written by `str`: ``ppswor:0.01``, ``priority:1/100:0.5``, ``ppswor:size=1000``, ``table:0,1``.

    Raises InvalidParameter if it is none.
    """
    kind, _, rest = text.strip().partition(":")
    parts = rest.split(":") if rest else []
    if kind == "table" and rest:
        return SamplingScheme(rest.split(","))
    if kind in ("bottom-k", "bottomk", "hash", "coordinated"):
        raise InvalidParameter(
            f"a {kind} sample cannot be made private afterwards: privacy gains from sampling only if each key is taken "
            "or left by its own secret coin with a probability fixed in advance. A fixed size makes keys depend on "
            "each other, and a public hash tells everyone which keys would be taken."
        )
    kinds: dict[str, type[_Threshold]] = {"ppswor": Ppswor, "priority": Priority}
    if kind not in kinds or not 1 <= len(parts) <= 2:
        raise InvalidParameter(
            f"sampling must be written as ppswor:RATE or priority:RATE, with :POWER if it is not 1, got {text[:60]!r}."
        )
    if parts[0].startswith("size=") and parts[0][5:].isdecimal():
        return kinds[kind](None, *parts[1:], size=int(parts[0][5:]))
    return kinds[kind](*parts)


def _read(probabilities: Sequence[object]) -> tuple[Fraction, ...]:
    found = tuple(as_fraction("a sampling probability", given) for given in probabilities)
    if not found:
        raise InvalidParameter("a sampling scheme needs at least one probability.")
    if min(found) < 0 or max(found) > 1:
        raise InvalidParameter("sampling probabilities must be from 0 to 1.")
    return found


def _integer_root(number: int, degree: int) -> int:
    """The largest integer whose `degree`-th power is at most `number`."""
    if number < 2 or degree == 1:
        return number
    if degree == 2:
        return math.isqrt(number)
    from flint import fmpz

    root = int(fmpz(number).root(degree))
    # Whatever the library does, the root is right: one step of this loop at most is ever needed.
    while root**degree > number:
        root -= 1
    while (root + 1) ** degree <= number:
        root += 1
    return root
