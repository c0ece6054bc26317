"""Counting queries in integers: exact loss of every row, the printed algorithms, errors, draws and refusals."""

from __future__ import annotations

import ast
import math
import random
from collections import Counter
from collections.abc import Callable
from fractions import Fraction
from functools import partial
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from mpmath import mp, mpf
from numpy.typing import NDArray

from dptally.errors import InvalidParameter, PrivacyViolation
from dptally.laws.bounded_geometric import (
    BoundedGeometric,
    DyadicGeometric,
    FastGeometric,
    dyadic_masses,
    fast_masses,
    geometric_masses,
    rational_scale,
)
from dptally.laws.clamped_noise import ADD_OR_REMOVE, REPLACE, ClampedNoise, Neighbours
from dptally.observation_models import Estimator, ObservationModel
from dptally.randomness import SeededBits
from dptally.verifiers import pure as pure_judge
from dptally.verifiers.pure import (
    certify_clamped_noise,
    certify_dyadic_noise,
    certify_prefixes,
    certify_pure_copies,
    certify_pure_rows,
)
from dptally.verifiers.tables import Certificate
from tests.exact.reference import growth
from tests.statistical.checks import FALSE_ALARM, chi_square_pvalue

EPSILONS = [Fraction(1, 10), Fraction(1, 2), Fraction(1), Fraction(4)]
NEIGHBOURS: list[Neighbours] = [ADD_OR_REMOVE, REPLACE]
Make = Callable[[object, int, Neighbours], ClampedNoise]
LAWS: dict[str, Make] = {
    "dyadic": lambda epsilon, bound, neighbours: DyadicGeometric(epsilon, bound, neighbours=neighbours),
    "bounded": lambda epsilon, bound, neighbours: BoundedGeometric(epsilon, bound, neighbours=neighbours),
    "bounded, whole scale": lambda epsilon, bound, neighbours: BoundedGeometric(
        epsilon, bound, neighbours=neighbours, largest_denominator=1
    ),
    "fast": lambda epsilon, bound, neighbours: FastGeometric(
        epsilon, bound, mixing="1/1000", neighbours=neighbours, largest_denominator=4
    ),
}


def written_out(masses: list[int], uniform: int, bound: int) -> list[list[int]]:
    """Every row of "count plus noise, clamped, mixed with uniform values", straight from its definition."""
    reach = len(masses) // 2
    rows = []
    for count in range(bound + 1):
        row = [uniform] * (bound + 1)
        for place, mass in enumerate(masses):
            row[min(max(count + reach - place, 0), bound)] += mass
        rows.append(row)
    return rows


def integers(law: ClampedNoise) -> list[int]:
    """Masses of the noise from the largest to the smallest."""
    return [*reversed(law.half_masses), *law.half_masses[1:]]


def logarithm(number: Fraction) -> float:
    """The natural logarithm, with mpmath: floats do not hold long fractions."""
    with mp.workprec(200):
        return float(mp.log(mpf(number.numerator) / mpf(number.denominator)))


# ---- exact loss ----


@pytest.mark.parametrize("neighbours", NEIGHBOURS)
@pytest.mark.parametrize("epsilon", EPSILONS, ids=str)
@pytest.mark.parametrize("name", LAWS)
def test_the_loss_of_every_row_is_within_epsilon(name: str, epsilon: Fraction, neighbours: Neighbours) -> None:
    """Rows written out, every count and value, bounds to 64: ratios at most e^epsilon, and the judge finds the same."""
    key_epsilon = epsilon if neighbours == ADD_OR_REMOVE else epsilon / 2
    limit = growth(key_epsilon)
    for bound in [1, 2, 3, 5, 8, 17, 64]:
        law = LAWS[name](epsilon, bound, neighbours)
        rows = written_out(integers(law), law.uniform_mass, bound)
        assert {sum(row) for row in rows} == {law.whole}
        assert min(min(row) for row in rows) > 0
        certificate = law.certify()
        assert certificate.worst_ratio == certify_pure_rows(rows, epsilon=key_epsilon).worst_ratio <= limit
        assert (certificate.epsilon, certificate.total_epsilon) == (key_epsilon, epsilon)
        assert certificate.delta == certificate.worst_delta == certificate.total_delta == law.delta == 0
        higher, lower = certificate.worst_pair
        assert certificate.worst_ratio == max(Fraction(a, b) for a, b in zip(rows[higher], rows[lower], strict=True))


