"""The audits' own arithmetic, against other ways to compute the same."""

from __future__ import annotations

import math
from collections import Counter
from fractions import Fraction

import pytest
from scipy import stats

from dptally.audit.divergences import as_masses, composed, composed_at_least, excess, exponential, product
from dptally.audit.events import Neighbours, Sample, lower_bound, probability_at_least, probability_at_most
from dptally.audit.exact_keys import follows_rows
from dptally.audit.random_settings import RandomSettings
from dptally.exact import exp_bounds
from dptally.laws.stability import Stability
from dptally.laws.weighted_sample import WeightedSample
from dptally.privacy.composition import largest_key_delta

RESPONSE = {"yes": 3, "no": 1}  # randomised response: ratio 3
OPPOSITE = {"yes": 1, "no": 3}


@pytest.mark.parametrize(("hits", "runs"), [(0, 50), (1, 50), (25, 50), (50, 50), (317, 100_000), (499_000, 1_000_000)])
@pytest.mark.parametrize("alpha", [0.05, 1e-6])
def test_clopper_pearson_against_scipy(hits: int, runs: int, alpha: float) -> None:
    """Both bounds are those of the beta distribution, and never on the wrong side of them by more than rounding."""
    low = 0.0 if hits == 0 else float(stats.beta.ppf(alpha, hits, runs - hits + 1))
    high = 1.0 if hits == runs else float(stats.beta.isf(alpha, hits + 1, runs - hits))
    assert probability_at_least(hits, runs, alpha) == pytest.approx(low, rel=1e-8, abs=1e-14)
    assert probability_at_most(hits, runs, alpha) == pytest.approx(high, rel=1e-8, abs=1e-9)


def test_bounds_cover_as_often_as_stated() -> None:
    """Summed over all outcomes of 40 runs, the lower bound is above the truth with probability alpha at most."""
    alpha = 0.01
    for truth in (0.02, 0.3, 0.9):
        missed = sum(
            stats.binom.pmf(hits, 40, truth) for hits in range(41) if probability_at_least(hits, 40, alpha) > truth
        )
        assert missed <= alpha


def test_exponential_agrees_with_the_series() -> None:
    """The enclosure by balls and the one by the series overlap, and the first is tighter."""
    for exponent in (Fraction(1, 3), Fraction(1), Fraction("7.25")):
        low, high = exponential(exponent)
        other = exp_bounds(exponent, 256)
        assert other[0] <= low < high <= other[1]


def test_divergence_of_randomised_response() -> None:
    """At epsilon = log 3 the divergence is 0, below it is 3/4 - e^epsilon / 4."""
    assert excess(RESPONSE, OPPOSITE, Fraction("1.0986122886681099")) == 0
    found = excess(RESPONSE, OPPOSITE, Fraction(1, 2))
    assert float(found) == pytest.approx(0.75 - math.exp(0.5) / 4)


def test_products_and_composition_agree() -> None:
    """Three randomised responses, written out, and the formula for (e, d)-private mechanisms, are the same."""
    exact = excess(product([RESPONSE] * 3), product([OPPOSITE] * 3), Fraction(1))
    formula = composed(Fraction("1.0986122886681098"), Fraction(0), 3, Fraction(1))
    assert float(exact) == pytest.approx(float(formula), rel=1e-12)
    bound = composed_at_least([(RESPONSE, OPPOSITE, 3)], Fraction(1))
    assert float(exact) * 0.97 < bound <= float(exact)


def test_composition_agrees_with_the_builder() -> None:
    """What the builder allows one key, composed here, is delta, from below."""
    epsilon, delta, keys = Fraction(1), Fraction(1, 1000), 7
    share = Fraction(29, 200)
    found = composed(share, largest_key_delta(share, epsilon, delta, keys), keys, epsilon)
    assert delta * (1 - Fraction(1, 2**60)) < found <= delta


def test_masses_refuse_what_is_no_law() -> None:
    """Masses that do not add up, are negative, or are no multiples of the unit, are refused."""
    for row in ({1: Fraction(1, 3)}, {1: Fraction(3, 2), 2: Fraction(-1, 2)}, {1: Fraction(1, 2)}):
        with pytest.raises(ValueError, match=r"sum to one|negative"):
            as_masses(row, 4)


def test_draws_are_followed_border_by_border() -> None:
    """The compiled sampler draws the rows that are audited, and not those of the next frequency."""
    for law in (WeightedSample(1, "1e-3"), Stability(1, "1e-3"), WeightedSample(1, "1e-3", values=False)):
        rows = [as_masses(law.row(frequency), 1 << 128) for frequency in (3, 4)]
        assert follows_rows(law, 3, rows[0])
        assert not follows_rows(law, 3, rows[1])


def test_settings_repeat_and_spread() -> None:
    """The same seed and place give the same choices; spread numbers are in their range and of several kinds."""
    one, other = RandomSettings(3, 7), RandomSettings(3, 7)
    assert [one.number(0, 99) for _ in range(20)] == [other.number(0, 99) for _ in range(20)]
    found = [RandomSettings(3, place).spread(1e-9, 0.1) for place in range(60)]
    assert all(Fraction(1, 2 * 10**9) <= number <= Fraction(11, 100) for number in found)
    assert any(number.denominator & (number.denominator - 1) == 0 for number in found) and min(found) < 1e-6


def test_bound_of_epsilon_from_counts() -> None:
    """Randomised response with ratio 3 gives a bound just below log 3; equal data sets give none."""
    yes, no = Counter({"yes": 75_000, "no": 25_000}), Counter({"yes": 25_000, "no": 75_000})
    pair = Neighbours("answers", Sample(Counter(yes), Counter(yes)), Sample(Counter(no), Counter(no)))
    bound = lower_bound([pair], epsilon=1.0, delta=0.0, alpha=1e-6)
    assert math.log(3) - 0.1 < bound.epsilon < math.log(3)
    same = Neighbours("the same", pair.first, pair.first)
    assert lower_bound([same], epsilon=1.0, delta=0.0, alpha=1e-6).epsilon < 0.01
