"""The exact privacy profiles of tables: upper bounds of the divergence of neighbouring rows, at many factors.

For a law whose rows are certified at one factor e^epsilon, the same sums are taken here at e^(j g) for j = 0, 1, ...;
the argument why finitely many rows stand for all is the one of the verifier of that law (`certify_shift_table`,
`certify_value_table`, `Stability`), which nowhere uses the factor. A factor is replaced by a rational lower bound,
which only raises a divergence.
"""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise

from dptally.verifiers.loss_measures import ONE
from dptally.verifiers.tables import TABLE_BITS, exp_lower, read_thresholds

Profile = tuple[list[int], list[int]]
"""For factors e^(j g): upper bounds in units of 2^-320, of a row against the one below it, and the one above it."""
_WHOLE = 1 << TABLE_BITS
_PRECISION = 384


def shift_profile(table: bytes, *, values: bool, step: Fraction, points: int) -> Profile:
    """Divergences of neighbouring rows of the law "report w - D if positive", the higher row first and last.

    Rows and sums as in `dptally.verifiers.tables.certify_shift_table`, where the reason is that pairs up to the width
    of the table stand for all.

    Returns, for j = 0 .. points - 1, upper bounds of the divergence at e^(j step), in units of 2^-320: of each row
    against the one below it, and of each row against the one above it.
    """
    cumulative = [*read_thresholds(table), _WHOLE]
    width = len(cumulative)
    masses = [here - before for before, here in zip([0, *cumulative], cumulative, strict=False)]
    hidden = [_WHOLE, *(_WHOLE - reached for reached in cumulative), 0]  # of rows 0 .. W + 1
    ups: list[int] = []
    downs: list[int] = []
    for j in range(points):
        growth, one = exp_lower(j * step, _PRECISION)
        up = down = value_up = value_down = 0
        for row in range(1, width + 2):
            if values:
                before = masses[row - 2] if row >= 2 else 0
                here = masses[row - 1] if row <= width else 0
                # Value for value, both rows hold the same masses, one place apart.
                value_up += max(0, one * here - growth * before)
                value_down += max(0, one * before - growth * here)
            else:
                shown, shown_before = _WHOLE - hidden[row], _WHOLE - hidden[row - 1]
                value_up = max(0, one * shown - growth * shown_before)
                value_down = max(0, one * shown_before - growth * shown)
            up = max(up, value_up + max(0, one * hidden[row] - growth * hidden[row - 1]))
            down = max(down, value_down + max(0, one * hidden[row - 1] - growth * hidden[row]))
        ups.append(min(_units(up, one), *ups[-1:], ONE))
        downs.append(min(_units(down, one), *downs[-1:], ONE))
    return ups, downs


def value_profile(table: bytes, *, step: Fraction, points: int) -> Profile:
    """The same for the optimal law with values; rows as in `dptally.verifiers.tables.certify_value_table`."""
    reached = read_thresholds(table)
    width = (len(reached) + 1) // 2
    reached += [_WHOLE] * (2 * (width + 3) - len(reached))
    even, odd = reached[0::2], reached[1::2]
    drops = [0, even[0], *(here - before for before, here in pairwise(even))]  # before and at D = 0, 1, ...
    lowest = [0, *(here - below for below, here in zip(even, odd, strict=True))]
    hidden = [_WHOLE, *(_WHOLE - here for here in odd)]
    ups: list[int] = []
    downs: list[int] = []
    for j in range(points):
        growth, one = exp_lower(j * step, _PRECISION)
        up = down = value_up = value_down = 0
        for row in range(1, width + 3):
            value_up += max(0, one * drops[row] - growth * drops[row - 1])
            value_down += max(0, one * drops[row - 1] - growth * drops[row])
            rest_up = max(0, one * lowest[row] - growth * lowest[row - 1])
            rest_down = max(0, one * lowest[row - 1] - growth * lowest[row])
            up = max(up, value_up + rest_up + max(0, one * hidden[row] - growth * hidden[row - 1]))
            down = max(down, value_down + rest_down + max(0, one * hidden[row - 1] - growth * hidden[row]))
        ups.append(min(_units(up, one), *ups[-1:], ONE))
        downs.append(min(_units(down, one), *downs[-1:], ONE))
    return ups, downs


def raise_by_first_row(profile: Profile, hidden: int, step: Fraction) -> None:
    """Raise a profile to that of row 1 beside row 0, where nothing is reported; 2^-128 `hidden` is not in row 1."""
    up, down = profile
    for j in range(len(up)):
        growth, one = exp_lower(j * step, _PRECISION)
        rise = one * (_WHOLE - hidden) + max(0, one * hidden - growth * _WHOLE)
        fall = max(0, one * _WHOLE - growth * hidden)
        up[j], down[j] = max(up[j], _units(rise, one)), max(down[j], _units(fall, one))


def _units(excess: int, one: int) -> int:
    """A divergence in units of 2^-320, rounded up."""
    return -(-excess * ONE // (one * _WHOLE))
