"""The kinds of universes, and how each numbers its keys."""

from __future__ import annotations

import datetime
import re
import socket
import string
import struct
from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dptally.errors import InvalidParameter, InvalidSource, attempt
from dptally.randomness.integers import whole_numbers

Numbers = tuple[NDArray[Any], NDArray[np.bool_]]

_WORD = 1 << 64
_LARGEST_SIZE = 1 << 256


class Universe:
    """A public finite ordered set of keys with a bijection to 0 .. size - 1.

    Kinds have `_numbers` of an array of keys, and `_keys` of numbers.
    """

    name: str
    size: int
    type: pa.DataType

    def indices(self, keys: pa.Array | Sequence[Any]) -> Numbers:
        """Return the number of each key, and which keys are inside.

        Numbers are uint64 where the universe has at most 2^64 keys, and Python's whole numbers otherwise. Those of keys
        outside mean nothing.

        Raises:
            InvalidSource: if keys of this type cannot be keys of the universe.
        """
        if isinstance(keys, pa.ChunkedArray):
            keys = keys.combine_chunks()
        if not isinstance(keys, pa.Array):
            keys = self._array(keys)
        return self._numbers(keys.dictionary_decode() if pa.types.is_dictionary(keys.type) else keys)

    def keys(self, indices: NDArray[Any] | Sequence[int]) -> pa.Array:
        """Return the keys of these numbers, as an array of `type`."""
        return self._keys(whole_numbers(indices, self.size))

    def index(self, key: Any) -> int | None:
        """Return the number of one key, or None if it is outside."""
        try:
            numbers, inside = self.indices([key])
        except (InvalidSource, pa.ArrowException, OverflowError):
            return None
        return int(numbers[0]) if inside[0] else None

    def key(self, index: int) -> Any:
        """Return one key by its number."""
        if not 0 <= index < self.size:
            raise InvalidParameter(f"index must be from 0 to {self.size - 1}, got {index}.")
        return self.keys(whole_numbers([index], self.size))[0].as_py()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r})"

    def _array(self, keys: Sequence[Any]) -> pa.Array:
        return pa.array(list(keys))

    def _numbers(self, keys: pa.Array) -> Numbers:
        raise NotImplementedError

    def _keys(self, numbers: NDArray[Any]) -> pa.Array:
        raise NotImplementedError

    def _one_by_one(self, keys: Iterable[Any], number: Callable[[Any], int | None]) -> Numbers:
        found = [None if key is None else number(key) for key in keys]
        inside = np.array([number is not None for number in found], dtype=bool)
        return whole_numbers([number or 0 for number in found], self.size), inside


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


class _OfText(Universe):
    """Keys that are text. A kind has the `_number` of one, or a `_pattern` and the `_matching` numbers of many."""

    type = pa.string()
    _pattern: str | None = None

    def _numbers(self, keys: pa.Array) -> Numbers:
        if pa.types.is_null(keys.type):
            keys = keys.cast(pa.string())
        if not _is_text(keys.type):
            raise InvalidSource(f"keys of the universe {self.name!r} are text, but the key column holds {keys.type}.")
        if self._pattern is None:
            return self._one_by_one(keys.to_pylist(), self._number)
        if pa.types.is_string_view(keys.type):
            keys = keys.cast(pa.large_string())
        found = pc.fill_null(pc.match_substring_regex(keys, rf"\A(?:{self._pattern})\z"), False)
        inside = np.asarray(found.to_numpy(zero_copy_only=False), dtype=bool)
        numbers = whole_numbers(np.zeros(len(keys), dtype=np.uint64), self.size)
        numbers[inside] = self._matching(keys.filter(found))
        return numbers, inside

    def _number(self, text: str) -> int | None:
        raise NotImplementedError

    def _matching(self, texts: pa.Array) -> NDArray[Any]:
        raise NotImplementedError


