"""What one unit adds is bounded, by a uniform choice."""

from __future__ import annotations

import itertools
import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from dptally import contributions
from dptally._core import choose_smallest_tags
from dptally.contributions import HashCollision, bound_contributions
from dptally.errors import InvalidParameter
from dptally.randomness import SeededBits
from dptally.sources import open_rows
from dptally.summaries import count_keys
from tests.sources.counting import counts_of
from tests.statistical.checks import FALSE_ALARM, chi_square_pvalue

KEYS = st.one_of(
    st.lists(st.tuples(st.integers(0, 6), st.text("ab", max_size=2) | st.none())),
    st.lists(st.tuples(st.text("uv", max_size=2), st.integers(-3, 3) | st.none())),
    st.lists(st.tuples(st.sampled_from([0.0, -0.0, math.nan, 1.5]), st.sampled_from([0.0, -0.0, math.nan, 2.5, None]))),
)


def same(value: Any) -> Any:
    """One Python value for what is one key."""
    if isinstance(value, float):
        return "nan" if math.isnan(value) else value + 0.0
    return value


def table_of(rows: list[tuple[Any, Any]]) -> pa.Table:
    """Rows as a table."""
    return pa.table({"u": [row[0] for row in rows] or pa.nulls(0), "k": [row[1] for row in rows] or pa.nulls(0)})


@settings(max_examples=60, deadline=None)
@given(KEYS, st.sampled_from(["drop", "keep"]))
def test_exact_when_nobody_has_too_many(rows: list[tuple[Any, Any]], nulls: str) -> None:
    """If every unit has at most as many keys as it may, the counts are those of distinct (unit, key) pairs."""
    found = counts_of(table_of(rows), key="k", unit="u", nulls=nulls, max_keys_per_unit=10)
    expected = Counter(k for _, k in {(same(u), same(k)) for u, k in rows} if nulls == "keep" or k is not None)
    assert {same(key): count for key, count in found.items()} == expected


@settings(max_examples=60, deadline=None)
@given(KEYS, st.integers(1, 3), st.integers(0, 2**32))
def test_bounds_hold(rows: list[tuple[Any, Any]], limit: int, seed: int) -> None:
    """Each unit adds one to min(d, limit) of its d keys; so sums agree and no key has more units than have it."""
    found = counts_of(table_of(rows), key="k", unit="u", nulls="keep", max_keys_per_unit=limit, seed=seed)
    keys_of = defaultdict(set)
    for unit, key in rows:
        keys_of[same(unit)].add(same(key))
    assert sum(found.values()) == sum(min(limit, len(keys)) for keys in keys_of.values())
    most = Counter(key for keys in keys_of.values() for key in keys)
    assert all(count <= most[same(key)] for key, count in found.items())


def bounded(units: dict[str, list[str]], limit: int, size: int, bits: SeededBits) -> dict[str, list[str]]:
    """Bound sorted rows cut into batches of `size`; the kept keys of each unit, whose keys tell units apart."""
    rows = [(unit, key) for unit in sorted(units) for key in sorted(units[unit])]
    batches = [
        pa.record_batch({"u": [r[0] for r in rows[i : i + size]], "k": [r[1] for r in rows[i : i + size]]})
        for i in range(0, len(rows), size)
    ]
    kept: dict[str, list[str]] = defaultdict(list)
    for batch in bound_contributions(batches, max_keys_per_unit=limit, bits=bits):
        for key in batch.column(0).to_pylist():
            kept[key.split("/")[0]].append(key)
    return kept


@settings(max_examples=150, deadline=None)
@given(st.lists(st.integers(1, 9), max_size=6), st.integers(1, 4), st.integers(1, 8), st.integers(1, 3))
def test_batches_make_no_difference(sizes: list[int], limit: int, size: int, copies: int) -> None:
    """Wherever units and repeated rows are cut, every unit keeps min(d, limit) distinct keys of its own."""
    units = {f"u{i}": [f"u{i}/{k}" for k in range(d)] * copies for i, d in enumerate(sizes)}
    kept = bounded(units, limit, size, SeededBits(5))
    assert set(kept) == set(units)
    for unit, keys in kept.items():
        assert len(keys) == len(set(keys)) == min(limit, len(set(units[unit])))
        assert set(keys) <= set(units[unit])


def test_a_giant_unit_needs_little_memory() -> None:
    """Of a unit that spans many batches no more than the kept rows is carried along."""

    def batches() -> Iterator[pa.RecordBatch]:
        for part in range(50):
            yield pa.record_batch({"u": np.zeros(10_000, dtype=np.int64), "k": np.arange(10_000) + 10_000 * part})
            assert pa.total_allocated_bytes() < start + 4_000_000

    start = pa.total_allocated_bytes()
    [kept] = list(bound_contributions(batches(), max_keys_per_unit=5, bits=SeededBits(1)))
    assert kept.num_rows == 5


def choices(seed: int, size: int) -> tuple[Counter[object], int]:
    """How often each pair of keys is chosen by 30 000 units with 5 keys each."""
    units = {f"u{i:05}": [f"u{i:05}/{k}" for k in range(5)] for i in range(30_000)}
    kept = bounded(units, 2, size, SeededBits(seed))
    return Counter(tuple(sorted(key.split("/")[1] for key in keys)) for keys in kept.values()), len(units)


PAIRS: dict[object, float] = dict.fromkeys(itertools.combinations("01234", 2), 0.1)


