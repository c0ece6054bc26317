"""Budgets that cannot be overspent: what releases of one data set have spent, on disk before anything is drawn."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dptally.ledger.ledger import Account, Entry, Ledger, Reservation

__all__ = ["Account", "Entry", "Ledger", "Reservation"]


def __getattr__(name: str) -> object:
    # Not loaded for publishing without a ledger.
    if name in __all__:
        return getattr(importlib.import_module("dptally.ledger.ledger"), name)
    raise AttributeError(f"module 'dptally.ledger' has no attribute {name!r}")