class IntegerRange(Universe):
    """Whole numbers from `low` to `high`, both of them in; they must fit int64, or uint64.

    >>> IntegerRange(-5, 99).index(0), IntegerRange(-5, 99).index(100)
    (5, None)
    """

    def __init__(self, low: int, high: int, *, name: str | None = None) -> None:
        if any(isinstance(end, bool) or not isinstance(end, int) for end in (low, high)):
            raise InvalidParameter("the ends of a range of integers must be whole numbers.")
        if low > high:
            raise InvalidParameter(f"a range of integers must not end before it begins, got {low} to {high}.")
        if low < -(1 << 63) or high >= _WORD or (low < 0 and high >= 1 << 63):
            raise InvalidParameter("a range of integers must fit 64 bits, with a sign if it begins below 0.")
        self._low = low
        self.size = high - low + 1
        self.type = pa.int64() if high < 1 << 63 else pa.uint64()
        self.name = name or f"integers:{low}..{high}"

    def _array(self, keys: Sequence[Any]) -> pa.Array:
        """Python's whole numbers, or texts of them; those that fit no 64 bits are outside whatever the range."""
        listed = list(keys)
        if listed and all(isinstance(key, str) for key in listed):
            return pa.array(listed, type=pa.string())
        if any(isinstance(key, bool) or not isinstance(key, int | np.integer | None) for key in listed):
            raise InvalidSource(f"keys of the universe {self.name!r} are whole numbers, but other types were given.")
        whole = [None if key is None or not -(1 << 63) <= int(key) < _WORD else int(key) for key in listed]
        present = [key for key in whole if key is not None]
        if max(present, default=0) >= 1 << 63:
            if min(present) < 0:
                raise InvalidSource(f"keys of the universe {self.name!r} fit neither int64 nor uint64 together.")
            return pa.array(whole, type=pa.uint64())
        return pa.array(whole, type=pa.int64())

    def _numbers(self, keys: pa.Array) -> Numbers:
        if _is_text(keys.type):
            return self._one_by_one(keys.to_pylist(), self._number)
        if not (pa.types.is_integer(keys.type) or pa.types.is_null(keys.type)):
            raise InvalidSource(
                f"keys of the universe {self.name!r} are whole numbers, but the key column holds {keys.type}."
            )
        signed = not pa.types.is_unsigned_integer(keys.type)
        inside = np.asarray(keys.is_valid().to_numpy(zero_copy_only=False), dtype=bool)
        wide = pc.fill_null(keys.cast(pa.int64() if signed else pa.uint64()), 0).to_numpy()
        inside &= (wide >= self._low) & (wide < self._low + self.size)
        # Numbers wrap around 2^64 and back: the difference is right wherever the key is inside.
        return wide.astype(np.uint64) - np.uint64(self._low % _WORD), inside

    def _number(self, text: str) -> int | None:
        if not re.fullmatch("0|-?[1-9][0-9]{0,19}", text, re.ASCII):
            return None
        number = int(text) - self._low
        return number if 0 <= number < self.size else None

    def _keys(self, numbers: NDArray[Any]) -> pa.Array:
        moved = numbers + np.uint64(self._low % _WORD)
        return pa.array(moved.astype(np.int64) if self.type == pa.int64() else moved, type=self.type)


class Ipv4(_OfText):
    """IPv4 addresses, "192.0.2.1": four numbers from 0 to 255 without leading zeros.

    >>> Ipv4().index("0.0.1.0"), Ipv4().index("01.2.3.4"), Ipv4().key(2**32 - 1)
    (256, None, '255.255.255.255')
    """

    name = "ipv4"
    size = 1 << 32
    _part = "(?:25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])"
    _pattern = rf"{_part}(?:\.{_part}){{3}}"

    def _matching(self, texts: pa.Array) -> NDArray[Any]:
        parts = pc.list_flatten(pc.split_pattern(texts, "."))
        columns = parts.cast(pa.uint64()).to_numpy(zero_copy_only=False).reshape(-1, 4)
        numbers: NDArray[Any] = columns @ np.array([1 << 24, 1 << 16, 1 << 8, 1], dtype=np.uint64)
        return numbers

    def _keys(self, numbers: NDArray[Any]) -> pa.Array:
        written = pa.array([str(part) for part in range(256)])
        parts = [written.take(pa.array((numbers >> np.uint64(by)) & np.uint64(255))) for by in (24, 16, 8, 0)]
        return pc.binary_join_element_wise(*parts, ".")