@pytest.mark.parametrize("neighbours", NEIGHBOURS)
@pytest.mark.parametrize("epsilon", ["0.5", "1", "3"])
@pytest.mark.parametrize("name", ["dyadic", "bounded", "fast"])
def test_every_bound_up_to_64(name: str, epsilon: str, neighbours: Neighbours) -> None:
    """No bound is left out: all counts, all values, exact ratios at most e^epsilon, and the judge finds the same."""
    for bound in range(1, 65):
        law = LAWS[name](epsilon, bound, neighbours)
        rows = written_out(integers(law), law.uniform_mass, bound)
        ratio = certify_pure_rows(rows, epsilon=law.key_epsilon).worst_ratio
        assert ratio == law.certify().worst_ratio
        assert logarithm(ratio) > 0.93 * float(law.key_epsilon)  # the fast law has K = 5/3 or coarser


@pytest.mark.parametrize("name", LAWS)
def test_rows_are_the_written_out_ones(name: str) -> None:
    """row, probability, cumulative and value_at agree with the definition, for all counts of small bounds."""
    for bound in (1, 2, 7):
        law = LAWS[name]("0.7", bound, ADD_OR_REMOVE)
        for count, row in enumerate(written_out(integers(law), law.uniform_mass, bound)):
            found = law.row(count)
            assert found.pop(None) == 0
            assert found == {value: Fraction(mass, law.whole) for value, mass in enumerate(row)}
            assert sum(found.values()) == 1 == law.reporting_probability(count)
            for value, reached in enumerate(accumulate(row)):
                assert law.cumulative(value, count) == Fraction(reached, law.whole)
                assert law.value_at(reached, count) == value
                assert law.value_at(reached - row[value] + 1, count) == value
            assert law.cumulative(-1, count) == 0
            assert law.probability(-1, count) == law.probability(bound + 1, count) == 0
        assert law.row(bound + 5) == law.row(bound)


@pytest.mark.parametrize("epsilon", ["0.001", "0.01", "0.1", "1", "5", "32"])
@pytest.mark.parametrize("bound", [1, 1000, 2**20, 2**40, 2**62], ids=str)
def test_dyadic_masses_satisfy_their_conditions(epsilon: str, bound: int) -> None:
    """(1) to (3) of DyadicGeometric hold, the units add up to 2^128, and uniform values are as rare as stated."""
    law = DyadicGeometric(epsilon, bound)
    half, uniform = dyadic_masses(law.epsilon, bound)
    limit = growth(law.epsilon)
    assert all(after <= before <= limit * after for before, after in pairwise(half))
    assert 1 <= half[-1] <= (limit - 1) * uniform
    assert half[0] + 2 * sum(half[1:]) + (bound + 1) * uniform == 2**128 == law.whole
    assert law.mixing <= max(Fraction(1, 2**64), Fraction(bound + 1, 2**128) * (limit / (limit - 1) ** 2 + 1))
    assert law.reach <= 0.7 * (65 + bound.bit_length()) / float(law.epsilon) + 1


def test_the_dyadic_law_is_close_to_the_geometric_one() -> None:
    """Each probability of the noise differs from the geometric law's by at most a factor of 1 + 2^-60 but far out."""
    law = DyadicGeometric(1, 2**40)
    ratio = 1 / growth(Fraction(1))
    for noise in range(11):
        exact = (1 - ratio) / (1 + ratio) * ratio**noise
        assert abs(Fraction(law.half_masses[noise], law.whole) / exact - 1) < Fraction(1, 2**60)


