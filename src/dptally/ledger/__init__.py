"""Budgets that cannot be overspent: what releases of one data set have spent, on disk before anything is drawn."""

from __future__ import annotations

from dptally.ledger.ledger import Account, Entry, Ledger, Reservation

__all__ = ["Account", "Entry", "Ledger", "Reservation"]
