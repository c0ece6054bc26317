"""Sketches take every kind of input, keep their bounds, merge, and survive on disk."""

from __future__ import annotations

import gzip
import hashlib
import itertools
import json
import pickle
import signal
import stat
import struct
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dptally.errors import InvalidParameter, InvalidSource
from dptally.randomness import SeededBits, SystemBits
from dptally.sketches import MisraGriesSketch, UserMisraGriesSketch, load_sketch, sum_sketches
from dptally.sources import open_rows
from dptally.summaries import counter_sketch
from dptally.summaries.sketch_keys import ARROW_TYPES
from tests.exact import reference_sketches as reference
from tests.statistical.checks import FALSE_ALARM, chi_square_pvalue

WORDS = ["pear", "fig", "", "a much longer key than that", "fig", "zoë", "fig", "pear"]
NUMBERS = [3, -1, 3, 0, 7, 3]
NATURALS = [3, 2**64 - 1, 3, 0]


def counts_of(sketch: Any) -> dict[Any, int]:
    """What a sketch holds."""
    keys, counts = sketch.counters()
    return dict(zip(keys.to_pylist(), counts.tolist(), strict=True))


@pytest.mark.parametrize(
    "batch",
    [
        WORDS,
        tuple(WORDS),
        iter(WORDS),
        np.array(WORDS),
        np.array(WORDS, dtype=object),
        pa.array(WORDS),
        pa.array(WORDS, pa.large_string()),
        pa.array(WORDS, pa.string_view()),
        pa.array(WORDS).dictionary_encode(),
        pa.chunked_array([WORDS[:3], WORDS[3:]]),
        pa.array(["x", *WORDS, "y"]).slice(1, len(WORDS)),
        pa.array(["x", *WORDS, "y"], pa.string_view()).slice(1, len(WORDS)),
        pa.array([*WORDS, None, None]),
        pa.array([None, *WORDS], pa.string_view()),
        [*WORDS, None],
        pl.Series(WORDS),
        pl.Series(WORDS, dtype=pl.Categorical),
        pl.Series([None, *WORDS]),
    ],
    ids=lambda batch: f"{type(batch).__module__.split('.')[0]}-{getattr(batch, 'type', '')}"[:30],
)
def test_text_comes_in_every_form(batch: Any) -> None:
    """The same words give the same sketch, whatever holds them; nulls are left out."""
    sketch = MisraGriesSketch(10)
    sketch.update(batch)
    assert sketch.kind == "string"
    assert counts_of(sketch) == Counter(WORDS)
    assert sketch.total == len(WORDS)


@pytest.mark.parametrize(
    "batch",
    [
        np.array(NUMBERS),
        np.array(NUMBERS, dtype=">i8"),
        np.array(NUMBERS, dtype=np.int8),
        np.array([0, *NUMBERS, 0], dtype=np.int32)[1:-1],
        np.array([0, *NUMBERS], dtype=np.int64)[1:],
        np.repeat(np.array(NUMBERS), 2)[::2],
        pa.array(NUMBERS, pa.int16()),
        pa.array([None, *NUMBERS]),
        pl.Series(NUMBERS),
    ],
    ids=str,
)
def test_integers_come_in_every_form(batch: Any) -> None:
    """The same integers give the same sketch, whatever their width."""
    sketch = MisraGriesSketch(10)
    sketch.update(batch)
    assert sketch.kind == "integer"
    assert counts_of(sketch) == Counter(NUMBERS)


@pytest.mark.parametrize("batch", [np.array(NATURALS, np.uint64), pa.array(NATURALS, pa.uint64())], ids=str)
def test_integers_without_a_sign_have_all_their_bits(batch: Any, tmp_path: Path) -> None:
    """Numbers from 2^63 on are keys, in order, also in files, merged, added up and looked for."""
    sketch = MisraGriesSketch(10)
    sketch.update(batch)
    assert sketch.kind == "unsigned"
    assert counts_of(sketch) == Counter(NATURALS)
    assert sketch.counters()[0].to_pylist() == [0, 3, 2**64 - 1]
    assert [sketch.estimate(key)[0] for key in (2**64 - 1, 3, 5)] == [1, 2, 0]
    with pytest.raises(InvalidParameter, match="kind unsigned lie between 0 and 2\\^64 - 1"):
        sketch.estimate(-1)
    sketch.save(tmp_path / "a.sketch")
    other = MisraGriesSketch(10, kind="unsigned")
    other.update([*NATURALS, -1, 2**64])
    assert counts_of(MisraGriesSketch.load(tmp_path / "a.sketch").merge(other)) == {0: 2, 3: 4, 2**64 - 1: 2}
    sum_sketches([sketch, other]).save(tmp_path / "sum.sketch")
    assert load_sketch(tmp_path / "sum.sketch").items()["key"].to_pylist() == [0, 3, 2**64 - 1]


@pytest.mark.parametrize(
    "batch",
    [
        np.array([b"a", b"b", b"a"]),
        pa.array([b"a", b"b", b"a"], pa.binary(1)),
    ],
)
def test_bytes_of_one_size(batch: Any) -> None:
    """NumPy and Arrow know bytes that are all of one size."""
    sketch = MisraGriesSketch(10)
    sketch.update(batch)
    assert sketch.kind == "bytes"
    assert counts_of(sketch) == {b"a": 2, b"b": 1}


