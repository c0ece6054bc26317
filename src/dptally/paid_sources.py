"""Opening a source that a ledger pays for: what fails before a row is looked at is given back, and nothing else."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dptally.ledger.paying import Paid
    from dptally.sources import Rows

__all__ = ["open_paid", "opening"]


@contextlib.contextmanager
def opening(paid: Paid, source: Any, **request: Any) -> Iterator[None]:
    """For opening a source in the block; if that looks at declarations alone, and fails, the budget is given back.

    Args:
        paid: what pays.
        source: as in `dptally.sources.open_rows`.
        request: as in `dptally.sources.requests.check_request_for`.
    """
    from dptally.sources.requests import check_request_for

    with paid.opening():
        declared = check_request_for(source, **request)
    with paid.opening() if declared else contextlib.nullcontext():
        yield


def open_paid(paid: Paid, source: Any, *, check: Callable[[Rows], None] | None = None, **request: Any) -> Rows:
    """Open a source.

    Args:
        paid: what pays.
        source: as in `dptally.sources.open_rows`.
        check: refuses rows for their columns; called while the source is opened.
        request: as in `dptally.sources.open_rows`.
    """
    from dptally.sources import open_rows

    with opening(paid, source, **request):
        rows = open_rows(source, **request)
        if check is not None:
            check(rows)
    return rows
