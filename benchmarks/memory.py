"""What publishing takes when the data is larger than the memory it may use.

    python benchmarks/memory.py --rows 100000000 --distinct 10000000 --memory-limit 1GB

Data: string keys of about 30 characters, half of the rows spread evenly over all distinct keys and half by Zipf(1) over
the first million of them, and units of about 20 rows each, in one Parquet file, made once, in pieces. Each job runs in
a process of its own; its peak memory is that of the whole process (VmHWM), imports included, and what it spills is
watched from outside. The goal: peak memory at most 1.5 times the limit.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

EPSILON, DELTA, KEYS_PER_UNIT = "1", "1e-6", 3
PIECE = 1_000_000
SIZES = {"KB": 10**3, "MB": 10**6, "GB": 10**9, "KIB": 2**10, "MIB": 2**20, "GIB": 2**30}


def make_data(file: Path, rows: int, distinct: int) -> None:
    """Write the Parquet file, a million rows at a time."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    if file.exists():
        return
    rng = np.random.default_rng(11)
    cumulative = np.cumsum(1 / np.arange(1, min(distinct, 1_000_000) + 1))
    schema = pa.schema([("unit", pa.int64()), ("key", pa.string())])
    partial = file.with_suffix(".partial")
    with pq.ParquetWriter(partial, schema) as writer:
        for start in range(0, rows, PIECE):
            size = min(PIECE, rows - start)
            ranks = np.searchsorted(cumulative, rng.random(size) * cumulative[-1])
            # Every key comes at least once where there are twice as many rows as keys: odd rows take turns.
            ranks[1::2] = (start // 2 + np.arange(len(ranks[1::2]))) % distinct
            numbers = pc.utf8_lpad(pa.array(ranks * 2_654_435_761 % 2**40).cast(pa.string()), 13, "0")
            keys = pc.binary_join_element_wise("https://example/", numbers, "")
            writer.write_table(pa.table([pa.array(rng.integers(0, max(1, rows // 20), size)), keys], schema=schema))
    partial.rename(file)


REQUESTS: dict[str, dict[str, Any]] = {
    "publish": {},
    "publish by unit": {"unit": "unit", "max_keys_per_unit": KEYS_PER_UNIT, "mechanism": "weighted_sample"},
    "publish by unit, measured": {"unit": "unit"},
}


def run_job(file: Path, job: str, limit: str) -> None:
    """In a process of its own: publish, and print what it took."""
    import dptally

    wall, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_SELF)
    release = dptally.publish(
        str(file),
        key="key",
        epsilon=EPSILON,
        delta=DELTA,
        memory_limit=limit,
        progress=False,
        **REQUESTS[job],
    )
    after = resource.getrusage(resource.RUSAGE_SELF)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    # Not ru_maxrss: a child starts with its parent's, and the parent may have made the data.
    peak = int(re.findall(r"VmHWM:\s+(\d+)", Path("/proc/self/status").read_text())[0]) * 1024
    print(json.dumps({"keys": len(release), "wall": time.perf_counter() - wall, "cpu": cpu, "peak": peak}))  # type: ignore[arg-type]


def watched(command: list[str], spill: Path) -> tuple[subprocess.CompletedProcess[str], int]:
    """Run a job with `spill` as its temporary directory, and return also the most it held."""
    largest = 0
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        process = subprocess.Popen(command, stdout=out, stderr=err, env={**os.environ, "TMPDIR": str(spill)})
        while process.poll() is None:
            size = 0
            for path in spill.rglob("*"):
                try:
                    size += path.stat().st_size
                except OSError:
                    continue  # removed meanwhile
            largest = max(largest, size)
            time.sleep(0.1)
        out.seek(0)
        err.seek(0)
        return subprocess.CompletedProcess(command, process.returncode, out.read(), err.read()), largest


def in_bytes(amount: str) -> int:
    """An amount such as 1GB as a number."""
    found = re.fullmatch(r"([\d.]+)([KMG]i?B)", amount, re.IGNORECASE)
    if not found:
        raise SystemExit(f"--memory-limit must be an amount such as 1GB, got {amount!r}.")
    return int(float(found[1]) * SIZES[found[2].upper()])


def main() -> None:
    """Make the data, run the jobs, print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--distinct", type=int, default=1_000_000)
    parser.add_argument("--memory-limit", default="200MB")
    parser.add_argument("--directory", type=Path, default=Path("/tmp/dptally-benchmark"))  # noqa: S108
    parser.add_argument("--jobs", nargs="+", choices=REQUESTS, default=list(REQUESTS))
    parser.add_argument("--job", help=argparse.SUPPRESS)
    parser.add_argument("--file", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.job:
        run_job(arguments.file, arguments.job, arguments.memory_limit)
        return
    limit = in_bytes(arguments.memory_limit)
    arguments.directory.mkdir(parents=True, exist_ok=True)
    file = arguments.directory / f"many-keys-{arguments.rows}-{arguments.distinct}.parquet"
    make_data(file, arguments.rows, arguments.distinct)
    print(f"{arguments.rows:,} rows, {arguments.distinct:,} keys, file of {file.stat().st_size / 1e6:,.0f} MB\n")
    print("| job | limit | peak MB | peak / limit | CPU s | wall s | spilled MB | keys released |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    for job in arguments.jobs:
        with tempfile.TemporaryDirectory(dir=arguments.directory) as spill:
            command = [sys.executable, __file__, "--job", job, "--file", str(file)]
            done, spilled = watched([*command, "--memory-limit", arguments.memory_limit], Path(spill))
            left = list(Path(spill).iterdir())
        if done.returncode:
            print(f"| {job} | {arguments.memory_limit} | failed: {done.stderr.strip().splitlines()[-1]} | | | | | |")
            continue
        found = json.loads(done.stdout)
        print(
            f"| {job} | {arguments.memory_limit} | {found['peak'] / 1e6:,.0f} | {found['peak'] / limit:.2f} "
            f"| {found['cpu']:.1f} | {found['wall']:.1f} | {spilled / 1e6:,.0f} | {found['keys']:,} |"
            f"{' LEFT BEHIND' if left else ''}",
            flush=True,
        )


if __name__ == "__main__":
    main()
