"""The certificate of a whole series against every outcome that it can have, and faults that it has to find."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from fractions import Fraction
from random import Random
from typing import Any

import pytest

from dptally import PrivacyViolation
from dptally.laws.series import SeriesLaw, plan_series
from dptally.verifiers.series import certify_series, squared_shift
from tests.exact.series_reference import divergence, lowered, pairs_of_chances, product, small_law

# epsilon, delta, periods, differing, bits, per_key: so that a few hundred thousand outcomes are all there are.
SETTINGS = [
    (Fraction(1), Fraction(1, 10), 2, 1, 0, 1),
    (Fraction(2), Fraction(1, 20), 2, 1, 1, 1),
    (Fraction(2), Fraction(1, 100), 2, 1, 1, 2),
    (Fraction(3), Fraction(1, 4), 3, 1, 0, 1),
]
OTHERS = (0, 1, 3, 50)


def worst_divergence(law: SeriesLaw) -> float:
    """Over what others add in each period, and the periods in which the unit counts."""
    periods, found = law.periods, 0.0
    for others in itertools.product(OTHERS, repeat=periods) if periods < 3 else _few(periods):
        for ones in itertools.product((0, 1), repeat=periods):
            if 1 <= sum(ones) <= law.per_key:
                found = max(found, divergence(pairs_of_chances(law, others, ones), float(law.epsilon)))
    return found


def _few(periods: int) -> list[tuple[int, ...]]:
    """Others that come in one period alone, or never."""
    return [tuple(50 * (at == t) for t in range(periods)) for at in range(periods + 1)]


@pytest.mark.parametrize("setting", range(len(SETTINGS)))
def test_no_enumerated_divergence_exceeds_the_certificate(setting: int) -> None:
    """Whatever others do, one unit changes the law of all outcomes by no more than was certified."""
    epsilon, delta, periods, differing, bits, per_key = SETTINGS[setting]
    law = small_law(epsilon, delta, periods=periods, differing=differing, bits=bits, per_key=per_key)
    certified = law.certify().total_delta
    assert certified <= delta
    found = worst_divergence(law)
    assert found <= certified
    assert found >= 0.2 * float(certified)  # the bound says something


def test_two_keys_of_a_unit_stay_within_the_certificate() -> None:
    """Both keys at once: one may be the unit's alone while the other is shared, or become shared later."""
    law = small_law(Fraction(4), Fraction(3, 10), periods=2, differing=2)
    certified = law.certify().total_delta
    kinds = [pairs_of_chances(law, others, ones) for others in ((0, 0), (0, 50), (50, 0)) for ones in ((1, 0), (0, 1))]
    kinds = [pairs[pairs.max(axis=1) > 1e-7] for pairs in kinds]  # what is left out adds less than 1e-3
    worst = max(divergence(product(a, b), 4.0) for a, b in itertools.combinations_with_replacement(kinds, 2))
    assert worst <= certified + Fraction(1, 500)


def test_a_threshold_of_one_period_that_is_too_low_is_found() -> None:
    """By the verifier, and rightly so: the enumerated divergence is above delta."""
    law = small_law(Fraction(2), Fraction(1, 100), periods=2, differing=1, bits=2)
    for period in range(2):
        wrong = lowered(law, period, by=1.5)
        with pytest.raises(PrivacyViolation, match="a threshold is too low"):
            wrong.certify()
        assert worst_divergence(wrong) > law.delta


@pytest.mark.parametrize("period", [0, 100, 364])
def test_a_threshold_of_a_year_that_is_slightly_too_low_is_found(period: int) -> None:
    """One threshold of 365 lowered by a deviation and a half exceeds a delta that was planned tightly."""
    law = plan_series(2, "1e-6", differing=20, periods=365)
    found = law.certify().total_delta
    assert Fraction(99, 100) * law.delta < found <= law.delta
    with pytest.raises(PrivacyViolation, match="exceeds its delta"):
        lowered(law, period, by=1.5).certify()


