"""The data: distinct pairs of privacy unit and key, grouped by unit.

Real data is read from `../shared/data`. Zipf data is made with a fixed seed: 100,000 units with exactly 3 or 10
distinct keys, sampled with probability proportional to 1 / rank from 100,000.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray

__all__ = ["DATA_SETS", "DataSet", "MissingDataError", "as_frame", "from_frame", "load"]

SHARED = Path(__file__).parents[3] / "shared" / "data"
ZIPF_UNITS, ZIPF_KEYS = 100_000, 100_000
DATA_SETS = {
    "shakespeare": "Shakespeare, line -> word",
    "headlines": "ABC headlines, headline -> word",
    "movielens": "MovieLens, user -> movie",
    "customers": "Online Retail, customer -> product",
    "baskets": "Online Retail, basket -> product",
    "mathoverflow": "MathOverflow, user -> user",
    "zipf-3": "Zipf(1), 3 keys per unit",
    "zipf-10": "Zipf(1), 10 keys per unit",
}


class MissingDataError(Exception):
    """The data set is not on this machine."""


@dataclass(frozen=True)
class DataSet:
    """Distinct (unit, key) pairs.

    Unit number i has the keys ``keys[units[i] : units[i + 1]]``. Keys are numbers from 0 to ``key_count - 1``, in no
    order that means anything.

    Attributes:
        name: one of `DATA_SETS`.
        units: offsets, one more than there are units.
        keys: number of the key, for each pair.
        occurrences: rows of the pair in the source, for each pair; only the greedy policy looks at it.
        key_count: number of distinct keys.
    """

    name: str
    units: NDArray[np.int64]
    keys: NDArray[np.int64]
    occurrences: NDArray[np.int64]
    key_count: int

    @property
    def unit_count(self) -> int:
        """How many units there are."""
        return len(self.units) - 1

    @property
    def sizes(self) -> NDArray[np.int64]:
        """Number of distinct keys of each unit."""
        return np.diff(self.units)

    @property
    def unit_of_pair(self) -> NDArray[np.int64]:
        """Number of the unit, for each pair."""
        return np.repeat(np.arange(self.unit_count), self.sizes)


@lru_cache(maxsize=1)
def load(name: str) -> DataSet:
    """One of the data sets.

    Raises:
        MissingDataError: if its file is not in the shared folder.
    """
    if name.startswith("zipf-"):
        rows = _zipf(int(name.removeprefix("zipf-")))
    else:
        rows = {
            "shakespeare": _shakespeare,
            "headlines": _headlines,
            "movielens": _movielens,
            "customers": _customers,
            "baskets": _baskets,
            "mathoverflow": _mathoverflow,
        }[name]()
    return from_frame(name, rows)


def from_frame(name: str, rows: pl.DataFrame) -> DataSet:
    """Distinct pairs of a table with the columns unit and key; rows with a null are left out."""
    pairs = rows.select("unit", "key").drop_nulls().group_by("unit", "key").len().sort("unit", "key")
    units = pairs["unit"].rle_id().to_numpy().astype(np.int64)
    # Numbered by a fixed shuffle, so that no method profits from the order in which keys are numbered.
    names = pairs["key"].unique().sort()
    numbers = np.random.default_rng(1).permutation(len(names))
    keys = pairs.select("key").join(
        pl.DataFrame({"key": names, "number": numbers}), on="key", how="left", maintain_order="left"
    )
    counts = np.bincount(units)
    return DataSet(
        name=name,
        units=np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
        keys=keys["number"].to_numpy().astype(np.int64),
        occurrences=pairs["len"].to_numpy().astype(np.int64),
        key_count=len(names),
    )


def as_frame(data: DataSet) -> pl.DataFrame:
    """The pairs as a table with the integer columns unit and key, for `dptally.publish`."""
    return pl.DataFrame({"unit": data.unit_of_pair, "key": data.keys})


def _read(file: str) -> pl.LazyFrame:
    if not (SHARED / file).exists():
        raise MissingDataError(f"{file} is not in {SHARED}.")
    return pl.scan_parquet(SHARED / file)


def _shakespeare() -> pl.DataFrame:
    words = pl.col("text").str.to_lowercase().str.extract_all("[a-z]+(?:'[a-z]+)*")
    return _read("shakespeare_lines.parquet").with_row_index("unit").select("unit", key=words).explode("key").collect()


def _headlines() -> pl.DataFrame:
    words = pl.col("headline_text").str.split(" ")
    rows = _read("abc_headlines_2003_2004.parquet").with_row_index("unit").select("unit", key=words).explode("key")
    return rows.filter(pl.col("key") != "").collect()


def _movielens() -> pl.DataFrame:
    return _read("movielens_latest_small_2018.parquet").select(unit="user_id", key="movie_id").collect()


def _customers() -> pl.DataFrame:
    """Rows without a customer are left out."""
    return _read("online_retail_2010_2011.parquet").select(unit="customer_id", key="stock_code").collect()


def _baskets() -> pl.DataFrame:
    """All invoices, those without a customer and cancellations included."""
    return _read("online_retail_2010_2011.parquet").select(unit="invoice", key="stock_code").collect()


def _mathoverflow() -> pl.DataFrame:
    """All interactions, those of users with themselves included (comments on own posts), as the file has them."""
    return _read("mathoverflow_interactions.parquet").select(unit="source_user", key="target_user").collect()


def _zipf(keys_per_unit: int) -> pl.DataFrame:
    generator = np.random.default_rng([1, keys_per_unit])
    cumulative = np.cumsum(1 / np.arange(1, ZIPF_KEYS + 1))

    def draw(count: int) -> NDArray[np.int64]:
        return np.searchsorted(cumulative, generator.random(count) * cumulative[-1])

    ranks = draw(ZIPF_UNITS * keys_per_unit).reshape(ZIPF_UNITS, keys_per_unit)
    while True:  # sampled again, in place, whatever a unit has already
        ranks.sort(axis=1)
        repeated = np.zeros(ranks.shape, dtype=bool)
        repeated[:, 1:] = ranks[:, 1:] == ranks[:, :-1]
        if not repeated.any():
            break
        ranks[repeated] = draw(int(repeated.sum()))
    return pl.DataFrame({"unit": np.repeat(np.arange(ZIPF_UNITS), keys_per_unit), "key": ranks.ravel()})