def test_huge_bounds() -> None:
    """A bound of 2^62 works: certified, drawn from at both ends, and within the error it states."""
    for law in (DyadicGeometric(1, 2**62), FastGeometric(1, 2**62), DyadicGeometric("0.01", 2**62, neighbours=REPLACE)):
        assert law.certify().worst_ratio <= growth(law.key_epsilon)
        assert law.probability(0, 2**62) == Fraction(law.uniform_mass, law.whole) > 0
        error = law.simultaneous_error("1e-9", bins=3000)
        for count in (0, 10**15, 2**62):
            drawn = law.draw(np.full(1000, count, dtype=np.int64), SeededBits(1))
            assert (np.abs(drawn - count) <= error).all()
            assert drawn.min() >= 0
            assert drawn.max() <= 2**62


# ---- the judge ----


def verdict(judge: Callable[[], Certificate]) -> Fraction | None:
    """The worst ratio, or None for a refusal."""
    try:
        return judge().worst_ratio
    except PrivacyViolation:
        return None


def test_the_judge_agrees_with_rows_written_out() -> None:
    """On 600 random tables, many not private, not symmetric or with zeros, both judges say the same."""
    chance = random.Random(5)  # noqa: S311
    accepted = 0
    for _ in range(600):
        reach, bound, uniform = chance.randrange(4), chance.randrange(1, 9), chance.choice([0, 1, 3])
        masses = [chance.choice([0, 1, 2, 3, 4]) for _ in range(2 * reach + 1)]
        masses[reach] += 1
        epsilon = Fraction(chance.choice([1, 3, 5]), 3)
        rows = written_out(masses, uniform, bound)
        verdicts = [
            verdict(partial(certify_clamped_noise, masses, uniform=uniform, bound=bound, epsilon=epsilon)),
            verdict(partial(certify_pure_rows, rows, epsilon=epsilon)),
        ]
        assert verdicts[0] == verdicts[1]
        accepted += verdicts[0] is not None
    assert 30 < accepted < 570


def test_the_judge_compares_long_numbers_exactly() -> None:
    """Numbers beyond 2^2048 are judged as their quotient by a common factor is."""
    law = BoundedGeometric("0.5", 6)
    masses = integers(law)
    small = certify_clamped_noise(masses, uniform=0, bound=6, epsilon=law.epsilon)
    factor = 3**3000
    large = certify_clamped_noise([factor * mass for mass in masses], uniform=0, bound=6, epsilon=law.epsilon)
    assert (small.worst_ratio, small.worst_pair) == (large.worst_ratio, large.worst_pair)


def test_the_judge_stands_alone() -> None:
    """The judge of pure laws imports the errors and the other judge, and nothing else of the package."""
    tree = ast.parse(Path(pure_judge.__file__).read_text())
    names = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module}
    assert {name for name in names if name.startswith("dptally")} == {"dptally.errors", "dptally.verifiers.tables"}


