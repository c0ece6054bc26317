"""The schema of a release comes from declarations: neighbouring data sets have one, whatever values they hold.

For every kind of source and every mechanism: the columns of `release.table()` and of the saved file are the same for no
rows, for some rows, and for those rows and a unit with an odd value; and none of them is an error.
"""

from __future__ import annotations

import datetime as dt
import decimal
import json
import sqlite3
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset
import pyarrow.parquet as pq
import pytest

import dptally
from dptally.heavy_hitters import publish_heavy_hitters
from dptally.randomness import SeededBits
from dptally.sources import open_rows
from dptally.summaries import count_keys
from tests.sources.conftest import Server
from tests.sources.counting import counts_of

Rows = list[tuple[Any, Any]]
"""Keys and units."""

ODD: dict[str, Any] = {
    "decimal": decimal.Decimal("123456789.123"),
    "huge decimal": decimal.Decimal("1e999999"),
    "whole": 2**70,
    "float": 0.1,
    "nan": float("nan"),
    "infinity": float("inf"),
    "surrogates": "x\ud800",
    "bytes": b"\x00\xff",
    "date": dt.date(2024, 2, 29),
    "zoned": dt.datetime(2024, 1, 1, 12, tzinfo=dt.timezone(dt.timedelta(hours=2))),
    "moment": dt.datetime(2024, 1, 1, 12, 0, 0, 5),
    "time": dt.time(12, 30),
    "none": None,
    "list": [1, ["a"]],
    "tuple": (1, "a"),
    "truth": True,
    "uuid": uuid.UUID(int=7),
    "object": object(),
}


def as_table(rows: Rows) -> dict[str, list[Any]]:
    """Columns of keys and units."""
    return {"k": [key for key, _ in rows], "u": [unit for _, unit in rows]}


def objects(values: list[Any]) -> Any:
    """An array of Python objects, also where they are lists."""
    array = np.empty(len(values), dtype=object)
    array[:] = values if not any(isinstance(value, list | tuple) for value in values) else None
    for place, value in enumerate(values):
        array[place] = value
    return array


def typed(kind: Any, rows: Rows) -> pa.Table:
    """An Arrow table with keys of a type, and text for units."""
    return pa.table({"k": pa.array([key for key, _ in rows], kind), "u": pa.array([u for _, u in rows], pa.string())})


def json_line(key: Any, unit: Any) -> str:
    """A line of JSON; what JSON does not have is left out."""
    known = {name: value for name, value in (("k", key), ("u", unit)) if is_json(value)}
    return json.dumps(known, default=float) + "\n"


def is_json(value: Any) -> bool:
    """Whether a value can be written as JSON, with decimals as numbers."""
    return isinstance(value, str | int | float | list | tuple | type(None))


def make_jsonl(rows: Rows, folder: Path) -> Path:
    """A file of JSON lines."""
    path = folder / "a.jsonl"
    lines = "".join(json_line(key, unit) for key, unit in rows)
    if any(isinstance(key, decimal.Decimal) for key, _ in rows):
        lines += '{"k": 123456789.123, "u": 1e999999}\n'
    path.write_text(lines)
    return path


def make_csv(rows: Rows, folder: Path) -> Path:
    """A CSV file of whatever Python writes for a value."""
    path = folder / "a.csv"
    written = [",".join(f'"{value}"'.replace("\ud800", "") for value in row) for row in rows]
    path.write_text("\n".join(["k,u", *written, ""]), encoding="utf-8")
    return path


def make_sqlite(declared: str, rows: Rows, folder: Path) -> str:
    """A SQLite database with a column of that declaration; what SQLite cannot hold is null."""
    path = folder / f"{uuid.uuid4()}.db"

    def held(value: Any) -> Any:
        fits = isinstance(value, str | bytes | float | bool) or (isinstance(value, int) and abs(value) < 2**63)
        return value if fits and value != ODD["surrogates"] else None

    connection = sqlite3.connect(path)
    connection.execute(f"CREATE TABLE t (k {declared}, u {declared})")
    connection.executemany("INSERT INTO t VALUES (?, ?)", [(held(key), held(unit)) for key, unit in rows])
    connection.commit()
    connection.close()
    return f"sqlite:///{path}"


def make_duckdb(rows: Rows, folder: Path) -> str:
    """A DuckDB database with a column of JSON."""
    path = folder / f"{uuid.uuid4()}.db"
    with duckdb.connect(path) as connection:
        connection.execute("CREATE TABLE t (k JSON, u JSON)")
        for key, unit in rows:
            if is_json(key) and is_json(unit) and key != ODD["surrogates"] and unit != ODD["surrogates"]:
                connection.execute("INSERT INTO t VALUES (?, ?)", [json.dumps(key), json.dumps(unit)])
    return f"duckdb:///{path}"


