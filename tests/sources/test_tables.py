"""Tables of Polars, pandas, Arrow and DuckDB in, counts out."""

from __future__ import annotations

import datetime as dt
import decimal
import math
import subprocess
import sys
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset
import pytest

from dptally.errors import InvalidParameter, InvalidSource
from dptally.randomness import SeededBits
from dptally.sources import open_rows
from dptally.summaries import count_keys
from tests.sources.counting import counts_of

COLUMNS = {"query": ["a", "b", "a", None], "user": ["u", "v", "w", "w"], "n": [1, 2, 3, 4]}


def relation(table: pa.Table) -> Any:
    """A DuckDB relation over a table, on a connection of its own."""
    connection = duckdb.connect()
    connection.register("rows_of_test", table)
    return connection.sql("SELECT * FROM rows_of_test")


MAKERS: dict[str, Callable[[pa.Table], Any]] = {
    "polars": lambda table: pl.from_arrow(table),
    "lazy": lambda table: pl.from_arrow(table).lazy(),  # type: ignore[union-attr]
    "pandas": lambda table: table.to_pandas(),
    "arrow": lambda table: table,
    "reader": lambda table: table.to_reader(),
    "dataset": lambda table: pa.dataset.dataset(table),
    "relation": relation,
}


@pytest.mark.parametrize("maker", MAKERS.values(), ids=MAKERS)
def test_every_table_is_read_alike(maker: Callable[[pa.Table], Any]) -> None:
    """Rows, units, counts and nulls mean the same in every kind of table."""
    table = pa.table(COLUMNS)
    assert counts_of(maker(table), key="query") == {"a": 2, "b": 1}
    assert counts_of(maker(table), key="query", nulls="keep") == {"a": 2, "b": 1, None: 1}
    assert counts_of(maker(table), key="query", unit="user") == {"a": 2, "b": 1}
    assert counts_of(maker(table), key="query", count="n") == {"a": 4, "b": 2}
    assert counts_of(maker(table), key=["query", "user"]) == {("a", "u"): 1, ("b", "v"): 1, ("a", "w"): 1}
    with pytest.raises(InvalidParameter, match=r"column 'x' is not in the source; it has: query, user, n\."):
        open_rows(maker(table), key="x", unit=None)


TYPES: dict[str, tuple[pa.DataType, list[Any]]] = {
    "int8": (pa.int8(), [-5, 3]),
    "uint64": (pa.uint64(), [2**64 - 1, 3]),
    "int64": (pa.int64(), [-(2**63), 2**63 - 1]),
    "bool": (pa.bool_(), [True, False]),
    "date": (pa.date32(), [dt.date(1900, 1, 1), dt.date(2030, 12, 31)]),
    "timestamp": (pa.timestamp("us"), [dt.datetime(2020, 1, 1, 1), dt.datetime(1960, 1, 1)]),
    "timestamp s": (pa.timestamp("s"), [dt.datetime(2020, 1, 1, 1), dt.datetime(1960, 1, 1)]),
    "zoned": (
        pa.timestamp("us", "UTC"),
        [dt.datetime(2020, 1, 1, tzinfo=dt.UTC), dt.datetime(2021, 1, 1, tzinfo=dt.UTC)],
    ),
    "time": (pa.time64("us"), [dt.time(1, 2, 3), dt.time(0)]),
    "decimal": (pa.decimal128(10, 2), [decimal.Decimal("1.50"), decimal.Decimal("-2.00")]),
    "binary": (pa.binary(), [b"\x00\xff", b""]),
    "string": (pa.string(), ["", "ü\x00x"]),
    "large": (pa.large_string(), ["a", "b"]),
    "float": (pa.float32(), [1.5, -2.5]),
    "double": (pa.float64(), [0.1, math.inf]),
}


@pytest.mark.parametrize(("kind", "values"), TYPES.values(), ids=TYPES)
@pytest.mark.parametrize("unit", [None, "u"])
def test_types_are_kept(kind: pa.DataType, values: list[Any], unit: str | None) -> None:
    """A key comes out as it went in, with and without units, and can be a unit itself."""
    first, second = values
    table = pa.table({"k": pa.array([first, second, first, None], kind), "u": [1, 2, 3, 4]})
    assert counts_of(table, key="k", unit=unit) == {first: 2, second: 1}
    assert counts_of(table, key="k", unit=unit, nulls="keep") == {first: 2, second: 1, None: 1}
    assert sum(counts_of(table, key="u", unit="k").values()) == 2