@pytest.mark.parametrize(
    "batch",
    [
        pa.array([b"a", b"\0", b"", b"a"]),
        pa.array([b"a", b"\0", b"", b"a"], pa.binary_view()),
        pl.Series([b"a", b"\0", b"", b"a"]),
    ],
)
def test_bytes_come_in_every_form(batch: Any) -> None:
    """Bytes are keys too, a zero byte and none at all among them."""
    sketch = MisraGriesSketch(10)
    sketch.update(batch)
    assert sketch.kind == "bytes"
    assert counts_of(sketch) == {b"a": 2, b"\0": 1, b"": 1}


def test_extreme_keys_are_no_dummies() -> None:
    """The smallest integer, the empty text and very long keys have counters of their own."""
    numbers = MisraGriesSketch(3, kind="integer")
    numbers.update([-(2**63), 2**63 - 1, -(2**63)])
    assert counts_of(numbers) == {-(2**63): 2, 2**63 - 1: 1}
    texts = MisraGriesSketch(2)
    long_keys = ["x" * 65534, "x" * 65535, "x" * 65536, "x" * 70000]
    texts.update(["", "", *long_keys, *long_keys[3:]])
    assert {len(key): count for key, count in counts_of(texts).items()} == {65536: 0, 70000: 1}
    assert texts.estimate(long_keys[-1]) == (1, 1, 3)
    again = MisraGriesSketch.from_bytes(texts.to_bytes())
    assert counts_of(again) == counts_of(texts)


def test_blocks_are_given_back_when_lengths_change() -> None:
    """Memory stays near that of the keys held, also when keys of each length come after those of another."""
    sketch = MisraGriesSketch(500)
    for length in range(20, 250, 10):
        sketch.update([f"{number:0{length}d}" for number in range(2000)])
        sketch.update([f"{number:0{length}d}" for number in range(2000, 4000)])
    assert sketch.memory_bytes < 500 * 80 + 2 * 500 * 250 + 2 * 65536
    assert len(sketch) == 500


@settings(max_examples=60, deadline=None)
@given(st.lists(st.lists(st.text("abc", max_size=3), max_size=30), min_size=1, max_size=5), st.integers(1, 5))
def test_bounds_contain_the_truth(streams: list[list[str]], capacity: int) -> None:
    """Lower and upper bounds hold for every key, in single and in merged sketches, and the shortfall is as proved."""
    sketches = []
    for stream in streams:
        sketch = MisraGriesSketch(capacity, kind="string", bits=SeededBits(0))
        sketch.update(stream)
        sketches.append(sketch)
        lost = sketch.total - int(sketch.counters()[1].sum())
        assert lost == (capacity + 1) * sketch.shortfall
    merged = sketches[0].merge(*sketches[1:])
    truth = Counter(key for stream in streams for key in stream)
    assert merged.total == truth.total()
    assert merged.shortfall <= (merged.total - int(merged.counters()[1].sum())) // (capacity + 1)
    for key in {*truth, "never seen"}:
        estimate, lower, upper = merged.estimate(key)
        assert estimate == lower <= truth[key] <= upper
    expected = reference.merge(capacity, [{k: n for k, n in counts_of(sketch).items() if n} for sketch in sketches])
    assert counts_of(merged) == expected


@settings(max_examples=60, deadline=None)
@given(st.lists(st.lists(st.integers(0, 9), max_size=12), max_size=20), st.integers(1, 4))
def test_user_bounds_contain_the_truth(users: list[list[int]], capacity: int) -> None:
    """The sketch of users is the printed one, and its bounds hold for the number of users of every key."""
    sketch = UserMisraGriesSketch(capacity, kind="integer", bits=SeededBits(0))
    sketch.update(users)
    truth = Counter(key for user in users for key in set(user))
    assert counts_of(sketch) == reference.user_misra_gries(capacity, users)
    assert sketch.total == truth.total()
    assert sketch.shortfall <= (sketch.total - sum(counts_of(sketch).values())) // (capacity + 1)
    for key in range(10):
        _, lower, upper = sketch.estimate(key)
        assert lower <= truth[key] <= upper


def test_items_are_the_positive_counters_with_bounds() -> None:
    """Keys come in order, with estimate and bounds; counters at zero are left out."""
    sketch = MisraGriesSketch(2)
    sketch.update(["b", "b", "a", "c"])
    assert counts_of(sketch) == {"a": 0, "b": 1}
    assert sketch.items().to_pydict() == {"key": ["b"], "estimate": [1], "lower": [1], "upper": [2]}
    assert len(sketch) == 2
    assert MisraGriesSketch(2).items().num_rows == 0


def test_nothing_private_shows() -> None:
    """The representation gives what the caller gave."""
    sketch = MisraGriesSketch(2)
    sketch.update(["secret"])
    assert repr(sketch) == "MisraGriesSketch(capacity=2, kind='string')"
    users = UserMisraGriesSketch(2, max_keys_per_unit=3)
    assert repr(users) == "UserMisraGriesSketch(capacity=2, max_keys_per_unit=3, kind=None)"


def test_the_seed_has_no_influence() -> None:
    """Sketches with different secret seeds hold the same counters, zero counters included."""
    stream = np.random.default_rng(1).zipf(1.2, 20000).astype(np.int64)
    found = []
    for bits in (SeededBits(1), SeededBits(2), SystemBits()):
        sketch = MisraGriesSketch(50, bits=bits)
        sketch.update(stream)
        found.append(counts_of(sketch))
    assert found[0] == found[1] == found[2]


