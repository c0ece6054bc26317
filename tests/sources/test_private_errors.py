"""Nothing of the data in an error, a repr or on the terminal."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dptally.errors import DptallyError
from dptally.randomness import SeededBits
from dptally.sources import open_rows
from dptally.summaries import count_keys
from tests.sources.counting import counts_of

MARKER = "SECRETMARKER"
FILES: dict[str, bytes] = {
    "few.csv": f"k,u\na,1\n{MARKER}\nb,2\n".encode(),
    "many.csv": f"k,u\na,1\n{MARKER},1,2\n".encode(),
    "quote.csv": f'k,u\na,1\n"{MARKER},1\n'.encode(),
    "quote_inside.csv": f'k,u\na,1\n"{MARKER}"x,1\n'.encode(),
    "encoding.csv": b"k,u\na,1\n" + MARKER.encode() + b"\xff\xfe,1\n",
    "line_end.csv": f"k,u\na,1\n{MARKER},1\r\nb,2\n".encode(),
    "long.csv": b"k,u\na,1\n" + MARKER.encode() * 400_000 + b",1\n",
    "bad.jsonl": f'{{"k":"a","u":1}}\n{{"k":{MARKER}}}\n'.encode(),
    "late.jsonl": b'{"k":"a","u":1}\n' * 500 + f'"{MARKER}"\n'.encode(),
    "late_bad.jsonl": b'{"k":"a","u":1}\n' * 500 + f'{{"k":"{MARKER}\n'.encode(),
    "encoding.jsonl": b'{"k":"a","u":1}\n' * 500 + b'{"k":"' + MARKER.encode() + b'\xff"}\n',
    "list.json": f'[{{"k":"{MARKER}"}}]'.encode(),
    "header.csv": MARKER.encode() + b"\xff\n",
}


def raising(values: list[Any]) -> Iterator[Any]:
    """Yield values, then fail with one of them."""
    yield from values
    raise ValueError(values[0])


def bad_text() -> pa.Table:
    """Arrow text that is not UTF-8."""
    buffers = [None, pa.py_buffer(np.array([0, 14], dtype=np.int32)), pa.py_buffer(MARKER.encode() + b"\xff\xfe")]
    return pa.table({"k": pa.Array.from_buffers(pa.string(), 1, buffers), "u": [1]})


def failing_reader() -> Any:
    """An Arrow stream that fails after one batch."""
    table = pa.table({"k": [MARKER], "u": [1]})

    def stream() -> Iterator[pa.RecordBatch]:
        yield from table.to_batches()
        raise ValueError(MARKER)

    return pa.RecordBatchReader.from_batches(table.schema, stream())


def failing_relation() -> Any:
    """A DuckDB relation that fails on a value."""
    connection = duckdb.connect()
    connection.execute(f"CREATE TABLE t AS SELECT '{MARKER}' AS v FROM range(10)")  # noqa: S608
    return connection.sql("SELECT v::INTEGER AS k, 1 AS u FROM t")


def failing_lazy_frame() -> Any:
    """A LazyFrame that fails on a value."""
    return pl.DataFrame({"k": [MARKER], "u": [1]}).lazy().with_columns(pl.col("k").cast(pl.Int64, strict=True))


TABLES: dict[str, Callable[[], Any]] = {
    "pandas dtype": lambda: pd.DataFrame({"k": pd.Series([MARKER], dtype="category").cat.codes * 1j, "u": [1]}),
    "arrow text": bad_text,
    "reader": failing_reader,
    "relation": failing_relation,
    "lazy": failing_lazy_frame,
}
KEYS: dict[str, Callable[[], Any]] = {
    "generator": lambda: raising([MARKER]),
    "late generator": lambda: raising([MARKER] * 70_000),
    "mapping": lambda: {MARKER: MARKER},
    "names of files": lambda: (MARKER + ".csv",),
}


def check_silent(run: Callable[[], object], capfd: pytest.CaptureFixture[str]) -> None:
    """Run something that must fail, and look for the marker everywhere."""
    with pytest.raises(DptallyError) as caught:
        run()
    error: BaseException | None = caught.value
    shown = "".join(traceback.format_exception(caught.value)) + str(caught.value) + repr(caught.value)
    while error is not None:
        shown += str(error) + repr(error)
        error = error.__cause__ or error.__context__
    output = capfd.readouterr()
    assert MARKER not in shown + output.out + output.err


@pytest.mark.parametrize("unit", [None, "u"])
@pytest.mark.parametrize("name", FILES)
def test_files(name: str, unit: str | None, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Malformed text is reported by file and line, without its content."""
    (tmp_path / name).write_bytes(FILES[name])
    check_silent(lambda: counts_of(tmp_path / name, key="k", unit=unit), capfd)


@pytest.mark.parametrize("unit", [None, "u"])
@pytest.mark.parametrize("maker", TABLES.values(), ids=TABLES)
def test_tables(maker: Callable[[], Any], unit: str | None, capfd: pytest.CaptureFixture[str]) -> None:
    """Errors of pandas, Arrow, Polars and DuckDB quote values; ours do not."""
    check_silent(lambda: counts_of(maker(), key="k", unit=unit), capfd)


@pytest.mark.parametrize("maker", KEYS.values(), ids=KEYS)
def test_keys(maker: Callable[[], Any], capfd: pytest.CaptureFixture[str]) -> None:
    """Python keys and the caller's own exceptions stay out of our messages."""
    check_silent(lambda: counts_of(maker(), key="k"), capfd)


def test_damaged_pages(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """A Parquet file with a good footer and damaged pages is reported when it is read."""
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"k": [f"{MARKER}{i}" for i in range(10_000)]}), path, compression="snappy")
    content = bytearray(path.read_bytes())
    content[4:4000] = bytes(3996)
    path.write_bytes(content)
    check_silent(lambda: counts_of(path, key="k"), capfd)


def test_lines_are_named(tmp_path: Path) -> None:
    """The line of a malformed row, and the reason, are in the message."""
    for name, line in (("few.csv", "line 3 of"), ("many.csv", "line 3 of"), ("encoding.csv", "line 3 of")):
        (tmp_path / name).write_bytes(FILES[name])
        with pytest.raises(DptallyError, match=line):
            counts_of(tmp_path / name, key="k")


def test_reprs() -> None:
    """Neither rows nor frequencies show what they hold."""
    rows = open_rows({MARKER: 12345}, key="query", unit=None)
    with count_keys(rows, max_keys_per_unit=1, bits=SeededBits(1)) as frequencies:
        shown = repr(rows) + repr(frequencies) + repr(rows._scan)
        list(frequencies.batches())
        shown += repr(frequencies)
    assert MARKER not in shown and "12345" not in shown and "query" in shown