def make_parquet(rows: Rows, folder: Path) -> Path:
    """A Parquet file of whole numbers."""
    pq.write_table(typed(pa.int64(), rows), folder / "a.parquet")
    return folder / "a.parquet"


def relation(rows: Rows) -> Any:
    """A DuckDB relation."""
    connection = duckdb.connect()
    connection.register("rows", typed(pa.decimal128(20, 2), rows))
    return connection.sql("SELECT * FROM rows")


@dataclass(frozen=True)
class Kind:
    """A kind of source.

    Attributes:
        make: from rows and a folder to a source.
        key: a usual key, and the universe of keys that the pure mechanisms get.
        odd: odd values; None for all.
        request: how it is opened.
        units: whether it has a column of units.
    """

    make: Callable[[Rows, Path], Any]
    key: Any = "a"
    universe: Any = "words:1"
    odd: tuple[Any, ...] | None = None
    request: dict[str, Any] = field(default_factory=lambda: {"key": "k"})
    units: bool = True


WHOLE: dict[str, Any] = {"key": 7, "universe": "integers:0..9", "odd": (None, 2**63 - 1, -(2**63))}
TEXT: dict[str, Any] = {"odd": (None, "", "x\x00y", "é" * 5000)}
KEYS: dict[str, Any] = {"request": {}, "units": False}
NO_UNIVERSE: dict[str, Any] = {"universe": None}
KINDS: dict[str, Kind] = {
    "list": Kind(lambda rows, _: [key for key, _ in rows], **KEYS),
    "list of numbers": Kind(lambda rows, _: [key for key, _ in rows], 7, "integers:0..9", **KEYS),
    "stated numbers": Kind(
        lambda rows, _: [key for key, _ in rows], 7, "integers:0..9", request={"types": {"key": "int64"}}, units=False
    ),
    "iterator": Kind(lambda rows, _: iter([key for key, _ in rows]), **KEYS),
    "tuples": Kind(
        lambda rows, _: [(key, key) if place % 3 else key for place, (key, _) in enumerate(rows, 1)],
        request={"key": ["a", "b"]}, units=False, **NO_UNIVERSE,
    ),
    "mapping": Kind(
        lambda rows, _: {
            key if key.__hash__ is not None else None: sum(other == key for other, _ in rows) for key, _ in rows
        },
        **KEYS,
    ),
    "numpy objects": Kind(lambda rows, _: objects([key for key, _ in rows]), **KEYS),
    "numpy whole": Kind(
        lambda rows, _: np.array([key for key, _ in rows], dtype=np.int64), 7, "integers:0..9",
        (2**63 - 1, -(2**63)), **KEYS,
    ),
    "numpy text": Kind(
        lambda rows, _: np.array([key for key, _ in rows], dtype="U2000"), odd=("x\ud800", "é" * 2000), **KEYS
    ),
    "pandas objects": Kind(lambda rows, _: pd.DataFrame({n: objects(c) for n, c in as_table(rows).items()})),
    "pandas objects by polars": Kind(
        lambda rows, _: pd.DataFrame({n: objects(c) for n, c in as_table(rows).items()}),
        request={"key": "k", "engine": "polars"},
    ),
    "pandas series": Kind(lambda rows, _: pd.Series(objects([key for key, _ in rows])), **KEYS),
    "pandas labels": Kind(
        lambda rows, _: pd.DataFrame(
            {n: pd.Series(objects(c), dtype=object).astype("category") for n, c in as_table(rows).items()}
        ),
        odd=tuple(value for value in ODD.values() if value.__hash__ is not None),
    ),
    "pandas whole": Kind(lambda rows, _: typed(pa.int64(), rows).to_pandas(types_mapper=pd.ArrowDtype), **WHOLE),
    "pandas text": Kind(
        lambda rows, _: pd.DataFrame({n: pd.Series(c, dtype="string[python]") for n, c in as_table(rows).items()}),
        odd=(None, "", "x\ud800"),
    ),
    "polars": Kind(lambda rows, _: pl.from_arrow(typed(pa.string(), rows)), **TEXT),
    "polars lazy": Kind(lambda rows, _: pl.DataFrame(pl.from_arrow(typed(pa.int64(), rows))).lazy(), **WHOLE),
    "arrow text": Kind(lambda rows, _: typed(pa.string(), rows), **TEXT),
    "arrow dictionary": Kind(lambda rows, _: typed(pa.dictionary(pa.int32(), pa.string()), rows), **TEXT),
    "arrow decimal": Kind(
        lambda rows, _: typed(pa.decimal128(38, 3), rows), decimal.Decimal("1.5"), None,
        (None, decimal.Decimal("123456789.123"), decimal.Decimal(10**35 - 1)),
    ),
    "arrow float": Kind(
        lambda rows, _: typed(pa.float64(), rows), 1.5, None, (None, float("nan"), float("inf"), -0.0, 5e-324)
    ),
    "arrow moment": Kind(
        lambda rows, _: typed(pa.timestamp("us", "Europe/Paris"), rows), dt.datetime(2024, 1, 1, tzinfo=dt.UTC), None,
        (None, dt.datetime(1, 1, 2, tzinfo=dt.UTC), dt.datetime(9999, 12, 30, tzinfo=dt.UTC)),
    ),
    "arrow reader": Kind(lambda rows, _: typed(pa.binary(), rows).to_reader(), b"ab", None, (None, b"", b"\xff")),
    "arrow dataset": Kind(lambda rows, _: pyarrow.dataset.dataset(typed(pa.int64(), rows)), **WHOLE),
    "arrow array": Kind(lambda rows, _: typed(pa.int64(), rows)["k"], 7, "integers:0..9", (None, 2**63 - 1), **KEYS),
    "parquet": Kind(make_parquet, **WHOLE),
    "csv": Kind(make_csv),
    "jsonl": Kind(make_jsonl),
    "jsonl stated": Kind(make_jsonl, 7, "integers:0..9", request={"key": "k", "types": {"k": "int64", "u": "text"}}),
    "sqlite declared": Kind(
        partial(make_sqlite, "INTEGER"), 7, "integers:0..9", request={"key": "k", "table": "t"}
    ),
    "sqlite undeclared": Kind(partial(make_sqlite, ""), request={"key": "k", "table": "t"}),
    "duckdb": Kind(make_duckdb, request={"key": "k", "table": "t"}),
    "relation": Kind(
        lambda rows, _: relation(rows), decimal.Decimal("1.5"), None, (None, decimal.Decimal("123456789012345.25"))
    ),
}  # fmt: skip
APPROXIMATE: dict[str, dict[str, Any]] = {
    name: {"mechanism": name, "epsilon": 1, "delta": "0.01"}
    for name in ("weighted_sample", "stability", "gaussian", "sample_and_threshold", "misra_gries")
}
PURE: dict[str, dict[str, Any]] = {
    "dense": {"mechanism": "dense", "epsilon": 1},
    "sparse": {"mechanism": "sparse", "epsilon": 1, "capacity": 3},
    "compact": {"mechanism": "compact", "epsilon": 1, "capacity": 100},
}
# Sketches hold text, whole numbers and bytes, and take one key column, row by row.
NOT_IN_SKETCHES = ("tuples", "mapping", "arrow decimal", "arrow float", "arrow moment", "relation")
OF_VALUES = (
    "list", "tuples", "mapping", "numpy objects", "pandas objects", "pandas labels", "jsonl", "sqlite undeclared"
)  # fmt: skip
COMBINATIONS = [
    (kind, mechanism)
    for kind, source in KINDS.items()
    for mechanism in (*APPROXIMATE, *PURE)
    if not (mechanism in PURE and source.universe is None)
    and not (mechanism == "misra_gries" and kind in NOT_IN_SKETCHES)
]


