"""Words that belong to a row: a slow reference, what they depend on, and what they do not."""

from __future__ import annotations

import itertools
import pickle
from collections import Counter
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from hypothesis import given, settings
from hypothesis import strategies as st

import dptally
from dptally.errors import InvalidParameter, InvalidSource
from dptally.laws.sample_and_threshold import SampleAndThreshold
from dptally.laws.sampling_schemes import Ppswor
from dptally.laws.weighted_sample import WeightedSample
from dptally.randomness import SeededBits
from dptally.randomness.keyed import KeyedWords, draw_secret
from dptally.randomness.thinning import thin_counts
from tests.statistical.checks import FALSE_ALARM, chi_square_pvalue

SECRET = bytes(range(32))
PRIME = 2**61 - 1
DICTIONARY = pa.dictionary(pa.int8(), pa.string())


def keyed(secret: bytes = SECRET) -> KeyedWords:
    """Words under a secret that is none."""
    return KeyedWords(secret, private=False)


def symbols(value: bytes | int | None) -> list[int]:
    """The numbers that stand for a value, by definition."""
    if value is None:
        return [0]
    if isinstance(value, int):
        word = value % 2**64
        return [1, word % 2**32, word >> 32]
    return [len(value) + 1, *(int.from_bytes(value[at : at + 7], "little") for at in range(0, len(value), 7))]


def polynomial(numbers: list[int], point: int, prime: int = PRIME) -> int:
    """The value of 1, then the numbers, as coefficients."""
    value = 1
    for number in numbers:
        value = (value * point + number) % prime
    return value


def reference(row: list[bytes | int | None]) -> list[int]:
    """The two words of a row, from the definition alone."""
    expanded = Cipher(algorithms.AES(SECRET), modes.CTR(bytes(16))).encryptor().update(bytes(80))
    points = [int.from_bytes(expanded[at : at + 8], "little") for at in (0, 8)]
    numbers = list(itertools.chain.from_iterable(map(symbols, row)))
    block = b"".join(polynomial(numbers, point).to_bytes(8, "little") for point in points)
    drawn = Cipher(algorithms.AES(expanded[48:80]), modes.ECB()).encryptor().update(block)  # noqa: S305 - one block
    return [int.from_bytes(drawn[at : at + 8], "little") for at in (0, 8)]


ROWS = st.lists(
    st.tuples(st.none() | st.binary(max_size=40), st.none() | st.integers(-(2**63), 2**63 - 1)), min_size=1, max_size=20
)


@settings(max_examples=30, deadline=None)
@given(ROWS)
def test_words_are_what_the_definition_says(rows: list[tuple[bytes | None, int | None]]) -> None:
    """Texts of any length, numbers and nulls, in two columns, against Python's own integers."""
    columns = [pa.array([row[0] for row in rows], pa.binary()), pa.array([row[1] for row in rows], pa.int64())]
    found = keyed().words(columns).reshape(-1, 2).tolist()
    assert found == [reference(list(row)) for row in rows]


def test_every_length_of_text() -> None:
    """Lengths around the seven bytes of a symbol, and at the end of a buffer."""
    texts = [bytes([length + 1] * length) for length in range(40)]
    found = keyed().words([pa.array(texts)]).reshape(-1, 2).tolist()
    assert found == [reference([text]) for text in texts]


def test_different_rows_have_different_symbols() -> None:
    """No row's symbols are the beginning of another's, for all short rows of two columns of text."""
    texts: list[bytes | None] = [None, b"", b"\0", b"\0\0", b"a", b"a\0", bytes(7), bytes(8)]
    codes = [(*symbols(one), *symbols(other)) for one in texts for other in texts]
    for one, other in itertools.permutations(codes, 2):
        assert one != other[: len(one)]


