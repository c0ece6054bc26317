"""Weighted samples: some keys, each with its exact frequency, taken with the probability a scheme gives them.

Over aggregated counts a sample is one comparison per key. Over raw rows ppswor with power 1 needs no aggregated table:
let every row hit with probability 1 - e^-rate, independently. A key of frequency i has a row that hits with probability
1 - e^(-rate i), which is q_i. So one pass finds the sampled keys, and a second one counts them.

Inclusion probabilities are irrational. They are compared with a uniform number that is drawn digit by digit, only as
far as needed: leading binary digits are held against rational bounds of q, and where those cannot tell, more digits are
drawn and the bounds tightened. What is taken therefore has probability exactly q, for uniform bits.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Iterator, Sequence
from fractions import Fraction
from types import TracebackType
from typing import Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dptally.errors import InvalidParameter, InvalidSource
from dptally.observation_models.sampling_schemes import Ppswor, Scheme
from dptally.randomness import BitSource
from dptally.sources import Rows
from dptally.sources.engine import Session, check_memory_limit, in_background

__all__ = ["SampledFrequencies", "sample_counts", "sample_keys"]

Progress = Callable[[str, float | None], None]
Bounds = Callable[[int], tuple[Fraction, Fraction]]

_WORD = 64
_BYTE = 8
_DIRECT = 1 << 20  # frequencies below it find their thresholds by indexing
_SLACK = 1 << 24  # thresholds of 64 digits may be this far apart: a comparison is undecided with chance 2^-40
_PIECE = 1 << 20  # keys or rows drawn for at once: the words stay in cache
_MOST_NUMBERED_HITS = 1 << 22  # row numbers of hits held at once, 32 MB; a denser sample is taken from the stream


def sample_counts(frequencies: NDArray[np.int64], scheme: Scheme, bits: BitSource) -> NDArray[np.bool_]:
    """Take keys by their true frequencies: threshold sampling over aggregated counts.

    Postcondition: key k is taken with probability exactly q_i, where i is `frequencies[k]` and q is the scheme's,
    independently of all other keys; a key of frequency 0 is never taken. One word is drawn per key whatever its
    frequency, and more only where 64 digits leave a comparison undecided, with chance below 2^-39.

    Args:
        frequencies: how many units each key has.
        scheme: the inclusion probabilities.
        bits: where the uniform numbers come from.

    Returns:
        For each key whether it is in the sample.

    Raises:
        InvalidParameter: the frequencies are no integers, or some are negative.
    """
    frequencies = np.asarray(frequencies)
    if frequencies.ndim != 1 or (frequencies.size and frequencies.dtype.kind not in "iu"):
        raise InvalidParameter("frequencies must be a one-dimensional array of integers.")
    frequencies = frequencies.astype(np.int64, copy=False)
    if frequencies.size and int(frequencies.min()) < 0:
        raise InvalidParameter("frequencies must not be negative.")
    thresholds = _Thresholds(frequencies, scheme)
    taken = np.empty(len(frequencies), dtype=bool)
    for start in range(0, len(frequencies), _PIECE):
        piece = frequencies[start : start + _PIECE]
        words = bits.words(len(piece))
        below, undecided = thresholds.compare(piece, words)
        for place in np.flatnonzero(undecided).tolist():
            below[place] = _settle(_bounds_of(scheme, int(piece[place])), int(words[place]), _WORD, bits)
        taken[start : start + _PIECE] = below
    return taken


class SampledFrequencies:
    """Keys of a weighted sample with their true frequencies. Private: nothing of the data shows in its `repr`.

    Sampling starts when `batches` is first advanced, and its result can be read once: reading again would draw again.
    Memory is proportional to the sample (and at most some hundred MB for buffers), not to the number of keys.

    Attributes:
        key: names of the key columns.
        unit: None: every row is its own unit.
        max_keys_per_unit: 1, for the same reason.
        scheme: the inclusion probabilities.
    """

    def __init__(
        self, rows: Rows, scheme: Ppswor, *, bits: BitSource, memory_limit: str | None, progress: Progress | None
    ) -> None:
        self.key = rows.key
        self.unit: str | None = None
        self.max_keys_per_unit = 1
        self.scheme = scheme
        self._rows = rows
        self._bits = bits
        self._memory_limit = memory_limit
        self._progress = progress
        self._columns = ", ".join(f"k{i}" for i in range(len(self.key)))
        self._numbered: _NumberedRows | None = None
        self._sessions: list[Session] = []
        self._running: Generator[pa.RecordBatch, None, None] | None = None
        self._taken = False

    def batches(self) -> Iterator[tuple[pa.RecordBatch, NDArray[np.int64]]]:
        """Yield sampled keys and their frequencies, in no particular order.

        Yields:
            A record batch with the key columns, and as many frequencies of at least 1. Each sampled key comes once.

        Raises:
            InvalidParameter: they have been read already.
            InvalidSource: the data cannot be read as asked, or changed between the two passes, or memory or disk do
                not suffice.
        """
        if self._taken:
            raise InvalidParameter("this sample has been read or closed; sample the keys again.")
        self._taken = True
        try:
            sampled = self._sample()
            counted = self._count(sampled)
            del sampled
            names = list(self.key)
            for batch in counted:
                yield batch.select(range(len(names))).rename_columns(names), _integers(batch.column(len(names)))
        finally:
            self.close()

    def _sample(self) -> pa.Table:
        """First pass: the distinct keys of the rows that hit."""
        reading = self._open(share=1 / 2)
        self._numbered = numbered = _number_rows(self._rows, reading)
        hit = _Hit(self.scheme, self._bits)
        if numbered is not None and hit.expected(sum(numbered.lengths)) <= _MOST_NUMBERED_HITS:
            # Hits are drawn before anything is read, so that only the keys of those rows are decoded.
            reading.register("hits", _numbers_of_hits(hit, numbered.lengths))
            schema = reading.schema(f"SELECT {self._columns} FROM ({numbered.sql})")  # noqa: S608
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
        _check_text(sampled)
        return sampled

    def _count(self, sampled: pa.Table) -> list[pa.RecordBatch]:
        """Second pass: the sampled keys with their exact frequencies."""
        session = self._open(share=1.0)
        places = pa.array(np.arange(sampled.num_rows, dtype=np.int64))
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

    def _open(self, *, share: float) -> Session:
        session = Session(memory_limit=self._memory_limit, share=share, paths=self._rows.paths)
        self._sessions.append(session)
        return session

    def _run(self, session: Session, sql: str, stage: str) -> Iterator[pa.RecordBatch]:
        def waiting() -> None:
            if self._progress is not None:
                self._progress(stage, self._sessions[0].progress())

        if self._progress is not None:
            self._progress(stage, None)
        self._running = in_background(session.batches(sql), interrupt=self._interrupt, waiting=waiting)
        return self._running

    def _interrupt(self) -> None:
        for session in self._sessions:
            session.interrupt()

    def close(self) -> None:
        """Stop sampling and remove everything temporary. May be called again."""
        self._taken = True
        self._stop()

    def _stop(self) -> None:
        running, self._running = self._running, None
        if running is not None:
            running.close()
        sessions, self._sessions = self._sessions, []
        for session in sessions:
            session.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"SampledFrequencies(key={self.key!r}, scheme={self.scheme!r})"


def sample_keys(
    rows: Rows,
    scheme: Ppswor,
    *,
    bits: BitSource,
    memory_limit: str | None = None,
    progress: Progress | None = None,
) -> SampledFrequencies:
    """Sample keys from raw rows in two passes, with memory proportional to the sample.

    Nothing is read before `SampledFrequencies.batches` is advanced.

    Postcondition: a key with i rows is in the sample with probability exactly q_i = 1 - e^(-rate i), independently of
    all other keys; keys in the sample carry their exact number of rows.

    Args:
        rows: what to sample; every row is its own unit, and the source can be read twice.
        scheme: ppswor with power 1, the one scheme under which rows can be drawn for one by one.
        bits: where the hits come from.
        memory_limit: what DuckDB may take before it spills to disk, such as "4GB".
        progress: called with the stage and how much of it is done (None when unknown).

    Raises:
        InvalidParameter: the scheme cannot be sampled row by row, or the rows cannot.
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
    if rows.once:
        raise InvalidParameter("sampling in two passes reads the source twice, and this one can be read only once.")
    check_memory_limit(memory_limit)
    return SampledFrequencies(rows, scheme, bits=bits, memory_limit=memory_limit, progress=progress)


