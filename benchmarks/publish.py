"""What publishing costs over counting: `publish` beside the same engine's plain queries, in one run.

    python benchmarks/publish.py --rows 10000000 100000000 --directory /tmp/dptally-benchmark

Data: string keys, Zipf(1) over 1.2 million possible ones, and units of about 20 rows each, in one Parquet file, made
once. Every job runs in a process of its own that has imported everything before the clock starts; jobs take turns, and
the median of the runs is shown. Peak memory is that of the whole process. Compare ratios, not seconds. DuckDB may take
4 GB of memory and 20 GB of disk; where plain distinct-and-choose fails with that, it gets 18 GB of memory and is
compared with `publish` in 4 GB.
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

EPSILON, DELTA, KEYS_PER_UNIT = "1", "1e-6", 3
MEMORY, MUCH_MEMORY = "4GB", "18GB"

PLAIN_COUNT = "SELECT key, count(*) AS n FROM read_parquet('{file}') WHERE key IS NOT NULL GROUP BY key"
PLAIN_CHOICE = """
    WITH pairs AS (SELECT DISTINCT unit, key FROM read_parquet('{file}') WHERE unit IS NOT NULL AND key IS NOT NULL),
         marked AS MATERIALIZED (SELECT unit, key, random() AS mark FROM pairs),
         chosen AS (SELECT key, row_number() OVER (PARTITION BY unit ORDER BY mark) AS place FROM marked)
    SELECT key, count(*) AS n FROM chosen WHERE place <= {limit} GROUP BY key
"""


def make_data(file: Path, rows: int) -> None:
    """Write the Parquet file, a million rows at a time."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    if file.exists():
        return
    rng = np.random.default_rng(7)
    cumulative = np.cumsum(1 / np.arange(1, 1_200_001))
    names = pa.array([f"key number {rank:07d}" for rank in rng.permutation(1_200_000)])
    schema = pa.schema([("unit", pa.int64()), ("key", pa.string())])
    partial = file.with_suffix(".partial")
    with pq.ParquetWriter(partial, schema) as writer:
        for _ in range(rows // 1_000_000):
            ranks = np.searchsorted(cumulative, rng.random(1_000_000) * cumulative[-1])
            units = rng.integers(0, rows // 20, 1_000_000)
            writer.write_table(pa.table([pa.array(units), names.take(pa.array(ranks))], schema=schema))
    partial.rename(file)


def plain(query: str, file: Path, memory: str = MEMORY) -> int:
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


def publish(file: Path, unit: str | None) -> int:
    """The same work, published."""
    import dptally

    bound = KEYS_PER_UNIT if unit else 1
    return len(
        dptally.publish(
            str(file),
            key="key",
            unit=unit,
            max_keys_per_unit=bound,
            epsilon=EPSILON,
            delta=DELTA,
            memory_limit=MEMORY,
            progress=False,
        )
    )


JOBS: dict[str, Callable[[Path], int]] = {
    "plain group-by": lambda file: plain(PLAIN_COUNT, file),
    "publish": lambda file: publish(file, None),
    "plain distinct-and-choose": lambda file: plain(PLAIN_CHOICE, file),
    "plain distinct-and-choose, 18 GB": lambda file: plain(PLAIN_CHOICE, file, MUCH_MEMORY),
    "publish by unit": lambda file: publish(file, "unit"),
}


def run_job(name: str, file: Path) -> None:
    """In a process of its own: import, warm up on nothing, measure, print JSON."""
    import duckdb
    import polars
    import pyarrow.compute

    import dptally

    dptally.publish({"warm": 100}, epsilon=EPSILON, delta=DELTA)
    del duckdb, polars, pyarrow
    wall, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_SELF)
    rows = JOBS[name](file)
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
    parser.add_argument("--job", help=argparse.SUPPRESS)
    parser.add_argument("--file", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.job:
        run_job(arguments.job, arguments.file)
        return
    arguments.directory.mkdir(parents=True, exist_ok=True)
    draw, draw_small = measure_draws()
    print(f"draw with secret bits: {draw * 1e9:.1f} ns per key at epsilon 1, {draw_small * 1e9:.1f} at 0.1 ", end="")
    print(f"({1 / draw / 1e6:.0f} million keys per second on one core)\n")
    print("| rows | job | wall s | CPU s | peak MB | result rows | wall ratio | CPU ratio | memory ratio |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- | --- |")
    for rows in arguments.rows:
        file = arguments.directory / f"events-{rows}.parquet"
        make_data(file, rows)
        results: dict[str, list[dict[str, float]]] = {name: [] for name in JOBS}
        for _ in range(arguments.runs):
            for name in JOBS:
                if name.endswith("18 GB") and results["plain distinct-and-choose"]:
                    continue  # only where the limit of the others does not suffice
                command = [sys.executable, __file__, "--job", name, "--file", str(file)]
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
            if name.startswith("plain"):
                base = middle
            ratios = (
                " | ".join(f"{middle[what] / base[what]:.2f}" for what in ("wall", "cpu", "peak")) if base else " | | "
            )
            print(
                f"| {rows:,} | {name} | {middle['wall']:.1f} | {middle['cpu']:.1f} | {middle['peak']:.0f} "
                f"| {middle['rows']:,.0f} | {ratios} |",
                flush=True,
            )
        plain_keys = results["plain group-by"][0]["rows"] if results["plain group-by"] else 0
        if results["publish"]:
            share = plain_keys * draw / results["publish"][0]["cpu"]
            print(f"\nShare of drawing in publish: {share:.2%} of CPU for {plain_keys:,.0f} keys.\n")


if __name__ == "__main__":
    main()