class Ipv6(_OfText):
    """IPv6 addresses in one written form: lower case, no leading zeros, "::" for the first longest run of zero groups.

    A run of one zero group is written "0". The end is never dotted, so that the form does not depend on the prefix.

    >>> Ipv6().index("::1"), Ipv6().index("0::1"), Ipv6().key(1 << 112)
    (1, None, '1::')
    """

    name = "ipv6"
    size = 1 << 128

    def _number(self, text: str) -> int | None:
        try:
            packed = socket.inet_pton(socket.AF_INET6, text)
        except (OSError, ValueError):  # ValueError: a zero character within
            return None
        return int.from_bytes(packed, "big") if _compressed(packed) == text else None

    def _keys(self, numbers: NDArray[Any]) -> pa.Array:
        return pa.array([_compressed(int(number).to_bytes(16, "big")) for number in numbers], type=pa.string())


_ZERO_RUNS = [":0" * length + ":" for length in range(8, 1, -1)]


def _compressed(packed: bytes) -> str:
    groups = ":{:x}:{:x}:{:x}:{:x}:{:x}:{:x}:{:x}:{:x}:".format(*struct.unpack(">8H", packed))
    if ":0:0:" in groups:
        for zeros in _ZERO_RUNS:
            before, found, after = groups.partition(zeros)  # the first of the longest
            if found:
                return f"{before[1:]}::{after[:-1]}"
    return groups[1:-1]


class Uuids(_OfText):
    """UUIDs in lower case with dashes, whatever their version.

    >>> Uuids().key(1), Uuids().index("00000000-0000-0000-0000-00000000000A")
    ('00000000-0000-0000-0000-000000000001', None)
    """

    name = "uuid"
    size = 1 << 128
    _pattern = "[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"

    def _matching(self, texts: pa.Array) -> NDArray[Any]:
        plain = pc.replace_substring(texts, "-", "").to_pylist()
        return whole_numbers([int(text, 16) for text in plain], self.size)

    def _keys(self, numbers: NDArray[Any]) -> pa.Array:
        plain = [f"{int(number):032x}" for number in numbers]
        return pa.array([f"{t[:8]}-{t[8:12]}-{t[12:16]}-{t[16:20]}-{t[20:]}" for t in plain], type=pa.string())


class Dates(IntegerRange):
    """Days from 0001-01-01 to 9999-12-31 of the Gregorian calendar, as Arrow's `date32`.

    >>> import datetime
    >>> Dates().index(datetime.date(1, 1, 31)), Dates().key(Dates().size - 1)
    (30, datetime.date(9999, 12, 31))
    """

    def __init__(self) -> None:
        super().__init__(-719_162, 2_932_896, name="date")  # days from 1970-01-01
        self.type = pa.date32()

    def _array(self, keys: Sequence[Any]) -> pa.Array:
        return pa.array(list(keys))

    def _numbers(self, keys: pa.Array) -> Numbers:
        if pa.types.is_null(keys.type):
            keys = keys.cast(pa.date32())
        if not pa.types.is_date32(keys.type) and not _is_text(keys.type):
            raise InvalidSource(f"keys of the universe 'date' are dates, but the key column holds {keys.type}.")
        return super()._numbers(keys if _is_text(keys.type) else keys.cast(pa.int32()))

    def _number(self, text: str) -> int | None:
        if not re.fullmatch("[0-9]{4}-[0-9]{2}-[0-9]{2}", text, re.ASCII):
            return None
        try:
            return datetime.date.fromisoformat(text).toordinal() - 1
        except ValueError:
            return None

    def _keys(self, numbers: NDArray[Any]) -> pa.Array:
        return pa.array((numbers.astype(np.int64) + self._low).astype(np.int32)).cast(pa.date32())