def test_the_judge_refuses() -> None:
    """Bytes that are no law, a zero beside a chance, one unit too much, and prefixes of another law are refused."""
    law = DyadicGeometric(1, 10)
    keep: dict[str, Any] = {"uniform": law.uniform_mass, "bound": 10, "epsilon": law.epsilon}
    assert certify_dyadic_noise(law.table, **keep).worst_ratio == law.certify().worst_ratio
    with pytest.raises(PrivacyViolation, match="whole 128-bit entries"):
        certify_dyadic_noise(law.table[:-1], **keep)
    with pytest.raises(PrivacyViolation, match="do not sum to one"):
        certify_dyadic_noise(law.table, **{**keep, "bound": 11})
    with pytest.raises(PrivacyViolation, match="a mass is negative, or the noise has no middle"):
        certify_dyadic_noise(law.table[16:32] + law.table[:16] + law.table[32:], **keep)
    with pytest.raises(PrivacyViolation, match="exceeds its epsilon: an outcome of rows 0 and 1 differs by a factor"):
        certify_dyadic_noise(law.table, **{**keep, "epsilon": Fraction(99, 100)})
    with pytest.raises(PrivacyViolation, match="without limit"):
        certify_clamped_noise([0, 1, 0], uniform=0, bound=3, epsilon=Fraction(32))
    with pytest.raises(PrivacyViolation, match="a negative entry, another length or another sum"):
        certify_pure_rows([[1, 2], [2, 2]], epsilon=Fraction(1))
    with pytest.raises(PrivacyViolation, match="2 keys of one unit together exceed epsilon: 2 where 1 is allowed"):
        certify_pure_copies(law.certify(), copies=2, epsilon=Fraction(1))
    bounded = BoundedGeometric(1, 5)
    masses = integers(bounded)
    with pytest.raises(PrivacyViolation, match="another length"):
        certify_prefixes(bounded.table[:-16], masses, uniform=0, bound=5)
    with pytest.raises(PrivacyViolation, match="does not belong"):
        certify_prefixes(bounded.table[16:] + bounded.table[:16], masses, uniform=0, bound=5)


def test_the_certificate_as_a_sentence() -> None:
    """It says how many rows, which ratio and what two keys keep together."""
    text = str(DyadicGeometric(1, 10, neighbours=REPLACE).certify())
    assert "11 rows of table" in text
    assert "more than 1.64872127 times as likely" in text
    assert text.endswith("2 keys together keep epsilon 1.")


# ---- the scale, and the printed algorithms ----


def printed_scale(epsilon: Fraction) -> int:
    """2^k, k = ceil(log2(2 / epsilon)), as printed in [BV19, Theorem 4.7]."""
    return 1 << (math.ceil(2 / epsilon) - 1).bit_length()


def test_printed_scales_waste_budget() -> None:
    """At epsilon 0.1, .05 per count: the printed power of two spends .0308, a whole K .0488, a rational one .04999."""
    epsilon = Fraction(1, 10)
    assert printed_scale(epsilon) == 32
    assert math.log1p(1 / 32) == pytest.approx(0.0308, abs=5e-5)
    whole = BoundedGeometric(epsilon, 20, neighbours=REPLACE, largest_denominator=1)
    assert whole.scale == 20 == 2 / epsilon
    assert logarithm(whole.certify().worst_ratio) == pytest.approx(0.0488, abs=5e-5)
    rational = BoundedGeometric(epsilon, 20, neighbours=REPLACE)
    assert 0.04999 < logarithm(rational.certify().worst_ratio) < 0.05


@pytest.mark.parametrize("largest", [1, 2, 10, 64])
@pytest.mark.parametrize("epsilon", ["1e-9", "0.01", "0.3", "0.693", "0.694", "1", "3.3", "20", "32"])
def test_the_scale_is_the_best_and_rounded_safely(epsilon: str, largest: int) -> None:
    """(K + 1) / K is at most e^epsilon, and no rational with a denominator in bounds is closer."""
    exact = growth(Fraction(epsilon), 900)
    scale = rational_scale(Fraction(epsilon), largest)
    assert (scale + 1) / scale <= exact
    for part in range(1, largest + 1):
        if scale >= 1:
            finer = Fraction(math.ceil(scale * part) - 1, part)
            assert finer <= 0 or (finer + 1) / finer > exact
        else:
            assert 1 + Fraction(math.floor(1 / scale * part) + 1, part) > exact


