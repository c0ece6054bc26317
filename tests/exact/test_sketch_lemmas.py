"""The statements that private releases of sketches rest on, by enumeration, for the native code that is used."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from dptally._core import IntegerSketch, TextSketch
from dptally.randomness import SeededBits
from dptally.sketches import MisraGriesSketch, UserMisraGriesSketch
from tests.exact import reference_sketches as reference
from tests.exact.reference_sketches import Sketch

SEED = SeededBits(7).words(4)
STRINGS = [b"", b"\0", b"a", b"a\0", b"a longer key than an entry holds"]  # in order
SIZES = [(4, 6, 1), (4, 6, 2), (4, 6, 3), (5, 6, 3)]  # keys, length of the stream, counters


def streams(keys: int, length: int) -> Iterator[tuple[int, ...]]:
    """All streams up to a length."""
    for exactly in range(length + 1):
        yield from itertools.product(range(keys), repeat=exactly)


def integer_state(stream: Sequence[int], capacity: int) -> Sketch:
    """The native sketch of a stream of integers, with its dummies."""
    native = IntegerSketch(capacity, SEED)
    native.update_integers(np.array(stream, dtype=np.int64))
    keys, counts = (np.frombuffer(part, dtype=np.int64).tolist() for part in native.export())
    return with_dummies(dict(zip(keys, counts, strict=True)), capacity)


def text_state(stream: Sequence[int], capacity: int) -> Sketch:
    """The native sketch of a stream of strings, written as the integers that are their numbers in order."""
    native = TextSketch(capacity, SEED)
    found = [STRINGS[number] for number in stream]
    offsets = np.cumsum([0, *map(len, found)]).astype(np.int32)
    native.update_strings(offsets, np.frombuffer(b"".join(found), dtype=np.uint8))
    places, data, packed = native.export()
    ends = np.frombuffer(places, dtype=np.int64).tolist()
    keys = [STRINGS.index(data[start:end]) for start, end in itertools.pairwise(ends)]
    return with_dummies(dict(zip(keys, np.frombuffer(packed, dtype=np.int64).tolist(), strict=True)), capacity)


def with_dummies(counts: dict[int, int], capacity: int) -> Sketch:
    """Slots without a key are the largest dummies: the smallest were taken first."""
    return {(0, place): 0 for place in range(len(counts), capacity)} | {(1, key): n for key, n in counts.items()}


def lemma_8(longer: Sketch, shorter: Sketch, capacity: int) -> bool:
    """Lemma 8, word by word, for the sketches of a stream and of the same with one element removed."""
    shared = longer.keys() & shorter.keys()
    if len(shared) < capacity - 2:
        return False
    if any(count > 1 for sketch in (longer, shorter) for key, count in sketch.items() if key not in shared):
        return False
    lowered = all(longer.get(key, 0) == count - 1 for key, count in shorter.items()) and all(
        count == 0 for key, count in longer.items() if key not in shorter
    )
    differences = [longer.get(key, 0) - shorter.get(key, 0) for key in longer.keys() | shorter.keys()]
    return lowered or sorted(differences) == [0] * (len(differences) - 1) + [1]


def neighbours(found: dict[tuple[Any, ...], Any]) -> Iterator[tuple[Any, Any]]:
    """Pairs of what was found for a stream and for the same with one element removed."""
    for stream, state in found.items():
        for place in range(len(stream)):
            yield state, found[stream[:place] + stream[place + 1 :]]


@pytest.mark.parametrize(("keys", "length", "capacity"), SIZES)
@pytest.mark.parametrize("state", [integer_state, text_state])
def test_native_sketch_is_algorithm_1_and_lemma_8_holds(
    state: Callable[[Sequence[int], int], Sketch], keys: int, length: int, capacity: int
) -> None:
    """For all small streams the native sketch is the printed one, zero counters too, and neighbours differ as said."""
    if state is text_state and length == 6 and keys == 5:
        length = 5
    found = {stream: state(stream, capacity) for stream in streams(keys, length)}
    for stream, counts in found.items():
        assert counts == reference.misra_gries(capacity, stream)[0]
    assert all(lemma_8(longer, shorter, capacity) for longer, shorter in neighbours(found))


@pytest.mark.parametrize("capacity", [15, 16, 17, 63, 64, 65, 130, 300])
def test_native_sketch_is_algorithm_1_with_more_counters_than_a_batch_has_rows(capacity: int) -> None:
    """Rows that are taken out of their order change nothing: not around the size of a batch, and not for any skew.

    Rare keys among frequent ones, so that counters at zero are raised again just before and just after their turn.
    """
    rng = np.random.default_rng(capacity)
    for spread in (1.2, 2, 6):
        often, seldom = rng.integers(0, capacity // 2, 4000), rng.integers(0, int(spread * capacity), 4000)
        stream = rng.permutation(int(spread * capacity))[np.where(rng.random(4000) < 0.4, often, seldom)].tolist()
        expected = {key[1]: n for key, n in reference.misra_gries(capacity, stream)[0].items() if key[0] == 1}
        for keys in (stream, [f"item-{key:08d}" for key in stream], [f"{key:08d} with a long tail" for key in stream]):
            sketch = MisraGriesSketch(capacity, kind="integer" if keys is stream else "string", bits=SeededBits(1))
            for start in range(0, len(keys), 1500):
                sketch.update(keys[start : start + 1500])
            found, counts = sketch.counters()
            numbers = [int(str(key).removeprefix("item-").split()[0]) for key in found.to_pylist()]
            assert dict(zip(numbers, counts.tolist(), strict=True)) == expected


# Streams on which wrong choices show, found by a search; with fewer counters or shorter streams they do not.
REVEALING = {
    reference.oldest: (1, 9, 3, 3, 8, 0, 0, 5, 9, 4, 6, 2),
    reference.newest: (4, 1, 8, 0, 5, 9, 7, 5, 4, 1, 0, 2, 2),
}


@pytest.mark.parametrize("choose", [reference.oldest, reference.newest])
def test_an_eviction_that_depends_on_the_stream_breaks_lemma_8(choose: Any) -> None:
    """A sketch that evicts the zero counter that came first, or last, breaks the lemma where the native one does not.

    The native sketch is tried on the same stream with its keys renamed at random, so in all orders.
    """
    capacity, stream = 4, REVEALING[choose]
    removed = [stream[:place] + stream[place + 1 :] for place in range(len(stream))]
    mutant = reference.misra_gries(capacity, stream, choose)[0]
    assert any(not lemma_8(mutant, reference.misra_gries(capacity, less, choose)[0], capacity) for less in removed)
    rng = np.random.default_rng(5)
    for _ in range(300):
        names = rng.permutation(10)
        longer = integer_state(names[list(stream)].tolist(), capacity)
        for less in removed:
            assert lemma_8(longer, integer_state(names[list(less)].tolist(), capacity), capacity)


@pytest.mark.parametrize("capacity", [3, 4, 5, 8])
def test_lemma_8_holds_for_random_streams_with_many_keys(capacity: int) -> None:
    """With enough keys for neighbours to share few, all neighbours of random streams differ as said, to the end."""
    rng = np.random.default_rng(capacity)
    for _ in range(150):
        stream = rng.integers(0, 2 * capacity + 2, 6 * capacity).tolist()
        longer = integer_state(stream, capacity)
        for place in range(len(stream)):
            assert lemma_8(longer, integer_state(stream[:place] + stream[place + 1 :], capacity), capacity)


@pytest.mark.parametrize("capacity", [1, 2, 3])
def test_reduced_counters_have_the_sensitivity_of_lemma_16(capacity: int) -> None:
    """Neighbours' reduced counters differ by at most 2k - 1 in all, times 1/(k + 1), and by that for some."""
    found = {}
    for stream in streams(4, 5):
        sketch = MisraGriesSketch(capacity, kind="integer", bits=SeededBits(1))
        sketch.update(np.array(stream, dtype=np.int64))
        keys, numbers = sketch.reduced()
        found[stream] = dict(zip(keys.to_pylist(), numbers.tolist(), strict=True))
        printed = reference.reduced(capacity, reference.misra_gries(capacity, stream)[0])
        assert found[stream] == {key: value * (capacity + 1) for (_, key), value in printed.items()}
    distances = [
        sum(abs(one.get(key, 0) - other.get(key, 0)) for key in one.keys() | other.keys())
        for one, other in neighbours(found)
    ]
    assert max(distances) == 2 * capacity - 1


