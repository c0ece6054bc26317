"""SQL text on a release reaches the release and nothing else."""

from __future__ import annotations

import http.server
import threading
from pathlib import Path

import polars as pl
import pytest

import dptally
from dptally.errors import InvalidParameter
from dptally.estimates.sql_text import read_expression

FINE = (
    "word LIKE 'a%'",
    "word = 'it''s' OR word = 'select from' OR word = '-- no comment'",
    "\"word\" IN ('a', 'b')",
    "word ~ '^\\w+$'",
    "EXTRACT(year FROM day) = 2024",
    "TRIM(LEADING 'x' FROM word) = 'a'",
    "word IS DISTINCT FROM 'b'",
    'größe > 5 AND "naïve ; -- column" = 1',
    "NOT (size BETWEEN 1 AND 2)",
    "CASE WHEN size > 1 THEN TRUE ELSE FALSE END",
)
SUBQUERIES = (
    "word IN (SELECT column_1 FROM read_csv('{file}'))",
    "word IN (select * from read_csv('{file}'))",
    "word IN (ſelect * FROM read_csv('{file}'))",
    "word IN (FROM read_csv('{file}'))",
    "word IN ( \n FROM read_csv('{file}'))",
    "word IN (WITH t AS (FROM read_csv('{file}')) FROM t)",
    "word IN (VALUES ('a'))",
    "EXISTS (SELECT * FROM read_parquet('{file}'))",
    "word = (SELECT max(column_1) FROM read_csv('{file}'))",
    "word = 'a' OR word IN (SELECT 'b')",
)
ODD = (
    "word = E'\\'' OR word IN (SELECT column_1 FROM read_csv('{file}')) OR word = '",
    "word = $$a$$",
    "word = 'a' -- comment",
    "word /* comment */ = 'a'",
    "word = 'a'; DROP TABLE x",
    "word = 'open",
    'word = "open',
    "word = N'a'",
    "word = U&'a'",
)


@pytest.mark.parametrize("text", FINE)
def test_expressions_on_columns_are_read(text: str) -> None:
    """Whatever stands in plain quotes is text, and FROM inside functions is no subquery."""
    assert isinstance(read_expression("where", text), pl.Expr)


@pytest.mark.parametrize("text", SUBQUERIES)
def test_subqueries_are_refused(text: str, tmp_path: Path) -> None:
    """Every way to begin a subquery is refused before the text is parsed."""
    with pytest.raises(InvalidParameter, match="where must not hold"):
        read_expression("where", text.format(file=tmp_path / "secret.csv"))


@pytest.mark.parametrize("text", ODD)
def test_other_quotes_and_comments_are_refused(text: str, tmp_path: Path) -> None:
    """What could make the text read differently than it looks is refused."""
    with pytest.raises(InvalidParameter, match="where is not an expression: character"):
        read_expression("where", text.format(file=tmp_path / "secret.csv"))


def test_no_file_is_read_and_no_server_asked(tmp_path: Path) -> None:
    """A condition that names a file or an address leads to neither; that the engine would go there is shown first."""
    asked: list[str] = []

    class Listener(http.server.BaseHTTPRequestHandler):
        """Notes who comes."""

        def do_HEAD(self) -> None:
            asked.append(self.path)
            self.send_error(404)

        def do_GET(self) -> None:
            self.do_HEAD()

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            """Say nothing."""

    secret = tmp_path / "secret.csv"
    secret.write_text("hidden-heading\nhidden-value\n")
    release = dptally.publish({"a": 1000}, epsilon=1, delta="1e-6")
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Listener) as server:
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        address = f"http://127.0.0.1:{server.server_port}/x.csv"
        with pytest.raises(pl.exceptions.PolarsError, match="hidden-heading"):
            pl.sql_expr(f"key = (SELECT max(nothing) FROM read_csv('{secret}'))")  # noqa: S608 - why it matters
        for target in (secret, address):
            for begin in ("SELECT * FROM", "FROM"):
                text = f"key IN ({begin} read_csv('{target}'))"
                with pytest.raises(InvalidParameter, match="must not hold") as refusal:
                    release.sum(text)
                assert "hidden" not in str(refusal.value)
                with pytest.raises(InvalidParameter, match="times must not hold"):
                    release.sum(times=text)
        server.shutdown()
    assert asked == []


def test_text_that_is_no_expression_or_too_long() -> None:
    """One sentence each."""
    with pytest.raises(InvalidParameter, match="where cannot be evaluated on the release"):
        read_expression("where", "word LIKE")
    with pytest.raises(InvalidParameter, match="where must have at most 1048576 characters"):
        read_expression("where", "x" * ((1 << 20) + 1))
