"""The sparse mechanism around its draws, and the exact samplers where chance never leads."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from studies.sparse_printed import printed_errors

from dptally import InvalidParameter, PrivacyViolation
from dptally.exact.powers import power_bounds
from dptally.laws.clamped_geometric import ClampedGeometric
from dptally.laws.top_k_noise import TopKNoise, least_possible_error
from dptally.randomness import SeededBits
from dptally.randomness.geometric import Geometric
from dptally.randomness.integers import draw_distinct, draw_integer, whole_numbers
from dptally.randomness.lazy_uniforms import Thresholds
from dptally.randomness.order_statistics import top_order_statistics
from dptally.universes import IntegerRange, read_universe
from tests.mechanisms import SparseHistogram, StrictSparseHistogram

MOST = (1 << 64) - 1


class Script:
    """Words that are told in advance."""

    private = False

    def __init__(self, *words: int) -> None:
        self.left = list(words)

    def words(self, count: int) -> NDArray[np.uint64]:
        """The next words."""
        taken, self.left = self.left[:count], self.left[count:]
        if len(taken) < count:
            raise AssertionError("more words than told")
        return np.array(taken, dtype=np.uint64)


class CountingBits:
    """Seeded words, counted."""

    private = False

    def __init__(self, seed: int) -> None:
        self.used = 0
        self._bits = SeededBits(seed)

    def words(self, count: int) -> NDArray[np.uint64]:
        """Pass on."""
        self.used += count
        return self._bits.words(count)


class Keys:
    """Frequencies of one column, as `dptally.summaries` hands them over."""

    unit: str | None = None
    scheme: Any = None

    def __init__(self, counts: dict[Any, int], *, key: tuple[str, ...] = ("key",), max_keys_per_unit: int = 1) -> None:
        self.key, self.max_keys_per_unit = key, max_keys_per_unit
        self._counts = counts

    def batches(self) -> Iterator[tuple[pa.RecordBatch, NDArray[np.int64]]]:
        """All in one."""
        columns = [pa.array(list(self._counts))] * len(self.key)
        yield (
            pa.RecordBatch.from_arrays(columns, names=list(self.key)),
            np.array(list(self._counts.values()), dtype=np.int64),
        )


# ---- exact samplers ----


@settings(max_examples=200, deadline=None)
@given(
    base=st.fractions(0, 1, max_denominator=1000),
    exponent=st.integers(0, 60),
    bits=st.integers(1, 100),
)
def test_power_bounds_hold_and_are_close(base: Fraction, exponent: int, bits: int) -> None:
    """The exact power lies between, and the bounds are at most 2 apart."""
    low, high = power_bounds(base, exponent, bits)
    assert low <= base**exponent * (1 << bits) <= high <= low + 2


def exact_thresholds(*numbers: Fraction) -> Thresholds:
    """Thresholds at fractions."""

    def bounds(place: int, bits: int) -> tuple[int, int]:
        scaled = numbers[place] * (1 << bits)
        return scaled.numerator // scaled.denominator, -(-scaled.numerator // scaled.denominator)

    return Thresholds(bounds, [bounds(place, 64)[0] for place in range(len(numbers))])


@settings(max_examples=300, deadline=None)
@given(
    numbers=st.lists(st.one_of(st.fractions(0, 1, max_denominator=50), st.sampled_from([Fraction(0), Fraction(1)]))),
    near=st.integers(-2, 2),
    more=st.integers(1, MOST - 1),
    data=st.data(),
)
def test_comparisons_are_those_of_endless_bits(
    numbers: list[Fraction], near: int, more: int, data: st.DataObject
) -> None:
    """Whatever the first word, also right at a threshold, the result is that of the number the bits spell."""
    ordered = sorted(numbers)
    target = data.draw(st.sampled_from([*ordered, Fraction(1, 3)]))
    word = min(max(int(target * (1 << 64)) + near, 0), MOST)
    script = Script(word, more, more, more, more)
    found = int(exact_thresholds(*ordered).draw(1, script)[0])
    spelled = Fraction(word, 1 << 64) + sum(Fraction(more, 1 << (64 * place)) for place in range(2, 6))
    assert found == sum(number <= spelled for number in ordered)


def test_bits_are_asked_for_only_where_the_first_word_leaves_it_open() -> None:
    """One word decides away from a threshold; at it, one more."""
    thirds = exact_thresholds(Fraction(1, 3))
    away, at = Script(5), Script((1 << 64) // 3, 0)
    assert thirds.draw(1, away)[0] == 0 and not away.left
    assert thirds.draw(1, at)[0] == 0 and not at.left


def test_a_geometric_number_beyond_the_table_is_drawn_on() -> None:
    """Two largest words and then a smallest one give twice the length of the table."""
    law = Geometric(Fraction(1, 2))
    length = len(law._upper)
    assert law.draw(1, Script(MOST, MOST, 0)).tolist() == [2 * length]


@pytest.mark.parametrize("ratio", [Fraction(1, 7), Fraction(999, 1000), Fraction(99_999, 100_000)])
def test_tables_of_geometric_numbers_are_lower_bounds(ratio: Fraction) -> None:
    """Each entry is within the two units below its threshold that comparisons allow for."""
    law = Geometric(ratio)
    for table in (law._upper, law._lower):
        for place in {0, len(table) // 2, len(table) - 1} & set(range(len(table))):
            low, high = table._bounds(place, 128)
            entry = int(table._lows[place])
            assert entry << 64 <= low <= high <= (entry + 2) << 64
            assert high - low < 1 << 20


@pytest.mark.parametrize("probability", ["1", "3/4", "1/2", "1/1024", "1/1180591620717411303424"])
@pytest.mark.parametrize("bound", [1, 5, 1 << 62])
def test_the_level_of_a_cell_is_the_last_that_reaches_it(probability: str, bound: int) -> None:
    """G(level) >= p > G(level + 1), with G cut to the range."""
    law, end = ClampedGeometric("0.3", bound=bound), Fraction(probability)
    level = law._level(end)
    assert (Fraction(1) if level == 0 else law.tail(level)) >= end
    assert level == bound or law.tail(level + 1) < end


def test_sizes_at_the_edges() -> None:
    """No draws, fewer draws than asked for, and one number only."""
    law, bits = ClampedGeometric("1"), SeededBits(1)
    assert top_order_statistics(law, 0, 5, bits).tolist() == []
    assert len(top_order_statistics(law, 3, 5, bits)) == 3
    assert draw_integer(1, bits) == 0
    assert draw_distinct(3, whole_numbers([0, 1, 2], 3), 0, bits).tolist() == []
    assert sorted(draw_distinct(3, whole_numbers([1], 3), 2, bits).tolist()) == [0, 2]


def test_large_labels_are_distinct_and_outside() -> None:
    """Beyond 64 bits labels are Python's numbers, below the limit."""
    labels = draw_distinct(3 << 70, whole_numbers([5], 3 << 70), 100, SeededBits(1))
    assert labels.dtype == object and len(set(labels)) == 100 and max(labels) < 3 << 70


