"""What can go wrong, as a small tree.

::

    DptallyError
    ├── InvalidParameter      (also ValueError)   a request that cannot be met, refused before data is read
    ├── InvalidSource         (also ValueError)   data that cannot be read as asked
    ├── PrivacyViolation                          a table exceeds the guarantee it was built for
    ├── MissingDependency     (also ImportError)  an extra is not installed
    └── UnreadableRelease     (also ValueError)   a release file that is damaged, foreign or too new

No message ever holds a key, a count or a unit: column names, file names and row numbers at most. Exceptions of the
engines below may quote data, so they are never chained to ours (``raise ... from None``).
"""

from __future__ import annotations

__all__ = [
    "DptallyError",
    "InvalidParameter",
    "InvalidSource",
    "MissingDependency",
    "PrivacyViolation",
    "UnreadableRelease",
]


class DptallyError(Exception):
    """Base of every error raised on purpose by dptally."""


class InvalidParameter(DptallyError, ValueError):  # noqa: N818 - named for what it is, as in the design
    """A parameter is outside what can be guaranteed or computed."""


class InvalidSource(DptallyError, ValueError):  # noqa: N818
    """The data cannot be read as asked."""


class PrivacyViolation(DptallyError):  # noqa: N818
    """A table's exact privacy loss exceeds what it was built for."""


class MissingDependency(DptallyError, ImportError):  # noqa: N818
    """An optional dependency is needed and not installed."""


class UnreadableRelease(DptallyError, ValueError):  # noqa: N818
    """A release file is damaged, foreign, or written by a newer version."""
