"""Progress of long work: a bar on the terminal, a function of the caller's, or silence."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

Progress = Callable[[str, float | None], None]


@contextlib.contextmanager
def progress_reporter(progress: bool | Progress | None) -> Iterator[Progress | None]:
    """Turn the caller's wish into a function of stage and fraction, or None for silence."""
    import sys

    if callable(progress):
        yield progress
        return
    if progress is None:
        progress = sys.stderr.isatty()
    if not progress:
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, SpinnerColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bars

    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Bars(*columns, console=Console(stderr=True), transient=True) as bars:
        task = bars.add_task("starting", total=None)

        def show(stage: str, fraction: float | None) -> None:
            bars.update(task, description=stage, total=None if fraction is None else 1.0, completed=fraction or 0.0)

        yield show
