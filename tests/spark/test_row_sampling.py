"""Rows sampled before they are counted: the law is the same, and a repeated task keeps the same rows."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy import stats

import dptally
from dptally.randomness import SeededBits
from dptally.spark.publishing import drawn_rows
from dptally.spark.row_sampling import can_sample_rows, repeats_itself
from dptally.spark.rows import open_frame
from tests.mechanisms import PrivateWeightedSampling, SampleAndThresholdHistogram
from tests.spark.data import PRIVACY, as_frame, visits
from tests.statistical.checks import FALSE_ALARM, chi_square_pvalue

KEYS = 3000


@pytest.fixture(scope="module")
def files(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """3000 keys with 16 rows each, spread over two files."""
    path = tmp_path_factory.mktemp("rows") / "files"
    return as_frame(spark, pa.table({"k": np.tile(np.arange(KEYS), 16)}), path)


def drawn(mechanism: Any, frame: Any, seed: int) -> list[tuple[int, int]]:
    """What is released when rows are sampled early, and again in a second run of the same plan."""
    rows = open_frame(frame, key="k", unit=None)
    assert can_sample_rows(mechanism.law, rows)
    with drawn_rows(mechanism.question, rows, SeededBits(seed), early=True) as plan:
        once, again = (sorted(map(tuple, plan.collect())) for _ in range(2))
    assert once == again
    return once


def test_sample_and_threshold_keeps_its_law(files: Any) -> None:
    """Values of 3000 keys of frequency 16 follow the exact row; chi-square, false alarms at most 1e-6.

    The rows of frequencies 15 and 17 are rejected, and what is drawn twice from one secret is the same.
    """
    mechanism = SampleAndThresholdHistogram(Fraction(1), Fraction(1, 100), max_keys_per_unit=1)
    found = drawn(mechanism, files, 5)
    observed: dict[object, int] = {value: 0 for _, value in found}
    for _, value in found:
        observed[value] += 1
    observed[None] = KEYS - len(found)
    for frequency in (15, 16, 17):
        row = {value: float(chance) for value, chance in mechanism.law.row(frequency).items()}
        assert (chi_square_pvalue(observed, row, KEYS) > FALSE_ALARM) == (frequency == 16)


def test_a_weighted_sample_keeps_its_law(files: Any) -> None:
    """As many keys are reported as the certified row says (binomial test, false alarms at most 1e-6).

    Had keys that were not hit been drawn for too, or hits been drawn for again, the same test would fail.
    """
    scheme = dptally.Ppswor("0.01")
    mechanism = PrivateWeightedSampling(Fraction(2), Fraction(1, 20), max_keys_per_unit=1, values=True, scheme=scheme)
    found = drawn(mechanism, files, 6)
    chance = float(mechanism.law.reporting_probability(16))
    assert stats.binomtest(len(found), KEYS, chance).pvalue > FALSE_ALARM
    included = 1 - np.exp(-0.16)
    for wrong in (chance * included, chance / included):
        assert stats.binomtest(len(found), KEYS, min(1.0, float(wrong))).pvalue < FALSE_ALARM


def test_only_plans_that_repeat_their_order_are_sampled_early(spark: Any, files: Any) -> None:
    """Files, filters and unions do; a shuffle, a sort or Python code does not promise it."""
    assert repeats_itself(files)
    assert repeats_itself(files.where("k > 5").selectExpr("k + 1 as k").union(files))
    assert repeats_itself(spark.range(10))
    for frame in (
        files.repartition(3),
        files.distinct(),
        files.orderBy("k"),
        files.sortWithinPartitions("k"),
        files.mapInArrow(lambda batches: batches, files.schema),
    ):
        assert not repeats_itself(frame)
    law = SampleAndThresholdHistogram(Fraction(1), Fraction(1, 100), max_keys_per_unit=1).law
    assert not can_sample_rows(law, open_frame(files.selectExpr("k", "k as u"), key="k", unit="u"))
    assert not can_sample_rows(law, open_frame(files.selectExpr("k", "k as n"), key="k", unit=None, count="n"))


def test_publish_samples_early_with_secret_bits(spark: Any, tmp_path: Path) -> None:
    """Both requests work with secret bits, nulls kept, several columns, and leave the same kind of release."""
    frame = as_frame(spark, visits(), tmp_path / "files")
    for more in ({"mechanism": "sample_and_threshold"}, {"sampling": dptally.Ppswor("0.01")}):
        request: dict[str, Any] = {"key": ["number", "word"], "nulls": "keep", **more, **PRIVACY}
        release = dptally.publish(frame, **request)
        assert release.guarantee.private
        assert 0 < len(release) < 3000
        release.verify()
        seeded = dptally.publish(pq.read_table(tmp_path / "files"), randomness=SeededBits(1), **request)
        assert release.certificate == seeded.certificate
        assert release.to_arrow().schema.types == seeded.to_arrow().schema.types
