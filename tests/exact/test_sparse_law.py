"""The sparse histogram's drawing code, enumerated: samplers, order statistics, labels and whole releases, exactly.

Comparisons of endless uniform numbers with thresholds are the random choices (`enumerate_thresholds`), with the
thresholds that the package computes; orders of random words are the others. Loops without a fixed end are followed
until a branch has become unlikely, so that a law is known up to the little that is missing: every chance lies between
what was found and that plus what is missing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from fractions import Fraction
from math import comb, isqrt
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from dptally.exact import exp_bounds
from dptally.laws.clamped_geometric import ClampedGeometric
from dptally.mechanisms import sparse
from dptally.randomness import BitSource, geometric, order_statistics
from dptally.randomness.binomial import draw_binomial
from dptally.randomness.geometric import Geometric
from dptally.randomness.integers import draw_distinct, draw_integers, whole_numbers
from dptally.randomness.order_statistics import Tail, top_order_statistics
from dptally.universes import IntegerRange
from tests.exact.enumeration import Choices, OrderedWords, enumerate_thresholds, law_of, steps
from tests.exact.sparse_reference import (
    Histogram,
    chained_order_statistics_law,
    dense_law,
    order_statistics_law,
)
from tests.exact.table_tails import TableTail
from tests.mechanisms import Made, SparseHistogram

Use = Callable[[Choices], None]
ROUNDING = Fraction(1, 1 << 120)  # thresholds of tables have 128 places, those that are choices 256


@pytest.fixture
def use(monkeypatch: pytest.MonkeyPatch) -> Iterator[Use]:
    """Thresholds are choices of the run that is named by calling this."""
    yield from enumerate_thresholds(monkeypatch)


def agrees(found: Mapping[Any, Fraction], expected: Mapping[Any, Fraction], most: Fraction) -> bool:
    """Whether a law that lacks at most so much can be the expected one."""
    missing = 1 - sum(found.values())
    return (
        found.keys() <= expected.keys()
        and -ROUNDING <= missing <= most
        and all(
            found.get(outcome, Fraction(0)) - ROUNDING <= chance <= found.get(outcome, Fraction(0)) + missing + ROUNDING
            for outcome, chance in expected.items()
        )
    )


# ---- numbers ----


@pytest.mark.parametrize("longest", [4096, 2])
@pytest.mark.parametrize("ratio", [Fraction(1, 20), Fraction(1, 2), Fraction(9, 10)])
def test_geometric_numbers(ratio: Fraction, longest: int, use: Use, monkeypatch: pytest.MonkeyPatch) -> None:
    """P[G = g] = (1 - r) r^g exactly, from one table and from two, and beyond the end of the table."""
    monkeypatch.setattr(geometric, "_LONGEST", longest)
    law = Geometric(ratio)

    def run(choices: Choices) -> int:
        use(choices)
        return int(law.draw(1, _none)[0])

    found = law_of(run, Fraction(1, 1 << 34))
    expected = {g: (1 - ratio) * ratio**g for g in range(max(found) + 1)}
    assert agrees(found, expected, Fraction(1, 1 << 16) * 300)


class _NoBits:
    """Where all random choices are thresholds."""

    private = False

    def words(self, count: int) -> NDArray[np.uint64]:
        raise AssertionError("a random word was read")


_none = _NoBits()


@pytest.mark.parametrize("count", [0, 1, 3, 4])
def test_noisy_counts(count: int, use: Use) -> None:
    """clamp(c + Z) as it is drawn has the row of c: GeoSample without a table [BV19, Alg. 4.5]."""
    law = ClampedGeometric("2", bound=4)

    def run(choices: Choices) -> int:
        use(choices)
        return int(law.draw(np.array([count]), _none)[0])

    found = law_of(run, Fraction(1, 1 << 60))
    assert agrees(found, law.row(count), Fraction(1, 1 << 50))


class _AgainError(Exception):
    """A draw that was passed over."""


@pytest.mark.parametrize("kind", ["geometric", "table"])
@pytest.mark.parametrize(("low", "high"), [("0", "1"), ("0", "5/16"), ("1/64", "1/8"), ("1/8", "1"), ("1/4", "1/2")])
def test_draws_from_one_cell(kind: str, low: str, high: str, use: Use, monkeypatch: pytest.MonkeyPatch) -> None:
    """Uniform numbers of a cell give each value as often as the tail says, given that none is passed over."""
    model = ClampedGeometric("2", bound=3)
    ends = Fraction(low), Fraction(high)
    below, times = model._draw_below, [0]

    def once(end: Fraction, count: int, bits: BitSource) -> NDArray[np.int64]:
        times[0] += 1
        if times[0] > 1:
            raise _AgainError
        return below(end, count, bits)

    monkeypatch.setattr(model, "_draw_below", once)
    tail: Tail = model if kind == "geometric" else table_of(model)

    def run(choices: Choices) -> int | None:
        use(choices)
        times[0] = 0
        try:
            return int(tail.draw_between(*ends, 1, _none)[0])
        except _AgainError:
            return None

    found = law_of(run, Fraction(1, 1 << 60))
    again = found.pop(None, Fraction(0))
    tails = [Fraction(1), *(model.tail(value) for value in range(1, 4)), Fraction(0)]
    cut = [min(max(reached, ends[0]), ends[1]) for reached in tails]
    expected = {value: (cut[value] - cut[value + 1]) / (ends[1] - ends[0]) for value in range(4)}
    assert kind == "geometric" or not again
    assert agrees({value: chance / (1 - again) for value, chance in found.items()}, expected, Fraction(1, 1 << 40))


def table_of(model: ClampedGeometric) -> TableTail:
    """The row of 0, rounded to 2^-128."""
    return TableTail([int(model.tail(value) * (1 << 128)) for value in range(1, model.bound + 1)])


class _Words:
    """Words that are told in advance; one more than that is an end."""

    private = False

    def __init__(self, *words: int) -> None:
        self._left = list(words)

    def words(self, count: int) -> NDArray[np.uint64]:
        taken, self._left = self._left[:count], self._left[count:]
        if len(taken) < count:
            raise _AgainError
        return np.array(taken, dtype=np.uint64)


@pytest.mark.parametrize(
    ("trials", "chance"), [(1, "1/7"), (3, "1/3"), (7, "9/10"), (40, "1/20"), (1 << 70, "1/393530540239137101141")]
)
def test_binomial_numbers(trials: int, chance: str) -> None:
    """Every proposal is accepted with a chance that makes the accepted numbers binomial, to within 2^-50.

    For each proposal the words for which it is accepted are counted: they are the smallest ones.
    """
    happens = Fraction(chance)
    mode = min(trials, int((trials + 1) * happens))
    width = -(-8 * (isqrt(int(16 * trials * happens * (1 - happens))) + 2) // 3)
    length = (width - 1).bit_length()
    accepted: dict[int, Fraction] = {}
    for side in (0, 1):
        for blocks in range(3):
            for place in range(1 << length):

                def number(word: int, coins: int = side | (2 << blocks) - 2, place: int = place) -> int:
                    try:
                        return draw_binomial(trials, happens, _Words(coins, place << (64 - length), word))
                    except _AgainError:
                        return 1 << 100  # above every number: not accepted

                taken = [step for step in steps(number, 1 << 64) if step[0] < 1 << 100]
                assert len(taken) <= 1
                for value, first, last in taken:
                    assert value not in accepted and first == 0 and place < width
                    accepted[value] = Fraction(last + 1, 1 << (64 + blocks))
    near = range(max(0, mode - width), min(trials, mode + width) + 1)
    weights = {n: _binomial_ratio(trials, happens, mode, n) for n in near}
    assert all(abs(accepted.get(n, Fraction(0)) - weight) < Fraction(1, 1 << 50) for n, weight in weights.items())
    assert all(n in weights or share < Fraction(1, 2) for n, share in accepted.items())


def _binomial_ratio(trials: int, chance: Fraction, mode: int, number: int) -> Fraction:
    """P[number] / P[mode], step by step."""
    ratio = Fraction(1)
    for n in range(min(mode, number), max(mode, number)):
        step = Fraction(trials - n, n + 1) * chance / (1 - chance)
        ratio = ratio * step if number > mode else ratio / step
    return ratio


@pytest.mark.parametrize(("limit", "excluded", "count"), [(4, [1], 3), (5, [], 2), (16, [3], 2), (16, [0, 15], 1)])
def test_labels_are_uniform_sequences(limit: int, excluded: list[int], count: int) -> None:
    """Every sequence of distinct labels outside comes equally often, whether most labels are wanted or few."""

    def run(choices: Choices) -> tuple[int, ...]:
        bits = OrderedWords(choices, leading=4 if limit == 16 else 0)
        return tuple(draw_distinct(limit, whole_numbers(excluded, limit), count, bits).tolist())

    found = law_of(run, Fraction(1, 1 << 14))
    free = [label for label in range(limit) if label not in excluded]
    expected = {(a, *rest) for a in free for rest in _others(free, a, count - 1)}
    assert found.keys() == expected
    assert len(set(found.values())) == 1 and 1 - sum(found.values()) < Fraction(1, 20)


def _others(free: list[int], used: int, count: int) -> list[tuple[int, ...]]:
    left = [label for label in free if label != used]
    return [()] if not count else [(a, *rest) for a in left for rest in _others(left, a, count - 1)]


@pytest.mark.parametrize("limit", [1, 2, 5, 8])
def test_integers_below_a_limit_are_uniform(limit: int) -> None:
    """Two of them are independent and uniform; words beyond the limit are drawn again."""

    def run(choices: Choices) -> tuple[int, ...]:
        return tuple(draw_integers(limit, 2, OrderedWords(choices, leading=3)).tolist())

    found = law_of(run, Fraction(1, 1 << 9))
    assert found.keys() == {(a, b) for a in range(limit) for b in range(limit)}
    assert len(set(found.values())) == 1


# ---- order statistics ----


@pytest.mark.parametrize("cell", ["1", "1/2", "1/8"])
@pytest.mark.parametrize(("draws", "count"), [(1, 1), (3, 2), (4, 1), (2, 9)])
def test_order_statistics(draws: int, count: int, cell: str, use: Use, monkeypatch: pytest.MonkeyPatch) -> None:
    """The largest draws as they are drawn have the law of the largest of all draws, in one cell and cell by cell.

    Algorithm 6.7 as it is printed, a binomial number for every value, has that law too [BV19, Prop. 6.6].
    """
    model = ClampedGeometric("2" if cell == "1" else "1/2", bound=2)
    current: list[Choices] = []

    def binomial(trials: int, chance: Fraction, bits: BitSource) -> int:
        return current[0].among([comb(trials, n) * chance**n * (1 - chance) ** (trials - n) for n in range(trials + 1)])

    monkeypatch.setattr(order_statistics, "draw_binomial", binomial)
    monkeypatch.setattr(order_statistics, "_first_cell", lambda draws, wanted: Fraction(cell))
    tail: Tail = model if cell == "1" else table_of(model)

    def run(choices: Choices) -> tuple[int, ...]:
        use(choices)
        current[:] = [choices]
        return tuple(top_order_statistics(tail, draws, count, _none).tolist())

    expected = order_statistics_law(model.row(0), draws, count)
    assert agrees(law_of(run, Fraction(1, 1 << 40)), expected, Fraction(1, 1 << 20))
    assert chained_order_statistics_law(model.row(0), draws, count) == expected


# ---- whole releases ----


def mechanism_for(size: int, keep: int, *, units: int = 1) -> Made:
    """Counts up to 2, epsilon 3 for each key."""
    return SparseHistogram(
        str(3 * units), universe=IntegerRange(0, size - 1), keep=keep, bound=2, max_keys_per_unit=units
    )


def drawn_law(mechanism: Made, counts: Mapping[int, int], use: Use) -> dict[Histogram, Fraction]:
    """The law of the package's release, up to what is missing."""
    numbers = whole_numbers(sorted(counts), mechanism.universe.size)
    frequencies = np.array([counts[key] for key in sorted(counts)], dtype=np.int64)

    def run(choices: Choices) -> Histogram:
        use(choices)
        keys, values = mechanism.draw_bins(numbers, frequencies, OrderedWords(choices))
        return frozenset(zip(keys.tolist(), values.tolist(), strict=True))

    return law_of(run, Fraction(1, 1 << 34))