def test_labels_become_text() -> None:
    """No dictionary leaves with the keys: it would hold labels that no row, or no released row, has."""
    labels = pa.DictionaryArray.from_arrays(pa.array([0, 0]), pa.array(["seen", "unseen"]))
    connection = duckdb.connect()
    sources = [
        pa.table({"k": labels}),
        pl.DataFrame({"k": pl.Series(["seen", "seen"], dtype=pl.Enum(["seen", "unseen"]))}),
        pl.DataFrame({"k": pl.Series(["seen", "seen"], dtype=pl.Categorical)}).lazy(),
        pd.DataFrame({"k": pd.Categorical(["seen", "seen"], categories=["seen", "unseen"])}),
        connection.sql("SELECT 'seen'::ENUM('seen', 'unseen') AS k FROM range(2)"),
    ]
    for source in sources:
        with count_keys(open_rows(source, key="k", unit=None), max_keys_per_unit=1, bits=SeededBits(1)) as frequencies:
            [(keys, counts)] = list(frequencies.batches())
        assert keys.schema.field("k").type in (pa.string(), pa.large_string())
        assert keys.to_pydict() == {"k": ["seen"]} and counts.tolist() == [2]


def test_uuids_become_text() -> None:
    """A UUID is released as its usual text."""
    name = uuid.UUID(int=7)
    source = duckdb.connect().sql(f"SELECT '{name}'::UUID AS k, 1 AS u FROM range(2)")  # noqa: S608
    assert counts_of(source, key="k") == {str(name): 2}
    assert counts_of(source, key="k", unit="u") == {str(name): 1}
    assert counts_of(source, key="u", unit="k") == {1: 1}


@pytest.mark.parametrize("kind", [pa.float32(), pa.float64()])
def test_one_nan_and_one_zero(kind: pa.DataType) -> None:
    """All NaNs are one key and one unit, -0.0 is 0.0: a unit cannot reach one key twice through them."""
    storage = np.array([0x7FC00000, 0xFFC00001, 0, 0x80000000], dtype=np.uint32).view(np.float32)
    values = pa.array(storage.astype(kind.to_pandas_dtype()))
    table = pa.table({"k": values, "u": ["same"] * 4})
    for unit, each in ((None, 2), ("u", 1)):
        found = counts_of(table, key="k", unit=unit, max_keys_per_unit=4)
        assert sorted(map(str, found)) == ["0.0", "nan"] and set(found.values()) == {each}
    assert counts_of(table, key="u", unit="k") == {"same": 2}


@pytest.mark.parametrize(
    ("column", "kind"),
    [
        (pa.array([[1]]), "list"),
        (pa.array([{"a": 1}]), "struct"),
        (pa.array([1], pa.duration("s")), "INTERVAL"),
        (pa.array([decimal.Decimal(1)], pa.decimal256(50, 2)), "unknown"),
    ],
)
def test_types_that_cannot_be_keys(column: pa.Array, kind: str) -> None:
    """Nested values, durations and oversized numbers are refused when the source is opened."""
    with pytest.raises(InvalidSource, match=f"column 'k' has the type {kind}, which cannot be a key or a unit"):
        open_rows(pa.table({"k": column}), key="k", unit=None)
    with pytest.raises(InvalidSource, match="column 'k' has the type"):
        open_rows(pa.table({"k": column, "q": ["a"]}), key="q", unit="k")


def test_polars_types_that_cannot_be_keys() -> None:
    """Polars' own types that Arrow does not know are refused in the same words."""
    whole, thing = pl.Series([1], dtype=pl.Int128), pl.Series([object()], dtype=pl.Object)
    for frame in (pl.DataFrame({"k": whole}), pl.DataFrame({"k": thing})):
        with pytest.raises(InvalidSource, match="column 'k' has the type"):
            open_rows(frame, key="k", unit=None)