@pytest.mark.parametrize("bound", [1, 2, 9])
def test_the_printed_algorithms(bound: int) -> None:
    """For power-of-two scales the integers are those of the printed F of GeoSample and FastSample, for every count."""
    for k in (0, 1, 3):
        two, more = 2**k, 2**k + 1
        half = geometric_masses(Fraction(two), bound)
        rows = written_out([*reversed(half), *half[1:]], 0, bound)
        whole = (2 * two + 1) * more ** (bound - 1)
        for count, row in enumerate(rows):
            for value, reached in enumerate(accumulate(row)):
                if value < count:
                    printed = two ** (count - value) * more ** (bound - (count - value))
                elif value < bound:
                    printed = whole - two ** (value - count + 1) * more ** (bound - 1 - (value - count))
                else:
                    printed = whole
                assert reached == printed
        for t in (0, 1, 4):
            half, uniform = fast_masses(Fraction(two), t, Fraction(1, 50), bound)
            whole = (2 * two + 1) * more**t
            for count, row in enumerate(written_out([*reversed(half), *half[1:]], uniform, bound)):
                for value, reached in enumerate(accumulate(row)):
                    if value >= min(count + t, bound):
                        inner = whole
                    elif value < max(0, count - t):
                        inner = 0
                    elif value < count:
                        inner = two ** (count - value) * more ** (t + 1 - (count - value)) - two ** (t + 1)
                    else:
                        inner = whole - two ** (value - count + 1) * more ** (t - (value - count)) + two ** (t + 1)
                    assert reached == (value + 1) * whole + (50 - 1) * (bound + 1) * inner


def printed_reach(epsilon: Fraction, bound: int, mixing: Fraction) -> int:
    """The t of [BV19, Algorithm 4.11]."""
    inner = math.ceil(math.log2(8 * (bound + 1) * (1 - mixing) / (epsilon * mixing)))
    return math.ceil(Fraction(9, 2) / epsilon * inner) - 1


@pytest.mark.parametrize(("epsilon", "bound"), [("1", 200), ("1/2", 50), ("1", 2**40), ("1/4", 1000)])
def test_the_cut_of_the_fast_law_is_the_smallest(epsilon: str, bound: int) -> None:
    """t is accepted and t - 1 refused; with the printed scale the printed t is two to four times the smallest."""
    mixing = Fraction(1, 1000)
    law = FastGeometric(epsilon, bound, mixing=mixing, neighbours=REPLACE)
    assert law.mixing == mixing

    def accepted(scale: Fraction, t: int) -> bool:
        half, uniform = fast_masses(scale, t, mixing, bound)
        masses = [*reversed(half), *half[1:]]
        judge = partial(certify_clamped_noise, masses, uniform=uniform, bound=bound, epsilon=law.key_epsilon)
        return verdict(judge) is not None

    assert accepted(law.scale, law.reach)
    assert not any(accepted(law.scale, t) for t in range(max(0, law.reach - 40), law.reach))
    printed = printed_reach(law.epsilon, bound, mixing)
    scale = Fraction(printed_scale(law.epsilon))
    smallest = next(t for t in range(printed) if accepted(scale, t))
    assert accepted(scale, printed)
    assert 2 * smallest < printed < 5 * smallest
    assert law.reach < printed / 2


# ---- errors and estimates ----


@pytest.mark.parametrize("name", LAWS)
def test_error_quantiles_are_exact(name: str) -> None:
    """The smallest error for one value and for many, found by going through all counts and errors."""
    for bound in (1, 6, 15, 40):
        law = LAWS[name]("0.5", bound, ADD_OR_REMOVE)
        rows = [
            [Fraction(mass, law.whole) for mass in row] for row in written_out(integers(law), law.uniform_mass, bound)
        ]
        worst = [
            max(sum(p for value, p in enumerate(row) if abs(value - count) > error) for count, row in enumerate(rows))
            for error in range(bound + 1)
        ]
        assert [law.error_probability(error) for error in range(bound + 1)] == worst
        for beta in (Fraction(1, 2), Fraction(1, 100), Fraction(1, 10**6)):
            assert law.error_quantile(beta) == next(a for a, chance in enumerate(worst) if chance <= beta)
            for bins in (1, 7, 100):
                smallest = next(a for a, chance in enumerate(worst) if (1 - chance) ** bins >= 1 - beta)
                assert law.simultaneous_error(beta, bins) == smallest
    assert law.error_probability(-1) == 1


