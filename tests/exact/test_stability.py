"""The stability-based histogram in integers: certified, smallest threshold, never above the optimum."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from mpmath import mp, mpf

from dptally.errors import InvalidParameter, PrivacyViolation
from dptally.laws.stability import Stability
from dptally.laws.tables.two_sided_geometric import noise_masses
from dptally.laws.weighted_sample import WeightedSample
from dptally.observation_models import Estimator, ObservationModel
from dptally.randomness import SeededBits
from dptally.verifiers.tables import Band, certify_bands
from tests.exact.reference import divergence, growth, optimal_probabilities
from tests.statistical.checks import FALSE_ALARM, chi_square_pvalue

EPSILONS = [Fraction(1, 100), Fraction(1, 10), Fraction(1, 3), Fraction(1), Fraction(2), Fraction(5), Fraction(32)]
DELTAS = [Fraction(1, 2**64), *(Fraction(1, 10**power) for power in (12, 8, 6, 3, 2)), Fraction(1, 3), Fraction(9, 10)]
GATE = [(Fraction(1, 10), Fraction(1, 10**6)), (Fraction(1), Fraction(1, 10**6)), (Fraction(2), Fraction(1, 100))]


def row_bands(law: Stability, threshold: int, rows: int) -> list[Band]:
    """Rows 1 .. rows of "report w + Z if at least `threshold`", written out value by value."""
    bands = []
    for frequency in range(1, rows + 1):
        top = frequency + law.reach
        count = top - threshold + 1
        sure = count > 2 * law.reach
        reached = law.cumulative[: min(count, 2 * law.reach)]
        if not law.values:
            top, reached = 1, () if sure else reached[-1:]
        bands.append(Band(frequency, top, b"".join(entry.to_bytes(16, "little") for entry in reached), sure))
    return bands


@pytest.mark.parametrize("values", [True, False])
@pytest.mark.parametrize("epsilon", EPSILONS, ids=str)
def test_certified_and_never_above_the_optimum(epsilon: Fraction, values: bool) -> None:
    """On the grid: certified, row 1 the worst, and every reporting probability at most the optimum."""
    for delta in DELTAS:
        law = Stability(epsilon, delta, values)
        certificate = law.certify()
        assert certificate.worst_delta == law.reporting_probability(1) <= delta
        assert certificate.worst_pair == (1, 0)
        assert certificate.rows_checked == 2 * law.reach + 4
        for frequency, best in enumerate(optimal_probabilities(epsilon, delta), start=1):
            assert law.reporting_probability(frequency) <= best + Fraction(1, 2**120)


@pytest.mark.parametrize("name", ["values", "keys only"])
@pytest.mark.parametrize(("epsilon", "delta"), GATE)
def test_the_gate(name: str, epsilon: Fraction, delta: Fraction) -> None:
    """As in test_gate.py: at most the optimum for every frequency, delta at frequency 1, nothing at frequency 0."""
    law = Stability(epsilon, delta, values=name == "values")
    for frequency, best in enumerate(optimal_probabilities(epsilon, delta), start=1):
        assert law.reporting_probability(frequency) <= best + Fraction(1, 2**120)
    assert law.reporting_probability(0) == 0
    assert law.reporting_probability(1) <= delta


@pytest.mark.parametrize("values", [True, False])
@pytest.mark.parametrize(
    ("epsilon", "delta"), [("1", "1e-6"), ("0.4", "0.01"), ("3", "1/31"), ("1", "0.8"), ("32", "0.5")]
)
def test_all_rows_written_out(epsilon: str, delta: str, values: bool) -> None:
    """The judge on every row up to where all are shifts finds what the two shorter judgements together find."""
    law = Stability(epsilon, delta, values)
    found = certify_bands(row_bands(law, law.threshold, law.width + 2), epsilon=law.epsilon, delta=law.delta)
    assert (found.worst_delta, found.worst_pair) == (law.certify().worst_delta, law.certify().worst_pair)
    factor = growth(law.epsilon)
    worst = Fraction(0)
    for frequency in range(1, law.width + 3):
        here, before = law.row(frequency), law.row(frequency - 1)
        assert sum(here.values()) == 1
        assert here[None] == 1 - law.reporting_probability(frequency)
        worst = max(worst, divergence(here, before, factor), divergence(before, here, factor))
    assert worst == found.worst_delta


@pytest.mark.parametrize("values", [True, False])
@pytest.mark.parametrize("epsilon", EPSILONS, ids=str)
def test_the_threshold_is_the_smallest(epsilon: Fraction, values: bool) -> None:
    """One lower, and the judge refuses; where the threshold is 1, row 1 is reported for noise 0 and above."""
    for delta in DELTAS:
        law = Stability(epsilon, delta, values)
        if law.threshold == 1:
            assert law.reporting_probability(1) == sum(p for z, p in law.noise_law.items() if z >= 0) <= delta
            continue
        with pytest.raises(PrivacyViolation, match="rows 1 and 0"):
            certify_bands(row_bands(law, law.threshold - 1, 1), epsilon=law.epsilon, delta=law.delta)


@pytest.mark.parametrize("epsilon", EPSILONS, ids=str)
def test_the_noise_is_two_sided_geometric(epsilon: Fraction) -> None:
    """Masses are within 2^-52 of the endless law, symmetric, add up, and never exceed e^epsilon times a neighbour's."""
    a = growth(epsilon, 360)
    for delta in (Fraction(1, 2**64), Fraction(1, 10**6), Fraction(1, 2)):
        masses = noise_masses(epsilon, delta)
        assert masses[0] + 2 * sum(masses[1:]) == 2**128
        assert all(outer <= inner <= a * outer for inner, outer in pairwise(masses))
        for distance in range(0, len(masses), max(1, len(masses) // 40)):
            expected = mp.exp(-distance * mpf(epsilon.numerator) / epsilon.denominator) * float((a - 1) / (a + 1))
            assert abs(masses[distance] / mpf(2) ** 128 - expected) < 2.0**-52
        cut = 2 * math.exp(-float(epsilon) * len(masses))
        assert cut < delta / 2**60


def test_the_threshold_has_a_closed_form() -> None:
    """T - 1 is the smallest m with e^(-epsilon m) / (1 + e^-epsilon) <= delta, but for the mass that was cut off."""
    for epsilon, delta in ((0.1, 1e-6), (0.1, 1e-2), (1.0, 1e-6), (0.01, 1e-6), (2.0, 1e-9)):
        wanted = math.ceil(math.log(1 / (delta * (1 + math.exp(-epsilon)))) / epsilon) + 1
        assert Stability(epsilon, delta).threshold == wanted


def test_optimal_law_reports_more() -> None:
    """The optimum beats this law for every frequency that is not certain in both."""
    law, best = Stability("0.1", "0.001"), WeightedSample("0.1", "0.001")
    assert all(law.reporting_probability(i) < best.reporting_probability(i) for i in range(1, 3 * best.width))


@pytest.mark.parametrize("values", [True, False])
def test_draws_follow_the_rows(values: bool) -> None:
    """20,000 seeded draws per frequency: chi-square at rate 1e-6; the row of the next frequency is rejected."""
    law = Stability("1", "0.01", values)
    draws = 20_000
    for frequency in (1, law.threshold, law.threshold + 2, 10**12):
        drawn = law.draw(np.full(draws, frequency, dtype=np.int64), SeededBits(7))
        seen, counts = np.unique(drawn, return_counts=True)
        observed: dict[object, int] = {int(v) or None: int(n) for v, n in zip(seen, counts, strict=True)}
        expected = {value: float(chance) for value, chance in law.row(frequency).items()}
        assert chi_square_pvalue(observed, expected, draws) > FALSE_ALARM
        if values and frequency > 1:
            wrong = {value: float(chance) for value, chance in law.row(frequency + 1).items()}
            assert chi_square_pvalue(observed, wrong, draws) < FALSE_ALARM


def test_draws_at_the_borders() -> None:
    """Frequency 0 is never reported, values are at least T, and 2^62 is drawn for without overflow."""
    law = Stability("0.5", "0.3")
    assert not law.draw(np.zeros(5000, dtype=np.int64), SeededBits(1)).any()
    drawn = law.draw(np.full(5000, 2, dtype=np.int64), SeededBits(2))
    assert drawn[drawn > 0].min() == law.threshold
    assert abs(law.draw(np.full(100, 2**62, dtype=np.int64), SeededBits(3)) - 2**62).max() <= law.reach
    assert law.draw(np.array([], dtype=np.int64), SeededBits(4)).size == 0
    assert law.row(0) == {None: 1}
    assert law.row(2**62)[None] == 0


def test_the_native_sampler_reads_the_table_as_the_row_says() -> None:
    """At the words where the outcome changes, frequency by frequency, the drawn value is the row's."""
    law = Stability("2", "0.05")

    class Words:
        """A source of one given 128-bit number."""

        def __init__(self, number: int) -> None:
            self.number = number

        def words(self, count: int) -> np.ndarray:
            return np.array([self.number % 2**64, self.number >> 64] * (count // 2), dtype=np.uint64)

    frequencies = np.arange(0, law.width + 2, dtype=np.int64)
    for drop, edge in enumerate(law.cumulative):
        for number, passed in ((edge - 1, drop), (edge, drop + 1)):
            if number == 2**128 or law.cumulative[min(drop, 2 * law.reach) - 1] == edge:
                continue
            drawn = law.draw(frequencies, Words(number))  # type: ignore[arg-type]
            noisy = frequencies + law.reach - passed
            assert (drawn == np.where((noisy >= law.threshold) & (frequencies > 0), noisy, 0)).all()


def test_contract_and_estimator() -> None:
    """The law and its estimator offer what the contract lists; the weight is g(j) over the chance of reporting j."""
    law = Stability("1", "1e-3")
    assert isinstance(law, ObservationModel) and isinstance(law.estimator(), Estimator)
    weigh = law.estimator()
    rows = {i: law.row(i) for i in range(1, 2 * law.width)}
    for value in range(law.threshold, law.width):
        likely = max(rows, key=lambda i: (rows[i].get(value, Fraction(0)), -i))
        assert likely == value
        assert weigh(value) == value / law.reporting_probability(value)
    for frequency in (1, law.threshold, 30):
        mean = sum((weigh(v) * p for v, p in law.row(frequency).items() if v), Fraction(0))
        second = sum((weigh(v) ** 2 * p for v, p in law.row(frequency).items() if v), Fraction(0))
        assert weigh.bias(frequency) == mean - frequency
        assert weigh.variance(frequency) == second - mean**2
        assert weigh.mse(frequency) == second - 2 * frequency * mean + frequency**2
    keys = Stability("1", "1e-3", values=False)
    assert keys.estimator(of=lambda w: 1)(1) == 1
    assert keys.estimator()(1) == keys.width
    assert keys.reporting_probability(keys.width) == 1 > keys.reporting_probability(keys.width - 1)


def test_first_frequency() -> None:
    """The smallest frequency with a chance of reporting, by search."""
    law = Stability("0.3", "1e-4")
    for chance in (Fraction(1, 10**6), Fraction(1, 2), Fraction(95, 100), Fraction(1)):
        wanted = next(i for i in range(1, law.width + 1) if law.reporting_probability(i) >= chance)
        assert law.first_frequency(chance) == wanted


def test_bad_requests() -> None:
    """Wrong parameters, frequencies and kinds are refused in one sentence."""
    with pytest.raises(InvalidParameter, match="epsilon must be a positive number"):
        Stability(0, "1e-6")
    with pytest.raises(InvalidParameter, match="delta must be at least 0 and below 1"):
        Stability(1, 1)
    with pytest.raises(InvalidParameter, match="epsilon is too small"):
        Stability("1e-5", "1e-6").certify()
    law = Stability(1, "1e-6")
    with pytest.raises(InvalidParameter, match="kind 'mle' only"):
        law.estimator("lower")
    with pytest.raises(InvalidParameter, match="from 0 to 2\\^62"):
        law.draw(np.array([-1]), SeededBits(1))
    with pytest.raises(InvalidParameter, match="one-dimensional array of whole numbers"):
        law.draw(np.array([1.5]), SeededBits(1))
    with pytest.raises(InvalidParameter, match="whole number from 0"):
        law.row(-1)
