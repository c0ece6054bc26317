"""Run entries in processes of their own, and keep what was measured; for this comparison and that of `group_by`."""

from __future__ import annotations

import json
import os
import platform
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import polars as pl
from catalogue import OWN
from cells import Cell

__all__ = ["Results", "interpreter", "machine", "work"]

WORKER = Path(__file__).parent / "worker.py"


class Results:
    """Measurements by cell and number of the run; on disk after each."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self.found: dict[str, Any] = {"machine": {}, "tasks": {}, "cells": {}}
        if file.exists():
            self.found = json.loads(file.read_text())

    def runs(self, cell: Cell) -> list[dict[str, Any]]:
        """What there is of a cell."""
        runs: list[dict[str, Any]] = self.found["cells"].setdefault(cell.name, [])
        return runs

    def too_long(self, cell: Cell) -> float | None:
        """The time limit this entry has exceeded on the same data, whatever epsilon was."""
        for name, runs in self.found["cells"].items():
            data_set, keys, _, entry = name.split("/")
            if (data_set, keys, entry) == (cell.data_set, f"l{cell.keys_per_unit}", cell.entry.name):
                limits = [run["limit"] for run in runs if run["status"] == "too long"]
                if limits:
                    return float(max(limits))
        return None

    def add(self, other: Path) -> None:
        """Take over the measurements of another file, where there are more of a cell than here."""
        found = json.loads(other.read_text())
        for name, runs in found["cells"].items():
            if len(runs) >= len(self.found["cells"].get(name, [])):
                self.found["cells"][name] = runs
        for part in ("tasks", "lines", "machine"):
            self.found.setdefault(part, {}).update(found.get(part, {}))

    def write(self) -> None:
        """Replace the file by what there is now."""
        partial = self._file.with_suffix(".partial")
        partial.write_text(json.dumps(self.found, indent=1, sort_keys=True) + "\n")
        partial.rename(self._file)


def interpreter(cell: Cell, environments: Path) -> Path | None:
    """Which Python runs an entry; None if its environment is not there."""
    if cell.entry.environment == OWN:
        return Path(sys.executable)
    python = environments / cell.entry.environment / "bin" / "python"
    return python if python.exists() else None


def work(cell: Cell, python: Path, file: Path, first: str, output: Path, limit: float) -> dict[str, Any] | None:
    """Run a worker once; why it failed, if it did. One that takes too long is ended, with the processes it started."""
    output.parent.mkdir(parents=True, exist_ok=True)
    output.unlink(missing_ok=True)
    function = "by_rows" if cell.by_rows else "by_units"
    request = [str(cell.keys_per_unit), cell.epsilon, cell.delta]
    command = [str(python), "-W", "ignore", str(WORKER), str(cell.entry.file), function, str(file), first, *request]
    environment = {**os.environ, "PYSPARK_PYTHON": str(python), "PYSPARK_DRIVER_PYTHON": str(python)}
    with output.with_suffix(".log").open("w") as log:
        worker = subprocess.Popen(
            [*command, str(time.time()), str(output)],
            stdout=log,
            stderr=subprocess.STDOUT,
            env=environment,
            # Spark leaves a folder where it runs; our own library may be on a relative path.
            cwd=None if cell.entry.environment == OWN else output.parent,
            start_new_session=True,
        )
        try:
            failed = worker.wait(timeout=limit) != 0
        except subprocess.TimeoutExpired:
            os.killpg(worker.pid, signal.SIGKILL)
            worker.wait()
            return {"status": "too long", "limit": limit}
        except BaseException:
            os.killpg(worker.pid, signal.SIGKILL)
            raise
    if failed or not output.exists():
        last = output.with_suffix(".log").read_text().strip().splitlines()
        return {"status": "failed", "reason": last[-1][:300] if last else "ended without a word"}
    return None


def machine() -> dict[str, Any]:
    """Where and with what it was measured."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return {
        "python": platform.python_version(),
        "processor": platform.machine(),
        "cores": os.cpu_count(),
        "memory_gb": round(memory),
        "polars": pl.__version__,
    }
