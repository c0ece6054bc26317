"""The keys of every unit on disk, against dictionaries of sets: sizes, sums of weights, what is dropped and kept."""

from __future__ import annotations

import math
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import dptally
from dptally.errors import InvalidSource
from dptally.laws.spec import Question
from dptally.laws.tables.reporting_curve import Weights
from dptally.randomness import SeededBits, SystemBits
from dptally.sources import open_rows
from dptally.sources.engine import OutOfMemory
from dptally.summaries import unit_pairs
from dptally.summaries.unit_pairs import UnitPairs
from tests.exact.key_rounds_settings import chooser
from tests.statistical.checks import FALSE_ALARM, chi_square_pvalue

ENDS = (1, 2, 3, 4, 6, 8)
Units = dict[Any, set[Any]]


class _Law:
    """As much of a law as sums need."""

    def __init__(self, weights: Weights) -> None:
        self.weights = weights


def asked(summary: str, *, weights: Weights | None = None, keys: int = 0, **parameters: Any) -> Question:
    """A question of a release in rounds."""
    law: Any = None if weights is None else _Law(weights)
    kept = keys if weights is None else weights.high
    return Question(law, None, kept, summary, {"found": None, **parameters})  # type: ignore[arg-type]


def opened(table: pa.Table, *, key: Any = "k", nulls: Any = "drop", seed: int = 1) -> UnitPairs:
    """Pairs of a table."""
    rows = open_rows(table, key=key, unit="u", nulls=nulls)
    return UnitPairs(rows, bits=SeededBits(seed), memory_limit=None, progress=None)


def answer(pairs: UnitPairs, question: Question, seed: int = 2) -> Any:
    """What a question is answered with."""
    with pairs.summarise(question, SeededBits(seed)) as summary:
        return summary


def sums_of(pairs: UnitPairs, question: Question, seed: int = 2) -> dict[Any, int]:
    """Keys with their sums."""
    found: dict[Any, int] = {}
    for keys, sums in answer(pairs, question, seed).batches():
        columns = [column.to_pylist() for column in keys.columns]
        for place, total in enumerate(sums.tolist()):
            name = columns[0][place] if len(columns) == 1 else tuple(column[place] for column in columns)
            assert name not in found
            found[name] = total
    return found


def found_table(keys: list[Any], kind: pa.DataType | None = None) -> pa.Table:
    """Released keys."""
    return pa.table({"k": pa.array(keys, kind or pa.string()), "value": pa.array([1] * len(keys), pa.int64())})


def sizes_of(units: Units) -> list[int]:
    """How many units have 1, 2, 3, 4, 5 to 6, and 7 or more keys."""
    counts = [0] * len(ENDS)
    for keys in units.values():
        if keys:
            counts[next(place for place, end in enumerate(ENDS) if min(len(keys), ENDS[-1]) <= end)] += 1
    return counts


