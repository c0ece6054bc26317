"""One clear sentence for each thing that can be wrong, and nothing of the data in it."""

from __future__ import annotations

import traceback
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import dptally
from dptally.errors import InvalidParameter, InvalidSource
from dptally.randomness import SeededBits
from tests.spark.data import PRIVACY


@pytest.fixture(scope="module")
def frame(spark: Any) -> Any:
    """Two columns of each kind."""
    return spark.createDataFrame([("a", 1, [1]), ("b", None, [2])], "k string, u long, l array<int>")


@pytest.mark.parametrize(
    ("request_", "sentence"),
    [
        ({"key": "nothing"}, "column 'nothing' is not in the source; it has: k, u, l."),
        ({"key": None}, "key must name the key column of a table."),
        ({"key": "l"}, "column 'l' has the type array, which cannot be a key"),
        ({"key": "k", "unit": "l"}, "column 'l' has the type array, which cannot be a key or a unit"),
        ({"key": "k", "unit": "k"}, "column 'k' cannot be a key and the unit at once."),
        ({"key": "k", "count": "l"}, "column 'l' must hold integers to be a count"),
        ({"key": "k", "nulls": "maybe"}, "nulls must be 'drop' or 'keep', got 'maybe'."),
        ({"key": "k", "mechanism": "dense", "universe": ["a"], "delta": None}, "'dense' does not run on Spark; use"),
        ({"key": "k", "memory_limit": "1GB"}, "memory_limit is for one machine"),
        ({"key": "k", "format": "csv"}, "format is for files"),
    ],
)
def test_refusals(frame: Any, request_: dict[str, Any], sentence: str) -> None:
    """A request that cannot be met is refused before Spark runs anything."""
    with pytest.raises((InvalidParameter, InvalidSource), match=sentence):
        dptally.publish(frame, **{**PRIVACY, **request_})


def test_reserved_names(frame: Any) -> None:
    """A key column may not be named like a column of the release."""
    with pytest.raises(InvalidParameter, match="a key column may not be named 'value'"):
        dptally.publish(frame.toDF("value", "u", "l"), key="value", **PRIVACY)


def test_collect_is_for_spark() -> None:
    """Other sources have nothing to leave on a cluster."""
    with pytest.raises(InvalidParameter, match="collect=False is for Spark DataFrames"):
        dptally.publish({"a": 1}, collect=False, **PRIVACY)


def test_null_columns(spark: Any) -> None:
    """A column of nulls alone has no keys, or one; a unit of nulls alone leaves nothing."""
    table = spark.createDataFrame([(None, None, "a")] * 500, "k void, u void, t string")
    assert len(dptally.publish(table, key="k", **PRIVACY)) == 0
    assert dptally.publish(table, key="k", nulls="keep", **PRIVACY).table().get_column("k").to_list() == [None]
    assert len(dptally.publish(table, key="t", unit="u", **PRIVACY)) == 0


def test_values_that_are_no_counts(spark: Any) -> None:
    """Negative and missing counts, and sums beyond 2^62, are errors of the source."""
    for bad, sentence in ((-1, "must hold non-negative integers"), (None, "must hold non-negative integers")):
        frame = spark.createDataFrame([("secret", 5), ("secret", bad)], "k string, n long")
        with pytest.raises(InvalidSource, match=f"column 'n' {sentence}") as caught:
            dptally.publish(frame, key="k", count="n", **PRIVACY)
        assert_nothing_private(caught.value)
    frame = spark.createDataFrame([("secret", 2**62), ("secret", 2**62)], "k string, n long")
    with pytest.raises(InvalidSource, match="column 'n' adds up to more than 2"):
        dptally.publish(frame, key="k", count="n", **PRIVACY)


def test_text_that_is_none(spark: Any) -> None:
    """Bytes that are called text are refused, as on one machine."""
    frame = spark.sql("select cast(x'ff' as string) as k from range(1000)")
    with pytest.raises(InvalidSource, match="not valid UTF-8"):
        dptally.publish(frame, key="k", **PRIVACY)


def test_errors_of_spark_are_not_repeated(spark: Any) -> None:
    """Spark quotes rows in its errors; none of it is in ours, nor behind it."""
    frame = spark.sql("select cast(concat('secret', id) as int) as k from range(10)")
    with pytest.raises(InvalidSource, match="Spark could not finish; its own logs say why") as caught:
        dptally.publish(frame, key="k", **PRIVACY)
    assert_nothing_private(caught.value)


def assert_nothing_private(error: BaseException) -> None:
    """Nothing of the data in the message, what it was raised from, or a printed traceback."""
    assert error.__cause__ is None
    assert error.__context__ is None
    assert "secret" not in str(error)
    assert "secret0" not in "".join(traceback.format_exception(error, limit=0))


def test_results_too_large_for_the_driver(spark: Any) -> None:
    """Too many released rows for the driver: the way out is named, and it works."""
    keys = [f"a rather long key, so that few of them are a megabyte {i}" for i in range(30_000)]
    frame = spark.createDataFrame(pa.table({"k": keys, "n": [1000] * len(keys)}))
    request = {"key": "k", "count": "n", "randomness": SeededBits(1), **PRIVACY}
    with pytest.raises(InvalidParameter, match=r"do not fit into the driver .* use collect=False"):
        dptally.publish(frame, **request)
    kept: Any = dptally.publish(frame, collect=False, **request)
    assert kept.count() == len(keys)


def test_nothing_is_left_behind(spark: Any) -> None:
    """Whether it works or fails, no broadcast of a secret stays, on disk or in Spark."""
    folder = Path(spark.sparkContext._temp_dir)
    before = set(folder.rglob("*"))
    good = spark.createDataFrame([("a", 1)] * 100, "k string, u long")
    dptally.publish(good, key="k", unit="u", **PRIVACY)
    with pytest.raises(InvalidSource):
        dptally.publish(spark.sql("select cast(x'ff' as string) as k from range(9)"), key="k", **PRIVACY)
    assert {path for path in set(folder.rglob("*")) - before if path.is_file()} == set()


def test_a_streaming_frame(spark: Any) -> None:
    """A stream has no end to count to."""
    with pytest.raises(InvalidParameter, match="a streaming DataFrame cannot be published"):
        dptally.publish(spark.readStream.format("rate").load(), key="value", **PRIVACY)