def schemas(kind: Kind, rows: Rows, unit: str | None, folder: Path, **options: Any) -> tuple[Any, Any]:
    """The columns of the table, and of the saved file, that a release of the rows has."""
    request = {**kind.request, **options, "unit": unit}
    if unit is not None:
        request["max_keys_per_unit"] = 2
    release = dptally.publish(kind.make(rows, folder), **request, randomness=SeededBits(1), progress=False)
    place = folder / f"{uuid.uuid4()}.parquet"
    release.save(place)
    if isinstance(release, dptally.TableRelease):
        return release.table().schema, pq.read_schema(place).remove_metadata()
    return release.universe.type, place.stat().st_size  # a compact release has no columns


def neighbours(kind: Kind) -> list[Rows]:
    """No rows; some; and those with every odd value, so often that odd keys are released."""
    usual: Rows = [(kind.key, f"u{i}") for i in range(60)]
    odd = tuple(ODD.values()) if kind.odd is None else kind.odd
    units = [(kind.key, value) for value in odd] if kind.odd is None else []
    return [[], usual, units + [(value, f"v{i}") for value in odd for i in range(60)] + usual]


@pytest.mark.parametrize(("kind", "mechanism"), COMBINATIONS)
def test_neighbours_have_one_schema(kind: str, mechanism: str, tmp_path: Path) -> None:
    """No rows, some rows, and those with odd values: one schema of the table, one of the file, and no error."""
    source = KINDS[kind]
    options = {**APPROXIMATE, **PURE}[mechanism]
    if mechanism in PURE:
        options = {**options, "universe": source.universe}
    if mechanism == "misra_gries":
        options = {**options, "capacity": 8}
    unit = "u" if source.units else None
    found = [schemas(source, rows, unit, tmp_path, **options) for rows in neighbours(source)]
    assert all(other == found[0] for other in found[1:]), found