def test_noise_that_is_too_small_or_another_table_is_found() -> None:
    """The verifier believes neither sigma nor the table."""
    law = plan_series(1, "1e-6", differing=2, periods=10)
    with pytest.raises(PrivacyViolation, match="the noise is too small"):
        replace(law, sigma=law.sigma * Fraction(9, 10)).certify()
    numbers: dict[str, Any] = {
        "reach": law.reach, "coefficients": law.coefficients, "decays": law.decays, "weights": law.weights,
        "thresholds": law.thresholds, "differing": 2, "per_key": 1, "epsilon": law.epsilon, "delta": law.delta,
    }  # fmt: skip
    with pytest.raises(PrivacyViolation, match="the table is another"):
        certify_series(law.table, sigma=law.sigma * Fraction(11, 10), **numbers)
    rising = (law.coefficients[0], *law.coefficients[2:], law.coefficients[1])
    with pytest.raises(PrivacyViolation, match="never rise"):
        certify_series(law.table, sigma=law.sigma, **{**numbers, "coefficients": rising})
    with pytest.raises(PrivacyViolation, match="exceeds its delta"):
        certify_series(law.table, sigma=law.sigma, **{**numbers, "differing": 3})
    with pytest.raises(PrivacyViolation, match="exceeds its delta"):
        certify_series(law.table, sigma=law.sigma, **{**numbers, "per_key": 2})


def test_the_first_columns_are_the_worst() -> None:
    """Of all sets of p columns of C, by going through all of them."""
    coefficients = plan_series(1, "1e-6", differing=1, periods=7).coefficients
    for per_key in range(1, 5):
        norms = []
        for chosen in itertools.combinations(range(7), per_key):
            y = [sum(coefficients[t - s] for s in chosen if s <= t) for t in range(7)]
            norms.append(sum(each * each for each in y))
        assert squared_shift(coefficients, per_key) == max(norms)


def test_a_law_is_read_back_from_its_facts() -> None:
    """All numbers, and with them table and certificate."""
    law = plan_series("0.5", "1e-8", differing=3, periods=12, per_key=2)
    again = SeriesLaw.from_facts(law.facts())
    assert again == law
    assert again.certify() == law.certify()


def _random_setting(number: int) -> SeriesLaw:
    random = Random(number)  # noqa: S311 - settings, no secrets
    periods = random.choice([1, 2, 3, 7, 30, 52, 90, 365, 1000])
    return plan_series(
        Fraction(random.randint(50, 800), 100),
        Fraction(1, 10 ** random.randint(3, 12)),
        differing=random.choice([1, 2, 5, 20]),
        periods=periods,
        per_key=random.randint(1, min(periods, 3)),
    )


def _check_setting(number: int) -> None:
    law = _random_setting(number)
    found = law.certify().total_delta
    assert Fraction(9, 10) * law.delta < found <= law.delta
    assert all(threshold > 0 for threshold in law.thresholds)


@pytest.mark.parametrize("number", range(6))
def test_planned_series_pass_the_verifier(number: int) -> None:
    """Settings at random: what is planned keeps its delta, and wastes less than a tenth of it."""
    _check_setting(number)


@pytest.mark.slow
def test_a_thousand_planned_series_pass_the_verifier() -> None:
    """As above, for a thousand settings."""
    for number in range(1000):
        _check_setting(number)


def test_totals_of_a_year_have_three_times_the_noise_of_one_release() -> None:
    """At the same budget the last running total of 365 has at most 3.15 times the deviation of a single release."""
    law = plan_series(2, "1e-6", differing=20, periods=365)
    from dptally.laws.gaussian_histogram import GaussianHistogram

    single = float(GaussianHistogram(2, "1e-6", 20).sigma)
    last = float(law.sigma) * math.sqrt(float(law.totals @ law.totals))
    assert 2.9 < last / single < 3.15
