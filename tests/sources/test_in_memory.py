"""Mappings, iterables, arrays and series in, counts out."""

from __future__ import annotations

import decimal
from collections import Counter
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dptally.errors import InvalidParameter, InvalidSource
from dptally.sources import open_rows
from tests.sources.counting import counts_of


@settings(max_examples=40, deadline=None)
@given(st.lists(st.text()))
def test_iterables_are_counted(keys: list[str]) -> None:
    """Lists and generators give what collections.Counter gives."""
    assert counts_of(keys) == Counter(keys)
    assert counts_of(key for key in keys) == Counter(keys)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(st.text(), st.integers(-(2**70), 2**70))))
def test_tuples_are_keys_of_several_columns(keys: list[tuple[str, int]]) -> None:
    """Each part of a tuple is a column of text."""
    assert counts_of(keys, key=["x", "y"]) == Counter((text, str(number)) for text, number in keys)


@settings(max_examples=40, deadline=None)
@given(st.dictionaries(st.text(), st.integers(0, 2**62)))
def test_mappings_are_counts(counts: dict[str, int]) -> None:
    """A mapping gives its counts; zeros are no keys."""
    assert counts_of(counts) == {key: count for key, count in counts.items() if count}


def test_long_iterables_arrive_whole() -> None:
    """Keys beyond the first pieces are counted, also after many nulls at the start."""
    keys = [None] * 70_000 + ["a", "b", None] * 70_000
    for source in (keys, iter(keys)):
        assert counts_of(source) == {"a": 70_000, "b": 70_000}
    assert counts_of(iter(keys), nulls="keep") == {"a": 70_000, "b": 70_000, None: 140_000}
    assert counts_of(range(200_000)) == dict.fromkeys(map(str, range(200_000)), 1)


@pytest.mark.parametrize(
    "source",
    [
        np.array([1, 2, 1]),
        pl.Series([1, 2, 1]),
        pl.Series([1, 2, 1]).shuffle(seed=1),
        pd.Series([1, 2, 1]),
        pd.Index([1, 2, 1]),
        pa.array([1, 2, 1]),
        pa.chunked_array([[1, 2], [1]]),
    ],
    ids=lambda source: type(source).__name__,
)
def test_arrays_and_series(source: Any) -> None:
    """All one-dimensional containers with a type of their own are read alike, and keep it."""
    assert counts_of(source) == {1: 2, 2: 1}


@pytest.mark.parametrize(
    "source",
    [
        np.array([1, 2, 1], dtype=object),
        pd.Series([1, 2, 1], dtype=object),
        pd.Index([1, 2, 1], dtype=object),
        [1, 2, 1],
        (1, 2.0, decimal.Decimal("1.0")),
        {1: 2, 2: 1},
    ],
    ids=lambda source: type(source).__name__,
)
def test_containers_of_objects(source: Any) -> None:
    """Objects declare no type: they become text, or the type that is stated."""
    assert counts_of(source) == {"1": 2, "2": 1}
    assert counts_of(source, types={"key": "int64"}) == {1: 2, 2: 1}


def test_names_of_keys() -> None:
    """Keys are named key, or as asked; how many columns there are depends on the names alone."""
    sources: list[Any] = [["a"], [("a", 1)], [], {}]
    for source in sources:
        assert open_rows(source, key=None, unit=None).key == ("key",)
        assert open_rows(source, key=["x", "y"], unit=None).key == ("x", "y")
    assert counts_of([("a", 1), ("a", 1.0), "a"]) == {'["a",1]': 2, "a": 1}
    mixed = [("a", 1), "a", ("a",), ("a", 1, 2), None]
    assert counts_of(mixed, key=["x", "y"]) == {("a", "1"): 1}
    assert counts_of(mixed, key=["x", "y"], nulls="keep") == {("a", "1"): 1, (None, None): 4}
    with pytest.raises(InvalidParameter, match="key names 2 columns, but the source holds 1"):
        open_rows(np.array([1]), key=["x", "y"], unit=None)


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ({"a": 1.0}, "the counts of a mapping must be integers"),
        ({"a": True}, "the counts of a mapping must be integers"),
        ({"a": -1}, "must be between 0 and"),
        ({"a": 2**62 + 1}, "must be between 0 and"),
        ((1 / 0 for _ in "a"), "the source raised ZeroDivisionError while it was read"),
        (np.array([1j]), "the array has a dtype that cannot be a key"),
    ],
)
def test_bad_keys(source: Any, message: str) -> None:
    """Each bad input has its own sentence."""
    with pytest.raises(InvalidSource, match=message):
        counts_of(source)


def test_bad_sources() -> None:
    """What is no source at all, or has no columns to name, is a bad request."""
    for source in (7, None, b"bytes", object()):
        with pytest.raises(InvalidParameter, match="source must be a path, a table, a mapping"):
            open_rows(source, key=None, unit=None)
    with pytest.raises(InvalidParameter, match="this source holds keys only"):
        open_rows(["a"], key=None, unit="u")
    with pytest.raises(InvalidParameter, match="must have one dimension, got 2"):
        open_rows(np.zeros((2, 2)), key=None, unit=None)
