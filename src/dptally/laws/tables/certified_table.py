"""The only object that draws from a table: it cannot exist without a certificate."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dptally import _core
from dptally.randomness import BitSource
from dptally.verifiers.tables import Certificate

_BATCH = 1 << 14  # keys per call into the native core: 256 KB of random words, which stay in cache
_ENTRY = 16


class CertifiedTable:
    """A table of thresholds, little-endian 128-bit integers, and what a verifier found about it; draws from it.

    The native sampler copies the bytes once, here. Postcondition of all draws: for counts between 0 and 2^62 and
    uniform words, results are independent and follow the table exactly. Each takes 128 random bits and a number of
    table steps that depends on the length of the table alone. It fails only if the source of bits does.
    """

    def __init__(self, table: bytes, certificate: Certificate) -> None:
        self.certificate = certificate
        self._length = len(table) // _ENTRY
        self._sampler = _core.ShiftTable(np.frombuffer(table, dtype=np.uint8))

    def draw(self, counts: NDArray[np.int64], bits: BitSource) -> NDArray[np.int64]:
        """w - D for a count w where that is positive, else 0; D is how many thresholds are at most a random number."""
        reported = np.empty(len(counts), dtype=np.int64)
        for start in range(0, len(counts), _BATCH):
            part = slice(start, start + _BATCH)
            self._sampler.draw(counts[part], bits.words(2 * len(counts[part])), reported[part])
        return reported

    def draw_values(self, counts: NDArray[np.int64], bits: BitSource) -> NDArray[np.int64]:
        """Values of the optimal law: if c < 2w thresholds are at most a random number, w + 1 - ceil(c / 2), else 0.

        With r = 2w - c, which the native sampler gives where it is positive, that is 1 + floor(r / 2). From the end of
        the table on rows are shifts of each other: counts past it are lowered to it before they are doubled, and their
        values raised by as much.
        """
        near = np.minimum(counts, self._length // 2 + 2)
        drawn = self.draw(2 * near, bits)
        reported = drawn > 0
        drawn >>= 1
        drawn += reported
        drawn += counts - near
        return drawn

    def draw_noise(self, count: int, bits: BitSource) -> NDArray[np.int64]:
        """Noise R - D on -R .. R, where the table has 2R thresholds P[D <= d]."""
        reach = self._length // 2
        return self.draw(np.full(count, 2 * reach + 1, dtype=np.int64), bits) - (reach + 1)

    def draw_above(self, counts: NDArray[np.int64], threshold: int, bits: BitSource) -> NDArray[np.int64]:
        """Each count plus its own noise where that is at least the threshold (which is at least 1), else 0."""
        moved = np.maximum(counts + (self._length // 2 - threshold + 1), 0)
        reported = self.draw(np.ascontiguousarray(moved), bits)
        reported += (threshold - 1) * (reported > 0)
        return reported
