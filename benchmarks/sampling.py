"""Two-pass sampling of raw rows beside plain scans of the same file, for few and for many distinct keys.

    python benchmarks/sampling.py --rows 100000000 --distinct 1000000 10000000

Data: one column of string keys of 19 bytes, uniform over the distinct keys, in a Parquet file per number of keys, made
once in --directory (about 0.9 GB for 10^8 rows). Uniform keys are the hardest case: no page is dictionary-encoded, and
the number of distinct keys is largest. Sampling is ppswor with rate 1e-3.

What a plain scan is decides the ratio, so three are shown, all of them one DuckDB query over the key column:

- `length`: sum(strlen(key)). Decodes every key and looks at none of its characters: the least a scan can do.
- `hash`: bit_xor(hash(key)). Reads every byte of every key once. The ratios are to this one: counting a key means
  reading it.
- `largest`: the largest key, behind a filter, since DuckDB answers max(key) alone from the footer without a scan.

The second pass cannot be cheaper than `hash`, since it must look up every key. The group-by is what sampling replaces.
Every job runs in a process of its own that has imported everything before the clock starts; jobs take turns, and the
median of the runs is shown. Peak memory is that of the whole process.
"""

from __future__ import annotations

import argparse
import json
import resource
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

RATE = "0.001"
SCANS = {
    "plain scan, length": "SELECT sum(strlen(key)) FROM read_parquet('{file}') WHERE key IS NOT NULL",
    "plain scan, hash": "SELECT bit_xor(hash(key)) FROM read_parquet('{file}') WHERE key IS NOT NULL",
    "plain scan, largest": "SELECT max(key) FROM read_parquet('{file}') WHERE strlen(key) > 0",
}
BASE = "plain scan, hash"
PLAIN_COUNT = "SELECT count(*) FROM (SELECT key, count(*) FROM read_parquet('{file}') GROUP BY key)"


def make_data(file: Path, rows: int, distinct: int) -> None:
    """Write the Parquet file, a million rows at a time."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    if file.exists():
        return
    if shutil.disk_usage(file.parent).free < 2 * 20 * rows:
        raise SystemExit(f"not enough free disk in {file.parent}.")
    rng = np.random.default_rng(7)
    names = pa.array([f"key number {number:08d}" for number in rng.permutation(distinct).tolist()])
    partial = file.with_suffix(".partial")
    with pq.ParquetWriter(partial, pa.schema([("key", pa.string())])) as writer:
        for _ in range(rows // 1_000_000):
            writer.write_table(pa.table({"key": names.take(pa.array(rng.integers(0, distinct, 1_000_000)))}))
    partial.rename(file)


def plain(query: str, file: Path) -> int:
    """Run a query that returns one number."""
    import duckdb

    connection = duckdb.connect(config={"preserve_insertion_order": "false"})
    row = connection.execute(query.format(file=file)).fetchone()
    return int(row[0]) if row and isinstance(row[0], int) else 0


def sample(file: Path) -> int:
    """Sample in two passes and return the size of the sample."""
    from dptally import Ppswor
    from dptally.randomness import SystemBits
    from dptally.sources import open_rows
    from dptally.summaries import sample_keys

    rows = open_rows(file, key="key", unit=None)
    with sample_keys(rows, Ppswor(RATE), bits=SystemBits()) as sampled:
        return sum(len(counts) for _, counts in sampled.batches())


JOBS: dict[str, Callable[[Path], int]] = {
    "plain scan, length": lambda file: plain(SCANS["plain scan, length"], file) * 0,
    "plain scan, hash": lambda file: plain(SCANS["plain scan, hash"], file) * 0,
    "plain scan, largest": lambda file: plain(SCANS["plain scan, largest"], file) * 0,
    "two-pass sample": sample,
    "plain group-by": lambda file: plain(PLAIN_COUNT, file),
}


def run_job(name: str, file: Path) -> None:
    """In a process of its own: import, warm up, measure, print JSON."""
    import duckdb
    import pyarrow.parquet

    import dptally.summaries

    duckdb.connect().execute("SELECT 1")
    del pyarrow, dptally
    wall, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_SELF)
    keys = JOBS[name](file)
    after = resource.getrusage(resource.RUSAGE_SELF)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    status = Path("/proc/self/status").read_text()  # not ru_maxrss: a child starts with that of its parent
    peak = int(next(line for line in status.splitlines() if line.startswith("VmHWM")).split()[1]) / 1024
    print(json.dumps({"keys": keys, "wall": time.perf_counter() - wall, "cpu": cpu, "peak": peak}))


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rows", type=int, default=10_000_000, help="number of rows, in whole millions")
    parser.add_argument("--distinct", type=int, nargs="+", default=[1_000_000, 10_000_000], help="numbers of keys")
    parser.add_argument("--directory", type=Path, default=Path("/tmp/dptally-sampling"))  # noqa: S108
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--only-data", action="store_true", help="make the files and stop")
    parser.add_argument("--job", help=argparse.SUPPRESS)
    parser.add_argument("--file", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.job:
        run_job(arguments.job, arguments.file)
        return
    arguments.directory.mkdir(parents=True, exist_ok=True)
    files = {d: arguments.directory / f"keys-{arguments.rows}-{d}.parquet" for d in arguments.distinct}
    for distinct, file in files.items():
        make_data(file, arguments.rows, distinct)
    if arguments.only_data:
        return
    print("| rows | distinct keys | job | wall s | CPU s | peak MB | keys out | wall ratio | CPU ratio |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- | --- |")
    for distinct, file in files.items():
        results: dict[str, list[dict[str, float]]] = {name: [] for name in JOBS}
        for _ in range(arguments.runs):
            for name in JOBS:
                command = [sys.executable, __file__, "--job", name, "--file", str(file)]
                done = subprocess.run(command, capture_output=True, text=True, check=True)
                results[name].append(json.loads(done.stdout))
        middle = {
            name: {what: statistics.median(run[what] for run in found) for what in found[0]}
            for name, found in results.items()
        }
        for name, row in middle.items():
            ratios = " | ".join(f"{row[what] / middle[BASE][what]:.2f}" for what in ("wall", "cpu"))
            keys = f"{row['keys']:,.0f}" if row["keys"] else ""
            print(
                f"| {arguments.rows:,} | {distinct:,} | {name} | {row['wall']:.2f} | {row['cpu']:.2f} "
                f"| {row['peak']:.0f} | {keys} | {ratios} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
