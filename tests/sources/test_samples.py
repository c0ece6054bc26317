"""Weighted samples of rows: who is in follows q exactly, and who is in carries the exact count."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from dptally.errors import InvalidParameter, InvalidSource
from dptally.laws.sampling_schemes import Ppswor, Priority, Scheme
from dptally.randomness import BitSource, SeededBits
from dptally.sources import open_rows
from dptally.summaries import sample_keys
from dptally.summaries.inclusion import RowHits
from tests.statistical.checks import FALSE_ALARM, chi_square_pvalue

ALL = Ppswor(60)  # a row is left out with chance e^-60: every key is in the sample


class ChosenBits:
    """Words written down in advance; fails when they run out."""

    private = False

    def __init__(self, words: Sequence[int]) -> None:
        self._words = list(words)

    def words(self, count: int) -> NDArray[np.uint64]:
        """The next words."""
        assert count <= len(self._words), "more bits were drawn than expected"
        taken, self._words = self._words[:count], self._words[count:]
        return np.array(taken, dtype=np.uint64)

    @property
    def left(self) -> int:
        """How many words were not drawn."""
        return len(self._words)


def sampled_of(source: Any, scheme: Ppswor = ALL, *, bits: BitSource | None = None, **request: Any) -> dict[Any, int]:
    """Open, sample and collect; single keys are bare values, several are tuples. Fails if a key comes twice."""
    rows = open_rows(source, **{"key": None, "unit": None, **request})
    found: dict[Any, int] = {}
    with sample_keys(rows, scheme, bits=bits or SeededBits(1)) as sample:
        for keys, counts in sample.batches():
            assert keys.schema.names == list(sample.key)
            columns = [column.to_pylist() for column in keys.columns]
            for key, count in zip(zip(*columns, strict=True), counts.tolist(), strict=True):
                key = key[0] if len(key) == 1 else key
                assert key not in found, "a key came twice"
                found[key] = count
    return found


@pytest.fixture
def spill(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A temporary directory of this test alone."""
    folder = tmp_path / "spill"
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


def write_parquet(path: Path, keys: list[str]) -> Path:
    """A Parquet file with one column."""
    pq.write_table(pa.table({"k": pa.array(keys, pa.string())}), path)
    return path


@pytest.fixture(scope="module")
def repeated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """3,000 keys of each frequency up to 20, shuffled."""
    keys = np.repeat(
        [f"{i}:{n}" for i in (1, 2, 3, 5, 10, 20) for n in range(3000)], np.repeat([1, 2, 3, 5, 10, 20], 3000)
    )
    return write_parquet(
        tmp_path_factory.mktemp("rows") / "r.parquet", np.random.default_rng(1).permutation(keys).tolist()
    )


def row_pvalues(source: Any, scheme: Ppswor, law: Scheme, *, repeats: int = 4) -> list[float]:
    """P-values, one a frequency, of how many keys of that frequency were sampled."""
    found: Counter[int] = Counter()
    for seed in range(repeats):
        found += Counter(sampled_of(source, scheme, bits=SeededBits(seed), key="k").values())
    pvalues = []
    for frequency in (1, 2, 3, 5, 10, 20):
        chance, draws = float(law.bounds(frequency, 60)[0]), 3000 * repeats
        observed = {True: found[frequency], False: draws - found[frequency]}
        pvalues.append(chi_square_pvalue(observed, {True: chance, False: 1 - chance}, draws))
    return pvalues