# Users.


@pytest.mark.parametrize("form", ["arrow", "batch", "polars", "dictionary", "lists"])
def test_users_come_in_every_form(form: str) -> None:
    """Users next to each other are one; repeated keys count once; rows with a null are left out."""
    users, keys = ["u", "u", "v", "v", "v", None, "w", "w"], ["a", "b", "a", "a", None, "a", "b", "b"]
    table = pa.table({"unit": users, "key": keys})
    rows: Any = table
    if form == "batch":
        rows = table.combine_chunks().to_batches()[0]
    elif form == "polars":
        rows = pl.DataFrame({"unit": users, "key": keys})
    elif form == "dictionary":
        rows = pa.table({"unit": table["unit"].dictionary_encode(), "key": table["key"].dictionary_encode()})
    elif form == "lists":
        rows = [["a", "b"], ["a", "a", None], (), {"b"}]
    sketch = UserMisraGriesSketch(5)
    sketch.update(rows)
    assert counts_of(sketch) == {"a": 2, "b": 2}
    assert sketch.total == 4


def test_a_user_with_too_many_keys_keeps_a_uniform_choice() -> None:
    """Each of the six pairs of four keys is kept equally often, repetitions or not.

    6000 users, chi-square with 5 degrees of freedom, false alarm below 1e-6; keeping the first two is rejected.
    """
    found: Counter[tuple[str, ...]] = Counter()
    bits = SeededBits(11)
    for _ in range(6000):
        sketch = UserMisraGriesSketch(9, max_keys_per_unit=2, bits=bits)
        sketch.update([["a", "b", "a", "a", "c", "d", "a"]])
        found[tuple(sorted(counts_of(sketch)))] += 1
    law = dict.fromkeys(itertools.combinations("abcd", 2), 1 / 6)
    assert chi_square_pvalue(found, law, 6000) > FALSE_ALARM
    assert chi_square_pvalue({("a", "b"): 6000}, law, 6000) < FALSE_ALARM


def test_a_bound_that_is_kept_needs_no_random_words() -> None:
    """Choices with seeded bits are remembered, also in files and merges; without a choice there are none."""
    sketch = UserMisraGriesSketch(9, max_keys_per_unit=2, bits=SeededBits(1))
    sketch.update([["a", "b"], ["c"]])
    assert sketch.private
    sketch.update([["a", "b", "c"]])
    assert not sketch.private
    assert sketch.total == 5
    assert not UserMisraGriesSketch.from_bytes(sketch.to_bytes()).private
    assert not UserMisraGriesSketch(9).merge(sketch).private


def test_user_sketches_merge_with_the_looser_bound() -> None:
    """The merged sketch tells the most keys any of its users counted for."""
    one, two = UserMisraGriesSketch(2, max_keys_per_unit=1), UserMisraGriesSketch(2, max_keys_per_unit=3)
    one.update([["a"], ["a"]])
    two.update([["b", "c"], ["a"]])
    merged = one.merge(two)
    assert merged.max_keys_per_unit == 3
    assert counts_of(merged) == reference.merge(2, [counts_of(one), counts_of(two)])
    assert one.merge(UserMisraGriesSketch(2)).max_keys_per_unit is None


# Merging.


def test_merging_leaves_the_sketches_alone() -> None:
    """The result is new and marked; it takes no more keys, and merges again."""
    one, two = MisraGriesSketch(2), MisraGriesSketch(2)
    one.update(["a", "a", "b", "c"])
    two.update(["c", "c", "d"])
    before = one.to_bytes(), two.to_bytes()
    merged = one.merge(two)
    assert (one.to_bytes(), two.to_bytes()) == before
    assert merged.merged and not one.merged
    assert counts_of(merged) == reference.merge(2, [{"a": 1}, {"c": 2, "d": 1}])
    three = MisraGriesSketch(2)
    three.update(["a"])
    assert counts_of(merged.merge(three)) == reference.merge(2, [{"a": 1}, {"c": 2, "d": 1}, {"a": 1}])
    with pytest.raises(InvalidParameter, match="was merged takes no more keys"):
        merged.update(["a"])
    with pytest.raises(InvalidParameter, match="merged sketch cannot be reduced"):
        merged.reduced()


def test_many_sketches_merge_at_once() -> None:
    """Two hundred sketches merge as the printed algorithm does it, one after another."""
    rng = np.random.default_rng(2)
    sketches = []
    for _ in range(200):
        sketch = MisraGriesSketch(20)
        sketch.update([f"key {number}" for number in rng.zipf(1.5, 300)])
        sketches.append(sketch)
    merged = sketches[0].merge(*sketches[1:])
    positive = [{key: count for key, count in counts_of(sketch).items() if count} for sketch in sketches]
    assert counts_of(merged) == reference.merge(20, positive)


def test_an_untouched_sketch_merges_with_any_kind() -> None:
    """A sketch that was given no batch, and no kind, takes that of the other."""
    sketch = MisraGriesSketch(2, kind="integer")
    sketch.update([5])
    assert counts_of(MisraGriesSketch(2).merge(sketch)) == {5: 1}
    assert MisraGriesSketch(2).merge().kind is None