def test_errors_of_the_paper() -> None:
    """The exact error at beta is below ceil(ln(1 / beta) / epsilon) of the paper, per key and for a million keys."""
    law = DyadicGeometric("0.1", 2**40)
    assert law.error_quantile("0.01") == 46 <= math.ceil(math.log(100) / 0.1)
    assert law.simultaneous_error("0.01", bins=10**6) == 184 <= math.ceil(math.log(10**8) / 0.1)


@pytest.mark.parametrize("name", LAWS)
def test_estimates_are_exact(name: str) -> None:
    """Expectation, bias, variance and mean squared error equal the sums over the row, for two functions g."""
    law = LAWS[name]("0.8", 9, ADD_OR_REMOVE)
    assert isinstance(law, ObservationModel)
    for of in (None, lambda frequency: frequency * frequency + 1):
        weigh = law.estimator("mle", of)
        assert isinstance(weigh, Estimator)
        g = [Fraction(0), *(Fraction(w if of is None else of(w)) for w in range(1, 10))]
        assert [weigh(value) for value in range(10)] == g
        assert weigh.weights(np.arange(10)).tolist() == [float(w) for w in g]
        for count in (0, 1, 4, 9):
            row = [law.row(count)[value] for value in range(10)]
            mean = sum((p * w for p, w in zip(row, g, strict=True)), Fraction(0))
            assert weigh.expectation(count) == mean
            assert weigh.bias(count) == mean - g[count]
            assert weigh.variance(count) == sum(p * (w - mean) ** 2 for p, w in zip(row, g, strict=True))
            assert weigh.mse(count) == sum(p * (w - g[count]) ** 2 for p, w in zip(row, g, strict=True))


def test_estimates_with_huge_bounds() -> None:
    """In the middle of the range the bias is 0 and the variance 2 r / (1 - r)^2 plus what uniform values bring."""
    law = DyadicGeometric(1, 2**40)
    weigh = law.estimator()
    assert weigh.bias(2**39) == 0
    ratio = 1 / growth(Fraction(1))
    uniform = law.mixing * Fraction(2**39 * (2**39 + 1) * (2**40 + 1), 3 * (2**40 + 1))
    assert abs(weigh.variance(2**39) - 2 * ratio / (1 - ratio) ** 2 - uniform) < Fraction(1, 2**40)
    with pytest.raises(InvalidParameter, match=r"written out up to 1048576 only"):
        law.estimator(of=lambda w: w).expectation(3)


# ---- draws ----

DRAWS = 200_000


def pvalue(drawn_from: ClampedNoise, law: ClampedNoise, count: int, seed: int) -> float:
    """P-value of draws from one law under another one."""
    drawn = drawn_from.draw(np.full(DRAWS, count, dtype=np.int64), SeededBits(seed))
    chances = {value: float(chance) for value, chance in law.row(count).items() if value is not None}
    return chi_square_pvalue(Counter(drawn.tolist()), chances, DRAWS)


@pytest.mark.parametrize("name", LAWS)
def test_draws_follow_the_law(name: str) -> None:
    """200,000 seeded draws per count pass a chi-square test at false-alarm rate 1e-6; halved noise fails it."""
    law, wrong = LAWS[name]("0.5", 30, ADD_OR_REMOVE), LAWS[name]("1", 30, ADD_OR_REMOVE)
    for count in (0, 1, 15, 30):
        assert pvalue(law, law, count, seed=count) > FALSE_ALARM
        assert pvalue(wrong, law, count, seed=count) < FALSE_ALARM


