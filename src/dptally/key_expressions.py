"""SQL text on the columns of a release, read so that it reaches nothing else.

Polars parses SQL text with subqueries, and table functions in a subquery open files and addresses on the network while
the text is parsed. So the text is looked at before it is parsed: what could begin a subquery is refused.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from dptally.errors import InvalidParameter

if TYPE_CHECKING:
    import polars as pl

__all__ = ["LONGEST_TEXT", "read_expression"]

LONGEST_TEXT = 10_000
# A quote right after a letter would begin a literal with escapes of its own, such as E'..', and is left standing.
_QUOTED = re.compile(r"""(?<![\w&$@])(?:'(?:[^']|'')*'|"(?:[^"]|"")*")""")
_ODD = re.compile(r"""['"`;$\\]|--|/\*""")
# Only words in upper case are looked for: the text is put in upper case first, as the parser does.
_SUBQUERY = re.compile(r"\b(?:SELECT|VALUES|TABLE|WITH|LATERAL|UNNEST)\b|\(\s*FROM\b")


def read_expression(name: str, text: str) -> pl.Expr:
    """Read SQL text as a Polars expression that can look at the columns of one table and nothing else.

    Text in plain single quotes and names in double quotes may hold anything. Outside of them, comments, other kinds of
    quotes and every word that begins a subquery are refused, so no table function is ever reached.

    Args:
        name: what the text is called in messages.
        text: such as ``query LIKE 'a%'``.

    Raises:
        InvalidParameter: for text that is too long, may reach beyond the table, or is no expression.

    >>> str(read_expression("where", "word = 'select'"))
    '[(col("word")) == ("select")]'
    """
    import polars as pl

    if len(text) > LONGEST_TEXT:
        raise InvalidParameter(f"{name} must have at most {LONGEST_TEXT:,} characters, got {len(text):,}.")
    bare = _QUOTED.sub(" q ", text).upper()
    if _ODD.search(bare):
        raise InvalidParameter(
            f"{name} cannot be evaluated on the release: it must be one SQL expression without comments, with plain "
            "quotes."
        )
    if _SUBQUERY.search(bare):
        raise InvalidParameter(f"{name} must be an expression on the columns of the release, without subqueries.")
    try:
        return pl.sql_expr(text)
    except pl.exceptions.PolarsError as error:
        raise InvalidParameter(f"{name} cannot be evaluated on the release: {str(error).splitlines()[0]}") from None
