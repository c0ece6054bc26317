"""The data: Parquet files with one row for each pair of unit and key, and values of which the public range is 0 to 100.

What a unit has for a key is added up before, from its own rows alone: no entry has to drop rows of a pair. Zipf data
are the pairs of `benchmarks/peers`, with log-normal values around a level of each key.
"""

from __future__ import annotations

from pathlib import Path

import data
import numpy as np
import polars as pl

__all__ = ["make_first", "make_values", "true_statement"]


def make_values(name: str, cache: Path) -> Path:
    """The Parquet file of a data set, made once."""
    file = cache / "group_by" / "data" / f"{name}.parquet"
    if not file.exists():
        file.parent.mkdir(parents=True, exist_ok=True)
        made = _zipf(data.make_data(name, cache / "data")) if name.startswith("zipf") else _retail(name)
        made.write_parquet(file)
    return file


def make_first(cache: Path) -> Path:
    """A thousand rows for a first call."""
    file = cache / "group_by" / "data" / "first.parquet"
    file.parent.mkdir(parents=True, exist_ok=True)
    row = pl.int_range(1000)
    pl.select(unit=row, key=pl.lit("common"), x=row % 100 + 0.5, y=row % 7 + 0.5).write_parquet(file)
    return file


def true_statement(file: Path) -> pl.DataFrame:
    """The answer to the statement: units, and sum and mean of clipped values, whatever number of keys a unit has."""
    value = pl.col("x").clip(0, 100)
    return pl.read_parquet(file).group_by("key").agg(count=pl.len().cast(float), sum=value.sum(), mean=value.mean())


def _zipf(file: Path) -> pl.DataFrame:
    pairs, generator = pl.read_parquet(file), np.random.default_rng(2)
    level = 2 + pairs["key"].str.slice(4).cast(pl.Int64).to_numpy() % 97 / 48.5
    values = (np.exp(level + generator.normal(0, 0.5, len(level))) for _ in "xy")
    return pairs.with_columns(pl.Series(name, each) for name, each in zip("xy", values, strict=True))


def _retail(name: str) -> pl.DataFrame:
    """What a customer spent: on a product in pounds, or in a country in hundreds of pounds."""
    file = data.SHARED / "online_retail_2010_2011.parquet"
    if not file.exists():
        raise data.MissingDataError(f"{file.name} is not in {data.SHARED}")
    key, worth = {"products": ("stock_code", 1), "countries": ("country", 100)}[name]
    rows = pl.read_parquet(file).drop_nulls(["customer_id", key])
    spent = (pl.col("quantity") * pl.col("unit_price")).sum() / worth
    return rows.group_by(unit=pl.col("customer_id").cast(pl.Int64), key=key).agg(x=spent)