@pytest.mark.parametrize("rate", ["0.003", "0.1", "0.7"])
@pytest.mark.parametrize("reading", ["by row number", "from the stream"])
def test_keys_of_rows_are_taken_with_their_probabilities(
    repeated: Path, rate: str, reading: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """12,000 draws for each of 6 frequencies follow q_i in both ways of reading; false alarms at most 1e-6 in all."""
    if reading == "from the stream":
        monkeypatch.setattr("dptally.summaries.weighted_sample._MOST_NUMBERED_HITS", -1)
    scheme = Ppswor(rate)
    assert min(row_pvalues(repeated, scheme, scheme)) > FALSE_ALARM / 6


@pytest.mark.parametrize("wrong", ["0.085", "0.115"])
def test_wrong_rates_of_rows_are_rejected(repeated: Path, wrong: str) -> None:
    """The same test calls hits with a rate of 0.085 or 0.115 instead of 0.1 wrong."""
    assert min(row_pvalues(repeated, Ppswor(wrong), Ppswor("0.1"))) < FALSE_ALARM / 6


def test_ties_of_rows_are_settled_by_more_bits() -> None:
    """A row whose first 8 digits are those of q_1 is decided by 64 more, and by 64 more again."""
    scheme = Ppswor("0.5")
    digits = int(scheme.bounds(1, 400)[0] * (1 << 136))
    byte, word, last = digits >> 128, digits >> 64 & (1 << 64) - 1, digits & (1 << 64) - 1
    bytes_of_rows = int.from_bytes(bytes([byte - 1, byte + 1, byte, byte, byte, byte, 255, 0]), "little")
    bits = ChosenBits([bytes_of_rows, word - 1, word + 1, word, word, last - 1, last + 1])
    assert RowHits(scheme, bits).draw(8).tolist() == [0, 2, 4, 7]
    assert bits.left == 0


KEYS = st.lists(st.tuples(st.sampled_from(["a", "b", "", "é", None]), st.sampled_from([1, 2, None])), max_size=40)


@settings(max_examples=12, deadline=None)
@given(rows=KEYS, nulls=st.sampled_from(["drop", "keep"]), rate=st.sampled_from(["0.2", "60"]), seed=st.integers(0, 99))
def test_sampled_keys_carry_their_exact_counts(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[Any, Any]], nulls: str, rate: str, seed: int
) -> None:
    """Whatever is sampled has the count a loop over the rows finds, by row number and from the stream alike."""
    schema = pa.schema([("a", pa.string()), ("b", pa.int32())])
    table = pa.Table.from_pylist([{"a": a, "b": b} for a, b in rows], schema)
    path = tmp_path_factory.mktemp("twin") / "t.parquet"
    pq.write_table(table, path, row_group_size=7)
    for key in (["a", "b"], "a"):
        counted = Counter(row if key != "a" else row[0] for row in rows)
        if nulls == "drop":
            counted = Counter({k: n for k, n in counted.items() if None not in (k if key != "a" else (k,))})
        for source in (path, table, pl.DataFrame(table)):
            found = sampled_of(source, Ppswor(rate), bits=SeededBits(seed), key=key, nulls=nulls)
            assert found.items() <= counted.items()
            if rate == "60":
                assert found == dict(counted)


def sources(folder: Path, keys: list[str]) -> Iterator[tuple[str, Any]]:
    """The same keys in every kind of source that can be read twice."""
    table = pa.table({"k": keys})
    write_parquet(folder / "one.parquet", keys)
    write_parquet(folder / "part-1.parquet", keys[:3])
    write_parquet(folder / "part-2.parquet", keys[3:])
    (folder / "k.csv").write_text("k\n" + "".join(f"{key}\n" for key in keys))
    (folder / "k.jsonl").write_text("".join(f'{{"k": "{key}"}}\n' for key in keys))
    yield "parquet", folder / "one.parquet"
    yield "several files", str(folder / "part-*.parquet")
    yield "several files backwards", [folder / "part-2.parquet", folder / "part-1.parquet"]
    yield "csv", folder / "k.csv"
    yield "json lines", folder / "k.jsonl"
    yield "arrow", table
    yield "polars", pl.DataFrame(table)
    yield "pandas", table.to_pandas()
    yield "dataset", ds.dataset(folder / "one.parquet")
    yield "list", keys


def test_every_source_that_can_be_read_twice(tmp_path: Path) -> None:
    """With hits on every row all sources give all keys with their counts, files of unequal length included."""
    keys = [f"key {i}" for i in range(40) for _ in range(i % 5 + 1)]
    for name, source in sources(tmp_path, keys):
        assert sampled_of(source, key="k") == Counter(keys), name


def test_order_of_rows_is_irrelevant(tmp_path: Path) -> None:
    """Rows of one key far apart, in several row groups, count as those side by side."""
    keys = [f"{i % 50}" for i in range(5000)]
    pq.write_table(pa.table({"k": keys}), tmp_path / "a.parquet", row_group_size=100)
    pq.write_table(pa.table({"k": sorted(keys)}), tmp_path / "b.parquet", row_group_size=100)
    apart, beside = (sampled_of(tmp_path / f"{name}.parquet", Ppswor("0.02"), key="k") for name in "ab")
    assert 20 < len(apart) < 50 and set(apart.values()) == {100}
    assert 20 < len(beside) < 50 and set(beside.values()) == {100}


