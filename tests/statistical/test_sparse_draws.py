"""Drawing code of the sparse histogram follows its laws.

Every test has false-alarm rate 1e-6 under a fresh seed; seeds are fixed. Wrong samplers beside them are rejected.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from scipy import stats

from dptally.laws.clamped_geometric import ClampedGeometric
from dptally.randomness import SeededBits, order_statistics
from dptally.randomness.binomial import draw_binomial
from dptally.randomness.geometric import Geometric
from dptally.randomness.integers import draw_distinct, draw_integers, whole_numbers
from dptally.randomness.order_statistics import Tail, top_order_statistics
from dptally.universes import IntegerRange
from tests.exact.sparse_reference import dense_law, order_statistics_law
from tests.exact.table_tails import TableTail
from tests.exact.test_sparse_histogram import strict_row
from tests.mechanisms import SparseHistogram, StrictSparseHistogram
from tests.statistical.checks import FALSE_ALARM, chi_square_pvalue


def as_floats(law: Mapping[Any, Fraction]) -> dict[object, float]:
    """A law for the chi-square test."""
    return {outcome: float(chance) for outcome, chance in law.items()}


BINOMIALS = [(10, Fraction(1, 3)), (7, Fraction(9, 10)), (1, Fraction(1, 7)), (2000, Fraction(1, 4))]


@pytest.mark.parametrize(("trials", "chance"), [*BINOMIALS, (1 << 64, Fraction(50, 1 << 64))])
def test_binomial_numbers(trials: int, chance: Fraction) -> None:
    """1500 draws fit the law; a sampler whose chance is 10 % too small or large does not."""
    bits = SeededBits(1)
    mean = float(trials * chance)
    support = range(min(trials, int(mean + 12 * mean**0.5) + 12) + 1)
    # At 2^64 trials the law is Poisson's to within 1e-17.
    exact = stats.binom(trials, float(chance)) if trials < 1 << 60 else stats.poisson(mean)
    law = {n: float(exact.pmf(n)) for n in support}
    drawn = Counter(draw_binomial(trials, chance, bits) for _ in range(1500))
    assert chi_square_pvalue(drawn, law, 1500) > FALSE_ALARM
    for factor in (Fraction(9, 10), Fraction(11, 10)):
        if mean > 40:  # where 1500 draws have the power to tell
            wrong = Counter(draw_binomial(trials, chance * factor, bits) for _ in range(1500))
            assert chi_square_pvalue(wrong, law, 1500) < FALSE_ALARM


@pytest.mark.parametrize("ratio", [Fraction(1, 3), Fraction(99, 100), Fraction(99_999, 100_000)])
def test_geometric_numbers(ratio: Fraction) -> None:
    """200,000 draws, in 40 equally likely bins, fit the law, with one table and with two; 5 % off does not."""
    draws, bits = 200_000, SeededBits(2)
    edges = sorted({int(np.log(1 - part / 40) / np.log(float(ratio))) for part in range(40)})
    tails = [float(ratio) ** edge for edge in edges] + [0.0]
    law = {place: tails[place] - tails[place + 1] for place in range(len(edges))}

    def binned(values: np.ndarray) -> Counter[int]:
        return Counter((np.searchsorted(edges, values, side="right") - 1).tolist())

    assert chi_square_pvalue(binned(Geometric(ratio).draw(draws, bits)), law, draws) > FALSE_ALARM
    wrong = Geometric(1 - (1 - ratio) * Fraction(105, 100)).draw(draws, bits)
    assert chi_square_pvalue(binned(wrong), law, draws) < FALSE_ALARM


@pytest.mark.parametrize("count", [0, 2, 5])
def test_clamped_noise(count: int) -> None:
    """100,000 draws of clamp(c + Z) fit the row of c, and not that of another count."""
    model = ClampedGeometric("0.7", bound=5)
    drawn = Counter(model.draw(np.full(100_000, count, dtype=np.int64), SeededBits(3)).tolist())
    assert chi_square_pvalue(drawn, as_floats(model.row(count)), 100_000) > FALSE_ALARM
    assert chi_square_pvalue(drawn, as_floats(model.row((count + 1) % 6)), 100_000) < FALSE_ALARM


def table_of(model: ClampedGeometric) -> TableTail:
    """The row of 0, rounded to 2^-128: too little to be seen."""
    return TableTail([int(model.tail(value) * (1 << 128)) for value in range(1, model.bound + 1)])


def continuous_recipe(row: Mapping[int, Fraction], draws: int, count: int, random: np.random.Generator) -> list[int]:
    """A wrong sampler: the next largest given the last as if there were no ties, which [BV19, section 6.1] warns of."""
    cumulative = np.cumsum([float(row[value]) for value in sorted(row)])
    found: list[int] = []
    for place in range(count):
        top = found[-1] if found else len(cumulative) - 1
        chances = (cumulative[:top] / cumulative[top]) ** (draws - place)
        found.append(int(np.searchsorted(chances, random.random())))
    return found


@pytest.mark.parametrize("cells", ["one", "many"])
@pytest.mark.parametrize("kind", ["geometric", "table"])
def test_order_statistics_of_a_few_draws(kind: str, cells: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The 3 largest of 6, 1500 times, fit the law by enumeration, also if cells are opened one after the other."""
    if cells == "many":
        monkeypatch.setattr(order_statistics, "_first_cell", lambda draws, wanted: Fraction(1, 8))
    model = ClampedGeometric("0.8", bound=4)
    tail: Tail = model if kind == "geometric" else table_of(model)
    bits, draws = SeededBits(4), 1500
    law = as_floats(order_statistics_law(model.row(0), 6, 3))
    drawn = Counter(tuple(top_order_statistics(tail, 6, 3, bits).tolist()) for _ in range(draws))
    assert chi_square_pvalue(drawn, law, draws) > FALSE_ALARM
    random = np.random.default_rng(4)
    wrong = Counter(tuple(continuous_recipe(model.row(0), 6, 3, random)) for _ in range(draws))
    assert chi_square_pvalue(wrong, law, draws) < FALSE_ALARM


