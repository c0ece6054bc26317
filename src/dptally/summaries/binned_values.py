"""How many units have a value in each bin of a public grid, counted by the engine in bounded memory."""

from __future__ import annotations

import re

import numpy as np
from numpy.typing import NDArray

from dptally.errors import InvalidParameter, InvalidSource
from dptally.randomness import BitSource
from dptally.sources import Rows
from dptally.sources.engine import Session
from dptally.summaries.counting import Progress
from dptally.summaries.frequencies import count_keys
from dptally.universes.grids import Grid

_NUMBERS = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT", "HUGEINT")
_DATES = ("DATE",)
_TEXTS = ("VARCHAR", '"NULL"', "NULL")
_TIMES = ("TIMESTAMP", "TIMESTAMP_S", "TIMESTAMP_MS", "TIMESTAMP_NS", "TIMESTAMP WITH TIME ZONE", "TIMESTAMPTZ")


def is_whole(kind: str) -> bool:
    """Whether a DuckDB type holds whole numbers alone."""
    return kind in _NUMBERS or re.fullmatch(r"DECIMAL\(\d+,\s*0\)", kind) is not None


def check_values(rows: Rows, grid: Grid) -> None:
    """Refuse a column whose type does not fit the interval, before anything is read."""
    _tick(grid, rows.key[0], rows.key_types[0])


class BinnedRows(Rows):
    """Rows whose key is the bin of a value.

    Values that are null, NaN, infinite dates, or text that is no value of the grid's kind are left out in silence: to
    refuse one would tell that it is there.
    """

    def __init__(self, rows: Rows, grid: Grid) -> None:
        if len(rows.key) != 1:
            raise InvalidParameter(f"value must name one column, got {len(rows.key)}.")
        self.key, self.unit, self.count, self.nulls = rows.key, rows.unit, rows.count, rows.nulls
        self.once, self.paths = rows.once, rows.paths
        self.counted_at_source, self.unordered = rows.counted_at_source, rows.unordered
        self._inner = rows
        self._files = rows._files
        self._grid = grid

    def select(self, session: Session) -> str:
        """SQL for the rows; k0 is the bin."""
        return self._binned(self._inner.select(session), session)

    def select_counted(self, session: Session) -> str | None:
        """SQL for bins with the number of rows as w, where the source counts; a bin comes once for each value."""
        inner = self._inner.select_counted(session)
        return None if inner is None else self._binned(inner, session)

    def _binned(self, inner: str, session: Session) -> str:
        kind = dict(session.types(inner))["k0"]
        return _bins(f"SELECT {_tick(self._grid, self.key[0], kind)} AS x, * EXCLUDE (k0) FROM ({inner})", self._grid)  # noqa: S608

    def select_numbered(self, session: Session) -> str | None:
        """None: bins are counted, never sampled by row."""
        return None


def count_bins(
    rows: Rows, grid: Grid, *, bits: BitSource, memory_limit: str | None, progress: Progress | None
) -> NDArray[np.int64]:
    """The number of units in each bin. Private, and exact.

    A unit whose values are in several bins counts in one of them, chosen uniformly by random bits of its own.
    """
    counts = np.zeros(grid.bins, dtype=np.int64)
    with count_keys(
        BinnedRows(rows, grid), max_keys_per_unit=1, bits=bits, memory_limit=memory_limit, progress=progress
    ) as frequencies:
        for batch, found in frequencies.batches():
            counts[batch.column(0).to_numpy()] = found  # each distinct bin comes once
    return counts


def _tick(grid: Grid, name: str, kind: str) -> str:
    """SQL for the tick of column k0 as DOUBLE; null for what is left out."""
    column = "k0"
    if grid.kind in ("integer", "number"):
        if kind in _TEXTS:
            return f"TRY_CAST({column} AS DOUBLE)"
        if kind in _NUMBERS or kind in ("FLOAT", "DOUBLE") or kind.startswith("DECIMAL"):
            return f"CAST({column} AS DOUBLE)"
        raise InvalidSource(f"column '{name}' must hold numbers for this interval, not {kind.split('(')[0]}.")
    wanted = "DATE" if grid.kind == "date" else "TIMESTAMP"
    if kind in _TEXTS:
        typed = f"TRY_CAST({column} AS {wanted})"
    elif kind in _DATES or kind in _TIMES:
        typed = column
        if kind != wanted:
            # Infinite ones cannot be cast to every type.
            typed = f"CASE WHEN isfinite({column}) THEN TRY_CAST({column} AS {wanted}) END"
    else:
        raise InvalidSource(f"column '{name}' must hold dates or times for this interval, not {kind.split('(')[0]}.")
    ticks = f"({typed}) - DATE '1970-01-01'" if wanted == "DATE" else f"epoch_us({typed})"
    return f"CASE WHEN isfinite({typed}) THEN CAST({ticks} AS DOUBLE) END"


def _bins(ticks: str, grid: Grid) -> str:
    """SQL for the bin of each tick, by the same operations on floats as `Grid.bins_of`."""
    start, end, width = (f"CAST('{float(number)!r}' AS DOUBLE)" for number in (grid.start, grid.end, grid.width))
    valid = "x IS NOT NULL AND NOT isnan(x)"
    if grid.outside == "drop":
        valid += f" AND x >= {start} AND x <= {end}"
    inside = f"SELECT least(greatest(x, {start}), {end}) AS x, * EXCLUDE (x) FROM ({ticks}) WHERE {valid}"  # noqa: S608
    rough = f"SELECT floor((x - {start}) / {width}) AS b, * FROM ({inside})"  # noqa: S608
    exact = (
        f"CASE WHEN x < {start} + b * {width} THEN b - 1 "
        f"WHEN x >= {start} + (b + CAST(1 AS DOUBLE)) * {width} THEN b + 1 ELSE b END"
    )
    place = f"CAST(least(greatest({exact}, 0), {grid.bins - 1}) AS BIGINT)"
    return f"SELECT {place} AS k0, * EXCLUDE (x, b) FROM ({rough})"  # noqa: S608
