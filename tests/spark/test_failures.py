"""A key is drawn once, whatever is lost and repeated: executors of their own, really killed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import dptally
from dptally.errors import MissingDependency
from dptally.spark.java import find_java_home

pytestmark = pytest.mark.slow  # clusters of their own take most of a minute to start, fail and recover


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What a cluster of two executors released, undisturbed and disturbed, with secret bits."""
    return run_script("failing_cluster.py", tmp_path_factory.mktemp("cluster"))


def run_script(name: str, folder: Path) -> dict[str, Any]:
    """What a script beside this file prints, run in a process of its own."""
    pytest.importorskip("pyspark", reason="needs pip install 'dptally[spark]'")
    try:
        find_java_home()
    except MissingDependency as missing:
        pytest.skip(str(missing))
    script = Path(__file__).with_name(name)
    source = os.pathsep.join(map(str, (Path(dptally.__file__).parents[1], Path(__file__).parents[2])))
    finished = subprocess.run(
        [sys.executable, str(script), str(folder)],
        env={**os.environ, "PYTHONPATH": source},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert finished.returncode == 0, finished.stderr[-3000:]
    found: dict[str, Any] = json.loads(finished.stdout)
    return found


@pytest.mark.parametrize("how", ["worker", "executor", "duplicate"])
def test_a_repeated_task_repeats_its_draw(runs: dict[str, Any], how: str) -> None:
    """A worker that dies after its draw, a killed executor, and tasks that run twice at once change nothing."""
    assert len(runs["not"]["released"]) > 10
    assert runs[how]["released"] == runs["not"]["released"]
    drawn: dict[str, list[Any]] = {}
    for attempt, rows in runs[how]["attempts"].items():
        drawn.setdefault(attempt.split("-")[0], []).append(rows)
    assert len(drawn["1"]) > 1  # it was drawn for again
    for repeated in drawn.values():
        assert all(rows == repeated[0] for rows in repeated)
    assert sorted(row for parts in drawn.values() for row in parts[0]) == runs["not"]["released"]


def test_a_stopped_session(runs: dict[str, Any]) -> None:
    """A session that is stopped, before or meanwhile, is named as the reason, and nothing is behind the error."""
    assert runs["stopped"] == {
        "while it runs": [
            "the Spark session was stopped before the release was complete; nothing was released.",
            True,
        ],
        "before": ["the Spark session of this DataFrame was stopped; start one and read the data again.", True],
    }


def test_a_speculative_copy_draws_the_same(tmp_path: Path) -> None:
    """A task that dawdles on one host is copied to another by Spark; the copy is taken, and had the same draw."""
    found = run_script("speculating_cluster.py", tmp_path)
    assert len(found["released"]) > 10
    assert found["released"] == found["undisturbed"]
    assert found["attempts"]["1-1"] == found["attempts"]["1-0"]
    assert len(found["attempts"]["1-0"]) > 0
    assert found["seconds"] < 120  # nobody waited for the first attempt
