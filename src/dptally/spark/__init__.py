"""Spark: the same flow on a cluster. Needs the extra ``dptally[spark]``; imported when used.

`dptally.publish(frame, ...)` takes a Spark DataFrame. Counting is Spark's; the draw happens in Python on the executors,
with words that belong to the key (`dptally.randomness.keyed`), and only reported rows leave them. `rows` says which
columns become keys, `counting` how units are bounded and keys are counted, `drawing` is what runs on the executors,
`publishing` ties them together and holds the argument why a repeated task cannot draw twice, `java` and `session` start
a local session where there is none, `workers` has our code run by this Python where that is possible, `files` reads
files by the rules of one machine, `row_sampling` samples rows before they are shuffled, `unit_pairs` and `packed_units`
keep units with their keys between the stages of a release in rounds, `sketching` builds sketches on the executors, and
`streaming` keeps one over a stream.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dptally.spark.files import open_files
    from dptally.spark.released import SparkRelease
    from dptally.spark.session import local_session
    from dptally.spark.streaming import SketchStream

__all__ = ["SketchStream", "SparkRelease", "is_spark_frame", "local_session", "open_files"]

_HOMES = {
    "SketchStream": "streaming",
    "SparkRelease": "released",
    "local_session": "session",
    "open_files": "files",
}


def is_spark_frame(source: object) -> bool:
    """Whether something is a Spark DataFrame, found out without importing Spark."""
    return any(
        kind.__name__ == "DataFrame" and kind.__module__.startswith("pyspark.sql") for kind in type(source).__mro__
    )


def __getattr__(name: str) -> Any:
    """Import what needs Spark when it is asked for."""
    if name not in _HOMES:
        raise AttributeError(f"module 'dptally.spark' has no attribute {name!r}")
    import importlib

    return getattr(importlib.import_module(f"dptally.spark.{_HOMES[name]}"), name)