# Comparing a uniform number with a probability that is known by bounds.


def _bounds_of(scheme: Scheme, frequency: int) -> Bounds:
    return lambda precision: scheme.bounds(frequency, precision)


def _between(bounds: Bounds, digits: int) -> tuple[int, int]:
    """Integers low and high with low <= 2^digits q <= high, at most 2 apart."""
    low, high = bounds(digits + 16)
    one = 1 << digits
    return max(0, math.floor(low * one)), min(one, math.ceil(high * one))


def _settle(bounds: Bounds, prefix: int, digits: int, bits: BitSource) -> bool:
    """Go on with a comparison that `digits` digits left undecided.

    Postcondition: for a uniform number that starts with the digits `prefix`, whether it is below q. Each further word
    decides with a chance of at least 1 - 2^-63, unless q is 0 or 1 up to there; those cannot reach this place.
    """
    while True:
        prefix, digits = prefix << _WORD | int(bits.words(1)[0]), digits + _WORD
        low, high = _between(bounds, digits)
        # The number lies in [prefix, prefix + 1) / 2^digits.
        if prefix < low:
            return True
        if prefix >= high:
            return False


def _compare(words: NDArray[np.uint64], low: int, high: int) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Which words are surely below q, and which cannot be told, for low <= 2^64 q <= high."""
    # Against the last word below, since 2^64 does not fit into a word; 0 has none.
    below = words <= np.uint64(low - 1) if low else np.zeros(len(words), dtype=bool)
    possible = words <= np.uint64(high - 1) if high else np.zeros(len(words), dtype=bool)
    return below, possible & ~below


class _Thresholds:
    """Integers below and above 2^64 q_i for every frequency that occurs.

    Kept as the last word below, since 2^64 does not fit into a word, with a mark where there is none.
    """

    def __init__(self, frequencies: NDArray[np.int64], scheme: Scheme) -> None:
        small = frequencies[frequencies < _DIRECT]
        seen = np.zeros(int(small.max()) + 1 if len(small) else 1, dtype=bool)
        seen[small] = True
        seen[0] = False
        self._few = np.flatnonzero(seen)
        self._many = np.unique(frequencies[frequencies >= _DIRECT])
        self._direct = len(seen)
        distinct = np.concatenate([self._few, self._many]).tolist()
        # One entry for every frequency that is found by indexing, then one for each of the others.
        place = np.concatenate([self._few, self._direct + np.arange(len(self._many))]).astype(np.intp)
        size = self._direct + len(self._many)
        self._low, self._high = np.zeros(size, dtype=np.uint64), np.zeros(size, dtype=np.uint64)
        self._some_low, self._some_high = np.zeros(size, dtype=bool), np.zeros(size, dtype=bool)
        lows, highs = _monotone_thresholds(distinct, scheme)
        for last, some, found in ((self._low, self._some_low, lows), (self._high, self._some_high, highs)):
            last[place] = np.array([max(0, threshold - 1) for threshold in found], dtype=np.uint64)
            some[place] = [threshold > 0 for threshold in found]

    def compare(
        self, frequencies: NDArray[np.int64], words: NDArray[np.uint64]
    ) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Which words are surely below q of their frequencies, and which cannot be told."""
        place = frequencies
        if len(self._many):
            others = self._direct + np.searchsorted(self._many, frequencies)
            place = np.where(frequencies < _DIRECT, frequencies, others)
        below = (words <= self._low[place]) & self._some_low[place]
        possible = (words <= self._high[place]) & self._some_high[place]
        return below, possible & ~below