def weighed(units: Units, weights: Weights) -> dict[Any, int]:
    """Sums of weights, for units that keep all their keys."""
    sums: Counter[Any] = Counter()
    for keys in units.values():
        assert len(keys) <= weights.high
        each = math.isqrt(weights.multiple**2 * weights.high // max(len(keys), weights.low)) if keys else 0
        sums.update(dict.fromkeys(keys, each))
    return dict(sums)


def random_rows(seed: int) -> tuple[pa.Table, Units, bool]:
    """Rows in any order, with repeated pairs, units of numbers or text, and null keys; and which keys each unit has."""
    choose = chooser(f"pairs {seed}")
    text, keep = choose.random() < 0.5, choose.random() < 0.5
    rows: list[tuple[Any, Any]] = []
    for unit in range(choose.randint(1, 60)):
        who = f"unit {unit:>3}" if text else unit - 20
        names = [f"key {choose.randint(0, 40)}" for _ in range(choose.choice((1, 1, 2, 5, 8, 12)))]
        if choose.random() < 0.2:
            names.append(None)  # type: ignore[arg-type]
        rows += [(who, name) for name in names for _ in range(choose.choice((1, 1, 3)))]
    rows += [(None, "of nobody")] * choose.randint(0, 3)
    choose.shuffle(rows)
    units: Units = defaultdict(set)
    for who, name in rows:
        if who is not None and (name is not None or keep):
            units[who].add(name)
    table = pa.table({"u": pa.array([row[0] for row in rows]), "k": pa.array([row[1] for row in rows], pa.string())})
    return table, dict(units), keep


@pytest.fixture(params=[1 << 20, 7, 1], ids=["one chunk", "chunks of 7 pairs", "unit by unit"])
def chunk(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """How many pairs are looked at together."""
    monkeypatch.setattr(unit_pairs, "_CHUNK", request.param)
    yield request.param


@pytest.mark.parametrize("seed", range(12))
def test_all_stages_are_those_of_sets(seed: int, chunk: int) -> None:
    """Sizes, weighted sums, then twice: some keys are found and dropped, the same of the rest, counts of the found."""
    table, units, keep = random_rows(seed)
    choose, weights = chooser(f"stages {seed}"), Weights(2, 64, 3)
    with opened(table, nulls="keep" if keep else "drop") as pairs:
        left: Units = units
        found: set[Any] = set()
        for _ in range(3):
            shown = None if not found else found_table(sorted(found, key=str))
            counted = answer(pairs, asked("unit_sizes", ends=ENDS, of_found=False, found=shown))
            assert counted.counts.tolist() == sizes_of(left)
            assert sums_of(pairs, asked("unit_weights", weights=weights, found=shown)) == weighed(left, weights)
            if found:
                both = {who: keys & found for who, keys in units.items()}
                counted = answer(pairs, asked("unit_sizes", ends=ENDS, of_found=True, found=shown))
                assert counted.counts.tolist() == sizes_of(both)
                every = Counter(key for keys in both.values() for key in keys)
                got = sums_of(pairs, asked("found_counts", keys=64, found=shown))
                assert got == {key: every[key] for key in found}
            rest = sorted({key for keys in left.values() for key in keys}, key=str)
            found |= set(choose.sample(rest, min(len(rest), choose.randint(1, 15))))
            left = {who: keys - found for who, keys in units.items()}


@pytest.mark.parametrize("batch", [1, 2, 3, 5, 100])
def test_units_that_go_on_in_the_next_batch(batch: int, tmp_path: Path) -> None:
    """However sorted rows are cut into batches, a unit is one unit and a repeated key counts once."""
    units = [b"a"] * 5 + [b"b"] + [b"c"] * 7 + [b"d"] * 2 + [b"e"]
    keys = [0, 0, 1, 3, 3, 3, 0, 1, 1, 1, 2, 5, 5, 5, 5, 5]
    pairs = unit_pairs._Pairs(tmp_path / "pairs")
    with pairs.writing() as writer:
        for start in range(0, len(keys), batch):
            part = slice(start, start + batch)
            writer.add(pa.array(units[part], pa.binary()), np.array(keys[part], dtype=np.int64))
        writer.add(pa.array([], pa.binary()), np.empty(0, dtype=np.int64))
    ((sizes, stored),) = pairs.chunks()
    assert sizes.tolist() == [3, 1, 4, 1, 1]
    assert stored.tolist() == [0, 1, 3, 3, 0, 1, 2, 5, 5, 5]


def test_units_of_one_hash_are_noticed_and_survived(monkeypatch: pytest.MonkeyPatch) -> None:
    """If two units have one hash, rows are sorted again by unit, and every unit has its own keys."""
    right, calls = unit_pairs._Writer.add, []

    def colliding(self: Any, units: pa.Array, keys: Any, hashes: pa.Array | None) -> None:
        calls.append(hashes is not None)
        right(self, units, keys, hashes if hashes is None else pa.array([5] * len(units), pa.uint64()))

    monkeypatch.setattr(unit_pairs._Writer, "add", colliding)
    table = pa.table({"u": ["a", "b", "a", "b", "a"], "k": ["x", "x", "y", "x", "x"]})
    with opened(table) as pairs:
        assert calls == [True, False]
        assert sums_of(pairs, asked("unit_weights", weights=Weights(2, 2, 1))) == {"x": 2, "y": 1}
        sizes = answer(pairs, asked("unit_sizes", ends=ENDS, of_found=False))
        assert sizes.counts.tolist() == sizes_of({"a": {"x", "y"}, "b": {"x"}})


@pytest.mark.parametrize("private", [True, False])
def test_keys_that_do_not_fit_in_memory_are_numbered_in_parts(private: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the engine runs out of memory, distinct keys are found in parts by their hash: each once, none missing."""
    right, statements = UnitPairs._wait, list[str]()

    def limited(self: UnitPairs, session: Any, statement: str, stage: str) -> None:
        statements.append(statement)
        if len(statements) <= 2:
            raise OutOfMemory("too many keys.")
        right(self, session, statement, stage)

    monkeypatch.setattr(UnitPairs, "_wait", limited)
    table = pa.table({"u": [n // 5 for n in range(4000)], "k": [f"k{n % 1000}" for n in range(4000)]})
    rows = open_rows(table, key="k", unit="u")
    bits = SystemBits() if private else SeededBits(1)
    with UnitPairs(rows, bits=bits, memory_limit=None, progress=None) as pairs:
        assert len(statements) == 1 + 4 + 4  # the whole, a quarter that is split, and three more
        assert sums_of(pairs, asked("unit_weights", weights=Weights(5, 5, 1))) == {f"k{n}": 4 for n in range(1000)}


def test_a_unit_keeps_no_more_than_it_may(chunk: int) -> None:
    """Units with more keys than hi keep hi of them, with the smallest weight; others are not touched."""
    rows = [("many", f"k{key:02}") for key in range(40)] + [("few", f"k{key:02}") for key in range(3)]
    table = pa.table({"u": [row[0] for row in rows], "k": [row[1] for row in rows]})
    weights = Weights(1, 8, 4)
    small = math.isqrt(16 * 8 // 3)
    assert int(weights.of_keys[8]) == 4 and small > 4
    with opened(table) as pairs:
        for seed in range(20):
            sums = sums_of(pairs, asked("unit_weights", weights=weights), seed)
            of_many = {key: total - (small if key in ("k00", "k01", "k02") else 0) for key, total in sums.items()}
            assert sorted(total for total in of_many.values() if total) == [4] * 8
        every = found_table([f"k{key:02}" for key in range(40)])
        for seed in range(20):
            counted = sums_of(pairs, asked("found_counts", keys=5, found=every), seed)
            assert len(counted) == 40 and sum(counted.values()) == 5 + 3 and max(counted.values()) <= 2


def test_keys_are_kept_uniformly() -> None:
    """6,000 seeded choices of 2 of 4 keys: alike by a chi-square test at rate 1e-6; a lean to one is noticed."""
    rows = [(unit, f"k{key}") for unit in range(6000) for key in range(4)]
    weights = Weights(2, 2, 1)
    table = pa.table({"u": [row[0] for row in rows], "k": [row[1] for row in rows]})
    with opened(table) as pairs:
        chosen: Counter[Any] = Counter()
        for sizes, keys in pairs._all.chunks():
            kept_sizes, kept = unit_pairs._keep(sizes, keys, weights.high, SeededBits(4))
            assert set(kept_sizes.tolist()) == {2}
            chosen.update(map(tuple, kept.reshape(-1, 2).tolist()))
    even = dict.fromkeys(chosen, 1 / 6)
    assert len(chosen) == 6 and chi_square_pvalue(chosen, even, 6000) > FALSE_ALARM
    leaning = {pair: 0.13 if 0 in pair else 0.61 / 3 for pair in chosen}
    assert chi_square_pvalue(chosen, leaning, 6000) < FALSE_ALARM


def test_another_choice_in_every_round() -> None:
    """Which keys a unit keeps is sampled again for every question, so that nothing of one choice shows in another."""
    table = pa.table({"u": ["a"] * 30, "k": [f"k{key}" for key in range(30)]})
    with opened(table) as pairs:
        bits = SeededBits(3)
        kept = []
        for _ in range(6):
            with pairs.summarise(asked("unit_weights", weights=Weights(5, 5, 1)), bits) as summary:
                kept.append(tuple(name for keys, _ in summary.batches() for name in keys.column(0).to_pylist()))
    assert len(set(kept)) == 6


def test_one_unit_with_a_hundred_thousand_keys(chunk: int) -> None:
    """It is in the last bin, keeps hi keys, and another unit beside it is counted as ever."""
    if chunk == 1:
        pytest.skip("one pair at a time of 100,000 takes long and shows nothing more")
    many = 100_000
    table = pa.table({"u": np.append(np.zeros(many, dtype=np.int64), [1]), "k": np.append(np.arange(many), [7])})
    with opened(table) as pairs:
        assert answer(pairs, asked("unit_sizes", ends=ENDS, of_found=False)).counts.tolist() == [1, 0, 0, 0, 0, 1]
        sums = sums_of(pairs, asked("unit_weights", weights=Weights(16, 16, 1)))
        assert sum(sums.values()) == 17 and 7 in sums


def test_no_rows() -> None:
    """No rows, and rows without a unit or a key, are no units; the columns are there."""
    for rows in (pa.table({"u": pa.array([], pa.int64()), "k": pa.array([], pa.string())}),
                 pa.table({"u": pa.array([None, 3]), "k": pa.array(["a", None])})):  # fmt: skip
        with opened(rows) as pairs:
            assert answer(pairs, asked("unit_sizes", ends=ENDS, of_found=False)).counts.tolist() == [0] * len(ENDS)
            batches = list(answer(pairs, asked("unit_weights", weights=Weights(1, 4, 2))).batches())
            assert batches[0][0].schema.names == ["k"] and all(not len(sums) for _, sums in batches)


def test_several_key_columns_with_nulls() -> None:
    """Keys of two columns are one key together, null is a value like others where nulls are kept, also when found."""
    rows = [(1, "a", 1), (1, "a", None), (1, "a", 1), (2, "a", None), (2, None, None)]
    table = pa.table({"u": [row[0] for row in rows], "k": [row[1] for row in rows], "j": [row[2] for row in rows]})
    with opened(table, key=["k", "j"], nulls="keep") as pairs:
        plain = Weights(4, 4, 1)
        sums = sums_of(pairs, asked("unit_weights", weights=plain))
        assert sums == {("a", 1): 1, ("a", None): 2, (None, None): 1}
        found = pa.table({"k": pa.array(["a", None]), "j": pa.array([None, None], pa.int64()), "value": [1, 1]})
        assert sums_of(pairs, asked("unit_weights", weights=plain, found=found)) == {("a", 1): 1}
        counted = sums_of(pairs, asked("found_counts", keys=4, found=found))
        assert counted == {("a", None): 2, (None, None): 1}


def test_found_keys_that_nobody_kept_are_counted_as_zero() -> None:
    """Every found key has a count, zero included: that a key is missing would show that nobody kept it."""
    table = pa.table({"u": ["a"] * 3, "k": ["x", "y", "z"]})
    with opened(table) as pairs:
        counted = sums_of(pairs, asked("found_counts", keys=1, found=found_table(["x", "y", "z"])))
    assert sorted(counted.values()) == [0, 0, 1]


def _left_behind() -> set[str]:
    return {path.name for path in Path(tempfile.gettempdir()).glob("dptally-spill-*")}


def test_nothing_is_left_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The files of pairs are gone after a release and after an error in a later stage; only the owner may read."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    table = pa.table({"u": [n // 3 for n in range(900)], "k": [f"k{n % 7}" for n in range(900)]})
    asked_for: dict[str, Any] = {"key": "k", "unit": "u", "epsilon": 2, "delta": "1e-3", "values": False}
    dptally.publish(table, max_keys_per_unit=3, mechanism="rounds", **asked_for)
    assert not _left_behind()
    with opened(table) as pairs:
        assert len(_left_behind()) >= 1
        assert pairs._directory.path.stat().st_mode & 0o077 == 0
        modes = [path.stat().st_mode & 0o077 for path in pairs._directory.path.iterdir()]
        assert len(modes) >= 2 and not any(modes)
    assert not _left_behind()
    calls: list[Any] = []

    def broken(self: UnitPairs, *arguments: Any) -> None:
        calls.append(_left_behind())
        raise RuntimeError("in the middle")

    monkeypatch.setattr(UnitPairs, "_sums", broken)
    with pytest.raises(RuntimeError, match="in the middle"):
        dptally.publish(table, max_keys_per_unit=3, mechanism="rounds", **asked_for)
    assert calls[0] and not _left_behind()


def test_reading_that_fails_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An error while rows are read and sorted removes the directory, too."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))

    def broken(self: Any, *arguments: Any) -> None:
        raise RuntimeError("while reading")

    monkeypatch.setattr(unit_pairs._Writer, "add", broken)
    table = pa.table({"u": [1, 2], "k": ["a", "b"]})
    with pytest.raises(RuntimeError, match="while reading"):
        dptally.publish(
            table, key="k", unit="u", epsilon=2, delta="1e-3", values=False, max_keys_per_unit=3, mechanism="rounds"
        )
    assert not _left_behind()


def test_nothing_private_in_a_repr() -> None:
    """Neither pairs nor what they are summarised to show keys or counts."""
    table = pa.table({"u": ["a"], "k": ["secret"]})
    with opened(table) as pairs:
        sizes = answer(pairs, asked("unit_sizes", ends=ENDS, of_found=False))
        sums = answer(pairs, asked("unit_weights", weights=Weights(1, 1, 1)))
        for shown in map(repr, (pairs, sizes, sums)):
            assert "secret" not in shown and "[" not in shown


def test_a_dataset_is_read_for_every_statement() -> None:
    """A source that comes as a stream and can be opened again is read twice, once for keys and once for units."""
    import pyarrow.dataset as ds

    table = pa.table({"u": ["a", "b", "a"], "k": ["x", "x", "y"]})
    rows = open_rows(ds.dataset(table), key="k", unit="u")
    with UnitPairs(rows, bits=SeededBits(1), memory_limit=None, progress=None) as pairs:
        assert sums_of(pairs, asked("unit_weights", weights=Weights(2, 2, 1))) == {"x": 2, "y": 1}


def test_a_full_disk_says_nothing_of_the_data(tmp_path: Path) -> None:
    """What cannot be written is told in a sentence without a number: how many pairs there are is private."""
    full = Path("/dev/full")
    if not full.exists():
        pytest.skip("needs a device that is always full")
    writer = unit_pairs._Writer(full.open("wb", buffering=0), (tmp_path / "keys").open("wb"))
    with pytest.raises(InvalidSource, match=r"^a temporary file cannot be written \(OSError\); set TMPDIR") as caught:
        writer.write(np.full(40_000, 1), np.zeros(40_000, dtype=np.int32))
    assert caught.value.__cause__ is None and caught.value.__context__ is None
