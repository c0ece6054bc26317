"""What crosses from executors to the driver when something fails: our own sentences, and nothing of Spark's.

Spark quotes rows in its errors, and its errors hold the ones below them. What an executor of ours has to say is put
between marks; everything else becomes one of a few fixed sentences. The originals are dropped, not chained.
"""

from __future__ import annotations

import re

from dptally import errors
from dptally.errors import DptallyError, InvalidParameter, InvalidSource

__all__ = ["explain", "marked"]

_MARKED = re.compile(r"<dptally:(\w+)>(.*?)</dptally>", re.DOTALL)


def marked(error: Exception) -> RuntimeError:
    """What an executor raises instead of an error: ours with their sentence, others without anything."""
    if isinstance(error, DptallyError):
        return RuntimeError(f"<dptally:{type(error).__name__}>{error}</dptally>")
    return RuntimeError("<dptally:InvalidSource>a task of dptally failed on an executor.</dptally>")


def explain(error: BaseException, *, stopped: bool) -> DptallyError:
    """Turn an error of Spark into one that holds nothing of the data."""
    text = str(error)
    found = _MARKED.search(text)
    if found is not None:
        kind = getattr(errors, found[1], InvalidSource)
        return kind(found[2]) if issubclass(kind, DptallyError) else InvalidSource(found[2])
    if "maxResultSize" in text:
        return InvalidParameter(
            "the released rows do not fit into the driver (spark.driver.maxResultSize); use collect=False to keep them "
            "on the cluster, or a larger limit for the mechanism 'rounds', whose rows pass through the driver."
        )
    if stopped:
        return InvalidSource("the Spark session was stopped before the release was complete; nothing was released.")
    if "ModuleNotFoundError" in text or "PYTHON_VERSION_MISMATCH" in text or "Cannot run program" in text:
        return InvalidSource(
            "Spark's Python workers cannot run dptally: set PYSPARK_PYTHON, before the session starts, to a Python of "
            "this version in which dptally[spark] is installed, or unset it where Spark runs on this machine."
        )
    return InvalidSource(
        "Spark could not finish; its own logs say why (they may quote data, so nothing is repeated here). "
        "Nothing was released."
    )