def restored(counts: Sketch, capacity: int) -> IntegerSketch:
    """A native sketch with given counters."""
    native = IntegerSketch(capacity, SEED)
    keys, values = np.array([*counts], dtype=np.int64), np.array([*counts.values()], dtype=np.int64)
    native.restore(keys, values, sum(counts.values()), 0)
    return native


def positive(native: Any) -> Sketch:
    """Keys and counts of a native sketch of integers."""
    keys, counts = (np.frombuffer(part, dtype=np.int64).tolist() for part in native.export())
    return dict(zip(keys, counts, strict=True))


def one_above_the_other(one: Sketch, other: Sketch) -> bool:
    """One has every counter of the other, equal or higher by one (Lemmas 17 and 27, Corollaries 18 and 28)."""
    keys = one.keys() | other.keys()
    return any(
        low.keys() <= high.keys() and all(high.get(key, 0) - low.get(key, 0) in (0, 1) for key in keys)
        for high, low in ((one, other), (other, one))
    )


@pytest.mark.parametrize("capacity", [1, 2, 3])
def test_merging_keeps_neighbours_within_one(capacity: int) -> None:
    """Lemma 17 for all pairs of small sketches and a third one, and the native merge is the printed one."""
    small = [
        dict(zip(keys, counts, strict=True))
        for size in range(capacity + 1)
        for keys in itertools.combinations(range(4), size)
        for counts in itertools.product((1, 2), repeat=size)
    ]
    small = small if capacity < 3 else small[::3]
    found = {}
    for first, second in itertools.product(range(len(small)), repeat=2):
        native = restored({}, capacity)
        native.merge(restored(small[first], capacity))
        native.merge(restored(small[second], capacity))
        found[first, second] = positive(native)
        assert found[first, second] == reference.merge(capacity, [small[first], small[second]])
    pairs = [
        (high, low)
        for high, low in itertools.product(range(len(small)), repeat=2)
        if high != low
        and small[low].keys() <= small[high].keys()
        and all(count - small[low].get(key, 0) in (0, 1) for key, count in small[high].items())
    ]
    for (high, low), third in itertools.product(pairs, range(len(small))):
        assert one_above_the_other(found[high, third], found[low, third])