@pytest.mark.parametrize("kind", OF_VALUES)
def test_one_odd_value_changes_no_type(kind: str, tmp_path: Path) -> None:
    """Each odd value by itself, as a key and as a unit: the types that were told beforehand, and no error."""
    source = KINDS[kind]
    usual: Rows = [(source.key, f"u{i}") for i in range(3)]
    request: dict[str, Any] = {"key": None, "unit": "u" if source.units else None, **source.request}
    told = open_rows(source.make([], tmp_path), **request).key_schema
    for place, value in enumerate(ODD.values() if source.odd is None else source.odd):
        added = [(value, "v")] if source.odd is not None else [(value, "v"), (source.key, value)]
        rows = open_rows(source.make(usual + added, tmp_path), nulls=("drop", "keep")[place % 2], **request)
        with count_keys(rows, max_keys_per_unit=2, bits=SeededBits(1)) as counted:
            assert {keys.schema for keys, _ in counted.batches()} == {told}


def test_every_kind_and_mechanism_is_compared() -> None:
    """As many combinations as the documentation says."""
    kinds, mechanisms = {kind for kind, _ in COMBINATIONS}, {mechanism for _, mechanism in COMBINATIONS}
    assert kinds == set(KINDS) and len(mechanisms) == 8


def test_postgresql(postgresql: Server, tmp_path: Path) -> None:
    """Columns of a server: a decimal that is none is null, and JSON is read as JSON files are."""
    postgresql.run(
        "CREATE TABLE declared (price numeric(10, 2), document jsonb, day date, who jsonb)",
        "INSERT INTO declared VALUES (1.5, '100', '2024-01-01', '100'), ('NaN', '100.0', 'infinity', '1e2'), "
        """(NULL, '"100"', NULL, '"100"')""",
    )
    for name in ("price", "document", "day"):
        told = {
            table: open_rows(postgresql.url, query=f"SELECT * FROM declared {table}", key=name, unit=None).key_schema  # noqa: S608
            for table in ("", "WHERE false")
        }
        assert told[""] == told["WHERE false"]
        dptally.publish(postgresql.url, table="declared", key=name, unit="who", epsilon=1, delta="0.01")
    assert counts_of(postgresql.url, table="declared", key="price") == {decimal.Decimal("1.50"): 1}
    assert counts_of(postgresql.url, table="declared", key="document") == {"100": 3}
    assert sum(counts_of(postgresql.url, table="declared", key="document", unit="who").values()) == 2


def test_quantiles_and_heavy_hitters() -> None:
    """Odd values are left out of trees, and a column that a tree cannot take is refused whether it has rows or not."""
    odd = list(ODD.values())
    for rows in ([], [5] * 50, [5] * 50 + odd):
        release = dptally.publish_quantiles(rows, low=0, high=9, epsilon=1, mechanism="dense")
        assert (release.grid.kind, release.grid.bins) == ("number", 1024)
        domains: list[dict[str, Any]] = [{}, {"domain": "bits", "width": 4, "levels": 4}]
        for domain in domains:
            publish_heavy_hitters(rows, epsilon=1, delta="0.01", **{"levels": 3, **domain})
    dates = pa.array([dt.date(2024, 1, 1)])
    for keys in (dates, dates[:0]):
        with pytest.raises(dptally.InvalidSource, match="must hold text for the domain"):
            publish_heavy_hitters(keys, epsilon=1, delta="0.01", levels=3)
        for universe, mechanism in (("ipv4", "sparse"), ("ipv4", "compact"), (["a"], "dense")):
            with pytest.raises(dptally.DptallyError, match="key column"):
                dptally.publish(keys, epsilon=1, mechanism=mechanism, universe=universe)
