"""Spark plans: bounding units, counting keys, drawing. Nothing runs here."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from dptally.sources.columns import MAXIMUM_COUNT
from dptally.spark.drawing import BoundUnits, DrawKeys, Halves
from dptally.spark.workers import map_in_arrow

if TYPE_CHECKING:
    from dptally.laws.base import Law
    from dptally.spark.rows import SparkRows

__all__ = ["bounded", "counted", "drawn"]


def bounded(rows: SparkRows, max_keys_per_unit: int, secret: Halves) -> Any:
    """Rows of a unit brought together, and at most `max_keys_per_unit` of its keys kept, each once.

    One shuffle by unit and a sort within partitions. `repartition` by a column puts equal values into one partition;
    that they are neighbours there is checked while they are read.
    """
    from pyspark.sql import functions
    from pyspark.sql.types import StructType

    keys = _names(rows)
    together = rows.frame.repartition("u").select(functions.xxhash64("u").alias("h"), "u", *keys)
    schema = StructType([field for field in rows.frame.schema.fields if field.name in keys])
    in_order = together.sortWithinPartitions("h", "u", *keys)
    return map_in_arrow(in_order, BoundUnits(max_keys_per_unit, secret), schema)


def counted(rows: SparkRows, frame: Any) -> Any:
    """Each key once, with its count as a last column n; negative where a value was no count."""
    from pyspark.sql import functions

    groups = frame.groupBy(*_names(rows))
    if rows.count is None:
        return groups.agg(functions.count(functions.lit(1)).alias("n"))
    largest = functions.lit(MAXIMUM_COUNT + 1).cast("decimal(38,0)")
    # A sum that leaves 38 digits is null in Spark.
    total = functions.least(functions.coalesce(functions.try_sum("n"), largest), largest).cast("long")
    wrong = functions.count("n") < functions.count(functions.lit(1))
    return groups.agg(functions.when(wrong, -1).otherwise(total).alias("n")).where("n <> 0")


def drawn(rows: SparkRows, frame: Any, law: Law, secret: Halves, *, sampled: bool = False) -> Any:
    """One draw for each key of `counted`: the reported ones with their values, as columns k0, k1, ..., value.

    With `sampled`, rows or keys were sampled before they were counted (`dptally.spark.row_sampling`).
    """
    from pyspark.sql.types import LongType, StructField, StructType

    draw = DrawKeys(json.dumps(law.facts()), law.certify().table_sha256, secret, rows.count, sampled=sampled)
    fields = [field for field in frame.schema.fields if field.name != "n"]
    return map_in_arrow(frame, draw, StructType([*fields, StructField("value", LongType(), nullable=False)]))


def _names(rows: SparkRows) -> list[str]:
    return [f"k{i}" for i in range(len(rows.key))]
