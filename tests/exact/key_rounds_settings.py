"""Random small releases in rounds for the enumeration, and declared functions that the verifier accepts for them."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from fractions import Fraction

from dptally.laws.tables.reporting_curve import Shape, Weights, propose
from dptally.verifiers import key_rounds as verifier
from dptally.verifiers.key_rounds import COARSE, UNIT, RoundStage, Scale, SizeStage
from tests.exact.key_rounds_reference import WHOLE, Coin, Round

__all__ = [
    "Declared",
    "as_stage",
    "as_table",
    "convex_above",
    "declare",
    "random_release",
    "random_scale",
    "random_table",
]

Law = Coin | Round
Declared = list[list[int]]
_SIZES = ((1, 1, 1), (2, 2, 1), (3, 3, 1), (1, 2, 4), (1, 3, 2), (1, 4, 1), (2, 4, 2), (1, 2, 3), (2, 3, 4), (1, 3, 1))
_PLANS = ("R", "R", "R", "CR", "RR", "RR", "CRR", "RCR", "CRCR", "RRR")
_MOST_WORK = 100_000  # histories that are written out for one setting, about


def chooser(seed: object) -> random.Random:
    """Choices that repeat; nothing private rests on them."""
    return random.Random(str(seed))  # noqa: S311


def as_stage(law: Law) -> SizeStage | RoundStage:
    """What the verifier sees of a law of the reference."""
    if isinstance(law, Coin):
        return SizeStage(law.ratio)
    return RoundStage(law.low, law.high, law.multiple, law.table)


def declare(stages: Sequence[Sequence[Law]], epsilon: Fraction, scale: Scale) -> Declared:
    """About the smallest functions that the verifier accepts for the worst law of each stage, from the last on."""
    after, found = verifier._at_the_end(scale, epsilon), []
    for laws in reversed(stages):
        worst = [Fraction(0)] * ((scale.points - 1) // COARSE + 1)
        for law in laws:
            stage = as_stage(law)
            checked = verifier._of_sizes if isinstance(stage, SizeStage) else verifier._of_round
            bounds, _ = checked(stage, after, scale)  # type: ignore[arg-type]
            worst = [max(pair) for pair in zip(worst, bounds, strict=True)]
        found.append(convex_above(worst, scale))
        after = verifier._at_all_points(found[-1], scale)
    return found[::-1]


def convex_above(values: Sequence[Fraction], scale: Scale) -> list[int]:
    """A convex function that does not increase and is 1 at z = 0, at or just above nearly convex values.

    From left to right no step may be steeper than the one before, the first of which begins at z = 0.
    """
    one, more = scale.density**COARSE, (scale.density + 1) ** COARSE
    falling = [min(UNIT, math.ceil(value)) for value in values]
    for place in reversed(range(len(falling) - 1)):
        falling[place] = max(falling[place], falling[place + 1])
    found = falling[:1]
    steepest = (UNIT - found[0]) * (more - one) // one
    for value in falling[1:]:
        found.append(max(value, found[-1] - steepest))
        steepest = (found[-2] - found[-1]) * more // one
    return found


def as_table(chances: Sequence[float]) -> tuple[int, ...]:
    """Chances as integers over 2^128, below 1; the first is 0."""
    return (0, *(min(int(chance * 2.0**128), WHOLE - 1) for chance in chances[1:]))


def random_table(choose: random.Random, length: int, first: int, *, smooth: bool = False) -> tuple[int, ...]:
    """Chances of sums 0, 1, ...: of a law, growing, of any order, with zeros, all alike, or bits without any pattern.

    Sums up to `first`, the largest weight, have small chances in most of them: a unit alone gives keys away by those.
    """
    kind, small = 0 if smooth else choose.randrange(8), choose.choice((1e-6, 1e-3, 1e-2, 0.1, 1))
    if kind <= 1:  # log-odds that grow in steps, as a rule to somewhere near 1
        start, end, any_way = choose.uniform(-7, -2), choose.uniform(1, 6), choose.choice((0, 0, 0.2, 1 - smooth))
        odds = [start + (end - start) * place / length + any_way * choose.uniform(-1, 1) for place in range(length)]
        return as_table([1 / (1 + math.exp(-odd)) for odd in odds])
    if kind == 2:
        found = sorted(choose.random() ** choose.choice((1, 4, 12)) for _ in range(length))
    elif kind == 3:
        found = [choose.random() ** choose.choice((1, 6)) for _ in range(length)]
    elif kind == 4:
        found = [choose.choice((0.0, 0.0, 0.01, 0.5, 0.999)) for _ in range(length)]
    elif kind == 5:
        found = [choose.random() ** 6] * length
    elif kind == 6:
        bits = (choose.choice((1, WHOLE - 1, choose.getrandbits(128))) for _ in range(length))
        return (0, *(bit if place > first else bit >> 7 for place, bit in enumerate(bits, 1)))[:length]
    else:
        middle = choose.uniform(0.2, 0.8)  # all chances near each other: little can be told from any of them
        found = [middle * choose.uniform(0.9, 1.1) for _ in range(length)]
    return as_table([chance * small if place <= first else chance for place, chance in enumerate(found)])


def _proposed(choose: random.Random, sizes: tuple[int, int, int]) -> tuple[int, ...]:
    """A law of the builder, for so much budget that its table is short."""
    shape = Shape(choose.uniform(1.5, 6), choose.uniform(0.5, 9), choose.uniform(1e-3, 0.2))
    curve = propose(Weights(*sizes), shape)
    table = curve.table()
    return tuple(int.from_bytes(table[at : at + 16], "little") for at in range(0, len(table), 16))


def _random_round(choose: random.Random, longest: int, most: int, *, smooth: bool) -> Round:
    sizes = choose.choice([each for each in _SIZES if each[1] <= most + 1])
    if choose.random() < 0.3:
        table = _proposed(choose, sizes)
        if len(table) <= longest + 4:
            return Round(*sizes, table)
    weight = math.isqrt(sizes[2] ** 2 * sizes[1] // sizes[0])
    shortest = 1 if choose.random() < 0.05 else weight + 1
    return Round(*sizes, random_table(choose, choose.randint(shortest, weight + longest), weight, smooth=smooth))


def random_release(choose: random.Random) -> tuple[list[list[Law]], int, Fraction]:
    """Stages with one or two laws each, how many keys a unit may have, and epsilon."""
    while True:
        plan, keys = choose.choice(_PLANS), choose.choice((1, 2, 2, 3, 3, 4))
        longest, smooth = choose.choice((2, 4, 6, 9, 14, 24)), choose.random() < 0.7
        stages: list[list[Law]] = []
        for kind in plan:
            laws = choose.choice((1, 1, 2))
            if kind == "C":
                stages.append(
                    [
                        Coin(Fraction(choose.choice((choose.randint(1, 99), choose.randint(80, 99))), 100))
                        for _ in range(laws)
                    ]
                )
            else:
                stages.append([_random_round(choose, longest, keys, smooth=smooth) for _ in range(laws)])
        work = math.prod(
            sum(2 if isinstance(law, Coin) else math.comb(len(law.sums) + keys - 1, keys) * 2**keys for law in laws)
            for laws in stages
        )
        if work <= _MOST_WORK:
            break
    return stages, keys, Fraction(choose.randint(1, 100) * choose.choice((1, 3, 5)), 100)


def random_scale(choose: random.Random, epsilon: Fraction) -> Scale:
    """As many points as the builder takes, or few, or far apart, or on one side only."""
    usual = min(max(math.ceil(640 / epsilon), 16), 1 << 22)
    if choose.random() < 0.6:
        return Scale(usual, 1024, 512)
    return Scale(choose.choice((8, 16, 40, 100, usual)), choose.choice((1024, 256, 64, 8)), choose.choice((512, 64, 8)))
