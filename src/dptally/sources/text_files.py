"""CSV, TSV and JSON lines: every value is text, and nothing about parsing is guessed from the rows.

The header of a CSV file is read here, not by DuckDB, which would look at the rows to decide whether there is
one. DuckDB takes the line end from the first one it meets; since a header name may not hold a line break,
that is the header's.
"""

from __future__ import annotations

import csv
import io
import os
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from dptally.errors import InvalidParameter, InvalidSource
from dptally.sources.columns import quote_literal, require_columns
from dptally.sources.engine import OPEN_FILES, Session
from dptally.sources.scan import Scan
from dptally.sources.undeclared import define_functions, read_json

COMPRESSED = {".gz": "gzip", ".zst": "zstd"}  # endings of names, and what Arrow calls them
_START = 1 << 20  # bytes looked at to find a header or the fields of JSON objects
_SAMPLE_LINES = 100
_LONGEST_LINE = 1 << 24
# Decimals of more than 15 digits, and numbers with an exponent; DuckDB keeps whole numbers as they are.
_NUMBERS_TO_KEEP = "|".join(
    [r"[\[:,\s]-?[0-9]+([.][0-9]+)?[eE]", *(f"[0-9]{{{n}}}[.][0-9]{{{16 - n}}}" for n in range(1, 16))]
)


def open_csv(files: Sequence[str], wanted: Sequence[str], delimiter: str) -> Scan:
    """Open CSV or TSV files; each has its own header, so their columns may be in different orders."""
    groups: dict[tuple[str, ...], list[str]] = {}
    for name in files:
        header = _header(_start_of(name), f"'{name}'", delimiter)
        require_columns(wanted, header, read_from=f"the first line of '{name}'")
        groups.setdefault(header, []).append(str(Path(name).absolute()))
    selects = [_csv_select(paths, header, wanted, delimiter) for header, paths in groups.items()]
    paths = tuple(path for paths in groups.values() for path in paths)
    return _scan("csv", wanted, lambda _: " UNION ALL ".join(selects), paths)


def open_json_lines(files: Sequence[str], wanted: Sequence[str]) -> Scan:
    """Open files of one JSON object a line; a field that a line does not have is null there.

    Which fields there are is not looked up: one line would decide between a refusal and a release. No files, after
    empty ones were left out, are data without rows.
    """
    if not files:
        nothing = ", ".join(f"CAST(NULL AS JSON) AS c{i}" for i in range(len(wanted)))
        return _scan("jsonl", wanted, lambda _: f"SELECT {nothing} LIMIT 0", ())
    _check_objects(_start_of(files[0]), f"'{files[0]}'")
    paths = tuple(str(Path(name).absolute()) for name in files)
    sql = _json_select(paths, wanted)
    return _scan("jsonl", wanted, lambda _: sql, paths)


def _scan(
    kind: str, wanted: Sequence[str], attach: Callable[[Session], str], paths: tuple[str, ...], *, once: bool = False
) -> Scan:
    """Columns of text, or of JSON, none of which has a declared type."""

    def attach_with_functions(session: Session) -> str:
        define_functions(session)
        return attach(session)

    of_json = kind == "jsonl"
    return Scan(
        types=("JSON" if of_json else "VARCHAR",) * len(wanted),
        attach=attach_with_functions if of_json else attach,
        undeclared=frozenset(range(len(wanted))),
        text=True,
        once=once,
        paths=paths,
    )


def open_standard_input(wanted: Sequence[str], kind: str) -> Scan:
    """Open standard input as CSV, TSV or JSON lines.

    What is read to find the columns is put back in front: a thread copies everything through a pipe to
    DuckDB.
    """
    if kind == "parquet":
        raise InvalidParameter("Parquet cannot be read from standard input; give the file itself.")
    start = b""
    while b"\n" not in start and len(start) < _START:
        piece = _read_standard_input()
        if not piece:
            break
        start += piece
    if not start:
        raise InvalidSource("standard input is empty; it has neither columns nor rows.")
    delimiter = "\t" if kind == "tsv" else ","
    name = "standard input"
    header: tuple[str, ...] = ()
    if kind == "jsonl":
        _check_objects(start, name)
    else:
        header = _header(start, name, delimiter)
        require_columns(wanted, header, read_from=f"the first lines of {name}")
    pipe = _Pipe(start)

    def attach(session: Session) -> str:
        session.keep(pipe)
        pipe.begin()
        if kind == "jsonl":
            return _json_select([pipe.path], wanted)
        return _csv_select([pipe.path], header, wanted, delimiter)

    return _scan(kind, wanted, attach, (pipe.path,), once=True)


class _Pipe:
    """Standard input, with what was read of it already put back in front, as a file that DuckDB can open."""

    def __init__(self, start: bytes) -> None:
        self._start = start
        self._reading, self._writing = os.pipe()
        self.path = f"{OPEN_FILES}{self._reading}"
        self._lock = threading.Lock()  # guards the writing end: a number that was closed may be another file's by now
        self._written = False
        self._closed = False
        self._cancelled = False

    def begin(self) -> None:
        threading.Thread(target=self._copy, name="dptally-input", daemon=True).start()

    def _copy(self) -> None:
        piece = self._start
        try:
            while piece and not self._cancelled:
                view = memoryview(piece)
                while view:
                    view = view[os.write(self._writing, view) :]
                piece = _read_standard_input()
        except OSError:
            self._cancelled = True  # the reader stopped early
        finally:
            with self._lock:
                self._written = True
                os.close(self._writing)

    def cancel(self) -> None:
        """End the file for a reader that waits for more; what is still written goes nowhere."""
        with self._lock:
            if self._cancelled or self._written:
                return
            self._cancelled = True
            nowhere = os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)
            os.dup2(nowhere, self._writing, inheritable=False)
            os.close(nowhere)

    def close(self) -> None:
        """Free the reading end. May be called again."""
        if not self._closed:
            self._closed = True
            os.close(self._reading)