# ---- the mechanism ----


@pytest.mark.parametrize("name", ["uint64", "ipv4", "uuid", "words:12"])
def test_heavy_keys_are_released_in_order(name: str) -> None:
    """Keys with counts far above the noise are released with values near them, sorted, in the universe's type."""
    universe = read_universe(name)
    heavy = {universe.key(number): 1000 + number % 7 for number in range(5, 10**9, 10**8)}
    drawn = SparseHistogram("1", universe=universe, keep=40).draw(Keys(dict(heavy)), SeededBits(2))
    rows = dict(zip(drawn.rows["key"].to_pylist(), drawn.rows["value"].to_pylist(), strict=True))
    assert all(abs(rows[key] - count) < 50 for key, count in heavy.items())
    assert drawn.rows["key"].to_pylist() == sorted(rows) and drawn.rows["key"].type == universe.type
    assert len(heavy) < len(rows) <= 40
    assert drawn.guarantee.delta == 0 and drawn.guarantee.epsilon == 1 and not drawn.guarantee.private


def test_cutting_at_the_significant_value_leaves_real_keys() -> None:
    """In 200 releases with beta = 1e-9 no key that nobody has reaches the value."""
    mechanism = SparseHistogram("1", universe=read_universe("uint64"), keep=50)
    cut, bits = mechanism.law.significant_value("1e-9"), SeededBits(3)
    for _ in range(200):
        keys, values = mechanism.draw_bins(whole_numbers([7], 1 << 64), np.array([1000]), bits)
        assert keys[values >= cut].tolist() == [7]