def test_sketches_that_do_not_fit_are_refused() -> None:
    """Capacity, class and kind must agree."""
    sketch = MisraGriesSketch(2, kind="string")
    with pytest.raises(InvalidParameter, match="one capacity to be merged, got 2 and 3"):
        sketch.merge(MisraGriesSketch(3))
    with pytest.raises(InvalidParameter, match="merges with its like, not with UserMisraGriesSketch"):
        sketch.merge(UserMisraGriesSketch(2))  # type: ignore[arg-type]
    with pytest.raises(InvalidParameter, match="keys of one kind"):
        sketch.merge(MisraGriesSketch(2, kind="integer"))


# Counters of other tools.


def test_counters_of_other_tools_come_in() -> None:
    """A mapping or a table becomes a sketch that is marked, bounded, mergeable and closed."""
    table = pa.table({"key": pa.array(["b", "a"]).dictionary_encode(), "count": [3, 1]})
    for counters in ({"b": 3, "a": 1}, table):
        sketch = MisraGriesSketch.from_counters(counters, 3, 13)
        assert sketch.standard
        assert counts_of(sketch) == {"a": 1, "b": 3}
        assert sketch.estimate("z") == (0, 0, 2)
        assert counts_of(MisraGriesSketch.from_bytes(sketch.to_bytes())) == {"a": 1, "b": 3}
        assert counts_of(sketch.merge(MisraGriesSketch.from_counters(counters, 3, 13))) == {"a": 2, "b": 6}
        with pytest.raises(InvalidParameter, match="was imported takes no more keys"):
            sketch.update(["a"])
    assert counts_of(MisraGriesSketch.from_counters({}, 3, 0)) == {}
    assert MisraGriesSketch.from_counters({}, 3, 8).estimate("a") == (0, 0, 2)
    assert counts_of(MisraGriesSketch.from_counters({7: 1}, 3, 1, kind="integer")) == {7: 1}


@pytest.mark.parametrize(
    ("counters", "total", "message"),
    [
        ({"a": 1, "b": 1, "c": 1}, 9, "more counters than the capacity"),
        ({"a": 0}, 9, "must be positive integers"),
        ({"a": 1.5}, 9, "must be positive integers"),
        ({"a": True}, 9, "must be positive integers"),
        ({"a": 2**63}, 9, "must be positive integers"),
        ({"a": "x"}, 9, "must be positive integers"),
        ({"a": 5}, 4, "add up to more than total"),
        ({None: 5}, 9, "a key is missing"),
        (pa.table({"key": ["a", "a"], "count": [1, 1]}), 9, "a key comes twice"),
        (pa.table({"k": ["a"]}), 9, "needs the columns key and count"),
        ([("a", 1)], 9, "a mapping or an Arrow table, got list"),
        ({"a": 1}, -1, "total must be an integer between 0 and 2\\^47"),
    ],
)
def test_counters_that_cannot_be_are_refused(counters: Any, total: int, message: str) -> None:
    """What no sketch of that capacity can hold is an error."""
    with pytest.raises((InvalidParameter, InvalidSource), match=message):
        MisraGriesSketch.from_counters(counters, 2, total)


# Bad input.


@pytest.mark.parametrize("capacity", [0, -1, 1.5, True, 2**30 + 1])
def test_a_capacity_out_of_range_is_refused(capacity: Any) -> None:
    """The capacity is a positive integer that fits."""
    with pytest.raises(InvalidParameter, match="capacity must be an integer between 1 and 2\\^30"):
        MisraGriesSketch(capacity)


@pytest.mark.parametrize(
    ("batch", "message"),
    [
        ("text", "a list, an array or a series of keys, got str"),
        (5, "a list, an array or a series of keys, got int"),
        (np.array([1.5]), "text, bytes or integers, not float64"),
        (np.array([[1]]), "one dimension, got 2"),
        (pa.array([1.5]), "text, bytes or integers, not double"),
        (pa.array([[1]]), "text, bytes or integers, not list"),
        (pl.Series([1.5]), "text, bytes or integers, not double"),
    ],
    ids=str,
)
def test_what_cannot_be_keys_is_refused(batch: Any, message: str) -> None:
    """A type that is none of keys is an error, with and without rows, that shows none of it."""
    with pytest.raises((InvalidParameter, InvalidSource), match=message):
        MisraGriesSketch(3).update(batch)


def test_keys_of_another_kind_are_refused() -> None:
    """The first batch, or the caller, fixes the kind."""
    sketch = MisraGriesSketch(3, kind="bytes")
    with pytest.raises(InvalidSource, match="of kind bytes, and these are of kind string"):
        sketch.update(pa.array(["a"]))
    with pytest.raises(InvalidParameter, match="of kind bytes, got str"):
        sketch.estimate("a")
    with pytest.raises(InvalidParameter, match="kind must be 'string', 'bytes', 'integer' or 'unsigned'"):
        MisraGriesSketch(3, kind="float")  # type: ignore[arg-type]
    sketch.update([None])
    assert sketch.total == 0


def test_text_that_is_no_text_is_left_out(tmp_path: Path) -> None:
    """Bytes that Arrow was told are text have a counter, and are never shown; no error tells that they were there."""
    damaged = pa.Array.from_buffers(pa.string(), 3, pa.array([b"\xff\xfe", b"a", b"a"]).buffers())
    sketch = MisraGriesSketch(3)
    sketch.update(damaged)
    sketch.save(tmp_path / "a.sketch")
    for found in (sketch, load_sketch(tmp_path / "a.sketch")):
        assert counts_of(found) == {"a": 2}
        assert (len(found), found.total) == (2, 3)
        assert found.items()["key"].to_pylist() == ["a"]
        assert sum_sketches([found]).items()["key"].to_pylist() == ["a"]
        assert len(found.publish(1, "1e-6")) == 0
    other = MisraGriesSketch(3)
    other.update(["b"])
    assert counts_of(sketch.merge(other)) == {"a": 2, "b": 1}
    # What is subtracted when sensitivity is reduced is a share of all counters, also of those that are not shown.
    assert sketch.reduced()[1].tolist() == [2 * 4 - 3]


