"""Smaller than the data, and still private."""

from __future__ import annotations

from dptally.summaries.frequencies import Frequencies, count_keys

__all__ = ["Frequencies", "count_keys"]
