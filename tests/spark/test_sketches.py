"""Sketches built on the cluster: equal to a slow reference, and neighbours stay neighbours."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dptally
from dptally.errors import InvalidParameter, InvalidSource
from dptally.randomness import SeededBits
from dptally.spark.rows import open_frame
from dptally.spark.sketching import merged_sketch
from dptally.summaries.misra_gries import MisraGries
from dptally.summaries.sketch_files import ColumnNames
from dptally.summaries.user_misra_gries import UserMisraGries
from tests.mechanisms import PrivateMisraGries
from tests.spark.data import PRIVACY, as_frame, visits

CAPACITY, BUCKETS = 20, 20  # two levels of merging


@pytest.fixture(scope="module")
def frame(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Visits as a Spark DataFrame."""
    return as_frame(spark, visits(), tmp_path_factory.mktemp("visits") / "files")


def sketch_of(frame: Any, unit: str | None = None, limit: int = 1, **options: Any) -> Any:
    """The merged sketch of words, units choosing their keys by a seed."""
    rows = open_frame(frame, key="word", unit=unit)
    settings: dict[str, Any] = {"buckets": BUCKETS, "capacity": CAPACITY, **options}
    return merged_sketch(rows, max_keys_per_unit=limit, bits=SeededBits(1), **settings)


def numbered(frame: Any, column: str) -> list[Any]:
    """Rows with bucket and hash, by Spark's own functions, in the order that is promised."""
    text = f"xxhash64({column})"
    rows = frame.where("word is not null").selectExpr(
        f"pmod(shiftrightunsigned({text}, 32), {BUCKETS}) as b", f"{text} as h", "user", "word"
    )
    return sorted(rows.collect(), key=lambda row: (row.b, row.h, row.user if column == "user" else 0, row.word))


