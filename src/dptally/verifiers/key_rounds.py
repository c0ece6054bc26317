"""The verifier of releases in stages for units with many keys: every key of a unit, every stage, in one chain.

This module shares no code with the builders of laws (`dptally.laws.key_rounds`, native/reporting_search.cpp). It reads
declared functions and the tables that are drawn from, and believes nothing else.

The mechanism. Stages follow each other; what a stage releases is public and may decide everything about the next ones,
the law included. Neighbours are data sets of which one has one unit more. A stage is one of three kinds.

- Sizes: counts of units in bins, plus two-sided geometric noise of a ratio r. A unit is in at most one bin.
- A round: a unit that has n keys left keeps k = min(n, hi) of them and adds ``c = isqrt(m m hi // max(k, lo))`` to the
  sum of each. A key whose sum is w is reported with probability pi(w), independently of all others; pi(0) = 0, and sums
  from the length of the table on are reported for certain. Keys of other units move nothing, so the neighbours' sums
  differ by c at k keys and nowhere else. A sum is 0 or at least m, the smallest weight.
- Counts: rounded Gaussian noise on the counts of the keys found, of which a unit moves at most l by one each; or on
  counts, sums and totals, as `dptally.verifiers.joint_noise` says.

The argument. Let P be the law of everything released under one of the two neighbours and Q that under the other, and
z = Q/P the likelihood ratio of what is known so far. The divergence to bound is E_P max(0, 1 - e^epsilon z) at the end,
for either order of the neighbours, and z = 1 at the beginning. Let W_end(z) = max(0, 1 - e^epsilon z). Before any data
is read, a function W_j of z is declared for the time before each stage j: convex, not increasing, W_j(0) = 1. The law
of stage j is accepted if and only if, for every z > 0,

    (T_j W_{j+1})(z) <= W_j(z),    (T W)(z) = sup of sum over outcomes o of P(o) W(z Q(o)/P(o)),

where the supremum is over all that the rest of the data may be, and an outcome with Q(o) = 0 counts P(o). Then the
expected value of W_j(z), given all that was released before, never grows from one stage to the next, whatever was
chosen in between and however it was chosen from what was released. So the divergence is at most W_0(1), and W_0(1) is
compared with delta. (It is not enough to certify the laws that happened to be chosen: a law outside of its declared
function is refused, however small the divergence of all laws together would be at z = 1.)

- In a round the keys of the unit are reported independently given their sums, so T is T_c applied k times, where
  T_c W(z) = max over w in {0, m, m + 1, ...} of sum over {reported, not} of P(o) W(z Q(o)/P(o)) for the pair of
  chances (pi(w + c), pi(w)); the supremum over sums contains every choice of them, of the keys that only this unit has
  (w = 0), and of which keys were found before. k(c) is the largest k of weight c; having fewer keys is covered because
  T_c W >= W. Both orders of the neighbours are taken at every step, which contains each order alone.
- Noise of ratio r is 1/r close in both orders, so every pair of its laws is a function of a coin with chances
  1/(1+r) and r/(1+r) against the same reversed [KOV15]; T W is at most its value for that coin.
- For counts T W_end(z) is the divergence of the two laws at epsilon + ln z: that of two Gaussian laws sqrt(l) apart and
  the distance of the table from them, as in `dptally.verifiers.gaussian`.

From functions to numbers. The points are z_g = rho^g with rho = 1 + 1/N. A declared function is piecewise linear
between every eighth of them, linear between (0, 1) and the first, and constant after the last; that it is convex and
does not increase is checked in integers. T maps convex functions that do not increase to such functions. So linear
interpolation between upper bounds at two points is an upper bound between them (mass that is moved to a smaller z makes
it larger, which is how places are rounded), and T_j W_{j+1} <= W_j holds everywhere if it holds at every eighth point:
in between, the left side is below its chord and the right side is its chord. Places and shares come from the integers
of the table with directed rounding; sums are upper ends of double precision, each rounded outward by 2^-48 of itself
(native/outward_steps.cpp says why that suffices).
"""

from __future__ import annotations

import hashlib
import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray

from dptally._core import outward_steps
from dptally.errors import PrivacyViolation
from dptally.verifiers.joint_noise import StatisticsStage, statistics_divergences
from dptally.verifiers.tables import Certificate, exp_lower

__all__ = [
    "COARSE",
    "UNIT",
    "CountStage",
    "RoundStage",
    "Scale",
    "SizeStage",
    "certify_key_rounds",
    "check_function",
    "check_stage",
]

