"""CSV, TSV and JSON lines: every value is text, and nothing about parsing is guessed from the rows.

The header of a CSV file is read here, not by DuckDB, which would look at the rows to decide whether there is
one. DuckDB takes the line end from the first one it meets; since a header name may not hold a line break,
that is the header's.
"""

from __future__ import annotations

import csv
import io
import json
import os
import sys
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Any

from dptally.errors import InvalidParameter, InvalidSource
from dptally.sources.columns import quote_identifier, quote_literal, require_columns
from dptally.sources.engine import Session
from dptally.sources.files import compression_of_name
from dptally.sources.scan import Scan

__all__ = ["open_csv", "open_json_lines", "open_standard_input"]

_START = 1 << 20  # bytes looked at to find a header or the fields of JSON objects
_SAMPLE_LINES = 100


def open_csv(files: Sequence[str], wanted: Sequence[str], delimiter: str) -> Scan:
    """Open CSV or TSV files; each has its own header, so their columns may be in different orders.

    Raises:
        InvalidParameter: a column is not in one of them.
        InvalidSource: a header cannot be read.
    """
    groups: dict[tuple[str, ...], list[str]] = {}
    for name in files:
        header = _header(_start_of(name), f"'{name}'", delimiter)
        require_columns(wanted, header)
        groups.setdefault(header, []).append(str(Path(name).absolute()))
    selects = [_csv_select(paths, header, wanted, delimiter) for header, paths in groups.items()]
    return Scan(
        types=("VARCHAR",) * len(wanted),
        attach=lambda _: " UNION ALL ".join(selects),
        text=True,
        paths=tuple(path for paths in groups.values() for path in paths),
    )


def open_json_lines(files: Sequence[str], wanted: Sequence[str]) -> Scan:
    """Open files of one JSON object a line; fields are looked up in the first lines of the first file.

    Raises:
        InvalidParameter: a field is in none of those lines.
        InvalidSource: those lines are not JSON objects.
    """
    start = _start_of(files[0])
    require_columns(wanted, _json_fields(start, f"'{files[0]}'"))
    paths = tuple(str(Path(name).absolute()) for name in files)
    sql = _json_select(paths, wanted)
    return Scan(types=("VARCHAR",) * len(wanted), attach=lambda _: sql, text=True, paths=paths)


def open_standard_input(wanted: Sequence[str], kind: str) -> Scan:
    """Open standard input as CSV, TSV or JSON lines.

    What is read to find the columns is put back in front: a thread copies everything through a pipe to
    DuckDB.

    Raises:
        InvalidParameter: the format needs a file, or a column is not there.
        InvalidSource: there is nothing to read, or no header.
    """
    if kind == "parquet":
        raise InvalidParameter("Parquet cannot be read from standard input; give the file itself.")
    source: IO[bytes] = sys.stdin.buffer
    start = b""
    while b"\n" not in start and len(start) < _START:
        piece = _read_some(source)
        if not piece:
            break
        start += piece
    if not start:
        raise InvalidSource("standard input is empty; it has neither columns nor rows.")
    delimiter = "\t" if kind == "tsv" else ","
    name = "standard input"
    header = _json_fields(start, name) if kind == "jsonl" else _header(start, name, delimiter)
    require_columns(wanted, header)
    reading, writing = os.pipe()
    path = f"/proc/self/fd/{reading}"

    def attach(session: Session) -> str:
        session.keep(_Descriptor(reading))
        copying = threading.Thread(target=_copy, args=(start, source, writing), name="dptally-input", daemon=True)
        copying.start()
        if kind == "jsonl":
            return _json_select([path], wanted)
        return _csv_select([path], header, wanted, delimiter)

    return Scan(types=("VARCHAR",) * len(wanted), attach=attach, text=True, once=True, paths=(path,))


class _Descriptor:
    """A file descriptor that is closed once."""

    def __init__(self, number: int) -> None:
        self._number: int | None = number

    def close(self) -> None:
        if self._number is not None:
            os.close(self._number)
        self._number = None


def _read_some(source: Any) -> bytes:
    piece: bytes = source.read1(_START) if hasattr(source, "read1") else source.read(_START)
    return piece


def _copy(start: bytes, source: IO[bytes], writing: int) -> None:
    piece = start
    try:
        while piece:
            view = memoryview(piece)
            while view:
                view = view[os.write(writing, view) :]
            piece = _read_some(source)
    except OSError:
        return  # the reader stopped early; there is nobody left to tell
    finally:
        os.close(writing)


def _start_of(name: str) -> bytes:
    import pyarrow as pa

    try:
        with pa.OSFile(name, "rb") as raw:
            compression = compression_of_name(name)
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


def _json_fields(start: bytes, name: str) -> tuple[str, ...]:
    fields: dict[str, None] = {}
    for line in _complete_lines(start):
        try:
            row = json.loads(line)
        except ValueError:
            row = None
        if not isinstance(row, dict):
            raise InvalidSource(f"{name} must hold one JSON object a line; its first lines do not.")
        fields.update(dict.fromkeys(row))
    return tuple(fields)


def _complete_lines(start: bytes) -> Iterator[bytes]:
    lines = start.removeprefix(b"\xef\xbb\xbf").split(b"\n")
    if len(lines) > 1:
        lines.pop()  # empty after the last line end, or cut off
    yield from (line for line in lines[:_SAMPLE_LINES] if line.strip())


def _json_select(paths: Sequence[str], wanted: Sequence[str]) -> str:
    if len({name.lower() for name in wanted}) < len(wanted):
        raise InvalidParameter("fields of JSON lines must differ in more than upper and lower case.")
    columns = ", ".join(f"{quote_literal(name)}: 'VARCHAR'" for name in wanted)
    chosen = ", ".join(f"{quote_identifier(name)} AS c{i}" for i, name in enumerate(wanted))
    return (
        f"SELECT {chosen} FROM read_json([{', '.join(map(quote_literal, paths))}], columns = {{{columns}}}, "  # noqa: S608
        "format = 'newline_delimited', records = true, ignore_errors = false, hive_partitioning = false)"
    )
