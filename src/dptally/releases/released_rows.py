"""What rows a release can hold: keys that occur once, and values that its law can have given."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from dptally.errors import DptallyError, InvalidParameter, InvalidSource
from dptally.estimates.frequencies import estimate_frequencies
from dptally.exact.integer_columns import integers
from dptally.laws.base import Law
from dptally.laws.shortfall import Shortfall
from dptally.universes import read_universe


def check_rows(rows: pa.Table, law: Law) -> None:
    """Check key columns and values by what does not need the law's table; ValueError if they cannot be."""
    key = [name for name in rows.column_names if name != "value"]
    if not key or len(set(key)) != len(key):
        raise ValueError("key columns must have different names")
    if rows.num_rows:
        found = pc.min_max(rows.column("value")).as_py()
        smallest = 0 if law.complete else 1
        if found["min"] is None or found["min"] < smallest or found["max"] > law.largest_value:
            raise ValueError("a value is out of range")
        if not law.values and found["max"] > 1:
            raise ValueError("there are values although none were drawn")
    if rows.select(key).group_by(key, use_threads=False).aggregate([]).num_rows < rows.num_rows:
        raise ValueError("a key is there twice")
    if law.keep is not None and rows.num_rows > law.keep:
        raise ValueError("there are more keys than are kept")


def check_against_table(rows: pa.Table, law: Law, shortfall: Shortfall | None) -> None:
    """Check values and keys by the law's table and universe; ValueError if they cannot be."""
    if law.values and rows.num_rows and int(integers(rows.column("value")).min()) < law.threshold:
        raise ValueError("a value is below the threshold")
    if rows.num_rows:
        largest = integers(rows.column("value")).max(keepdims=True)
        try:
            estimate_frequencies(law, largest, 0.95, shortfall)
        except (DptallyError, ArithmeticError):
            raise ValueError("a value is too large") from None
    if law.universe is not None:
        try:
            universe = read_universe(law.universe)
        except InvalidParameter:
            return  # one of the publisher's own, which the file only names
        try:
            inside = universe.indices(rows.column(0).combine_chunks())[1]
        except (InvalidSource, OverflowError, TypeError, ValueError):
            raise ValueError("keys are not of the universe") from None
        if universe.size != law.universe_size or not inside.all():
            raise ValueError("keys are not of the universe")
