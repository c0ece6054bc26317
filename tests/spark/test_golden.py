"""Spark gives what it gave before the package was rebuilt: a seed's release is the one of every other engine."""

from __future__ import annotations

from typing import Any

import pytest

from tests.golden import facts
from tests.golden.outputs import TABLES, check, of_spark_sketch, publish, visits
from tests.spark.data import as_frame


@pytest.fixture(scope="module")
def frame(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The rows of the golden outputs as a Spark DataFrame."""
    return as_frame(spark, visits(), tmp_path_factory.mktemp("golden") / "files")


@pytest.mark.parametrize("name", [name for name in TABLES if name != "misra_gries"])
def test_a_release_is_what_it_was(frame: Any, name: str) -> None:
    """The same rows, guarantee, certificate and answers as on one machine."""
    check(name, facts.of_table(publish(name, frame)))


def test_merged_sketches_are_what_they_were(spark: Any) -> None:
    """Sketches of partitions, merged."""
    check("spark", {"misra_gries": of_spark_sketch(spark.createDataFrame(visits()))})