UNIT = 1 << 120  # of declared functions
COARSE = 8
_TABLE = 1 << 128
_ENTRY = 16
_FINE = 1 << 192  # of powers of rho
_LARGEST_SIZE, _LARGEST_MULTIPLE, _LONGEST_TABLE = 4096, 64, 1 << 17
_MOST_WORK = 1 << 38  # rows times points times steps: about a minute, and several times what the builder proposes


@dataclass(frozen=True)
class Scale:
    """The points rho^g, rho = 1 + 1/density, for g from -below to above."""

    density: int
    below: int
    above: int

    def __post_init__(self) -> None:
        whole = all(isinstance(part, int) for part in (self.density, self.below, self.above))
        if not whole or not 8 <= self.density <= 1 << 24 or self.below % COARSE or self.above % COARSE:
            raise PrivacyViolation("the scale of a certificate has no such points.")
        if not (COARSE <= self.below <= 1 << 14 and COARSE <= self.above <= 1 << 14):
            raise PrivacyViolation("the scale of a certificate has no such points.")

    @property
    def points(self) -> int:
        """How many there are."""
        return self.below + self.above + 1

    @cached_property
    def powers(self) -> tuple[list[int], list[int]]:
        """Lower and upper bounds of rho^g for g = -points .. points, in units of 2^-192; g is at place g + points."""
        reach, up, down = self.points, [(_FINE, _FINE)], [(_FINE, _FINE)]
        more, one = self.density + 1, self.density
        for _ in range(reach):
            low, high = up[-1]
            up.append((low * more // one, -(-high * more // one)))
            low, high = down[-1]
            down.append((low * one // more, -(-high * one // more)))
        both = down[:0:-1] + up
        return [low for low, _ in both], [high for _, high in both]

    @cached_property
    def fall(self) -> NDArray[np.float64]:
        """Lower bounds of rho^-j for j = 0 .. points."""
        lows = self.powers[0][self.points :: -1]
        found: NDArray[np.float64] = np.nextafter(np.array([low / _FINE for low in lows]), 0.0)
        return found


@dataclass(frozen=True)
class SizeStage:
    """Counts in bins with two-sided geometric noise: neighbouring masses have this ratio, below 1."""

    ratio: Fraction


@dataclass(frozen=True)
class RoundStage:
    """A round: lo, hi and m of the module, and pi(0), pi(1), ... in units of 2^-128 as little-endian integers."""

    low: int
    high: int
    multiple: int
    table: bytes


@dataclass(frozen=True)
class CountStage:
    """Counts of found keys with noise from a table of `dptally.verifiers.gaussian`, for l = `differing` keys."""

    table: bytes
    reach: int
    sigma: Fraction
    differing: int


Stage = SizeStage | RoundStage | CountStage | StatisticsStage


def certify_key_rounds(
    stages: Sequence[Stage], declared: Sequence[Sequence[int]], *, scale: Scale, epsilon: Fraction, delta: Fraction
) -> Certificate:
    """Verify all stages of a release against their declared functions; see the module for the argument.

    Args:
        stages: in the order in which they were released.
        declared: W_0, W_1, ..., one for the time before each stage, at every eighth point in units of 2^-120.
        scale: the points.
        epsilon: for the unit.
        delta: for the unit.

    Raises:
        PrivacyViolation: a function is none, a stage exceeds its own, or delta is exceeded.
    """
    if not stages or len(declared) != len(stages):
        raise PrivacyViolation("every stage of a release needs a declared function.")
    rows, digest = 0, hashlib.sha256()
    for place, stage in enumerate(stages):
        after = declared[place + 1] if place + 1 < len(stages) else None
        rows += check_stage(stage, declared[place], after, scale=scale, epsilon=epsilon)
        digest.update(repr(stage).encode() + repr(list(declared[place])).encode())
    worst = Fraction(declared[0][scale.below // COARSE], UNIT)
    if worst > delta:
        raise PrivacyViolation(
            f"the stages exceed delta: {float(worst):.17g} where {float(delta):.17g} is allowed at epsilon "
            f"{float(epsilon):.17g}."
        )
    keys = max([stage.high for stage in stages if isinstance(stage, RoundStage)], default=1)
    return Certificate(
        epsilon=epsilon,
        delta=delta,
        worst_delta=worst,
        worst_pair=(0, keys),
        rows_checked=rows,
        table_sha256=digest.hexdigest(),
        copies=keys,
        total_epsilon=epsilon,
        total_delta=worst,
        judge="rounds of keys, rounded outward",
    )


def check_stage(
    stage: Stage, before: Sequence[int], after: Sequence[int] | None, *, scale: Scale, epsilon: Fraction
) -> int:
    """Verify T W_after <= W_before for one stage; `after` is None after the last one. How many rows were compared.

    Raises:
        PrivacyViolation: the stage exceeds its declared function, at the point that is named.
    """
    return _checked(stage, tuple(before), None if after is None else tuple(after), scale, epsilon)


@lru_cache(maxsize=32)  # a law is verified where it is chosen, before it is drawn from, and with the whole release
def _checked(
    stage: Stage, before: tuple[int, ...], after: tuple[int, ...] | None, scale: Scale, epsilon: Fraction
) -> int:
    check_function(before, scale)
    if after is not None:
        check_function(after, scale)
    if isinstance(stage, CountStage | StatisticsStage):
        if after is not None:
            raise PrivacyViolation("counts are released last.")
        found, rows = _at_last(stage, scale, epsilon)
    else:
        start = _at_the_end(scale, epsilon) if after is None else _at_all_points(after, scale)
        if isinstance(stage, SizeStage):
            found, rows = _of_sizes(stage, start, scale)
        else:
            found, rows = _of_round(stage, start, scale)
    for place, (bound, allowed) in enumerate(zip(found, before, strict=True)):
        if bound > allowed:
            raise PrivacyViolation(
                f"a stage exceeds its declared function: {float(bound / UNIT):.17g} where {allowed / UNIT:.17g} is "
                f"declared, at point {place * COARSE - scale.below}."
            )
    return rows


# ---- declared functions, in integers ----


def check_function(declared: Sequence[int], scale: Scale) -> None:
    """Refuse what is not convex, increases, or leaves 0 .. 1."""
    if len(declared) != (scale.points - 1) // COARSE + 1 or not all(isinstance(part, int) for part in declared):
        raise PrivacyViolation("a declared function has another number of points than its scale.")
    one, more = scale.density**COARSE, (scale.density + 1) ** COARSE
    drops = [here - after for here, after in itertools.pairwise(declared)]
    convex = all(here * more >= after * one for here, after in itertools.pairwise(drops))
    convex &= (UNIT - declared[0]) * (more - one) >= drops[0] * one
    if not convex or min(drops) < 0 or declared[0] > UNIT or declared[-1] < 0:
        raise PrivacyViolation("a declared function must be convex, must not increase, and lies between 0 and 1.")


def _at_all_points(declared: Sequence[int], scale: Scale) -> NDArray[np.float64]:
    """Upper bounds of a declared function at all points."""
    one, more = scale.density, scale.density + 1
    whole = more**COARSE - one**COARSE
    parts = [(more**i - one**i) * one ** (COARSE - i) for i in range(COARSE)]  # (rho^i - 1) N^8
    found = [here - (here - after) * part // whole for here, after in itertools.pairwise(declared) for part in parts]
    return _upper([*found, declared[-1]], UNIT)


def _at_the_end(scale: Scale, epsilon: Fraction) -> NDArray[np.float64]:
    """Upper bounds of max(0, 1 - e^epsilon z)."""
    growth, one = exp_lower(epsilon)
    lows = scale.powers[0][scale.points - scale.below : scale.points + scale.above + 1]
    return _upper([max(0, _FINE - low * growth // one) for low in lows], _FINE)


def _upper(numbers: Sequence[int], unit: int) -> NDArray[np.float64]:
    """The numbers over the unit, a power of two, rounded up to doubles."""
    scaled = np.array([number / unit for number in numbers])  # Python rounds such quotients to the nearest double
    return np.where(scaled > 0, np.nextafter(scaled, 2.0), 0.0)


# ---- stages ----


def _of_sizes(stage: SizeStage, start: NDArray[np.float64], scale: Scale) -> tuple[list[Fraction], int]:
    ratio = stage.ratio
    if not 0 < ratio < 1:
        raise PrivacyViolation("noise on sizes must have a ratio between 0 and 1.")
    likely = -(-_TABLE * ratio.denominator // (ratio.numerator + ratio.denominator))
    return _raised(start, [(likely, _TABLE - likely)], 1, scale), 1


def _of_round(stage: RoundStage, start: NDArray[np.float64], scale: Scale) -> tuple[list[Fraction], int]:
    low, high, multiple, table = stage.low, stage.high, stage.multiple, stage.table
    if not (1 <= low <= high <= _LARGEST_SIZE and 1 <= multiple <= _LARGEST_MULTIPLE):
        raise PrivacyViolation("a round has no such sizes or weights.")
    if len(table) % _ENTRY or not _ENTRY <= len(table) <= _LONGEST_TABLE * _ENTRY:
        raise PrivacyViolation("the table of a round does not consist of entries of 128 bits.")
    chances = [int.from_bytes(table[at : at + _ENTRY], "little") for at in range(0, len(table), _ENTRY)]
    if chances[0]:
        raise PrivacyViolation("a key that does not occur must never be reported.")
    most = len(chances)
    keys_of: dict[int, int] = {}
    for keys in range(1, high + 1):
        weight = math.isqrt(multiple * multiple * high // max(keys, low))
        keys_of[weight] = max(keys_of.get(weight, 0), keys)
    if 2 * most * scale.points * sum(keys_of.values()) > _MOST_WORK:  # a file may say anything
        raise PrivacyViolation("a round has more rows and keys than can be verified.")
    least, worst, rows = min(keys_of), None, 0
    for weight, keys in keys_of.items():
        pairs = set()
        for total in (0, *range(least, most)):
            more, less = chances[total + weight] if total + weight < most else _TABLE, chances[total]
            pairs |= {(more, less), (less, more)}
        # An outcome and its complement are the same two outcomes: (p, q) and (1 - p, 1 - q) are one row.
        distinct = {min(pair, (_TABLE - pair[0], _TABLE - pair[1])) for pair in pairs if pair[0] != pair[1]}
        found = _raised(start, sorted(distinct), keys, scale)
        worst = found if worst is None else [max(each) for each in zip(worst, found, strict=True)]
        rows += len(pairs)
    assert worst is not None  # noqa: S101 - there is at least one weight
    return worst, rows


def _at_last(stage: CountStage | StatisticsStage, scale: Scale, epsilon: Fraction) -> tuple[list[Fraction], int]:
    places = range(-scale.below, scale.above + 1, COARSE)
    factors = [Fraction(scale.density + 1, scale.density) ** place for place in places]
    if isinstance(stage, StatisticsStage):
        found = statistics_divergences(stage, epsilon=epsilon, factors=factors)
        tables = [part.table for part in stage.parts]
    else:
        from dptally.verifiers.gaussian import gaussian_divergences

        found = gaussian_divergences(
            stage.table, reach=stage.reach, sigma=stage.sigma, differing=stage.differing, epsilon=epsilon,
            factors=factors,
        )  # fmt: skip
        tables = [stage.table]
    return [each * UNIT for each in found], sum(len(table) // _ENTRY + 1 for table in tables)


def _raised(start: NDArray[np.float64], pairs: Sequence[tuple[int, int]], steps: int, scale: Scale) -> list[Fraction]:
    """Upper bounds, at every eighth point in units of 2^-120, of so many steps with these pairs of chances."""
    shares, places = np.zeros((len(pairs), 5)), np.zeros((len(pairs), 2), dtype=np.int64)
    for row, (chance, other) in enumerate(pairs):
        for outcome, (mass, ratio) in enumerate(((chance, other), (_TABLE - chance, _TABLE - other))):
            if mass:
                sure, left, right, places[row, outcome] = _placed(mass, ratio, scale)
                shares[row, 0] += sure
                shares[row, 1 + 2 * outcome : 3 + 2 * outcome] = left, right
    shares = np.where(shares > 0, np.nextafter(np.nextafter(shares, 2.0), 2.0), 0.0)
    values = start.copy()
    outward_steps(values, np.ascontiguousarray(shares), places, scale.fall, steps)
    return [Fraction(value) * UNIT for value in values[::COARSE].tolist()]


def _placed(mass: int, other: int, scale: Scale) -> tuple[float, float, float, int]:
    """Where an outcome of probability `mass` leads, `other` under the other neighbour, both in units of 2^-128.

    Returns:
        tuple: the mass that counts whole, the shares of the two points around z other / mass, and the place of the
        left one. Mass may be moved to the left, and is where anything is rounded.
    """
    reach, (_, powers) = scale.points, scale.powers
    if other * _FINE < powers[0] * mass:  # farther than the scale is long, or never: at most 1 there
        return mass / _TABLE, 0.0, 0.0, 0
    guess = round(math.log(other / mass) * scale.density) if other > mass >> 8 else -reach
    place = min(max(guess, -reach), reach - 2)
    while place < reach - 2 and mass * powers[place + 1 + reach] <= other * _FINE:
        place += 1
    while mass * powers[place + reach] > other * _FINE:
        place -= 1
    beyond = other * _FINE - mass * powers[place + reach]  # (other / mass - rho^place) mass, in units of 2^-320
    right = min(mass, beyond * scale.density // powers[place + reach])
    return 0.0, (mass - right) / _TABLE, right / _TABLE, place
