"""What is run: every data set, number of keys per unit, epsilon and entry."""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatch

from catalogue import ENTRIES, Entry

__all__ = [
    "DATA_SETS",
    "DELTA",
    "EPSILONS",
    "KEYS_PER_UNIT",
    "PROMISED_DELTA",
    "PROMISES",
    "Cell",
    "all_cells",
    "choose_cells",
]

KEYS_PER_UNIT = (1, 3, 10)
EPSILONS = ("0.1", "1")
DELTA = "1e-6"
PROMISES = "promises"  # keys that one unit has alone: how often they get out is what delta bounds
PROMISED_DELTA = "0.01"
DATA_SETS = (PROMISES, "zipf-1e6", "retail", "mathoverflow", "headlines", "zipf-1e7")


@dataclass(frozen=True)
class Cell:
    """One entry on one data set with one request."""

    data_set: str
    keys_per_unit: int
    epsilon: str
    delta: str
    entry: Entry

    @property
    def task(self) -> str:
        """What all entries do: data set, keys per unit and epsilon."""
        return f"{self.data_set}/l{self.keys_per_unit}/e{self.epsilon}"

    @property
    def name(self) -> str:
        """As `--only` matches it."""
        return f"{self.task}/{self.entry.name}"

    @property
    def data(self) -> str:
        """Name of the Parquet file: synthetic data differs by the keys each unit has."""
        own_file = self.data_set.startswith("zipf") or self.data_set == PROMISES
        return f"{self.data_set}-l{self.keys_per_unit}" if own_file else self.data_set

    @property
    def by_rows(self) -> bool:
        """Whether every row is a unit of its own."""
        return self.keys_per_unit == 1 and (self.data_set.startswith("zipf") or self.data_set == PROMISES)


def all_cells() -> list[Cell]:
    """Every cell, the quick data sets first; entries take turns within a task."""
    return [
        Cell(data_set, keys, epsilon, delta, entry)
        for data_set in DATA_SETS
        for keys, epsilon, delta in _requests(data_set)
        for entry in ENTRIES
        if _applies(data_set, keys, entry)
    ]


def choose_cells(patterns: list[str]) -> list[Cell]:
    """Cells whose name matches one of the patterns, such as ``zipf-1e7/l1/*`` or ``*/dptally*``; all without any."""
    return [cell for cell in all_cells() if not patterns or any(fnmatch(cell.name, pattern) for pattern in patterns)]


def _requests(data_set: str) -> list[tuple[int, str, str]]:
    if data_set == PROMISES:
        return [(keys, "1", PROMISED_DELTA) for keys in KEYS_PER_UNIT[:2]]
    return [(keys, epsilon, DELTA) for keys in KEYS_PER_UNIT for epsilon in EPSILONS]


def _applies(data_set: str, keys: int, entry: Entry) -> bool:
    if data_set == PROMISES:
        return entry.private and keys >= entry.least_keys and (keys == 1 or not entry.promises_only)
    return keys >= entry.least_keys and not entry.promises_only
