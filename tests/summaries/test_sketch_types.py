"""What the keys of a sketch are is public: a release of no rows has the type of a release of one, on every way."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dptally
from dptally.cli import main
from dptally.errors import DptallyError, InvalidParameter, InvalidSource
from dptally.ledger import Ledger
from dptally.summaries.sketch_files import ColumnNames

PRIVACY: dict[str, Any] = {"epsilon": 1, "delta": "1e-6"}
SHELL = ("--epsilon", "1", "--delta", "1e-6")
SKETCH: dict[str, Any] = {"mechanism": "misra_gries", "capacity": 4, **PRIVACY}
# Declared types, a value that fits, and the type of the released keys.
TYPES: dict[str, tuple[pa.DataType, Any, pa.DataType]] = {
    "text": (pa.large_string(), "a", pa.large_string()),
    "bytes": (pa.large_binary(), b"\xff", pa.large_binary()),
    "int64": (pa.int64(), 7, pa.int64()),
    "int16": (pa.int16(), 7, pa.int64()),
    "uint64": (pa.uint64(), 2**63, pa.uint64()),
}


def schema(release: Any, directory: Path) -> pa.Schema:
    """Of the released rows, as a reader of the file sees it."""
    path = directory / "release.parquet"
    release.save(path, overwrite=True)
    return pq.read_schema(path).remove_metadata()


def updated(sketch: Any, *batches: Any) -> Any:
    """The sketch with all batches in it."""
    for batch in batches:
        sketch.update(batch)
    return sketch


def table(keys: pa.Array) -> pa.Table:
    """Keys with a unit of its own for each."""
    return pa.table({"k": keys, "u": pa.array(range(len(keys)), pa.int64())})


def parquet(keys: pa.Array, directory: Path) -> Path:
    """The table as a file."""
    path = directory / "rows.parquet"
    pq.write_table(table(keys), path)
    return path


def saved(sketch: Any, directory: Path) -> Any:
    """The sketch from its file."""
    sketch.save(directory / "s.sketch", overwrite=True)
    return dptally.load_sketch(directory / "s.sketch")


def by_shell(directory: Path, *arguments: object) -> Any:
    """A release that a command of dptally writes, after the commands that "then" separates it from."""
    commands: list[list[str]] = [[]]
    for argument in map(str, arguments):
        if argument == "then":
            commands.append([])
        else:
            commands[-1].append(argument)
    for command in commands:
        assert main([*command, "--overwrite", "-q"]) == 0
    return dptally.load(directory / "r.parquet")


def of_elements(keys: Any, **options: Any) -> Any:
    """A sketch of four counters, with the keys in it."""
    return updated(dptally.MisraGriesSketch(4, **options), keys)


def of_users(rows: Any) -> Any:
    """A sketch of users, with the rows in it."""
    return updated(dptally.UserMisraGriesSketch(4, 2), rows)


BUILD = ("sketch", "build", "--key", "k", "-k", 4, "-o")
DECLARED: dict[str, Callable[[pa.Array, Path], Any]] = {
    "Arrow array": lambda keys, _: of_elements(keys).publish(**PRIVACY),
    "chunked Arrow array": lambda keys, _: of_elements(pa.chunked_array([], keys.type) if not len(keys) else keys)
    .publish(**PRIVACY),
    "NumPy array": lambda keys, _: of_elements(as_numpy(keys)).publish(**PRIVACY),
    "Polars series": lambda keys, _: of_elements(pl.Series(keys)).publish(**PRIVACY),
    "pandas series": lambda keys, _: of_elements(keys.to_pandas(types_mapper=pd.ArrowDtype)).publish(**PRIVACY),
    "users of an Arrow table": lambda keys, _: of_users(table(keys).select(["u", "k"])).publish(**PRIVACY),
    "users of a Polars frame": lambda keys, _: of_users(pl.DataFrame(table(keys)).select("u", "k")).publish(**PRIVACY),
    "saved and loaded": lambda keys, directory: saved(of_elements(keys), directory).publish(**PRIVACY),
    "merged": lambda keys, _: of_elements(keys).merge(of_elements(keys[:0])).publish(**PRIVACY),
    "added up": lambda keys, _: dptally.sum_sketches([of_elements(keys), of_elements(keys[:0])]).publish(**PRIVACY),
    "added up, saved and loaded": lambda keys, directory: saved(
        dptally.sum_sketches([of_elements(keys)]), directory
    ).publish(**PRIVACY),
    "publish Arrow": lambda keys, _: dptally.publish(table(keys), key="k", **SKETCH),
    "publish Arrow by unit": lambda keys, _: dptally.publish(table(keys), key="k", unit="u", **SKETCH),
    "publish an Arrow stream": lambda keys, _: dptally.publish(table(keys).to_reader(), key="k", **SKETCH),
    "publish an Arrow array": lambda keys, _: dptally.publish(keys, key="k", **SKETCH),
    "publish Parquet": lambda keys, directory: dptally.publish(parquet(keys, directory), key="k", **SKETCH),
    "publish Parquet by unit": lambda keys, directory: dptally.publish(
        parquet(keys, directory), key="k", unit="u", **SKETCH
    ),
    "publish Polars": lambda keys, _: dptally.publish(pl.DataFrame(table(keys)), key="k", **SKETCH),
    "publish a LazyFrame": lambda keys, directory: dptally.publish(
        pl.scan_parquet(parquet(keys, directory)), key="k", **SKETCH
    ),
    "publish pandas": lambda keys, _: dptally.publish(
        table(keys).to_pandas(types_mapper=pd.ArrowDtype), key="k", **SKETCH
    ),
    "publish a relation": lambda keys, directory: dptally.publish(
        duckdb.connect().read_parquet(str(parquet(keys, directory))), key="k", **SKETCH
    ),
    "shell: publish": lambda keys, directory: by_shell(
        directory, "publish", parquet(keys, directory), "--key", "k", "--mechanism", "misra_gries", "--capacity", 4,
        *SHELL, "-o", directory / "r.parquet",
    ),
    "shell: sketch build, publish": lambda keys, directory: by_shell(
        directory, *BUILD, directory / "s", parquet(keys, directory),
        "then", "sketch", "publish", directory / "s", *SHELL, "-o", directory / "r.parquet",
    ),
    "shell: sketch build by unit, publish": lambda keys, directory: by_shell(
        directory, *BUILD, directory / "s", parquet(keys, directory), "--unit", "u",
        "then", "sketch", "publish", directory / "s", *SHELL, "-o", directory / "r.parquet",
    ),
    "shell: sketch build, merge, publish": lambda keys, directory: by_shell(
        directory, *BUILD, directory / "s", parquet(keys, directory),
        "then", "sketch", "merge", "--sum", directory / "s", "-o", directory / "m",
        "then", "sketch", "publish", directory / "m", *SHELL, "-o", directory / "r.parquet",
    ),
}  # fmt: skip


def as_numpy(keys: pa.Array) -> Any:
    """An array of a type that NumPy declares; it has no text or bytes of any length."""
    if pa.types.is_integer(keys.type):
        return keys.to_numpy()
    return np.array(keys.to_pylist(), dtype="U3" if pa.types.is_large_string(keys.type) else "S3")


@pytest.mark.parametrize(
    ("way", "declared"),
    [
        (way, declared)
        for way in DECLARED
        for declared in TYPES
        if declared in ("int64", "bytes") or not way.startswith(("publish", "shell"))  # these take longer
    ],
)
def test_a_declared_type_is_that_of_the_release(way: str, declared: str, tmp_path: Path) -> None:
    """No rows, nulls alone, and one row: the released schema is that of the declared type."""
    arrow, value, released = TYPES[declared]
    found = {}
    for rows, values in {"none": [], "one": [value], "a null": [None]}.items():
        if rows == "a null" and way.startswith(("NumPy", "shell")):
            continue  # NumPy has none
        found[rows] = schema(DECLARED[way](pa.array(values, arrow), tmp_path), tmp_path)
    assert set(found.values()) == {found["none"]}
    assert found["none"].types[0] == released


ODD: tuple[Any, ...] = ("a", 7, 2**70, 1.5, float("nan"), b"\xff", True, "\ud800", ("a", 1), object())
UNDECLARED: dict[str, Callable[[list[Any], Path], Any]] = {
    "list": lambda keys, _: of_elements(keys).publish(**PRIVACY),
    "iterator": lambda keys, _: of_elements(iter(keys)).publish(**PRIVACY),
    "NumPy objects": lambda keys, _: of_elements(objects(keys)).publish(**PRIVACY),
    "pandas objects": lambda keys, _: of_elements(pd.Series(objects(keys), dtype=object)).publish(**PRIVACY),
    "Polars objects": lambda keys, _: of_elements(pl.Series(keys, dtype=pl.Object)).publish(**PRIVACY),
    "lists of users": lambda keys, _: of_users([[key] for key in keys]).publish(**PRIVACY),
    "saved and loaded": lambda keys, directory: saved(of_elements(keys), directory).publish(**PRIVACY),
    "added up": lambda keys, _: dptally.sum_sketches([of_elements(keys)]).publish(**PRIVACY),
    "publish a list": lambda keys, _: dptally.publish(keys, key="k", **SKETCH),
    "publish pandas": lambda keys, _: dptally.publish(
        pd.DataFrame({"k": pd.Series(objects(keys), dtype=object)}), key="k", **SKETCH
    ),
    "never updated": lambda keys, _: (of_elements(keys) if keys else dptally.MisraGriesSketch(4)).publish(**PRIVACY),
}


def objects(keys: list[Any]) -> Any:
    """A NumPy array of them as they are."""
    made = np.empty(len(keys), dtype=object)
    made[:] = [None] * len(keys)
    for place, key in enumerate(keys):
        made[place] = key
    return made


@pytest.mark.parametrize("way", UNDECLARED)
def test_without_a_declared_type_keys_are_text(way: str, tmp_path: Path) -> None:
    """Whatever the values are, also such as have no text, there is a release, and its keys are text."""
    for keys in ([], [7], [None], ["\ud800"], ODD):
        found = schema(UNDECLARED[way](list(keys), tmp_path), tmp_path)
        assert found.types[0] == pa.large_string()


TEXT_FILES: dict[str, Callable[[list[str], Path], Path]] = {
    "csv": lambda keys, path: written(path, "k\n" + "".join(f"{key}\n" for key in keys)),
    "jsonl": lambda keys, path: written(path, "".join(json.dumps({"k": json.loads(key)}) + "\n" for key in keys)),
}


def written(path: Path, text: str) -> Path:
    """A file with that text."""
    path.write_text(text)
    return path


@pytest.mark.parametrize("ending", TEXT_FILES)
@pytest.mark.parametrize("kind", [None, "integer"])
def test_text_files_are_read_as_what_is_stated(ending: str, kind: Any, tmp_path: Path) -> None:
    """They declare no type: keys are text, or what the sketch was made for, and other values are left out."""
    path = tmp_path / f"rows.{ending}"
    for keys in ([], ["7"], ["1.5"], ["7"] * 500 + ["1.5"]):
        TEXT_FILES[ending](keys, path)
        sketch = dptally.MisraGriesSketch(4, kind=kind)
        sketch.update_file(path, key="k")
        assert schema(sketch.publish(**PRIVACY), tmp_path).types[0] == (pa.int64() if kind else pa.large_string())
    assert len(sketch) == (1 if kind else 2)
    options = ["--kind", kind] if kind else []
    facts = by_shell(
        tmp_path, *BUILD, tmp_path / "s", path, *options,
        "then", "sketch", "publish", tmp_path / "s", *SHELL, "-o", tmp_path / "r.parquet",
    )  # fmt: skip
    assert facts.table()["k"].to_list() == ([7] if kind else ["7"])


def test_a_database_declares_types(tmp_path: Path) -> None:
    """SQLite declares integers for a column, with or without rows."""
    found = []
    for rows in (0, 1):
        place = tmp_path / f"{rows}.db"
        connection = sqlite3.connect(place)
        connection.execute("CREATE TABLE t (k INTEGER)")
        connection.executemany("INSERT INTO t VALUES (?)", [(7,)] * rows)
        connection.commit()
        connection.close()
        found.append(schema(dptally.publish(f"sqlite:///{place}", table="t", key="k", **SKETCH), tmp_path))
    assert found[0] == found[1]
    assert found[0].types[0] == pa.int64()


# How values are read.


def counts_of(sketch: Any) -> dict[Any, int]:
    """What a sketch holds."""
    keys, counts = sketch.counters()
    return dict(zip(keys.to_pylist(), counts.tolist(), strict=True))


def test_a_list_is_read_as_what_the_sketch_holds() -> None:
    """As text, or as what was stated or declared before; what cannot be read so is left out."""
    mixed = [7, np.int8(7), "7", "x", 2**63, -1, True, 1.5, b"x", None]
    sketch = dptally.MisraGriesSketch(20)
    sketch.update(mixed)
    assert (sketch.kind, sketch.total) == ("string", 9)
    assert counts_of(sketch)["7"] == 3
    assert counts_of(updated(dptally.MisraGriesSketch(20, kind="integer"), mixed)) == {7: 2, -1: 1}
    assert counts_of(updated(dptally.MisraGriesSketch(20, kind="unsigned"), mixed)) == {7: 2, 2**63: 1}
    assert counts_of(updated(dptally.MisraGriesSketch(20, kind="bytes"), mixed)) == {b"x": 1}
    declared = dptally.MisraGriesSketch(20)
    assert counts_of(updated(declared, pa.array([], pa.int32()), mixed, pa.nulls(3))) == {7: 2, -1: 1}


def test_users_in_lists_lose_what_cannot_be_read() -> None:
    """And each keeps the rest: one user's values do not move into another's."""
    sketch = dptally.UserMisraGriesSketch(9, 2, kind="integer")
    sketch.update([[1, "x", 2], ["y"], [None, 2, 2], []])
    assert counts_of(sketch) == {1: 1, 2: 2}


def test_the_first_batch_decides_whether_or_not_it_has_rows(tmp_path: Path) -> None:
    """A batch that declares something else is refused, and changes nothing."""
    first: dict[str, tuple[Any, Any]] = {
        "integer": (pa.array([], pa.int64()), pa.array(["a"])),
        "unsigned": (np.array([], np.uint64), np.array([1])),
        "string": ([], pa.array([1])),
        "bytes": (pl.Series([], dtype=pl.Binary), pl.Series([], dtype=pl.String)),
    }
    for kind, (batch, other) in first.items():
        sketch = updated(dptally.MisraGriesSketch(4), batch)
        assert sketch.kind == kind
        for made in (sketch, saved(sketch, tmp_path)):
            with pytest.raises(InvalidSource, match=f"the keys of this sketch are of kind {kind}, and these"):
                made.update(other)
            assert (made.kind, made.total) == (kind, 0)


@pytest.mark.parametrize("rows", [0, 1])
def test_kinds_are_compared_as_declared(rows: int) -> None:
    """Sketches of different kinds are neither merged nor added up, also where one or both of them are empty."""
    numbers, words = of_elements(pa.array([7] * rows, pa.int64())), of_elements(pa.array([], pa.string()))
    with pytest.raises(InvalidParameter, match="keys of one kind to be merged"):
        numbers.merge(words)
    with pytest.raises(InvalidParameter, match="keys of one kind to be added up"):
        dptally.sum_sketches([numbers, words])
    assert numbers.merge(dptally.MisraGriesSketch(4)).kind == "integer"  # this one was given nothing at all


@pytest.mark.parametrize("rows", [0, 1])
@pytest.mark.parametrize(
    "kind",
    [pa.float64(), pa.bool_(), pa.date32(), pa.timestamp("us"), pa.decimal128(4, 1), pa.list_(pa.int64())],
    ids=str,
)
def test_other_types_are_refused_before_a_row_is_read(kind: pa.DataType, rows: int, tmp_path: Path) -> None:
    """Whether there are rows or not; nothing is spent."""
    keys = pa.nulls(rows, kind)
    with pytest.raises(InvalidSource, match="keys must be text, bytes or integers, not "):
        of_elements(keys)
    with pytest.raises(InvalidSource, match="keys must be text, bytes or integers, not "):
        of_users(table(keys).select(["u", "k"]))
    ledger = Ledger(tmp_path / "budget.db", epsilon=1, delta="1e-6")
    with pytest.raises(DptallyError):
        dptally.publish(table(keys), key="k", ledger=ledger, **SKETCH)
    assert ledger.remaining()[0] == 1


@pytest.mark.parametrize("rows", [0, 1])
def test_a_universe_of_another_type_is_refused_before_anything_is_spent(rows: int, tmp_path: Path) -> None:
    """By the declared type, so that no rows and one row are refused alike."""
    ledger = Ledger(tmp_path / "budget.db", epsilon=1, delta=0)
    with pytest.raises(InvalidSource, match="keys of the universe 'words:3' are text"):
        of_elements(pa.array([7] * rows, pa.int64())).publish(1, universe="words:3", ledger=ledger)
    with pytest.raises(InvalidSource, match="keys of the universe 'uint64' are whole numbers"):
        of_elements(pa.array([b"7"] * rows, pa.binary())).publish(1, universe="uint64", ledger=ledger)
    assert ledger.history() == []
    release = of_elements(pa.array([2**64 - 1] * 900, pa.uint64())).publish(1, universe="uint64", ledger=ledger)
    assert 2**64 - 1 in release.table()["key"].to_list()


def test_counters_of_another_tool_are_text_unless_stated() -> None:
    """A mapping declares nothing, with and without counters; a table does."""
    for counters in ({}, {"a": 1}, {7: 1}):
        assert dptally.MisraGriesSketch.from_counters(counters, 4, 9).kind == "string"
        assert dptally.MisraGriesSketch.from_counters({}, 4, 9, kind="integer").kind == "integer"
    for keys in ([], [7]):
        rows = pa.table({"key": pa.array(keys, pa.int32()), "count": pa.array([1] * len(keys), pa.int64())})
        assert dptally.MisraGriesSketch.from_counters(rows, 4, 9).kind == "integer"
        with pytest.raises(InvalidSource, match="of kind string, and these are of kind integer"):
            dptally.MisraGriesSketch.from_counters(rows, 4, 9, kind="string")


def test_names_come_with_the_kind(tmp_path: Path) -> None:
    """A file without rows leaves the sketch with kind and names of its columns."""
    sketch = dptally.UserMisraGriesSketch(4)
    sketch.update_file(parquet(pa.array([], pa.uint64()), tmp_path), key="k", unit="u")
    assert (sketch.kind, sketch.names, sketch.total) == ("unsigned", ColumnNames("k", "u"), 0)