def test_offsets_outside_the_data_are_refused() -> None:
    """A damaged Arrow array is an error, not a crash."""
    offsets = pa.py_buffer(np.array([0, 99, 6], dtype=np.int32).tobytes())
    damaged = pa.Array.from_buffers(pa.string(), 2, [None, offsets, pa.py_buffer(b"abcdef")])
    with pytest.raises(InvalidSource, match="points outside of its buffers"):
        MisraGriesSketch(3).update(damaged)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (pa.table({"a": [1]}), "two columns, the user and the key, got 1"),
        (pa.table({"u": [1.5], "k": ["a"]}), "users must be text, bytes, integers, dates or times"),
        (["abc"], "each user must be a list of keys"),
        ("abc", "a table of users and keys, or lists of keys, got str"),
        (7, "a table of users and keys, or lists of keys, got int"),
    ],
)
def test_what_cannot_be_users_is_refused(rows: Any, message: str) -> None:
    """Users are a table of two columns, or lists."""
    with pytest.raises((InvalidParameter, InvalidSource), match=message):
        UserMisraGriesSketch(3).update(rows)


def test_a_bound_out_of_range_is_refused() -> None:
    """A user counts for at least one key."""
    with pytest.raises(InvalidParameter, match="max_keys_per_unit must be an integer of at least 1, got 0"):
        UserMisraGriesSketch(3, max_keys_per_unit=0)


# Files of sketches.


@pytest.mark.parametrize("kind", ["string", "bytes", "integer", "unsigned"])
@pytest.mark.parametrize("rows", [0, 1500])
def test_a_saved_sketch_goes_on_as_if_nothing_had_happened(kind: Any, rows: int, tmp_path: Path) -> None:
    """Reading gives the same sketch, and both come to the same end; the file is its owner's alone."""
    stream: Any = np.random.default_rng(3).zipf(1.2, 3000)
    if kind in ("string", "bytes"):
        stream = [f"{number}" if kind == "string" else b"%d" % number for number in stream]
    stream = pa.array(stream, ARROW_TYPES[kind])
    sketch = MisraGriesSketch(30)
    sketch.update(stream[:rows])
    file = tmp_path / "a.sketch"
    sketch.save(file)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    again = MisraGriesSketch.load(file)
    assert again.to_bytes() == sketch.to_bytes() == pickle.loads(pickle.dumps(sketch)).to_bytes()  # noqa: S301
    assert again.kind == kind
    for one in (sketch, again):
        one.update(stream[rows:])
    assert again.to_bytes() == sketch.to_bytes()
    with pytest.raises(InvalidParameter, match="exists; use overwrite"):
        sketch.save(file)
    sketch.save(file, overwrite=True)
    assert MisraGriesSketch.load(file).total == sketch.total
    assert [path.name for path in tmp_path.iterdir()] == ["a.sketch"]


def signed(body: bytes) -> bytes:
    """A file with a checksum that fits."""
    return body + hashlib.sha256(body).digest()


def test_a_damaged_file_is_refused(tmp_path: Path) -> None:
    """Any changed byte, any missing byte, and anything that no sketch can hold is an error."""
    sketch = MisraGriesSketch(3)
    sketch.update(["a", "b", "c", "d", "e"])
    whole = sketch.to_bytes()
    for place in range(len(whole)):
        with pytest.raises(InvalidSource, match=r"damaged or incomplete|not a dptally sketch|format version"):
            MisraGriesSketch.from_bytes(whole[:place])
        broken = bytearray(whole)
        broken[place] ^= 1
        with pytest.raises(InvalidSource, match=r"damaged or incomplete|not a dptally sketch|format version"):
            MisraGriesSketch.from_bytes(bytes(broken))
    header = struct.Struct("<16sHBBIQQQQQQ")
    fields = list(header.unpack_from(whole))
    body = whole[header.size : -32]
    for place, value in [(2, 9), (3, 7), (4, 8), (5, 2), (6, 99), (7, 5), (8, 0), (9, 2), (10, 1)]:
        changed = fields.copy()
        changed[place] = value
        with pytest.raises(InvalidSource, match="the sketch is damaged or incomplete"):
            MisraGriesSketch.from_bytes(signed(header.pack(*changed) + body))
    assert MisraGriesSketch.from_bytes(signed(header.pack(*fields) + body)).total == 5
    file = tmp_path / "a.sketch"
    file.write_bytes(whole[:-1])
    with pytest.raises(InvalidSource, match=r"'.*a\.sketch' is damaged or incomplete"):
        MisraGriesSketch.load(file)
    with pytest.raises(InvalidSource, match="cannot be opened"):
        MisraGriesSketch.load(tmp_path / "missing")


def test_a_file_of_the_future_is_refused() -> None:
    """A newer version says so."""
    whole = bytearray(MisraGriesSketch(3).to_bytes())
    whole[16] = 5
    with pytest.raises(InvalidSource, match="format version 5, and this dptally reads versions up to 4; a newer"):
        MisraGriesSketch.from_bytes(signed(bytes(whole[:-32])))


