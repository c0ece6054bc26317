"""The law of a Misra-Gries sketch that is released: two noises for each counter, one of them shared by all."""

from __future__ import annotations

from fractions import Fraction
from functools import cached_property
from operator import mul
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from dptally.exact import as_count, as_delta, as_epsilon, exp_bounds
from dptally.exact.powers import power_bounds
from dptally.exact.searching import first_where
from dptally.laws.base import Parameters, as_frequencies, as_given, read_flag
from dptally.laws.inversion import FrequencyEstimates
from dptally.laws.tables.certified_table import CertifiedTable
from dptally.laws.tables.two_sided_geometric import noise_masses, noise_table
from dptally.laws.thresholded_noise import ThresholdedNoise, read_entries
from dptally.randomness import BitSource
from dptally.verifiers.sketches import certify_shared_noise
from dptally.verifiers.tables import TABLE_BITS

_WHOLE = 1 << TABLE_BITS
_PRECISION = 512
LARGEST_CAPACITY = 1 << 30


class SharedNoise(ThresholdedNoise):
    """Each counter gets its own noise and one noise that all counters share; what is below a threshold is hidden.

    A key with counter c is reported with value c + L + eta if that is at least T. L, one for each key, and eta, one for
    the whole release, have the same two-sided geometric law, which shrinks by e^epsilon per step. `row` and
    `reporting_probability` describe one key: the noise of one key is L + eta. Between keys it is not independent.

    T is the smallest threshold that can be proved for this noise table: see `certify_shared_noise` for the condition
    and its proof. It is about half of the printed 1 + 2 ln(3 / delta) / epsilon, and cannot be smaller.

    Guarantee:
        (epsilon, delta)-differential privacy for adding or removing up to `elements` elements of the stream that the
        sketch was made from, certified in integers on the table that is drawn from, before the first draw.

    Error:
        L + eta has variance about 4 / epsilon^2, on top of what the sketch falls short.
    Cost:
        A table of 2R numbers, R = 0.7 (64 + log2(1 / delta)) / epsilon.

    References:
        [LT25] Algorithm 2, Lemma 12, section 5.1 and Corollary 21; the smaller threshold is ours.

    Args:
        epsilon: positive.
        delta: from 2^-64 to below 1.
        capacity: of the sketch.
        standard: whether zero counters were dropped from the sketch, as other tools do.
        elements: how many elements of one unit the stream may hold, equal ones or not.

    >>> SharedNoise(1, "1e-6", 1000).threshold
    17
    """

    name = "shared_noise"
    stored_as = "SharedNoise"
    parameters: ClassVar[Parameters] = {
        "epsilon": str,
        "delta": str,
        "capacity": as_given,
        "standard": read_flag,
        "elements": as_given,
    }
    zero_is_hidden = False
    judged_for_unit = True

    def __init__(
        self, epsilon: object, delta: object, capacity: int, *, standard: bool = False, elements: int = 1
    ) -> None:
        self.epsilon = as_epsilon(epsilon)
        self.delta = as_delta(delta)
        self.capacity = as_count("capacity", capacity, largest=LARGEST_CAPACITY)
        self.standard = bool(standard)
        self.elements = as_count("elements", elements, largest=10_000)

    def invert_together(self, values: NDArray[np.int64], beta: Fraction, *, among: int) -> FrequencyEstimates:
        """Bounds for all counters, whose number is fixed: their noises are not independent."""
        return self.invert(values, beta / self.capacity)

    @cached_property
    def element_epsilon(self) -> Fraction:
        """What one element of the stream may spend."""
        return self.epsilon / self.elements

    @cached_property
    def element_delta(self) -> Fraction:
        """What one element of the stream may spend: delta / (1 + e^e + ... + e^((m-1) e)), rounded down."""
        high = exp_bounds(self.element_epsilon, _PRECISION)[1]
        total = power = Fraction(1)
        for _ in range(self.elements - 1):
            power = Fraction(-(-power * high * (1 << _PRECISION) // 1), 1 << _PRECISION)
            total += power
        return self.delta / total

    @property
    def differing(self) -> tuple[int, int]:
        """How many keys with counter 1, and with counter 0, one of two neighbouring sketches may have alone."""
        if self.standard:
            return self.capacity, 0
        return 1, 1 if self.capacity > 1 else 0

    @cached_property
    def table(self) -> bytes:
        """The law of L and of eta; see `certify_shared_noise`."""
        return noise_table(noise_masses(self.element_epsilon, self.element_delta))

    @cached_property
    def threshold(self) -> int:  # type: ignore[override]  # cached
        """T: the smallest that keeps delta, for this table."""
        single = (*read_entries(self.table), _WHOLE)  # P[D <= d] = P[noise >= R - d]
        reach = len(single) // 2
        masses = [here - before for before, here in zip((0, *single), single, strict=False)]
        # The law is symmetric: P[noise <= z] = P[noise >= -z] = P[D <= R + z], and 1 from z = R on.
        reached = [Fraction(at, _WHOLE) for at in single] + [Fraction(1)] * (2 * reach + 2)
        ones, zeros = ([power_bounds(at, keys, _PRECISION)[0] for at in reached] for keys in self.differing)
        # That no key which one sketch alone has gets above z = d - R: own noise below it, or one less with counter 1.
        quiet = [one * zero >> _PRECISION for one, zero in zip([0, *ones], zeros, strict=False)]
        # Moving the noise by one costs its last mass, m_R; rounded up generously, far below the delta that is left.
        allowed = self.element_delta - Fraction(2 * masses[0], _WHOLE)

        def leaks(threshold: int) -> bool:
            hidden = sum(map(mul, masses, quiet[threshold - 1 :]))  # over the shared noise R - d
            return Fraction((_WHOLE << _PRECISION) - hidden + _WHOLE * len(masses), _WHOLE << _PRECISION) > allowed

        return first_where(lambda least: not leaks(least), 1, 2 * reach + 2)  # nothing of counter 1 reaches the last

    @cached_property
    def cumulative(self) -> tuple[int, ...]:
        """P[D <= d] for D = 2R' - (L + eta) with R' the reach of one noise, in units of 2^-256."""
        from flint import fmpz_poly

        single = (*read_entries(self.table), _WHOLE)
        one = fmpz_poly([here - before for before, here in zip((0, *single), single, strict=False)])
        total, reached = 0, []
        for mass in (one * one).coeffs():
            total += int(mass)
            reached.append(total)
        return tuple(reached)

    @cached_property
    def _certified(self) -> CertifiedTable:
        ones, zeros = self.differing
        certificate = certify_shared_noise(
            self.table,
            threshold=self.threshold,
            ones=ones,
            zeros=zeros,
            elements=self.elements,
            epsilon=self.epsilon,
            delta=self.delta,
        )
        return CertifiedTable(self.table, certificate)

    def draw(self, frequencies: NDArray[np.int64], bits: BitSource) -> NDArray[np.int64]:
        """One release of all counters of a sketch, zero counters included; 0 means not reported.

        Postcondition: for counters from 0 to 2^62 and uniform words, results are c + L + eta where that is at least T,
        with L independent for each counter and eta drawn once for this call, both from the certified table. So one call
        is one release: all counters must be in it. It takes 128 random bits and a fixed number of table steps for each
        counter, and for eta.
        """
        counters = as_frequencies(frequencies)
        shared = int(self._certified.draw_noise(1, bits)[0])
        return self._certified.draw_above(counters + shared, self.threshold, bits)
