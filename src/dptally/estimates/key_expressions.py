"""SQL text on the columns of a release, read so that it reaches nothing else."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dptally.errors import InvalidParameter
from dptally.estimates.sql_text import check_sql

if TYPE_CHECKING:
    import polars as pl

__all__ = ["read_expression"]


def read_expression(name: str, text: str) -> pl.Expr:
    """Read SQL text as a Polars expression that can look at the columns of one table and nothing else.

    Args:
        name: what the text is called in messages.
        text: such as ``query LIKE 'a%'``.

    Raises:
        InvalidParameter: for text that is too long, may reach beyond the table, or is no expression.

    >>> str(read_expression("where", "word = 'select'"))
    '[(col("word")) == ("select")]'
    """
    import polars as pl

    check_sql(name, text)
    try:
        return pl.sql_expr(text)
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
        raise InvalidParameter(f"{name} cannot be evaluated on the release: {str(error).splitlines()[0]}") from None
