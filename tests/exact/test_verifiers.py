"""Verifiers against the definition, on random tables: any outcome and either order of rows may be the worst."""

from __future__ import annotations

import random
from fractions import Fraction
from typing import Any

import pytest

from dptally.errors import PrivacyViolation
from dptally.verifiers.tables import (
    Band,
    Certificate,
    certify_bands,
    certify_rows,
    certify_shift_table,
    certify_value_table,
)
from tests.exact.reference import divergence, growth

WHOLE = 1 << 128
EPSILONS = [Fraction(1, 10), Fraction(1, 2), Fraction(2)]
Rows = list[dict[Any, Fraction]]


def random_thresholds(chance: random.Random, most: int) -> list[int]:
    """Some thresholds, not falling; now and then equal ones, and masses of any size."""
    numbers = [chance.randrange(WHOLE) >> chance.choice((0, 0, 1, 5, 40)) for _ in range(chance.randint(1, most))]
    return sorted([*numbers, *chance.sample(numbers, min(len(numbers), chance.randint(0, 1)))])


def packed(thresholds: list[int]) -> bytes:
    """As they are drawn from."""
    return b"".join(threshold.to_bytes(16, "little") for threshold in thresholds)


def passed(thresholds: list[int]) -> list[Fraction]:
    """The probability of passing exactly 0, 1, ... thresholds."""
    return [Fraction(here - before, WHOLE) for before, here in zip([0, *thresholds], [*thresholds, WHOLE], strict=True)]


def added(outcomes: list[tuple[Any, Fraction]]) -> dict[Any, Fraction]:
    """A law from outcomes with their masses."""
    law: dict[Any, Fraction] = {}
    for outcome, mass in outcomes:
        law[outcome] = law.get(outcome, Fraction(0)) + mass
    return law


def worst_of(rows: Rows, epsilon: Fraction) -> Fraction:
    """The largest divergence of neighbouring rows, both ways, by the definition."""
    a = growth(epsilon)
    pairs = [(rows[i], rows[i - 1]) for i in range(1, len(rows))]
    return max(max(divergence(one, other, a), divergence(other, one, a)) for one, other in pairs)


def check(found: Certificate, rows: Rows, epsilon: Fraction, judge: Any) -> None:
    """The verifier's number is the largest divergence, its pair attains it, and a smaller delta is refused."""
    wanted = worst_of(rows, epsilon)
    assert abs(found.worst_delta - wanted) < Fraction(1, 2**190)
    first, second = (rows[i] for i in found.worst_pair)
    assert abs(divergence(first, second, growth(epsilon)) - wanted) < Fraction(1, 2**190)
    if wanted:
        with pytest.raises(PrivacyViolation, match="exceeds its delta"):
            judge(wanted * Fraction(999, 1000))


@pytest.mark.parametrize("seed", range(40))
def test_tables_of_values(seed: int) -> None:
    """Reported is w + 1 - ceil(c / 2) if c < 2 w thresholds are passed."""
    chance = random.Random(seed)  # noqa: S311 - tables, not draws
    thresholds, epsilon = random_thresholds(chance, 9), chance.choice(EPSILONS)
    rows = [
        added([(w + 1 - -(-c // 2) if c < 2 * w else None, mass) for c, mass in enumerate(passed(thresholds))])
        for w in range(len(thresholds) + 6)
    ]

    def judge(delta: Fraction) -> Certificate:
        return certify_value_table(packed(thresholds), epsilon=epsilon, delta=delta)

    check(judge(Fraction(1)), rows, epsilon, judge)


@pytest.mark.parametrize("values", [True, False])
@pytest.mark.parametrize("seed", range(20))
def test_tables_of_shifts(seed: int, values: bool) -> None:
    """Reported is w - D if that is positive, D the number of thresholds passed."""
    chance = random.Random(seed)  # noqa: S311
    thresholds, epsilon = random_thresholds(chance, 8), chance.choice(EPSILONS)
    rows = [
        added([((w - d if values else 1) if d < w else None, mass) for d, mass in enumerate(passed(thresholds))])
        for w in range(len(thresholds) + 6)
    ]

    def judge(delta: Fraction) -> Certificate:
        return certify_shift_table(packed(thresholds), values=values, epsilon=epsilon, delta=delta)

    check(judge(Fraction(1)), rows, epsilon, judge)


@pytest.mark.parametrize("seed", range(40))
def test_rows_in_the_form_they_are_drawn_from(seed: int) -> None:
    """Row by row: `top` minus the thresholds passed, and all of them passed means not reported unless it is sure."""
    chance = random.Random(seed)  # noqa: S311
    epsilon = chance.choice(EPSILONS)
    bands, rows = [], [{None: Fraction(1)}]
    for frequency in range(1, 6):
        thresholds, top, sure = random_thresholds(chance, 5), chance.randint(5, 8), chance.random() < 0.3
        bands.append(Band(frequency, top, packed(thresholds), sure))
        last = len(thresholds)
        rows.append(
            added([(None if c == last and not sure else top - c, mass) for c, mass in enumerate(passed(thresholds))])
        )

    def judge(delta: Fraction) -> Certificate:
        return certify_bands(bands, epsilon=epsilon, delta=delta)

    check(judge(Fraction(1)), rows, epsilon, judge)


@pytest.mark.parametrize("seed", range(20))
def test_rows_of_whole_numbers(seed: int) -> None:
    """Rows with one sum, of any length."""
    chance = random.Random(seed)  # noqa: S311
    epsilon = chance.choice(EPSILONS)
    whole, table = 10_000, []
    for _ in range(5):
        cuts = sorted(chance.randint(0, whole) for _ in range(chance.randint(1, 6)))
        table.append([here - before for before, here in zip([0, *cuts], [*cuts, whole], strict=True)])
    rows = [{place: Fraction(mass, whole) for place, mass in enumerate(row)} for row in table]

    def judge(delta: Fraction) -> Certificate:
        return certify_rows(table, epsilon=epsilon, delta=delta)

    check(judge(Fraction(1)), rows, epsilon, judge)