def _read_standard_input() -> bytes:
    # Past Python's buffer where there is a descriptor: a thread that waits inside the buffer holds its lock, and Python
    # cannot exit while it does.
    source: Any = sys.stdin.buffer
    try:
        descriptor = source.fileno()
    except (OSError, AttributeError):
        piece: bytes = source.read1(_START)
        return piece
    return os.read(descriptor, _START)


def _start_of(name: str) -> bytes:
    try:
        with pa.OSFile(name, "rb") as raw:
            compression = COMPRESSED.get(Path(name).suffix.lower())
            stream = pa.CompressedInputStream(raw, compression) if compression else raw
            start = bytes(stream.read(_START))
    except (pa.ArrowException, OSError):
        raise InvalidSource(f"'{name}' cannot be read or decompressed.") from None
    if not start:
        raise InvalidSource(f"'{name}' is empty; it has neither columns nor rows.")
    return start


def _header(start: bytes, name: str, delimiter: str) -> tuple[str, ...]:
    line = start.split(b"\n", 1)[0].split(b"\r", 1)[0]
    if len(line) == _START:
        raise InvalidSource(f"the first line of {name} is too long to be a header.")
    try:
        names = next(csv.reader(io.StringIO(line.decode("utf-8-sig")), delimiter=delimiter, strict=True), [])
    except (UnicodeDecodeError, csv.Error):
        names = []
    if not names:
        raise InvalidSource(f"the first line of {name} is not a header: names on one line, in UTF-8.")
    return tuple(names)


def _csv_select(paths: Sequence[str], header: Sequence[str], wanted: Sequence[str], delimiter: str) -> str:
    # Columns are named by position, so that names that differ in case only, or not at all, do no harm.
    columns = ", ".join(f"'f{position}': 'VARCHAR'" for position in range(len(header)))
    chosen = ", ".join(f"f{list(header).index(name)} AS c{i}" for i, name in enumerate(wanted))
    return (
        f"SELECT {chosen} FROM read_csv([{', '.join(map(quote_literal, paths))}], columns = {{{columns}}}, "  # noqa: S608
        f"auto_detect = false, header = true, delim = {quote_literal(delimiter)}, "
        "quote = '\"', escape = '\"', "
        "comment = '', nullstr = '', allow_quoted_nulls = false, strict_mode = true, null_padding = false, "
        "ignore_errors = false, encoding = 'utf-8', hive_partitioning = false)"
    )


def _check_objects(start: bytes, name: str) -> None:
    """Refuse, before anything is paid for, what does not begin with JSON objects on lines of their own."""
    for line in _complete_lines(start):
        try:
            row = read_json(line.decode())
        except ValueError:
            row = None
        except RecursionError:
            continue
        if not isinstance(row, dict):
            raise InvalidSource(f"{name} must hold one JSON object a line; its first lines do not.")


def _complete_lines(start: bytes) -> Iterator[bytes]:
    lines = start.removeprefix(b"\xef\xbb\xbf").split(b"\n")
    if len(lines) > 1:
        lines.pop()  # empty after the last line end, or cut off
    yield from (line for line in lines[:_SAMPLE_LINES] if line.strip())


def _json_select(paths: Sequence[str], wanted: Sequence[str]) -> str:
    """SQL for the wanted fields of JSON lines, as JSON.

    DuckDB turns numbers into floats. So lines with a number that a float may not hold, and those with halves of
    characters (surrogates), which DuckDB refuses, go to `undeclared.json_field`, and so does what does not begin
    as an object: there the numbers stay as they are written. A decimal of at most 15 digits comes back from a float as
    it was.
    """
    lines = (
        f"SELECT line FROM read_csv([{', '.join(map(quote_literal, paths))}], columns = {{'line': 'VARCHAR'}}, "  # noqa: S608
        "auto_detect = false, header = false, delim = '\x01', quote = '', escape = '', comment = '', nullstr = '\x02', "
        f"new_line = '\\n', strict_mode = false, ignore_errors = false, max_line_size = {_LONGEST_LINE}, "
        "encoding = 'utf-8', hive_partitioning = false) WHERE starts_with(line, '{') OR trim(line, ' \t\r\n') <> ''"
    )
    by_hand = (
        f"regexp_matches(line, {quote_literal(_NUMBERS_TO_KEEP)}) OR contains(line, '\\u') "
        "AND regexp_matches(line, '\\\\u[dD][89a-fA-F]') OR NOT starts_with(line, '{')"
    )
    chosen = ", ".join(
        f"CASE WHEN by_hand THEN dptally_json_field(line, {quote_literal(name)}) "
        f"ELSE CAST(json_extract(line, {quote_literal(_pointer(name))}) AS VARCHAR) END AS c{i}"
        for i, name in enumerate(wanted)
    )
    return f"SELECT {chosen} FROM (SELECT line, {by_hand} AS by_hand FROM ({lines}))"  # noqa: S608


def _pointer(name: str) -> str:
    return "/" + name.replace("~", "~0").replace("/", "~1")
