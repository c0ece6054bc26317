"""The distance and the divergence of counts, sums and totals, against every outcome of small releases, in integers."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from itertools import pairwise, product
from typing import Any

import pytest

from dptally.errors import PrivacyViolation
from dptally.laws.gaussian_histogram import noise_masses
from dptally.laws.tables.two_sided_geometric import noise_table
from dptally.laws.thresholded_noise import read_entries
from dptally.verifiers.joint_noise import LARGEST_VALUE, Part, StatisticsStage, distance_of, statistics_divergences
from tests.exact.key_rounds_reference import WHOLE, exp_above

Shift = tuple[int, ...]


def part(
    kind: str, sigma: Fraction | str, reach: int, *, limit: int = 1, grain: int = 1, of: int | None = None
) -> Part:
    """A part with a table of its own."""
    deviation = Fraction(sigma)
    return Part(kind, limit, grain, deviation, reach, noise_table(noise_masses(deviation, reach)), of)


def values(sigma: Fraction | str, reach: int, steps: int) -> Part:
    """Clipped values on a grid of so many steps for the largest one."""
    return part("values", sigma, reach, limit=LARGEST_VALUE, grain=-(-LARGEST_VALUE // steps))


def masses(one: Part) -> list[int]:
    """Of noise -R .. R, in units of 2^-128."""
    reached = [0, *read_entries(one.table), WHOLE]
    return [here - before for before, here in pairwise(reached)][::-1]


def divergence(tables: list[list[int]], shift: Shift, growth: Fraction) -> Fraction:
    """Of independent numbers that are moved by these steps, in the worse order; rounded down by exp_above."""
    pairs = [(1, 1)]
    for table, moved in zip(tables, shift, strict=True):
        lower, higher = [*table, *[0] * abs(moved)], [*[0] * abs(moved), *table]
        one, other = (lower, higher) if moved >= 0 else (higher, lower)
        pairs = [(p * a, q * b) for p, q in pairs for a, b in zip(one, other, strict=True) if a or b]
    top, bottom = growth.numerator, growth.denominator
    there = sum(max(0, p * bottom - q * top) for p, q in pairs)
    back = sum(max(0, q * bottom - p * top) for p, q in pairs)
    return Fraction(max(there, back), bottom * WHOLE ** len(tables))


def moves_of_a_key(stage: StatisticsStage) -> list[Shift]:
    """All that a unit can add to the parts of one key: a value or none, never both; or nothing at all."""
    keys = [one for one in stage.parts if one.kind not in ("all_units", "other")]
    choices: list[Shift] = [tuple([0] * len(keys))]
    of_columns = [place for place, one in enumerate(stage.parts) if one.kind == "values"]
    options: list[list[Any]] = [
        [("null", 0), *(("value", step) for step in range(-stage.parts[at].steps, stage.parts[at].steps + 1))]
        for at in of_columns
    ]
    rows = next((one.steps for one in keys if one.kind == "rows"), 1)
    for taken in product(range(1, rows + 1), *options):
        chosen: dict[Any, Any] = dict(zip(of_columns, taken[1:], strict=True))
        found = []
        for place, one in enumerate(keys):
            if one.kind == "values":
                found.append(chosen[place][1])
            elif one.kind == "nulls":
                found.append(int(chosen[one.of][0] == "null"))
            else:
                found.append(taken[0] if one.kind == "rows" else 1)
        choices.append(tuple(found))
    return choices


SETTINGS = {
    "count and values with nulls": StatisticsStage(
        (part("count", "1.5", 9), values("2.4", 13, 2), part("nulls", "1.2", 8, of=1)), 1
    ),
    "nulls with less noise than values": StatisticsStage(
        (part("count", "2", 10), values("4", 16, 1), part("nulls", "1", 8, of=1)), 1
    ),
    "rows, units, the whole": StatisticsStage(
        (part("rows", "5", 20, limit=3), part("units", "2", 9), part("all_units", "3", 11)), 1
    ),
    "two keys and other": StatisticsStage((part("count", "2", 9), part("other", "4", 14, limit=5, grain=3)), 2),
    "two keys of values": StatisticsStage((values("3", 12, 2), part("nulls", "1.5", 8, of=0)), 2),
}


@pytest.mark.parametrize("name", SETTINGS)
def test_no_enumerated_divergence_exceeds_the_bound(name: str) -> None:
    """Every way in which a unit moves the parts, each outcome written out: at most the bound, the worst near it."""
    stage = SETTINGS[name]
    of_all = [one for one in stage.parts if one.kind in ("all_units", "other")]
    whole = [range(one.steps + 1) for one in of_all]
    worst = Fraction(0)
    for epsilon in (Fraction(1, 2), Fraction(3, 2)):
        bound = statistics_divergences(stage, epsilon=epsilon, factors=[Fraction(1)])[0]
        seen: set[tuple[Shift, ...]] = set()
        for held in product(moves_of_a_key(stage), repeat=stage.differing):
            ordered = tuple(sorted(held))
            if ordered in seen:
                continue
            seen.add(ordered)
            for added in product(*whole):
                moved: Shift = (*(step for key in held for step in key), *added)
                tables = [masses(one) for one in stage.parts[: len(held[0])]] * stage.differing
                tables += [masses(one) for one in of_all]
                chosen = [(table, step) for table, step in zip(tables, moved, strict=True) if step]
                if chosen:
                    found = divergence([each for each, _ in chosen], tuple(s for _, s in chosen), exp_above(epsilon))
                    assert found <= bound, (moved, float(found), float(bound))
                    worst = max(worst, found / bound)
    assert worst > Fraction(1, 2)


def test_the_distance_is_exact() -> None:
    """l times what a key has, the larger one of values and nulls, and the whole once."""
    stage = StatisticsStage(
        (
            part("count", "3", 14), values("5", 20, 4), part("nulls", "1", 8, of=1), values("7", 30, 3),
            part("nulls", "2", 10, of=3), part("all_units", "2", 10), part("other", "4", 18, limit=9, grain=2),
        ), 6,
    )  # fmt: skip
    key = Fraction(1, 9) + max(Fraction(16, 25), Fraction(1)) + max(Fraction(9, 49), Fraction(1, 4))
    assert distance_of(stage) == 6 * key + Fraction(1, 4) + Fraction(25, 16)


def test_forged_parts_are_refused() -> None:
    """Limits that are not those of the kind, nulls without values, parts twice, and numbers that are none."""
    count, value, nulls = part("count", "3", 14), values("5", 20, 4), part("nulls", "2", 10, of=1)
    whole = part("all_units", "3", 14)
    distance_of(StatisticsStage((count, value, nulls, whole), 2))
    for parts in (
        (replace(count, limit=2), value, nulls),
        (count, replace(value, limit=LARGEST_VALUE // 2), nulls),
        (count, value, replace(nulls, of=0)),
        (count, value, replace(nulls, of=None)),
        (count, value, nulls, nulls),
        (count, replace(value, of=0), nulls),
        (count, count),
        (whole, replace(whole)),
        (replace(count, kind="free"),),
        (replace(count, grain=0),),
        (replace(count, sigma=Fraction(0)),),
        (),
    ):
        with pytest.raises(PrivacyViolation):
            distance_of(StatisticsStage(parts, 2))  # type: ignore[arg-type]
    with pytest.raises(PrivacyViolation):
        distance_of(StatisticsStage((count,), 0))


def test_quotients_move_by_no_more_than_their_steps() -> None:
    """Floor of (A + o) / g moves by at most ceil(M / g) where A moves by at most M, whatever A is."""
    for limit, grain in ((1, 1), (5, 3), (7, 7), (8, 3), (9, 4), (3, 8)):
        steps = replace(part("count", "3", 14), limit=limit, grain=grain).steps
        for start in range(-30, 30):
            before = (start + grain // 2) // grain
            most = max(abs((start + move + grain // 2) // grain - before) for move in range(-limit, limit + 1))
            assert most <= steps
