"""Rounds of keys on Spark: the same stages as on one machine, repeated by a seed, with units bounded."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pytest

import dptally
from dptally.errors import InvalidSource
from dptally.laws.round_stages import ReportingLaw
from dptally.laws.rounds_plan import SIZES
from dptally.laws.spec import Question
from dptally.laws.tables.reporting_curve import Weights
from dptally.randomness import SeededBits
from dptally.spark.packed_units import CountFound, CountSizes, PackUnits, SumWeights
from dptally.spark.publishing import OpenedFrame
from dptally.spark.rows import open_frame
from dptally.spark.unit_pairs import SparkPairs
from dptally.summaries.counting import check_text
from tests.spark.data import PRIVACY, as_frame, typed

UNITS = 3000


def clear() -> pa.Table:
    """Each of 3000 units has 6 of 8 keys, one of them null, and a key of its own: what is found is certain."""
    names = ["a", "b", "ç", "d", None, "e", "", "f"]
    rows = [(unit, names[(unit + place) % 8], place % 2) for unit in range(UNITS) for place in range(6)]
    rows += [(unit, f"own {unit}", 0) for unit in range(UNITS)]
    units, words, numbers = zip(*rows, strict=True)
    return pa.table({"user": pa.array(units), "word": pa.array(words), "number": pa.array(numbers, pa.int32())})


@pytest.fixture(scope="module")
def frame(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The clear rows, each twice, as a Spark DataFrame."""
    twice = pa.concat_tables([clear(), clear()])
    return as_frame(spark, twice, tmp_path_factory.mktemp("clear") / "files")


def published(source: Any, seed: int = 1, **request: Any) -> Any:
    """Automatic, by unit."""
    return dptally.publish(source, **{"key": "word", "unit": "user", **PRIVACY, **request}, randomness=SeededBits(seed))


def keys_of(release: Any) -> pl.DataFrame:
    """Released keys, in order."""
    found: pl.DataFrame = release.table().select(pl.exclude("value", "estimate", "lower", "upper"))
    return found


@pytest.mark.parametrize(
    "request_",
    [
        {},
        {"nulls": "keep"},
        {"nulls": "keep", "key": ["number", "word"]},
        {"values": False},
        {"max_keys_per_unit": 4, "mechanism": "rounds"},
    ],
    ids=str,
)
def test_clear_keys_are_those_of_one_machine(frame: Any, request_: dict[str, Any]) -> None:
    """Keys, types and stages are those of one machine; a seed repeats itself, and another one differs."""
    release = published(frame, **request_)
    here = published(clear(), **request_)
    assert release.guarantee.mechanism == here.guarantee.mechanism == "rounds"
    assert keys_of(release).equals(keys_of(here))
    assert len(release) == (7 if "nulls" not in request_ else 16 if "key" in request_ else 8)
    assert release.to_arrow().schema.equals(here.to_arrow().schema)
    release.verify()
    again = published(frame.repartition(5), **request_)
    assert again.table().equals(release.table())
    if request_.get("values", True):
        assert not published(frame, 2, **request_).table().equals(release.table())


def test_values_are_near_the_counts(frame: Any) -> None:
    """Of every key 2250 units are counted, as no unit is cut; all intervals at the level 1 - 1e-6 contain that."""
    for lower, upper in published(frame).table(confidence="0.999999").select("lower", "upper").iter_rows():
        assert lower <= UNITS * 6 // 8 <= upper


def test_keys_of_every_type(spark: Any, tmp_path: Path) -> None:
    """Keys of all types, nulls kept, are left out again once they are found, and counted at the end."""
    table = typed(4000).append_column("unit", pa.array(np.arange(4000) % 800))
    frame = as_frame(spark, table, tmp_path / "typed")
    names = [name for name in table.column_names if name != "unit"]
    for key in (names[:7], names[7:]):
        request: dict[str, Any] = {"key": key, "unit": "unit", "nulls": "keep"}
        ours, theirs = published(frame, **request), published(table, **request)
        assert keys_of(ours).equals(keys_of(theirs))
        assert ours.to_arrow().schema.equals(theirs.to_arrow().schema)
        assert len(ours) >= 4


def test_nothing_is_kept_afterwards(spark: Any, frame: Any) -> None:
    """The executors hold no rows after a release, nor after one that fails."""
    kept = spark.sparkContext._jsc.sc().getPersistentRDDs
    before = kept().size()
    setting = "spark.sql.optimizer.canChangeCachedPlanOutputPartitioning"
    was = spark.conf.get(setting)
    published(frame)
    assert kept().size() == before
    assert spark.conf.get(setting) == was
    with pytest.raises(InvalidSource, match="Spark could not finish") as failed:
        published(frame.selectExpr("word", "raise_error(concat('secret ', word)) as user"))
    assert "secret" not in str(failed.value)
    assert failed.value.__context__ is None
    assert kept().size() == before


