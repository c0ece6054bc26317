"""A release from Spark: the same as from one machine, by the same law."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from scipy import stats

import dptally
from dptally.laws.weighted_sample import WeightedSample
from dptally.randomness import SeededBits
from dptally.spark import is_spark_frame
from tests.spark.data import PRIVACY, as_frame, typed, visits
from tests.statistical.checks import FALSE_ALARM, chi_square_pvalue

REQUESTS: list[dict[str, Any]] = [
    {"key": "word"},
    {"key": "number", "nulls": "keep", "mechanism": "stability"},
    {"key": ["word", "number"], "nulls": "keep"},
    {"key": "word", "unit": "user", "max_keys_per_unit": 1},
    {"key": ["number", "word"], "unit": "user", "max_keys_per_unit": 3, "nulls": "keep", "mechanism": "stability"},
    {"key": "word", "unit": "user", "max_keys_per_unit": 3, "mechanism": "gaussian"},
    {"key": "word", "mechanism": "sample_and_threshold"},
    {"key": "word", "sampling": dptally.Ppswor("0.1")},
    {"key": "word", "sampling": dptally.Priority(size=100), "values": False},
]


@pytest.fixture(scope="module")
def frame(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Visits as a Spark DataFrame."""
    return as_frame(spark, visits(), tmp_path_factory.mktemp("visits") / "files")


@pytest.mark.parametrize("request_", REQUESTS, ids=str)
def test_a_seed_gives_one_release_on_every_engine(frame: Any, request_: dict[str, Any]) -> None:
    """Spark, DuckDB over Arrow and DuckDB over Polars release the same rows, guarantee and certificate."""
    table = visits()
    order = np.random.default_rng(1).permutation(table.num_rows)
    releases = [
        dptally.publish(source, randomness=SeededBits(4), **PRIVACY, **request_)
        for source in (frame, table, pl.DataFrame(table.take(order)))
    ]
    first = releases[0]
    assert len(first) > 3
    for other in releases[1:]:
        assert first.table().equals(other.table())
        assert first.guarantee == other.guarantee
        assert first.certificate == other.certificate
    first.verify()
    another = dptally.publish(table, randomness=SeededBits(5), **PRIVACY, **request_)
    assert not first.table().equals(another.table())


def test_keys_of_every_type_agree(spark: Any, tmp_path: Path) -> None:
    """Each type of key gives equal rows and types, nulls kept; zeros and NaNs are one key each."""
    table = typed()
    frame = as_frame(spark, table, tmp_path / "typed")
    names = table.column_names
    for key in ([name] for name in names if name in ("bytes", "single", "instant")):
        compare(frame, table, key)
    for key in (names[:7], names[7:]):
        compare(frame, table, key)


def test_the_time_zone_of_the_session_does_not_matter(spark: Any, tmp_path: Path) -> None:
    """Points in time are the same keys whatever clock the session shows."""
    table = typed(1000)
    frame = as_frame(spark, table, tmp_path / "typed")
    spark.conf.set("spark.sql.session.timeZone", "Asia/Kolkata")
    try:
        compare(frame, table, ["instant", "local"])
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")


def compare(frame: Any, table: pa.Table, key: list[str]) -> None:
    """Publish on both engines and compare rows and types."""
    ours, theirs = (
        dptally.publish(source, key=key, nulls="keep", randomness=SeededBits(1), **PRIVACY) for source in (frame, table)
    )
    assert len(ours) >= 2
    assert ours.to_arrow().schema.types == theirs.to_arrow().schema.types
    assert ours.table().equals(theirs.table())


def test_order_of_rows_and_partitions_does_not_matter(spark: Any, frame: Any) -> None:
    """The same rows in another order and number of partitions give the same release."""
    request = {"key": "word", "unit": "user", "max_keys_per_unit": 2, **PRIVACY}
    once = dptally.publish(frame, randomness=SeededBits(9), **request)
    again = dptally.publish(frame.repartition(7).sortWithinPartitions("number"), randomness=SeededBits(9), **request)
    assert once.table().equals(again.table())


def test_counts_that_came_aggregated(spark: Any) -> None:
    """A column of counts is added up, and counts of 0 are no occurrence."""
    table = pa.table({"k": ["a", "b", "a", "c"], "n": pa.array([900, 700, 100, 0], pa.int64())})
    frame = spark.createDataFrame(table)
    releases = [
        dptally.publish(source, key="k", count="n", randomness=SeededBits(2), **PRIVACY) for source in (frame, table)
    ]
    assert releases[0].table().equals(releases[1].table())
    assert releases[0].table().get_column("k").to_list() == ["a", "b"]


def test_secret_draws_differ_and_are_called_private(frame: Any) -> None:
    """Two releases without a seed differ, and both say that they are private."""
    first, second = (dptally.publish(frame, key="word", **PRIVACY) for _ in range(2))
    assert first.guarantee.private
    assert not first.table().equals(second.table())


