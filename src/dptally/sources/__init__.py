"""Step 1 of the flow: rows in, from files, frames, tables and plain Python, all read by DuckDB."""

from __future__ import annotations

from dptally.sources.rows import Rows, open_rows

__all__ = ["Rows", "open_rows"]