def test_an_empty_source_gives_an_empty_release(frame: Any) -> None:
    """No rows, no keys, and the types are there."""
    for values in (True, False):
        release = published(frame.where("false"), key=["word", "number"], values=values)
        assert len(release) == 0
        assert release.table().columns[:2] == ["word", "number"]
        release.verify()


@pytest.mark.parametrize("values", [True, False])
def test_released_rows_can_stay_on_the_cluster(frame: Any, values: bool, tmp_path: Path) -> None:
    """collect=False gives a Spark DataFrame with the same rows, which saves."""
    request: dict[str, Any] = {"nulls": "keep", "key": ["word", "number"], "values": values}
    whole, kept = published(frame, **request), published(frame, collect=False, **request)
    assert kept.columns == ["word", "number", "value"]
    assert kept.guarantee == whole.guarantee
    assert kept.to_release().table().equals(whole.table())
    kept.save(str(tmp_path / "release"))
    assert (tmp_path / "release" / "_dptally.json").exists()
    assert pl.read_parquet(tmp_path / "release" / "*.parquet").height == len(whole)


def test_a_release_is_saved_and_verified(frame: Any, tmp_path: Path) -> None:
    """With secret bits: saved, loaded, verified, and paid for in a ledger."""
    ledger = dptally.Ledger(tmp_path / "budget.db", epsilon=2, delta="1e-5")
    release = dptally.publish(frame, key="word", unit="user", **PRIVACY, ledger=ledger)
    assert release.guarantee.private
    release.save(tmp_path / "release.parquet")
    loaded = dptally.load(tmp_path / "release.parquet")
    loaded.verify()
    assert loaded.table().equals(release.table())
    assert ledger.remaining()[0] == 1
    assert ledger.find(loaded.guarantee).state == "published"


# ---- what stages compute ----


class Open:
    """Half a secret in the clear, as executors see it."""

    def keyed(self) -> Any:
        """Words of a fixed secret."""
        from dptally.randomness.keyed import KeyedWords

        return KeyedWords(b"x" * 32, private=False)


def packs_of(private: list[tuple[int, str | None]], **limits: int) -> list[pa.RecordBatch]:
    """One partition, packed; rows arrive seven at a time."""
    in_order = sorted(private, key=lambda pair: pair[0])
    units = [unit for unit, _ in in_order]
    rows = pa.record_batch({"h": pa.array(units), "u": pa.array(units), "k0": pa.array([key for _, key in in_order])})
    batches = [rows.slice(start, 7) for start in range(0, len(in_order), 7)]
    secret: Any = Open()
    return list(PackUnits(secret, **limits)(batches))


def random_pairs() -> list[tuple[int, str | None]]:
    """Units of 1 to 40 keys, rows repeated, nulls among keys."""
    generator = np.random.default_rng(3)
    pairs: list[tuple[int, str | None]] = []
    for unit in range(200):
        for key in generator.integers(0, 60, int(generator.integers(1, 40))):
            pairs.append((unit, None if key == 5 else f"key {key}"))
    return pairs


def added(found: list[pa.RecordBatch]) -> dict[Any, int]:
    """Numbers added up by what comes before them."""
    total: dict[Any, int] = {}
    for batch in found:
        for key, number in zip(batch.column(0).to_pylist(), batch.column(1).to_pylist(), strict=True):
            total[key] = total.get(key, 0) + number
    return total


@pytest.mark.parametrize("limits", [{}, {"pairs": 1}, {"pairs": 50}], ids=str)
@pytest.mark.parametrize("known", [None, [], ["key 1", None, "elsewhere"]], ids=str)
def test_stages_add_up_as_a_slow_reference_does(limits: dict[str, int], known: list[str | None] | None) -> None:
    """Sizes, sums of weights and counts equal those of sets and loops, however units are packed."""
    secret: Any = Open()
    pairs = random_pairs()
    sets: dict[int, set[str | None]] = {}
    for unit, key in pairs:
        sets.setdefault(unit, set()).add(key)
    found = None if known is None else pa.table({"word": pa.array(known, pa.large_string())})
    left = {unit: keys - set(known or []) for unit, keys in sets.items()}
    packs = packs_of(pairs, **limits)
    sizes = added(list(CountSizes(SIZES, found, of_found=False)(packs)))
    for place, end in enumerate(SIZES):
        start = SIZES[place - 1] if place else 0
        assert sizes[place] == sum(start < len(keys) <= end for keys in left.values())
    weights = Weights(4, 64, 4).of_keys
    sums: dict[str | None, int] = {}
    for keys in left.values():
        for key in keys:
            sums[key] = sums.get(key, 0) + int(weights[len(keys)])
    assert added(list(SumWeights(weights.tolist(), found, secret)(packs))) == sums
    if known:
        counts = {place: sum(key in keys for keys in sets.values()) for place, key in enumerate(known)}
        assert added(list(CountFound(64, found, secret)(packs))) == {p: n for p, n in counts.items() if n}
        of_found = added(list(CountSizes(SIZES, found, of_found=True)(packs)))
        assert of_found[1] == sum(len(keys & set(known)) == 2 for keys in sets.values())


