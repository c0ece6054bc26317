"""Random words that belong to a row: the same secret and the same row give the same words, on whatever machine.

A stream of words (`SystemBits`) gives the next word to whoever asks next. Where a computation may be repeated (a task
of a cluster that is lost and run again, an engine that hands out keys in another order) the second run would draw anew,
and who sees both draws sees too much. Here the words of a row are a function of the row and of a secret that is drawn
once for a release. A repeated draw is the same draw.

**How.** A row of columns is written as a sequence of numbers (symbols) below 2^57, column after column: a null is 0; a
number is 1 and its two halves of 32 bits; a text of n bytes is n + 1 and its bytes, seven at a time, the last ones
filled up with zeros. No column's code is the beginning of another code of the same column, so different rows have
different sequences, and neither is the beginning of the other. With a leading 1 a sequence is a polynomial; h(row) is
the pair of its values at two secret points modulo 2^61 - 1. The words of the row are AES-256 of these 16 bytes, under a
secret key.

**Collisions.** For two rows of at most n symbols fixed without knowing the points, P[h(x) = h(y)] <= c = (9 n /
2^64)^2: their polynomials differ and are of degree at most n, so they agree in at most n places, each of which a point
taken from 64 uniform bits hits with probability at most 9 / 2^64; the points are independent. A row of a text of 20
bytes has 4 symbols: c < 2^-117.

**Why a release drawn so is private.** Let a mechanism draw for every key independently, each from its own 128 uniform
bits, and let this be (epsilon, delta)-differentially private for units that change the counts of at most l keys.

1. Replace AES by a uniform permutation P of 128-bit blocks, and what is derived from the secret by uniform bits. Nobody
   who sees releases can tell, under the assumption of `dptally.randomness.bits` (a release depends on the secret
   through these values alone).
2. Take two data sets that differ in one unit. For all keys but l of them the counts, and so the draws, are the same
   function of h and P in both. Fix h, and P on the hashes of these other keys, K of them. If no hash of the l keys is
   among those or met twice, the blocks of the l keys are uniform among those not taken, hence within l K / 2^128 of
   independent uniform blocks: nothing is left of the other keys. Then the two releases are (epsilon, delta)-close, up
   to that distance. The others are mixed over h and P alike in both.
3. The hashes meet with probability at most l K c, whatever the data.

Together (epsilon, delta + l K (c + 2^-128)): with 10^12 keys of up to 50 symbols and l = 8 that is below 2^-67 more,
less than what rounding takes elsewhere; and with 10^7 keys of 20 bytes below 2^-90. Only collisions with one of the l
keys count: that two of the other keys share their words changes both releases alike. (Bits are secret; a collision
cannot be sought.) The choice of a unit's keys by tags (`tags`) is argued in the same way: a unit's tags are independent
of the choices of the others unless one of its hashes meets one of theirs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from numpy.typing import NDArray

from dptally import _core
from dptally.errors import InvalidParameter, InvalidSource, attempt
from dptally.exact.integer_columns import buffer_of
from dptally.randomness.bits import BitSource

SECRET_BYTES = 32
_BLOCK = 16
_NONE = np.empty(0, dtype=np.uint8)


def draw_secret(bits: BitSource) -> bytearray:
    """A secret of 256 bits, to be overwritten (``secret[:] = bytes(32)``) once the release it serves is fixed."""
    return bytearray(bits.words(SECRET_BYTES // 8).astype("<u8").tobytes())


class KeyedWords:
    """Words that are a function of a row and of a secret.

    Postcondition: for a uniform secret, the words of different rows are independent and uniform, and those of `words`,
    `tags` and `stream` are independent of each other, up to what the module states. A row's words depend on the values
    of its columns alone: not on their order, on other rows, or on how wide an integer or a decimal is stored, or on the
    unit of a timestamp up to microseconds.

    Args:
        secret: 32 bytes, from `draw_secret`. What is derived from them is kept; they are not.
        private: whether the secret is one.
    """

    def __init__(self, secret: bytes | bytearray, *, private: bool) -> None:
        if len(secret) != SECRET_BYTES:
            raise InvalidParameter("a secret must have 32 bytes.")
        self.private = private
        # 16 bytes of points for each purpose, then a key for each purpose; two keys for the keys of streams.
        expanded = Cipher(algorithms.AES(bytes(secret)), modes.CTR(bytes(16))).encryptor().update(bytes(176))
        points, keys = np.frombuffer(expanded[:48], dtype="<u8").astype(np.uint64), expanded[48:]
        self._hashes = [_core.RowHash(points[at : at + 2].copy()) for at in (0, 2, 4)]
        # One block each, all different: ECB of hashes is the permutation itself.
        self._ciphers = [
            Cipher(algorithms.AES(keys[at : at + 32]), modes.ECB()).encryptor()  # noqa: S305
            for at in (0, 32, 64, 96)
        ]

    def words(self, columns: Sequence[pa.Array]) -> NDArray[np.uint64]:
        """Two words for each row, in the order of rows; for draws."""
        return self._encrypted(0, self._hashed(0, columns))

    def tags(self, columns: Sequence[pa.Array]) -> NDArray[np.uint64]:
        """One word for each row, independent of `words`; for choices among rows."""
        return np.ascontiguousarray(self._encrypted(1, self._hashed(1, columns))[::2])

    def of_rows(self, columns: Sequence[pa.Array]) -> WordsOfRows:
        """The words of these rows as a source of bits for a law that takes two words for each row, in their order."""
        return WordsOfRows(self, columns)

    def stream_keys(self, columns: Sequence[pa.Array]) -> list[bytes]:
        """A key of 256 bits for each row, independent of `words` and `tags`."""
        blocks = self._hashed(2, columns)
        halves = [self._encrypted(number, blocks).astype("<u8").tobytes() for number in (2, 3)]
        places = range(0, len(halves[0]), _BLOCK)
        return [b"".join(half[at : at + _BLOCK] for half in halves) for at in places]

    def _hashed(self, number: int, columns: Sequence[pa.Array]) -> NDArray[np.uint64]:
        state = np.ones(2 * len(columns[0]), dtype=np.uint64)
        for column in columns:
            _absorb(self._hashes[number], column, state)
        return state

    def _encrypted(self, number: int, blocks: NDArray[np.uint64]) -> NDArray[np.uint64]:
        plain = blocks.astype("<u8", copy=False)
        found = bytearray(plain.nbytes + _BLOCK - 1)
        self._ciphers[number].update_into(plain.tobytes(), found)
        return np.frombuffer(found, dtype="<u8", count=len(plain)).astype(np.uint64, copy=False)

    def __repr__(self) -> str:
        return "KeyedWords()"

    def __reduce__(self) -> str:
        raise TypeError("keyed words cannot be copied or pickled: they hold a secret")


class WordsOfRows:
    """The words of given rows, two for each, handed out in the order of the rows: a `BitSource` of limited length."""

    def __init__(self, keyed: KeyedWords, columns: Sequence[pa.Array]) -> None:
        self._keyed = keyed
        self._columns = columns
        self._words = keyed.words(columns)
        self._used = 0

    @property
    def private(self) -> bool:
        """Whether the secret is one."""
        return self._keyed.private

    def words(self, count: int) -> NDArray[np.uint64]:
        """The next `count` words.

        Raises:
            InvalidParameter: a law asks for more than two words for each row.
        """
        start, self._used = self._used, self._used + count
        if self._used > len(self._words):
            raise InvalidParameter("this law takes more random words than belong to its keys.")
        return self._words[start : self._used]

    def streams(self, places: NDArray[np.int64]) -> StreamsOfRows:
        """For each of these rows, as many words as are wanted: a function of the row and the secret too."""
        chosen = pa.array(places)
        keys = self._keyed.stream_keys([column.take(chosen) for column in self._columns])
        return StreamsOfRows([_Stream(key, private=self.private) for key in keys])


class WordsOfBlocks:
    """Two words for each block of 128 bits, a function of the block and a secret: a `BitSource` of limited length.

    Blocks are words of `KeyedWords.words`, which differ for different rows up to what the module states; AES-256 under
    the secret of 32 bytes permutes them.
    """

    def __init__(self, secret: bytes, blocks: NDArray[np.uint64], *, private: bool) -> None:
        self.private = private
        cipher = Cipher(algorithms.AES(secret), modes.ECB()).encryptor()  # noqa: S305 - the permutation itself
        self._words = _as_words(cipher.update(blocks.astype("<u8", copy=False).tobytes()))
        self._used = 0

    def words(self, count: int) -> NDArray[np.uint64]:
        """The next `count` words.

        Raises:
            InvalidParameter: more than two words for each block.
        """
        start, self._used = self._used, self._used + count
        if self._used > len(self._words):
            raise InvalidParameter("this law takes more random words than belong to its keys.")
        return self._words[start : self._used]


class StreamsOfRows:
    """A stream of words for each of some rows; see `dptally.randomness.thinning.Streams`."""

    def __init__(self, streams: list[_Stream]) -> None:
        self._streams = streams

    def one(self, owner: int) -> BitSource:
        """The stream of one row."""
        return self._streams[owner]

    def words_of(self, owners: NDArray[np.int64], counts: NDArray[np.int64]) -> NDArray[np.uint64]:
        """The next `counts[i]` words of the row `owners[i]`, one after the other."""
        pairs = zip(owners.tolist(), counts.tolist(), strict=True)
        return _as_words(b"".join([self._streams[owner].take(count) for owner, count in pairs]))


class _Stream:
    """AES-256-CTR under a key of its own."""

    def __init__(self, key: bytes, *, private: bool) -> None:
        self._cipher = Cipher(algorithms.AES(key), modes.CTR(bytes(16))).encryptor()
        self.private = private

    def take(self, count: int) -> bytes:
        """The next `count` words as bytes."""
        return self._cipher.update(bytes(8 * count))

    def words(self, count: int) -> NDArray[np.uint64]:
        """The next `count` words."""
        return _as_words(self.take(count))


def _as_words(taken: bytes) -> NDArray[np.uint64]:
    return np.frombuffer(bytearray(taken), dtype="<u8").astype(np.uint64, copy=False)


# ---- columns as words or texts ----


def _absorb(hashes: _core.RowHash, column: pa.Array, state: NDArray[np.uint64]) -> None:
    """Take a column in. What is written for a value does not depend on the engine that the column comes from."""
    if isinstance(column.type, pa.BaseExtensionType):
        column = column.storage
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    valid = _NONE
    if column.null_count:
        valid = buffer_of(column.is_valid().cast(pa.uint8()), np.uint8)
    kind = column.type
    if pa.types.is_string_view(kind) or pa.types.is_binary_view(kind) or pa.types.is_fixed_size_binary(kind):
        column = column.cast(pa.large_string() if pa.types.is_string_view(kind) else pa.large_binary())
        kind = column.type
    if pa.types.is_large_string(kind) or pa.types.is_large_binary(kind):
        hashes.absorb_large_texts(*_texts(column, np.int64), valid, state)
    elif pa.types.is_string(kind) or pa.types.is_binary(kind):
        hashes.absorb_texts(*_texts(column, np.int32), valid, state)
    elif pa.types.is_decimal(kind):
        halves = _halves(column)
        for half in (0, 1):
            hashes.absorb_words(np.ascontiguousarray(halves[half::2]), valid, state)
    else:
        hashes.absorb_words(_words(column), valid, state)


def _texts(column: pa.Array, offset: type[np.generic]) -> tuple[NDArray[Any], NDArray[np.uint8]]:
    if not len(column):
        return np.zeros(1, dtype=offset), _NONE
    _, offsets, data = column.buffers()
    places = np.frombuffer(offsets, dtype=offset, count=column.offset + len(column) + 1)[column.offset :]
    return places, np.frombuffer(data, dtype=np.uint8) if data is not None and data.size else _NONE


def _halves(column: pa.Array) -> NDArray[np.uint64]:
    wide = column.cast(pa.decimal128(38, column.type.scale))
    if not len(wide):
        return np.empty(0, dtype=np.uint64)
    numbers = np.frombuffer(wide.buffers()[1], dtype="<u8")[2 * wide.offset : 2 * (wide.offset + len(wide))]
    return numbers.astype(np.uint64, copy=False)


def _words(column: pa.Array) -> NDArray[np.uint64]:
    """64 bits for each value; those of nulls are not looked at."""
    kind = column.type
    if pa.types.is_null(kind):
        return np.zeros(len(column), dtype=np.uint64)
    if pa.types.is_floating(kind):
        return _float_bits(column)
    if pa.types.is_boolean(kind) or pa.types.is_unsigned_integer(kind):
        return buffer_of(column.cast(pa.uint64()), np.uint64)
    if pa.types.is_timestamp(kind) and kind.unit in ("s", "ms"):
        column = _finer(column, pa.timestamp("us", kind.tz))
    elif pa.types.is_time32(kind):
        column = column.cast(pa.time64("us"))
    elif pa.types.is_date64(kind):
        column = column.cast(pa.date32())
    if pa.types.is_date32(column.type):
        column = column.cast(pa.int32())
    elif pa.types.is_timestamp(column.type) or pa.types.is_time64(column.type):
        column = column.cast(pa.int64())
    if not pa.types.is_signed_integer(column.type):
        raise InvalidSource(f"keys of the type {kind} cannot be drawn for.")
    return buffer_of(column.cast(pa.int64()), np.int64).view(np.uint64)


def _finer(column: pa.Array, kind: pa.DataType) -> pa.Array:
    too_far = InvalidSource("a timestamp lies further from 1970 than microseconds in 64 bits reach.")
    return attempt(lambda: column.cast(kind), lambda _: too_far, pa.ArrowInvalid)


def _float_bits(column: pa.Array) -> NDArray[np.uint64]:
    """The bits of a float, of one NaN for all and without a negative zero."""
    whole, number = (np.uint64, np.float64) if column.type == pa.float64() else (np.uint32, np.float32)
    values = buffer_of(column if column.type == pa.float64() else column.cast(pa.float32()), number) + number(0)
    bits: NDArray[Any] = np.where(np.isnan(values), number(np.nan), values).view(whole)
    return bits.astype(np.uint64)
