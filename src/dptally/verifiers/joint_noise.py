"""The verifier of the last stage of a release in rounds with statistics: everything a unit moves there, at once.

This module shares no code with the builders of laws. It reads what is drawn from, and which part each number has.

The mechanism. For every key that was found, and for the whole, integers are released that are sums over units. A unit
adds to at most l found keys, the same for all parts. Part j is one of

- "count": 1 for a key of the unit;
- "units": the same again, where "count" is of rows;
- "rows": how many rows the unit has for the key, at most a stated number;
- "values": a number from -2^30 to 2^30, or nothing where the unit has no value;
- "nulls": 1 where the unit has no value of the part that it belongs to, else nothing;
- "all_units": once, 1 for the unit;
- "other": once, how many keys of the unit were not found, at most a stated number.

Let M be the most that a unit adds in absolute value, as listed. The exact sum A becomes floor((A + o) / g) with an
integer g >= 1, the grain, and an offset o that is fixed; two sums that differ by at most M give quotients that differ
by at most K = ceil(M / g), because floor(x + y) - floor(x) <= ceil(y). The quotient gets rounded Gaussian noise of
deviation s from the table of the part, for every key and part on its own.

The distance. Over their deviations, the quotients of neighbours are at most mu apart in the Euclidean norm, where

    mu^2 = l (sum over parts of a key of (K / s)^2) + sum over parts of the whole of (K / s)^2,

but for "nulls": for one key, a unit adds either to a part of values or to the nulls of that part, and never to both,
so of these two only the larger (K / s)^2 counts. (That a column has nulls is private; its count of nulls is always
released, and is free where its noise is at least that of the values, each over what a unit may add.)

The rest, from mu to the divergence of the tables in use, is `dptally.verifiers.gaussian.joint_divergences`. mu^2 is a
fraction of integers: nothing is rounded before balls are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from dptally.errors import PrivacyViolation

__all__ = ["LARGEST_VALUE", "Part", "StatisticsStage", "distance_of", "statistics_divergences"]

LARGEST_VALUE = 1 << 30
_OF_KEYS = frozenset({"count", "units", "rows", "values", "nulls"})
_OF_ALL = frozenset({"all_units", "other"})
_ONES = frozenset({"count", "units", "nulls", "all_units"})
_MOST_PARTS, _LARGEST_LIMIT, _MOST_KEYS = 64, 1 << 40, 1 << 20


@dataclass(frozen=True)
class Part:
    """One released number of every found key, or of the whole.

    Attributes:
        kind: as listed in the module.
        limit: M.
        grain: g.
        sigma: s.
        reach: R of the table.
        table: of the noise, as in `dptally.verifiers.gaussian`.
        of: for "nulls", the place of the part of values that it belongs to.
    """

    kind: str
    limit: int
    grain: int
    sigma: Fraction
    reach: int
    table: bytes
    of: int | None = None

    @property
    def steps(self) -> int:
        """K."""
        return -(-self.limit // self.grain)

    @property
    def square(self) -> Fraction:
        """(K / s)^2."""
        return Fraction(self.steps) ** 2 / self.sigma**2


@dataclass(frozen=True)
class StatisticsStage:
    """All parts, and l."""

    parts: tuple[Part, ...]
    differing: int


def distance_of(stage: StatisticsStage) -> Fraction:
    """mu^2 of the module, exactly.

    Raises:
        PrivacyViolation: the parts are not such parts.
    """
    parts = stage.parts
    if not 1 <= len(parts) <= _MOST_PARTS or not 1 <= stage.differing <= _MOST_KEYS:
        raise PrivacyViolation("statistics have no such parts.")
    nulls: dict[int, Fraction] = {}
    for part in parts:
        whole = all(isinstance(number, int) for number in (part.limit, part.grain, part.reach))
        limit = 1 if part.kind in _ONES else LARGEST_VALUE if part.kind == "values" else part.limit
        if not whole or part.limit != limit or part.sigma <= 0 or part.kind not in _OF_KEYS | _OF_ALL:
            raise PrivacyViolation("statistics have no such parts.")
        if not (1 <= part.limit <= _LARGEST_LIMIT and 1 <= part.grain <= _LARGEST_LIMIT):
            raise PrivacyViolation("statistics have no such parts.")
        if (part.kind == "nulls") != (part.of is not None):
            raise PrivacyViolation("nulls belong to a part of values, and to nothing else.")
        if part.of is not None:
            if not 0 <= part.of < len(parts) or parts[part.of].kind != "values" or part.of in nulls:
                raise PrivacyViolation("nulls belong to a part of values, each to its own.")
            nulls[part.of] = part.square
    single = [part.kind for part in parts if part.kind not in ("values", "nulls")]
    if len(set(single)) != len(single):
        raise PrivacyViolation("a part of statistics is there twice.")
    key = Fraction(0)
    for place, part in enumerate(parts):
        if part.kind in _OF_KEYS and part.kind != "nulls":
            key += max(part.square, nulls.get(place, Fraction(0)))
    return stage.differing * key + sum((part.square for part in parts if part.kind in _OF_ALL), Fraction(0))


def statistics_divergences(stage: StatisticsStage, *, epsilon: Fraction, factors: Sequence[Fraction]) -> list[Fraction]:
    """Upper bounds of the divergence of all parts together at epsilon + ln z, for each factor z."""
    from dptally.verifiers.gaussian import MovedNoise, joint_divergences

    square = distance_of(stage)
    moved = [
        MovedNoise(part.table, part.reach, part.sigma, stage.differing if part.kind in _OF_KEYS else 1)
        for part in stage.parts
    ]
    return joint_divergences(moved, square=square, epsilon=epsilon, factors=factors)
