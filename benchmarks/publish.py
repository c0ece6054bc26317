"""What publishing costs over counting: `publish` beside the same engine's plain queries, in one run.

    python benchmarks/publish.py --rows 10000000 100000000 --directory /tmp/dptally-benchmark
    python benchmarks/publish.py --rows 10000000 --memory 1GB --jobs "by unit, 8 keys" "by unit, measured"

Data: string keys, Zipf(1) over 1.2 million possible ones, and units of about 20 rows each (numbers, or texts with
--text-units), in one Parquet file, made once. Every job runs in a process of its own that has imported everything
before the clock starts; jobs take turns, and the median of the runs is shown. Peak memory is that of the whole process.
Compare ratios, not seconds. DuckDB may take 4 GB of memory (or --memory) and 20 GB of disk; where plain
distinct-and-choose fails with that, it gets 18 GB of memory and is compared with `publish` in 4 GB.

The last two jobs are the default for units, which measures how many keys they have (rounds), and its ratio to the
optimal histogram for a stated number of keys.
"""

from __future__ import annotations

import argparse
import json
import re
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

EPSILON, DELTA, KEYS_PER_UNIT = "1", "1e-6", 3
MUCH_MEMORY = "18GB"
STATED, MEASURED = "by unit, 8 keys", "by unit, measured"

PLAIN_COUNT = "SELECT key, count(*) AS n FROM read_parquet('{file}') WHERE key IS NOT NULL GROUP BY key"
PLAIN_CHOICE = """
    WITH pairs AS (SELECT DISTINCT unit, key FROM read_parquet('{file}') WHERE unit IS NOT NULL AND key IS NOT NULL),
         marked AS MATERIALIZED (SELECT unit, key, random() AS mark FROM pairs),
         chosen AS (SELECT key, row_number() OVER (PARTITION BY unit ORDER BY mark) AS place FROM marked)
    SELECT key, count(*) AS n FROM chosen WHERE place <= {limit} GROUP BY key
"""