@pytest.mark.parametrize("size", [3, 1 << 17])
def test_the_choice_is_uniform(size: int) -> None:
    """Chi-square of 30 000 choices of 2 out of 5 keys, units cut by batches or not; false alarms at most 1e-6."""
    if size == 3:
        units = {f"u{i:05}": [f"u{i:05}/{k}" for k in range(5)] for i in range(5_000)}
        kept = bounded(units, 2, size, SeededBits(7))
        observed: Counter[object] = Counter(tuple(sorted(key[-1] for key in keys)) for keys in kept.values())
        draws = len(units)
    else:
        observed, draws = choices(7, size)
    assert chi_square_pvalue(observed, PAIRS, draws) > FALSE_ALARM


def test_a_wrong_choice_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same test rejects a chooser that keeps the first keys, and one that prefers the first only slightly."""

    def keep_first(starts: NDArray[np.int64], tags: NDArray[np.uint64], limit: int, keep: NDArray[np.uint8]) -> None:
        keep[:] = 0
        for start in starts[:-1]:
            keep[start : start + limit] = 1

    right = choose_smallest_tags

    def prefer_first(starts: NDArray[np.int64], tags: NDArray[np.uint64], limit: int, keep: NDArray[np.uint8]) -> None:
        shifted = tags.copy()
        shifted[starts[:-1]] -= np.minimum(shifted[starts[:-1]], np.uint64(2**64 // 10))
        right(starts, shifted, limit, keep)

    for wrong in (keep_first, prefer_first):
        monkeypatch.setattr(contributions, "choose_smallest_tags", wrong)
        observed, draws = choices(7, 1 << 17)
        assert chi_square_pvalue(observed, PAIRS, draws) < FALSE_ALARM


def test_units_choose_independently_of_each_other() -> None:
    """With the same tags, what the other units choose does not depend on a unit that is added."""
    few = {f"u{i}": [f"u{i}/{k}" for k in range(6)] for i in range(20)}
    more = {**few, "v": [f"v/{k}" for k in range(9)]}  # sorted last, so that the others draw the same words
    assert bounded(few, 2, 7, SeededBits(3)).items() <= bounded(more, 2, 7, SeededBits(3)).items()


def test_many_rows_stay_in_order() -> None:
    """A sort that runs on all threads still hands over each unit in one piece."""
    rows = np.random.default_rng(1).integers(0, 1000, (600_000, 2))
    table = pa.table({"u": rows[:, 0], "k": rows[:, 1]})
    expected = Counter(key for _, key in set(map(tuple, rows.tolist())))
    assert counts_of(table, key="k", unit="u", max_keys_per_unit=1000) == expected
    assert sum(counts_of(table, key="k", unit="u", max_keys_per_unit=7).values()) == 7000


def collide(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Give all rows one hash, so that units and keys cannot be told apart by it."""
    for batch in batches:
        zeros = pa.array(np.zeros(batch.num_rows, dtype=np.uint64))
        yield pa.RecordBatch.from_arrays([*batch.columns[:-2], zeros, zeros], names=batch.schema.names)


def test_colliding_hashes_are_noticed_and_survived(monkeypatch: pytest.MonkeyPatch) -> None:
    """If two units or two keys of a unit have one hash, rows are sorted again by value, and the counts are right."""
    rows = pa.record_batch({"u": [1, 2], "k": ["a", "a"], "h": [5, 5], "g": [6, 6]})
    with pytest.raises(HashCollision):
        list(bound_contributions([rows], max_keys_per_unit=1, bits=SeededBits(1), hashed=True))
    rows = pa.record_batch({"u": [1, 1], "k": ["a", "b"], "h": [5, 5], "g": [6, 6]})
    with pytest.raises(HashCollision):
        list(bound_contributions([rows], max_keys_per_unit=1, bits=SeededBits(1), hashed=True))

    calls = []

    def colliding(batches: Iterable[pa.RecordBatch], *, hashed: bool = False, **rest: Any) -> Iterator[pa.RecordBatch]:
        calls.append(hashed)
        return bound_contributions(collide(batches) if hashed else batches, hashed=hashed, **rest)

    monkeypatch.setattr("dptally.summaries.frequencies.bound_contributions", colliding)
    table = pa.table({"u": [1, 2, 1, 2, 1], "k": ["a", "a", "b", "a", "a"]})
    assert counts_of(table, key="k", unit="u", max_keys_per_unit=2) == {"a": 2, "b": 1}
    assert calls == [True, False]


@pytest.mark.parametrize("bad", [0, -1, 1.5, True, "3", None])
def test_bad_bounds(bad: Any) -> None:
    """A bound that is no positive integer is refused."""
    with pytest.raises(InvalidParameter, match="max_keys_per_unit must be an integer of at least 1"):
        count_keys(open_rows(["a"], key=None, unit=None), max_keys_per_unit=bad, bits=SeededBits(1))


def test_frequencies_know_their_bound() -> None:
    """Rows that are their own units add to one key each; units add to as many as asked."""
    table = pa.table({"u": [1], "k": ["a"], "n": [1]})
    for request, expected in (({"unit": "u"}, 3), ({"unit": None}, 1), ({"unit": None, "count": "n"}, 3)):
        rows = open_rows(table, key="k", **request)
        with count_keys(rows, max_keys_per_unit=3, bits=SeededBits(1)) as frequencies:
            assert frequencies.max_keys_per_unit == expected
            assert frequencies.unit == request["unit"]