class Script:
    """Words given in advance, then one word for ever."""

    private = False

    def __init__(self, first: list[int], then: int = 0) -> None:
        self.first, self.then, self.read = first, then, 0

    def words(self, count: int) -> NDArray[np.uint64]:
        """The next words."""
        self.read += count
        taken, self.first = self.first[:count], self.first[count:]
        return np.array([*taken, *([self.then] * (count - len(taken)))], dtype=np.uint64)


def halves(number: int) -> list[int]:
    """A 128-bit number as words, the low one first."""
    return [number % 2**64, number >> 64]


@pytest.mark.parametrize("name", ["bounded", "fast"])
def test_ties_are_decided_by_more_bits(name: str) -> None:
    """A number that starts with a threshold's 128 bits goes to one side with low bits after them, else to the other."""
    law = LAWS[name]("0.9", 12, ADD_OR_REMOVE)
    law.certify()
    entries = [int.from_bytes(law.table[at : at + 16], "little") for at in range(0, len(law.table), 16)]
    for place, entry in enumerate(entries):
        if place + 1 < len(entries) and entry + 1 >= entries[place + 1]:
            continue
        if (entry * law.whole) % 2**128 == 0:
            continue  # the threshold is met exactly: no tie
        noise = [law.reach - place, law.reach - place - 1]
        below, above = Script(halves(entry)), Script(halves(entry), 2**64 - 1)
        count = 6
        drawn = [int(law.draw(np.array([count]), bits)[0]) for bits in (below, above)]
        expected = [min(max(count + z, 0), 12) for z in noise]
        if law.uniform_mass and place == len(entries) - 1:
            expected[1] = 0  # the first of the uniform values
        assert drawn == expected
        assert below.read > 2
        beside = Script(halves(entry - 1))
        assert law.draw(np.array([count]), beside)[0] == expected[0]
        assert beside.read == 2


