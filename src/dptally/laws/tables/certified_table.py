"""The only objects that draw: they cannot exist without a certificate."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from dptally import _core
from dptally.randomness import BitSource
from dptally.verifiers.tables import Certificate, certify_shift_table, certify_value_table

_BATCH = 1 << 14  # keys per call into the native core: 256 KB of random words, which stay in cache


class CertifiedShiftTable:
    """A table of thresholds that has passed the verifier, and draws from it.

    The bytes are immutable and are the ones the certificate's hash is of; the native sampler copies them once, here.
    For the table see `certify_shift_table`; epsilon and delta are what one key's law must keep. Raises PrivacyViolation
    if the table does not keep it.
    """

    def __init__(self, table: bytes, *, values: bool, epsilon: Fraction, delta: Fraction) -> None:
        self._table = bytes(table)
        self._values = values
        self.certificate = certify_shift_table(self._table, values=values, epsilon=epsilon, delta=delta)
        self._sampler = _core.ShiftTable(np.frombuffer(self._table, dtype=np.uint8))

    def draw(self, frequencies: NDArray[np.int64], bits: BitSource) -> NDArray[np.int64]:
        """Report w - D where positive, else 0; without values, 1 instead of the value.

        Postcondition: for frequencies w between 0 and 2^62 and uniform words, results are independent and follow the
        certified law exactly. Each draw takes 128 random bits and a number of table steps that depends on the length of
        the table alone. It fails only if the source of bits does.
        """
        reported = _draw(self._sampler, frequencies, bits)
        if not self._values:
            np.minimum(reported, 1, out=reported)
        return reported


class CertifiedValueTable:
    """A table of the optimal law with values that has passed the verifier, and draws from it.

    For the table see `certify_value_table`; epsilon and delta are what one key's law must keep. Raises PrivacyViolation
    if the table does not keep it.
    """

    def __init__(self, table: bytes, *, epsilon: Fraction, delta: Fraction) -> None:
        self._table = bytes(table)
        self.certificate = certify_value_table(self._table, epsilon=epsilon, delta=delta)
        self._sampler = ValueSampler(self._table)

    def draw(self, frequencies: NDArray[np.int64], bits: BitSource) -> NDArray[np.int64]:
        """Values, or 0 where a key is not reported.

        Postcondition: for frequencies w between 0 and 2^62 and uniform words, results are independent and follow the
        certified law exactly. Each draw takes 128 random bits and a number of table steps that depends on the length of
        the table alone. It fails only if the source of bits does.
        """
        return self._sampler.draw(frequencies, bits)


class ValueSampler:
    """Draws from a table of the optimal law with values, verified or not."""

    def __init__(self, table: bytes) -> None:
        self._end = len(table) // 32 + 2  # from here on rows are shifts of each other
        self._sampler = _core.ShiftTable(np.frombuffer(table, dtype=np.uint8))

    def draw(self, frequencies: NDArray[np.int64], bits: BitSource) -> NDArray[np.int64]:
        """If c < 2w thresholds are at most a random number, w + 1 - ceil(c / 2), else 0.

        With r = 2w - c, which the native sampler gives where it is positive, that is 1 + floor(r / 2). Frequencies past
        the end of the table are lowered to it before they are doubled, and their values raised by as much.
        """
        near = np.minimum(frequencies, self._end)
        drawn = _draw(self._sampler, 2 * near, bits)
        reported = drawn > 0
        drawn >>= 1
        drawn += reported
        drawn += frequencies - near
        return drawn


class CertifiedNoise:
    """A table of noise on -R .. R that has passed a verifier of its own, and draws from it.

    The table has 2R thresholds as little-endian 128-bit integers: P[D <= d] for the noise R - D.
    """

    def __init__(self, table: bytes, certificate: Certificate) -> None:
        self.certificate = certificate
        self._reach = len(table) // 32
        self._sampler = _core.ShiftTable(np.frombuffer(table, dtype=np.uint8))

    def draw_noise(self, count: int, bits: BitSource) -> NDArray[np.int64]:
        """Independent noise: 128 random bits and a fixed number of table steps for each."""
        always = np.full(count, 2 * self._reach + 1, dtype=np.int64)
        return _draw(self._sampler, always, bits) - (self._reach + 1)

    def draw_above(self, counts: NDArray[np.int64], threshold: int, bits: BitSource) -> NDArray[np.int64]:
        """Each count plus its own noise where that is at least the threshold (which is at least 1), else 0."""
        moved = np.maximum(counts + (self._reach - threshold + 1), 0)
        reported = _draw(self._sampler, np.ascontiguousarray(moved), bits)
        reported += (threshold - 1) * (reported > 0)
        return reported


def _draw(sampler: _core.ShiftTable, frequencies: NDArray[np.int64], bits: BitSource) -> NDArray[np.int64]:
    """w - D where positive, else 0."""
    reported = np.empty(len(frequencies), dtype=np.int64)
    for start in range(0, len(frequencies), _BATCH):
        part = slice(start, start + _BATCH)
        sampler.draw(frequencies[part], bits.words(2 * len(frequencies[part])), reported[part])
    return reported
