"""Builder of the optimal law for a weighted sample, row by row, in integers.

In what follows N = 2^127, a <= e^epsilon and b <= e^-epsilon are rational, Q_i = floor(N q_i) for the sampling scheme,
and Delta is N delta, rounded down and, with values, lowered by a few units per column for the rounding below.

Keys [CGSS21, Algorithm 3]. P_i / N is the probability that a key of frequency i is sampled and reported:

    P_i = min(Q_i, floor(a P_{i-1}) + Delta, N - ceil((N - P_{i-1} - Delta) / a)),  P_0 = 0.

Values. Let G_i(x) / N be the probability of reporting a value above x. Columns x are independent of each other
(Algorithms 4 and 5 of [CGSS21], the latter corrected by the factor e^epsilon that its equation for b_i lacks):

    G_i(x) = min{P_i, a G + Delta, N - (N - G - Delta) / a, P_i + (G + Delta - P_{i-1}) / a},  G = G_{i-1}(x),

every term rounded down; a column x in (k-1, k] is born at row k as min(P_k, Delta) (k - x). One column per whole number
is Algorithm 4; M columns per whole number (`sub_tokens`) approach Algorithm 5. A row is the differences of its tails.

What makes far rows cheap: row i depends only on P_{i-1}, ..., P_{i-W} for the columns that are not full, because a
column that has reached P stays there. So a row may be computed from any start from which its oldest column gets full,
and frequencies of 10^12 need no table below them.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Iterator
from fractions import Fraction
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from dptally import _core
from dptally.errors import InvalidParameter
from dptally.exact import exp_bounds
from dptally.laws.sampling_schemes import UNIT_BITS, Ppswor, Scheme
from dptally.verifiers.tables import Band

_WHOLE = 1 << UNIT_BITS
LARGEST_TABLE = 1 << 24  # rows of P that are listed one by one
_BLOCK, _BLOCKS_KEPT = 512, 1024
_STEADY = 64  # rows with P = Q in a row after which Lemma 4.4 is relied on


class Column:
    """One value, frequency by frequency from `first` on; masses in units of 2^-128."""

    def __init__(self, value: int, first: int) -> None:
        self.value, self.first = value, first
        self.at_least: list[int] = []  # mass of this value or a larger one
        self.above: list[int] = []  # mass of a larger one
        self.reported: list[int] = []  # mass of being reported

    def add(self, at_least: int, above: int, reported: int) -> None:
        """Go on to the next frequency."""
        self.at_least.append(at_least)
        self.above.append(above)
        self.reported.append(reported)

    @property
    def ended(self) -> bool:
        """Whether the value has become impossible: every report is of a larger one."""
        return 0 < self.above[-1] == self.reported[-1]

    @property
    def most_likely(self) -> int:
        """The frequency that makes the value most likely; the smallest, if several do."""
        masses = [here - more for here, more in zip(self.at_least, self.above, strict=True)]
        return self.first + masses.index(max(masses))


class SampledRows:
    """Rows of the law for one scheme, made when they are asked for.

    Epsilon and delta are what one key's law must keep; `sub_tokens` is how many values stand for one unit of frequency.
    """

    def __init__(self, epsilon: Fraction, delta: Fraction, scheme: Scheme, *, values: bool, sub_tokens: int) -> None:
        self._scheme = scheme
        self._constant_from = scheme.certain_from
        self._values = values
        self.sub_tokens = sub_tokens
        low, high = exp_bounds(epsilon, 256)
        self._growth_shift = 128 - math.floor(high).bit_length()
        self._growth = math.floor(low * (1 << self._growth_shift))
        self._shrink_shift = 127 + math.floor(high).bit_length()
        self._shrink = math.floor((1 << self._shrink_shift) / high)
        rate, chance = float(epsilon), float(delta)
        turn = math.log((math.expm1(rate) + 2 * chance) / (chance * (math.expm1(rate) + 2))) / rate
        if 4 * turn * sub_tokens > LARGEST_TABLE:
            raise InvalidParameter(f"epsilon is too small: rows would have more than {LARGEST_TABLE} values.")
        self._likely_width = 2 * math.ceil(turn) + 3
        spare = math.ceil(1 + high) * (4 * self._likely_width * sub_tokens + 8) if values else 0
        self._delta = math.floor(delta * _WHOLE) - spare
        if self._delta <= 0:
            raise InvalidParameter(
                "epsilon is too large for so small a delta: the table would need more than 127 bits."
            )
        self._blocks: dict[int, list[int]] = {}
        self._listed = [0]  # P_0, P_1, ...
        self._steady = 0  # how many of the last ones equal Q
        self._lasting = 0  # how many of the last ones are equal, once the scheme is constant

    # ---- keys ----

    def reported(self, first: int, last: int) -> list[int]:
        """P_i for i = first .. last."""
        self._list_up_to(last)
        listed = self._listed[first : last + 1]
        missing = range(max(first, len(self._listed)), last + 1)
        if not missing:
            return listed
        if self._constant_from is not None:
            return [*listed, *([self._listed[-1]] * len(missing))]
        return [*listed, *self._far(missing[0], missing[-1])]

    def _far(self, first: int, last: int) -> list[int]:
        """Q_i for i = first .. last, computed in blocks that neighbouring rows share."""
        found: list[int] = []
        for number in range(first // _BLOCK, last // _BLOCK + 1):
            start = number * _BLOCK
            if number not in self._blocks:
                if len(self._blocks) >= _BLOCKS_KEPT:
                    self._blocks.clear()
                self._blocks[number] = self._scheme.floors(start, start + _BLOCK - 1)
            found += self._blocks[number][max(first - start, 0) : last - start + 1]
        return found

    @property
    def listed_to_end(self) -> bool:
        """Whether all later P are known without listing them: constant, or equal to Q by Lemma 4.4."""
        return self._lasting > 1 or (self._closed_form and self._steady >= _STEADY)

    @property
    def _closed_form(self) -> bool:
        # [CGSS21, Lemma 4.4 and A.3]: for ppswor with power 1, once pi = q it stays so.
        return isinstance(self._scheme, Ppswor) and self._scheme.power == 1

    def _list_up_to(self, last: int) -> None:
        piece = 1024
        while len(self._listed) <= last and not self.listed_to_end:
            if len(self._listed) > LARGEST_TABLE:
                raise InvalidParameter(
                    f"a frequency is too large for this scheme: more than {LARGEST_TABLE} rows would have to be listed."
                )
            start = len(self._listed)
            for frequency, ceiling in enumerate(self._scheme.floors(start, start + piece - 1), start=start):
                self._list_one(frequency, ceiling)
                if self.listed_to_end:
                    return
            piece = min(2 * piece, 1 << 17)

    def _list_one(self, frequency: int, ceiling: int) -> None:
        before = self._listed[-1]
        grown = ((self._growth * before) >> self._growth_shift) + self._delta
        missing = _WHOLE - before - self._delta
        fallen = _WHOLE if missing <= 0 else _WHOLE - _ceil_times(missing, self._growth, self._growth_shift)
        now = min(ceiling, grown, fallen)
        self._listed.append(now)
        self._steady = self._steady + 1 if now == ceiling else 0
        constant = self._constant_from is not None and frequency > self._constant_from
        self._lasting = self._lasting + 1 if constant and now == before else 0

    # ---- rows ----

    def bands(self, frequencies: Iterable[int]) -> Iterator[Band]:
        """The rows of the given frequencies, which must be sorted and at least 1, in the form that is drawn from."""
        sweep, at = None, -1
        for frequency in frequencies:
            if not self._values:
                yield self._key_band(frequency)
                continue
            if sweep is None or frequency - at > 3 * self._likely_width:
                sweep, at = self._fresh_sweep(frequency)
            if frequency > at:
                self._advance(sweep, at, frequency)
                at = frequency
            yield self._band(sweep, frequency)

    def columns(self, values: Iterable[int]) -> Iterator[Column]:
        """For each of the given values, which must be sorted: how likely it is, frequency by frequency.

        A column starts at the first frequency that can have the value and ends where larger values are certain among
        the reported ones, from where on it stays so. All columns are read off one sweep over the rows.
        """
        pending = deque(values)
        active: deque[Column] = deque()
        here = 0

        def wanted() -> Iterator[int]:
            nonlocal here
            while active or pending:
                here = here + 1 if active else max(here + 1, -(-pending[0] // self.sub_tokens))
                yield here

        for band in self.bands(wanted()):
            while pending and -(-pending[0] // self.sub_tokens) <= band.frequency:
                active.append(Column(pending.popleft(), band.frequency))
            whole = band.cumulative(band.top)
            for column in active:
                column.add(
                    band.cumulative(band.top - column.value), band.cumulative(band.top - column.value - 1), whole
                )
            while active and active[0].ended:
                yield active.popleft()

    def _key_band(self, frequency: int) -> Band:
        reported = self.reported(frequency, frequency)[0]
        sure = reported == _WHOLE
        return Band(frequency, 1, b"" if sure else (2 * reported).to_bytes(16, "little"), sure)

    def _fresh_sweep(self, frequency: int) -> tuple[_core.TailSweep, int]:
        """A sweep whose oldest column is full at `frequency`, so that it knows all columns that are not."""
        width = self._likely_width
        while True:
            start = max(0, frequency - width)
            numbers = _words([self._growth, self._shrink, self._delta])
            sweep = _core.TailSweep(numbers, self._growth_shift, self._shrink_shift, self.sub_tokens)
            self._advance(sweep, start, frequency)
            if start == 0 or sweep.full() > 0:
                return sweep, frequency
            width *= 2

    def _advance(self, sweep: _core.TailSweep, at: int, frequency: int) -> None:
        masses = self.reported(at, frequency)
        base = _WHOLE - _ceil_times(_WHOLE - self._delta, self._growth, self._growth_shift)
        steps = []
        for before, now in pairwise(masses):
            debt = before - self._delta
            if debt > 0:
                owed = _ceil_times(debt, self._growth, self._growth_shift)
            else:
                owed = -((-debt * self._shrink) >> self._shrink_shift)
            steps += [now, min(base, now - owed)]
        sweep.advance(_words(steps))

    def _band(self, sweep: _core.TailSweep, frequency: int) -> Band:
        thresholds = sweep.thresholds()
        reported = self.reported(frequency, frequency)[0]
        return Band(frequency, frequency * self.sub_tokens, thresholds, reported == _WHOLE)


def _words(numbers: list[int]) -> NDArray[np.uint64]:
    """Numbers as pairs of 64-bit words, low word first."""
    return np.frombuffer(b"".join(number.to_bytes(16, "little") for number in numbers), dtype=np.uint64)


def _ceil_times(number: int, growth: int, shift: int) -> int:
    """ceil(number / (growth / 2^shift))."""
    return -((-number << shift) // growth)