def make_data(file: Path, rows: int, *, text_units: bool = False) -> None:
    """Write the Parquet file, a million rows at a time."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    if file.exists():
        return
    rng = np.random.default_rng(7)
    cumulative = np.cumsum(1 / np.arange(1, 1_200_001))
    names = pa.array([f"key number {rank:07d}" for rank in rng.permutation(1_200_000)])
    schema = pa.schema([("unit", pa.string() if text_units else pa.int64()), ("key", pa.string())])
    partial = file.with_suffix(".partial")
    with pq.ParquetWriter(partial, schema) as writer:
        for _ in range(rows // 1_000_000):
            ranks = np.searchsorted(cumulative, rng.random(1_000_000) * cumulative[-1])
            units = pa.array(rng.integers(0, rows // 20, 1_000_000))
            if text_units:
                units = pc.binary_join_element_wise("user-", pc.utf8_lpad(units.cast(pa.string()), 16, "0"), "")
            writer.write_table(pa.table([units, names.take(pa.array(ranks))], schema=schema))
    partial.rename(file)


def plain(query: str, file: Path, memory: str) -> int:
    """Run a query on DuckDB with a temporary directory and a memory limit, and fetch it as Arrow."""
    import tempfile

    import duckdb

    with tempfile.TemporaryDirectory(dir=file.parent) as spill:
        settings = {
            "memory_limit": memory,
            "temp_directory": spill,
            "preserve_insertion_order": "false",
            "max_temp_directory_size": "20GB",
        }
        connection = duckdb.connect(config=settings)
        return int(connection.execute(query.format(file=file, limit=KEYS_PER_UNIT)).to_arrow_table().num_rows)


def publish(file: Path, memory: str, **request: Any) -> int:
    """The same work, published."""
    import dptally

    request = {"key": "key", "epsilon": EPSILON, "delta": DELTA, **request}
    return len(dptally.publish(str(file), memory_limit=memory, progress=False, **request))


JOBS: dict[str, Callable[[Path, str], int]] = {
    "plain group-by": lambda file, memory: plain(PLAIN_COUNT, file, memory),
    "publish": publish,
    "plain distinct-and-choose": lambda file, memory: plain(PLAIN_CHOICE, file, memory),
    "plain distinct-and-choose, 18 GB": lambda file, _: plain(PLAIN_CHOICE, file, MUCH_MEMORY),
    "publish by unit": lambda file, memory: publish(file, memory, unit="unit", max_keys_per_unit=KEYS_PER_UNIT),
    STATED: lambda file, memory: publish(file, memory, unit="unit", max_keys_per_unit=8, mechanism="weighted_sample"),
    MEASURED: lambda file, memory: publish(file, memory, unit="unit"),
}


def run_job(name: str, file: Path, memory: str) -> None:
    """In a process of its own: import, warm up on nothing, measure, print JSON."""
    import duckdb
    import polars
    import pyarrow.compute

    import dptally

    dptally.publish({"warm": 100}, epsilon=EPSILON, delta=DELTA)
    del duckdb, polars, pyarrow
    wall, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_SELF)
    rows = JOBS[name](file, memory)
    after = resource.getrusage(resource.RUSAGE_SELF)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    # Not ru_maxrss: a child starts with its parent's, and the parent may have made the data.
    peak = int(re.findall(r"VmHWM:\s+(\d+)", Path("/proc/self/status").read_text())[0]) / 1024
    print(json.dumps({"rows": rows, "wall": time.perf_counter() - wall, "cpu": cpu, "peak": peak}))


def measure_draws() -> tuple[float, float]:
    """Seconds of CPU per key for bits and draw together, on one core, at epsilon 1 and at epsilon 0.1."""
    import numpy as np

    from dptally.laws.weighted_sample import WeightedSample
    from dptally.randomness import SystemBits

    found = []
    for epsilon in ("1", "0.1"):
        law = WeightedSample(epsilon, DELTA)
        frequencies = np.random.default_rng(1).zipf(1.5, 5_000_000).clip(1, 10**9)
        bits = SystemBits()
        law.draw(frequencies[:1000], bits)
        best = float("inf")
        for _ in range(5):
            start = time.process_time()
            law.draw(frequencies, bits)
            best = min(best, (time.process_time() - start) / len(frequencies))
        found.append(best)
    return found[0], found[1]


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rows", type=int, nargs="+", default=[10_000_000], help="numbers of rows, in whole millions")
    parser.add_argument("--directory", type=Path, default=Path("/tmp/dptally-benchmark"))  # noqa: S108
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--memory", default="4GB", help="what DuckDB may take")
    parser.add_argument("--jobs", nargs="+", choices=JOBS, default=list(JOBS), metavar="JOB")
    parser.add_argument("--text-units", action="store_true", help="units are texts")
    parser.add_argument("--job", help=argparse.SUPPRESS)
    parser.add_argument("--file", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.job:
        run_job(arguments.job, arguments.file, arguments.memory)
        return
    arguments.directory.mkdir(parents=True, exist_ok=True)
    draw, draw_small = measure_draws()
    print(f"draw with secret bits: {draw * 1e9:.1f} ns per key at epsilon 1, {draw_small * 1e9:.1f} at 0.1 ", end="")
    print(f"({1 / draw / 1e6:.0f} million keys per second on one core)\n")
    print("| rows | job | wall s | CPU s | peak MB | result rows | wall ratio | CPU ratio | memory ratio |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- | --- |")
    for rows in arguments.rows:
        file = arguments.directory / f"events{'-text' * arguments.text_units}-{rows}.parquet"
        make_data(file, rows, text_units=arguments.text_units)
        results: dict[str, list[dict[str, float]]] = {name: [] for name in arguments.jobs}
        for _ in range(arguments.runs):
            for name in arguments.jobs:
                if name.endswith("18 GB") and results["plain distinct-and-choose"]:
                    continue  # only where the limit of the others does not suffice
                command = [sys.executable, __file__, "--job", name, "--file", str(file), "--memory", arguments.memory]
                done = subprocess.run(command, capture_output=True, text=True, check=False)
                if done.returncode == 0:
                    results[name].append(json.loads(done.stdout))
                else:
                    print(f"{name}: {done.stderr.strip().splitlines()[-1]}", file=sys.stderr)
        base: dict[str, float] = {}
        for name, found in results.items():
            if not found and name.endswith("18 GB"):
                continue
            if not found:
                print(f"| {rows:,} | {name} | failed, see standard error | | | | | | |")
                continue
            middle = {what: statistics.median(run[what] for run in found) for what in ("wall", "cpu", "peak", "rows")}
            if name.startswith("plain") or name == STATED:
                base = middle
            ratios = (
                " | ".join(f"{middle[what] / base[what]:.2f}" for what in ("wall", "cpu", "peak")) if base else " | | "
            )
            print(
                f"| {rows:,} | {name} | {middle['wall']:.1f} | {middle['cpu']:.1f} | {middle['peak']:.0f} "
                f"| {middle['rows']:,.0f} | {ratios} |",
                flush=True,
            )
        if results.get("publish") and results.get("plain group-by"):
            plain_keys = results["plain group-by"][0]["rows"]
            share = plain_keys * draw / results["publish"][0]["cpu"]
            print(f"\nShare of drawing in publish: {share:.2%} of CPU for {plain_keys:,.0f} keys.\n")


if __name__ == "__main__":
    main()