def test_polynomials_agree_in_few_places() -> None:
    """For all pairs of short rows, at most as many points as symbols give one hash: the bound of collisions."""
    prime = 13
    sequences = [[*row] for length in (1, 2, 3) for row in itertools.product(range(3), repeat=length)]
    values = {tuple(row): [polynomial(row, point, prime) for point in range(prime)] for row in sequences}
    for one, other in itertools.combinations(values, 2):
        places = sum(here == there for here, there in zip(values[one], values[other], strict=True))
        assert places <= max(len(one), len(other))


@pytest.mark.parametrize(
    ("values", "kinds"),
    [
        (["", "a", None, "ö" * 30], [pa.string(), pa.large_string(), pa.string_view(), DICTIONARY]),
        ([b"", b"\xff", None], [pa.binary(), pa.large_binary(), pa.binary_view()]),
        ([0, 1, None, 127], [pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint64()]),
        ([-1, None, -128], [pa.int8(), pa.int16(), pa.int32(), pa.int64()]),
        ([Decimal("1.50"), None, Decimal("-2.00")], [pa.decimal128(5, 2), pa.decimal128(38, 2), pa.decimal64(9, 2)]),
        ([datetime(2024, 1, 1), None], [pa.timestamp("s"), pa.timestamp("us"), pa.timestamp("ms", "UTC")]),
        ([date(1969, 1, 1), None], [pa.date32(), pa.date64()]),
    ],
)  # fmt: skip
def test_words_do_not_depend_on_how_a_value_is_stored(values: list[Any], kinds: list[pa.DataType]) -> None:
    """Width, layout, slices and batches make no difference; engines differ in all of them."""
    expected = keyed().words([pa.array(values, kinds[0])])
    assert len(set(expected.tolist())) == 2 * len(values)
    for kind in kinds:
        array = pa.array(values, kind)
        assert keyed().words([array]).tolist() == expected.tolist()
        longer = pa.array([values[-1], *values, values[0]], kind)
        assert keyed().words([longer.slice(1, len(values))]).tolist() == expected.tolist()


def test_zeros_and_nans_are_one_value_each() -> None:
    """As grouping sees them: the two zeros are one key, and so are all NaNs."""
    for whole, kind in ((np.uint64, np.float64), (np.uint32, np.float32)):
        nans = np.array([np.nan, np.nan], dtype=kind).view(whole)
        nans[1] += 1
        values = np.concatenate([[kind(0), kind(-0.0), kind(1)], nans.view(kind)])
        words = keyed().words([pa.array(values)]).reshape(-1, 2)
        assert [len({tuple(row) for row in words[part].tolist()}) for part in (slice(2), slice(3, 5))] == [1, 1]
        assert len({tuple(row) for row in words.tolist()}) == 3


def test_words_tags_and_streams_differ() -> None:
    """One row's words for draws, for choices, and for long draws have nothing in common; nor have two secrets'."""
    rows = [pa.array(["a", "b"])]
    one = keyed()
    streams = one.of_rows(rows).streams(np.array([0, 1]))
    stream = [streams.one(0), streams.one(1)]
    found = [*one.words(rows), *one.tags(rows), *stream[0].words(3), *stream[1].words(3)]
    found += [*keyed(SECRET[::-1]).words(rows)]
    assert len(set(map(int, found))) == len(found)
    again = keyed().of_rows(rows).streams(np.array([1])).one(0).words(5)
    assert again[:3].tolist() == [int(word) for word in found[9:12]]


def test_words_are_uniform() -> None:
    """Bytes of the words of 60,000 like keys pass a chi-square test at rate 1e-6; the hashes before the cipher fail."""
    keys = [pa.array([f"key {i}" for i in range(60_000)])]
    law: dict[object, float] = dict.fromkeys(range(256), 1 / 256)
    words = keyed().words(keys)
    for shift in (0, 8, 56):
        for part in (words[::2], words[1::2]):
            observed: Counter[object] = Counter((part >> np.uint64(shift) & np.uint64(255)).tolist())
            assert chi_square_pvalue(observed, law, len(part)) > FALSE_ALARM / 6
    hashes = keyed()._hashed(0, keys)[::2]
    top: Counter[object] = Counter((hashes >> np.uint64(56)).tolist())
    assert chi_square_pvalue(top, law, len(hashes)) < FALSE_ALARM