@pytest.mark.parametrize("limits", [{}, {"pairs": 50}, {"pairs": 20, "most_keys": 16}], ids=str)
def test_a_unit_moves_no_more_than_it_may(limits: dict[str, int]) -> None:
    """A unit of 1000 keys adds its weight to exactly hi keys, others add what they did; packing does not matter."""
    secret: Any = Open()
    others = [pair for pair in random_pairs() if pair[0] < 50]
    large: list[tuple[int, str | None]] = [(77, f"key {i % 1000}") for i in range(2000)]
    law = Weights(4, 12, 4)
    without = added(list(SumWeights(law.of_keys.tolist(), None, secret)(packs_of(others))))
    with_it = added(list(SumWeights(law.of_keys.tolist(), None, secret)(packs_of([*others, *large], **limits))))
    if "most_keys" in limits:  # huge units of the others are cut, too
        without = added(list(SumWeights(law.of_keys.tolist(), None, secret)(packs_of(others, most_keys=16))))
    moved = [with_it[key] - without.get(key, 0) for key in with_it if with_it[key] != without.get(key, 0)]
    assert moved == [int(law.of_keys[12])] * 12
    assert set(without) <= set(with_it)
    found = pa.table({"word": [f"key {i}" for i in range(500)]})
    counted = added(list(CountFound(9, found, secret)(packs_of(large))))
    assert list(counted.values()) == [1] * 9


def test_every_key_is_kept_as_often() -> None:
    """2000 units keep 3 of 12 keys by tags: each key about 500 times, within 6 deviations of the binomial law."""
    secret: Any = Open()
    pairs: list[tuple[int, str | None]] = [(unit, f"key {key}") for unit in range(2000) for key in range(12)]
    kept = added(list(SumWeights([0, 1, 1, 1], None, secret)(packs_of(pairs))))
    assert sum(kept.values()) == 6000
    assert all(abs(number - 500) < 6 * np.sqrt(2000 * 3 / 16) for number in kept.values())


def test_what_spark_adds_up_is_what_was_packed(spark: Any, frame: Any) -> None:
    """A round whose table reports keys from one sum on reports exactly those, and found keys have their counts."""
    rows = open_frame(frame, key="word", unit="user", nulls="keep")
    opened = OpenedFrame(rows, collect=True)
    pairs = SparkPairs(rows, SeededBits(1), None)
    try:
        never = np.zeros((100, 2), dtype="<u8").tobytes()  # never below a sum of 100, always from there on
        law: Any = ReportingLaw(Weights(7, 7, 1), never)
        parameters: dict[str, Any] = {"found": None}
        question = Question(law, None, 7, "unit_weights", parameters)  # type: ignore[arg-type]
        reported = pairs.reported(question)
        assert reported.column("word").to_pylist() == ["", "a", "b", "d", "e", "f", "ç", None]
        check_text(reported.to_batches()[0].select(["word"]))
        counts = pairs.found_counts(Question(law, None, 7, "found_counts", {"found": reported}))  # type: ignore[arg-type]
        [(keys, numbers)] = counts.batches()
        assert keys.schema.names == ["word"]
        assert numbers.tolist() == [UNITS * 6 // 8] * 8
        sizes = Question(law, None, 0, "unit_sizes", {"found": reported, "ends": SIZES, "of_found": False})  # type: ignore[arg-type]
        assert pairs.sizes(sizes).counts.tolist() == [UNITS, *[0] * (len(SIZES) - 1)]
        # Found keys are left out; the rest is below the sum.
        assert pairs.reported(Question(law, None, 7, "unit_weights", {"found": reported})).num_rows == 0  # type: ignore[arg-type]
    finally:
        pairs.close()
        pairs.close()
        opened.close()
