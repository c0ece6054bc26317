"""What can go wrong, as a small tree.

::

    DptallyError
    ├── InvalidParameter      (also ValueError)   a request that cannot be met, refused before data is read
    │   └── BudgetExceeded                        a ledger's budget does not allow it
    ├── InvalidSource         (also ValueError)   data that cannot be read as asked
    ├── PrivacyViolation                          a table exceeds the guarantee it was built for
    ├── MissingDependency     (also ImportError)  an extra is not installed
    ├── UnreadableRelease     (also ValueError)   a release file that is damaged, foreign or too new
    └── UnreadableLedger      (also ValueError)   a ledger that is damaged, altered, foreign or too new

No message ever holds a key, a count or a unit: column names, file names and row numbers at most. Exceptions of the
engines below may quote data, so they are never chained to ours: see `attempt`.

A message marks parameters by backticks, with a value or without: "`overwrite=True` replaces it". They are shown as
they are in Python (`str`), or as options (the command line).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TypeVar

__all__ = [
    "BudgetExceeded",
    "DptallyError",
    "InvalidParameter",
    "InvalidSource",
    "MissingDependency",
    "PrivacyViolation",
    "UnreadableLedger",
    "UnreadableRelease",
]

_Result = TypeVar("_Result")
_MARKED = re.compile("`([a-z_]+)(=[^`]*)?`")
_AFTER_A_PARAMETER = ("must", "needs", "is", "cannot", "may", "names")


class DptallyError(Exception):
    """Base of every error raised on purpose by dptally.

    Args:
        message: one sentence, in which parameters may be marked, as in "use `overwrite=True` to replace it".
    """

    def __init__(self, message: str = "") -> None:
        super().__init__(_MARKED.sub(r"\1\2", message))
        self._marked = message

    def worded(self, write: Callable[[str, str], str]) -> str:
        """The message with every marked parameter as `write` writes it, given its name and value (``""`` if none)."""
        return _MARKED.sub(lambda found: write(found[1], (found[2] or "")[1:]), self._marked)


class InvalidParameter(DptallyError, ValueError):  # noqa: N818 - named for what it is, as in the design
    """A parameter is outside what can be guaranteed or computed.

    A sentence that begins like "epsilon must ..." is about the parameter epsilon, which need not be marked.

    Args:
        message: one sentence.
        parameter: the parameter it is about, if the sentence does not begin with it.

    Attributes:
        parameter: the parameter it is about, or None.
    """

    def __init__(self, message: str = "", *, parameter: str | None = None) -> None:
        first, _, rest = message.partition(" ")
        if re.fullmatch("[a-z_]+", first) and rest.startswith(_AFTER_A_PARAMETER):
            message = f"`{first}` {rest}"
        marked = _MARKED.match(message)
        self.parameter = marked[1] if parameter is None and marked else parameter
        super().__init__(message)


class BudgetExceeded(InvalidParameter):
    """A ledger's budget does not allow what was asked; nothing has been read."""


class InvalidSource(DptallyError, ValueError):  # noqa: N818
    """The data cannot be read as asked."""


class PrivacyViolation(DptallyError):  # noqa: N818
    """A table's exact privacy loss exceeds what it was built for."""


class MissingDependency(DptallyError, ImportError):  # noqa: N818
    """An optional dependency is needed and not installed."""


class UnreadableRelease(DptallyError, ValueError):  # noqa: N818
    """A release file is damaged, foreign, or written by a newer version."""


class UnreadableLedger(DptallyError, ValueError):  # noqa: N818
    """A ledger file is damaged, has been altered or cut short, is foreign, or was written by a newer version."""


def attempt(
    action: Callable[[], _Result], explain: Callable[[Exception], Exception], *kinds: type[Exception]
) -> _Result:
    """Return what `action` returns; an error of these kinds (any, if none are named) is explained and dropped.

    It may quote data, so what is raised instead has neither cause nor context.
    """
    caught = kinds or (Exception,)
    try:
        return action()
    except caught as error:
        failure = explain(error)
    raise failure
