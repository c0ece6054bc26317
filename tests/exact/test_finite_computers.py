"""The stability-based histogram in the convention of [BV19, section 5.2]: delta is P[M(1) > b], and b is smallest.

There, counts are noised by a law M that keeps half of epsilon (neighbours replace one unit, so two counts change) and
values above b are released. In `Stability` one count changes, its law keeps the whole of epsilon, and values of at
least T are released: b = T - 1, and `Stability(epsilon / 2, delta)` is the one to compare with.
"""

from __future__ import annotations

import math
from fractions import Fraction

import pytest

from dptally.errors import PrivacyViolation
from dptally.laws.bounded_geometric import fast_masses
from dptally.laws.stability import Stability
from dptally.verifiers.tables import Band, certify_bands

EPSILON, DELTA, N = Fraction(1), Fraction(1, 1000), 200
PRINTED_SCALE = Fraction(2)  # 2^ceil(log2(2 / epsilon))


def printed_reach(mixing: Fraction) -> int:
    """The t of [BV19, Algorithm 4.11]."""
    inner = math.ceil(math.log2(8 * (N + 1) * (1 - mixing) / (EPSILON * mixing)))
    return math.ceil(Fraction(9, 2) / EPSILON * inner) - 1


def printed_threshold() -> int:
    """The b of [BV19, Theorem 5.6]."""
    return 1 + math.ceil(Fraction(9, 2) / EPSILON * Fraction(math.log(2 / DELTA)))


def smallest_threshold(reported: list[Fraction]) -> int:
    """The smallest b with P[M(1) > b] <= delta; `reported` has P[M(1) > b] for b = 0, 1, ..."""
    return next(b for b, chance in enumerate(reported) if chance <= DELTA)


def fast_sample_above(mixing: Fraction) -> list[Fraction]:
    """P[M(1) > b] for b = 0 .. N of FastSample with its printed scale and reach, in exact fractions."""
    reach = printed_reach(mixing)
    half, uniform = fast_masses(PRINTED_SCALE, reach, mixing, N)
    row = [uniform] * (N + 1)
    for noise in range(-reach, reach + 1):
        row[min(max(1 + noise, 0), N)] += half[abs(noise)]
    whole = sum(row)
    return [Fraction(sum(row[b + 1 :]), whole) for b in range(N + 1)]


@pytest.mark.parametrize("epsilon", ["0.1", "0.5", "1", "3"])
@pytest.mark.parametrize("delta", ["1e-9", "1e-3", "0.2"])
def test_delta_is_the_chance_that_a_count_of_one_is_released_and_tight(epsilon: str, delta: str) -> None:
    """The judge finds P[1 + Z > b] with b = T - 1, summed from the noise; one lower threshold is refused."""
    law = Stability(epsilon, delta)
    b = law.threshold - 1
    above = sum((chance for noise, chance in law.noise_law.items() if 1 + noise > b), Fraction(0))
    assert law.certify().worst_delta == above == law.reporting_probability(1) <= law.delta
    if law.threshold == 1:
        return  # nothing is lower
    reported = law.reach - (law.threshold - 1) + 2  # values from T - 1 to 1 + R
    lower = Band(1, 1 + law.reach, law.table[: 16 * reported], sure=False)
    assert sum((chance for noise, chance in law.noise_law.items() if 1 + noise >= b), Fraction(0)) > law.delta
    with pytest.raises(PrivacyViolation, match="rows 1 and 0 differ by"):
        certify_bands([lower], epsilon=law.epsilon, delta=law.delta)


@pytest.mark.parametrize("failure", [Fraction(1, 10), Fraction(1, 20)], ids=str)
def test_the_printed_threshold_is_twice_the_smallest(failure: Fraction) -> None:
    """Epsilon 1, delta 1e-3, n = 200: Theorem 5.6 prints b = 36 where the same law keeps delta at 17, not at 16."""
    above = fast_sample_above(min(failure / (2 * N), DELTA / 2))
    assert printed_threshold() == 36
    assert smallest_threshold(above) == 17
    assert above[17] <= DELTA < above[16]
    assert above[36] < DELTA / 4


def test_other_choices_of_the_mixing_weight() -> None:
    """The 17 is for failure probabilities of 1/10 and 1/20; the largest mixing, delta / 2, needs 18, a tiny one 16."""
    assert smallest_threshold(fast_sample_above(DELTA / 2)) == 18
    assert smallest_threshold(fast_sample_above(Fraction(1, 10**9))) == 16


def test_what_the_best_scale_and_one_change_bring() -> None:
    """With noise that uses all of epsilon / 2 the smallest b is 13; for adding or removing a unit it is 7."""
    replaced, added = Stability(EPSILON / 2, DELTA), Stability(EPSILON, DELTA)
    assert (replaced.threshold - 1, added.threshold - 1) == (13, 7)