def test_spark_follows_the_law(spark: Any) -> None:
    """Values of 4000 keys of frequency 12 follow the exact row; chi-square, false alarms at most 1e-6.

    The same test rejects the rows of frequencies 11 and 13, and every frequency from 6 to 18 is reported as often as
    its exact probability says (binomial tests, false alarms at most 1e-6 together).
    """
    frequencies = {12: 4000, **{frequency: 300 for frequency in range(6, 19) if frequency != 12}}
    table = pa.table({
        "k": [f"{frequency}/{i}" for frequency, many in frequencies.items() for i in range(many)],
        "n": [frequency for frequency, many in frequencies.items() for _ in range(many)],
    })  # fmt: skip
    release = dptally.publish(
        spark.createDataFrame(table), key="k", count="n", epsilon=1, delta="1e-4", randomness=SeededBits(1)
    )
    law = WeightedSample("1", "1e-4")
    found: dict[int, list[int]] = {frequency: [] for frequency in frequencies}
    for key, value in release.table().select("k", "value").iter_rows():
        found[int(key.split("/")[0])].append(value)
    for frequency, many in frequencies.items():
        chance = float(law.reporting_probability(frequency))
        assert stats.binomtest(len(found[frequency]), many, chance).pvalue > FALSE_ALARM / len(frequencies)
    observed: dict[object, int] = {value: found[12].count(value) for value in set(found[12])}
    observed[None] = 4000 - len(found[12])
    for frequency in (11, 12, 13):
        row = {outcome: float(chance) for outcome, chance in law.row(frequency).items()}
        right = chi_square_pvalue(observed, row, 4000) > FALSE_ALARM
        assert right == (frequency == 12)


def test_units_choose_uniformly_on_spark(spark: Any) -> None:
    """Units keep one of 4 keys, each as often; chi-square, false alarms at most 1e-6; keeping the first would fail."""
    units = 6000
    table = pa.table({"u": np.repeat(np.arange(units), 4), "k": np.tile(np.arange(4), units)})
    release = dptally.publish(
        spark.createDataFrame(table),
        key="k",
        unit="u",
        max_keys_per_unit=1,
        epsilon=20,
        delta="1e-2",
        randomness=SeededBits(3),
    )
    counts = dict(release.table().select("k", "value").iter_rows())
    assert abs(sum(counts.values()) - units) <= 8  # every value is at most a few below its count
    law: dict[object, float] = dict.fromkeys(range(4), 0.25)
    assert chi_square_pvalue(counts, law, sum(counts.values())) > FALSE_ALARM
    assert chi_square_pvalue({0: units}, law, units) < FALSE_ALARM


def test_released_rows_can_stay_on_the_cluster(frame: Any, tmp_path: Path) -> None:
    """collect=False gives a Spark DataFrame, sorted by key, fixed once and for all, that says what is promised."""
    request = {"key": ["word", "number"], "nulls": "keep", **PRIVACY}
    whole = dptally.publish(frame, randomness=SeededBits(4), **request)
    kept = dptally.publish(frame, randomness=SeededBits(4), collect=False, **request)
    assert is_spark_frame(kept)
    assert kept.columns == ["word", "number", "value"]
    rows = kept.toArrow()
    assert pl.DataFrame(rows).equals(whole.table().select("word", "number", "value"))
    assert kept.guarantee == whole.guarantee
    assert kept.to_release().table().equals(whole.table())
    secret = dptally.publish(frame, collect=False, **request)
    assert secret.toArrow().equals(secret.toArrow())
    kept.save(str(tmp_path / "release"))
    assert (tmp_path / "release" / "_dptally.json").exists()
    assert pl.read_parquet(tmp_path / "release" / "*.parquet").height == len(whole)


def test_released_rows_cannot_be_drawn_again(frame: Any) -> None:
    """The plan of a release on the cluster starts at the fixed rows: nothing private is reachable from it."""
    kept = dptally.publish(frame, key="word", collect=False, **PRIVACY)
    plan = kept._jdf.queryExecution().optimizedPlan().toString()
    assert "MapInArrow" not in plan
    assert "Relation" not in plan
    assert "LogicalRDD" in plan


def test_an_empty_source_gives_an_empty_release(frame: Any) -> None:
    """No rows, no keys, and the types are there."""
    release = dptally.publish(frame.where("false"), key=["word", "number"], **PRIVACY)
    assert len(release) == 0
    assert release.table().columns[:2] == ["word", "number"]


def test_progress_comes_from_spark(frame: Any) -> None:
    """The stage is named, and shares of the work lie between 0 and 1."""
    seen: list[tuple[str, float | None]] = []
    dptally.publish(frame, key="word", progress=lambda stage, share: seen.append((stage, share)), **PRIVACY)
    assert {stage for stage, _ in seen} == {"counting keys"}
    assert all(share is None or 0 <= share <= 1 for _, share in seen)


def test_names_of_columns_are_taken_as_they_are(spark: Any) -> None:
    """Names that differ in case only, or hold dots and quotes, are columns like any other."""
    rows = [(random.Random(i).choice("ab"), 1) for i in range(2000)]  # noqa: S311 - no secrets
    frame = spark.createDataFrame(rows, ["x", "y"]).toDF("a.`b", "A.`b")
    release = dptally.publish(frame, key="a.`b", **PRIVACY)
    assert release.table().get_column("a.`b").to_list() == ["a", "b"]
    kept: Any = dptally.publish(frame, key="a.`b", collect=False, **PRIVACY)
    assert kept.columns == ["a.`b", "value"]
    assert kept.count() == 2
