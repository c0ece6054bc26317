"""Draw on a standalone cluster of two hosts of loopback, with a task so slow that Spark starts a copy of it.

Run by `test_failures.py` in a process of its own; prints what was released and what each attempt had drawn, as JSON.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyspark

from dptally.randomness import SystemBits
from dptally.spark import local_session
from dptally.spark.java import find_java_home
from dptally.spark.publishing import drawn_rows
from dptally.spark.rows import open_frame
from tests.mechanisms import PrivateWeightedSampling

DEPLOY = "org.apache.spark.deploy"


class Dawdle:
    """Notes what a task has drawn and where, and holds up the first attempt of one of them."""

    def __init__(self, folder: str) -> None:
        self.folder = folder

    def __call__(self, batches: Any) -> Iterator[pa.RecordBatch]:
        """Go through one partition."""
        from pyspark import TaskContext

        context = TaskContext.get()
        drawn = list(batches)
        rows = sorted([*row.values()] for batch in drawn for row in batch.to_pylist())
        name = f"{context.partitionId()}-{context.attemptNumber()}.json"
        Path(self.folder, name).write_text(json.dumps(rows))
        if context.partitionId() == 1 and context.attemptNumber() == 0:
            time.sleep(120)
        yield from drawn


def start(kind: str, host: str, logs: Path, *arguments: str) -> subprocess.Popen[bytes]:
    """Start a part of Spark's own cluster on an address of loopback."""
    command = [str(Path(pyspark.__file__).parent / "bin" / "spark-class"), f"{DEPLOY}.{kind}", "--host", host]
    with (logs / f"{kind}-{host}.log").open("wb") as log:
        return subprocess.Popen(
            [*command, "--webui-port", "0", *arguments],
            env={**os.environ, "SPARK_LOCAL_IP": host, "SPARK_LOCAL_DIRS": str(logs)},
            stdout=log,
            stderr=log,
        )


def free_port() -> int:
    """A port that nobody uses."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def main(folder: Path) -> None:
    """Draw once, while one of the tasks dawdles."""
    home = find_java_home()
    if home is not None:
        os.environ["JAVA_HOME"] = home
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["JAVA_TOOL_OPTIONS"] = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"  # five small machines start at once
    port = free_port()
    parts = [start("master.Master", "127.0.0.1", folder, "--port", str(port))]
    address = f"spark://127.0.0.1:{port}"
    for host in ("127.0.0.1", "127.0.0.2"):
        work = folder / f"work-{host}"
        resources = ("--cores", "1", "--memory", "600m", "--work-dir", str(work))
        parts.append(start("worker.Worker", host, folder, *resources, address))
    try:
        session = local_session(
            master=address,
            memory="512m",
            settings={
                "spark.executor.memory": "512m",
                "spark.executorEnv.PYTHONPATH": os.environ.get("PYTHONPATH", ""),
                "spark.sql.shuffle.partitions": "4",
                "spark.sql.adaptive.coalescePartitions.enabled": "false",
                "spark.speculation": "true",
                "spark.speculation.interval": "200ms",
                "spark.speculation.minTaskRuntime": "200ms",
                "spark.speculation.quantile": "0.5",
                "spark.scheduler.minRegisteredResourcesRatio": "1.0",
            },
        )
        frame = session.range(20_000).selectExpr("concat('k', cast(sqrt(id) as int)) as k", "id % 3000 as u")
        rows = open_frame(frame, key="k", unit="u")
        mechanism = PrivateWeightedSampling(Fraction(1), Fraction(1, 10**6), max_keys_per_unit=2, values=True)
        notes = folder / "notes"
        notes.mkdir()
        with drawn_rows(mechanism.question, rows, SystemBits()) as plan:
            undisturbed = plan.toArrow()
            began = time.monotonic()
            table = plan.mapInArrow(Dawdle(str(notes)), plan.schema).toArrow()
            took = time.monotonic() - began
        found = {
            "undisturbed": sorted([*row.values()] for row in undisturbed.to_pylist()),
            "released": sorted([*row.values()] for row in table.to_pylist()),
            "attempts": {note.stem: json.loads(note.read_text()) for note in notes.glob("*.json")},
            "seconds": took,
        }
        sys.stdout.write(json.dumps(found))
        sys.stdout.flush()
        session.stop()
    finally:
        for part in reversed(parts):
            part.terminate()
        for part in parts:
            part.wait(timeout=30)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