def older(whole: bytes, version: int) -> bytes:
    """A file without columns' names as earlier versions wrote it: the first had no names, neither had streams."""
    header, names = struct.calcsize("<16sHBBIQQQQQQ"), struct.pack("<I", 12) + b"[null, null]"
    assert whole[header:].startswith(names)
    after = header + len(names)
    streams = 4 + 16 * struct.unpack_from("<I", whole, after)[0]
    old = bytearray(whole[:header] + (names if version == 2 else b"") + whole[after + streams : -32])
    old[16] = version
    return signed(bytes(old))


@pytest.mark.parametrize("version", [1, 2])
def test_a_file_of_an_earlier_version_is_read(version: int) -> None:
    """What it does not have is made up for: a file and its copy are one stream, and other files are others."""
    sketches = []
    for words in (["a", "b", "c", "d", "e"], ["a"]):
        sketch = MisraGriesSketch(3)
        sketch.update(words)
        old = older(sketch.to_bytes(), version)
        read, copy = MisraGriesSketch.from_bytes(old), MisraGriesSketch.from_bytes(old)
        assert counts_of(read) == counts_of(sketch)
        assert (read.total, read.kind, len(read.streams)) == (sketch.total, "string", 1)
        with pytest.raises(InvalidParameter, match="hold the same stream"):
            read.merge(copy)
        sketches.append(MisraGriesSketch.from_bytes(read.to_bytes()))
        with pytest.raises(InvalidParameter, match="hold the same stream"):
            sketches[-1].merge(copy)
    assert sketches[0].merge(sketches[1]).total == 6
    untouched = older(MisraGriesSketch(3).to_bytes(), version)
    assert MisraGriesSketch.from_bytes(untouched).merge(MisraGriesSketch.from_bytes(untouched)).total == 0


@pytest.mark.parametrize("streams", [b"", b"\2\0\0\0" + b"b" * 16 + b"a" * 16, b"\2\0\0\0" + b"a" * 32, b"\xff" * 4])
def test_streams_that_are_none_are_refused(streams: bytes) -> None:
    """Each stream is there once, in their order, and there is one if there are elements."""
    sketch = MisraGriesSketch(3)
    sketch.update(["a"])
    whole = sketch.to_bytes()
    after = struct.calcsize("<16sHBBIQQQQQQ") + 4 + 12
    for made in (streams, b"\0\0\0\0"):
        with pytest.raises(InvalidSource, match="the sketch is damaged or incomplete"):
            MisraGriesSketch.from_bytes(signed(whole[:after] + made + whole[after + 20 : -32]))


@pytest.mark.parametrize(
    "names", [b"", b"[", b"[null]", b'["a", 1]', b'["\\ud800", null]', b'{"a": 1, "b": 2}', b"\xff\xff", b"[" * 100_000]
)
def test_names_that_are_none_are_refused(names: bytes) -> None:
    """Names are two texts or nothing."""
    whole, header = MisraGriesSketch(3).to_bytes(), struct.calcsize("<16sHBBIQQQQQQ")
    with pytest.raises(InvalidSource, match="the sketch is damaged or incomplete"):
        MisraGriesSketch.from_bytes(signed(whole[:header] + struct.pack("<I", len(names)) + names))
    with pytest.raises(InvalidSource, match="the sketch is damaged or incomplete"):
        MisraGriesSketch.from_bytes(signed(whole[:header] + struct.pack("<I", 2**32 - 1) + names))


def test_a_sketch_remembers_the_names_of_its_columns(tmp_path: Path) -> None:
    """A release calls keys and units what the files called them, after merging and saving too; a caller may differ."""
    file, other = tmp_path / "a.csv", tmp_path / "b.csv"
    file.write_text("url,person,value\n" + "x,1,a\n" * 3 + "".join(f"x,{person},a\n" for person in range(9000)))
    other.write_text("page,visitor\nx,1\n")

    def of_users(path: Path, key: str, unit: str) -> UserMisraGriesSketch:
        sketch = UserMisraGriesSketch(4)
        sketch.update_file(path, key=key, unit=unit)
        return sketch

    users = of_users(file, "url", "person")
    again = of_users(file, "url", "person")
    saved = UserMisraGriesSketch.from_bytes(users.merge(again, UserMisraGriesSketch(4)).to_bytes())
    release = saved.publish(1, 1e-6)
    assert (release.key, release.guarantee.unit) == (("url",), "person")
    release = users.publish(1, 1e-6, name="page", unit="visitor")
    assert (release.key, release.guarantee.unit) == (("page",), "visitor")
    release = users.merge(of_users(other, "page", "visitor")).publish(1, 1e-6)
    assert (release.key, release.guarantee.unit) == (("key",), "unit")
    elements = [MisraGriesSketch(4), MisraGriesSketch(4)]
    for sketch in elements:
        sketch.update_file(file, key="url")
    path = tmp_path / "sum.sketch"
    sum_sketches(elements).save(path)
    assert load_sketch(path).publish(1, 1e-6).key == ("url",)
    reserved = MisraGriesSketch(4)
    reserved.update_file(file, key="value")
    assert reserved.publish(1, 1e-6).key == ("key",)


