"""OpenDP's threshold mechanism called directly, which exceeds its stated delta: for the check of promises only."""

import opendp.prelude as dp
import polars as pl

dp.enable_features("contrib")


def by_rows(file, epsilon, delta):
    """Every row is a unit of its own."""
    space = dp.vector_domain(dp.atom_domain(T=str)), dp.symmetric_distance()
    count = dp.t.make_count_by(*space)
    threshold = dp.binary_search(
        lambda t: (count >> dp.m.then_laplace_threshold(1 / epsilon, t)).map(1)[1] <= delta, bounds=(1, 10_000)
    )
    release = count >> dp.m.then_laplace_threshold(1 / epsilon, threshold)
    return release(pl.read_parquet(file, columns=["key"])["key"].to_list())