@pytest.mark.parametrize("name", ["dyadic", "fast"])
def test_uniform_values(name: str) -> None:
    """Numbers beyond the noise are the uniform values, each with its share, whatever the count."""
    law = LAWS[name]("0.9", 12, ADD_OR_REMOVE)
    noise = sum(integers(law))
    for value in range(13):
        for inside in (1, law.uniform_mass // 2, law.uniform_mass - 1):
            number = ((noise + value * law.uniform_mass + inside) << 128) // law.whole
            for count in (0, 12):
                assert law.draw(np.array([count]), Script(halves(number)))[0] == value


class Recorder:
    """Stands between a law and its table, and writes down what it is asked."""

    def __init__(self, inner: object) -> None:
        self.inner, self.asked = inner, []  # type: ignore[var-annotated]

    def draw(self, places: NDArray[np.int64], words: NDArray[np.uint64], out: NDArray[np.int64]) -> None:
        """Pass on."""
        self.asked.append((places.tolist(), words.tolist()))
        self.inner.draw(places, words, out)  # type: ignore[attr-defined]


def test_time_and_bits_do_not_depend_on_data() -> None:
    """The dyadic form reads two words for every draw, and its table search sees the same numbers for all data."""
    asked = []
    for counts in (np.zeros(20_000), np.arange(20_000), np.full(20_000, 2**62)):
        law = DyadicGeometric("0.3", 2**40)
        law.__dict__["_sampler"] = recorder = Recorder(law._sampler)
        bits = SeededBits(3)
        read: list[int] = []
        words = bits.words
        bits.words = lambda count, words=words, read=read: read.append(count) or words(count)  # type: ignore[method-assign]
        law.draw(counts.astype(np.int64), bits)
        assert sum(read) == 2 * 20_000
        asked.append((read, recorder.asked))
    assert asked[0] == asked[1] == asked[2]


def test_strict_time_holds_for_every_word() -> None:
    """Even where a number meets a threshold exactly, or is a uniform value, the dyadic form reads 128 bits."""
    law = DyadicGeometric(1, 100)
    law.certify()
    entries = [int.from_bytes(law.table[at : at + 16], "little") for at in range(0, len(law.table), 16)]
    for number in [0, 2**128 - 1, *entries, *(entry - 1 for entry in entries)]:
        bits = Script(halves(number))
        law.draw(np.array([5]), bits)
        assert bits.read == 2


def test_counts_above_the_bound_are_clamped_in_silence() -> None:
    """To refuse a count would tell that there is one: it is drawn as if it were the bound."""
    law = DyadicGeometric(1, 5)
    drawn = [law.draw(np.full(1000, count), SeededBits(2)).tolist() for count in (5, 6, 2**62)]
    assert drawn[0] == drawn[1] == drawn[2]
    assert law.draw(np.array([], dtype=np.int64), SeededBits(1)).tolist() == []


# ---- refusals ----


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: DyadicGeometric(0, 5), "epsilon must be a positive number, got 0"),
        (lambda: DyadicGeometric(1, 0), "bound must be at least 1, got 0"),
        (lambda: DyadicGeometric(1, 2.5), "bound must be a whole number, got float"),
        (lambda: DyadicGeometric(1, 2**62 + 1), "bound must be at most 4611686018427387904"),
        (lambda: DyadicGeometric(1, 5, neighbours="all"), "neighbours must be 'add or remove one unit' or 'replace"),  # type: ignore[arg-type]
        (lambda: DyadicGeometric("1e-6", 5), "epsilon is too small: the noise would have more than 4194304 values"),
        (lambda: BoundedGeometric("1e-30", 5), r"epsilon is too small: no noise scale up to 2\^62 keeps it"),
        (lambda: BoundedGeometric(1, 2**40), "bound is too large for the law 'bounded_geometric'"),
        (lambda: BoundedGeometric(1, 5, largest_denominator=0), "largest_denominator must be at least 1, got 0"),
        (lambda: FastGeometric(1, 5, mixing=1), "mixing must be above 0 and below 1, got 1"),
        (lambda: FastGeometric("0.0001", 5), "epsilon is too small for the law 'fast_geometric'"),
        (lambda: DyadicGeometric(1, 5).draw(np.array([0.5]), SeededBits(1)), "array of whole numbers"),
        (lambda: DyadicGeometric(1, 5).draw(np.array([-1]), SeededBits(1)), r"frequencies must be from 0 to 2\^62"),
        (lambda: DyadicGeometric(1, 5).probability(1, -1), "true_frequency must be a whole number"),
        (lambda: DyadicGeometric(1, 2**40).row(1), "written out up to 1048576 only"),
        (lambda: DyadicGeometric(1, 5).value_at(0, 1), "number must be a whole number from 1 to the denominator"),
        (lambda: DyadicGeometric(1, 5).error_quantile(1), "beta must be above 0 and below 1, got 1"),
        (lambda: DyadicGeometric(1, 5).simultaneous_error("0.1", 0), "bins must be at least 1, got 0"),
        (lambda: DyadicGeometric(1, 5).estimator("lower"), "the law 'dyadic_geometric' has estimators of kind 'mle'"),
        (lambda: DyadicGeometric(1, 5).estimator()(-1), "value must be at least 0"),
    ],
)
def test_bad_input(make: Callable[[], object], message: str) -> None:
    """Each is refused in one sentence."""
    with pytest.raises(InvalidParameter, match=message):
        make()


def test_representations_say_what_is_public() -> None:
    """The parameters, which rebuild the law."""
    assert repr(DyadicGeometric(1, 5)) == ("DyadicGeometric(epsilon=1, bound=5, neighbours='add or remove one unit')")
    assert repr(BoundedGeometric(1, 5)).startswith("BoundedGeometric(epsilon=1, bound=5")
    assert repr(FastGeometric(1, 5)).startswith("FastGeometric(epsilon=1, bound=5, mixing=1/1099511627776")