def test_columns_named_like_row_numbers(tmp_path: Path) -> None:
    """A file with a column called file_row_number is sampled by its rows, not by that column."""
    table = pa.table({"k": ["a", "b", "a"], "File_Row_Number": [7, 7, 7], "file_index": [3, 3, 3]})
    pq.write_table(table, tmp_path / "f.parquet")
    assert sampled_of(tmp_path / "f.parquet", key="k") == {"a": 2, "b": 1}
    assert sampled_of(tmp_path / "f.parquet", key="File_Row_Number") == {7: 3}


def test_canonical_keys(tmp_path: Path) -> None:
    """The two zeros are one key and all NaN are one."""
    floats = pa.table({"k": pa.array([0.0, -0.0, float("nan"), -float("nan"), 1.5, None])})
    for source in (floats, tmp_path / "floats.parquet"):
        pq.write_table(floats, tmp_path / "floats.parquet")
        found = sampled_of(source, key="k", nulls="keep")
        assert {str(key): count for key, count in found.items()} == {"0.0": 2, "nan": 2, "1.5": 1, "None": 1}


def test_text_that_is_not_utf8(tmp_path: Path) -> None:
    """Bytes that are not UTF-8 are refused where the column holds text, and are a key where it holds binary."""
    keys = pa.array([b"a", b"\xff\xfe", b"a"])
    pq.write_table(pa.table({"k": keys}), tmp_path / "binary.parquet")
    assert sampled_of(tmp_path / "binary.parquet", key="k") == {b"a": 2, b"\xff\xfe": 1}
    text = pa.Array.from_buffers(pa.string(), 3, keys.buffers())
    pq.write_table(pa.table({"k": text}), tmp_path / "text.parquet")
    with pytest.raises(InvalidSource, match=r"holds text that is not valid UTF-8\.$"):
        sampled_of(tmp_path / "text.parquet", key="k")


def test_a_column_inside_another_is_not_taken_for_it(tmp_path: Path) -> None:
    """A column called a.b and the field b of a column a have one path; the column of that name is read."""
    inner = pa.array([{"b": "wrong"}] * 3, pa.struct([pa.field("b", pa.string(), nullable=False)]))
    table = pa.Table.from_arrays([inner, pa.array(["x", "x", "y"])], names=["a", "a.b"])
    pq.write_table(table, tmp_path / "k.parquet")
    assert sampled_of(tmp_path / "k.parquet", key="a.b") == {"x": 2, "y": 1}


TYPED = {
    "int8": pa.array([1, 1, 0], pa.int8()),
    "uint64": pa.array([2**64 - 1, 2**64 - 1, 0], pa.uint64()),
    "bool": pa.array([True, True, False]),
    "date": pa.array([1, 1, 0], pa.date32()),
    "binary": pa.array([b"\x00\xff", b"\x00\xff", b""]),
    "nanoseconds": pa.array([1, 1, 0], pa.timestamp("ns")),
    "seconds": pa.array([1, 1, 0], pa.timestamp("s")),
    "zone": pa.array([1, 1, 0], pa.timestamp("us", "UTC")),
    "time": pa.array([1, 1, 0], pa.time64("us")),
    "decimal": pa.array([1, 1, 0]).cast(pa.decimal128(21, 2)).cast(pa.decimal128(9, 2)),
    "dictionary": pa.array(["x", "x", "y"]).dictionary_encode(),
}


@pytest.mark.parametrize("kind", TYPED)
def test_keys_of_every_type(tmp_path: Path, kind: str) -> None:
    """Keys of the first pass are found again in the second, whatever their type."""
    table = pa.table({"k": TYPED[kind]})
    pq.write_table(table, tmp_path / "typed.parquet")
    for source in (table, tmp_path / "typed.parquet"):
        for nulls in ("drop", "keep"):
            assert sorted(sampled_of(source, key="k", nulls=nulls).values()) == [1, 2]


def test_empty_sources_and_empty_samples(tmp_path: Path) -> None:
    """No rows, or no hits, give no keys and no error."""
    empty = write_parquet(tmp_path / "empty.parquet", [])
    assert sampled_of(empty, key="k") == {}
    assert sampled_of(pa.table({"k": pa.array([], pa.string())}), key="k") == {}
    some = write_parquet(tmp_path / "some.parquet", ["a", "b"])
    assert sampled_of(some, Ppswor("1e-18"), key="k") == {}