def test_a_law_may_take_two_words_of_a_key() -> None:
    """Parts of a batch get the words of their keys; more words than there are is an error, not a repetition."""
    rows = [pa.array(["a", "b", "c"])]
    source, whole = keyed().of_rows(rows), keyed().words(rows)
    assert np.concatenate([source.words(2), source.words(4)]).tolist() == whole.tolist()
    with pytest.raises(InvalidParameter, match="more random words than belong to its keys"):
        source.words(1)


@pytest.mark.parametrize(
    "make",
    [
        lambda: WeightedSample("1", "1e-3"),
        lambda: WeightedSample("1", "1e-3", Ppswor("0.2")),
        lambda: SampleAndThreshold("1", "1e-3"),
    ],
    ids=["weighted_sample", "ppswor", "sample_and_threshold"],
)
def test_a_key_is_drawn_alike_in_whatever_company(make: Any) -> None:
    """The draw of a key depends on its count and its words, not on the other keys of the batch or their counts."""
    law = make()
    keys = pa.array([f"key {i}" for i in range(40)])
    counts = np.arange(40, dtype=np.int64)
    together = law.draw(counts, keyed().of_rows([keys]))
    assert len(set(together.tolist())) > 5
    for order in (np.arange(39, -1, -1), np.random.default_rng(1).permutation(40)[:17]):
        found = law.draw(counts[order], keyed().of_rows([keys.take(pa.array(order))]))
        assert found.tolist() == together[order].tolist()


def test_seeded_releases_do_not_depend_on_the_order_of_rows() -> None:
    """Shuffled rows, with several keys per unit, give the same release under one seed."""
    generator = np.random.default_rng(5)
    table = pa.table({"u": generator.integers(0, 800, 8000), "k": generator.zipf(1.5, 8000).clip(0, 1000)})
    request: dict[str, Any] = {"key": "k", "unit": "u", "max_keys_per_unit": 2, "epsilon": 1, "delta": "1e-3"}
    releases = [
        dptally.publish(source, randomness=SeededBits(8), **request).table()
        for source in (table, table.take(generator.permutation(8000)))
    ]
    assert releases[0].height > 5
    assert releases[0].equals(releases[1])


def test_secrets_are_kept() -> None:
    """Nothing of a secret is shown or pickled, and a secret of another length is refused."""
    one = keyed()
    assert repr(one) == "KeyedWords()"
    with pytest.raises(TypeError, match="cannot be copied or pickled"):
        pickle.dumps(one)
    with pytest.raises(InvalidParameter, match="a secret must have 32 bytes"):
        keyed(b"short")
    assert len(draw_secret(SeededBits(1))) == 32


def test_columns_that_are_no_keys() -> None:
    """A nested column is refused by its type."""
    with pytest.raises(InvalidSource, match="keys of the type list"):
        keyed().words([pa.array([[1]])])


def test_streams_together_are_the_streams_one_by_one() -> None:
    """Words of many streams at once, and samples drawn from them, are those of each stream by itself."""
    rows = [pa.array([f"key {number}" for number in range(300)])]
    together, apart = (keyed().of_rows(rows).streams(np.arange(300)) for _ in range(2))
    for counts in (np.full(300, 2), np.arange(300) % 4):
        expected = [apart.one(owner).words(int(count)) for owner, count in enumerate(counts) if count]
        owners = np.flatnonzero(counts)
        assert together.words_of(owners, counts[owners]).tolist() == np.concatenate(expected).tolist()
    trials = np.random.default_rng(3).integers(0, 500, 300)
    trials[7] = 1 << 40  # by rejection
    thinned = thin_counts(trials, 1 << 31, together)
    assert thinned.tolist() == [
        int(thin_counts(trials[place : place + 1], 1 << 31, apart.one(place))[0]) for place in range(300)
    ]
