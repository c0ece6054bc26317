"""How much time and memory a publication takes, roughly: a straight line through measured runs.

Measured on one core of a small server (Zipf keys as strings of about 15 bytes in Parquet files, 10^6 and 4 10^6 rows,
10^5 and 10^6 possible keys). Other machines, longer keys and CSV files change it by a factor of a few; it tells seconds
from hours, and megabytes from what does not fit.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dptally.planning.mechanisms import Setting
    from dptally.planning.populations import Population

__all__ = ["Cost", "estimate_cost"]

_START_SECONDS, _START_BYTES = 0.3, 220e6  # the interpreter with its engines
_PER_ROW = 7e-8
_PER_ROW_BY_UNIT, _BYTES_PER_ROW_BY_UNIT = 6e-7, 110.0  # sorting by unit; it spills to disk beyond the memory limit
_PER_KEY, _BYTES_PER_KEY = 2.5e-7, 150.0
_BUFFERS = 50e6
_PER_LISTED_KEY, _BYTES_PER_LISTED_KEY = 6e-7, 170.0
_PER_COUNTER, _BYTES_PER_COUNTER = 3e-7, 120.0
_PER_COMPACT_KEY, _BYTES_PER_COMPACT_KEY = 3e-5, 1300.0
_FOR_ROWS_OF_A_SCHEME = 0.6  # judging two thousand rows of a law with sampling


@dataclass(frozen=True)
class Cost:
    """Estimates, not promises.

    Attributes:
        seconds: of processor time.
        memory_bytes: at the peak, with everything the process holds.
    """

    seconds: float
    memory_bytes: float


def estimate_cost(name: str, setting: Setting, population: Population) -> Cost:
    """What publishing such data takes with one mechanism."""
    rows, keys = population.total, population.size
    by_unit = setting.by_unit or setting.max_keys_per_unit > 1
    seconds = _START_SECONDS + rows * (_PER_ROW + (_PER_ROW_BY_UNIT if by_unit else 0.0))
    memory = _START_BYTES + rows * (_BYTES_PER_ROW_BY_UNIT if by_unit else 0.0)
    if name == "misra_gries":
        return Cost(
            seconds + setting.capacity * _PER_COUNTER, memory + _BUFFERS + setting.capacity * _BYTES_PER_COUNTER
        )
    seconds, memory = seconds + keys * _PER_KEY, memory + keys * _BYTES_PER_KEY
    if " " in name:
        seconds += _FOR_ROWS_OF_A_SCHEME + rows * 2 * _PER_ROW
    elif name == "heavy_hitters":
        seconds += (setting.levels or 1) * keys * _PER_KEY
    elif name == "dense":
        seconds += setting.universe_size * _PER_LISTED_KEY
        memory += setting.universe_size * _BYTES_PER_LISTED_KEY
    elif name == "sparse":
        seconds, memory = seconds + setting.capacity * _PER_COUNTER, memory + setting.capacity * _BYTES_PER_COUNTER
    elif name == "compact":
        seconds += setting.capacity * _PER_COMPACT_KEY
        memory += setting.capacity * _BYTES_PER_COMPACT_KEY
    return Cost(seconds, memory)