def test_keys_outside_are_left_out_in_silence() -> None:
    """Data with keys outside the universe gives the very release of data without them."""
    mechanism = SparseHistogram("1", universe=read_universe("ipv4"), keep=10)
    within = mechanism.draw(Keys({"1.2.3.4": 500}), SeededBits(4))
    more = mechanism.draw(Keys({"1.2.3.4": 500, "no address": 9, None: 3, "01.2.3.4": 8}), SeededBits(4))
    assert within.rows.equals(more.rows)


def test_the_order_of_the_data_does_not_matter() -> None:
    """A seed repeats its release whatever the order of the keys."""
    mechanism = SparseHistogram("1", universe=read_universe("uint64"), keep=10)
    forward = mechanism.draw(Keys({1: 50, 2: 60, 3: 70}), SeededBits(5))
    backward = mechanism.draw(Keys({3: 70, 2: 60, 1: 50}), SeededBits(5))
    assert forward.rows.equals(backward.rows)


def test_no_data_and_small_universes() -> None:
    """Nothing in the data, and a universe smaller than the cap, are no errors."""
    none = SparseHistogram("1", universe=read_universe("uuid"), keep=3).draw(Keys({}), SeededBits(6))
    assert none.rows.num_rows <= 3 and none.rows["key"].type == pa.string()
    small = SparseHistogram("1", universe=IntegerRange(1, 2), keep=100).draw(Keys({1: 90}), SeededBits(6))
    assert set(small.rows["key"].to_pylist()) <= {1, 2} and 1 in small.rows["key"].to_pylist()


def test_nothing_above_the_bound_is_released() -> None:
    """Counts beyond the bound are cut; where all are at it, they are tied and none is released."""
    mechanism = SparseHistogram("1", universe=IntegerRange(0, 99), keep=5, bound=10)
    numbers = whole_numbers(range(20), 100)
    assert len(mechanism.draw_bins(numbers, np.full(20, 10**6), SeededBits(7))[0]) == 0
    assert max(mechanism.draw_bins(numbers[:3], np.full(3, 10**6), SeededBits(7))[1]) == 10


def test_strict_time_takes_the_same_bits_whatever_the_data() -> None:
    """Up to `keep` keys, the number of random words does not depend on the data or the draw."""
    mechanism = StrictSparseHistogram("1", universe=read_universe("uint64"), keep=4, bound=100)
    used = set()
    for seed, counts in enumerate([{}, {5: 1}, {1: 90, 2: 80, 3: 1, 4: 7}]):
        bits = CountingBits(seed)
        drawn = mechanism.draw(Keys(dict(counts)), bits)
        assert drawn.rows.num_rows <= 4
        used.add(bits.used)
    assert len(used) == 1


def test_strict_time_keeps_heavy_keys() -> None:
    """Counts far above the noise come out near where they were."""
    mechanism = StrictSparseHistogram("1", universe=read_universe("uint64"), keep=3, bound=200)
    keys, values = mechanism.draw_bins(whole_numbers([3, 9], 1 << 64), np.array([150, 120]), SeededBits(8))
    assert {3, 9} <= set(keys.tolist()) and abs(dict(zip(keys.tolist(), values, strict=True))[3] - 150) < 40