MISSING = Fraction(1, 1 << 24)
DATA: list[tuple[int, dict[int, int], int]] = [
    (3, {}, 1),
    (3, {2: 1}, 1),
    (3, {0: 2}, 2),
    (3, {1: 2, 2: 1}, 1),
    (3, {0: 1}, 5),
    (2, {0: 1, 1: 2}, 1),
]


@pytest.mark.parametrize(("size", "counts", "keep"), DATA)
def test_a_release_has_the_law_of_noise_for_every_key(size: int, counts: dict[int, int], keep: int, use: Use) -> None:
    """KH', which draws keys outside the data together, has the law of KeepHeavy, also over a small universe."""
    mechanism = mechanism_for(size, keep)
    row = mechanism.law.noise.row  # type: ignore[union-attr]
    assert agrees(drawn_law(mechanism, counts, use), dense_law(size, counts, keep, row), MISSING)


@pytest.mark.parametrize(
    ("counts", "fewer", "units"),
    [({2: 1}, {}, 1), ({0: 2}, {0: 1}, 1), ({0: 1, 1: 2}, {1: 2}, 1), ({0: 1, 1: 1}, {}, 2)],
)
def test_releases_as_drawn_differ_by_at_most_e_to_the_epsilon(
    counts: dict[int, int], fewer: dict[int, int], units: int, use: Use
) -> None:
    """Removing a unit changes no release's chance by more, as far as the chances are known; and by nearly as much."""
    mechanism = mechanism_for(3, 1, units=units)
    first, second = drawn_law(mechanism, counts, use), drawn_law(mechanism, fewer, use)
    missing = [1 - sum(law.values()) for law in (first, second)]
    low, high = exp_bounds(mechanism.spec.epsilon, 256)
    assert first.keys() == second.keys() and max(missing) < MISSING
    for release in first:
        assert first[release] <= low * (second[release] + missing[1])
        assert second[release] <= low * (first[release] + missing[0])
    assert max(max(first[h] / second[h], second[h] / first[h]) for h in first) > Fraction(99, 100) * high


def test_labels_in_increasing_order_would_lose_everything(use: Use, monkeypatch: pytest.MonkeyPatch) -> None:
    """Algorithm A.3 read as a set, put into the package: a release that data allows is impossible without it."""
    mechanism = mechanism_for(3, 1)

    def ordered(limit: int, excluded: NDArray[np.uint64], count: int, bits: BitSource) -> NDArray[np.uint64]:
        return np.sort(draw_distinct(limit, excluded, min(2, limit - len(excluded)), bits))[:count]

    monkeypatch.setattr(sparse, "draw_distinct", ordered)
    empty, one = drawn_law(mechanism, {}, use), drawn_law(mechanism, {2: 1}, use)
    alone = frozenset({(2, 1)})
    assert alone not in empty and one[alone] > Fraction(1, 20)
