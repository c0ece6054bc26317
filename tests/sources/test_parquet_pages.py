"""Samples read off Parquet pages: the same keys and counts as by DuckDB and by a loop, whatever the writer did."""

from __future__ import annotations

import contextlib
import io
import threading
from collections import Counter
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dptally import _core
from dptally.errors import InvalidSource
from dptally.observation_models.sampling_schemes import Ppswor
from dptally.randomness import SeededBits
from dptally.sources import open_rows, parquet_pages
from dptally.sources.parquet_pages import ColumnChunk, PageFile, UnreadablePages, find_chunks
from dptally.summaries import page_sample, sample_keys, weighted_sample
from dptally.summaries.page_sample import PageSample

ALL = Ppswor(60)  # a row is left out with chance e^-60: every key is in the sample
SEED = np.array([1, 2, 3, 4], dtype=np.uint64)
DUCKDB_TYPES = {pa.string(): "VARCHAR", pa.binary(): "BLOB", pa.int64(): "BIGINT", pa.int32(): "INTEGER"}


@pytest.fixture
def passes(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Which passes went over pages to their end."""
    finished: list[str] = []
    for name in ("choose", "count"):
        whole = getattr(PageSample, name)

        def watched(self: PageSample, *arguments: Any, whole: Any = whole, name: str = name) -> Any:
            result = whole(self, *arguments)
            finished.append(name)
            return result

        monkeypatch.setattr(PageSample, name, watched)
    return finished


def sampled_of(source: Any, scheme: Ppswor = ALL, *, seed: int = 1, **options: Any) -> dict[Any, int]:
    """Sampled keys of the column k with their counts."""
    rows = open_rows(source, key="k", unit=None)
    found: dict[Any, int] = {}
    with sample_keys(rows, scheme, bits=SeededBits(seed), **options) as sample:
        for keys, counts in sample.batches():
            for key, count in zip(keys.column(0).to_pylist(), counts.tolist(), strict=True):
                assert key not in found, "a key came twice"
                found[key] = count
    return found


def by_duckdb(monkeypatch: pytest.MonkeyPatch, source: Any, scheme: Ppswor, *, seed: int) -> dict[Any, int]:
    """The same sample with no column called plain."""
    with monkeypatch.context() as patch:
        patch.setattr(weighted_sample, "find_chunks", lambda *_: None)
        return sampled_of(source, scheme, seed=seed)


def chunks_of(path: Path, kind: pa.DataType) -> list[ColumnChunk]:
    """The chunks of the column k, which must be plain."""
    found = find_chunks(str(path), pq.read_metadata(path), "k", DUCKDB_TYPES[kind])
    assert found is not None
    return found


def nothing(_: float) -> None:
    """Wait in silence."""


TEXTS = [None, "", "a", "b" * 16, "c" * 17, "d" * 40, "é", "e" * 3000, *(f"key number {i}" for i in range(200))]
VALUES: dict[pa.DataType, list[Any]] = {
    pa.string(): TEXTS,
    pa.binary(): [None if text is None else text.encode() + b"\xff" for text in TEXTS],
    pa.int64(): [None, 0, -1, 2**63 - 1, -(2**63), *range(200)],
    pa.int32(): [None, 0, -1, 2**31 - 1, -(2**31), *range(200)],
}


def column(kind: pa.DataType, *, nullable: bool = True, rows: int = 3000, seed: int = 1) -> pa.Table:
    """Keys drawn from the values of a type, in runs and one by one; without nulls if they are not allowed."""
    rng = np.random.default_rng(seed)
    values = VALUES[kind][0 if nullable else 1 :]
    places = np.concatenate([rng.integers(0, len(values), rows), np.repeat(rng.integers(0, 5, rows // 50), 25)])
    array = pa.array([values[place] for place in places], kind)
    return pa.Table.from_arrays([array], schema=pa.schema([pa.field("k", kind, nullable=nullable)]))


WRITERS: dict[str, dict[str, Any]] = {
    "plain": {"use_dictionary": False},
    "dictionary": {},
    "dictionary given up": {"dictionary_pagesize_limit": 2000, "data_page_size": 1000, "write_batch_size": 64},
    "version 2": {"data_page_version": "2.0", "data_page_size": 2000, "write_batch_size": 100},
    "version 2, plain": {"data_page_version": "2.0", "use_dictionary": False, "data_page_size": 2000},
    "old names": {"version": "1.0", "row_group_size": 700},
    "no codec": {"compression": "none", "row_group_size": 1000},
    "zstd": {"compression": "zstd"},
    "gzip": {"compression": "gzip", "data_page_version": "2.0"},
    "zstd, plain": {"compression": "zstd", "use_dictionary": False, "row_group_size": 501},
    "gzip, plain": {"compression": "gzip", "use_dictionary": False},
    "no codec, version 2": {"compression": "none", "data_page_version": "2.0", "use_dictionary": False},
    "long window": {"compression": "none", "use_dictionary": False, "data_page_size": 1 << 24},
}


CASES = [
    *((writer, pa.string(), True) for writer in WRITERS),
    *((writer, pa.string(), False) for writer in ("plain", "dictionary", "version 2", "gzip")),
    *((writer, kind, True) for writer in ("plain", "dictionary given up", "version 2") for kind in VALUES),
]


@pytest.mark.parametrize(("writer", "kind", "nullable"), list(dict.fromkeys(CASES)))
def test_pages_give_what_duckdb_gives(
    tmp_path: Path, writer: str, kind: pa.DataType, nullable: bool, passes: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """For the same bits, pages and DuckDB sample the same keys with the same counts, those a loop finds."""
    monkeypatch.setattr(parquet_pages, "_WINDOW", 5000)
    monkeypatch.setattr(parquet_pages, "_HEADER", 5)
    table = column(kind, nullable=nullable)
    pq.write_table(table, tmp_path / "k.parquet", **WRITERS[writer])
    found = sampled_of(tmp_path / "k.parquet", Ppswor("0.02"), seed=3)
    assert found == by_duckdb(monkeypatch, tmp_path / "k.parquet", Ppswor("0.02"), seed=3)
    counted = Counter(table["k"].drop_null().to_pylist())
    assert found.items() <= counted.items() and 0 < len(found) < len(counted)
    assert sampled_of(tmp_path / "k.parquet", ALL, seed=3) == counted
    assert passes == ["choose", "count"] * 2


def test_a_dictionary_is_given_up_in_the_middle(tmp_path: Path) -> None:
    """The writer above does what it is there for: indexes first, plain values after them, in one chunk."""
    pq.write_table(column(pa.string()), tmp_path / "k.parquet", **WRITERS["dictionary given up"])
    with PageFile() as file:
        (chunk,) = chunks_of(tmp_path / "k.parquet", pa.string())
        kinds = [(page.is_dictionary, page.is_indexed) for page in file.pages(chunk)]
    assert kinds[0] == (True, False)
    assert (False, True) in kinds and kinds[-1] == (False, False)


@pytest.mark.parametrize("program", ["duckdb", "polars"])
def test_files_of_other_writers(tmp_path: Path, program: str, passes: list[str]) -> None:
    """Files that DuckDB and Polars have written are read off their pages as well."""
    table = column(pa.string())
    path = tmp_path / "k.parquet"
    if program == "polars":
        pl.DataFrame(table).write_parquet(path, row_group_size=1500)
    else:
        duckdb.connect().from_arrow(table).write_parquet(str(path))
    assert sampled_of(path) == Counter(table["k"].drop_null().to_pylist())
    assert passes == ["choose", "count"]


def test_several_files(tmp_path: Path, passes: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Files of unequal length, written differently and one of them empty, count as one, for the bits as for DuckDB."""
    tables = [column(pa.string(), rows=rows, seed=rows) for rows in (1000, 0, 2500)]
    for number, (table, writer) in enumerate(zip(tables, ("plain", "zstd", "version 2"), strict=True)):
        pq.write_table(table, tmp_path / f"part-{number}.parquet", row_group_size=300, **WRITERS[writer])
    source = str(tmp_path / "part-*.parquet")
    counted = Counter(pa.concat_tables(tables)["k"].drop_null().to_pylist())
    assert sampled_of(source) == counted
    for seed in range(3):
        found = sampled_of(source, Ppswor("0.01"), seed=seed)
        assert 0 < len(found) < len(counted)
        assert found == by_duckdb(monkeypatch, source, Ppswor("0.01"), seed=seed)
    assert passes == ["choose", "count"] * 4


@settings(max_examples=80, deadline=None)
@given(
    kind=st.sampled_from(list(VALUES)),
    data=st.data(),
    options=st.fixed_dictionaries({
        "use_dictionary": st.booleans(),
        "data_page_version": st.sampled_from(["1.0", "2.0"]),
        "compression": st.sampled_from(["none", "snappy", "zstd", "gzip"]),
        "data_page_size": st.sampled_from([1, 100, 10_000]),
        "dictionary_pagesize_limit": st.sampled_from([1, 50, 10_000]),
        "write_batch_size": st.sampled_from([1, 7, 100]),
        "row_group_size": st.sampled_from([1, 9, 1000]),
    }),
)  # fmt: skip
def test_pages_against_a_loop(
    tmp_path_factory: pytest.TempPathFactory, kind: pa.DataType, data: st.DataObject, options: dict[str, Any]
) -> None:
    """Any chosen rows give the distinct keys of those rows, in their order, and the numbers of their rows."""
    keys = data.draw(st.lists(st.sampled_from(VALUES[kind]), max_size=60))
    chosen = sorted(data.draw(st.sets(st.integers(0, len(keys) - 1)))) if keys else []
    path = tmp_path_factory.mktemp("loop") / "k.parquet"
    pq.write_table(pa.table({"k": pa.array(keys, kind)}), path, **options)
    sample = PageSample([chunks_of(path, kind)], DUCKDB_TYPES[kind], seed=SEED)
    sample.choose([np.array(chosen, dtype=np.int64)], nothing)
    expected = list(dict.fromkeys(keys[row] for row in chosen if keys[row] is not None))
    found = [key.decode() if kind == pa.string() else key for key in sample.keys().to_pylist()]
    assert found == expected
    assert sample.count(nothing).tolist() == [keys.count(key) for key in expected]


def test_only_pages_with_chosen_rows_are_unpacked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first pass unpacks the pages of the chosen rows and skips all others; chunks without any are not opened."""
    table = pa.table({"k": [f"{i}" for i in range(1000)]})
    options: dict[str, Any] = {"data_page_size": 1, "write_batch_size": 10, "row_group_size": 500}
    pq.write_table(table, tmp_path / "k.parquet", use_dictionary=False, **options)
    sample = PageSample([chunks_of(tmp_path / "k.parquet", pa.string())], "VARCHAR", seed=SEED)
    whole, unpacked = PageFile.content, []

    def watched(self: PageFile, page: Any, chunk: ColumnChunk) -> Any:
        unpacked.append((chunk.first_row, page.rows))
        return whole(self, page, chunk)

    monkeypatch.setattr(PageFile, "content", watched)
    sample.choose([np.array([501, 502, 777])], nothing)
    assert unpacked == [(500, 10), (500, 10)]
    assert sample.keys().to_pylist() == [b"501", b"502", b"777"]


@pytest.mark.parametrize("threads", [1, 3])
def test_threads_change_nothing(tmp_path: Path, threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many threads there are, keys come in the order of their rows, with all their counts."""
    monkeypatch.setattr(page_sample, "_processors", lambda: threads)
    table = column(pa.string(), nullable=False, rows=5000)
    pq.write_table(table, tmp_path / "k.parquet", row_group_size=100)
    sample = PageSample([chunks_of(tmp_path / "k.parquet", pa.string())], "VARCHAR", seed=SEED)
    sample.choose([np.arange(0, 5000, 7)], nothing)
    keys = [key.decode() for key in sample.keys().to_pylist()]
    assert keys == list(dict.fromkeys(table["k"].to_pylist()[:5000:7]))
    counted = Counter(table["k"].to_pylist())
    assert sample.count(nothing).tolist() == [counted[key] for key in keys]


def test_work_can_be_interrupted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An interrupt while pages are read ends all threads at their next page and comes out as it is."""
    options: dict[str, Any] = {"use_dictionary": False, "data_page_size": 1, "write_batch_size": 1}
    pq.write_table(column(pa.string()), tmp_path / "k.parquet", **options)
    sample = PageSample([chunks_of(tmp_path / "k.parquet", pa.string())], "VARCHAR", seed=SEED)
    slowly, read = threading.Event(), []

    def slow(self: PageFile, *_: Any) -> Any:
        read.append(1)
        slowly.wait(0.05)
        return np.zeros(0, dtype=np.uint8), np.array([2, 0], dtype=np.uint8)  # one row, without a value

    def interrupted(part: float) -> None:
        assert 0 <= part <= 1
        raise KeyboardInterrupt

    monkeypatch.setattr(PageFile, "content", slow)
    with pytest.raises(KeyboardInterrupt):
        sample.count(interrupted)
    assert len(read) < 100
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("dptally-pages")]


# What is left to DuckDB.


OTHERS: dict[str, tuple[pa.Array, dict[str, Any]]] = {
    "delta": (pa.array(["a", "b", "a"]), {"use_dictionary": False, "column_encoding": "DELTA_BYTE_ARRAY"}),
    "delta lengths": (
        pa.array(["a", "b", "a"]), {"use_dictionary": False, "column_encoding": "DELTA_LENGTH_BYTE_ARRAY"}
    ),
    "lz4": (pa.array(["a", "b", "a"]), {"compression": "lz4"}),
    "brotli": (pa.array(["a", "b", "a"]), {"compression": "brotli"}),
    "unsigned": (pa.array([1, 2, 1], pa.uint32()), {}),
    "small": (pa.array([1, 2, 1], pa.int8()), {}),
    "dates": (pa.array([1, 2, 1], pa.date32()), {}),
    "times": (pa.array([1, 2, 1], pa.timestamp("us")), {}),
    "floats": (pa.array([1.0, 2.0, 1.0]), {}),
    "fixed": (pa.array([b"a", b"b", b"a"], pa.binary(1)), {}),
}  # fmt: skip


@pytest.mark.parametrize("what", OTHERS)
def test_other_layouts_are_left_to_duckdb(tmp_path: Path, what: str, passes: list[str]) -> None:
    """A column that is not of the plain kind is sampled all the same, by DuckDB, before any page is read."""
    array, options = OTHERS[what]
    pq.write_table(pa.table({"k": array}), tmp_path / "k.parquet", **options)
    assert sorted(sampled_of(tmp_path / "k.parquet").values()) == [1, 2]
    assert passes == []


def test_nulls_that_are_keys_are_left_to_duckdb(tmp_path: Path, passes: list[str]) -> None:
    """With nulls kept, and with two key columns, pages are not used."""
    pq.write_table(pa.table({"k": ["a", None, "a"], "j": [1, 1, 1]}), tmp_path / "k.parquet")
    rows = open_rows(tmp_path / "k.parquet", key="k", unit=None, nulls="keep")
    with sample_keys(rows, ALL, bits=SeededBits(1)) as sample:
        assert sorted(count for _, counts in sample.batches() for count in counts.tolist()) == [1, 2]
    rows = open_rows(tmp_path / "k.parquet", key=["k", "j"], unit=None)
    with sample_keys(rows, ALL, bits=SeededBits(1)) as sample:
        assert [counts.tolist() for _, counts in sample.batches()] == [[2]]
    assert passes == []


def test_a_column_inside_another_is_not_taken_for_it(tmp_path: Path) -> None:
    """A column called a.b and the field b of a column a have one path; the column of that name is read."""
    inner = pa.array([{"b": "wrong"}] * 3, pa.struct([pa.field("b", pa.string(), nullable=False)]))
    table = pa.Table.from_arrays([inner, pa.array(["x", "x", "y"])], names=["a", "a.b"])
    pq.write_table(table, tmp_path / "k.parquet")
    rows = open_rows(tmp_path / "k.parquet", key="a.b", unit=None)
    with sample_keys(rows, ALL, bits=SeededBits(1)) as sample:
        found = [(keys.column(0).to_pylist(), counts.tolist()) for keys, counts in sample.batches()]
    assert found == [(["x", "y"], [2, 1])]
    assert find_chunks("k", pq.read_metadata(tmp_path / "k.parquet"), "b", "VARCHAR") is None


@pytest.mark.parametrize("good", [0, 3, 5, 8])
def test_duckdb_takes_over_at_any_page(
    tmp_path: Path, good: int, passes: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where a page turns out unreadable, in the first pass or in the second, the sample is the same as ever."""
    pq.write_table(column(pa.string()), tmp_path / "k.parquet", row_group_size=900, use_dictionary=False)  # five pages
    expected = sampled_of(tmp_path / "k.parquet", Ppswor("0.05"))
    monkeypatch.setattr(page_sample, "_processors", lambda: 1)
    whole, left = PageFile.content, [good]

    def failing(self: PageFile, *arguments: Any) -> Any:
        left[0] -= 1
        if left[0] < 0:
            raise UnreadablePages
        return whole(self, *arguments)

    monkeypatch.setattr(PageFile, "content", failing)
    passes.clear()
    assert sampled_of(tmp_path / "k.parquet", Ppswor("0.05")) == expected
    assert passes == (["choose"] if good >= 5 else [])


# Damage.


def first_pages(options: dict[str, Any], table: pa.Table) -> tuple[bytes, ColumnChunk]:
    """A file and its one chunk."""
    stream = io.BytesIO()
    pq.write_table(table, stream, **options)
    found = find_chunks("", pq.read_metadata(stream), "k", DUCKDB_TYPES[table.schema.types[0]])
    assert found is not None
    return stream.getvalue(), found[0]


def read_all(path: Path, chunk: ColumnChunk, kind: pa.DataType) -> None:
    """Both passes over one chunk, every tenth row chosen."""
    sample = PageSample([[chunk._replace(path=str(path))]], DUCKDB_TYPES[kind], seed=SEED)
    sample.choose([np.arange(0, chunk.rows, 10)], nothing)
    sample.count(nothing)


FILES = [
    (*first_pages(WRITERS[writer], column(kind, rows=400)), kind)
    for kind in (pa.string(), pa.int64())
    for writer in ("plain", "dictionary", "version 2", "zstd", "gzip", "no codec", "no codec, version 2")
]


@settings(max_examples=300, deadline=None)
@given(which=st.sampled_from(FILES), data=st.data())
def test_damaged_chunks_are_unreadable_or_read(
    tmp_path_factory: pytest.TempPathFactory, which: tuple[bytes, ColumnChunk, pa.DataType], data: st.DataObject
) -> None:
    """Chunks with flipped bits or an end cut off, headers included, are read or called unreadable, and nothing else."""
    content, chunk, kind = which
    changed = bytearray(content)
    for _ in range(data.draw(st.integers(1, 4))):
        near = data.draw(st.integers(0, chunk.size - 1)) if data.draw(st.booleans()) else data.draw(st.integers(0, 40))
        changed[chunk.start + near] ^= 1 << data.draw(st.integers(0, 7))
    length = data.draw(st.one_of(st.just(len(changed)), st.integers(0, len(changed))))
    path = tmp_path_factory.getbasetemp() / "damaged.parquet"
    path.write_bytes(changed[:length])
    with contextlib.suppress(UnreadablePages):
        read_all(path, chunk, kind)
    if length < chunk.start + chunk.size:
        with pytest.raises(UnreadablePages):
            read_all(path, chunk, kind)


LAYOUTS: list[tuple[Any, Any, Any]] = [
    (_core.TextSample, _core.TextPicker, _core.TextCounter),
    (_core.IntegerSample, _core.Int64Picker, _core.Int64Counter),
    (_core.IntegerSample, _core.Int32Picker, _core.Int32Counter),
]
RUNS = st.lists(
    st.one_of(
        st.binary(max_size=12),
        st.tuples(st.integers(0, 40), st.binary(min_size=1, max_size=2)).map(lambda run: bytes([run[0] << 1]) + run[1]),
        st.tuples(st.integers(0, 5), st.binary(max_size=20)).map(lambda run: bytes([run[0] << 1 | 1]) + run[1]),
    ),
    max_size=4,
).map(b"".join)
TEXT_PAGES = st.lists(st.binary(max_size=40), max_size=20).map(
    lambda values: b"".join(len(value).to_bytes(4, "little") + value for value in values)
)


def array_of(content: bytes) -> Any:
    """Bytes in an allocation of just their length."""
    return np.frombuffer(content, dtype=np.uint8).copy()


@settings(max_examples=300, deadline=None)
@given(
    layout=st.sampled_from(LAYOUTS),
    page=st.one_of(TEXT_PAGES, RUNS, st.binary(max_size=64)),
    dictionary=st.one_of(TEXT_PAGES, st.binary(max_size=64)),
    width=st.integers(0, 255),
    levels=st.one_of(st.none(), RUNS),
    rows=st.one_of(st.integers(0, 40), st.integers(0, 2**40)),
    entries=st.one_of(st.integers(0, 20), st.integers(0, 2**40)),
    data=st.data(),
)
def test_made_up_pages_never_lead_astray(
    layout: tuple[Any, Any, Any], page: bytes, dictionary: bytes, width: int, levels: bytes | None, rows: int,
    entries: int, data: st.DataObject,
) -> None:  # fmt: skip
    """Any bytes as any part of a page, with any number of rows, are read or refused by a ValueError."""
    make_sample, make_picker, make_counter = layout
    chosen = np.array(sorted(data.draw(st.sets(st.integers(0, min(rows, 50)), max_size=9))), dtype=np.int64)
    picker, sample = make_picker(), make_sample(SEED)
    seen = None if levels is None else array_of(levels)
    indexes = array_of(bytes([width % 40]) + page)
    for attempt in (
        lambda: picker.dictionary(array_of(dictionary), entries),
        lambda: picker.plain(array_of(page), seen, rows, chosen),
        lambda: picker.indexed(indexes, seen, rows, chosen),
    ):
        with contextlib.suppress(ValueError):
            attempt()
    sample.add(picker)
    counter = make_counter(sample)
    for attempt in (
        lambda: counter.dictionary(array_of(dictionary), entries),
        lambda: counter.plain(array_of(page), seen, rows),
        lambda: counter.indexed(indexes, seen, rows),
    ):
        with contextlib.suppress(ValueError):
            attempt()
    assert len(counter.counts()) == 8 * len(sample)


@pytest.mark.parametrize("codec", ["SNAPPY", "ZSTD", "GZIP", "UNCOMPRESSED"])
@pytest.mark.parametrize("wrong", [-1, 1, 1000])
def test_results_of_the_wrong_length_are_refused(codec: str, wrong: int) -> None:
    """A page that unpacks to more or less than its header says is unreadable: no memory of others shows through."""
    content = b"key number 1, key number 2, key number 3, "
    stored = content if codec == "UNCOMPRESSED" else pa.compress(content, codec.lower(), asbytes=True)
    chunk = ColumnChunk("", 0, 0, 0, 3, False, codec, 1 << 20)
    page = parquet_pages.Page(3, False, False, memoryview(stored), len(content), None, True)
    with PageFile() as file:
        assert file.content(page, chunk)[0].tobytes() == content
        with pytest.raises(UnreadablePages):
            file.content(page._replace(length=len(content) + wrong), chunk)
        with pytest.raises(UnreadablePages):
            file.content(page._replace(stored=memoryview(stored[:-1])), chunk)


@settings(max_examples=300, deadline=None)
@given(
    pieces=st.lists(
        st.one_of(st.binary(max_size=90), st.sampled_from([b"key number 000", b"a", b"\0" * 70])), max_size=40
    ),
    repeats=st.integers(1, 30),
    flips=st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 7)), max_size=3),
    cut=st.one_of(st.none(), st.integers(0, 10**6)),
)
def test_snappy_against_arrow(pieces: list[bytes], repeats: int, flips: list[tuple[int, int]], cut: int | None) -> None:
    """What Arrow packed is unpacked; damaged, it is refused where Arrow refuses it, else the result is the same."""
    content = b"".join(pieces) * repeats
    stored = bytearray(pa.compress(content, "snappy", asbytes=True))
    for place, bit in flips:
        stored[place % len(stored)] ^= 1 << bit
    if cut is not None:
        del stored[cut % len(stored) :]
    output = np.empty(len(content), dtype=np.uint8)
    whole = _core.decode_snappy(array_of(bytes(stored)), output)
    if not flips and cut is None:
        assert whole
    expected = None
    with contextlib.suppress(pa.ArrowException, OSError):
        expected = pa.decompress(bytes(stored), len(content), "snappy", asbytes=True)
    if whole:
        assert output.tobytes() == expected