def test_errors_are_far_below_the_printed_ones() -> None:
    """At |X| = 2^64, epsilon = 1, beta = 5 %: what is stated is below what is printed and above what is possible."""
    mechanism = SparseHistogram("1", universe=read_universe("uint64"), keep=1000)
    printed = printed_errors(1, 1 << 64, "0.05")
    assert (printed.key_error, printed.from_count, printed.simultaneous_error) == (20, 440, 434)
    assert mechanism.law.significant_value("0.05") == 48 and mechanism.law.noise_error("0.05") == 3
    assert mechanism.law.reported_from("0.05") < printed.from_count / 5
    assert least_possible_error(1, 1 << 64, 1000, "0.05") < mechanism.law.simultaneous_error("0.05") < 60


# ---- refusals ----


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"epsilon": -1}, "epsilon must be a positive number, got -1"),
        ({"epsilon": "1e-12"}, "epsilon must be at least 2\\^-32 for geometric noise"),
        ({"keep": 0}, "capacity must be at least 1, got 0"),
        ({"keep": 1.5}, "capacity must be a whole number, got float"),
        ({"bound": 0}, "bound must be at least 1, got 0"),
        ({"max_keys_per_unit": 0}, "max_keys_per_unit must be at least 1"),
    ],
)
def test_bad_parameters(arguments: dict[str, Any], message: str) -> None:
    """Parameters are refused before anything is read."""
    given = {"epsilon": 1, "universe": read_universe("ipv4"), "keep": 5} | arguments
    with pytest.raises(InvalidParameter, match=message):
        SparseHistogram(**given)  # type: ignore[arg-type]


def test_strict_time_is_for_small_releases() -> None:
    """More than 300 keys are refused."""
    with pytest.raises(InvalidParameter, match="capacity must be at most 300 in strict time, got 301"):
        StrictSparseHistogram(1, universe=read_universe("ipv4"), keep=301, bound=5)


def test_frequencies_the_mechanism_does_not_protect() -> None:
    """More keys per unit than stated, and several key columns, are refused."""
    mechanism = SparseHistogram("1", universe=read_universe("uint64"), keep=5)
    with pytest.raises(
        InvalidParameter, match="protects units with at most 1 keys, but contributions were bounded at 2"
    ):
        mechanism.draw(Keys({1: 1}, max_keys_per_unit=2), SeededBits(1))
    with pytest.raises(InvalidParameter, match="there are 2 key columns"):
        mechanism.draw(Keys({1: 1}, key=("a", "b")), SeededBits(1))


@pytest.mark.parametrize("beta", [0, 1, -1])
def test_bad_beta(beta: int) -> None:
    """A probability of failure is above 0 and below 1."""
    with pytest.raises(InvalidParameter, match="beta must be above 0 and below 1, got"):
        SparseHistogram("1", universe=read_universe("uint64"), keep=5).law.significant_value(beta)


def test_the_judges_refuse_noise_that_is_too_small() -> None:
    """Noise made for one epsilon does not pass for a smaller one."""
    with pytest.raises(PrivacyViolation, match="more than a factor e\\^epsilon per step"):
        ClampedGeometric("1").certify(Fraction(99, 100))
    for mixing in (None, 20):
        law = TopKNoise("1", size=1 << 32, keep=2, bound=5, mixing=mixing)
        law.epsilon = Fraction(99, 100)
        with pytest.raises(PrivacyViolation, match="the table exceeds its epsilon"):
            law.certify()


def test_the_judge_refuses_a_draw_that_is_too_far_from_its_law() -> None:
    """In strict time a few bits less than needed are noticed."""
    law = TopKNoise("1", size=1 << 32, keep=2, bound=5, mixing=20)
    law.__dict__["label_bits"] = law.label_bits - 8
    with pytest.raises(PrivacyViolation, match="not close enough to its law"):
        law.certify()


def test_repr_shows_parameters_only() -> None:
    """Nothing of the data is kept."""
    mechanism = SparseHistogram("1/2", universe=read_universe("ipv4"), keep=5)
    assert repr(mechanism.spec) == "<Spec of 'sparse': epsilon=0.5, delta=0>"
    assert repr(ClampedGeometric("1", bound=3)) == "ClampedGeometric(epsilon=1, bound=3)"