class PhoneNumbers(_OfText):
    """Telephone numbers (ITU-T E.164): "+" and 1 to 15 digits, the first of them not 0.

    >>> PhoneNumbers().index("+1"), PhoneNumbers().index("+0441"), PhoneNumbers().key(PhoneNumbers().size - 1)
    (0, None, '+999999999999999')
    """

    name = "e164"
    size = 10**15 - 1
    _pattern = r"\+[1-9][0-9]{0,14}"

    def _matching(self, texts: pa.Array) -> NDArray[Any]:
        digits = pc.utf8_slice_codeunits(texts, 1).cast(pa.uint64())
        numbers: NDArray[Any] = digits.to_numpy(zero_copy_only=False) - np.uint64(1)
        return numbers

    def _keys(self, numbers: NDArray[Any]) -> pa.Array:
        digits = pa.array(numbers + np.uint64(1)).cast(pa.string())
        return pc.binary_join_element_wise(pa.scalar("+"), digits, "")


class _Strings(_OfText):
    """Strings of some lengths over an alphabet: shorter ones first, then in the order of the alphabet."""

    def __init__(self, name: str, shortest: int, longest: int, alphabet: str) -> None:
        self.name = name
        self._alphabet, self._lengths = alphabet, range(shortest, longest + 1)
        self._digits = {character: digit for digit, character in enumerate(alphabet)}
        # Where strings of each length begin, and how many there are.
        self._starts: list[int] = [0, *accumulate(len(alphabet) ** length for length in self._lengths)]
        self.size = self._starts[-1]

    def _number(self, text: str) -> int | None:
        if len(text) not in self._lengths:
            return None
        number = 0
        try:
            for character in text:
                number = number * len(self._digits) + self._digits[character]
        except KeyError:
            return None
        return self._starts[len(text) - self._lengths[0]] + number

    def _keys(self, numbers: NDArray[Any]) -> pa.Array:
        starts = whole_numbers(self._starts[:-1], self.size)
        places = np.searchsorted(starts, numbers, side="right") - 1
        groups = [np.flatnonzero(places == place) for place in range(len(starts))]
        words = [
            self._written(numbers[group] - start, length)
            for group, start, length in zip(groups, starts, self._lengths, strict=True)
        ]
        return pa.concat_arrays(words).take(pa.array(np.argsort(np.concatenate(groups))))

    def _written(self, numbers: NDArray[Any], length: int) -> pa.Array:
        """Numbers as strings of one length, with the characters of the alphabet as digits."""
        digits = np.array([ord(character) for character in self._alphabet], dtype=np.uint32)
        codes = np.empty((len(numbers), length), dtype=np.uint32)
        base = numbers.dtype.type(len(digits)) if numbers.dtype != object else len(digits)
        for place in reversed(range(length)):
            codes[:, place] = digits[(numbers % base).astype(np.intp)]
            numbers = numbers // base
        return pa.array(codes.view(f"<U{length}").reshape(-1), type=pa.string())


class Words(_Strings):
    """Words of 1 to `longest` characters over an alphabet: shorter ones first, then in the order of the alphabet.

    >>> Words(12).index("a"), Words(12).index("aa"), Words(12).index("Hello"), Words(2).size
    (0, 26, None, 702)
    """

    def __init__(self, longest: int, alphabet: str = string.ascii_lowercase) -> None:
        _check_strings(longest, alphabet)
        own = "" if alphabet == string.ascii_lowercase else f":{alphabet}"
        super().__init__(f"words:{longest}{own}", 1, longest, alphabet)


class FixedStrings(_Strings):
    """Strings of one length over an alphabet, in the order of the alphabet as given.

    >>> FixedStrings(4, "ACGT").index("ACGT"), FixedStrings(4, "ACGT").key(255)
    (27, 'TTTT')
    """

    def __init__(self, length: int, alphabet: str) -> None:
        _check_strings(length, alphabet)
        super().__init__(f"strings:{length}:{alphabet}", length, length, alphabet)


def _check_strings(length: int, alphabet: str) -> None:
    if not isinstance(alphabet, str) or not alphabet or len(set(alphabet)) < len(alphabet):
        raise InvalidParameter("an alphabet must be a text of distinct characters, at least one.")
    if any(character == "\0" or 0xD800 <= ord(character) <= 0xDFFF for character in alphabet):
        raise InvalidParameter("an alphabet must consist of characters that can be written in UTF-8, without the zero.")
    if isinstance(length, bool) or not isinstance(length, int) or length < 1:
        raise InvalidParameter(f"the length of strings must be a whole number of at least 1, got {length}.")
    if length > 256 or len(alphabet) ** length > _LARGEST_SIZE // 2:
        raise InvalidParameter("the universe of strings must have at most 2^255 members, none longer than 256.")


