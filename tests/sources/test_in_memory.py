"""Mappings, iterables, arrays and series in, counts out."""

from __future__ import annotations

import datetime as dt
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

KEYS = st.one_of(
    st.lists(st.text()),
    st.lists(st.binary()),
    st.lists(st.integers(-(2**63), 2**63 - 1)),
    st.lists(st.booleans()),
    st.lists(st.dates()),
    st.lists(st.datetimes()),
    st.lists(st.tuples(st.text(), st.integers(0, 3))),
)


@settings(max_examples=40, deadline=None)
@given(KEYS)
def test_iterables_are_counted(keys: list[Any]) -> None:
    """Lists and generators give what collections.Counter gives."""
    assert counts_of(keys) == Counter(keys)
    assert counts_of(key for key in keys) == Counter(keys)


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
    assert counts_of(range(200_000)) == dict.fromkeys(range(200_000), 1)


@pytest.mark.parametrize(
    "source",
    [
        np.array([1, 2, 1]),
        np.array([1, 2, 1], dtype=object),
        pl.Series([1, 2, 1]),
        pl.Series([1, 2, 1]).shuffle(seed=1),
        pd.Series([1, 2, 1]),
        pd.Index([1, 2, 1]),
        pa.array([1, 2, 1]),
        pa.chunked_array([[1, 2], [1]]),
        (1, 2, 1),
        {1: 2, 2: 1},
    ],
    ids=lambda source: type(source).__name__,
)
def test_arrays_and_series(source: Any) -> None:
    """All one-dimensional containers are read alike."""
    assert counts_of(source) == {1: 2, 2: 1}


def test_names_of_keys() -> None:
    """Keys are named key, or key_1, key_2, ... when they are tuples, or as asked."""
    assert open_rows(["a"], key=None, unit=None).key == ("key",)
    assert open_rows([("a", 1)], key=None, unit=None).key == ("key_1", "key_2")
    assert open_rows([("a", 1)], key=["x", "y"], unit=None).key == ("x", "y")
    assert open_rows([], key=["x", "y"], unit=None).key == ("x", "y")
    assert open_rows({}, key=None, unit=None).key == ("key",)
    with pytest.raises(InvalidParameter, match="key names 1 columns, but the keys have 2"):
        open_rows([("a", 1)], key="x", unit=None)


def test_types_of_python_keys() -> None:
    """Zones are brought to UTC, numpy scalars are numbers, and 1 is not True."""
    berlin = dt.timezone(dt.timedelta(hours=1))
    noon = dt.datetime(2020, 1, 1, 12, tzinfo=dt.UTC)
    assert counts_of([noon, noon.astimezone(berlin)]) == {noon: 2}
    assert counts_of([np.int64(1), 1]) == {1: 2}
    assert [type(key) for key in counts_of([True, True])] == [bool]


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (["a", 1], "the keys are of several types"),
        (["a", b"a"], "the keys are of several types"),
        ([1, True], "the keys are of several types"),
        ([1, 1.0], "the keys are of several types"),
        (["a"] * 70_000 + [1], "the keys are of several types"),
        ([dt.datetime(2020, 1, 1), dt.datetime(2020, 1, 1, tzinfo=dt.UTC)], "some keys have a time zone"),
        ([("a", 1), "a"], "some keys are tuples"),
        ([("a", 1), ("a",)], "the same number of parts"),
        ([object()], "keys must be str, bytes, int"),
        ([2**63], "integers must fit in 64 bits"),
        (["\ud800"], "text must be valid Unicode"),
        ({"a": 1.0}, "the counts of a mapping must be integers"),
        ({"a": True}, "the counts of a mapping must be integers"),
        ({"a": -1}, "must be between 0 and"),
        ({"a": 2**62 + 1}, "must be between 0 and"),
        ({"a": 1, 2: 1}, "the keys are of several types"),
        ((1 / 0 for _ in "a"), "the source raised ZeroDivisionError while it was read"),
        (pd.Series(["a", 1]), "mixes values of several types"),
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