@pytest.mark.parametrize(
    ("elements", "content"),
    [
        (b"\xf0\x63" + bytes(range(100)), bytes(range(100))),
        (b"\xf4\x63\0" + bytes(range(100)), bytes(range(100))),
        (b"\xf8\x63\0\0" + bytes(range(100)), bytes(range(100))),
        (b"\xfc\x63\0\0\0" + bytes(range(100)), bytes(range(100))),
        (b"\x04ab\x11\x02", b"ab" * 5),
        (b"\x04ab\x1e\x02\0", b"ab" * 5),
        (b"\x04ab\x1f\x02\0\0\0", b"ab" * 5),
        (b"\x04ab\x11\x03", None),
        (b"\x04ab\x11\x00", None),
        (b"\x04ab\x11", None),
        (b"\x08ab", None),
        (b"\xfc\xff\xff\xff\xff", None),
    ],
)
def test_elements_of_snappy(elements: bytes, content: bytes | None) -> None:
    """Lengths of every width, copies of every width and of themselves are decoded; wrong ones are refused.

    Each comes twice: near the end, and before other elements, where short ones are moved without branches.
    """
    for tail in (b"", b"z" * 300):
        length = len(content if content is not None else b"ab" * 5)
        literals = b"".join(b"\xec" + tail[start : start + 60] for start in range(0, len(tail), 60))
        size = length + len(tail)
        output = np.zeros(size, dtype=np.uint8)
        assert _core.decode_snappy(array_of(number(size) + elements + literals), output) is (content is not None)
        if content is not None:
            assert output.tobytes() == content + tail
            assert not _core.decode_snappy(array_of(number(size) + elements + literals), output[:-1])


