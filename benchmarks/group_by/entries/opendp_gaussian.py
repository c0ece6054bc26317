"""OpenDP's Polars API with Gaussian noise: zero-concentrated privacy, half of delta for its conversion."""

import opendp.prelude as dp
import polars as pl

dp.enable_features("contrib")


def by_units(file, max_keys_per_unit, epsilon, delta):
    """Keys by a threshold on noisy counts; a mean is a noisy sum over a noisy count."""
    space = dp.atom_domain(T=float, nan=False), dp.absolute_distance(T=float)
    scale = dp.binary_search(
        lambda s: dp.c.make_zCDP_to_approxDP(dp.m.make_gaussian(*space, s)).map(1.0).epsilon(delta / 2) < epsilon,
        bounds=(0.01, 10_000.0),
    )
    context = dp.Context.compositor(
        data=pl.scan_parquet(file).select("unit", "key", pl.col("x").round().cast(pl.Int64)),
        privacy_unit=dp.unit_of(contributions=1, identifier="unit"),
        privacy_loss=dp.loss_of(rho=0.5 / scale**2, delta=delta / 2),
        split_evenly_over=1,
        margins=[dp.polars.Margin(by=["key"], max_length=10**7)],
    )
    bounded = context.query().truncate_per_group(1, by=["key"]).truncate_per_group(max_keys_per_unit)
    asked = dp.len(signed=True).alias("count"), pl.col("x").fill_null(0).dp.sum((0, 100)).alias("sum")
    found = bounded.group_by("key").agg(*asked).release().collect()
    return found.select("key", "count", "sum", mean=pl.col("sum") / pl.col("count")).rows()
