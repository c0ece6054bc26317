"""The same statement in plain Polars, not private."""

import polars as pl


def by_units(file, max_keys_per_unit, epsilon, delta):
    """Streaming; no bound and no range."""
    asked = pl.col("unit").n_unique(), pl.col("x").sum(), pl.col("y").sum()
    return pl.scan_parquet(file).group_by("key").agg(*asked).collect(engine="streaming").rows()
