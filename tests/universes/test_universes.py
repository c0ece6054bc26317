"""Universes: one number for every key, one written form for every number."""

from __future__ import annotations

import datetime
import ipaddress
import uuid

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dptally import InvalidParameter, InvalidSource
from dptally.universes import Bijection, FixedStrings, IntegerRange, Universe, Words, read_universe

NAMES = ["uint64", "ipv4", "ipv6", "uuid", "date", "e164", "words:12", "words:3:ab", "strings:5:ACGT", "integers:-7..9"]
SMALL = ["words:2:abc", "strings:3:xy", "integers:-3..4", "strings:1:z"]


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_numbers_come_back(name: str, data: st.DataObject) -> None:
    """From number to key to number, one at a time and in bulk, is the identity."""
    universe = read_universe(name)
    numbers = data.draw(st.lists(st.integers(0, universe.size - 1), max_size=20))
    keys = universe.keys(numbers)
    found, inside = universe.indices(keys)
    assert keys.type == universe.type
    assert inside.all() and [int(number) for number in found] == numbers
    for number, key in zip(numbers, keys.to_pylist(), strict=True):
        assert universe.key(number) == key and universe.index(key) == number


@pytest.mark.parametrize("name", [name for name in NAMES if name not in ("date", "uint64", "integers:-7..9")])
@settings(max_examples=80, deadline=None)
@given(text=st.one_of(st.text(max_size=8), st.from_regex(r"[0-9a-f:.+ACGT-]{0,20}"), st.ip_addresses().map(str)))
def test_texts_inside_come_back(name: str, text: str) -> None:
    """A text that is a key is written exactly so by the universe."""
    universe = read_universe(name)
    number = universe.index(text)
    assert number is None or universe.key(number) == text


@pytest.mark.parametrize("name", NAMES)
def test_the_ends_are_inside(name: str) -> None:
    """The first and last number are keys; one further is an error."""
    universe = read_universe(name)
    assert universe.index(universe.key(0)) == 0
    assert universe.index(universe.key(universe.size - 1)) == universe.size - 1
    with pytest.raises(InvalidParameter, match="index must be from 0 to"):
        universe.key(universe.size)


@pytest.mark.parametrize("name", SMALL)
def test_small_universes_number_all_their_keys(name: str) -> None:
    """All keys are distinct, and there are as many as `size` says."""
    universe = read_universe(name)
    keys = universe.keys(list(range(universe.size))).to_pylist()
    assert len(set(keys)) == universe.size


def test_order_of_the_keys() -> None:
    """Words come shorter ones first, strings in the order of their alphabet, numbers and dates as they are."""
    assert Words(2, "ab").keys(range(6)).to_pylist() == ["a", "b", "aa", "ab", "ba", "bb"]
    assert FixedStrings(2, "ba").keys(range(4)).to_pylist() == ["bb", "ba", "ab", "aa"]
    assert IntegerRange(-1, 1).keys(range(3)).to_pylist() == [-1, 0, 1]
    assert read_universe("date").key(1) == datetime.date(1, 1, 2)


OUTSIDE = {
    "ipv4": ["01.2.3.4", "1.2.3", "1.2.3.256", "1.2.3.4\n", " 1.2.3.4", "1.2.3.4.5", "", "１.2.3.4", "1..2.3"],
    "ipv6": ["0::1", "::0001", "::FFFF", "1:0:0:2:0:0:0:3", "::ffff:1.2.3.4", "1::2::3", "fe80::1%eth0", "", "::1\0"],
    "uuid": ["0" * 32, "{00000000-0000-0000-0000-000000000000}", "00000000-0000-0000-0000-00000000000A", ""],
    "e164": ["+0", "1234", "+", "+1234567890123456", "+49 30", "+１"],
    "words:4": ["", "abcde", "Abc", "ab1", "ä"],
    "strings:2:01": ["0", "000", "02", ""],
}


@pytest.mark.parametrize(("name", "texts"), OUTSIDE.items())
def test_other_written_forms_are_outside(name: str, texts: list[str]) -> None:
    """What people may mean by a key is none, and neither is a missing value."""
    _, inside = read_universe(name).indices(pa.array([*texts, None]))
    assert not inside.any()


@settings(max_examples=200, deadline=None)
@given(
    number=st.one_of(st.integers(0, 2**128 - 1), st.lists(st.sampled_from([0, 0, 1, 65535]), min_size=8, max_size=8))
)
def test_addresses_agree_with_the_standard_library(number: int | list[int]) -> None:
    """IPv6 keys are what `ipaddress` writes, but for the dotted form that newer versions use."""
    if isinstance(number, list):
        number = sum(group << (16 * place) for place, group in enumerate(number))
    written = read_universe("ipv6").key(number)
    address = ipaddress.IPv6Address(number)
    if "." not in str(address):
        assert written == str(address)
    assert int(ipaddress.IPv6Address(written)) == number
    assert read_universe("ipv4").key(number % 2**32) == str(ipaddress.IPv4Address(number % 2**32))
    assert read_universe("uuid").key(number) == str(uuid.UUID(int=number))


