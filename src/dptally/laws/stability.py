"""The stability-based histogram with whole-number noise: the classical baseline, in exact integers."""

from __future__ import annotations

import hashlib
import math
from dataclasses import replace
from fractions import Fraction
from functools import cached_property
from typing import ClassVar

from dptally.exact import as_delta, as_epsilon
from dptally.exact.searching import first_where
from dptally.laws.base import Parameters, read_flag
from dptally.laws.tables.certified_table import CertifiedTable
from dptally.laws.tables.two_sided_geometric import noise_masses, noise_table
from dptally.laws.thresholded_noise import ENTRY_BYTES, ThresholdedNoise
from dptally.verifiers.profiles import Profile, raise_by_first_row, shift_profile
from dptally.verifiers.tables import TABLE_BITS, Band, Certificate, certify_bands, certify_shift_table

_WHOLE = 1 << TABLE_BITS


class Stability(ThresholdedNoise):
    """Noise is added to each frequency, and what falls below a threshold is not reported.

    A key of frequency w >= 1 is reported with value w + Z if that is at least T, and not at all otherwise. Z is one
    fixed symmetric law on -R .. R whose masses shrink by a factor e^epsilon with every step away from 0 (the two-sided
    geometric law, cut where its tail is below 2^-64 of delta; see `two_sided_masses`). T is the smallest threshold, of
    1 and above, that keeps delta. Keys of frequency 0 are never reported.

    Why finitely many rows suffice. Put D = R - Z, which has a law on 0 .. 2R, and s = R - T + 1. Row w of this law is
    then "report w + s - D if positive", with T - 1 added to the value, which renames outcomes and changes no
    divergence. So rows i and i - 1 for i >= 2 are rows i + s and i + s - 1 of the law "report w - D if positive", all
    of whose neighbouring rows are judged by `certify_shift_table`, which also has the argument for rows so high that a
    key is always reported. One pair is left: row 1 beside row 0, where nothing is reported. It is verified on its own,
    and it is the one that decides T.

    Guarantee:
        (epsilon, delta)-differential privacy for adding or removing one unit that counts once for one key, certified in
        integers on the table that is drawn from, before the first draw.

    Error:
        Keys of frequency i are reported with probability P[Z >= T - i]. `WeightedSample` reports every frequency at
        least as often, for the same guarantee.
    Cost:
        A table of 2R numbers, R = 0.7 (64 + log2(1 / delta)) / epsilon.

    References:
        [CGSS21] section 8.1, Algorithm 6, which has real-valued noise and a threshold that leaves half of delta unused.

    Args:
        epsilon: positive; see `dptally.exact.as_fraction` for how numbers are read.
        delta: from 2^-64 to below 1.
        values: whether values are reported with the keys.

    >>> law = Stability("1", "1/1000000")
    >>> law.threshold, float(law.reporting_probability(law.threshold))
    (15, 0.7310585786300049)
    """

    name = "stability histogram"
    stored_as = "Stability"
    parameters: ClassVar[Parameters] = {"epsilon": str, "delta": str, "values": read_flag}

    def __init__(self, epsilon: object, delta: object, values: bool = True) -> None:
        self.epsilon = as_epsilon(epsilon)
        self.delta = as_delta(delta)
        self.values = bool(values)

    # ---- the table ----

    @cached_property
    def table(self) -> bytes:
        """P[D <= d] for d = 0 .. 2R-1 in units of 2^-128, as little-endian 128-bit integers."""
        return noise_table(noise_masses(self.epsilon, self.delta))

    @cached_property
    def threshold(self) -> int:  # type: ignore[override]  # cached
        """T: the smallest value that is reported, the smallest that keeps delta.

        Row 1 reports a key with probability P[Z >= T - 1] = P[D <= R - T + 1], and row 0 does not: this must be at most
        delta. It is the only constraint on T, and what remains of delta at T is what a step of the table leaves over.
        """
        allowed = self.delta * _WHOLE
        # R is far beyond the threshold that keeps delta.
        return first_where(lambda least: self.cumulative[self.reach - least + 1] <= allowed, 1, self.reach + 1)

    # ---- the contract ----

    @cached_property
    def _certified(self) -> CertifiedTable:
        claimed = {"epsilon": self.epsilon, "delta": self.delta}
        return CertifiedTable(self.table, certify_shift_table(self.table, values=self.values, **claimed))

    @cached_property
    def _certificate(self) -> Certificate:
        others = self._certified.certificate
        first = certify_bands([self._first_band()], epsilon=self.epsilon, delta=self.delta)
        # Each mass is at most a times its neighbours, so other pairs differ by P[Z = R] only, a part of what row 1 has.
        worst_delta, pair = first.worst_delta, first.worst_pair
        if others.worst_delta > worst_delta:
            higher, lower = others.worst_pair
            worst_delta, pair = others.worst_delta, (max(1, higher - self.shift), max(1, lower - self.shift))
        digest = hashlib.sha256(b"%d;" % self.threshold + self.table).hexdigest()
        return replace(
            first,
            worst_delta=worst_delta,
            worst_pair=pair,
            rows_checked=others.rows_checked + 1,
            table_sha256=digest,
            total_delta=worst_delta,
        )

    def _first_band(self) -> Band:
        """Row 1 as it is drawn from: the first s + 1 thresholds, beyond which nothing is reported."""
        reported = self.table[: ENTRY_BYTES * (self.shift + 1)]
        if self.values:
            return Band(1, 1 + self.reach, reported, sure=False)
        return Band(1, 1, reported[-ENTRY_BYTES:], sure=False)

    def certify(self) -> Certificate:
        """Verify the table that is drawn from, with its threshold."""
        return self._certificate

    def profile(self, step: Fraction) -> Profile:
        """That of the table, and of row 1 beside row 0."""
        points = math.ceil(self.epsilon / step) + 1
        found = shift_profile(self.table, values=self.values, step=step, points=points)
        raise_by_first_row(found, _WHOLE - self.cumulative[self.shift], step)
        return found
