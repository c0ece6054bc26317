"""The data: Parquet files with an integer column "unit" and a text column "key".

Zipf data: keys are drawn with probability proportional to 1 / rank from 100,000, and each unit has exactly as many
distinct keys as its bound says, so that nothing is lost to bounding and the errors are those of the noise. Real
data: all pairs of unit and key as they are, with units of any size.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl

__all__ = ["SHARED", "MissingDataError", "make_data", "make_first", "true_counts"]

SHARED = Path(__file__).parents[3] / "shared" / "data"
ZIPF_KEYS = 100_000
ALONE = 100_000


class MissingDataError(Exception):
    """The data set is not on this machine."""


def make_data(name: str, directory: Path) -> Path:
    """The Parquet file of a data set, made once."""
    file = directory / f"{name}.parquet"
    if not file.exists():
        directory.mkdir(parents=True, exist_ok=True)
        partial = file.with_suffix(".partial")
        _build(name).write_parquet(partial)
        partial.rename(file)
    return file


def make_first(directory: Path) -> Path:
    """A thousand rows for a first call; one key is frequent, so that no release of it is empty."""
    file = directory / "first.parquet"
    if not file.exists():
        directory.mkdir(parents=True, exist_ok=True)
        key = pl.when(pl.int_range(1000) % 100 == 0).then(pl.lit("rare")).otherwise(pl.lit("common"))
        pl.select(unit=pl.int_range(1000), key=key).write_parquet(file)
    return file


def true_counts(file: Path, keys_per_unit: int, by_rows: bool) -> pl.DataFrame:
    """Key and what a release estimates: how many units have it, once each unit has chosen at random within its bound.

    Where units have more keys than the bound, it is the expectation over that choice, the sum over the units with the
    key of min(1, bound / keys of the unit).
    """
    rows = pl.scan_parquet(file)
    if by_rows:
        return rows.group_by("key").agg(pl.len().cast(pl.Float64).alias("true")).collect()
    share = (keys_per_unit / pl.len().over("unit")).clip(upper_bound=1.0)
    return rows.unique().select("key", true=share).group_by("key").agg(pl.col("true").sum()).collect()


def _build(name: str) -> pl.DataFrame:
    data_set, _, bound = name.partition("-l")
    if data_set == "promises":
        return _alone(int(bound))
    if data_set.startswith("zipf"):
        return _zipf(int(float(data_set.removeprefix("zipf-"))), int(bound))
    return {"retail": _retail, "mathoverflow": _mathoverflow, "headlines": _headlines}[data_set]()


def _zipf(rows: int, keys_per_unit: int) -> pl.DataFrame:
    units = rows // keys_per_unit
    generator = np.random.default_rng(1)
    cumulative = np.cumsum(1 / np.arange(1, ZIPF_KEYS + 1))

    def draw(count: int) -> np.ndarray:
        return np.searchsorted(cumulative, generator.random(count) * cumulative[-1])

    ranks = draw(units * keys_per_unit).reshape(units, keys_per_unit)
    while True:  # draw again, in place, whatever a unit has already
        ranks.sort(axis=1)
        repeated = np.zeros(ranks.shape, dtype=bool)
        repeated[:, 1:] = ranks[:, 1:] == ranks[:, :-1]
        if not repeated.any():
            break
        ranks[repeated] = draw(int(repeated.sum()))
    generator.permuted(ranks, axis=1, out=ranks)
    names = pl.Series([f"key {rank:06d}" for rank in generator.permutation(ZIPF_KEYS)])
    unit = np.repeat(np.arange(units), keys_per_unit)
    return pl.DataFrame({"unit": unit, "key": names.gather(ranks.ravel())})


def _alone(keys_per_unit: int) -> pl.DataFrame:
    unit = np.repeat(np.arange(ALONE), keys_per_unit)
    return pl.DataFrame({"unit": unit, "key": [f"key {number:06d}" for number in range(len(unit))]})


def _read(file: str) -> pl.LazyFrame:
    if not (SHARED / file).exists():
        raise MissingDataError(f"{file} is not in {SHARED}")
    return pl.scan_parquet(SHARED / file)


def _retail() -> pl.DataFrame:
    rows = _read("online_retail_2010_2011.parquet").select(unit="customer_id", key="stock_code").drop_nulls()
    return rows.with_columns(pl.col("unit").cast(pl.Int64)).collect()


def _mathoverflow() -> pl.DataFrame:
    rows = _read("mathoverflow_interactions.parquet").select(unit="source_user", key="target_user")
    return rows.cast({"unit": pl.Int64, "key": pl.String}).collect()


def _headlines() -> pl.DataFrame:
    rows = _read("abc_headlines_2003_2004.parquet").with_row_index("unit")
    words = rows.select(pl.col("unit").cast(pl.Int64), key=pl.col("headline_text").str.split(" ")).explode("key")
    return words.filter(pl.col("key") != "").collect()
