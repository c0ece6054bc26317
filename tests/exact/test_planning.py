"""Plans agree with the laws, number by number."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

import dptally
from dptally.errors import InvalidParameter
from dptally.laws.base import Law
from dptally.laws.gaussian_histogram import GaussianHistogram
from dptally.laws.reporting_curves import reporting_curves, useful_frequencies
from dptally.laws.sample_and_threshold import SampleAndThreshold
from dptally.laws.shared_noise import SharedNoise
from dptally.laws.stability import Stability
from dptally.laws.top_k_noise import TopKNoise
from dptally.laws.weighted_sample import WeightedSample
from dptally.plan_requests import plan
from dptally.planning import Plan, planned_laws
from dptally.planning.mechanisms import AllLevels, Setting, make_mechanism
from dptally.planning.populations import listed_population, zipf_population
from dptally.planning.requirements import as_probability, grid_of
from dptally.privacy.composition import share_between_keys
from dptally.randomness import SeededBits
from tests.mechanisms import PrivateMisraGries

EPSILON, DELTA = Fraction(1), Fraction(1, 10**4)
POPULATION = {1: 400, 3: 60, 6: 30, 8: 20, 11: 10, 17: 5, 40: 3, 200: 1}
MECHANISMS = ("weighted_sample", "stability", "gaussian", "sample_and_threshold", "misra_gries")


def laws(keys: int = 1) -> dict[str, Any]:
    """The laws that `publish` would draw from, made here without the planner."""
    share = share_between_keys(EPSILON, DELTA, keys)
    return {
        "weighted_sample": WeightedSample(*share),
        "stability": Stability(*share),
        "gaussian": GaussianHistogram(EPSILON, DELTA, keys),
        "sample_and_threshold": SampleAndThreshold(*share),
        "misra_gries": SharedNoise(EPSILON * Fraction(19, 20), DELTA, 10_000),
    }


def planned(**options: Any) -> Plan:
    """A plan without a universe."""
    found = plan(**{"epsilon": EPSILON, "delta": DELTA, **options})
    assert isinstance(found, Plan)
    return found


@pytest.mark.parametrize("keys", [1, 3])
@pytest.mark.parametrize("name", MECHANISMS[:4])
def test_frequencies_are_the_smallest_with_the_probability(name: str, keys: int) -> None:
    """At half, likely and nearly the exact law has reached 50, 95 and 99.9 %, and just below it has not."""
    law = laws(keys)[name]
    found = next(each for each in planned(max_keys_per_unit=keys).forecasts if each.mechanism == name)
    for frequency, level in ((found.half, "0.5"), (found.likely, "0.95"), (found.nearly, "0.999")):
        assert frequency is not None
        assert law.reporting_probability(frequency) >= Fraction(level)
        assert law.reporting_probability(frequency - 1) < Fraction(level)


@pytest.mark.parametrize("name", MECHANISMS)
def test_expected_keys_are_sums_of_exact_probabilities(name: str) -> None:
    """The expected number of keys is sum keys * P[reported], in fractions, to the last digits of a float."""
    law = laws()[name]
    found = next(each for each in planned(population=POPULATION).forecasts if each.mechanism == name)
    exact = sum(keys * law.reporting_probability(frequency) for frequency, keys in POPULATION.items())
    assert found.expected_keys == pytest.approx(float(exact), rel=1e-12)


@pytest.mark.parametrize("name", MECHANISMS[:4])
def test_errors_are_expectations_over_the_rows(name: str) -> None:
    """Errors at single frequencies equal the enumeration of exact rows and exact estimators."""
    from dptally.estimates.frequencies import estimate_frequencies

    law = laws()[name]
    frequencies = [5, 9, 20, 60]
    errors = law.key_errors(np.array(frequencies, dtype=np.float64))
    assert errors is not None
    weigh = law.estimator("mle")
    for place, frequency in enumerate(frequencies):
        row = {value: chance for value, chance in law.row(frequency).items() if value is not None and chance}
        if row:
            values = np.array(list(row), dtype=np.int64)
            found = estimate_frequencies(law, values, "0.95").estimate
            assert found is not None
            off = [abs(int(estimate) - frequency) for estimate in found]
            reported = sum(row.values())
            mean = sum(chance * error for chance, error in zip(row.values(), off, strict=True)) / reported
            square = sum(chance * error**2 for chance, error in zip(row.values(), off, strict=True)) / reported
            assert errors.absolute[place] == pytest.approx(float(mean), rel=1e-7)
            assert errors.square[place] == pytest.approx(float(square), rel=1e-7)
        assert errors.bias[place] == pytest.approx(float(weigh.bias(frequency)), rel=1e-6, abs=1e-9)
        assert errors.variance[place] == pytest.approx(float(weigh.variance(frequency)), rel=1e-6, abs=1e-9)


def test_the_error_of_a_sum_is_that_of_the_estimator() -> None:
    """The relative error of a sum over the whole population is the exact one of `population_accuracy`."""
    from dptally.estimates.accuracy import population_accuracy

    for name in ("weighted_sample", "stability", "gaussian"):
        law = laws()[name]
        found = next(each for each in planned(population=POPULATION).forecasts if each.mechanism == name)
        exact = population_accuracy(law, POPULATION)
        assert found.sum_error == pytest.approx(exact.nrmse, rel=1e-9)
        part = next(each for each in planned(population=POPULATION, share="1/4").forecasts if each.mechanism == name)
        assert part.sum_error == pytest.approx(
            math.sqrt(exact.bias**2 / 16 + exact.variance / 4) / (exact.truth / 4), rel=1e-9
        )


@pytest.mark.parametrize(("epsilon", "keys"), [("1", 6394), ("0.1", 772)])
def test_the_known_optimum(epsilon: str, keys: int) -> None:
    """A million Zipf(1) events over 10^5 keys: 6394 and 772 keys are known from one draw of such data (2 % apart)."""
    found = plan(epsilon=epsilon, delta="1e-6", rows=10**6, keys=10**5, zipf=1, mechanisms=["weighted_sample"])
    assert found.forecasts[0].expected_keys == pytest.approx(keys, rel=0.02)
    assert found.forecasts[0].mean_absolute_error == pytest.approx({"1": 0.88, "0.1": 10.5}[epsilon], rel=0.02)


def test_zipf_populations_have_the_rows_and_keys_of_drawn_ones() -> None:
    """Numbers of keys by frequency follow a drawn multinomial population within six deviations of a Poisson count."""
    population = zipf_population(10**6, 10**5, 1)
    chances = 1 / np.arange(1, 100_001)
    drawn = np.random.default_rng(5).multinomial(10**6, chances / chances.sum())
    assert population.total == pytest.approx(10**6, rel=1e-4)
    assert abs(population.size - (drawn > 0).sum()) < 6 * math.sqrt(population.size)
    for frequency in (1, 2, 5, 10, 20):
        expected = float(population.keys[population.frequencies == frequency][0])
        assert abs(expected - (drawn == frequency).sum()) < 6 * math.sqrt(expected)


def test_no_sketch_falls_short_by_more_than_the_bound() -> None:
    """Whatever the order of rows, counters fall short of frequencies by at most the planned shortfall."""
    numbers = {1: 60, 2: 20, 7: 5, 30: 2, 90: 1}
    population = listed_population(numbers)
    frequencies = [frequency for frequency, keys in numbers.items() for _ in range(keys)]
    rows = np.repeat(np.arange(len(frequencies)), frequencies)
    orders = [rows, rows[::-1], *(np.random.default_rng(seed).permutation(rows) for seed in range(20))]
    for capacity in (4, 8, 20, 88):
        bound = population.sketch_shortfall(capacity)
        for order in orders:
            sketch = dptally.MisraGriesSketch(capacity, bits=SeededBits(1))
            sketch.update(order.astype(np.int64))
            assert sketch.shortfall <= bound
    assert population.sketch_shortfall(88) == 0  # a counter for every key


@pytest.mark.parametrize("probability", ["1/2", "0.95", "99.9%"])
@pytest.mark.parametrize("frequency", [12, 30, 150])
def test_the_epsilon_found_is_the_smallest_of_its_grid(frequency: int, probability: str) -> None:
    """At the answer the exact probability is reached, one step of the grid below it is not; for every mechanism."""
    found = plan(delta="1e-6", frequency=frequency, probability=probability)
    level = as_probability(probability)
    assert found.need is not None and found.need.best is not None
    grid = [Fraction(number) for number in grid_of("epsilon")]
    for name, epsilon in found.need.answers.items():
        place = len(grid) if epsilon is None else grid.index(Fraction(epsilon))

        def reached(epsilon: Fraction, name: str = name) -> bool:
            law = make_mechanism(name, Setting(epsilon, Fraction(1, 10**6))).law
            return law.reporting_probability(frequency) >= level

        assert place == len(grid) or reached(grid[place])
        assert not reached(grid[place - 1])
    assert found.epsilon == min(number for number in found.need.answers.values() if number is not None)
    assert found.recommended == found.need.best[0] == "weighted_sample"


def test_the_grid_of_epsilon() -> None:
    """The grid has three significant digits, rises, and ends at 32."""
    grid = [Fraction(number) for number in grid_of("epsilon")]
    assert grid[0] == Fraction(1, 1000) and grid[-1] == 32
    assert all(low < high <= low * Fraction(101, 100) for low, high in pairwise(grid))
    assert all(Fraction(f"{float(number):.3g}") == number for number in grid)


def test_the_inverse_questions_for_delta_and_for_keys_per_unit() -> None:
    """The smallest delta and the largest number of keys per unit: reached there, and not one step further."""
    need = plan(epsilon=1, frequency=30, probability="95%", mechanisms=["weighted_sample"]).need
    assert need is not None and need.sought == "delta"
    delta = Fraction(need.answers["weighted_sample"] or 0)
    assert WeightedSample(1, delta).reporting_probability(30) >= Fraction(95, 100)
    assert WeightedSample(1, delta * Fraction(74, 75)).reporting_probability(30) < Fraction(95, 100)
    assert delta == Fraction(75, 10**14)
    found = plan(epsilon=1, delta="1e-6", frequency=60, probability="95%", mechanisms=["weighted_sample", "gaussian"])
    assert found.need is not None and found.need.sought == "max_keys_per_unit"
    for name, keys in found.need.answers.items():
        assert isinstance(keys, int)
        setting = Setting(Fraction(1), Fraction(1, 10**6), keys)
        more = Setting(Fraction(1), Fraction(1, 10**6), keys + 1)
        assert make_mechanism(name, setting).law.reporting_probability(60) >= Fraction(95, 100)
        assert make_mechanism(name, more).law.reporting_probability(60) < Fraction(95, 100)
    assert found.max_keys_per_unit == max(keys for keys in found.need.answers.values() if keys is not None)


def test_curves_are_the_reporting_probabilities() -> None:
    """Each point of a curve is the exact probability, rounded once."""
    curves = planned().curves([0, 1, 5, 9, 14, 30])
    for name in MECHANISMS:
        exact = [float(laws()[name].reporting_probability(w)) for w in (0, 1, 5, 9, 14, 30)]
        assert curves.get_column(name).to_list() == pytest.approx(exact, rel=1e-15)
    made = planned_laws(EPSILON, DELTA)
    assert set(made) == {*MECHANISMS, "rounds"}
    points = useful_frequencies(made.values())
    assert points[0] == 0 and len(points) <= 170
    assert reporting_curves(made, points)["weighted_sample"][-1] == 1.0


@pytest.mark.parametrize("capacity", [5, 300, 301, 2000])
@pytest.mark.parametrize("by_unit", [False, True])
def test_sketches_are_planned_with_the_law_they_are_published_with(capacity: int, by_unit: bool) -> None:
    """The planned law is the one that `PrivateMisraGries` chooses."""
    setting = Setting(EPSILON, DELTA, by_unit=by_unit, capacity=capacity)
    made = PrivateMisraGries("user" if by_unit else "single", capacity, EPSILON, DELTA, unit="u" if by_unit else None)
    law = make_mechanism("misra_gries", setting).law
    assert isinstance(law, Law) and law.facts() == made.law.facts()


def test_laws_are_kept() -> None:
    """Asking again makes no new law."""
    assert planned_laws(EPSILON, DELTA)["gaussian"] is planned_laws(EPSILON, DELTA)["gaussian"]


def test_a_tree_finds_what_all_its_levels_find() -> None:
    """The bound for a tree is the product over its levels, and never above the probability of one level."""
    level = SampleAndThreshold(1, "1e-4")
    tree = AllLevels(level, 3)
    for frequency in (0, 20, 60, 200):
        one = level.reporting_probability(frequency)
        assert 0 <= one**3 - tree.reporting_probability(frequency) < Fraction(1, 2**239)
    found = tree.first_frequency(Fraction(95, 100))
    assert found is not None
    assert tree.reporting_probability(found) >= Fraction(95, 100) > tree.reporting_probability(found - 1)


def test_sparse_bounds_in_whole_numbers_are_those_in_fractions() -> None:
    """`missing_probability` equals the sum by parts written in fractions."""
    law = TopKNoise("0.7", size=2**20, keep=100)
    ends, chances = law._blocks
    for frequency in (0, 5, 17, 40):
        total = Fraction(chances[-1], 2**128)
        for end, here, following in zip(ends[1:], chances, chances[1:], strict=False):
            noise = end - frequency
            if noise >= 0:
                reached = Fraction(law.noise.tail_bounds(noise, 128)[0], 2**128)
            else:
                reached = 1 - Fraction(law.noise.tail_bounds(1 - noise, 128)[1], 2**128)
            total += (1 - reached) * max(0, Fraction(here - following, 2**128))
        assert law.missing_probability(frequency) == min(1, total)


def test_recommendations_name_the_best_and_the_next() -> None:
    """The mechanism with most expected keys is recommended, with its lead; otherwise the smallest frequency counts."""
    found = planned(population=POPULATION)
    numbers = {each.mechanism: each.expected_keys or 0.0 for each in found.forecasts}
    assert found.recommended == max(numbers, key=lambda name: numbers[name]) == "weighted_sample"
    assert "the next best" in found.recommendation and found.recommendation.count(".") == 1
    several = planned(max_keys_per_unit=30)
    assert several.recommended == "rounds" and "round by round" in several.recommendation


def test_what_does_not_apply_has_a_reason() -> None:
    """Every mechanism is planned or has a reason, in one sentence."""
    found = planned(values=False)
    assert {each.mechanism for each in found.forecasts} == {"weighted_sample", "stability", "rounds"}
    assert set(found.left_out) == {
        "gaussian", "sample_and_threshold", "misra_gries", "heavy_hitters", "dense", "sparse", "compact",
    }  # fmt: skip
    assert all(reason.endswith(".") for reason in found.left_out.values())
    pure = plan(epsilon=1, universe="uint64", capacity=100)
    assert {each.mechanism for each in pure.forecasts} == {"sparse", "compact"}
    assert pure.left_out["dense"] == "the universe has too many keys to list."


def test_sampling_is_planned_beside_no_sampling() -> None:
    """With a scheme there are two forecasts of weighted_sample; a size needs the number of rows."""
    names = [each.mechanism for each in planned(sampling=dptally.Ppswor("0.1")).forecasts]
    assert names[:2] == ["weighted_sample", "weighted_sample ppswor:1/10"]
    sized = dptally.Ppswor(size=1000)
    assert "weighted_sample ppswor:size=1000" in planned(sampling=sized).left_out
    assert "weighted_sample ppswor:size=1000" in planned(sampling=sized, rows=10**5).table()["mechanism"].to_list()


def test_tables_and_text() -> None:
    """A plan is a table, a text and plain data; the text says that an example must be public."""
    found = planned(population=POPULATION, levels=2)
    table = found.table()
    assert table.height == len(found.forecasts) == 7 and "expected_keys" in table.columns
    assert "The example must be public" in str(found) and "weighted_sample" in str(found)
    assert found.describe()["population"]["must_be_public"] is True
    assert plan(delta="1e-6", frequency=30, probability="95%").table()["needed"][0] == pytest.approx(0.499)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"epsilon": None}, "epsilon is missing; leave it out only to find it for a frequency and a probability"),
        ({"frequency": 30}, "an inverse question needs both: frequency and probability"),
        ({"frequency": 30, "probability": 1}, "probability must be above 0 and below 1, got 1"),
        ({"epsilon": None, "frequency": 1, "probability": "0.999"}, "No epsilon of the grid suffices"),
        ({"epsilon": None, "delta": 0, "frequency": 3, "probability": "0.5"}, "delta = 0 needs a universe"),
        ({"delta": 0}, "a plan for delta = 0 needs a universe"),
        (
            {"mechanisms": ["dense"]},
            "no mechanism can meet this request. dense does not apply: mechanism 'dense' needs a universe",
        ),
        ({"rows": 10, "units": 10}, "give rows or units, not both"),
        ({"keys": 10}, "keys and zipf need the number of rows, or of units"),
        ({"rows": 10, "zipf": 9}, "zipf must be from 0 to 5, got 9"),
        ({"rows": 10, "population": {1: 1}}, "a population has its own number of rows"),
        ({"keys": 3, "population": {1: 1}}, "suppose one thing"),
        ({"population": {}}, "population must map frequencies to numbers of keys, and not be empty"),
        ({"key": "a"}, "key and count name columns of an example, and there is none"),
        ({"share": 0}, "share must be above 0 and at most 1, got 0"),
        ({"mechanisms": ["nonsense"]}, "mechanisms must be among weighted_sample, .*got 'nonsense'"),
        ({"sampling": "ppswor:1"}, "sampling must be a scheme"),
        ({"asked_for": "any"}, "asked_for is for plans with a universe"),
        ({"levels": 0}, "levels must be at least 1, got 0"),
    ],
)
def test_bad_requests(options: dict[str, Any], message: str) -> None:
    """One sentence each."""
    with pytest.raises(InvalidParameter, match=message):
        planned(**options)


def test_an_example_is_counted_as_publish_counts() -> None:
    """Keys, counts and units of an example come through the sources, and scaling keeps shares."""
    import polars as pl

    rows = pl.DataFrame({"key": ["a"] * 40 + ["b"] * 9 + ["c"], "user": [*range(40), *range(9), 0]})
    by_rows = planned(example=rows, key="key").population
    assert by_rows is not None and by_rows.frequencies.tolist() == [1, 9, 40] and by_rows.from_example
    bounded = planned(example=rows, key="key", unit="user", max_keys_per_unit=1).population
    assert bounded is not None and bounded.total == 40
    scaled = planned(example=rows, key="key", rows=500).population
    assert scaled is not None and scaled.frequencies.tolist() == [10, 90, 400]
    counted = planned(example={"a": 7, "b": 7}).population
    assert counted is not None and (counted.frequencies.tolist(), counted.keys.tolist()) == ([7], [2.0])
