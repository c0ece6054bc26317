"""Tumult Analytics: a third of epsilon each to choose keys, with all of delta, for counts and for sums."""

from pyspark.sql import SparkSession
from tmlt.analytics import (
    AddRowsWithID,
    ApproxDPBudget,
    KeySet,
    MaxGroupsPerID,
    MaxRowsPerGroupPerID,
    QueryBuilder,
    Session,
)

spark = SparkSession.builder.config("spark.driver.memory", "8g").config("spark.ui.enabled", "false").getOrCreate()


def by_units(file, max_keys_per_unit, epsilon, delta):
    """A mean is a noisy sum over a noisy count."""
    session = Session.from_dataframe(
        privacy_budget=ApproxDPBudget(epsilon, delta),
        source_id="events",
        dataframe=spark.read.parquet(file).select("unit", "key", "x"),
        protected_change=AddRowsWithID("unit"),
    )
    events = QueryBuilder("events").enforce(MaxRowsPerGroupPerID("key", 1))
    events = events.enforce(MaxGroupsPerID("key", max_keys_per_unit))
    keys = KeySet.from_dataframe(session.evaluate(events.get_groups(["key"]), ApproxDPBudget(epsilon / 3, delta)))
    groups = events.groupby(keys)
    counts = session.evaluate(groups.count("count"), ApproxDPBudget(epsilon / 3, 0))
    sums = session.evaluate(groups.sum("x", low=0, high=100, name="sum"), session.remaining_privacy_budget)
    rows = counts.join(sums, "key").collect()
    return [(row["key"], row["count"], row["sum"], row["sum"] / max(row["count"], 1)) for row in rows]
