"""A small file must not take much memory: the worst ones we can make, read in a process that may not have more."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dptally
from tests.abuse.limits import refused_or_read
from tests.abuse.specimens import files, metadata, with_checksum, with_metadata

ROOM = 1 << 30  # bytes above what the interpreter and its libraries have mapped when reading begins
READER = """
import resource, sys
import dptally, numpy, polars, pyarrow.parquet, pyarrow.compute
pyarrow.set_cpu_count(1)
mapped = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (mapped + int(sys.argv[3]),) * 2)
read = {"release": dptally.load, "ranges": dptally.load_ranges, "tree": dptally.load, "sketch": dptally.load_sketch}
try:
    found = read[sys.argv[1]](sys.argv[2])
    found.top(1) if sys.argv[1] == "release" else None
except dptally.DptallyError as refusal:
    print("refused:", refusal)
else:
    print("read")
"""


def said_of(kind: str, path: Path, room: int = ROOM) -> str:
    """What a process with little memory says of a file."""
    assert path.stat().st_size < 100_000
    done = subprocess.run(
        [sys.executable, "-c", READER, kind, str(path), str(room)],
        capture_output=True, text=True, timeout=120, check=False, env={**os.environ, "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


def write(path: Path, columns: dict[str, pa.Array], name: str = "weighted_sample", codec: str = "zstd") -> Path:
    """A Parquet file with the metadata of a release and other columns."""
    key = files()[name].metadata_key
    table = pa.table(columns).replace_schema_metadata({key: json.dumps(metadata(files()[name])).encode()})
    pq.write_table(table, path, compression=codec)
    return path


def test_rows_out_of_nothing(tmp_path: Path) -> None:
    """A value that repeats three million times takes a few bytes, and is refused by the number of rows."""
    rows = pa.array(np.ones(3_000_000, dtype=np.int64))
    path = write(tmp_path / "r.parquet", {"key": rows, "value": rows})
    assert path.stat().st_size < 50_000
    assert "unpacks to far more than its size" in said_of("release", path)


@pytest.mark.parametrize("kind", [pa.string(), pa.binary(), pa.large_string()])
def test_a_long_text_many_times(kind: pa.DataType, tmp_path: Path) -> None:
    """A megabyte of one letter in each of a million rows is a terabyte, and refused before it is unpacked."""
    text = pa.array(["x" * 1_000_000], kind)
    keys = pa.DictionaryArray.from_arrays(pa.array(np.zeros(200_000, dtype=np.int32)), text)
    path = write(tmp_path / "r.parquet", {"key": keys, "value": pa.array(np.ones(200_000, dtype=np.int64))})
    assert "unpacks to far more than its size" in said_of("release", path)


def test_columns_within_columns(tmp_path: Path) -> None:
    """Lists, which repeat a value without a row of its own, are no part of a release."""
    many = pa.ListArray.from_arrays(pa.array([0, 10_000_000], pa.int32()), pa.array(np.ones(10_000_000)))
    lists = write(tmp_path / "a.parquet", {"key": many, "value": pa.array([1])})
    assert "is not a readable Parquet file" in said_of("release", lists)


def test_a_footer_that_lies(tmp_path: Path) -> None:
    """Sizes in the footer and in page headers that are far too large are refused, or found out."""
    content = bytearray(files()["weighted_sample"].packed)
    for place in range(len(content) - 1500, len(content) - 8, 97):
        lying = bytearray(content)
        lying[place : place + 5] = b"\xff\xff\xff\xff\x07"
        path = tmp_path / "r.parquet"
        path.write_bytes(lying)
        refused_or_read(dptally.load, path)


def test_nodes_of_a_huge_grid(tmp_path: Path) -> None:
    """A grid may have four million bins; a file that claims more, or more than it holds, is refused."""
    specimen = files()["ranges_sample_and_threshold"]
    facts = metadata(specimen)
    facts["grid"].update(bins=1 << 40, branching=2, levels=40, end=1 << 45, width=32)
    path = tmp_path / "r.parquet"
    path.write_bytes(with_metadata(specimen, json.dumps(facts)))
    assert "damaged" in said_of("ranges", path)


def test_a_sketch_that_claims_much(tmp_path: Path) -> None:
    """A sketch's capacity is a number, not an allocation; counters that are not in the file are refused."""
    packed = bytearray(files()["sketch_single"].packed[:-32])
    packed[20:24] = (1 << 30).to_bytes(4, "little")
    path = tmp_path / "s.sketch"
    path.write_bytes(with_checksum(bytes(packed)))
    said_of("sketch", path, room=256 << 20)
    packed[48:56] = (1 << 40).to_bytes(8, "little")
    path.write_bytes(with_checksum(bytes(packed)))
    assert "refused" in said_of("sketch", path, room=256 << 20)


@pytest.mark.parametrize(
    ("name", "field", "given"),
    [
        ("weighted_sample", "epsilon", "1/1000000000"),
        ("stability", "epsilon", "1/1000000000"),
        ("gaussian", "differing", 10**12),
        ("dense", "bound", 1 << 200),
        ("sparse", "size", "9" * 4000),
        ("sketch_release", "capacity", 1 << 60),
        ("sampled", "scheme", "ppswor:1/" + "9" * 4000),
        ("sampled", "scheme", "1e999999999"),
    ],
)
def test_laws_that_ask_for_much(name: str, field: str, given: object, tmp_path: Path) -> None:
    """Parameters whose table would not fit are refused before the table is made."""
    specimen = files()[name]
    facts = metadata(specimen)
    assert field in facts["law"]
    facts["law"][field] = given
    if field == "epsilon":
        facts["law"]["delta"] = f"1/{10**15}"
    path = tmp_path / "r.parquet"
    path.write_bytes(with_metadata(specimen, json.dumps(facts)))
    assert "refused" in said_of("release", path)