def test_a_damaged_file_gets_one_sentence(tmp_path: Path) -> None:
    """A page that neither reader can unpack is refused with the sentence for damaged files."""
    content, chunk = first_pages({"compression": "zstd", "use_dictionary": False}, column(pa.string(), rows=400))
    damaged = bytearray(content)
    damaged[chunk.start + 60 : chunk.start + chunk.size] = bytes(chunk.size - 60)
    (tmp_path / "k.parquet").write_bytes(damaged)
    with pytest.raises(InvalidSource, match=r"^'.*k\.parquet' could not be read to its end; it may be damaged or "):
        sampled_of(tmp_path / "k.parquet")


def test_text_that_is_not_utf8(tmp_path: Path) -> None:
    """A sampled key that is not UTF-8 is refused where the column holds text, and is a key where it holds binary."""
    keys = pa.array([b"a", b"\xff\xfe", b"a"])
    pq.write_table(pa.table({"k": keys}), tmp_path / "binary.parquet")
    assert sampled_of(tmp_path / "binary.parquet") == {b"a": 2, b"\xff\xfe": 1}
    text = pa.Array.from_buffers(pa.string(), 3, keys.buffers())
    pq.write_table(pa.table({"k": text}), tmp_path / "text.parquet")
    with pytest.raises(InvalidSource, match=r"^the source holds text that is not valid UTF-8\.$"):
        sampled_of(tmp_path / "text.parquet")