def test_a_sketch_of_the_other_class_is_refused() -> None:
    """Elements and users are not mixed up."""
    with pytest.raises(InvalidSource, match="holds a sketch of elements"):
        UserMisraGriesSketch.from_bytes(MisraGriesSketch(3).to_bytes())
    with pytest.raises(InvalidSource, match="holds a sketch of users"):
        MisraGriesSketch.from_bytes(UserMisraGriesSketch(3).to_bytes())
    users = UserMisraGriesSketch(3, max_keys_per_unit=4)
    users.update([["a"], ["b", "a"]])
    assert UserMisraGriesSketch.from_bytes(users.to_bytes()).max_keys_per_unit == 4


# Files of rows.


@pytest.mark.parametrize("ending", ["csv", "tsv", "jsonl", "parquet", "csv.gz"])
def test_files_are_read_in_order(ending: str, tmp_path: Path) -> None:
    """The sketch of files is that of their rows one after another, whatever the format: the lemmas need that order."""
    rng = np.random.default_rng(4)
    rows = [f"key {number}" for number in rng.integers(0, 20000, 300_000)]
    expected = MisraGriesSketch(100)
    expected.update(rows)
    for part, name in enumerate(("a", "b")):
        half = rows[part * 150_000 : (part + 1) * 150_000]
        file = tmp_path / f"{name}.{ending}"
        if ending == "parquet":
            pq.write_table(pa.table({"x": range(len(half)), "k": half}), file, row_group_size=5000)
        elif ending == "jsonl":
            file.write_text("".join(json.dumps({"k": row}) + "\n" for row in half))
        else:
            mark = "\t" if ending == "tsv" else ","
            text = f"x{mark}k\n" + "".join(f"1{mark}{row}\n" for row in half)
            file.write_bytes(gzip.compress(text.encode()) if ending.endswith("gz") else text.encode())
    sketch = MisraGriesSketch(100)
    stages: list[Any] = []
    sketch.update_file(tmp_path / f"*.{ending}", key="k", progress=lambda *stage: stages.append(stage))
    expected.names, expected.streams = sketch.names, sketch.streams
    assert sketch.to_bytes() == expected.to_bytes()
    assert stages


def test_users_of_a_file_are_gathered(tmp_path: Path) -> None:
    """Rows of a user may lie anywhere in the file, also when one user fills many batches."""
    rng = np.random.default_rng(5)
    users = np.where(rng.random(400_000) < 0.8, -1, rng.integers(0, 500, 400_000))
    keys = np.where(users == -1, rng.integers(0, 8, 400_000), rng.integers(0, 40, 400_000))
    pq.write_table(pa.table({"u": users, "k": keys}), tmp_path / "a.parquet")
    sketch = UserMisraGriesSketch(60)
    sketch.update_file(tmp_path / "a.parquet", key="k", unit="u", checkpoint=tmp_path / "c")
    truth = Counter(key for _, key in {*zip(users.tolist(), keys.tolist(), strict=True)})
    assert counts_of(sketch) == truth
    assert counts_of(UserMisraGriesSketch.load(tmp_path / "c")) == truth
    bounded = UserMisraGriesSketch(60, max_keys_per_unit=3)
    bounded.update_file(str(tmp_path / "a.parquet"), key="k", unit="u")
    assert bounded.total == sum(
        min(3, count)
        for count in Counter(user for user, _ in {*zip(users.tolist(), keys.tolist(), strict=True)}).values()
    )


def test_bad_requests_for_files_are_refused(tmp_path: Path) -> None:
    """What is asked is checked before anything is read."""
    file = tmp_path / "a.csv"
    file.write_text("k,f\na,1\n")
    pq.write_table(pa.table({"k": [1.5]}), tmp_path / "a.parquet")
    sketch = MisraGriesSketch(3)
    with pytest.raises(InvalidParameter, match="column 'z' is not named in"):
        sketch.update_file(file, key="z")
    with pytest.raises(InvalidParameter, match="key must be the name of one column"):
        sketch.update_file(file, key=["k"])  # type: ignore[arg-type]
    with pytest.raises(InvalidParameter, match="unit must be the name of one column"):
        UserMisraGriesSketch(3).update_file(file, key="k", unit=None)  # type: ignore[arg-type]
    with pytest.raises(InvalidParameter, match="path must be a path, a glob or a list of paths, got dict"):
        sketch.update_file({}, key="k")
    with pytest.raises(InvalidParameter, match="is not a directory"):
        sketch.update_file(file, key="k", checkpoint=tmp_path / "no" / "c")
    with pytest.raises(InvalidSource, match="text, bytes or integers, not double"):
        sketch.update_file(tmp_path / "a.parquet", key="k")
    assert sketch.total == 0


def test_checkpoints_are_written_on_the_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With no time between them there is one after each batch, and an interrupted sketch is whole."""
    monkeypatch.setattr(counter_sketch, "_CHECKPOINT_SECONDS", 0.0)
    pq.write_table(pa.table({"k": np.arange(1_000_000) % 1000}), tmp_path / "a.parquet", row_group_size=1 << 17)
    totals = []

    class StoppingSketch(MisraGriesSketch):
        def save(self, path: Any, *, overwrite: bool = False) -> None:
            super().save(path, overwrite=overwrite)
            totals.append(MisraGriesSketch.load(path).total)
            if len(totals) == 3:
                raise KeyboardInterrupt

    sketch = StoppingSketch(50)
    with pytest.raises(KeyboardInterrupt):
        sketch.update_file(tmp_path / "a.parquet", key="k", checkpoint=tmp_path / "c")
    assert len(totals) == 3
    assert 0 < totals[0] < totals[1] < totals[2] == sketch.total < 1_000_000
    assert MisraGriesSketch.load(tmp_path / "c").to_bytes() == sketch.to_bytes()


BUILD = """
import sys
from dptally.summaries import counter_sketch
from dptally.sketches import MisraGriesSketch
from dptally.sketches import load_sketch, sum_sketches
counter_sketch._CHECKPOINT_SECONDS = 0.0
while True:
    MisraGriesSketch(1000).update_file(sys.argv[1], key="k", checkpoint=sys.argv[2])
