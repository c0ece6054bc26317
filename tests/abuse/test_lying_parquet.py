"""Parquet files that lie about their lengths are refused in bounded memory, and true ones are read as they are."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dptally
from dptally.errors import UnreadableRelease
from dptally.releases.bounded_tables import read_table
from tests.abuse.limits import refused_or_read
from tests.abuse.parquet_bytes import BYTES, INT64, Claim, Column, Page, parquet
from tests.abuse.specimens import files, metadata

ROWS = 1_000_000
ALMOST_2_GB = (1 << 31) - (1 << 26)
MOST = 400 << 20  # bytes of real memory, whatever the file; what is refused from its headers takes next to nothing
READER = """
import resource, sys
import dptally, numpy, polars, pyarrow.parquet, pyarrow.compute
pyarrow.set_cpu_count(1)
dptally.load(sys.argv[1])
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
for path in sys.argv[2:]:
    try:
        dptally.load(path)
    except dptally.UnreadableRelease as refusal:
        print(refusal)
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) << 10)
"""


def packed(content: bytes) -> bytes:
    """In Zstandard."""
    return bytes(pa.compress(content, codec="zstd", asbytes=True))


def zeros(size: int) -> bytes:
    """So many zeros in Zstandard, in frames of 64 MB one after the other."""
    return packed(bytes(1 << 26)) * (size >> 26)


def run(length: int) -> Page:
    """A page in which the first entry of the dictionary repeats."""
    number, content = length << 1, b"\x01"
    while number > 127:
        content += bytes([number & 127 | 128])
        number >>= 7
    content += bytes([number, 0])
    return Page(packed(content), len(content), length, encoding=8)


def ones(rows: int) -> Column:
    """A column of ones."""
    return Column("value", INT64, [Page(packed((1).to_bytes(8, "little")), 8, 1, dictionary=True), run(rows)])


def held() -> dict[bytes, bytes]:
    """The metadata of a true release."""
    return {b"dptally": json.dumps(metadata(files()["weighted_sample"])).encode()}


def of_keys(*pages: Page, rows: int = ROWS, **changed: Any) -> bytes:
    """A release with these pages of keys."""
    return parquet([Column("key", BYTES, list(pages)), ones(rows)], rows, held(), **changed)


def texts(*words: bytes) -> Page:
    """A page of texts, as it should be."""
    content = b"".join(len(word).to_bytes(4, "little") + word for word in words)
    return Page(packed(content), len(content), len(words))


def long_entry(size: int) -> bytes:
    """A dictionary of an empty text and a long one that no row uses."""
    content = bytes(4) + size.to_bytes(4, "little") + bytes(size)
    return of_keys(Page(packed(content), len(content), 2, dictionary=True), run(ROWS))


def test_what_is_made_by_hand_can_be_read(tmp_path: Path) -> None:
    """The files below differ from this one by their lies alone."""
    path = tmp_path / "r.parquet"
    path.write_bytes(of_keys(texts(b"a", b"b", b"c"), rows=3))
    release = dptally.load(path)
    assert isinstance(release, dptally.Release) and release.table()["key"].to_list() == [b"a", b"b", b"c"]


def test_small_files_that_unpack_to_much(tmp_path: Path) -> None:
    """Two gigabytes of zeros in a page, in a dictionary, or a dictionary that every batch has a copy of."""
    bombs = {
        "page": of_keys(Page(zeros(ALMOST_2_GB), ALMOST_2_GB, ROWS)),
        "dictionary": of_keys(Page(zeros(ALMOST_2_GB), ALMOST_2_GB, 1, dictionary=True), run(ROWS)),
        "copies": long_entry(60 << 20),
        "schema": of_keys(texts(b"a"), rows=1, footer={2: Claim([{4: b"x"}], 900_000)}),
        "entries": of_keys(Page(zeros(1 << 26), 1 << 26, 1 << 24, dictionary=True), run(ROWS)),
    }
    paths = []
    for name, content in bombs.items():
        assert len(content) < 70_000
        paths.append(tmp_path / f"{name}.parquet")
        paths[-1].write_bytes(content)
    usual = tmp_path / "usual.parquet"
    usual.write_bytes(files()["weighted_sample"].packed)
    done = subprocess.run(
        [sys.executable, "-c", READER, str(usual), *map(str, paths)],
        capture_output=True, text=True, timeout=120, check=True,
    )  # fmt: skip
    *refusals, taken = done.stdout.splitlines()
    assert len(refusals) == len(bombs) and int(taken) < MOST


GOOD = texts(b"a", b"b", b"c")
LIES: dict[str, bytes] = {
    "texts by differences": of_keys(Page(GOOD.payload, GOOD.unpacked, 3, encoding=7), rows=3),
    "lengths by differences": of_keys(Page(GOOD.payload, GOOD.unpacked, 3, encoding=6), rows=3),
    "a size below nothing": of_keys(Page(GOOD.payload, -1, 3), rows=3),
    "less than it unpacks to": of_keys(Page(packed(bytes(9000)), 15, 3), rows=3),
    "more entries than bytes": of_keys(Page(packed(bytes(8)), 8, 1 << 30, dictionary=True), run(3), rows=3),
    "row groups out of nothing": of_keys(GOOD, rows=3, footer={4: Claim([{1: [{}]}], 100_000_000)}),
    "other rows": of_keys(GOOD, rows=3, footer={3: 3}),
    "another codec": parquet([Column("key", BYTES, [GOOD], codec=9), ones(3)], 3, held()),
    "no compression": parquet([Column("key", BYTES, [GOOD], codec=0), ones(3)], 3, held()),
    "pages elsewhere": parquet([Column("key", BYTES, [GOOD], facts={9: 1 << 40}), ones(3)], 3, held()),
}


SMALL_LIES: dict[str, bytes] = {
    "fewer values than rows": of_keys(texts(b"a"), rows=3),
    "a dictionary too late": of_keys(GOOD, Page(packed(bytes(4)), 4, 1, dictionary=True), rows=3),
    "an encrypted column": parquet([Column("key", BYTES, [GOOD]), ones(3)], 3, held(), footer={8: {1: {}}}),
}


@pytest.mark.parametrize("lie", SMALL_LIES)
def test_small_lies(lie: str, tmp_path: Path) -> None:
    """What takes no memory is refused or read, and never ends the process."""
    path = tmp_path / "r.parquet"
    path.write_bytes(SMALL_LIES[lie])
    refused_or_read(dptally.load, path)


@pytest.mark.parametrize("lie", LIES)
def test_lies(lie: str, tmp_path: Path) -> None:
    """Each is refused in one sentence."""
    path = tmp_path / "r.parquet"
    path.write_bytes(LIES[lie])
    with pytest.raises(UnreadableRelease, match=r"is not a readable Parquet file\.|far more than its size"):
        dptally.load(path)


@pytest.mark.parametrize("codec", ["zstd", "snappy", "none", "brotli"])
@pytest.mark.parametrize("version", ["1.0", "2.0"])
@pytest.mark.parametrize("rows", [0, 1, 3000])
def test_true_files_are_read_as_they_were_written(codec: str, version: str, rows: int, tmp_path: Path) -> None:
    """What Arrow writes, in whatever layout, comes back with its types, nulls and metadata."""
    numbers = np.arange(rows)
    days = numbers.astype("datetime64[D]")
    table = pa.table(
        {
            "text": pa.array([f"key {number}" for number in numbers], pa.large_string()),
            "TEXT": pa.array([f"key {number}" for number in numbers], pa.string()),
            "number": pa.array(numbers, pa.uint64(), mask=numbers % 3 == 0),
            "truth": pa.array(numbers % 2 == 0),
            "money": pa.array(numbers.tolist(), pa.decimal128(20, 3)),
            "bytes": pa.array([bytes([number % 256]) for number in numbers], pa.large_binary()),
            "day": pa.array(days),
            "time": pa.array(numbers.tolist(), pa.time64("us")),
            "nanoseconds": pa.array(numbers.tolist(), pa.timestamp("ns")),
            "zoned": pa.array(numbers.tolist(), pa.timestamp("us", "UTC")),
            "half": pa.array(numbers / 2, pa.float32()),
        }
    ).replace_schema_metadata({b"a": b"b"})
    path = tmp_path / "t.parquet"
    pq.write_table(table, path, compression=codec, data_page_version=version, row_group_size=700, data_page_size=4000)
    found = read_table(path)
    assert found.schema.equals(table.schema, check_metadata=True) and found.equals(table)
