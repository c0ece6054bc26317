"""What a ledger costs: per publish, to open, and under many processes at once.

    python benchmarks/ledger.py                          # cost per publish, opening; 16 processes for 5 s
    python benchmarks/ledger.py --seconds 60             # as in the evaluation
    python benchmarks/ledger.py --directory /some/disk   # where the ledger is: it waits for the disk twice per release

The run with many processes checks from outside, in the file alone, that no more was published than the budget holds.
"""

from __future__ import annotations

import argparse
import json
import os
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import closing
from fractions import Fraction
from pathlib import Path

import dptally
from dptally.privacy.spending import Spending

SPEND = """
import sys, time
from fractions import Fraction
from dptally import BudgetExceeded, Ledger
from dptally.privacy.spending import Spending

ledger, spent, refused = Ledger(sys.argv[1]), 0, 0
print("ready", flush=True)
end = float(sys.stdin.readline())
while time.time() < end:
    try:
        ledger.reserve(Spending("stability", Fraction(1, 1000), Fraction(1, 10**12))).published()
        spent += 1
    except BudgetExceeded:
        refused += 1
print(spent, refused)
"""


def milliseconds(seconds: list[float]) -> dict[str, float]:
    """Median and 95th percentile."""
    ordered = sorted(seconds)
    return {
        "median_ms": round(1000 * statistics.median(ordered), 2),
        "p95_ms": round(1000 * ordered[int(0.95 * len(ordered))], 2),
    }


def publish_cost(directory: Path, runs: int) -> dict[str, object]:
    """The same small release with and without a ledger, in turn; the difference is the ledger's."""
    ledger = dptally.Ledger(directory / "publish.db", epsilon=1000, delta="0.1")
    data = {f"key {n}": 100 + n for n in range(100)}
    times: dict[bool, list[float]] = {False: [], True: []}
    work: dict[bool, list[float]] = {False: [], True: []}
    for _ in range(runs):
        for paid in (False, True):
            start, used = time.perf_counter(), time.process_time()
            dptally.publish(data, epsilon="1/10", delta="1e-7", ledger=ledger if paid else None, progress=False)
            times[paid].append(time.perf_counter() - start)
            work[paid].append(time.process_time() - used)
    alone = []
    for _ in range(runs):
        start = time.perf_counter()
        ledger.reserve(Spending("stability", Fraction(1, 1000), Fraction(1, 10**12))).published()
        alone.append(time.perf_counter() - start)
    reading = []
    for _ in range(20):
        start = time.perf_counter()
        dptally.Ledger(ledger.path).disconnect()
        reading.append(time.perf_counter() - start)
    without, with_ledger = milliseconds(times[False]), milliseconds(times[True])
    return {
        "runs": runs,
        "without": without,
        "with": with_ledger,
        "difference_of_medians_ms": round(with_ledger["median_ms"] - without["median_ms"], 2),
        "difference_of_median_cpu_ms": round(
            1000 * (statistics.median(work[True]) - statistics.median(work[False])), 2
        ),
        "spending_alone": milliseconds(alone),
        "open_and_verify": {"rows": ledger.verify()[0] + 1, **milliseconds(reading)},
    }


def many_processes(directory: Path, processes: int, seconds: float, budget: str) -> dict[str, object]:
    """Processes that spend as fast as they can; then the sum, read by plain SQL."""
    place = directory / "many.db"
    dptally.Ledger(place, epsilon=budget, delta="0.1").disconnect()
    command = [sys.executable, "-c", SPEND, str(place)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    running = [subprocess.Popen(command, text=True, env=os.environ, **pipes) for _ in range(processes)]
    for process in running:
        assert process.stdout is not None and process.stdout.readline() == "ready\n"
    start = time.time()
    counts = []
    for process in running:
        assert process.stdin is not None
        process.stdin.write(f"{start + seconds}\n")
        process.stdin.flush()
    for process in running:
        counts.append(tuple(map(int, process.communicate()[0].split())))
    took = time.time() - start
    with closing(sqlite3.connect(place)) as connection:
        reserved = connection.execute("SELECT spending FROM history WHERE state = 'reserved'").fetchall()
        published = connection.execute("SELECT count(*) FROM history WHERE state = 'published'").fetchone()[0]
    total = sum((Fraction(json.loads(text)["epsilon"]) for (text,) in reserved), Fraction(0))
    rows, _ = dptally.Ledger(place).verify()
    spent, refused = sum(count[0] for count in counts), sum(count[1] for count in counts)
    assert spent == published == len(reserved), "a process has another number than the ledger"
    assert total <= Fraction(budget), "more was spent than the budget holds"
    return {
        "processes": processes,
        "seconds": round(took, 1),
        "published": published,
        "refused": refused,
        "per_second": round(published / took, 1),
        "least_and_most_of_a_process": [min(count[0] for count in counts), max(count[0] for count in counts)],
        "spent_epsilon": str(total),
        "budget_epsilon": budget,
        "rows_verified": rows + 1,
    }


def main() -> None:
    """Run and print JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--directory", help="where ledgers are made (default: the working directory)")
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--processes", type=int, default=16)
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--budget", default="20", help="epsilon for all processes, 1/1000 for each release")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=arguments.directory or Path.cwd()) as place:
        print(json.dumps({"publish": publish_cost(Path(place), arguments.runs)}, indent=1), flush=True)
        found = many_processes(Path(place), arguments.processes, arguments.seconds, arguments.budget)
        print(json.dumps({"many": found}, indent=1))


if __name__ == "__main__":
    main()