def test_a_file_that_changes_is_noticed(tmp_path: Path, passes: list[str]) -> None:
    """A key that was sampled and is gone in the second pass is an error, not a count of 0."""
    path = tmp_path / "k.parquet"

    def write(keys: list[str]) -> None:
        pq.write_table(pa.table({"k": keys}), path, use_dictionary=False, compression="none", write_statistics=False)

    def change(stage: str, _: float | None) -> None:
        if stage == "counting sampled keys":
            write(["a", "c"])

    write(["a", "b"])
    with pytest.raises(InvalidSource, match=r"^the source changed between its two passes\.$"):
        sampled_of(path, progress=change)
    assert passes == ["choose", "count"]


# Headers.


def number(value: int) -> bytes:
    """Seven bits a byte, the lowest first."""
    return bytes([value]) if value < 128 else bytes([value & 127 | 128]) + number(value >> 7)


def header_of(fields: list[tuple[int, Any]]) -> bytes:
    """Fields in Thrift's compact protocol, each number written out."""
    written = b""
    for place, value in fields:
        tag = number(place << 1)
        if isinstance(value, bool):
            written += bytes([1 if value else 2]) + tag
        elif isinstance(value, int):
            written += b"\x05" + tag + number(value << 1)
        elif isinstance(value, bytes):
            written += b"\x08" + tag + number(len(value)) + value
        else:
            written += b"\x0c" + tag + header_of(value)
    return written + b"\0"


