"""The same work with every library, measured in one run: keys, errors, time, memory.

    python benchmarks/peers/set_up.py                            # once: an environment for each peer
    python benchmarks/peers/run.py                               # everything
    python benchmarks/peers/run.py --only 'zipf-1e6/*' '*/dptally*'
    python benchmarks/peers/run.py --list --only 'zipf-1e7/l1/*'
    python benchmarks/peers/page.py                              # docs/peers.md from the results

Each measurement is a process of its own, one for time and one for memory, see `worker.py`. Runs of a task take turns,
so that what else the machine does hits all alike. Results are written after every measurement to `results.json`; what
is there already is not run again unless `--again`, so a run can be stopped and continued, and parts of it can be run at
different times (with `--judge` at the end: a release is compared with the one of dptally that is there when it is
made). Time does not depend on epsilon, so an entry that took too long once is not run with the other epsilon of the
same data: it is recorded as too long as well.
"""

from __future__ import annotations

import argparse
import datetime
import gzip
import json
import os
import signal
import sys
from functools import lru_cache
from pathlib import Path
from typing import Any

import polars as pl
from accuracy import compare, errors, expected_keys, read_release
from cells import PROMISES, Cell, choose_cells
from data import MissingDataError, make_data, make_first, true_counts
from measuring import Results, interpreter, machine, work
from set_up import CACHE
from user_lines import count_user_lines

HERE = Path(__file__).parent
RESULTS = HERE / "results.json"
_OURS = ("dptally_default", "dptally_gaussian")


def measure(cell: Cell, python: Path, file: Path, cache: Path, output: Path, limit: float) -> dict[str, Any]:
    """Time in one process, memory in another."""
    failure = work(cell, python, file, str(make_first(cache / "data")), output, limit)
    if failure:
        return failure
    measured, released = read_release(output)
    rounded = {name: round(value, 3) for name, value in measured.items()}
    return {"status": "done", **rounded, **measure_memory(cell, python, file, output, limit), "keys": len(released)}


def measure_memory(cell: Cell, python: Path, file: Path, output: Path, limit: float) -> dict[str, Any]:
    """Peak memory of a process that makes this one call; None if it failed."""
    alone = output.with_name(f"memory-{output.name}")
    if work(cell, python, file, "-", alone, limit):
        return {"peak": None}
    with gzip.open(alone, "rt") as text:
        return {"peak": round(json.load(text)["measured"]["peak"], 3)}


@lru_cache(maxsize=2)
def truth(file: Path, keys_per_unit: int, by_rows: bool) -> pl.DataFrame:
    """True counts, kept for the entries of a task."""
    return true_counts(file, keys_per_unit, by_rows)


def judge(cell: Cell, run: dict[str, Any], output: Path, file: Path, directory: Path) -> None:
    """Add errors and the comparison with our own release of the same number."""
    _, released = read_release(output)
    if cell.data_set == PROMISES:
        units = pl.read_parquet(file)
        run["units_betrayed"] = released.join(units, on="key").get_column("unit").n_unique()
        return
    true = truth(file, cell.keys_per_unit, cell.by_rows)
    run.update({name: None if value is None else round(value, 4) for name, value in errors(released, true).items()})
    run["common"] = {}
    for name in _OURS:
        ours = directory / cell.task / name / output.name
        if cell.entry.private and ours.exists() and cell.entry.name not in _OURS:
            run["common"][name] = compare(read_release(ours)[1], released, true)


def describe_task(cell: Cell, file: Path) -> dict[str, Any]:
    """Size of the data, and the optimum where it is known: random bounding makes counts random, and it with them."""
    true = truth(file, cell.keys_per_unit, cell.by_rows)
    rows, units = pl.scan_parquet(file).select(rows=pl.len(), units=pl.col("unit").n_unique()).collect().row(0)
    known = cell.data_set.startswith("zipf")
    optimum = round(expected_keys(true, cell.epsilon, cell.delta), 2) if known else None
    return {"rows": rows, "units": units, "distinct_keys": len(true), "optimum": optimum}


