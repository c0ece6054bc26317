"""The compiled sampler against its slow exact twin."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from dptally import _core
from dptally.laws.tables.certified_table import CertifiedTable
from dptally.laws.weighted_sample import WeightedSample
from dptally.randomness import SeededBits

WHOLE = 2**128
OF_ANOTHER = WeightedSample(1, "1e-6").certify()  # draws do not look at it


def slow_draw(thresholds: list[int], frequency: int, random: int) -> int:
    """The definition: D is the number of thresholds at most the random number; report w - D if positive."""
    return max(0, frequency - sum(threshold <= random for threshold in thresholds))


def fast_draw(thresholds: list[int], frequencies: list[int], randoms: list[int]) -> list[int]:
    """The compiled sampler on numbers given one by one."""
    table = np.frombuffer(b"".join(t.to_bytes(16, "little") for t in thresholds), dtype=np.uint8)
    words = np.frombuffer(b"".join(r.to_bytes(16, "little") for r in randoms), dtype=np.uint64)
    reported = np.empty(len(frequencies), dtype=np.int64)
    _core.ShiftTable(table).draw(np.array(frequencies, dtype=np.int64), words, reported)
    return reported.tolist()


def close_numbers() -> st.SearchStrategy[int]:
    """128-bit numbers that often share their high or low word, so that ties occur."""
    word = st.sampled_from([0, 1, 2, 2**63, 2**64 - 2, 2**64 - 1]) | st.integers(0, 2**64 - 1)
    return st.builds(lambda high, low: (high << 64) | low, word, word)


@given(
    st.lists(close_numbers(), max_size=40).map(sorted),
    st.lists(st.tuples(st.integers(0, 2**62), close_numbers()), max_size=40),
)
def test_fast_equals_slow(thresholds: list[int], draws: list[tuple[int, int]]) -> None:
    """For any table, any frequencies and any random numbers, ties included, both give the same."""
    frequencies, randoms = [w for w, _ in draws], [u for _, u in draws]
    expected = [slow_draw(thresholds, w, u) for w, u in draws]
    assert fast_draw(thresholds, frequencies, randoms) == expected


def test_law_draws_are_the_slow_twin_on_the_same_words() -> None:
    """A law's draw is the definition applied to the words of its source, over several batches."""
    law = WeightedSample("0.5", "1e-3")
    frequencies: NDArray[np.int64] = np.arange(40_000, dtype=np.int64) % 60
    drawn = law.draw(frequencies, SeededBits(4))
    bits = SeededBits(4)
    words = np.concatenate([bits.words(2 * len(part)) for part in np.split(frequencies, [2**14, 2**15])])
    low, high = words[0::2].tolist(), words[1::2].tolist()
    expected = [
        slow_value(list(law._thresholds), int(w), (head << 64) | tail)
        for w, head, tail in zip(frequencies.tolist(), high, low, strict=True)
    ]
    assert drawn.tolist() == expected


@given(
    st.lists(close_numbers(), max_size=40).map(sorted),
    st.lists(st.tuples(st.integers(0, 50) | st.integers(0, 2**62), close_numbers()), min_size=1, max_size=40),
)
def test_values_equal_their_definition(thresholds: list[int], draws: list[tuple[int, int]]) -> None:
    """For any table and any frequency up to 2^62, where doubling would overflow, values are those of the definition."""
    table = b"".join(t.to_bytes(16, "little") for t in thresholds)
    words = np.frombuffer(b"".join(u.to_bytes(16, "little") for _, u in draws), dtype=np.uint64)
    counts = np.array([w for w, _ in draws], dtype=np.int64)
    drawn = CertifiedTable(table, OF_ANOTHER).draw_values(counts, GivenBits(words))
    assert drawn.tolist() == [slow_value(thresholds, w, u) for w, u in draws]


class GivenBits:
    """Hands out words that were chosen before."""

    private = False

    def __init__(self, words: NDArray[np.uint64]) -> None:
        self._words = words

    def words(self, count: int) -> NDArray[np.uint64]:
        """All of them."""
        assert count == len(self._words)
        return self._words


def slow_value(thresholds: list[int], frequency: int, random: int) -> int:
    """The definition: if c < 2w thresholds are at most the random number, w + 1 - ceil(c / 2)."""
    passed = sum(threshold <= random for threshold in thresholds)
    return frequency + 1 - (passed + 1) // 2 if passed < 2 * frequency else 0


@pytest.mark.parametrize(
    ("table", "frequencies", "words", "reported", "message"),
    [(15, 1, 2, 1, "whole 128-bit"), (16, 1, 3, 1, "two random words"), (16, 1, 2, 2, "one place")],
)
def test_wrong_buffers_are_refused(table: int, frequencies: int, words: int, reported: int, message: str) -> None:
    """Buffers of the wrong size raise instead of being read past their end."""
    with pytest.raises(ValueError, match=message):
        _core.ShiftTable(np.zeros(table, dtype=np.uint8)).draw(
            np.zeros(frequencies, dtype=np.int64), np.zeros(words, dtype=np.uint64), np.zeros(reported, dtype=np.int64)
        )


@given(st.lists(st.lists(st.integers(0, 50), max_size=12), max_size=12), st.integers(1, 5))
def test_chosen_rows_have_the_smallest_tags(runs: list[list[int]], limit: int) -> None:
    """In each run exactly min(limit, size) rows are kept, and no dropped tag is smaller than a kept one."""
    starts = np.cumsum([0, *(len(run) for run in runs)], dtype=np.int64)
    tags = np.array([tag for run in runs for tag in run], dtype=np.uint64)
    keep = np.full(len(tags), 7, dtype=np.uint8)
    _core.choose_smallest_tags(starts, tags, limit, keep)
    for first, last in pairwise(starts):
        kept, dropped = tags[first:last][keep[first:last] == 1], tags[first:last][keep[first:last] == 0]
        assert len(kept) == min(limit, last - first) and len(kept) + len(dropped) == last - first
        assert not len(dropped) or kept.max() <= dropped.min()


@given(st.lists(st.lists(st.integers(0, 8), max_size=4), max_size=12), st.lists(st.integers(0, 2**40), min_size=5))
def test_sums_of_weights_are_those_of_a_loop(units: list[list[int]], weights: list[int]) -> None:
    """Each key of a unit adds the weight of the unit's size, on top of what is there."""
    expected = np.arange(9, dtype=np.int64)
    sums = expected.copy()
    for unit in units:
        for key in unit:
            expected[key] += weights[len(unit)]
    sizes = np.array([len(unit) for unit in units], dtype=np.int64)
    keys = np.array([key for unit in units for key in unit], dtype=np.int32)
    _core.add_weights(sizes, keys, np.array(weights, dtype=np.int64), sums)
    assert sums.tolist() == expected.tolist()


@pytest.mark.parametrize(
    ("sizes", "keys", "message"),
    [
        ([3], [0, 0, 0], "no weight"),
        ([-1, 2], [0], "no weight"),
        ([2, 1], [0, 0], "all keys"),
        ([1], [0, 0], "all keys"),
        ([1], [4], "no place"),
        ([1], [-1], "no place"),
    ],
)
def test_units_that_do_not_fit_their_keys_are_refused(sizes: list[int], keys: list[int], message: str) -> None:
    """Sizes without a weight, other sizes than keys, and keys without a place raise, and nothing is added."""
    sums, weights = np.zeros(4, dtype=np.int64), np.ones(3, dtype=np.int64)
    with pytest.raises(ValueError, match=message):
        _core.add_weights(np.array(sizes, dtype=np.int64), np.array(keys, dtype=np.int32), weights, sums)
    assert not sums.any()
