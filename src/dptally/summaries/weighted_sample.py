"""Weighted samples of raw rows: keys that a scheme takes, with their exact frequencies, in two passes.

Ppswor with power 1 needs no aggregated table: let every row hit with probability 1 - e^-rate, independently. A key of
frequency i has a row that hits with probability 1 - e^(-rate i), which is q_i. So one pass finds the sampled keys,
and a second one counts them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dptally.errors import InvalidParameter, InvalidSource
from dptally.exact.integer_columns import integer_column
from dptally.laws.sampling_schemes import Ppswor
from dptally.randomness import BitSource
from dptally.sources import Rows
from dptally.sources.columns import quote_literal
from dptally.sources.engine import Session
from dptally.summaries.counting import Counting, Progress, check_text
from dptally.summaries.inclusion import RowHits

_PIECE = 1 << 23  # rows drawn for at once
_MOST_NUMBERED_HITS = 1 << 22  # row numbers of hits held at once, 32 MB; a denser sample is taken from the stream
_MOST_NUMBERED_ROWS = 1 << 36  # rows drawn for before any is read; footers that name more need not be true


class SampledFrequencies(Counting):
    """Keys of a weighted sample with their true counts. Private: nothing of the data shows in its `repr`.

    Memory is proportional to the sample (and at most some hundred MB for buffers), not to the number of keys.
    """

    def __init__(self, rows: Rows, scheme: Ppswor, **engine: Any) -> None:
        super().__init__(rows, **engine)
        self.scheme: Ppswor = scheme
        self._numbered: _NumberedRows | None = None

    def _counted(self) -> Iterator[pa.RecordBatch]:
        yield from self._count(self._sample())
        self._rows.check_unchanged()

    def _sample(self) -> pa.Table:
        """First pass: the distinct keys of the rows that hit."""
        reading = self._open(share=1 / 2)
        self._numbered = numbered = _number_rows(self._rows, reading)
        hit = RowHits(self.scheme, self._bits)
        if numbered is not None and hit.expected(sum(numbered.lengths)) <= _MOST_NUMBERED_HITS:
            # Hits are drawn before anything is read, so that only the keys of those rows are decoded.
            hits = [_draw_hits(hit, length) for length in numbered.lengths]
            schema = reading.schema(f"SELECT {self._columns} FROM ({numbered.sql})")  # noqa: S608
            reading.register("hits", _table_of_hits(hits))
            chosen = "r IN (SELECT r FROM hits)" if len(numbered.lengths) == 1 else "(f, r) IN (SELECT f, r FROM hits)"
            sql = f"SELECT DISTINCT {self._columns} FROM ({numbered.sql}) WHERE {chosen}"  # noqa: S608
            found = self._run(reading, sql, "sampling rows")
        else:
            collecting = self._open(share=1 / 2)
            rows = self._rows.select(reading)
            schema = reading.schema(rows)
            collecting.register_stream("hits", schema, _rows_that_hit(hit, reading.batches(rows)))
            found = self._run(collecting, f"SELECT DISTINCT {self._columns} FROM hits", "sampling rows")  # noqa: S608
        sampled = pa.Table.from_batches(list(found), schema)
        if self._rows.nulls == "drop":
            sampled = sampled.drop_null()
        self._stop()
        check_text(sampled)
        return sampled

    def _count(self, sampled: pa.Table) -> list[pa.RecordBatch]:
        """Second pass: the sampled keys with their exact frequencies."""
        session = self._open(share=1.0)
        places = integer_column(np.arange(sampled.num_rows, dtype=np.int64))
        session.register("sampled", sampled.append_column("place", places))
        if self._numbered is not None:
            sql = self._count_numbered(self._numbered.sql)
        else:
            sql = self._count_marked(self._rows.select(session))
        counted = list(self._run(session, sql, "counting sampled keys"))
        if sum(batch.num_rows for batch in counted) != sampled.num_rows:
            raise InvalidSource("the source changed between its two passes.")
        return counted

    def _count_numbered(self, rows: str) -> str:
        # The fastest: rows are added up by the number of their key, not by its text. DuckDB builds the hash table on
        # the side it takes for the smaller one, so this is only for sources whose size it knows.
        same = "IS NOT DISTINCT FROM" if self._rows.nulls == "keep" else "="
        match = " AND ".join(f"r.k{i} {same} s.k{i}" for i in range(len(self.key)))
        counts = f"SELECT s.place, count(*) AS n FROM ({rows}) r JOIN sampled s ON {match} GROUP BY s.place"  # noqa: S608
        return f"SELECT {self._columns}, n FROM ({counts}) JOIN sampled USING (place)"  # noqa: S608

    def _count_marked(self, rows: str) -> str:
        # DuckDB takes a stream for a single row, and would build a hash table of all of it. A mark join, which
        # `coalesce` keeps from becoming a semi-join, always builds on the subquery. Structs match nulls with nulls.
        keys = self._columns
        if len(self.key) > 1 or self._rows.nulls == "keep":
            keys = f"struct_pack({', '.join(f'k{i} := k{i}' for i in range(len(self.key)))})"
        marked = f"coalesce({keys} IN (SELECT {keys} FROM sampled), false)"  # noqa: S608
        return f"SELECT {self._columns}, count(*) AS n FROM ({rows}) WHERE {marked} GROUP BY {self._columns}"  # noqa: S608

    def __repr__(self) -> str:
        return f"SampledFrequencies(key={self.key!r}, scheme={self.scheme!r})"


def sample_keys(
    rows: Rows, scheme: Ppswor, *, bits: BitSource, memory_limit: str | None = None, progress: Progress | None = None
) -> SampledFrequencies:
    """Sample keys from raw rows in two passes, with memory proportional to the sample.

    Postcondition: a key with i rows is in the sample with probability exactly q_i = 1 - e^(-rate i), independently of
    all other keys; keys in the sample carry their exact number of rows. Every row is its own unit, and the source can
    be read twice. The scheme is ppswor with power 1, the one under which rows can be drawn for one by one.
    """
    if not isinstance(scheme, Ppswor):
        raise InvalidParameter("sampling in two passes needs a Ppswor scheme; with any other, count the keys first.")
    if scheme.power != 1:
        raise InvalidParameter(
            f"sampling in two passes needs Ppswor with power 1, got power {scheme.power}; count the keys first."
        )
    if rows.unit is not None:
        raise InvalidParameter(
            "sampling in two passes takes every row for its own unit; with a unit, count the keys first."
        )
    if rows.count is not None:
        raise InvalidParameter("sampling in two passes reads raw rows; this source holds counts, sample those instead.")
    if not rows.repeatable:
        raise InvalidParameter(
            "sampling in two passes reads the source twice, and this one can be read only once or may change."
        )
    return SampledFrequencies(rows, scheme, bits=bits, memory_limit=memory_limit, progress=progress)


# Rows of the first pass.


def _rows_that_hit(hit: RowHits, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        hits = hit.draw(batch.num_rows)
        if len(hits):
            yield batch.take(integer_column(hits))


class _NumberedRows(NamedTuple):
    """Rows of Parquet files: SQL with the number of the file as f and of the row in it as r, and the files' lengths.

    Rows with null keys are among them. DuckDB does not push a filter on them into the file, which would double the
    time of a scan; they are left out of what was found instead, and `=` leaves them out of what is counted.
    """

    sql: str
    lengths: list[int]


def _number_rows(rows: Rows, session: Session) -> _NumberedRows | None:
    """Number the rows of Parquet files, which DuckDB does without reading them; None where it cannot."""
    sql = rows.select_numbered(session)
    if sql is None:
        return None
    lengths = [_parquet_length(session, path) for path in rows.paths]
    known = [length for length in lengths if length is not None]
    if len(known) < len(lengths) or sum(known) > _MOST_NUMBERED_ROWS:
        return None
    return _NumberedRows(sql, known)


def _parquet_length(session: Session, path: str) -> int | None:
    """How many rows the row groups of a Parquet file have; None where columns of the data hide DuckDB's own numbers.

    Footers are read by DuckDB, as the rows are: Arrow's reader ends the process where a column cannot be decrypted.
    """
    file = quote_literal(path)
    columns = _column(session, f"SELECT lower(name) FROM parquet_schema({file})")  # noqa: S608
    if {"file_index", "file_row_number"}.intersection(columns):
        return None
    groups = f"SELECT DISTINCT row_group_id, row_group_num_rows AS n FROM parquet_metadata({file})"  # noqa: S608
    lengths = _column(session, f"SELECT n FROM ({groups})")  # noqa: S608
    return sum(lengths) if all(length >= 0 for length in lengths) else None


def _column(session: Session, sql: str) -> list[Any]:
    return [value for batch in session.batches(sql) for value in batch.column(0).to_pylist()]


def _draw_hits(hit: RowHits, length: int) -> NDArray[np.int64]:
    pieces = [start + hit.draw(min(_PIECE, length - start)) for start in range(0, length, _PIECE)]
    return np.concatenate([np.zeros(0, dtype=np.int64), *pieces])


def _table_of_hits(hits: Sequence[NDArray[np.int64]]) -> pa.Table:
    files = [np.full(len(numbers), file, dtype=np.int64) for file, numbers in enumerate(hits)]
    columns = [integer_column(np.concatenate(parts)) for parts in (files, hits)]
    return pa.Table.from_arrays(columns, names=["f", "r"])
