"""The same work in plain Polars, not private: what a unit has for a key is added up and clipped first."""

import polars as pl


def by_units(file, max_keys_per_unit, epsilon, delta):
    """Streaming; no bound on keys."""
    pairs = pl.scan_parquet(file).group_by("unit", "key").agg(pl.col("x", "y").sum().clip(0, 100))
    asked = pl.len(), pl.col("x").sum(), pl.col("y").sum()
    return pairs.group_by("key").agg(*asked).collect(engine="streaming").rows()
