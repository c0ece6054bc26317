"""OpenDP's Polars API as it comes: Laplace noise and a threshold, keys and counts from the same budget."""

import opendp.prelude as dp
import polars as pl

dp.enable_features("contrib")


def by_rows(file, epsilon, delta):
    """Every row is a unit of its own."""
    context = dp.Context.compositor(
        data=pl.scan_parquet(file).select("key"),
        privacy_unit=dp.unit_of(contributions=1),
        privacy_loss=dp.loss_of(epsilon=epsilon, delta=delta),
        split_evenly_over=1,
    )
    return context.query().group_by("key").agg(dp.len(signed=True).alias("value")).release().collect()


def by_units(file, max_keys_per_unit, epsilon, delta):
    """Units have several keys. Two row truncations: `truncate_num_groups` fails when it samples by one column."""
    context = dp.Context.compositor(
        data=pl.scan_parquet(file).select("unit", "key"),
        privacy_unit=dp.unit_of(contributions=1, identifier="unit"),
        privacy_loss=dp.loss_of(epsilon=epsilon, delta=delta),
        split_evenly_over=1,
    )
    bounded = context.query().truncate_per_group(1, by=["key"]).truncate_per_group(max_keys_per_unit)
    return bounded.group_by("key").agg(dp.len(signed=True).alias("value")).release().collect()