def _monotone_thresholds(distinct: list[int], scheme: Scheme) -> tuple[list[int], list[int]]:
    """Thresholds of 64 digits for each of the rising frequencies.

    Because q never falls, a lower bound holds for all larger frequencies and an upper bound for all smaller ones: where
    those of the ends of a stretch nearly agree, as they do once q is nearly 1, they serve for all of it.
    """
    lows, highs = [0] * len(distinct), [0] * len(distinct)
    known: dict[int, tuple[int, int]] = {}

    def at(position: int) -> tuple[int, int]:
        if position not in known:
            known[position] = _between(_bounds_of(scheme, distinct[position]), _WORD)
        return known[position]

    stretches = [(0, len(distinct) - 1)] if distinct else []
    while stretches:
        first, last = stretches.pop()
        low, high = at(first)[0], at(last)[1]
        if high - low <= _SLACK:
            length = last - first + 1
            lows[first : last + 1], highs[first : last + 1] = [low] * length, [high] * length
        elif last - first <= 1:
            for position in (first, last):
                lows[position], highs[position] = at(position)
        else:
            middle = (first + last) // 2
            stretches += [(first, middle), (middle + 1, last)]
    return lows, highs


class _Hit:
    """Draws which rows hit, each independently with probability exactly q_1 of the scheme.

    The first eight digits decide nearly every row; where they do not, 64 more are drawn, and so on.
    """

    def __init__(self, scheme: Ppswor, bits: BitSource) -> None:
        self._bits = bits
        self._bounds = _bounds_of(scheme, 1)
        self._first = _between(self._bounds, _BYTE)
        self._second = _between(self._bounds, _BYTE + _WORD)

    def expected(self, rows: int) -> int:
        """About how many of so many rows hit."""
        return rows * self._second[1] >> (_BYTE + _WORD)

    def draw(self, rows: int) -> NDArray[np.int64]:
        """Return which of `rows` rows hit, in order."""
        digits = self._bits.words(-(-rows // 8)).view(np.uint8)[:rows]
        low, high = self._first
        found = np.flatnonzero(digits < high) if high < 1 << _BYTE else np.arange(rows)
        leading = digits[found]
        hits = leading < low
        undecided = np.flatnonzero(~hits)
        words = self._bits.words(len(undecided))
        for digit in range(low, high):
            # These rows start with `digit`: what is left to compare are the digits after it.
            places = np.flatnonzero(leading[undecided] == digit)
            bounds = (min(max(bound - (digit << _WORD), 0), 1 << _WORD) for bound in self._second)
            below, still = _compare(words[places], *bounds)
            for place in np.flatnonzero(still).tolist():
                prefix = digit << _WORD | int(words[places[place]])
                below[place] = _settle(self._bounds, prefix, _BYTE + _WORD, self._bits)
            hits[undecided[places]] = below
        return found[hits]


# Rows of the first pass.


def _rows_that_hit(hit: _Hit, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        hits = hit.draw(batch.num_rows)
        if len(hits):
            yield batch.take(pa.array(hits))


class _NumberedRows:
    """Rows of Parquet files: SQL with the number of the file as f and of the row in it as r, and the files' lengths.

    Rows with null keys are among them. DuckDB does not push a filter on them into the file, which would double the
    time of a scan; they are left out of what was found instead, and `=` leaves them out of what is counted.
    """

    def __init__(self, sql: str, lengths: list[int]) -> None:
        self.sql = sql
        self.lengths = lengths


def _number_rows(rows: Rows, session: Session) -> _NumberedRows | None:
    """Number the rows of Parquet files, which DuckDB does without reading them; None for any other source."""
    if not rows.paths:
        return None
    source = rows._scan.attach(session)
    source = f"SELECT file_index AS f, file_row_number AS r, {source.removeprefix('SELECT ')}"
    try:
        session.types(source)
    except InvalidSource:
        return None  # no such columns: not Parquet
    lengths = _parquet_lengths(rows.paths)
    if lengths is None:
        return None
    columns = ", ".join(f"{expression} AS k{i}" for i, expression in enumerate(rows._keys))
    return _NumberedRows(f"SELECT f, r, {columns} FROM ({source})", lengths)  # noqa: S608


def _parquet_lengths(paths: Sequence[str]) -> list[int] | None:
    """Numbers of rows, from the footers; None where columns of the data hide DuckDB's own numbers of rows and files."""
    import pyarrow.parquet as pq

    lengths = []
    for path in paths:
        footer = None
        try:
            footer = pq.read_metadata(path)
        except (pa.ArrowException, OSError):
            footer = None
        if footer is None:
            raise InvalidSource(f"'{path}' is not a readable Parquet file; it may be damaged or incomplete.")
        if {name.lower() for name in footer.schema.to_arrow_schema().names} & {"file_index", "file_row_number"}:
            return None
        lengths.append(footer.num_rows)
    return lengths


def _numbers_of_hits(hit: _Hit, lengths: list[int]) -> pa.Table:
    files, numbers = [], []
    for file, length in enumerate(lengths):
        for start in range(0, length, 8 * _PIECE):
            hits = start + hit.draw(min(8 * _PIECE, length - start))
            numbers.append(hits)
            files.append(np.full(len(hits), file, dtype=np.int64))
    if not numbers:
        return pa.table({"f": np.zeros(0, dtype=np.int64), "r": np.zeros(0, dtype=np.int64)})
    return pa.table({"f": np.concatenate(files), "r": np.concatenate(numbers)})


def _check_text(table: pa.Table) -> None:
    valid = True
    try:
        table.validate(full=True)  # DuckDB passes the text of Arrow tables on without a look at its encoding
    except pa.ArrowInvalid:
        valid = False
    if not valid:
        raise InvalidSource("the source holds text that is not valid UTF-8.")


def _integers(column: pa.Array) -> NDArray[np.int64]:
    # Not column.to_numpy(): that imports pandas where it is installed.
    values = np.frombuffer(column.buffers()[1], dtype=np.int64)
    return values[column.offset : column.offset + len(column)]
