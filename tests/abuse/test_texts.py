"""Numbers, schemes, universes, functions and SQL given as text: refused in one sentence, or read; never worse."""

from __future__ import annotations

import builtins
import socket
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dptally
from dptally.errors import InvalidParameter
from dptally.estimates.functions import frequency_function
from dptally.estimates.sql_text import check_sql
from dptally.exact import as_delta, as_epsilon, as_fraction
from dptally.laws.sampling_schemes import read_scheme
from dptally.randomness import SeededBits
from dptally.sources.engine import check_memory_limit
from dptally.universes import read_universe
from tests.abuse.limits import examples, refused_or_read, time_limit
from tests.abuse.mutations import NASTY

READERS: dict[str, Callable[[str], object]] = {
    "number": lambda text: as_fraction("number", text),
    "epsilon": as_epsilon,
    "delta": as_delta,
    "scheme": lambda text: repr(read_scheme(text).certain_from),
    "universe": lambda text: repr(read_universe(text)),
    "function": lambda text: frequency_function(text),
    "memory": check_memory_limit,
}
NUMBERS = st.sampled_from([text for text in NASTY if isinstance(text, str)]) | st.from_regex(
    r"\A[-+]?[0-9]{1,6}(\.[0-9]{1,6}|/[0-9]{1,6})?([eE][-+]?[0-9]{1,12})?\Z"
)
TEXTS = st.one_of(
    NUMBERS,
    st.text(max_size=40),
    st.builds("{}:{}".format, st.sampled_from(("ppswor", "priority", "table", "power", "capped", "words")), NUMBERS),
    st.builds("{}:{}:{}".format, st.sampled_from(("ppswor", "priority", "strings")), NUMBERS, NUMBERS),
    st.builds("integers:{}..{}".format, NUMBERS, NUMBERS),
)


@pytest.mark.parametrize("name", sorted(READERS))
@examples(150)
@given(text=TEXTS)
def test_texts(name: str, text: str) -> None:
    """A text is read, or refused with our own error, at once."""
    refused_or_read(READERS[name], text)


@pytest.mark.parametrize("text", ["1e999999999", "1e-999999999", "-1E1001", "0." + "0" * 9000 + "1"])
def test_endless_numbers(text: str) -> None:
    """A number of a billion digits is refused before anybody writes it out."""
    with time_limit(), pytest.raises(InvalidParameter, match="epsilon must have an exponent of at most 1000"):
        as_epsilon(text)
    with time_limit(), pytest.raises(InvalidParameter, match="epsilon must have an exponent of at most 1000"):
        as_epsilon(Decimal("1e999999"))


@pytest.mark.parametrize("text", ["priority:1/99999999999:1/1000", "ppswor:0.01:1999/1000"])
def test_schemes_that_take_long_to_be_certain(text: str) -> None:
    """A scheme that is certain only beyond any frequency is not followed there."""
    with time_limit():
        assert read_scheme(text).certain_from is None


def test_long_rates() -> None:
    """A rate with thousands of digits is refused."""
    with pytest.raises(InvalidParameter, match=r"rate must be a fraction of two numbers below 2\^512"):
        read_scheme("ppswor:1/" + "9" * 4000)


# ---- SQL ----

RELEASE = dptally.publish({"a": 500, "b": 300, "it's": 200}, epsilon=1, delta="1e-6", randomness=SeededBits(7))

REACHING = [
    "value IN (SELECT x FROM read_csv('{path}'))",
    "value IN (SELECT x FROM '{path}')",
    "EXISTS (SELECT x FROM read_csv('{path}'))",
    "(SELECT x FROM read_csv('{path}')) = 1",
    "value = ANY (SELECT x FROM read_csv('{path}'))",
    "read_csv('{path}') = 1",
    "\"read_csv\"('{path}') = 1",
    "value IN (VALUES (1))",
    "value IN (TABLE self)",
    "value IN (FROM read_csv('{path}'))",
    "E'\\'' = ' OR value IN (SELECT x FROM read_csv(''{path}'')) OR key = '",
    "'\\' = key OR value IN (SELECT x FROM read_csv(''{path}'')) OR key = '",
    "true -- ' \n OR value IN (SELECT x FROM read_csv('{path}'))",
    "true /* ' */ OR value IN (SELECT x FROM read_csv('{path}')) -- '",
    "$$'$$ = key OR value IN (SELECT x FROM read_csv('{path}')) OR key = '",
    "WITH t AS (SELECT 1) SELECT 1",
    "true; SELECT 1",
    "load_file('{path}') = 'a'",
    "scan_parquet('https://127.0.0.1:9/x.parquet')",
]