@pytest.mark.parametrize("kind", ["geometric", "table"])
@pytest.mark.parametrize(("low", "high"), [("1/8", "1/4"), ("1/4", "1/2"), ("3/8", "1"), ("0", "5/16")])
def test_draws_from_one_cell(kind: str, low: str, high: str) -> None:
    """20,000 uniform numbers of a cell give every value as often as the tail says; those of the next cell do not."""
    model = ClampedGeometric("0.8", bound=4)
    tail: Tail = model if kind == "geometric" else table_of(model)
    ends = Fraction(low), Fraction(high)
    tails = [Fraction(1), *(model.tail(value) for value in range(1, 5)), Fraction(0)]
    cut = [min(max(t, ends[0]), ends[1]) for t in tails]
    law = {value: float((cut[value] - cut[value + 1]) / (ends[1] - ends[0])) for value in range(5)}
    law = {value: chance for value, chance in law.items() if chance}
    drawn = Counter(tail.draw_between(*ends, 20_000, SeededBits(5)).tolist())
    assert chi_square_pvalue(drawn, law, 20_000) > FALSE_ALARM
    wrong = Counter(tail.draw_between(ends[0] / 2, ends[1] / 2, 20_000, SeededBits(5)).tolist())
    assert chi_square_pvalue(wrong, law, 20_000) < FALSE_ALARM