@pytest.mark.parametrize("capacity", [1, 2])
def test_merged_sketches_of_neighbours_differ_by_one_at_most(capacity: int) -> None:
    """Corollary 18: three streams, one of them with an element removed, merged in a fixed order by the public class."""

    def sketch_of(stream: tuple[int, ...]) -> MisraGriesSketch:
        made = MisraGriesSketch(capacity, kind="integer", bits=SeededBits(1))
        made.update(np.array(stream, dtype=np.int64))
        return made

    sketches = {stream: sketch_of(stream) for stream in streams(3, 4)}
    others: list[tuple[int, ...]] = [(), (0, 0, 1), (2, 1, 2, 2), (0, 1, 2, 0)]
    for second, third in itertools.product(map(sketch_of, others[1:]), map(sketch_of, others)):
        found = {}
        for stream, sketch in sketches.items():
            merged = second.merge(sketch, third)
            keys, counts = merged.counters()
            found[stream] = dict(zip(keys.to_pylist(), counts.tolist(), strict=True))
        assert all(one_above_the_other(one, other) for one, other in neighbours(found))


def user_state(users: Sequence[Sequence[int]], capacity: int) -> Sketch:
    """The native sketch of users."""
    native = IntegerSketch(capacity, SEED)
    starts = np.cumsum([0, *map(len, users)]).astype(np.int64)
    keys = np.array(list(itertools.chain.from_iterable(users)), dtype=np.int64)
    native.update_units_integers(keys, starts, np.empty(0, dtype=np.uint64), 100)
    return positive(native)