class Bijection(Universe):
    """A universe of one's own: any set of keys that two functions number.

    A key k is inside if index(k) is a number i from 0 to size - 1 and key(i) is k again; so whatever the functions do,
    no two keys share a number. What the guarantee needs is that the functions do not depend on the data.

    Args:
        size: how many keys there are.
        index: from a key to its number, or None.
        key: from a number to its key.
        name: what to call the universe in a release.
        type: Arrow's type of the keys.

    >>> even = Bijection(50, index=lambda key: key // 2, key=lambda index: 2 * index, type=pa.int64(), name="even")
    >>> even.index(8), even.index(9), even.key(49)
    (4, None, 98)
    """

    def __init__(
        self,
        size: int,
        index: Callable[[Any], int | None],
        key: Callable[[int], Any],
        *,
        name: str = "own",
        type: pa.DataType | None = None,  # noqa: A002 - the same name as the attribute
    ) -> None:
        if isinstance(size, bool) or not isinstance(size, int) or not 1 <= size <= _LARGEST_SIZE:
            raise InvalidParameter(f"the size of a universe must be a whole number from 1 to 2^256, got {size}.")
        self.size, self.name = size, name
        self.type = pa.string() if type is None else type
        self._index_of, self._key_of = index, key

    def indices(self, keys: pa.Array | Sequence[Any]) -> Numbers:
        """Return the number of each key, and which keys are inside; see `Universe`."""
        listed = keys.to_pylist() if isinstance(keys, pa.Array | pa.ChunkedArray) else list(keys)
        failed = f"the index function of the universe {self.name!r} failed: it must return None."
        return attempt(lambda: self._one_by_one(listed, self._number), lambda _: InvalidSource(failed))

    def _number(self, key: Any) -> int | None:
        number = self._index_of(key)
        if number is None or not 0 <= number < self.size or self._key_of(int(number)) != key:
            return None
        return int(number)

    def _keys(self, numbers: NDArray[Any]) -> pa.Array:
        return pa.array([self._key_of(int(number)) for number in numbers], type=self.type)


_NAMED: dict[str, Callable[[], Universe]] = {
    "uint64": lambda: IntegerRange(0, _WORD - 1, name="uint64"),
    "ipv4": Ipv4,
    "ipv6": Ipv6,
    "uuid": Uuids,
    "date": Dates,
    "e164": PhoneNumbers,
}


def read_universe(name: object) -> Universe:
    """Return a ready-made universe by its name, as in the table at the top; a universe is returned as it is.

    Raises:
        InvalidParameter: if there is none of that name.

    >>> read_universe("ipv4").size == 2**32, read_universe("words:3").size
    (True, 18278)
    """
    if not isinstance(name, str):
        if all(hasattr(name, part) for part in ("size", "indices", "keys", "name", "type")):
            return name  # type: ignore[return-value]  # it has what the protocol asks for
        raise InvalidParameter(f"universe must be a name or a universe, got {type(name).__name__}.")
    if name in _NAMED:
        return _NAMED[name]()
    if found := re.fullmatch(r"words:([0-9]{1,4})(?::(.+))?", name, re.S):
        return Words(int(found[1]), found[2] or string.ascii_lowercase)
    if found := re.fullmatch(r"strings:([0-9]{1,4}):(.+)", name, re.S):
        return FixedStrings(int(found[1]), found[2])
    if found := re.fullmatch(r"integers:(-?[0-9]{1,20})\.\.(-?[0-9]{1,20})", name):
        return IntegerRange(int(found[1]), int(found[2]))
    raise InvalidParameter(
        f"there is no universe {name[:40]!r}; the names are {', '.join(_NAMED)}, words:12, strings:4:ACGT and "
        "integers:0..99."
    )
