"""The optimal law of a weighted sample: certified, optimal, and the same by every way of computing it."""

from __future__ import annotations

import math
import traceback
from collections.abc import Iterable, Iterator
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest

from dptally import Ppswor, Priority, SamplingScheme
from dptally.errors import InvalidParameter, PrivacyViolation
from dptally.laws.sampling_schemes import Scheme
from dptally.laws.tables.certified_rows import CertifiedRows
from dptally.laws.tables.sampled_rows import SampledRows
from dptally.laws.weighted_sample import WeightedSample
from dptally.randomness import SeededBits
from dptally.verifiers.tables import Band, certify_bands
from tests.exact.reference import growth
from tests.exact.test_printed_algorithm_5 import rows_of_algorithm_5

EPSILONS = [Fraction(1, 10), Fraction(1, 2), Fraction(1), Fraction(3)]
DELTAS = [Fraction(1, 10**10), Fraction(1, 10**6), Fraction(1, 1000), Fraction(1, 20)]
SCHEMES: list[Scheme] = [
    Ppswor("1"),
    Ppswor("0.05"),
    Ppswor("0.001"),
    Ppswor("0.1", "0.5"),
    Ppswor("0.001", 2),
    Priority("0.2"),
    Priority("0.01"),
    Priority("0.02", "0.5"),
    Priority("0.0005", "1.5"),
    SamplingScheme([0, 0, "0.2", "0.2", "0.9"]),
]
SETTINGS = [(e, d, s, v) for e in EPSILONS for d in DELTAS for s in SCHEMES for v in (True, False)]


def test_grid_is_as_large_as_promised() -> None:
    """At least 300 settings of (epsilon, delta, scheme, rate, power, values) are judged below."""
    assert len(SETTINGS) >= 300


@pytest.mark.parametrize("scheme", SCHEMES, ids=str)
@pytest.mark.parametrize("epsilon", EPSILONS, ids=str)
def test_rows_are_certified_and_optimal(epsilon: Fraction, scheme: Scheme) -> None:
    """On the grid: rows near the start and far out keep delta; pi <= q; pi is the optimum to 2^-40; few rows lose."""
    for delta in DELTAS:
        turn = math.ceil(math.log((math.expm1(epsilon) + 2 * delta) / (delta * (math.exp(epsilon) + 1))) / epsilon)
        for values in (True, False):
            rows = SampledRows(epsilon, delta, scheme, values=values, sub_tokens=1)
            near = 60 if values else 400
            bands = rows.bands([*range(1, near), 1000, 1001, 5000, 5001])
            assert certify_bands(bands, epsilon=epsilon, delta=delta).worst_delta <= delta

            found = rows.reported(0, near)
            assert all(here <= there for here, there in pairwise(found))
            ceilings = scheme.floors(1, near)
            assert all(mass <= ceiling for mass, ceiling in zip(found[1:], ceilings, strict=True))
            losing = sum(mass < ceiling for mass, ceiling in zip(found[1:], ceilings, strict=True))
            assert losing <= 2 * turn + (2 if values else 1)
            best = optimum(epsilon, delta, ceilings)
            tolerance = 2 ** (127 - 40)
            assert all(0 <= there - here <= tolerance for here, there in zip(found[1:], best, strict=True))


def optimum(epsilon: Fraction, delta: Fraction, ceilings: list[int]) -> list[int]:
    """Algorithm 3 of [CGSS21] in units of 2^-127, with 400 bits, rounded up at the end."""
    one = 1 << 400
    factor = int(growth(epsilon) * one)
    slack = int(delta * one) + 1
    reached, found = 0, []
    for ceiling in ceilings:
        up = (factor * reached >> 400) + slack
        down = one + ((reached + slack - one) << 400) // factor
        reached = min((ceiling + 1) << (400 - 127), one, up, down)
        found.append(-(-reached >> (400 - 127)))
    return found


def algorithm_4(a: Fraction, delta: Fraction, probabilities: list[Fraction]) -> list[list[Fraction]]:
    """Rows 0, 1, ... of Algorithm 4 of [CGSS21], as printed but with pi_ii starting at 0, in exact fractions."""
    rows = [[Fraction(1)]]
    reported = Fraction(0)
    for i, q in enumerate(probabilities, start=1):
        before = [*rows[-1], Fraction(0)]
        now = min(q, a * reported + delta, 1 + (reported + delta - 1) / a)
        row = [1 - now] + [Fraction(0)] * i
        debt = max(Fraction(0), before[0] / a - row[0])
        for j in range(1, i):
            row[j] = max(Fraction(0), (sum(before[1 : j + 1]) - delta) / a - sum(row[1:j]) + debt)
        left = now - sum(row[1:])
        for j in range(i, 0, -1):
            if left == 0:
                break
            room = a * sum(before[j:i]) + delta - sum(row[j + 1 :]) - row[j]
            step = min(left, room)
            row[j] += step
            left -= step
        rows.append(row)
        reported = now
    return rows


