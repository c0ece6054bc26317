"""PyDP in two steps: the optimal choice of keys with half of epsilon, Laplace noise with the other half."""

import polars as pl
from pydp.algorithms.numerical_mechanisms import LaplaceMechanism
from pydp.algorithms.partition_selection import create_truncated_geometric_partition_strategy


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
    """Choose keys, then add noise to their counts."""
    strategy = create_truncated_geometric_partition_strategy(epsilon / 2, delta, max_keys_per_unit)
    laplace = LaplaceMechanism(epsilon / 2, max_keys_per_unit)
    return {key: laplace.add_noise(count) for key, count in counts.iter_rows() if strategy.should_keep(count)}