def pages_of(path: Path, *headers: bytes, rows: int = 1, optional: bool = False) -> list[parquet_pages.Page]:
    """Pages of a chunk that holds these headers, each with five bytes after it."""
    path.write_bytes(b"".join(header + b"\x01\0\0\0a" for header in headers))
    chunk = ColumnChunk(str(path), 0, path.stat().st_size, 0, rows, optional, "UNCOMPRESSED", 5)
    with PageFile() as file:
        return list(file.pages(chunk))


STATISTICS = (5, [(5, b"z" * 9000), (6, b"a" * 9000)])
DATA = [(1, 1), (2, 0), (3, 3), (4, 3), STATISTICS]


def test_headers_of_any_length_are_read(tmp_path: Path) -> None:
    """Statistics longer than what is looked at first are passed over; pages of other kinds are skipped."""
    header = header_of([(1, 0), (2, 5), (3, 5), (5, DATA)])
    index = header_of([(1, 1), (2, 5), (3, 5), (6, [])])
    pages = pages_of(tmp_path / "k", header, index, header, rows=2)
    assert [(page.rows, page.is_indexed, page.stored.nbytes) for page in pages] == [(1, False, 5)] * 2


@pytest.mark.parametrize(
    "fields",
    [
        [(2, 5), (3, 5), (5, DATA)],
        [(1, 0), (2, 6), (3, 5), (5, DATA)],
        [(1, 0), (2, 5), (3, 6), (5, DATA)],
        [(1, 0), (2, 5), (3, 1 << 60), (5, DATA)],
        [(1, 0), (2, 5), (3, 5)],
        [(1, 0), (2, 5), (3, True), (5, DATA)],
        [(1, 0), (2, 5), (3, 5), (5, [(1, 2), (2, 0), (3, 3)])],
        [(1, 0), (2, 5), (3, 5), (5, [(1, 1), (2, 7), (3, 3)])],
        [(1, 0), (2, 5), (3, 5), (5, [(1, 1), (2, 0), (3, 4)])],
        [(1, 2), (2, 5), (3, 5), (7, [(1, 1), (2, 7)])],
        [(1, 3), (2, 5), (3, 5), (8, [(1, 1), (4, 0), (5, 6), (6, 0)])],
        [(1, 3), (2, 5), (3, 5), (8, [(1, 1), (4, 0), (5, 0), (6, 1)])],
        [(1, 0), (2, 5), (3, 5), (9, [(1, [(1, [(1, [(1, 1)])])])]), (5, DATA)],
    ],
    ids=[
        "no kind", "longer than the chunk", "past the end", "huge", "no rows", "no number", "too many rows", "encoding",
        "levels", "encoding of a dictionary", "levels past the end", "repetition", "too deep",
    ],
)  # fmt: skip
def test_headers_that_are_not_understood(tmp_path: Path, fields: list[tuple[int, Any]]) -> None:
    """A header that lacks a field, contradicts the chunk or names what is not supported makes pages unreadable."""
    with pytest.raises(UnreadablePages):
        pages_of(tmp_path / "k", header_of(fields), optional=True)


def test_compiled_readers_refuse_misuse() -> None:
    """Rows out of order or off the page, keys added while others are counted, and short seeds are refused."""
    page = array_of(b"\x01\0\0\0a\x01\0\0\0b")
    picker, sample = _core.TextPicker(), _core.TextSample(SEED)
    for chosen in ([1, 0], [0, 0], [2], [-1]):
        with pytest.raises(ValueError, match="rows must rise and lie on the page"):
            picker.plain(page, None, 2, np.array(chosen, dtype=np.int64))
    picker.plain(page, None, 2, np.array([1], dtype=np.int64))
    sample.add(picker)
    counter = _core.TextCounter(sample)
    with pytest.raises(ValueError, match="keys are being counted already"):
        sample.add(picker)
    counter.plain(page, None, 2)
    with pytest.raises(ValueError, match="the page does not hold what its header says"):
        counter.plain(page, None, 1)
    with pytest.raises(ValueError, match="four random words are needed"):
        _core.TextSample(SEED[:3])