def tails_twin(a: Fraction, delta: Fraction, probabilities: list[Fraction], parts: int) -> list[list[Fraction]]:
    """Rows by the recursion of independent columns, in exact fractions, with `parts` values per unit."""
    rows = [[Fraction(1)]]
    reported, tails = Fraction(0), list[Fraction]()
    for q in probabilities:
        now = min(q, a * reported + delta, 1 + (reported + delta - 1) / a)
        tails = [min(now, a * g + delta, 1 + (g + delta - 1) / a, now + (g + delta - reported) / a) for g in tails]
        tails += [min(now, delta) * part / parts for part in range(parts, 0, -1)]
        rows.append([1 - now, *(here - there for here, there in pairwise([*tails, Fraction(0)]))])
        reported = now
    return rows


PROBABILITIES = [
    [Fraction(1)] * 9,
    [min(Fraction(1), Fraction(i, 8)) for i in range(1, 12)],
    [1 - Fraction(9, 10) ** i for i in range(1, 12)],
    [
        Fraction(0),
        Fraction(1, 50),
        Fraction(1, 2),
        Fraction(1, 2),
        Fraction(3, 4),
        Fraction(1),
        Fraction(1),
        Fraction(1),
    ],
]


@pytest.mark.parametrize("delta", [Fraction(1, 10), Fraction(1, 31), Fraction(1, 300)])
@pytest.mark.parametrize("probabilities", PROBABILITIES)
def test_algorithm_4_is_the_recursion_of_tails(probabilities: list[Fraction], delta: Fraction) -> None:
    """The greedy algorithm and the recursion give equal rows, exactly; so do sub-tokens merged to whole ones."""
    greedy = algorithm_4(Fraction(2), delta, probabilities)
    assert greedy == tails_twin(Fraction(2), delta, probabilities, 1)
    split = tails_twin(Fraction(2), delta, probabilities, 4)
    merged = [[row[0], *(sum(row[at : at + 4]) for at in range(1, len(row), 4))] for row in split]
    assert merged == greedy


@pytest.mark.parametrize("delta", [Fraction(1, 10), Fraction(1, 31), Fraction(1, 100)])
def test_corrected_algorithm_5_merges_to_algorithm_4(delta: Fraction) -> None:
    """Algorithm 5, corrected, with its pieces summed between whole numbers, is Algorithm 4, exactly (q = 1)."""
    greedy = algorithm_4(Fraction(2), delta, [Fraction(1)] * 9)
    assert rows_of_algorithm_5(2, delta, 9, factor=2, whole_numbers=True) == greedy


@pytest.mark.parametrize("sub_tokens", [1, 3])
@pytest.mark.parametrize("scheme", SCHEMES[:2] + SCHEMES[5:8], ids=str)
def test_compiled_rows_agree_with_fractions(scheme: Scheme, sub_tokens: int) -> None:
    """Integer rows of the compiled sweep are within 2^-60 of the recursion in fractions."""
    epsilon, delta = Fraction(1, 2), Fraction(1, 100)
    probabilities = [Fraction(floor, 2**127) for floor in scheme.floors(1, 40)]
    exact = tails_twin(growth(epsilon, 300), delta, probabilities, sub_tokens)
    law = WeightedSample(epsilon, delta, scheme, sub_tokens=sub_tokens)
    for frequency in (1, 2, 3, 7, 20, 40):
        row = law.row(frequency)
        assert sum(row.values()) == 1
        for value in range(1, frequency * sub_tokens + 1):
            assert abs(row.get(value, Fraction(0)) - exact[frequency][value]) < Fraction(1, 2**60)


def test_no_sampling_is_the_histogram() -> None:
    """A scheme that takes everything gives the law of Algorithm 4 without a scheme, to 2^-60."""
    plain, sampled = WeightedSample("0.5", "1e-4", centred=False), WeightedSample("0.5", "1e-4", Priority(1))
    for frequency in (1, 5, 20, 50):
        for value, chance in plain.row(frequency).items():
            assert abs(chance - sampled.row(frequency).get(value, Fraction(0))) < Fraction(1, 2**60)


@pytest.mark.parametrize("scheme", [Ppswor("0.001"), Ppswor("1e-6"), Priority("0.01")], ids=str)
def test_far_rows_need_no_table(scheme: Scheme) -> None:
    """Rows of frequency 10^12 and its neighbours keep delta, and do not depend on where the sweep starts."""
    epsilon, delta = Fraction(1, 10), Fraction(1, 10**8)
    rows = SampledRows(epsilon, delta, scheme, values=True, sub_tokens=1)
    far = [10**12 - 1, 10**12, 10**12 + 1]
    certify_bands(rows.bands(far), epsilon=epsilon, delta=delta)
    alone = next(rows.bands([10**12]))
    assert alone == list(rows.bands([10**12 - 300, 10**12]))[1] == list(rows.bands(far))[1]


