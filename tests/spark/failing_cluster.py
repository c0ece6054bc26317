"""Draw on a cluster of two executors, with a task that dies after its draw, a killed executor, and a duplicate.

Run by `test_failures.py` in a process of its own; prints what was released and what each attempt had drawn, as JSON.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import pyarrow as pa

import dptally
from dptally.errors import InvalidSource
from dptally.randomness import SystemBits
from dptally.spark import local_session
from dptally.spark.publishing import drawn_rows
from dptally.spark.rows import open_frame
from tests.mechanisms import PrivateWeightedSampling


class Disturb:
    """Notes what a task has drawn, then ends its first attempt."""

    def __init__(self, how: str, folder: str) -> None:
        self.how, self.folder = how, folder

    def __call__(self, batches: Any) -> Iterator[pa.RecordBatch]:
        """Go through one partition."""
        from pyspark import TaskContext

        context = TaskContext.get()
        drawn = list(batches)  # all of the partition has been drawn from here on
        rows = sorted([*row.values()] for batch in drawn for row in batch.to_pylist())
        partition = context.partitionId()
        name = f"{partition}-{context.attemptNumber()}-{context.taskAttemptId()}.json"
        Path(self.folder, name).write_text(json.dumps(rows))
        flag = Path(self.folder, "disturbed")
        if partition == 1 and self.how in ("worker", "executor") and not flag.exists():
            flag.touch()
            if self.how == "executor":
                os.kill(parent_of(os.getppid()), signal.SIGKILL)  # worker, daemon, executor
            os._exit(1)
        yield from drawn


def parent_of(process: int) -> int:
    """The parent of a process."""
    return int(Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[1])


def main(folder: Path) -> None:
    """Draw once undisturbed and once for each disturbance, from the same secret."""
    session = local_session(
        master="local-cluster[2,1,512]",
        memory="512m",
        settings={
            "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1",
            "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1",
            "spark.executor.memory": "512m",
            "spark.executorEnv.PYTHONPATH": os.environ.get("PYTHONPATH", ""),
            "spark.sql.shuffle.partitions": "4",
            "spark.sql.adaptive.coalescePartitions.enabled": "false",
        },
    )
    frame = session.range(20_000).selectExpr("concat('k', cast(sqrt(id) as int)) as k", "id % 3000 as u")
    rows = open_frame(frame, key="k", unit="u")
    mechanism = PrivateWeightedSampling(Fraction(1), Fraction(1, 10**6), max_keys_per_unit=2, values=True)
    found = {}
    with drawn_rows(mechanism.question, rows, SystemBits()) as plan:
        for how in ("not", "worker", "executor", "duplicate"):
            notes = folder / how
            notes.mkdir()
            noted = plan.mapInArrow(Disturb(how, str(notes)), plan.schema)
            if how == "duplicate":  # every task a second time, at the same time (Spark speculates on other hosts only)
                other = threading.Thread(target=noted.toArrow)
                other.start()
                table = noted.toArrow()
                other.join()
            else:
                table = noted.toArrow()
            found[how] = {
                "released": sorted([*row.values()] for row in table.to_pylist()),
                "attempts": {note.stem: json.loads(note.read_text()) for note in notes.glob("*.json")},
            }
    stopped: dict[str, Any] = {}
    found["stopped"] = stopped
    started = folder / "started"

    def stop() -> None:
        while not started.exists():
            time.sleep(0.1)
        session.stop()

    def wait(batches: Any) -> Iterator[pa.RecordBatch]:
        Path(str(started)).touch()
        time.sleep(120)
        yield from batches

    stopping = threading.Thread(target=stop)
    slow = frame.mapInArrow(wait, frame.schema)
    for when in ("while it runs", "before"):
        try:
            if when == "while it runs":
                stopping.start()
            dptally.publish(slow, key="k", epsilon=1, delta="1e-6")
        except InvalidSource as error:
            stopped[when] = [str(error), error.__context__ is None]
        stopping.join()
    sys.stdout.write(json.dumps(found))
    sys.stdout.flush()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
