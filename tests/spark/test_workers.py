"""Which Python runs dptally beside Spark, in a virtual environment that is not activated."""

from __future__ import annotations

import os
import subprocess
import sys
import venv
from pathlib import Path

import pytest

# A session as users make it, not by dptally; then another one for which they have chosen the Python.
PROGRAM = """
import os, sys

import dptally
from dptally.spark.java import find_java_home

home = find_java_home()
if home is not None:
    os.environ["JAVA_HOME"] = home

def publish():
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
    session = builder.config("spark.log.level", "OFF").config("spark.driver.memory", "512m").getOrCreate()
    frame = session.createDataFrame([("a",)] * 500, "k string")
    before = session.sparkContext.pythonExec
    try:
        print(len(dptally.publish(frame, key="k", epsilon=1, delta="1e-6")))
    except dptally.DptallyError as error:
        print(error)
    print(session.sparkContext.pythonExec == before)
    session.stop()

publish()
os.environ["PYSPARK_PYTHON"] = sys.argv[1]
publish()
"""


def test_local_workers_use_this_python(tmp_path: Path) -> None:
    """With another python3 on PATH, workers on this machine use ours; a Python that was chosen is used, or refused."""
    pytest.importorskip("pyspark", reason="needs pip install 'dptally[spark]'")
    venv.create(tmp_path / "other")  # a Python without dptally
    others = tmp_path / "other" / "bin"
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYSPARK")}
    environment |= {"PATH": f"{others}{os.pathsep}{os.environ['PATH']}", "SPARK_LOCAL_IP": "127.0.0.1"}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(others / "python3")],
        env=environment, capture_output=True, text=True, timeout=300, cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    refused = (
        "Spark's Python workers cannot run dptally: set PYSPARK_PYTHON, before the session starts, to a Python of this "
        "version in which dptally[spark] is installed, or unset it where Spark runs on this machine."
    )
    assert done.stdout.splitlines() == ["1", "True", refused, "True"]
