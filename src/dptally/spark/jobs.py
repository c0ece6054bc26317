"""Running a Spark job: progress while it runs, cancelled by Ctrl-C, and errors that hold nothing of the data."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any, TypeVar

from dptally.errors import DptallyError, attempt
from dptally.spark.errors import explain

__all__ = ["Progress", "guarded", "is_stopped", "run"]

Progress = Callable[[str, float | None], None]
_Result = TypeVar("_Result")
_WAIT = 0.25  # seconds between two looks at the progress
_PATIENCE = 5.0  # seconds that a job may take to end after its session was stopped, or it was cancelled


def run(frame: Any, action: Callable[[], _Result], *, stage: str, progress: Progress | None) -> _Result:
    """Run an action on a DataFrame and return its result.

    The job appears in Spark's web page and event log under the name "dptally" and the stage, with nothing of the data.
    """
    from pyspark import InheritableThread

    context = frame.sparkSession.sparkContext
    group = f"dptally-{uuid.uuid4()}"
    results: list[_Result] = []
    failures: list[BaseException] = []

    def work() -> None:
        try:
            context.setJobGroup(group, f"dptally: {stage}", interruptOnCancel=True)
            results.append(action())
        except BaseException as error:
            failures.append(error)

    thread = InheritableThread(target=work, name="dptally-spark", daemon=True)
    thread.start()
    patience = _PATIENCE
    try:
        while thread.is_alive() and patience > 0:
            if progress is not None:
                progress(stage, _share_done(context, group))
            thread.join(_WAIT)
            patience -= _WAIT if is_stopped(frame) else 0  # a call into a session that was stopped may never return
    except BaseException:
        if not is_stopped(frame):
            context.cancelJobGroup(group)
        thread.join(_PATIENCE)
        raise
    if results:
        return results[0]
    failure = failures.pop() if failures else TimeoutError()
    raise _explained(failure, frame)


def guarded(frame: Any, action: Callable[[], _Result]) -> _Result:
    """Do something with a DataFrame that runs no job of its own, such as making a plan."""
    return attempt(action, lambda error: _explained(error, frame))


def is_stopped(frame: Any) -> bool:
    """Whether the session of a DataFrame is gone, or the Java below it."""
    from py4j.protocol import Py4JError

    context = frame.sparkSession._sc
    try:
        return context._jsc is None or bool(context._jsc.sc().isStopped())
    except Py4JError:
        return True


def _explained(error: BaseException, frame: Any) -> DptallyError:
    return error if isinstance(error, DptallyError) else explain(error, stopped=is_stopped(frame))


def _share_done(context: Any, group: str) -> float | None:
    """Which share of the tasks that are known so far is done; None before there are any."""
    try:
        tracker = context.statusTracker()
        jobs = [tracker.getJobInfo(job) for job in tracker.getJobIdsForGroup(group)]
        stages = {stage for job in jobs if job is not None for stage in job.stageIds}
        found = [info for info in map(tracker.getStageInfo, stages) if info is not None]
    except Exception:  # the session may stop at any moment; the job itself says so
        return None
    tasks = sum(info.numTasks for info in found)
    return sum(info.numCompletedTasks for info in found) / tasks if tasks else None
