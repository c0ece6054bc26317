"""What every kind of source comes down to: a few columns that DuckDB can read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from dptally.sources.engine import Session


@dataclass(frozen=True, repr=False)
class Scan:
    """The wanted columns of a source, not read yet."""

    # DuckDB type of each wanted column, in the order they were asked for, from declarations alone: no value has a say
    # in them. JSON is text that holds one JSON value
    types: tuple[str, ...]
    # makes the source readable in a session and returns SQL that selects the wanted columns as c0, c1, ...
    attach: Callable[[Session], str]
    # positions of columns without a declared type. They come as text (VARCHAR), every value by the rule of
    # `dptally.sources.undeclared`, or as JSON
    undeclared: frozenset[int] = frozenset()
    text: bool = False  # whether the source is a text file, CSV or JSON
    once: bool = False  # whether the source can be read one time only
    paths: tuple[str, ...] = field(default=())  # files the session must be allowed to read
    # like `attach`, for a source that counts by itself: each distinct row of c0, c1, ... with its number of rows as w.
    # None where DuckDB counts
    attach_counted: Callable[[Session], str] | None = None
    # whether rows come in no particular order, as those of a database do, and another reading may find others. The
    # order of a query's rows depends on how it is run, which one row more may change
    unordered: bool = False

    def __repr__(self) -> str:
        return f"Scan({len(self.types)} columns)"


def scan_of_table(table: object, types: Sequence[str], undeclared: Iterable[int] = ()) -> Scan:
    """Columns c0, c1, ... of an Arrow or Polars table."""

    def attach(session: Session) -> str:
        session.register("source", table)
        return "SELECT * FROM source"

    return Scan(types=tuple(types), attach=attach, undeclared=frozenset(undeclared))


def scan_of_stream(
    schema: pa.Schema,
    types: Sequence[str],
    batches: Callable[[Session], Iterable[pa.RecordBatch]],
    *,
    undeclared: Iterable[int] = (),
    once: bool = False,
    unordered: bool = False,
) -> Scan:
    """Columns c0, c1, ... of batches that begin when the source is attached."""

    def attach(session: Session) -> str:
        session.register_stream("source", schema, batches(session))
        return "SELECT * FROM source"

    return Scan(types=tuple(types), attach=attach, undeclared=frozenset(undeclared), once=once, unordered=unordered)