def merged_by_hand(parts: dict[int, Any]) -> Any:
    """Merge neighbours in groups of 16, in order, until one is left."""
    while True:
        groups: dict[int, list[Any]] = {}
        for number in sorted(parts):
            groups.setdefault(number // 16, []).append(parts[number])
        parts = {number: group[0].merge(*group[1:]) for number, group in groups.items()}
        if len(parts) == 1:
            return parts[0]


def contents(sketch: Any) -> bytes:
    """All that a sketch holds, but for the random numbers of its streams."""
    same = type(sketch).from_bytes(sketch.to_bytes())
    same.streams = frozenset({bytes(16)})
    return bytes(same.to_bytes())


def test_a_sketch_of_elements_is_that_of_the_reference(frame: Any) -> None:
    """Elements one by one into the sketch of their bucket, buckets merged by the tree: the same bytes as on Spark."""
    parts: dict[int, MisraGries] = {}
    for row in numbered(frame, "word"):
        parts.setdefault(row.b, MisraGries(CAPACITY)).update([row.word])
    expected = merged_by_hand(parts)
    expected.names = ColumnNames("word")
    assert expected.shortfall > 0
    shuffled = frame.repartition(5).sortWithinPartitions("number")
    for source in (frame, shuffled):
        assert contents(sketch_of(source)) == contents(expected)


def test_a_sketch_of_units_is_that_of_the_reference(frame: Any) -> None:
    """Units whole into the sketch of their bucket, buckets merged by the tree: the same bytes as on Spark."""
    parts: dict[int, UserMisraGries] = {}
    units: dict[tuple[int, int], list[str]] = {}
    for row in numbered(frame, "user"):
        units.setdefault((row.b, row.user), []).append(row.word)
    for (bucket, _), words in units.items():
        parts.setdefault(bucket, UserMisraGries(CAPACITY, 100)).update([words])
    expected = merged_by_hand(parts)
    expected.names = ColumnNames("word", "user")
    assert expected.shortfall > 0
    assert contents(sketch_of(frame, "user", 100)) == contents(expected)


def test_units_keep_a_repeatable_choice(frame: Any) -> None:
    """Units with too many keys keep as many as they may, and the same ones whatever the partitions are."""
    table = visits().filter(visits()["word"].is_valid())
    words: dict[int, set[str]] = {}
    for user, word in zip(table["user"].to_pylist(), table["word"].to_pylist(), strict=True):
        words.setdefault(user, set()).add(word)
    sketch = sketch_of(frame, "user", 2, capacity=100_000)
    assert sketch.total == sum(min(len(some), 2) for some in words.values())
    assert contents(sketch) == contents(sketch_of(frame.repartition(4), "user", 2, capacity=100_000))
    assert sketch.max_keys_per_unit == 2
    everyone = Counter(word for some in words.values() for word in some)
    assert all(row["estimate"] <= everyone[row["key"]] for row in sketch.items().to_pylist())


def test_neighbours_stay_neighbours(spark: Any, frame: Any) -> None:
    """Without one row, or one unit, all counters are equal or lower by one, or all equal or higher by one.

    Also when Spark cuts the rows into other partitions. Cutting by position instead would move rows of others between
    sketches: that the same check then fails is shown on the first two halves of the data.
    """
    table = visits(6000).filter(visits(6000)["word"].is_valid())
    frame = spark.createDataFrame(table)
    whole, by_units = sketch_of(frame), sketch_of(frame, "user", 3)
    for removed in (4321,):
        kept = np.arange(table.num_rows) != removed
        fewer = spark.createDataFrame(table.filter(pa.array(kept))).repartition(3 + removed % 2)
        assert is_neighbour(whole, sketch_of(fewer))
    user = table["user"][17].as_py()
    assert is_neighbour(by_units, sketch_of(frame.where(f"user <> {user}"), "user", 3))
    assert any(not is_neighbour(by_position(table, 0), by_position(table, removed)) for removed in range(1, 40))


def by_position(table: pa.Table, removed: int) -> MisraGries:
    """What must not be done: as many rows for each sketch, whatever is in them."""
    words = table["word"].to_pylist()
    words = words[:removed] + words[removed + 1 :] if removed else words
    parts = [MisraGries(CAPACITY) for _ in range(40)]
    for number, part in enumerate(parts):
        part.update(words[150 * number : 150 * (number + 1)])
    return parts[0].merge(*parts[1:])


def is_neighbour(one: Any, other: Any) -> bool:
    """Whether the counters differ by at most one, all in one direction."""
    first, second = ({row["key"]: row["estimate"] for row in sketch.items().to_pylist()} for sketch in (one, other))
    differences = {first.get(key, 0) - second.get(key, 0) for key in {*first, *second}}
    return differences <= {0, 1} or differences <= {0, -1}


def test_a_release_of_a_sketch(frame: Any) -> None:
    """The law and the promise are those of a merged sketch, or of one of units, and a seed repeats the release."""
    request: dict[str, Any] = {"key": "word", "mechanism": "misra_gries", "capacity": 50, **PRIVACY}
    for unit, form in ((None, "merged"), ("user", "user")):
        release = dptally.publish(frame, unit=unit, randomness=SeededBits(3), **request)
        expected = PrivateMisraGries(form, 50, 1, "1e-6", unit=unit)  # type: ignore[arg-type]
        assert release.certificate == expected.certificate
        assert release.guarantee.sketch_capacity == 50
        assert release.guarantee.unit == unit
        release.verify()
        again = dptally.publish(frame.repartition(3), unit=unit, randomness=SeededBits(3), **request)
        assert release.table().equals(again.table())
    assert dptally.publish(frame, **request).guarantee.private


@pytest.mark.parametrize("unit", [None, "u"])
@pytest.mark.parametrize("kind", ["string", "binary", "bigint", "smallint", "void"])
def test_the_type_of_keys_is_the_declared_one(spark: Any, unit: str | None, kind: str, tmp_path: Path) -> None:
    """No rows and one row give releases of one schema, with and without units."""
    frame = spark.sql(f"select cast('7' as {kind}) as k, 1 as u" if kind != "void" else "select null as k, 1 as u")
    found = []
    for source in (frame.where("u > 1"), frame):
        release = dptally.publish(source, key="k", unit=unit, mechanism="misra_gries", capacity=4, **PRIVACY)
        release.save(tmp_path / "r.parquet", overwrite=True)
        found.append(pq.read_schema(tmp_path / "r.parquet").remove_metadata())
        assert len(release) == 0
    assert found[0] == found[1]
    released = {"binary": pa.large_binary(), "bigint": pa.int64(), "smallint": pa.int64()}
    assert found[0].types[0] == released.get(kind, pa.large_string())


def test_an_empty_sketch_keeps_its_kind(spark: Any) -> None:
    """Merging it with sketches of elsewhere is refused or not by what was declared, rows or not."""
    rows = open_frame(spark.sql("select 7 as k where false"), key="k", unit=None)
    sketch: Any = merged_sketch(rows, 4, 1, SeededBits(1))
    assert (sketch.kind, sketch.total, len(sketch.streams)) == ("integer", 0, 1)
    with pytest.raises(InvalidParameter, match="keys of one kind to be merged"):
        sketch.merge(MisraGries(4, kind="string"))
    with pytest.raises(InvalidParameter, match="hold the same stream"):
        sketch.merge(MisraGries.from_bytes(sketch.to_bytes()))


def test_integers_and_bytes(spark: Any) -> None:
    """Integers of any width, and bytes, are keys; counts are exact while there is room."""
    frame = spark.sql("select cast(id % 7 as short) as i, cast(cast(id % 5 as string) as binary) as b from range(1000)")
    for key, many in (("i", 7), ("b", 5)):
        found = merged_sketch(open_frame(frame, key=key, unit=None), 10, 1, SeededBits(1)).items()
        assert sorted(found["estimate"].to_pylist()) == sorted(Counter(i % many for i in range(1000)).values())


@pytest.mark.parametrize(
    ("request_", "sentence"),
    [
        ({"key": ["word", "number"]}, "a sketch takes one key column, got 2."),
        ({"key": "word", "nulls": "keep"}, "nulls must be 'drop'"),
        ({"key": "word", "count": "number"}, "a sketch reads raw rows, and this source holds counts"),
        ({"key": "word", "collect": False}, "a sketch is released by the driver; leave collect at True."),
        ({"key": "word", "capacity": 10**7}, "capacity must be at most 100000, got 10000000."),
        ({"key": "word", "sampling": dptally.Ppswor("0.1")}, "sampling needs the mechanism"),
        ({"key": "real"}, "keys must be text, bytes or integers, not double."),
        ({"key": "word", "unit": "real"}, "units of a sketch must be text, bytes, integers, dates or times."),
    ],
)
def test_refusals(frame: Any, request_: dict[str, Any], sentence: str) -> None:
    """A request that does not fit a sketch is refused before Spark runs anything."""
    source = frame.selectExpr("*", "cast(number as double) as real")
    with pytest.raises((InvalidParameter, InvalidSource), match=sentence):
        dptally.publish(source, mechanism="misra_gries", **PRIVACY, **request_)


def test_a_sketch_too_large_for_the_driver(spark: Any) -> None:
    """The way out is named."""
    frame = spark.sql(
        "select concat('a rather long key, so that few of them are a megabyte', id) as k from range(30000)"
    )
    with pytest.raises(InvalidParameter, match=r"the sketch does not fit into the driver .* take a smaller capacity"):
        dptally.publish(frame, key="k", mechanism="misra_gries", capacity=30_000, **PRIVACY)


@pytest.mark.parametrize("unit", [None, "id"])
def test_text_that_is_none(spark: Any, unit: str | None) -> None:
    """Bytes that are called text are left out; no error tells that they were there."""
    frame = spark.sql("select id, cast(if(id % 2 = 0, x'ff', x'61') as string) as k from range(4000)")
    release = dptally.publish(frame, key="k", unit=unit, mechanism="misra_gries", capacity=20, **PRIVACY)
    assert release.table().get_column("k").to_list() == ["a"]