@pytest.mark.parametrize("text", REACHING)
def test_sql_reaches_no_file(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """SQL that tries to reach a file or the network is refused before Polars sees it."""
    path = tmp_path / "secret.csv"
    path.write_text("x\n1\n")

    def never(*_: object, **__: Any) -> object:
        raise AssertionError("Polars was asked")

    monkeypatch.setattr(pl, "sql_expr", never)
    monkeypatch.setattr(socket, "socket", never)
    monkeypatch.setattr(builtins, "open", never)
    for ask in (lambda sql: RELEASE.sum(sql), lambda sql: RELEASE.sum(times=sql)):
        with pytest.raises(InvalidParameter, match=r"(where|times) (must not|is not)"):
            ask(text.format(path=path))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("value IN (SELECT 1)", "where must not hold SELECT"),
        ("lpad(key, 1000000000, 'x') = key", "where must not call lpad"),
        ("1+" * 400 + "1 > 0", "where must have at most 400 names and operators"),
        ("key = '" + "x" * (1 << 20) + "'", "where must have at most 1048576 characters"),
        ("key = E'a'", "where is not an expression: character 7 cannot be read"),
        ("CAST(value AS DECIMAL(1000, 2)) > 1", "where must not call decimal"),
        ("key ~ '((a{1000}){1000}){1000}'", "where cannot be evaluated"),
    ],
)
def test_refused_sql(text: str, message: str) -> None:
    """Each refusal says what it is about."""
    with time_limit(), pytest.raises(InvalidParameter, match=message):
        RELEASE.sum(text)


@pytest.mark.parametrize(
    "text",
    [
        "key LIKE 'a%'",
        "key = 'it''s'",
        '"key" IN (' + ", ".join(f"'k{number}'" for number in range(5000)) + ")",
        "NOT (length(key) > 1 AND value BETWEEN 10 AND 1e6)",
        "CASE WHEN key < 'b' THEN value > 1 ELSE false END",
        "key ~ '^[a-b]+$' OR substring(key from 1 for 1) = 'i'",
        "coalesce(nullif(upper(trim(key)), 'A'), 'x') <> 'x'",
        "CAST(value AS double) / 2 >= 1.5",
        "key IS DISTINCT FROM 'a'",
        "(a+)+$ <> key".replace("(a+)+$", "'(a+)+$'"),
    ],
)
def test_admitted_sql(text: str) -> None:
    """Ordinary conditions go through, long lists too."""
    with time_limit():
        check_sql("where", text)
        RELEASE.sum(text)


def test_regular_expressions_take_linear_time() -> None:
    """A pattern that makes backtracking engines take exponential time is no trouble."""
    release = dptally.publish({"a" * 5000: 500}, epsilon=1, delta="1e-6", randomness=SeededBits(7))
    with time_limit():
        assert release.sum("key ~ '^(a+)+b$'").keys == 0


WORDS = st.sampled_from(
    "key value estimate AND OR NOT IN LIKE IS NULL CASE WHEN THEN ELSE END CAST AS INT TEXT DATE BETWEEN lower( "  # noqa: SIM905
    "length( round( coalesce( ( ) , + - * / % = <> < > || :: ~ . 'a' '' '%' 1 0 1e400 99999999999999999999 "
    "0.5 -1 SELECT FROM EXISTS read_csv( DISTINCT true false".split()
)


@examples(150)
@given(parts=st.lists(WORDS, max_size=12))
def test_random_sql(parts: list[str]) -> None:
    """Any sequence of words is evaluated, or refused with our own error."""
    refused_or_read(lambda text: RELEASE.sum(text), " ".join(parts))
    refused_or_read(lambda text: RELEASE.sum(times=text), " ".join(parts))


@examples(80)
@given(text=st.text(max_size=60))
def test_any_text_as_sql(text: str) -> None:
    """Any text is evaluated, or refused with our own error."""
    refused_or_read(lambda given: RELEASE.sum(given), text)