@pytest.mark.parametrize(("universe", "length", "capacity"), [(3, 4, 1), (3, 4, 2), (4, 3, 2), (4, 3, 3)])
def test_native_user_sketch_is_algorithm_4_and_lemma_27_holds(universe: int, length: int, capacity: int) -> None:
    """For all short streams of small users the native sketch is the printed one, and neighbours are within one."""
    sets = [keys for size in range(universe + 1) for keys in itertools.combinations(range(universe), size)]
    users = [stream for exactly in range(length + 1) for stream in itertools.product(sets, repeat=exactly)]
    found = {stream: user_state(stream, capacity) for stream in users}
    for stream, counts in found.items():
        assert counts == reference.user_misra_gries(capacity, stream)
    assert all(one_above_the_other(one, other) for one, other in neighbours(found))


def test_merged_user_sketches_of_neighbours_differ_by_one_at_most() -> None:
    """Corollary 28: two streams of users, one of them with a user removed, merged by the public class."""
    capacity = 2
    sets = [keys for size in range(1, 4) for keys in itertools.combinations(range(3), size)]

    def sketch_of(stream: Sequence[Sequence[int]]) -> UserMisraGriesSketch:
        made = UserMisraGriesSketch(capacity, kind="integer", bits=SeededBits(1))
        made.update([list(user) for user in stream])
        return made

    users = [stream for exactly in range(4) for stream in itertools.product(sets, repeat=exactly)]
    sketches = {stream: sketch_of(stream) for stream in users}
    for other in map(sketch_of, [((0, 1), (0, 1)), ((2,), (1, 2), (0, 2)), ((0, 1, 2),)]):
        found = {}
        for stream, sketch in sketches.items():
            keys, counts = sketch.merge(other).counters()
            found[stream] = dict(zip(keys.to_pylist(), counts.tolist(), strict=True))
        assert all(one_above_the_other(one, two) for one, two in neighbours(found))


def random_keys(rng: np.random.Generator, shape: str, count: int) -> list[bytes]:
    """Distinct keys that are hard to sort in different ways."""
    if shape == "digits":
        return [b"key number %08d" % number for number in rng.choice(10**8, count, replace=False)]
    if shape == "short":
        return [bytes(key) for key in itertools.islice(itertools.product(b"ab\0", repeat=6), count)]
    if shape == "zeros":
        return [b"x" * int(rng.integers(0, 2)) + b"\0" * length for length in range(count)]
    if shape == "deep":
        return [b"prefix" * int(rng.integers(1, 9)) + b"%d" % number for number in range(count)]
    return [rng.bytes(int(rng.integers(1, 40))) + b"%d" % number for number in range(count)]


@pytest.mark.parametrize("shape", ["digits", "short", "zeros", "deep", "random"])
@pytest.mark.parametrize("capacity", [20, 100])
def test_long_streams_of_strings_equal_the_printed_algorithm(shape: str, capacity: int) -> None:
    """Streams with many evictions keep the keys that the printed algorithm keeps, whatever makes keys hard to sort."""
    rng = np.random.default_rng(capacity)
    keys = random_keys(rng, shape, 300)
    ids = np.minimum(rng.zipf(1.3, 3000) - 1, len(keys) - 1)
    stream = [keys[number] for number in ids]
    sketch = MisraGriesSketch(capacity)
    for start in range(0, len(stream), 700):
        sketch.update(pa.array(stream[start : start + 700], pa.binary()))
    expected, decrements = reference.misra_gries(capacity, stream)
    stored, counts = sketch.counters()
    assert with_dummies(dict(zip(stored.to_pylist(), counts.tolist(), strict=True)), capacity) == expected
    assert stored.to_pylist() == sorted(stored.to_pylist())
    assert sketch.decrements == decrements


