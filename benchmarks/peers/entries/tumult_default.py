"""Tumult Analytics: half of epsilon and all of delta to choose keys, the other half for their counts."""

from pyspark.sql import SparkSession
from tmlt.analytics import (
    AddOneRow,
    AddRowsWithID,
    ApproxDPBudget,
    KeySet,
    MaxGroupsPerID,
    MaxRowsPerGroupPerID,
    QueryBuilder,
    Session,
)

spark = SparkSession.builder.config("spark.driver.memory", "8g").config("spark.ui.enabled", "false").getOrCreate()


def by_rows(file, epsilon, delta):
    """Every row is a unit of its own."""
    return count_units(spark.read.parquet(file).select("key"), AddOneRow(), QueryBuilder("events"), epsilon, delta)


def by_units(file, max_keys_per_unit, epsilon, delta):
    """Units have several keys."""
    events = QueryBuilder("events").enforce(MaxRowsPerGroupPerID("key", 1))
    bounded = events.enforce(MaxGroupsPerID("key", max_keys_per_unit))
    return count_units(spark.read.parquet(file), AddRowsWithID("unit"), bounded, epsilon, delta)


def count_units(table, protected_change, events, epsilon, delta):
    """Both, once it is said what is protected."""
    session = Session.from_dataframe(
        privacy_budget=ApproxDPBudget(epsilon, delta),
        source_id="events",
        dataframe=table,
        protected_change=protected_change,
    )
    keys = KeySet.from_dataframe(session.evaluate(events.get_groups(["key"]), ApproxDPBudget(epsilon / 2, delta)))
    counts = session.evaluate(events.groupby(keys).count("value"), session.remaining_privacy_budget)
    return {row.key: row.value for row in counts.collect()}
