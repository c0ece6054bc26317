"""What rows a release can hold: keys that occur once, and values that its law can have given."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from dptally.errors import DptallyError, InvalidParameter, InvalidSource
from dptally.estimates.frequencies import estimate_frequencies
from dptally.exact.integer_columns import integers
from dptally.laws.base import LARGEST_FREQUENCY
from dptally.laws.clamped_noise import ClampedNoise
from dptally.laws.sample_and_threshold import SampleAndThreshold
from dptally.laws.thresholded_noise import ThresholdedNoise
from dptally.laws.top_k_noise import TopKNoise
from dptally.universes import read_universe

if TYPE_CHECKING:
    import pyarrow as pa

    from dptally.estimates.shortfall import Shortfall
    from dptally.laws.base import Law

__all__ = ["LARGEST_VALUE", "check_against_table", "check_rows"]

LARGEST_VALUE = LARGEST_FREQUENCY + (1 << 32)  # the largest count, and more noise than any table has


def check_rows(rows: pa.Table, law: Law) -> None:
    """Check what does not need the law's table.

    Args:
        rows: key columns and the column "value", whole numbers without nulls.
        law: of the values.

    Raises:
        ValueError: if a key is there twice, or a value is out of range.
    """
    import pyarrow.compute as pc

    key = [name for name in rows.column_names if name != "value"]
    if not key or len(set(key)) != len(key):
        raise ValueError("key columns must have different names")
    smallest = 0 if isinstance(law, ClampedNoise) else 1
    largest = law.bound if isinstance(law, ClampedNoise | TopKNoise) else LARGEST_VALUE
    if isinstance(law, SampleAndThreshold):
        largest = math.floor(law.rate * LARGEST_VALUE) + (1 << 36)  # more than chance adds to the largest count
    if rows.num_rows:
        found = pc.min_max(rows.column("value")).as_py()
        if found["min"] is None or found["min"] < smallest or found["max"] > largest:
            raise ValueError("a value is out of range")
        if not law.values and found["max"] > 1:
            raise ValueError("there are values although none were drawn")
    if rows.select(key).group_by(key, use_threads=False).aggregate([]).num_rows < rows.num_rows:
        raise ValueError("a key is there twice")
    if isinstance(law, TopKNoise) and rows.num_rows > law.keep:
        raise ValueError("there are more keys than are kept")


def check_against_table(rows: pa.Table, law: Law, shortfall: Shortfall | None) -> None:
    """Check what needs the law's table, or its universe.

    Raises:
        ValueError: if a value is below the threshold or too large to be inverted, or a key outside of the universe.
    """
    if isinstance(law, ThresholdedNoise | SampleAndThreshold) and law.values and rows.num_rows:
        lowest = int(integers(rows.column("value")).min())
        if lowest < law.threshold:
            raise ValueError("a value is below the threshold")
    if rows.num_rows:
        largest = integers(rows.column("value")).max(keepdims=True)
        try:
            estimate_frequencies(law, largest, 0.95, shortfall)
        except (DptallyError, ArithmeticError):
            raise ValueError("a value is too large") from None
    if isinstance(law, TopKNoise):
        try:
            universe = read_universe(law.universe)
        except InvalidParameter:
            return  # one of the publisher's own, which the file only names
        try:
            inside = universe.indices(rows.column(0).combine_chunks())[1]
        except (InvalidSource, OverflowError, TypeError, ValueError):
            raise ValueError("keys are not of the universe") from None
        if universe.size != law.size or not inside.all():
            raise ValueError("keys are not of the universe")