@pytest.mark.parametrize("spread", [200, 2**40, 2**63 - 1])
@pytest.mark.parametrize("capacity", [13, 128])
def test_long_streams_of_integers_equal_the_printed_algorithm(spread: int, capacity: int) -> None:
    """So do streams of integers, negative and extreme ones among them."""
    rng = np.random.default_rng(capacity)
    keys = np.unique(np.concatenate([rng.integers(-spread, spread, 400), [-(2**63), 2**63 - 1, 0]]))
    stream = rng.permutation(keys)[np.minimum(rng.zipf(1.2, 4000) - 1, len(keys) - 1)]
    sketch = MisraGriesSketch(capacity)
    sketch.update(stream)
    expected, decrements = reference.misra_gries(capacity, stream.tolist())
    stored, counts = sketch.counters()
    assert with_dummies(dict(zip(stored.to_pylist(), counts.tolist(), strict=True)), capacity) == expected
    assert sketch.decrements == decrements


@pytest.mark.parametrize("text", [False, True])
@pytest.mark.parametrize("capacity", [3, 16, 100])
def test_looking_at_a_sketch_changes_nothing(capacity: int, text: bool) -> None:
    """Which zero counters are gone is worked out when somebody looks; looking often, and never before, agree."""
    rng = np.random.default_rng(capacity)
    numbers = rng.permutation(1000)[np.minimum(rng.zipf(1.2, 3000) - 1, 999)]
    stream = [f"key {number:030}"[: int(number) % 40 + 4] if text else int(number) for number in numbers]
    kind: Any = "string" if text else "integer"
    watched, unwatched = (MisraGriesSketch(capacity, kind=kind) for _ in range(2))
    cuts = np.unique(np.concatenate([[0, 3000], rng.integers(0, 3000, 300)]))
    for start, end in itertools.pairwise(cuts.tolist()):
        watched.update(stream[start:end])
        expected, decrements = reference.misra_gries(capacity, stream[:end])
        stored, counts = watched.counters()
        found = dict(zip(stored.to_pylist(), counts.tolist(), strict=True))
        assert with_dummies(found, capacity) == expected
        assert (len(watched), watched.decrements) == (len(found), decrements)
        assert all(watched.estimate(key)[0] == count for key, count in found.items())
        assert list(found) == sorted(found, key=lambda key: key.encode() if text else key)
    unwatched.update(stream)
    assert unwatched.counters()[1].tolist() == watched.counters()[1].tolist()
    assert unwatched.counters()[0].equals(watched.counters()[0])


@pytest.mark.parametrize(("capacity", "rows", "seeds"), [(64, 50_000, 600), (1000, 300_000, 150)])
def test_no_seed_of_the_hash_shows(capacity: int, rows: int, seeds: int) -> None:
    """Whatever the secret key of the hash table, the sketch is the same.

    A tag that could match an empty place once made one in a few hundred keys give another sketch.
    """
    weights = np.arange(1, 10**6 + 1) ** -1.1
    spread = np.cumsum(weights) / weights.sum()
    keys = np.searchsorted(spread, np.random.default_rng(1).random(rows)).astype(np.int64)
    found = set()
    for seed in range(seeds):
        sketch = MisraGriesSketch(capacity, bits=SeededBits(seed))
        sketch.update(keys)
        stored, counts = sketch.counters()
        found.add((tuple(stored.to_pylist()), tuple(counts.tolist())))
    assert len(found) == 1