def test_columns_of_nulls() -> None:
    """A column without any value is no error, whatever its type."""
    for source in (
        pa.table({"k": pa.nulls(3), "u": [1, 2, 3]}),
        pl.DataFrame({"k": [None] * 3, "u": [1, 2, 3]}),
        pd.DataFrame({"k": [None] * 3, "u": [1, 2, 3]}),
    ):
        assert counts_of(source, key="k") == {}
        assert counts_of(source, key="k", unit="u", nulls="keep") == {None: 3}
        assert counts_of(source, key="u", unit="k") == {}


def test_counts_of_tables() -> None:
    """Counts may have any integer type and add up to 2^62 at most; anything else is refused without wrapping around."""
    most = 1 << 62
    table = pa.table({"k": ["a", "a", "b"], "n": pa.array([most - 1, 1, 0], pa.uint64())})
    assert counts_of(table, key="k", count="n") == {"a": most}
    for bad in ([most, 1], [2**63, 2**63]):
        table = pa.table({"k": ["a", "a"], "n": pa.array(bad, pa.uint64())})
        with pytest.raises(InvalidSource, match=r"column 'n' adds up to more than 2\^62 for a key"):
            counts_of(table, key="k", count="n")
    for bad_values in ([-1, 2], [None, 2]):
        with pytest.raises(InvalidSource, match="column 'n' must hold non-negative integers"):
            counts_of(pa.table({"k": ["a", "a"], "n": pa.array(bad_values, pa.int64())}), key="k", count="n")
    with pytest.raises(InvalidSource, match="column 'n' must hold integers to be a count"):
        open_rows(pa.table({"k": ["a"], "n": [1.5]}), key="k", unit=None, count="n")


def test_columns_of_one_name_are_refused() -> None:
    """A name that two columns share does not say which is meant."""
    frame = pd.DataFrame([[1, 2]], columns=["k", "k"])
    with pytest.raises(InvalidParameter, match="column 'k' is in the source more than once"):
        open_rows(frame, key="k", unit=None)


def test_a_stream_is_read_once() -> None:
    """A second reading of a stream is refused, not empty."""
    rows = open_rows(pa.table({"k": ["a"]}).to_reader(), key="k", unit=None)
    for expected in (1, None):
        with count_keys(rows, max_keys_per_unit=1, bits=SeededBits(1)) as frequencies:
            if expected:
                assert sum(int(counts.sum()) for _, counts in frequencies.batches()) == expected
            else:
                with pytest.raises(InvalidParameter, match="can be read only once"):
                    list(frequencies.batches())


def test_the_connection_of_a_relation_is_left_as_it_was() -> None:
    """After counting, and after counting that was stopped early, the user's connection works and has its settings."""
    connection = duckdb.connect()
    connection.execute("CREATE TABLE t AS SELECT range % 7 AS k, range AS u FROM range(1000000)")
    before = connection.execute("SELECT name, value FROM duckdb_settings()").fetchall()
    assert sum(counts_of(connection.table("t"), key="k", unit="u").values()) == 1_000_000
    frequencies = count_keys(
        open_rows(connection.table("t"), key="u", unit="k"), max_keys_per_unit=9, bits=SeededBits(1)
    )
    with frequencies:
        next(frequencies.batches())
    assert connection.execute("SELECT name, value FROM duckdb_settings()").fetchall() == before
    assert connection.execute("SELECT count(*) FROM t").fetchone() == (1_000_000,)


def test_a_lazy_frame_reads_only_what_is_wanted(tmp_path: Path) -> None:
    """Columns that are not asked for may be unreadable."""
    frame = pl.DataFrame({"k": ["a", "a"]}).lazy()
    frame = frame.with_columns(bad=pl.col("k").map_elements(lambda _: 1 / 0, return_dtype=pl.Float64))
    assert counts_of(frame, key="k") == {"a": 2}


def test_pandas_is_not_imported(tmp_path: Path) -> None:
    """Counting a file does not import pandas, though DuckDB 2.0 does when it is handed any Python object."""
    program = (
        "import sys; from tests.sources.counting import counts_of;"
        "counts_of(sys.argv[1], key='k'); print('pandas' in sys.modules)"
    )
    (tmp_path / "a.csv").write_text("k\na\n")
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path / "a.csv")],
        capture_output=True,
        text=True,
        cwd=Path(__file__).parents[2],
        check=True,
    )
    assert done.stdout.strip() == "False"
