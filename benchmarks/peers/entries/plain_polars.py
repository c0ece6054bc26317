"""The base line, not private: how often each key occurs, or how many units have it."""

import polars as pl


def by_rows(file, epsilon, delta):
    """Every row is a unit of its own."""
    return pl.scan_parquet(file).group_by("key").len("value").collect(engine="streaming")


def by_units(file, max_keys_per_unit, epsilon, delta):
    """Units have several keys; all of them count."""
    pairs = pl.scan_parquet(file).select("unit", "key").unique()
    return pairs.group_by("key").len("value").collect(engine="streaming")
