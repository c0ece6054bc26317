"""Whole releases of real data, compared with the truth."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import polars as pl
import pytest

import dptally
from dptally.randomness import SeededBits

DATA = Path(__file__).parents[3] / "shared" / "data"
pytestmark = pytest.mark.skipif(not DATA.is_dir(), reason="../shared/data is not there")


def units_per_key(file: str, key: str, unit: str) -> pl.DataFrame:
    """How many distinct units each key has."""
    pairs = pl.read_parquet(DATA / file).select(unit, key).drop_nulls().unique()
    return pairs.group_by(key).len("truth")


@pytest.mark.parametrize(
    ("file", "key", "unit", "bound"),
    [
        pytest.param(
            *("mathoverflow_interactions.parquet", "target_user", "source_user", 10_000), marks=pytest.mark.slow
        ),
        ("movielens_latest_small_2018.parquet", "movie_id", "user_id", 3000),
        ("online_retail_2010_2011.parquet", "stock_code", "customer_id", 2000),
        ("nyc_flights_2013.parquet", "destination", "tail_number", 110),
    ],
)
def test_counts_are_exact_when_nobody_is_cut(file: str, key: str, unit: str, bound: int) -> None:
    """With a bound above every unit's number of keys, values plus D are the true counts, and bounds hold."""
    release = dptally.publish(
        DATA / file, key=key, unit=unit, max_keys_per_unit=bound, epsilon="30", delta="1e-3", randomness=SeededBits(5),
        mechanism="weighted_sample",
    )  # fmt: skip
    truth, law = units_per_key(file, key, unit), cast(Any, release.law)
    joined = release.table().join(truth, on=key, how="left")
    assert joined["truth"].null_count() == 0, "every released key occurs"
    drops = joined["truth"] - joined["value"]
    assert (drops >= 0).all() and (drops < law.width).all()
    held = ((joined["lower"] <= joined["truth"]) & (joined["truth"] <= joined["upper"])).sum()
    assert held >= 0.95 * len(joined) - 6 * (0.05 * 0.95 * len(joined)) ** 0.5
    certain = truth.filter(pl.col("truth") >= law.width)
    assert certain.join(release.table(), on=key, how="anti").height == 0, "frequent keys are always released"


@pytest.mark.parametrize("bound", [1, 3])
def test_cut_units_are_cut(bound: int) -> None:
    """With few keys per unit the counted units are at most units times the bound, and keys stay below the truth."""
    file, key, unit = "mathoverflow_interactions.parquet", "target_user", "source_user"
    options: dict[str, Any] = {"epsilon": "1", "delta": "1e-6", "randomness": SeededBits(1)}
    release = dptally.publish(DATA / file, key=key, unit=unit, max_keys_per_unit=bound, **options)
    truth = units_per_key(file, key, unit)
    joined = release.table().join(truth, on=key, how="left")
    assert 0 < len(joined) < truth.height
    assert (joined["value"] <= joined["truth"]).all()
    assert joined["value"].sum() <= 19_774 * bound


def test_counted_data() -> None:
    """Names that come with counts: the released sum is below the total and the lower bound holds."""
    release = dptally.publish(
        DATA / "us_baby_names_1880_2023.parquet", key="name", count="count", epsilon="1", delta="1e-9"
    )
    total = release.sum()
    assert len(release) > 60_000
    assert total.lower <= 368_636_238
    assert abs(total.estimate - 368_636_238) < 0.01 * 368_636_238


def test_headlines_as_an_iterable() -> None:
    """Words of headlines, one at a time, as a generator."""
    words = (
        word
        for text in pl.read_parquet(DATA / "abc_headlines_2003_2004.parquet")["headline_text"]
        for word in text.split()
    )
    release = dptally.publish(words, epsilon="0.1", delta="1e-6", randomness=SeededBits(2))
    assert release.top(1)["key"].to_list() == ["to"]
    assert 300 < len(release) < 2000
