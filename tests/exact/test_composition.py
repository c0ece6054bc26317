"""Several keys per unit: the exact composition theorem, both ways of computing it, and what it wins."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from itertools import product
from math import comb
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dptally.errors import PrivacyViolation
from dptally.laws.weighted_sample import WeightedSample
from dptally.privacy.composition import largest_key_delta, share_between_keys
from dptally.verifiers.tables import certify_copies
from tests.exact.reference import divergence, growth
from tests.mechanisms import PrivateWeightedSampling

MICRO = Fraction(1, 10**6)


def printed_formula(e: Fraction, d: Fraction, keys: int, epsilon: Fraction) -> Fraction:
    """1 - (1-d)^l (1-R), R as in [KOV15, Thm. 3.3], with e^x to 600 bits."""
    a, total = growth(e), growth(epsilon)
    excess = sum(comb(keys, j) * max(Fraction(0), a ** (keys - j) - total * a**j) for j in range(keys + 1))
    return 1 - (1 - d) ** keys * (1 - Fraction(excess) / (1 + a) ** keys)


@pytest.mark.parametrize("keys", [2, 3, 10, 30])
@pytest.mark.parametrize("epsilon", [Fraction(1, 10), Fraction(1), Fraction(5)])
def test_judge_and_calibration_agree_with_the_formula(epsilon: Fraction, keys: int) -> None:
    """What is given to each key composes to delta, to within 2^-100, by the printed formula and by the judge's own."""
    e, d = share_between_keys(epsilon, MICRO, keys)
    total = printed_formula(e, d, keys, epsilon)
    assert MICRO - Fraction(1, 2**100) < total <= MICRO
    one_key = replace(WeightedSample(e, d).certify(), worst_delta=d)
    found = certify_copies(one_key, copies=keys, epsilon=epsilon, delta=MICRO)
    assert abs(found.total_delta - total) < Fraction(1, 2**400)
    assert found.total_delta >= total - Fraction(1, 2**520)


@pytest.mark.parametrize("keys", [2, 3, 7])
def test_a_little_more_is_refused(keys: int) -> None:
    """A key's delta larger by 2^-100, or epsilon larger by a thousandth, does not pass the judge."""
    e, d = share_between_keys(Fraction(1), MICRO, keys)
    one_key = WeightedSample(e, d).certify()
    for wrong in (replace(one_key, worst_delta=d + Fraction(1, 2**100)), replace(one_key, epsilon=e * 1001 / 1000)):
        with pytest.raises(PrivacyViolation, match="together exceed delta"):
            certify_copies(wrong, copies=keys, epsilon=Fraction(1), delta=MICRO)


def test_one_key_at_a_larger_epsilon_is_refused() -> None:
    """A certificate for one key says nothing about a smaller epsilon than it was made at."""
    one_key = WeightedSample("1", MICRO).certify()
    assert certify_copies(one_key, copies=1, epsilon=Fraction(1), delta=MICRO).total_epsilon == 1
    with pytest.raises(PrivacyViolation, match="larger epsilon than is guaranteed"):
        certify_copies(one_key, copies=1, epsilon=Fraction(999, 1000), delta=MICRO)


@pytest.mark.parametrize(("e", "d", "keys"), [("0.5", "0.05", 2), ("0.3", "0.1", 3), ("1", "0.02", 2)])
def test_real_rows_together_stay_within_the_composed_delta(e: str, d: str, keys: int) -> None:
    """Products of actual neighbouring rows, written out, never exceed what the judge computes for several keys."""
    law = WeightedSample(e, d)
    epsilon = law.epsilon * keys * Fraction(9, 10)
    allowed = certify_copies(law.certify(), copies=keys, epsilon=epsilon, delta=Fraction(1, 2)).total_delta
    factor = growth(epsilon)
    worst = Fraction(0)
    for frequencies in product(range(1, min(law.width, 4) + 2), repeat=keys):
        after = _product([law.row(i) for i in frequencies])
        before = _product([law.row(i - 1) for i in frequencies])
        worst = max(worst, divergence(after, before, factor), divergence(before, after, factor))
    assert Fraction(0) < worst <= allowed


def _product(rows: list[dict[int | None, Fraction]]) -> dict[Any, Fraction]:
    found: dict[Any, Fraction] = {(): Fraction(1)}
    for row in rows:
        found = {(*old, new): p * q for old, p in found.items() for new, q in row.items()}
    return found


@settings(max_examples=40, deadline=None)
@given(
    st.fractions(Fraction(1, 50), 8, max_denominator=1000),
    st.integers(2, 40),
    st.integers(2, 15),
)
def test_shared_budget_is_never_exceeded(epsilon: Fraction, keys: int, power: int) -> None:
    """For any epsilon, delta and number of keys the mechanism exists and its certificate keeps both."""
    delta = Fraction(1, 10**power)
    mechanism = PrivateWeightedSampling(epsilon, delta, max_keys_per_unit=keys, values=True)
    assert mechanism.certificate.copies == keys
    assert mechanism.certificate.total_epsilon == epsilon
    assert mechanism.certificate.total_delta <= delta


def test_sharing_never_does_worse_than_dividing() -> None:
    """The shared (e, d) is at least (epsilon/l, delta/l), and wins from l = 30 on at delta 1e-6, from 10 on at 1e-3."""
    for keys in (1, 2, 3, 10, 30, 100):
        e, d = share_between_keys(Fraction(1), MICRO, keys)
        assert e >= Fraction(1) / keys
        if e == Fraction(1) / keys:
            assert d >= MICRO / keys - Fraction(1, 2**128)
    assert share_between_keys(Fraction(1), MICRO, 30)[0] > Fraction(13, 10) / 30
    assert share_between_keys(Fraction(1), Fraction(1, 1000), 10)[0] > Fraction(12, 10) / 10


def test_no_delta_is_left_where_epsilon_alone_exceeds() -> None:
    """If each key's epsilon alone uses up more than delta, nothing remains for its delta."""
    assert largest_key_delta(Fraction(1), Fraction(1), MICRO, 5) == 0