"""


def test_a_killed_process_leaves_the_last_checkpoint(tmp_path: Path) -> None:
    """Killed at any moment, a process leaves a checkpoint that can be read."""
    pq.write_table(pa.table({"k": [f"key {n % 5000}" for n in range(300_000)]}), tmp_path / "a.parquet")
    for _ in range(3):
        command = [sys.executable, "-c", BUILD, str(tmp_path / "a.parquet"), str(tmp_path / "c")]
        process = subprocess.Popen(command)
        try:
            for _ in range(400):
                if (tmp_path / "c").exists():
                    break
                time.sleep(0.05)
            time.sleep(0.07)
        finally:
            process.send_signal(signal.SIGKILL)
            process.wait()
        sketch = MisraGriesSketch.load(tmp_path / "c")
        assert sketch.kind == "string"
        assert 0 < sketch.total <= 300_000


def test_a_checkpoint_replaces_nothing_but_a_sketch(tmp_path: Path) -> None:
    """A file that is not a sketch is not overwritten by a checkpoint named like it."""
    data = tmp_path / "events.csv"
    data.write_text("key\na\nb\n")
    with pytest.raises(InvalidSource, match="is not a dptally sketch"):
        MisraGriesSketch(5).update_file(data, key="key", checkpoint=data)
    assert data.read_text() == "key\na\nb\n"
    for _ in range(2):
        MisraGriesSketch(5).update_file(data, key="key", checkpoint=tmp_path / "c.sketch")
    assert MisraGriesSketch.load(tmp_path / "c.sketch").total == 2


def _joined(rows: int) -> Iterator[tuple[str, Any]]:
    """Queries whose rows come in another order when there is one row more: a join reads the smaller side first."""
    common = 1000
    keys = ["x" if number < common else f"k{number}" for number in range(rows)]
    left = pl.DataFrame({"id": range(rows), "k": keys})
    right = pl.DataFrame({"id": range(2 * common - 1, -1, -1)})
    yield "LazyFrame", left.lazy().join(right.lazy(), on="id").select("k")
    connection = duckdb.connect(config={"threads": 1})
    connection.register("left_rows", left)
    connection.register("right_rows", right)
    connection.execute("CREATE TABLE a AS SELECT * FROM left_rows")
    connection.execute("CREATE TABLE b AS SELECT * FROM right_rows")
    yield "relation", connection.sql("SELECT a.k FROM a JOIN b USING (id)")


@pytest.mark.parametrize("place", [0, 1])
def test_rows_of_a_query_are_taken_in_the_order_of_their_keys(place: int) -> None:
    """Whatever order a query's rows come in, neighbours give sketches that Lemma 8 allows."""
    found = {}
    for rows in (1100, 1139, 1140, 1500, 1999, 2000):
        sketch = MisraGriesSketch(1)
        _, query = list(_joined(rows))[place]
        sketch.update_rows(open_rows(query, key="k", unit=None))
        keys, counts = sketch.counters()
        found[rows] = dict(zip(keys.to_pylist(), counts.tolist(), strict=True))
    for rows in (1139, 1999):
        first, second = found[rows].get("x", 0), found[rows + 1].get("x", 0)
        assert abs(first - second) <= 1


def test_users_whose_name_is_not_a_number_are_one_user(tmp_path: Path) -> None:
    """No NaN equals another one, and yet all rows with it belong to one unit."""
    file = tmp_path / "rows.parquet"
    pl.DataFrame({"u": [float("nan")] * 2000 + [1.0, -0.0, 0.0], "k": ["a"] * 2003}).write_parquet(file)
    sketch = UserMisraGriesSketch(10, 1)
    sketch.update_file(file, key="k", unit="u")
    assert sketch.estimate("a")[0] == 3


@pytest.mark.parametrize("text", [False, True])
def test_several_threads_may_use_one_sketch(text: bool) -> None:
    """Batches of several threads, and looks at the sketch, take turns."""
    rng = np.random.default_rng(3)
    batches = [np.minimum(rng.zipf(1.1, 5000), 1000) for _ in range(160)]
    arrays = [pa.array([f"a key that is long: {number}" for number in batch] if text else batch) for batch in batches]
    sketch = MisraGriesSketch(50)
    sketch.update(arrays[0])

    def look(_: int) -> None:
        keys, counts = sketch.counters()
        assert len(keys) == len(counts) == len(sketch) == 50
        assert sketch.estimate(keys[0].as_py())[0] >= 0

    with ThreadPoolExecutor(4) as pool:
        looks = pool.map(look, range(200))
        list(pool.map(sketch.update, arrays[1:]))
        list(looks)
    truth = Counter(itertools.chain.from_iterable(array.to_pylist() for array in arrays))
    assert sketch.total == 160 * 5000
    assert sketch.shortfall <= sketch.total // 51
    assert all(0 <= truth[key] - count <= sketch.shortfall for key, count in counts_of(sketch).items())
