"""Who is one unit: numbers that are equal as numbers, however they are written; text never equals a number.

To split a unit would double its influence, to merge two would lose one. The reference is Python's `Fraction`.
"""

from __future__ import annotations

import decimal
import json
import sqlite3
import tempfile
from fractions import Fraction
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from dptally.errors import InvalidSource
from dptally.sources.undeclared import canonical_decimal, identity, label, read_json
from tests.sources.counting import counts_of

ONE_HUNDRED = ["100", "100.0", "1e2", "1E+2", "100.00", "10e1", "1000e-1", "0.1e3"]
BIG = ["9007199254740992", "9007199254740993", "9007199254740993.0", "9.007199254740993e15"]
"""2^53 and, three times, 2^53 + 1."""

LITERALS = st.builds(
    lambda sign, whole, part, exponent: f"{sign}{whole}{part}{exponent}",
    st.sampled_from(["", "-"]),
    st.integers(0, 10**22).map(str),
    st.one_of(st.just(""), st.integers(0, 10**20).map(lambda n: f".{n}"), st.just(".000"), st.just(".10")),
    st.one_of(st.just(""), st.integers(-330, 330).map(lambda n: f"e{n}"), st.integers(-9, 9).map(lambda n: f"E{n:+d}")),
)


def counted(values: list[str], **request: Any) -> dict[Any, int]:
    """JSON values as the field u of lines that have x in the field k."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.jsonl"
        path.write_text("".join(f'{{"u": {value}, "k": "x"}}\n' for value in values))
        return counts_of(path, **request)


def units_in(values: list[str]) -> int:
    """How many units dptally sees in JSON values."""
    return counted(values, key="k", unit="u").get("x", 0)


def keys_in(values: list[str]) -> set[str]:
    """Which keys dptally sees in JSON values."""
    return set(counted(values, key="u"))


def meant(line: str) -> Any:
    """What a JSON value is: numbers as fractions."""

    def plain(value: Any) -> Any:
        if isinstance(value, dict):
            return ("object", frozenset((name, plain(member)) for name, member in value.items()))
        if isinstance(value, list):
            return ("list", tuple(map(plain, value)))
        return (type(value).__name__, value)

    return plain(json.loads(line, parse_int=Fraction, parse_float=Fraction))


@settings(max_examples=15, deadline=None)
@given(st.lists(st.one_of(LITERALS, st.sampled_from(ONE_HUNDRED + BIG)), min_size=1, max_size=30))
@example(ONE_HUNDRED)
@example(BIG)
@example(["0", "-0", "0.0", "-0.0", "0e5", "-0E-7"])
@example(["0.1", "0.10000000000000000001", "1e-1", "0.1000000000000000055511151231257827"])
@example(
    [
        "0.00000000000001",
        "1e-14",
        "123456789012345",
        "12345678901234.5",
        "18446744073709551616",
        "1.8446744073709551616e19",
    ]
)
def test_numbers_of_json(literals: list[str]) -> None:
    """As many units as there are different numbers, never through a float."""
    assert units_in(literals) == len({Fraction(literal) for literal in literals})


VALUES = st.recursive(
    st.one_of(LITERALS, st.text().map(json.dumps), st.sampled_from(["true", "false", '"true"', '"100"', *ONE_HUNDRED])),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3).map(lambda items: f"[{', '.join(items)}]"),
        st.dictionaries(st.text(max_size=3).map(json.dumps), inner, max_size=3).map(
            lambda members: "{" + ",".join(f"{name}: {value}" for name, value in members.items()) + "}"
        ),
    ),
    max_leaves=6,
)


@settings(max_examples=15, deadline=None)
@given(st.lists(VALUES, min_size=1, max_size=12))
@example(
    [
        '{"a": 1, "b": [2.0]}',
        '{"b":[2],"a":1.0}',
        '["a"]',
        '"[\\"a\\"]"',
        "1",
        '"1"',
        "true",
        '"true"',
        '"ntrue"',
        '"n1"',
    ]
)
def test_values_of_json(values: list[str]) -> None:
    """Text, numbers and truth values are never equal; nested values are if all in them is, in any order of names."""
    assert units_in(values) == len({meant(value) for value in values})
    assert keys_in(values) == {label(read_json(value)) for value in values}


def test_odd_json() -> None:
    """Null, nothing and what has no reading is no unit; exponents take no memory; a line must be an object."""
    assert units_in(["null", "1e999999999", "10e999999998", "1e-999999999", '"\\ud800"', "1" * 5000]) == 2
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.jsonl"
        path.write_text('{"u": 1, "k": "x", "u": 2}\n\n  {"u": 1.0, "k": "x"}  \r\n{"k": "x"}\n{"U": 7, "k": "x"}')
        assert counts_of(path, key="k", unit="u") == {"x": 1}  # of members with one name the first counts
        assert counts_of(path, key="no such field") == {}
        path.write_text('{"u": 1}\n' * 200 + "[1]\n")
        with pytest.raises(InvalidSource, match="must hold one JSON object a line"):
            counts_of(path, key="u")


NUMBERS: list[Any] = [
    100, 100.0, decimal.Decimal("100.00"), decimal.Decimal("1E+2"), np.int8(100), np.float32(100.0),
    2**53, 2**53 + 1, float(2**53), decimal.Decimal(2**53 + 1),
    0, -0.0, decimal.Decimal("-0.00"), 0.1, decimal.Decimal("0.1"), 0.5, decimal.Decimal("0.50"), np.float16(0.5),
    2**70, float(2**70), 5e-324, 1.7976931348623157e308, decimal.Decimal("1e400"),
]  # fmt: skip
OTHERS: list[Any] = ["100", "100.0", "n100", True, "true", b"100", np.bool_(True), False]


def test_objects() -> None:
    """Python objects, alone and in a pandas column: numbers by their value, and each other kind for itself."""
    different = {Fraction(value) if not isinstance(value, np.generic) else Fraction(value.item()) for value in NUMBERS}
    assert len({identity(value) for value in NUMBERS}) == len(different)
    assert len({identity(value) for value in NUMBERS + OTHERS}) == len(different) + len(OTHERS) - 1
    column = pd.Series(NUMBERS + OTHERS, dtype=object)
    frame = pd.DataFrame({"u": column, "k": "x"})
    expected = {"x": len(different) + len(OTHERS) - 1}
    for engine in ("duckdb", "polars"):
        assert counts_of(frame, key="k", unit="u", engine=engine) == expected
    assert (
        counts_of(frame.assign(u=pd.Categorical([identity(value) for value in column])), key="k", unit="u") == expected
    )


def test_sqlite(tmp_path: Path) -> None:
    """A column without a type: whole and other numbers are compared as numbers, text and bytes are neither."""
    connection = sqlite3.connect(tmp_path / "a.db")
    connection.execute("CREATE TABLE t (u, k TEXT)")
    values = [100, 100.0, "100", b"100", 2**53, 2**53 + 1, float(2**53), 0.5, -0.0, 0, "0.5", 1e300, float("inf"), None]
    connection.executemany("INSERT INTO t VALUES (?, 'x')", [(value,) for value in values])
    connection.commit()
    connection.close()
    assert counts_of(f"sqlite:///{tmp_path / 'a.db'}", table="t", key="k", unit="u") == {"x": 9}


def test_declared_units(tmp_path: Path) -> None:
    """Declared columns: text is text, 2^53 + 1 stays itself, and JSON columns are read as JSON files are."""
    (tmp_path / "a.csv").write_text("u,k\n100,x\n100.0,x\n0100,x\n")
    assert counts_of(tmp_path / "a.csv", key="k", unit="u") == {"x": 3}
    assert counts_of(tmp_path / "a.csv", key="k", unit="u", types={"u": "int64"}) == {"x": 1}
    assert counts_of(tmp_path / "a.csv", key="k", unit="u", types={"u": "decimal(9,1)"}) == {"x": 1}
    table = pa.table({"u": [2**53, 2**53 + 1, 2**53 + 1], "k": ["x"] * 3})
    assert counts_of(table, key="k", unit="u") == {"x": 2}
    zeros = pa.table({"u": [0.0, -0.0, 1.0], "k": ["x"] * 3})
    assert counts_of(zeros, key="k", unit="u") == {"x": 2}
    relation = duckdb.connect().sql(
        """SELECT unnest(['100', '100.0', '1e2', '"100"', '0.10000000000000000001', '0.1'])::JSON AS u, 'x' AS k"""
    )
    assert counts_of(relation, key="k", unit="u") == {"x": 4}


def test_files_of_different_types(tmp_path: Path) -> None:
    """Files that declare the unit with different types are refused by their footers, also where they have no rows."""
    for rows in (3, 0):
        pq.write_table(pa.table({"u": [1, 2, 3], "k": ["x"] * 3}).slice(0, rows), tmp_path / "a.parquet")
        pq.write_table(pa.table({"u": [1.0, 2.0, 3.0], "k": ["x"] * 3}).slice(0, rows), tmp_path / "b.parquet")
        with pytest.raises(InvalidSource, match=r"column 'u' has the type BIGINT in .* and DOUBLE in"):
            counts_of(str(tmp_path / "*.parquet"), key="k", unit="u")


@settings(max_examples=200, deadline=None)
@given(LITERALS)
@example("1e64")
@example("1e-63")
@example("123e-66")
def test_canonical_decimals(literal: str) -> None:
    """A canonical decimal is the same number, and its own canonical decimal."""
    written = canonical_decimal(literal)
    assert written is not None and Fraction(written) == Fraction(literal)
    assert canonical_decimal(written) == written
    assert len(written) <= 66 or "e" in written


@settings(max_examples=200, deadline=None)
@given(st.floats(allow_nan=False, allow_infinity=False))
def test_labels_of_floats(number: float) -> None:
    """The label of a float reads back as the float; its identity is its exact value."""
    assert float(label(number) or "nan") == number
    assert Fraction((identity(number) or "n")[1:]) == Fraction(number)
