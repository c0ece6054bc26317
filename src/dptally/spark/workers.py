"""Which Python runs our code beside Spark: that of the driver, where nobody has chosen another one.

Spark starts ``python3``, as PATH finds it, unless PYSPARK_PYTHON or ``spark.pyspark.python`` says otherwise. Where a
virtual environment is not activated, that is another Python, without dptally. On a cluster the driver's path means
nothing; with a local master it is the one that works.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from dptally.spark.errors import marked

__all__ = ["map_in_arrow"]


def map_in_arrow(frame: Any, function: Callable[[Iterator[Any]], Iterator[Any]], schema: Any) -> Any:
    """``frame.mapInArrow``, whose function runs in this very Python where the workers are on this machine."""
    with _own_python(frame.sparkSession.sparkContext):
        return frame.mapInArrow(_Marked(function), schema)


class _Marked:
    """Goes through one partition; what fails there says our own sentences alone."""

    def __init__(self, function: Callable[[Iterator[Any]], Iterator[Any]]) -> None:
        self._function = function

    def __call__(self, batches: Iterator[Any]) -> Iterator[Any]:
        failure = None
        try:
            yield from self._function(batches)
        except Exception as error:
            failure = marked(error)
        if failure is not None:
            raise failure


@contextmanager
def _own_python(context: Any) -> Iterator[None]:
    """While functions are handed to Spark; the session's own choice is as before afterwards."""
    chosen = "PYSPARK_PYTHON" in os.environ or context.getConf().contains("spark.pyspark.python")
    if chosen or not context.master.startswith("local") or not sys.executable:
        yield
        return
    before = context.pythonExec
    context.pythonExec = sys.executable
    try:
        yield
    finally:
        context.pythonExec = before