@pytest.mark.parametrize("size", [1 << 64, 10**30])
def test_order_statistics_of_very_many_draws(size: int) -> None:
    """Of 2^64 draws, the number that reach v is binomial, v in three places; that of another size is rejected."""
    model, bits, runs = ClampedGeometric("0.5"), SeededBits(6), 800
    tops = [top_order_statistics(model, size, 60, bits) for _ in range(runs)]
    middle = model._level(Fraction(20, size))
    for value in (middle, middle + 3, middle + 6):
        mean = float(size * model.tail(value))
        law = {n: float(stats.poisson(mean).pmf(n)) for n in range(60)} | {60: float(stats.poisson(mean).sf(59))}
        found = Counter(int((top >= value).sum()) for top in tops)
        assert chi_square_pvalue(found, law, runs) > FALSE_ALARM
    wrong = Counter(int((top_order_statistics(model, size * 10 // 9, 60, bits) >= middle).sum()) for _ in range(runs))
    mean = float(size * model.tail(middle))
    law = {n: float(stats.poisson(mean).pmf(n)) for n in range(60)} | {60: float(stats.poisson(mean).sf(59))}
    assert chi_square_pvalue(wrong, law, runs) < FALSE_ALARM


@pytest.mark.parametrize(("size", "count"), [(5, 2), (18, 2), (1 << 70, 1)])
def test_distinct_sequences(size: int, count: int) -> None:
    """Sequences of distinct labels outside a set are equally likely, dense or sparse; sorted ones are rejected."""
    bits, draws = SeededBits(7), 6000
    excluded = whole_numbers([1, 3], size)
    if size > 100:
        # Too many to count each: the leading three bits of a label.
        found = Counter(int(draw_distinct(size, excluded, 1, bits)[0]) * 8 // size for _ in range(draws))
        assert chi_square_pvalue(found, dict.fromkeys(range(8), 1 / 8), draws) > FALSE_ALARM
        return
    free = [label for label in range(size) if label not in (1, 3)]
    law = {(a, b): 1 / (len(free) * (len(free) - 1)) for a in free for b in free if a != b}
    drawn = [tuple(draw_distinct(size, excluded, count, bits).tolist()) for _ in range(draws)]
    assert chi_square_pvalue(Counter(drawn), law, draws) > FALSE_ALARM
    assert chi_square_pvalue(Counter(tuple(sorted(pair)) for pair in drawn), law, draws) < FALSE_ALARM


@pytest.mark.parametrize("limit", [1, 2, 5, 100])
def test_integers_below_a_limit(limit: int) -> None:
    """20,000 draws fit the uniform law."""
    drawn = Counter(draw_integers(limit, 20_000, SeededBits(8)).tolist())
    assert chi_square_pvalue(drawn, dict.fromkeys(range(limit), 1 / limit), 20_000) > FALSE_ALARM


DATA = [(3, {}, 1), (4, {0: 2}, 2), (5, {1: 2, 4: 1}, 1), (3, {0: 1, 2: 2}, 5)]


@pytest.mark.parametrize(("size", "counts", "keep"), DATA)
def test_whole_releases(size: int, counts: dict[int, int], keep: int) -> None:
    """4000 releases fit the law of noise for every bin; that of data with one unit more is rejected."""
    mechanism = SparseHistogram("1", universe=IntegerRange(0, size - 1), keep=keep, bound=3)
    numbers = whole_numbers(list(counts), size)
    frequencies = np.array(list(counts.values()), dtype=np.int64)
    bits, draws = SeededBits(9), 4000
    drawn: Counter[object] = Counter()
    for _ in range(draws):
        keys, values = mechanism.draw_bins(numbers, frequencies, bits)
        drawn[frozenset(zip(keys.tolist(), values.tolist(), strict=True))] += 1
    assert (
        chi_square_pvalue(drawn, as_floats(dense_law(size, counts, keep, mechanism.law.noise.row)), draws) > FALSE_ALARM
    )
    more = counts | {0: counts.get(0, 0) + 1}
    assert (
        chi_square_pvalue(drawn, as_floats(dense_law(size, more, keep, mechanism.law.noise.row)), draws) < FALSE_ALARM
    )


@pytest.mark.parametrize(("size", "counts", "keep"), [(4, {0: 2}, 2), (3, {0: 1, 2: 2}, 5)])
def test_whole_releases_in_strict_time(size: int, counts: dict[int, int], keep: int) -> None:
    """1200 releases from fixed bits fit the exact law but for the random histogram, which has chance 2^-40 here."""
    mechanism = StrictSparseHistogram("1", universe=IntegerRange(0, size - 1), keep=keep, bound=3, mixing=40)
    numbers = whole_numbers(list(counts), size)
    frequencies = np.array(list(counts.values()), dtype=np.int64)
    bits, draws = SeededBits(10), 1200
    drawn: Counter[object] = Counter()
    for _ in range(draws):
        keys, values = mechanism.draw_bins(numbers, frequencies, bits)
        drawn[frozenset(zip(keys.tolist(), values.tolist(), strict=True))] += 1

    def row(count: int) -> dict[int, Fraction]:
        return strict_row(mechanism, count)

    assert chi_square_pvalue(drawn, as_floats(dense_law(size, counts, keep, row)), draws) > FALSE_ALARM
    more = counts | {0: counts[0] + 1}
    assert chi_square_pvalue(drawn, as_floats(dense_law(size, more, keep, row)), draws) < FALSE_ALARM
