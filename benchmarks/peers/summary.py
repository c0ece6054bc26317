"""Results of several runs as one line for each cell."""

from __future__ import annotations

import statistics
from dataclasses import dataclass, field
from typing import Any

from catalogue import ENTRIES, Entry
from cells import DATA_SETS

__all__ = ["Common", "Line", "Task", "summarise"]


@dataclass(frozen=True)
class Common:
    """Mean absolute errors of dptally and of another entry on the keys that both released, and how many there were."""

    ours: float
    theirs: float
    keys: int

    @property
    def ratio(self) -> float:
        """Ours over theirs."""
        return self.ours / self.theirs

    @property
    def uncertainty(self) -> float:
        """Two standard errors of the ratio, for noise like Laplace's, whose absolute value varies as much as it is."""
        return float(2 * self.ratio * (2 / self.keys) ** 0.5)


@dataclass(frozen=True)
class Line:
    """One entry on one task: medians of time and memory, means of keys and errors; None where it was not measured.

    `ours` holds, for each entry of dptally, what was found on the keys both released.
    """

    entry: Entry
    runs: int
    note: str
    keys: float | None = None
    error: float | None = None
    betrayed: float | None = None
    wall: float | None = None
    cpu: float | None = None
    start_wall: float | None = None
    start_cpu: float | None = None
    peak: float | None = None
    ours: dict[str, Common] = field(default_factory=dict)


@dataclass(frozen=True)
class Task:
    """What all entries did, and how each did it."""

    data_set: str
    keys_per_unit: int
    epsilon: str
    facts: dict[str, Any]
    lines: dict[str, Line]


def summarise(results: dict[str, Any]) -> list[Task]:
    """All tasks of the results that were started, in the order in which they are enumerated."""
    tasks = []
    for name, facts in results["tasks"].items():
        data_set, keys, epsilon = name.split("/")
        lines = {}
        for entry in ENTRIES:
            runs = results["cells"].get(f"{name}/{entry.name}", [])
            if runs:
                lines[entry.name] = _line(entry, runs)
        tasks.append(Task(data_set, int(keys[1:]), epsilon[1:], facts, lines))
    return sorted(tasks, key=lambda task: (DATA_SETS.index(task.data_set), task.keys_per_unit, float(task.epsilon)))


def _line(entry: Entry, runs: list[dict[str, Any]]) -> Line:
    done = [run for run in runs if run["status"] == "done"]
    if not done:
        last = runs[-1]
        note = f"over {last['limit']:.0f} s" if last["status"] == "too long" else f"failed: {last['reason']}"
        return Line(entry, 0, note)
    return Line(
        entry,
        len(done),
        "",
        keys=statistics.fmean(run["keys"] for run in done),
        error=_mean([run.get("error") for run in done]),
        betrayed=_mean([run.get("units_betrayed") for run in done]),
        wall=statistics.median(run["wall"] for run in done),
        cpu=statistics.median(run["cpu"] for run in done),
        start_wall=statistics.median(run["start_wall"] for run in done),
        start_cpu=statistics.median(run["start_cpu"] for run in done),
        peak=_median([run["peak"] for run in done]),
        ours=_common(done),
    )


def _median(values: list[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return statistics.median(known) if known else None


def _mean(values: list[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return statistics.fmean(known) if known else None


def _common(runs: list[dict[str, Any]]) -> dict[str, Common]:
    found: dict[str, list[dict[str, Any]]] = {}
    for run in runs:
        for name, both in run.get("common", {}).items():
            if both["keys"]:
                found.setdefault(name, []).append(both)
    result = {}
    for name, both in sorted(found.items()):
        keys = sum(each["keys"] for each in both)
        ours, theirs = (sum(each[side] * each["keys"] for each in both) / keys for side in ("ours", "theirs"))
        result[name] = Common(ours, theirs, keys)
    return result
