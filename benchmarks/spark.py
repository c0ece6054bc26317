"""What publishing on Spark costs over counting on Spark, in one warm session, and how it grows.

    python benchmarks/spark.py --rows 1000000 10000000 100000000 --directory /tmp/dptally-benchmark

Data: string keys, Zipf(1) over 1.2 million possible ones, and units of about 20 rows each, in one Parquet file, made
once. The session has two threads. Jobs take turns after a run of each that does not count, and the median of the runs
is shown: seconds, seconds of processor time (driver, Java and Python workers together, which a busy machine disturbs
less), and their ratio to the plain job beside which they ran. Plain jobs write to Spark's "noop" sink; `publish`
collects what is released.

    count            groupBy(key).count()
    publish          one draw for each key
    publish on cluster   the same with collect=False
    choose           distinct (unit, key), row_number by rand(), groupBy(key).count()
    publish units    at most 3 keys of each unit, chosen by secret tags
    publish 8 keys   the same with at most 8 keys
    publish rounds   sizes of units measured, keys found in rounds, counts of those (the automatic choice); compared
                     with "publish 8 keys"
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from publish import DELTA, EPSILON, KEYS_PER_UNIT, make_data

import dptally
from dptally.spark import local_session

TICKS = os.sysconf("SC_CLK_TCK")


def processor_seconds() -> float:
    """Processor time of this process and all below it, also of those that have ended and been waited for."""
    parents: dict[int, int] = {}
    times: dict[int, float] = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            fields = (entry / "stat").read_text().rsplit(")", 1)[1].split()
        except OSError:
            continue
        parents[int(entry.name)] = int(fields[1])
        times[int(entry.name)] = sum(map(int, fields[11:15])) / TICKS
    own = {os.getpid()}
    while more := {process for process, parent in parents.items() if parent in own} - own:
        own |= more
    return sum(times[process] for process in own)


def jobs(frame: Any, units: bool) -> dict[str, tuple[Callable[[], object], str]]:
    """What is run, and which plain job it is compared with."""
    from pyspark.sql import Window, functions

    request: dict[str, Any] = {"key": "key", "epsilon": EPSILON, "delta": DELTA, "progress": False}

    def nowhere(result: Any) -> None:
        result.write.format("noop").mode("overwrite").save()

    def choose() -> None:
        pairs = frame.where("unit is not null and key is not null").select("unit", "key").distinct()
        place = functions.row_number().over(Window.partitionBy("unit").orderBy("mark"))
        marked = pairs.withColumn("mark", functions.rand()).withColumn("place", place)
        nowhere(marked.where(f"place <= {KEYS_PER_UNIT}").groupBy("key").count())

    found: dict[str, tuple[Callable[[], object], str]] = {
        "count": (lambda: nowhere(frame.where("key is not null").groupBy("key").count()), "count"),
        "publish": (lambda: dptally.publish(frame, **request), "count"),
        "publish on cluster": (lambda: dptally.publish(frame, collect=False, **request), "count"),
    }
    if units:
        bounded = {**request, "unit": "unit", "mechanism": "weighted_sample"}
        found["choose"] = (choose, "choose")
        found["publish units"] = (lambda: dptally.publish(frame, **bounded, max_keys_per_unit=KEYS_PER_UNIT), "choose")
        found["publish 8 keys"] = (lambda: dptally.publish(frame, **bounded, max_keys_per_unit=8), "choose")
        found["publish rounds"] = (lambda: dptally.publish(frame, **request, unit="unit"), "publish 8 keys")
    return found


def main() -> None:
    """Run all jobs for each size and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, nargs="+", default=[1_000_000, 10_000_000])
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--directory", type=Path, default=Path("/tmp/dptally-benchmark"))  # noqa: S108
    parser.add_argument("--master", default="local[2]")
    parser.add_argument("--memory", default="8g")
    parser.add_argument("--no-units", action="store_true")
    parser.add_argument("--jobs", nargs="+", help="only these, with what they are compared with")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    arguments.directory.mkdir(parents=True, exist_ok=True)
    session = local_session(master=arguments.master, memory=arguments.memory)
    figures: list[dict[str, Any]] = []
    print(f"{'rows':>12}  {'job':<20} {'seconds':>8} {'cpu':>8} {'ratio':>7} {'cpu ratio':>9}")
    for rows in arguments.rows:
        file = arguments.directory / f"spark-{rows}.parquet"
        make_data(file, rows)
        chosen = jobs(session.read.parquet(str(file)), not arguments.no_units)
        if arguments.jobs:
            beside = {chosen[name][1] for name in arguments.jobs}
            chosen = {
                name: (job, other if other in {*arguments.jobs, *beside} else name)
                for name, (job, other) in chosen.items()
                if name in {*arguments.jobs, *beside}
            }
        taken: dict[str, list[tuple[float, float]]] = {name: [] for name in chosen}
        for turn in range(arguments.repeats + 1):
            for name, (job, _) in chosen.items():
                start, used = time.perf_counter(), processor_seconds()
                job()
                if turn:
                    taken[name].append((time.perf_counter() - start, processor_seconds() - used))
        middle = {name: [statistics.median(part) for part in zip(*runs, strict=True)] for name, runs in taken.items()}
        for name, (_, beside) in chosen.items():
            ratios = [here / there for here, there in zip(middle[name], middle[beside], strict=True)]
            seconds, processor = middle[name]
            print(
                f"{rows:>12,}  {name:<20} {seconds:8.2f} {processor:8.2f} {ratios[0]:7.2f} {ratios[1]:9.2f}", flush=True
            )
            figures.append({"rows": rows, "job": name, "seconds": seconds, "cpu": processor, "ratios": ratios})
    if arguments.json:
        arguments.json.write_text(json.dumps(figures, indent=2))
    session.stop()


if __name__ == "__main__":
    main()
