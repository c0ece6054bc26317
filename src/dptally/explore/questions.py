"""What the page asks of a release: the rows that meet a condition, a page of them at a time, and their sum."""

from __future__ import annotations

import math
from functools import cached_property
from typing import TYPE_CHECKING, Any

from dptally.errors import InvalidParameter
from dptally.estimates.sql_text import read_expression
from dptally.labels import key_label

if TYPE_CHECKING:
    import polars as pl

    from dptally.estimates.subset_sums import Sum
    from dptally.releases.table_release import TableRelease

PAGE_ROWS = 25
LONGEST_CONDITION = 1000
_LONGEST_KEY = 120
_FUNCTIONS = ("count", "keys")


class Questions:
    """Answers about one release."""

    def __init__(self, release: TableRelease) -> None:
        self.release = release

    @cached_property
    def _table(self) -> pl.DataFrame:
        """All rows with their ranks, most frequent first; without values in the order of keys.

        Their intervals hold for all keys at once, and so for whichever rows a condition on values leaves.
        """
        import polars as pl

        rows = self.release.top(len(self.release))
        return rows.with_columns(pl.int_range(1, len(rows) + 1).alias("__rank"))

    def answer(self, asked: dict[str, Any]) -> dict[str, Any]:
        """The sum over the keys that meet a condition, and a page of those that were released.

        Asked: `where`, SQL text on the columns, or empty for all; `of`, "count" or "keys"; `page`, from 0.
        """
        where, of, page = asked.get("where", ""), asked.get("of", "count"), asked.get("page", 0)
        if not isinstance(where, str) or len(where) > LONGEST_CONDITION:
            raise InvalidParameter(f"the condition must be text of at most {LONGEST_CONDITION:,} characters.")
        if of not in _FUNCTIONS:
            raise InvalidParameter("what is added up must be 'count' or 'keys'.")
        if isinstance(page, bool) or not isinstance(page, int) or not 0 <= page < 10**9:
            raise InvalidParameter("the page must be a whole number from 0 on.")
        condition = where.strip() or None
        found = self.release.sum(condition, of)
        chosen = self._chosen(condition)
        pages = max(1, math.ceil(len(chosen) / PAGE_ROWS))
        place = min(page, pages - 1)
        rows = chosen.slice(place * PAGE_ROWS, PAGE_ROWS)
        return {
            "sum": _in_words(found, of),
            "rows": self._rows(rows),
            "found": len(chosen),
            "page": place,
            "pages": pages,
        }

    @property
    def columns(self) -> list[str]:
        """Headings of the rows."""
        names = [key_label(name, longest=40) for name in self.release.key]
        return ["Rank", *names, "Estimate", "At least", "At most"] if self.release.law.values else ["Place", *names]

    def _chosen(self, condition: str | None) -> pl.DataFrame:
        import polars as pl

        if condition is None:
            return self._table
        try:
            return self._table.filter(read_expression("where", condition))
        except pl.exceptions.PolarsError as error:
            sentence = str(error).splitlines()[0]
            raise InvalidParameter(f"where cannot be evaluated on the release: {sentence}") from None

    def _rows(self, rows: pl.DataFrame) -> list[list[str]]:
        keys = [rows.get_column(name).to_list() for name in self.release.key]
        cells = [[key_label(part, longest=_LONGEST_KEY) or "(empty)" for part in column] for column in keys]
        ranks = [f"{rank:,}" for rank in rows.get_column("__rank").to_list()]
        numbers: list[list[str]] = []
        if self.release.law.values:
            numbers = [[f"{found:,}" for found in rows.get_column(name)] for name in ("estimate", "lower", "upper")]
        return [list(row) for row in zip(ranks, *cells, *numbers, strict=True)]


def _in_words(found: Sum, of: str) -> dict[str, Any]:
    """A sum for the page, without numbers that JSON lacks."""
    numbers = {"estimate": found.estimate, "lower": found.lower, "upper": found.upper}
    known = {name: part if math.isfinite(part) else None for name, part in numbers.items()}
    return {**known, "keys": found.keys, "of": of, "text": f"{'Keys' if of == 'keys' else 'Counts'}: {found}"}
