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
engines below may quote data, so they are never chained to ours (``raise ... from None``).
"""

from __future__ import annotations

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


class DptallyError(Exception):
    """Base of every error raised on purpose by dptally."""


class InvalidParameter(DptallyError, ValueError):  # noqa: N818 - named for what it is, as in the design
    """A parameter is outside what can be guaranteed or computed."""


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
