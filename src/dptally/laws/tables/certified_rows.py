"""Draws from rows that are made when they are needed, each verified before it is drawn from."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from dptally import _core
from dptally.errors import PrivacyViolation
from dptally.laws.tables.sampled_rows import SampledRows
from dptally.randomness import BitSource
from dptally.verifiers.tables import Band, Certificate, certify_bands

_FIRST_ROWS = 2048
_KEPT = 1 << 13


class CertifiedRows:
    """The rows of a law, certified row by row.

    The certificate is for the first rows, a fixed number of them, so that it tells nothing about the data. A row beyond
    them is judged against both its neighbours when a key of its frequency is first drawn for. That all the rows between
    keep delta too is the builder's argument: every term of its recursion is a constraint of the judge's sum, rounded to
    the safe side, with delta lowered by what rounding can add up to over a row. Epsilon and delta are what one key's
    law must keep.
    """

    def __init__(self, rows: SampledRows, *, epsilon: Fraction, delta: Fraction) -> None:
        self._rows = rows
        self._epsilon, self._delta = epsilon, delta
        self._samplers: dict[int, tuple[_core.ShiftTable, Band]] = {}

    @cached_property
    def certificate(self) -> Certificate:
        """The verifier's finding on the first rows."""
        bands = self._rows.bands(range(1, _FIRST_ROWS + 1))
        return certify_bands(bands, epsilon=self._epsilon, delta=self._delta)

    def draw(self, frequencies: NDArray[np.int64], bits: BitSource) -> NDArray[np.int64]:
        """One independent draw for each frequency; 0 means not reported.

        Postcondition: for frequencies from 0 to 2^62 and uniform words, results are independent and follow the rows,
        each of which has passed the verifier. A draw takes 128 random bits, for frequency 0 too, in the order of keys:
        which bits are a key's does not depend on the frequencies of others.
        """
        reported = np.zeros(len(frequencies), dtype=np.int64)
        words = bits.words(2 * len(frequencies)).reshape(-1, 2)
        for sampler, band, keys in self.by_frequency(frequencies):
            drawn = np.empty(len(keys), dtype=np.int64)
            sampler.draw(np.full(len(keys), band.top, dtype=np.int64), words[keys].reshape(-1), drawn)
            if not band.sure:
                drawn[drawn == band.top - len(band.thresholds) // 16] = 0  # passed all thresholds: not reported
            reported[keys] = drawn
        return reported

    def _judge(self, run: list[Band]) -> None:
        """Verify a row beside its neighbours; the refusal does not name them: their frequencies are private."""
        refused = False
        try:
            certify_bands(run, epsilon=self._epsilon, delta=self._delta)
        except PrivacyViolation:
            refused = True
        if refused:
            raise PrivacyViolation("a row that was about to be sampled from exceeds its delta; nothing was released.")

    def by_frequency(
        self, frequencies: NDArray[np.int64]
    ) -> Iterator[tuple[_core.ShiftTable, Band, NDArray[np.int64]]]:
        """For each frequency above 0 that occurs: its certified row, and the places where it occurs."""
        order = np.argsort(frequencies, kind="stable")
        distinct, starts = np.unique(frequencies[order], return_index=True)
        places = np.split(order, starts)[1:]  # of no frequencies at all, none
        wanted = {int(frequency): keys for frequency, keys in zip(distinct, places, strict=True) if frequency > 0}
        for sampler, band in self._certified(list(wanted)):
            yield sampler, band, wanted[band.frequency]

    def _certified(self, frequencies: list[int]) -> Iterator[tuple[_core.ShiftTable, Band]]:
        """Samplers for sorted frequencies, after the verifier has seen each row beside its neighbours."""
        missing = [frequency for frequency in frequencies if frequency not in self._samplers]
        for frequency in frequencies:
            if frequency in self._samplers:
                yield self._samplers[frequency]
        needed = set(missing)
        beside = sorted({near for frequency in missing for near in (frequency - 1, frequency, frequency + 1)} - {0})
        before: list[Band] = []
        for band in self._rows.bands(beside):
            before = [*before[-2:], band]
            middle = band.frequency - 1
            if middle not in needed:
                continue
            run = [seen for seen in before if middle - 1 <= seen.frequency]
            self._judge(run)
            row = next(seen for seen in run if seen.frequency == middle)
            sampler = (_core.ShiftTable(np.frombuffer(row.thresholds, dtype=np.uint8)), row)
            if len(self._samplers) < _KEPT:
                self._samplers[middle] = sampler
            yield sampler