def test_one_unit_more_is_refused() -> None:
    """Mass moved past the bound in one row is noticed by the judge."""
    epsilon, delta = Fraction(1), Fraction(1, 1000)
    bands = list(SampledRows(epsilon, delta, Priority("0.2"), values=False, sub_tokens=1).bands(range(1, 30)))
    certify_bands(bands, epsilon=epsilon, delta=delta)
    first = bands[0]
    more = int.from_bytes(first.thresholds, "little") + 2
    bands[0] = Band(1, 1, more.to_bytes(16, "little"), False)
    with pytest.raises(PrivacyViolation, match="exceeds its delta"):
        certify_bands(bands, epsilon=epsilon, delta=delta)


def test_falling_probabilities_break_privacy() -> None:
    """The recursion on falling probabilities, which the scheme refuses, does not pass the judge."""

    class Falling(SamplingScheme):
        def __init__(self) -> None:
            self.probabilities = (Fraction(1, 2), Fraction(9, 10), Fraction(1, 100), Fraction(1))

    rows = SampledRows(Fraction(1, 10), Fraction(1, 100), Falling(), values=False, sub_tokens=1)
    rows._listed = [0, 2**120, 2**126, 2**119, 2**126]
    with pytest.raises(PrivacyViolation):
        certify_bands(rows.bands(range(1, 5)), epsilon=Fraction(1, 10), delta=Fraction(1, 100))


@pytest.mark.parametrize("scheme", [Ppswor("0.1"), Priority("0.05")], ids=str)
@pytest.mark.parametrize("sub_tokens", [1, 3])
def test_estimators_of_samples(scheme: Scheme, sub_tokens: int) -> None:
    """Never-over weights are never over; the unbiased ones have no bias; maximum likelihood is a search over rows."""
    law = WeightedSample("0.5", "0.01", scheme, sub_tokens=sub_tokens)
    lower = law.estimator("lower")
    assert all(lower.bias(frequency) <= 0 for frequency in range(1, 80))
    rows = {i: law.row(i) for i in range(1, 120)}
    weigh = law.estimator("mle")
    for value in range(1, 60):
        likely = max(rows, key=lambda i: (rows[i].get(value, Fraction(0)), -i))
        assert weigh(value) == Fraction(likely) / law.reporting_probability(likely)
    if sub_tokens == 1:
        assert all(law.estimator("unbiased").bias(frequency) == 0 for frequency in range(1, 15))


def test_weights_may_fall() -> None:
    """The printed Lemma E.1 claims that never-over weights do not fall; with g = 1 and sampling they do."""
    weigh = WeightedSample("0.5", "0.01", Priority("0.05")).estimator("lower", lambda w: 1)
    weights = [weigh(value) for value in range(1, 100)]
    assert any(there < here for here, there in pairwise(weights))


def test_bad_requests() -> None:
    """Requests that make no sense for a law get one sentence each."""
    with pytest.raises(InvalidParameter, match="scheme must be a sampling scheme"):
        WeightedSample(1, "1e-6", "ppswor")  # type: ignore[arg-type]
    with pytest.raises(InvalidParameter, match="sub_tokens needs values and a sampling scheme"):
        WeightedSample(1, "1e-6", sub_tokens=2)
    with pytest.raises(InvalidParameter, match="has rows, not one table"):
        _ = WeightedSample(1, "1e-6", Ppswor("0.1")).table
    with pytest.raises(InvalidParameter, match="use kind='lower'"):
        WeightedSample(1, "1e-6", Ppswor("0.1"), values=False).estimator("mle")


def test_a_refusal_while_drawing_names_no_frequency() -> None:
    """A row that fails when it is drawn from is refused before the draw, without its private frequency in the text."""
    law = WeightedSample(1, "1e-4", Ppswor("0.01"))
    rows = law.sampled_rows

    class Broken(SampledRows):
        def __init__(self) -> None:
            """Rows of the law, but for one."""

        def bands(self, frequencies: Iterable[int]) -> Iterator[Band]:
            for band in rows.bands(frequencies):
                wrong = Band(band.frequency, band.top, b"", True)
                yield wrong if band.frequency == 7654 else band

    certified = CertifiedRows(Broken(), epsilon=law.epsilon, delta=law.delta)
    with pytest.raises(PrivacyViolation, match="nothing was released") as caught:
        certified.draw(np.array([3, 7654], dtype=np.int64), SeededBits(1))
    shown = "".join(traceback.format_exception(caught.value))
    assert "exceeds its delta: rows" not in shown
