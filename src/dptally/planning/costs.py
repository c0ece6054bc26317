"""How much time and memory a publication takes, roughly: a straight line through measured runs.

Measured on one core of a small server (Zipf keys as strings of about 15 bytes in Parquet files, 10^6 and 4 10^6 rows,
10^5 and 10^6 possible keys). Other machines, longer keys and CSV files change it by a factor of a few; it tells seconds
from hours, and megabytes from what does not fit.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from dptally.laws.registry import mechanism_class

if TYPE_CHECKING:
    from dptally.planning.mechanisms import Setting
    from dptally.planning.populations import Population

__all__ = ["TREE", "Cost", "estimate_cost"]

TREE = "heavy_hitters"
"""The name of trees of prefixes in a plan."""

_START_SECONDS, _START_BYTES = 0.3, 220e6  # the interpreter with its engines
_PER_ROW = 7e-8
_PER_ROW_BY_UNIT, _BYTES_PER_ROW_BY_UNIT = 6e-7, 110.0  # sorting by unit; it spills to disk beyond the memory limit
_PER_KEY, _BYTES_PER_KEY = 2.5e-7, 150.0
_BUFFERS = 50e6
_FOR_ROWS_OF_A_SCHEME = 0.6  # verifying two thousand rows of a law with sampling


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
    chosen = None if name == TREE else mechanism_class(name.split(" ")[0])
    if chosen is not None and chosen.bounded_memory:
        memory += _BUFFERS
    else:
        seconds, memory = seconds + keys * _PER_KEY, memory + keys * _BYTES_PER_KEY
    if " " in name:
        seconds += _FOR_ROWS_OF_A_SCHEME + rows * 2 * _PER_ROW
    if chosen is None:
        seconds += (setting.levels or 1) * keys * _PER_KEY
    elif chosen.costs is not None:
        of, per_second, per_byte = chosen.costs
        size = setting.capacity if of == "capacity" else setting.universe_size
        seconds, memory = seconds + size * per_second, memory + size * per_byte
    return Cost(seconds, memory)
