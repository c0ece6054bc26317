"""PyDP at its best: noise and threshold in one step. It has no tables: Polars counts, and bounds units."""

import polars as pl
from pydp.algorithms.partition_selection import (
    create_gaussian_partition_strategy,
    create_laplace_partition_strategy,
)


def by_rows(file, epsilon, delta):
    """Every row is a unit of its own."""
    counts = pl.scan_parquet(file).group_by("key").len().collect(engine="streaming")
    return noisy(counts, 1, epsilon, delta)


def by_units(file, max_keys_per_unit, epsilon, delta):
    """Units have several keys: keep a random choice of them."""
    pairs = pl.scan_parquet(file).select("unit", "key").unique()
    chosen = pairs.filter(pl.int_range(pl.len()).shuffle().over("unit") < max_keys_per_unit)
    return noisy(chosen.group_by("key").len().collect(), max_keys_per_unit, epsilon, delta)


def noisy(counts, max_keys_per_unit, epsilon, delta):
    """Add noise and drop what is below the threshold, with the noise that has the lower one."""
    strategies = [
        create_laplace_partition_strategy(epsilon, delta, max_keys_per_unit),
        create_gaussian_partition_strategy(epsilon, delta, max_keys_per_unit),
    ]
    strategy = min(strategies, key=lambda each: each.threshold)
    values = ((key, strategy.noised_value_if_should_keep(count)) for key, count in counts.iter_rows())
    return {key: value for key, value in values if value is not None}
