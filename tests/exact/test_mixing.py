"""Mixing with a distribution of full support makes a nearly private law purely private."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from math import lcm

import pytest

from dptally.errors import InvalidParameter, PrivacyViolation
from dptally.laws.bounded_geometric import FastGeometric, geometric_masses, rational_scale
from dptally.verifiers.pure import certify_pure_rows
from dptally.verifiers.tables import Certificate
from tests.exact.mixing_reference import mix_rows, smallest_weight, statistical_distance, sufficient_weight
from tests.exact.reference import growth

EPSILONS = [Fraction(1, 10), Fraction(1), Fraction(3)]


def rows_of(masses: list[Fraction], bound: int) -> list[list[Fraction]]:
    """Count plus noise, clamped; masses from the smallest noise to the largest."""
    reach = len(masses) // 2
    rows = []
    for count in range(bound + 1):
        row = [Fraction(0)] * (bound + 1)
        for place, mass in enumerate(masses):
            row[min(max(count + place - reach, 0), bound)] += mass
        rows.append(row)
    return rows


def nearly_private(scale: Fraction, bound: int, cut: int) -> tuple[list[list[Fraction]], list[list[Fraction]]]:
    """The clamped geometric law, and the same with noise beyond `cut` moved to 0."""
    half = geometric_masses(scale, bound)
    whole = half[0] + 2 * sum(half[1:])
    exact = [Fraction(mass, whole) for mass in [*reversed(half), *half[1:]]]
    kept = [mass if abs(place - bound) <= cut else Fraction(0) for place, mass in enumerate(exact)]
    kept[bound] += 1 - sum(kept)
    return rows_of(exact, bound), rows_of(kept, bound)


def judged(rows: list[list[Fraction]], epsilon: Fraction) -> Certificate:
    """The judge's finding on rows brought to one denominator."""
    whole = lcm(*(chance.denominator for row in rows for chance in row))
    return certify_pure_rows([[int(chance * whole) for chance in row] for row in rows], epsilon=epsilon)


@pytest.mark.parametrize("base", ["uniform", "uneven"])
@pytest.mark.parametrize("epsilon", EPSILONS, ids=str)
def test_both_weights_make_a_cut_law_pure(epsilon: Fraction, base: str) -> None:
    """The cut law is not private; with the lemma's weight and with the smallest one it is, below that it is not."""
    bound, cut = 12, 5
    exact, kept = nearly_private(rational_scale(epsilon, 8), bound, cut)
    shares = [Fraction(1)] * (bound + 1) if base == "uniform" else [Fraction(v + 1) for v in range(bound + 1)]
    mixed_in = [share / sum(shares) for share in shares]
    with pytest.raises(PrivacyViolation, match="without limit"):
        judged(kept, epsilon)
    distance = max(statistical_distance(p, q) for p, q in zip(exact, kept, strict=True))
    lemma = sufficient_weight(distance, epsilon, min(mixed_in))
    smallest = smallest_weight(kept, epsilon, mixed_in)
    assert 0 < smallest <= lemma < 1
    for weight in (lemma, smallest, (lemma + 1) / 2):
        mixed = mix_rows(kept, weight, mixed_in)
        assert {sum(row) for row in mixed} == {1}
        assert judged(mixed, epsilon).worst_ratio <= growth(epsilon)
        assert all(statistical_distance(p, q) <= weight + distance for p, q in zip(exact, mixed, strict=True))
    with pytest.raises(PrivacyViolation, match="exceeds its epsilon"):
        judged(mix_rows(kept, smallest * (1 - Fraction(1, 2**60)), mixed_in), epsilon)


@pytest.mark.parametrize("mixing", ["1/100", "1/1000"])
@pytest.mark.parametrize("epsilon", [Fraction(1, 2), Fraction(1), Fraction(3)], ids=str)
def test_the_fast_law_is_a_cut_law_mixed_with_uniform_values(epsilon: Fraction, mixing: str) -> None:
    """Row by row, FastGeometric is (1 - gamma) of the law that is cut at t and gamma of uniform values, and private.

    For its cut gamma is enough, by comparison of the rows; for a cut one smaller it is not.
    """
    bound = 40
    law = FastGeometric(epsilon, bound, mixing=mixing)
    weight, uniform = Fraction(mixing), [Fraction(1, bound + 1)] * (bound + 1)
    assert 0 < law.reach < bound
    exact, kept = nearly_private(law.scale, bound, law.reach)
    mixed = mix_rows(kept, weight, uniform)
    assert mixed == [[law.row(count)[value] for value in range(bound + 1)] for count in range(bound + 1)]
    assert law.certify().worst_ratio == judged(mixed, epsilon).worst_ratio <= growth(epsilon)
    assert smallest_weight(kept, epsilon, uniform) <= weight
    assert smallest_weight(nearly_private(law.scale, bound, law.reach - 1)[1], epsilon, uniform) > weight
    tail = sum(exact[0][law.reach + 1 :])
    assert max(statistical_distance(p, q) for p, q in zip(exact, kept, strict=True)) <= 2 * tail


@pytest.mark.parametrize("epsilon", EPSILONS, ids=str)
def test_the_condition_of_the_lemma_holds_with_equality(epsilon: Fraction) -> None:
    """At the weight w the printed condition (3.1) is met, and missed by less than 2^-200 for a smaller one."""
    distance, least = Fraction(1, 10**6), Fraction(1, 100)
    weight = sufficient_weight(distance, epsilon, least)
    a = growth(epsilon)
    allowed = (a - 1) / (a + 1) * weight / (1 - weight) * least
    assert 0 <= allowed - distance < Fraction(1, 2**200)


def test_a_private_law_needs_no_mixing() -> None:
    """Distance 0 asks for weight 0, by the lemma and by comparison."""
    exact, _ = nearly_private(rational_scale(Fraction(1), 8), 6, 6)
    assert sufficient_weight(Fraction(0), Fraction(1), Fraction(1, 7)) == 0
    assert smallest_weight(exact, Fraction(1), [Fraction(1, 7)] * 7) == 0


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: sufficient_weight(Fraction(1), Fraction(1), Fraction(1, 2)),
            "distance must be at least 0 and below",
        ),
        (lambda: sufficient_weight(Fraction(0), Fraction(1), Fraction(0)), "least_chance must be above 0"),
        (lambda: sufficient_weight(Fraction(0), Fraction(0), Fraction(1)), "epsilon must be positive"),
        (lambda: smallest_weight([[Fraction(1)]], Fraction(1), [Fraction(1, 2)] * 2), "the same outcomes"),
        (
            lambda: smallest_weight([[Fraction(1)] * 2], Fraction(1), [Fraction(1), Fraction(0)]),
            "every outcome a chance",
        ),
    ],
)
def test_bad_input(call: Callable[[], object], message: str) -> None:
    """Each is refused in one sentence."""
    with pytest.raises(InvalidParameter, match=message):
        call()