def test_memory_is_that_of_the_sample(tmp_path: Path) -> None:
    """A million different keys, also from a stream of unknown size, are sampled within 60 MB and without spilling."""
    numbers = np.random.default_rng(2).permutation(1_000_000)
    table = pa.table({"k": pa.compute.binary_join_element_wise(pa.array(numbers).cast(pa.string()), "x" * 60, "-")})
    pq.write_table(table, tmp_path / "large.parquet")
    for source in (tmp_path / "large.parquet", ds.dataset(tmp_path / "large.parquet")):
        rows = open_rows(source, key="k", unit=None)
        with sample_keys(rows, Ppswor("0.001"), bits=SeededBits(1), memory_limit="60MB") as sample:
            spilled = 0
            total = 0
            for _, counts in sample.batches():
                total += len(counts)
                spilled += sum(len(list(s._directory.path.iterdir())) - 1 for s in sample._sessions)
            assert 800 < total < 1200
            assert spilled == 0


def test_nothing_is_left_behind(tmp_path: Path, spill: Path) -> None:
    """The temporary directory is empty after a sample, after one closed early, and after one that failed."""
    path = write_parquet(tmp_path / "k.parquet", [f"{i % 100}" for i in range(1000)])
    assert len(sampled_of(path, key="k")) == 100
    sample = sample_keys(open_rows(path, key="k", unit=None), ALL, bits=SeededBits(1))
    next(sample.batches())
    sample.close()
    sample.close()
    path.write_bytes(path.read_bytes()[:200])
    with pytest.raises(InvalidSource):
        sampled_of(path, key="k")
    assert list(spill.iterdir()) == []


@pytest.mark.parametrize(
    ("later", "message"),
    [("k\nb\n", "the source changed between its two passes"), ("k\na\na\n", "a file was changed while it was read")],
)
def test_a_file_that_changes_is_noticed(later: str, message: str, tmp_path: Path) -> None:
    """A key that was sampled and is gone in the second pass is an error, not a count of 0; so is any other change."""
    path = tmp_path / "k.csv"
    path.write_text("k\na\n")

    def change(stage: str, _: float | None) -> None:
        if stage == "counting sampled keys":
            path.write_text(later)

    rows = open_rows(path, key="k", unit=None)
    with (
        pytest.raises(InvalidSource, match=message),
        sample_keys(rows, ALL, bits=SeededBits(1), progress=change) as sample,
    ):
        list(sample.batches())


def test_read_once_and_silent(tmp_path: Path) -> None:
    """A sample can be read once, knows what a mechanism needs, and shows nothing of the data."""
    path = write_parquet(tmp_path / "k.parquet", ["secret"])
    stages: list[str] = []
    rows = open_rows(path, key="k", unit=None)
    with sample_keys(rows, ALL, bits=SeededBits(1), progress=lambda stage, _: stages.append(stage)) as sample:
        assert (sample.key, sample.unit, sample.max_keys_per_unit, sample.scheme) == (("k",), None, 1, ALL)
        assert repr(sample) == "SampledFrequencies(key=('k',), scheme=Ppswor('60', power='1'))"
        assert [counts.tolist() for _, counts in sample.batches()] == [[1]]
        with pytest.raises(
            InvalidParameter, match=r"^these frequencies have been read or closed; count the keys again\.$"
        ):
            next(sample.batches())
    assert set(stages) == {"sampling rows", "counting sampled keys"}


def test_bad_requests(tmp_path: Path) -> None:
    """Schemes and rows that cannot be sampled row by row are refused, each with one sentence."""
    table = pa.table({"k": ["a"], "u": [1]})
    rows = open_rows(table, key="k", unit=None)

    def refused(message: str, rows: Any = rows, scheme: Any = ALL, **options: Any) -> None:
        with pytest.raises(InvalidParameter, match=message):
            sample_keys(rows, scheme, bits=SeededBits(1), **options)

    refused("needs a Ppswor scheme; with any other, count the keys first", scheme=Priority("0.1"))
    refused("needs Ppswor with power 1, got power 1/2; count the keys first", scheme=Ppswor("0.1", "1/2"))
    refused("takes every row for its own unit", rows=open_rows(table, key="k", unit="u"))
    refused("this source holds counts", rows=open_rows(table, key="k", unit=None, count="u"))
    refused("this source holds counts", rows=open_rows({"a": 3}, key=None, unit=None))
    for fleeting in (table.to_reader(), pl.LazyFrame(table), duckdb.connect().from_arrow(table)):
        refused("can be read only once or may change", rows=open_rows(fleeting, key="k", unit=None))
    refused("memory_limit must be an amount", memory_limit="much")
