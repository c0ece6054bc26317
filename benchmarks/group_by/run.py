"""The same statement with every library: keys, and errors of counts, sums and means.

    python benchmarks/peers/set_up.py opendp pipelinedp tumult   # once: an environment for each peer
    python benchmarks/group_by/run.py --runs 3
    python benchmarks/group_by/run.py --only 'products/l10/*' '*/dptally*' --again
    python benchmarks/group_by/page.py                           # docs/group-by-peers.md from the results

Runs are processes of their own, see `benchmarks/peers/worker.py`; results are written after each to `results.json`.
What is there already is not run again unless `--again`. Errors are computed at the end, from all releases that are
kept, so that parts can be run at the same time.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).parents[1] / "peers"))

import polars as pl
from cells import Cell
from data import MissingDataError
from measuring import Results, interpreter, machine, work
from set_up import CACHE
from statements import COST, choose_cells
from values import make_first, make_values, true_statement

RESULTS = Path(__file__).parent / "results.json"
NUMBERS = ("count", "sum", "mean")
OURS = ("dptally_automatic", "dptally_stated", "dptally_values")


def read_release(file: Path) -> tuple[dict[str, float], pl.DataFrame]:
    """Measurements, and released keys with their numbers."""
    with gzip.open(file, "rt") as text:
        written = json.load(text)
    rows = [(key, *values) for key, values in zip(written["keys"], written["values"], strict=True)]
    schema = {"key": pl.String, **dict.fromkeys(NUMBERS, pl.Float64)}
    return written["measured"], pl.DataFrame(rows, schema=schema, orient="row")


def errors(released: pl.DataFrame, true: pl.DataFrame) -> dict[str, float]:
    """Mean absolute errors against the answer to the statement."""
    both = released.join(true, on="key", suffix="_true")
    off = both.select((pl.col(name) - pl.col(f"{name}_true")).abs().mean() for name in NUMBERS)
    return {name: float(f"{value:.5g}") for name, value in off.row(0, named=True).items() if value is not None}


def run_cell(cell: Cell, number: int, asked: argparse.Namespace, results: Results) -> str:
    """One release, recorded; says what happened."""
    runs = results.runs(cell)
    if len(runs) > number and not asked.again:
        return "there already"
    python = interpreter(cell, asked.environments)
    if python is None:
        return f"left out: no environment {cell.entry.environment}, see benchmarks/peers/set_up.py"
    try:
        file = make_values(cell.data, asked.cache)
    except MissingDataError as missing:
        return f"left out: {missing}"
    first = str(make_first(asked.cache)) if cell.data_set == COST else "-"
    output = release_file(cell, number, asked.cache)
    run: dict[str, Any] = work(cell, python, file, first, output, asked.limit) or {"status": "done"}
    if run["status"] == "done":
        measured, released = read_release(output)
        run |= {"keys": len(released), **{name: round(value, 2) for name, value in measured.items()}}
    run["load"] = round(os.getloadavg()[0], 1)
    runs[number : number + 1] = [run]
    results.found["machine"] = machine()
    results.write()
    return str(run)


def release_file(cell: Cell, number: int, cache: Path) -> Path:
    """Where a release is kept."""
    return cache / "group_by" / "releases" / cell.task / cell.entry.name / f"{number}.json.gz"


def compare(cell: Cell, cache: Path, results: Results) -> None:
    """Add errors of all kept releases of a cell, and those of our own on the keys that both have."""
    for number, run in enumerate(results.runs(cell)):
        output = release_file(cell, number, cache)
        if run["status"] != "done" or cell.data_set == COST or not output.exists():
            continue
        true, released = true_statement(make_values(cell.data, cache)), read_release(output)[1]
        run["errors"], run["common"] = errors(released, true), {}
        for name in OURS:
            ours = output.parents[1] / name / output.name
            if cell.entry.name not in OURS and ours.exists():
                own = read_release(ours)[1]
                both = true.join(own, on="key", how="semi").join(released, on="key", how="semi")
                run["common"][name] = {"keys": len(both), "ours": errors(own, both), "theirs": errors(released, both)}
    results.write()


def main() -> int:
    """Run what was asked for."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--only", nargs="+", default=[], metavar="PATTERN", help="cells, such as 'products/l10/*'")
    parser.add_argument("--runs", type=int, default=1, help="of each cell; tables show means (1)")
    parser.add_argument("--limit", type=float, default=600, help="seconds for one process (600)")
    parser.add_argument("--again", action="store_true", help="replace results that are there already")
    parser.add_argument("--environments", type=Path, default=CACHE, help=f"of the peers ({CACHE})")
    parser.add_argument("--cache", type=Path, default=CACHE, help=f"for data and releases ({CACHE})")
    parser.add_argument("--results", type=Path, default=RESULTS, help="file that is read and added to")
    parser.add_argument("--merge", nargs="+", type=Path, default=[], metavar="FILE", help="add results of other runs")
    asked = parser.parse_args()
    asked.cache, asked.environments = asked.cache.absolute(), asked.environments.absolute()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that a worker is not left behind
    results, chosen = Results(asked.results), choose_cells(asked.only)
    for other in asked.merge:
        results.add(other)
    for number in range(0 if asked.merge else asked.runs):
        for cell in chosen:
            print(f"{cell.name} {number + 1}: {run_cell(cell, number, asked, results)}", flush=True)
    for cell in chosen:
        compare(cell, asked.cache, results)
    return 0


if __name__ == "__main__":
    sys.exit(main())