def test_integers_of_any_width_and_beyond() -> None:
    """Signed, unsigned, narrow, dictionary-encoded and chunked columns are read; what does not fit is outside."""
    universe = IntegerRange(250, 260)
    for kind in (pa.int16(), pa.uint16(), pa.int64(), pa.uint64()):
        numbers, inside = universe.indices(pa.array([249, 250, 260, 261, None], type=kind))
        assert inside.tolist() == [False, True, True, False, False]
        assert numbers[1:3].tolist() == [0, 10]
    assert universe.indices(pa.array([250, 251], type=pa.int64()).dictionary_encode())[0].tolist() == [0, 1]
    assert universe.indices(pa.chunked_array([[250], [251]]))[1].all()
    assert read_universe("uint64").index(-1) is None and read_universe("uint64").index(2**64) is None
    assert read_universe("uint64").index(2**64 - 1) == 2**64 - 1
    assert read_universe("integers:-9223372036854775808..9223372036854775807").size == 2**64
    assert IntegerRange(2**63, 2**63 + 1).indices(pa.array([5], type=pa.int64()))[1].tolist() == [False]


def test_an_own_bijection_never_shares_a_number() -> None:
    """A key that does not come back is outside, so careless functions cannot merge keys."""
    lower = Bijection(26, index=lambda key: ord(key.lower()) - 97, key=lambda index: chr(97 + index), name="letters")
    numbers, inside = lower.indices(["a", "A", "z", "!", None])
    assert inside.tolist() == [True, False, True, False, False] and numbers[2] == 25
    assert lower.keys(np.array([0, 25], dtype=np.uint64)).to_pylist() == ["a", "z"]


def test_a_failing_bijection_tells_nothing() -> None:
    """An exception of the caller's function is replaced: it may quote a key."""
    broken = Bijection(5, index=lambda key: int(key), key=str, name="digits")
    with pytest.raises(InvalidSource, match="the index function of the universe 'digits' failed") as caught:
        broken.indices(["secret"])
    assert caught.value.__context__ is None and "secret" not in str(caught.value)


def test_a_universe_is_returned_as_it_is() -> None:
    """Whoever has a universe may pass it where a name is read."""
    universe: Universe = Words(3)
    assert read_universe(universe) is universe
    assert repr(universe) == "Words('words:3')"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("ipv5", "there is no universe 'ipv5'; the names are uint64, ipv4"),
        ("words:", "there is no universe"),
        (5, "universe must be a name or a universe, got int"),
        ("words:0", "the length of strings must be a whole number of at least 1, got 0"),
        ("words:300", "at most 2\\^255 members"),
        ("strings:2:aa", "an alphabet must be a text of distinct characters"),
        ("strings:2:a\0", "can be written in UTF-8"),
        ("integers:5..4", "must not end before it begins, got 5 to 4"),
        ("integers:-1..18446744073709551615", "must fit 64 bits"),
    ],
)
def test_bad_names(name: object, message: str) -> None:
    """A name that means nothing is refused in one sentence."""
    with pytest.raises(InvalidParameter, match=message):
        read_universe(name)


def test_bad_parts() -> None:
    """Classes refuse what names cannot say."""
    with pytest.raises(InvalidParameter, match="the ends of a range of integers must be whole numbers"):
        IntegerRange(0.5, 3)  # type: ignore[arg-type]
    with pytest.raises(
        InvalidParameter, match="the size of a universe must be a whole number from 1 to 2\\^256, got 0"
    ):
        Bijection(0, index=int, key=str)


@pytest.mark.parametrize(
    ("name", "column", "message"),
    [
        ("ipv4", pa.array([1]), "keys of the universe 'ipv4' are text, but the key column holds int64"),
        ("uint64", pa.array([1.0]), "keys of the universe 'uint64' are whole numbers, but the key column holds double"),
        ("date", pa.array([1]), "keys of the universe 'date' are dates, but the key column holds int64"),
    ],
)
def test_columns_of_another_type(name: str, column: pa.Array, message: str) -> None:
    """The type of a column is public: that it cannot hold keys is said."""
    with pytest.raises(InvalidSource, match=message):
        read_universe(name).indices(column)


@pytest.mark.parametrize(
    ("name", "texts"),
    [
        ("uint64", ["0", "7", "07", "-1", "+7", "18446744073709551615", "18446744073709551616", "\u0667", "", None]),
        ("integers:-5..99", ["-5", "0", "-0", "99", "100", "-6"]),
        ("date", ["0001-01-01", "2024-02-29", "2023-02-29", "2024-2-1", "9999-12-31", None]),
    ],
)
def test_numbers_and_dates_as_text(name: str, texts: list[str | None]) -> None:
    """Text is a key if it is how the key is written, and has the key's number; anything else is outside."""
    universe = read_universe(name)
    found, inside = universe.indices(pa.array(texts, type=pa.string()))
    for text, number, known in zip(texts, found.tolist(), inside.tolist(), strict=True):
        assert known == (text is not None and 0 <= number < universe.size and str(universe.key(number)) == text)
