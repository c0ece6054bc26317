"""A local Spark session for those who have none."""

from __future__ import annotations

import atexit
import os
import sys
from typing import Any

from dptally.errors import InvalidSource, MissingDependency, attempt
from dptally.sources.temporary import PrivateDirectory, remove_stale_directories
from dptally.spark.java import find_java_home

__all__ = ["local_session"]

_MASTER = "local[*]"


def local_session(*, master: str = _MASTER, memory: str | None = None, settings: dict[str, str] | None = None) -> Any:
    """The running session if there is one, else a new one on this machine.

    A new session listens on this machine alone, has no web page, keeps its files in a directory that only this user may
    enter and that is removed at the end, takes times for UTC, and logs nothing, since Spark's errors quote data.

    Args:
        master: what Spark runs on, for a new session.
        memory: of the driver, which is all there is in local mode, such as "4g"; None for half of the machine.
        settings: more settings of Spark.

    Returns:
        pyspark.sql.SparkSession: it is the caller's to stop.

    Raises:
        MissingDependency: PySpark or Java is missing.
        InvalidSource: Spark does not start.
    """
    try:
        from py4j.protocol import Py4JError
        from pyspark.errors import PySparkException
        from pyspark.sql import SparkSession
    except ImportError:
        raise MissingDependency("Spark is not installed; pip install 'dptally[spark]' brings it.") from None
    running = SparkSession.getActiveSession()
    if running is not None:
        return running
    home = find_java_home()
    if home is not None:
        os.environ["JAVA_HOME"] = home
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", os.environ["PYSPARK_PYTHON"])
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    remove_stale_directories()
    directory = PrivateDirectory()
    atexit.register(directory.close)
    builder = SparkSession.builder.master(master).appName("dptally")
    for name, value in {
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.memory": memory or _half_of_memory(),
        "spark.local.dir": str(directory.path),
        "spark.log.level": "OFF",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.warehouse.dir": str(directory.path / "warehouse"),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        **(settings or {}),
    }.items():
        builder = builder.config(name, value)

    def explained(_: Exception) -> InvalidSource:
        directory.close()
        return InvalidSource("Spark did not start; check the Java in JAVA_HOME, free memory and disk.")

    return attempt(builder.getOrCreate, explained, PySparkException, Py4JError, OSError, RuntimeError)


def _half_of_memory() -> str:
    half = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2
    return f"{max(1, half >> 30)}g"