def run_cell(cell: Cell, number: int, asked: argparse.Namespace, results: Results) -> str:
    """One measurement, recorded; says what happened."""
    runs = results.runs(cell)
    if len(runs) > number and not asked.again and not asked.memory:
        return "there already"
    if asked.memory and (len(runs) <= number or runs[number]["status"] != "done"):
        return "not there"
    python = interpreter(cell, asked.environments)
    if python is None:
        return f"left out: no environment {cell.entry.environment}, see set_up.py"
    try:
        file = make_data(cell.data, asked.cache / "data")
    except MissingDataError as missing:
        return f"left out: {missing}"
    output = asked.cache / "releases" / cell.task / cell.entry.name / f"{number}.json.gz"
    if asked.memory:
        runs[number].update(measure_memory(cell, python, file, output, asked.limit))
        results.write()
        return _megabytes(runs[number])
    limit = None if asked.again else results.too_long(cell)
    if limit is not None:
        run: dict[str, Any] = {"status": "too long", "limit": limit}
    else:
        run = measure(cell, python, file, asked.cache, output, asked.limit)
    if run["status"] == "done":
        judge(cell, run, output, file, asked.cache / "releases")
    run["date"] = datetime.datetime.now(tz=datetime.UTC).date().isoformat()
    run["load"] = round(os.getloadavg()[0], 1)
    runs[number : number + 1] = [run]
    results.found["machine"] = machine()
    results.found["tasks"].setdefault(cell.task, describe_task(cell, file))
    results.found.setdefault("lines", {})[cell.entry.name] = {
        function: count_user_lines(cell.entry.file, function) for function in ("by_rows", "by_units")
    }
    results.write()
    if run["status"] != "done":
        return str(run["status"]) + (f": {run['reason']}" if "reason" in run else f" (over {run['limit']:.0f} s)")
    return f"{run['keys']:,} keys, {run['wall']:.1f} s, {run['cpu']:.1f} CPU s, {_megabytes(run)}"


def _megabytes(run: dict[str, Any]) -> str:
    return "memory not measured" if run["peak"] is None else f"{run['peak']:.0f} MB"


def judge_again(cells: list[Cell], asked: argparse.Namespace, results: Results) -> None:
    """Errors and comparisons of releases that are kept, after our own have been made anew."""
    for cell in cells:
        for number, run in enumerate(results.runs(cell)):
            output = asked.cache / "releases" / cell.task / cell.entry.name / f"{number}.json.gz"
            if run["status"] == "done" and output.exists():
                judge(cell, run, output, make_data(cell.data, asked.cache / "data"), asked.cache / "releases")
    results.write()


def main() -> int:
    """Run what was asked for."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--only", nargs="+", default=[], metavar="PATTERN", help="cells, such as 'zipf-1e7/l1/*'")
    parser.add_argument("--runs", type=int, default=1, help="of each cell; tables show the median (1)")
    parser.add_argument("--limit", type=float, default=300, help="seconds for one process (300)")
    parser.add_argument("--again", action="store_true", help="replace results that are there already")
    parser.add_argument("--memory", action="store_true", help="measure memory only, of runs that are there already")
    parser.add_argument("--judge", action="store_true", help="run nothing; compare releases that are kept once more")
    parser.add_argument("--list", action="store_true", help="name the cells and do nothing")
    parser.add_argument("--environments", type=Path, default=CACHE, help=f"of the peers ({CACHE})")
    parser.add_argument("--cache", type=Path, default=CACHE, help=f"for data and releases ({CACHE})")
    parser.add_argument("--results", type=Path, default=RESULTS, help="file that is read and added to")
    parser.add_argument("--merge", nargs="+", type=Path, metavar="FILE", help="add results of other runs and stop")
    asked = parser.parse_args()
    if asked.merge:
        results = Results(asked.results)
        for other in asked.merge:
            results.add(other)
        results.write()
        return 0
    asked.cache, asked.environments = asked.cache.absolute(), asked.environments.absolute()
    chosen = choose_cells(asked.only)
    if not chosen:
        parser.error("no cell matches; see --list.")
    if asked.list:
        print("\n".join(cell.name for cell in chosen))
        return 0
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that a worker is not left behind
    results = Results(asked.results)
    if asked.judge:
        judge_again(chosen, asked, results)
        return 0
    for task in dict.fromkeys(cell.task for cell in chosen):
        for number in range(asked.runs):
            for cell in (cell for cell in chosen if cell.task == task):
                print(f"{cell.name} {number + 1}: ", end="", flush=True)
                print(run_cell(cell, number, asked, results), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
