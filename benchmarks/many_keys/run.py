"""How many keys each method releases where units have many keys.

    python benchmarks/many_keys/run.py                          # everything, about half an hour
    python benchmarks/many_keys/run.py --runs 5 --data customers baskets --epsilon 1 --methods dptally --again
    python benchmarks/many_keys/page.py                         # docs/many-keys.md from the results

Results are written after every cell (data, epsilon, delta, method) to `results.json`. Runs that are there already are
not repeated unless `--again`, so a run can be stopped and continued, and with more `--runs` it adds the missing ones.
Runs are seeded by the name of the cell and the number of the run. A method that the installed dptally does not have
is skipped with a sentence.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import platform
import statistics
import sys
import time
import zlib
from pathlib import Path
from typing import Any

import numpy as np
from data import DATA_SETS, DataSet, MissingDataError, load
from methods import METHODS, MissingMechanismError

HERE = Path(__file__).parent
RESULTS = HERE / "results.json"
EPSILONS, DELTAS = (0.1, 1.0, 3.0), (1e-6, 1e-10)


def cell_name(data: str, epsilon: float, delta: float, method: str) -> str:
    """The name of a cell, such as ``customers/e1/d1e-06/mad2r``."""
    return f"{data}/e{epsilon:g}/d{delta:g}/{method}"


def read_results(file: Path) -> dict[str, Any]:
    """What there is."""
    found: dict[str, Any] = {"machine": {}, "data": {}, "cells": {}}
    if file.exists():
        found.update(json.loads(file.read_text()))
    return found


def write_results(file: Path, results: dict[str, Any]) -> None:
    """All at once, so that a stop leaves a whole file."""
    partial = file.with_suffix(".partial")
    partial.write_text(json.dumps(results, indent=1, sort_keys=True) + "\n")
    partial.replace(file)


def measure(results: dict[str, Any], data: DataSet, epsilon: float, delta: float, method: str, runs: int) -> bool:
    """Add the missing runs of a cell; returns whether there were any."""
    name = cell_name(data.name, epsilon, delta, method)
    cell = results["cells"].get(name, {"keys": []})
    keys: list[int] = cell["keys"]
    start = time.process_time()
    added = max(0, runs - len(keys))
    for number in range(len(keys), runs):
        rng = np.random.default_rng([zlib.crc32(name.encode()), number])
        keys.append(METHODS[method].count(data, epsilon, delta, rng))
    if added:
        results["cells"][name] = {
            "keys": keys,
            "mean": round(statistics.mean(keys), 2),
            "deviation": round(statistics.stdev(keys), 2) if len(keys) > 1 else None,
            "seconds": round((time.process_time() - start) / added, 3),
            "date": datetime.datetime.now(tz=datetime.UTC).date().isoformat(),
        }
    return added > 0


def describe(data: DataSet) -> dict[str, int]:
    """Facts of a data set for the page."""
    sizes = np.sort(data.sizes)
    return {
        "units": data.unit_count,
        "keys": data.key_count,
        "pairs": len(data.keys),
        "median": int(sizes[len(sizes) // 2]),
        "largest": int(sizes[-1]),
    }


def main(arguments: list[str] | None = None) -> int:
    """Measure what is asked for."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--data", nargs="+", choices=list(DATA_SETS), default=list(DATA_SETS))
    parser.add_argument("--epsilon", nargs="+", type=float, default=list(EPSILONS))
    parser.add_argument("--delta", nargs="+", type=float, default=list(DELTAS))
    parser.add_argument("--methods", nargs="+", choices=list(METHODS), default=list(METHODS))
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--again", action="store_true", help="forget the runs of these cells first")
    asked = parser.parse_args(arguments)
    results = read_results(asked.results)
    results["machine"] = {"python": platform.python_version(), "numpy": np.__version__, "cores": os.cpu_count()}
    missing: set[str] = set()
    for name in asked.data:
        try:
            data = load(name)
        except MissingDataError as error:
            print(f"{name} is skipped: {error}")
            continue
        results["data"][name] = describe(data)
        for method in asked.methods:
            for epsilon in asked.epsilon:
                for delta in asked.delta:
                    if method in missing:
                        continue
                    cell = cell_name(name, epsilon, delta, method)
                    if asked.again:
                        results["cells"].pop(cell, None)
                    try:
                        done = measure(results, data, epsilon, delta, method, asked.runs)
                    except MissingMechanismError as error:
                        missing.add(method)
                        print(f"{METHODS[method].title} is skipped: {error}")
                        continue
                    if done:
                        write_results(asked.results, results)
                        found = results["cells"][cell]
                        print(f"{cell}: {found['mean']:,.1f} keys, {found['seconds']:.2f} s a run", flush=True)
    write_results(asked.results, results)
    return 0


if __name__ == "__main__":
    sys.exit(main())
