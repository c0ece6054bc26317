"""Files of rows: which they are, in which format, with which columns."""

from __future__ import annotations

import glob
from collections.abc import Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from dptally.errors import InvalidParameter, InvalidSource
from dptally.sources.columns import quote_identifier, quote_literal, require_columns
from dptally.sources.engine import Session
from dptally.sources.scan import Scan
from dptally.sources.text_files import COMPRESSED, open_csv, open_json_lines, open_standard_input

_ENDINGS = {
    ".csv": "csv", ".tsv": "tsv", ".jsonl": "jsonl", ".ndjson": "jsonl", ".json": "jsonl", ".parquet": "parquet"
}  # fmt: skip
_FORMATS = {ending[1:]: kind for ending, kind in _ENDINGS.items()}


def format_of_name(path: str) -> str | None:
    """Return the format a file name or glob ends in, or None."""
    suffixes = [suffix.lower() for suffix in Path(path).suffixes]
    if suffixes and suffixes[-1] in COMPRESSED:
        suffixes.pop()
        if suffixes and suffixes[-1] == ".parquet":
            return None  # Parquet compresses inside; an outer layer would hide its footer
    return _ENDINGS.get(suffixes[-1]) if suffixes else None


def find_files(patterns: Sequence[str]) -> list[str]:
    """Expand globs into existing files, in order of name, each once."""
    found: list[str] = []
    for pattern in patterns:
        path = Path(pattern)
        if path.is_dir():
            raise InvalidSource(
                f"'{pattern}' is a directory; name its files with a glob such as '{path / '*.parquet'}'."
            )
        if path.exists():
            found.append(pattern)
        elif glob.has_magic(pattern):
            matches = sorted(match for match in glob.glob(pattern, recursive=True) if Path(match).is_file())  # noqa: PTH207 - keeps the path as it was written
            if not matches:
                raise InvalidSource(f"no file matches '{pattern}'.")
            found.extend(matches)
        else:
            raise InvalidSource(f"there is no file '{pattern}'.")
    unique = list(dict.fromkeys(found))
    refuse_same_files(unique)
    for name in unique:
        if glob.has_magic(name):
            raise InvalidSource(f"'{name}' has one of *?[ in its name, which DuckDB takes for a glob; rename the file.")
        try:
            if not Path(name).is_file():
                raise InvalidSource(f"'{name}' is not a regular file; send a pipe to standard input and give '-'.")
            with Path(name).open("rb"):
                pass
        except OSError:
            raise InvalidSource(f"'{name}' cannot be opened; check that you may read it.") from None
    return unique


def refuse_same_files(names: Iterable[str]) -> None:
    """Refuse names that lead to one file: by another path, a symbolic or a hard link.

    Rows of such a file would be read twice, and one unit would add two to a key.
    """
    seen: dict[tuple[int, int], str] = {}
    for name in names:
        try:
            state = Path(name).stat()
        except OSError:
            continue  # missing or not to be read: said where it is opened
        first = seen.setdefault((state.st_dev, state.st_ino), name)
        if first != name:
            raise InvalidSource(f"'{first}' and '{name}' are one file, which must not count twice; name it once.")


def open_files(patterns: Sequence[str], wanted: Sequence[str], format_name: str | None) -> Scan:
    """Open files, all of one format.

    A single "-" is standard input; without `format_name` the format is taken from the names.
    """
    if format_name is not None and format_name not in _FORMATS:
        raise InvalidParameter(f"format must be one of csv, tsv, jsonl, parquet, got {format_name!r}.")
    if list(patterns) == ["-"]:
        return open_standard_input(wanted, _FORMATS[format_name or "csv"])
    files = find_files(patterns)
    formats = {_FORMATS[format_name]} if format_name else {format_of_name(name) for name in files}
    if None in formats:
        unknown = next(name for name in files if format_of_name(name) is None)
        raise InvalidParameter(
            f"the name '{unknown}' does not show its format; give `format` as csv, tsv, jsonl or parquet."
        )
    if len(formats) > 1:
        raise InvalidParameter(f"all files must have one format, got {' and '.join(sorted(map(str, formats)))}.")
    kind = formats.pop()
    empty = [name for name in files if Path(name).stat().st_size == 0]
    if empty and kind == "jsonl":  # JSON lines without a line: no rows, which is nothing to complain about
        files = [name for name in files if name not in empty]
    elif empty:
        raise InvalidSource(f"'{empty[0]}' is empty; it has neither columns nor rows.")
    if kind == "parquet":
        return open_parquet(files, wanted)
    if kind == "jsonl":
        return open_json_lines(files, wanted)
    return open_csv(files, wanted, "\t" if kind == "tsv" else ",")


def open_parquet(files: Sequence[str], wanted: Sequence[str]) -> Scan:
    """Open Parquet files that agree on the wanted columns."""
    paths = tuple(str(Path(name).absolute()) for name in files)
    with closing(Session(paths=paths, in_order=True)) as session:  # what is inside of a column is listed after it
        found = [_wanted_columns(session, path, name, wanted) for path, name in zip(paths, files, strict=True)]
    for name, columns in zip(files, found, strict=True):
        for column, first, kind in zip(wanted, found[0].types, columns.types, strict=True):
            if kind != first:
                raise InvalidSource(f"column '{column}' has the type {first} in '{files[0]}' and {kind} in '{name}'.")
    if any(columns.twins for columns in found):  # columns of several files are matched by name, whatever the case
        sql = " UNION ALL ".join(_select(columns, [path]) for path, columns in zip(paths, found, strict=True))
    else:
        sql = _select(found[0], paths)
    return Scan(types=found[0].types, attach=lambda _: sql, paths=paths)


@dataclass(frozen=True)
class _Columns:
    """Wanted columns of a Parquet file: what DuckDB calls them, and their types.

    `twins` says whether some columns of the file differ in case only; DuckDB renames all but the first of them.
    """

    names: tuple[str, ...]
    types: tuple[str, ...]
    twins: bool


def _select(columns: _Columns, paths: Sequence[str]) -> str:
    selected = ", ".join(f"{quote_identifier(name)} AS c{i}" for i, name in enumerate(columns.names))
    return f"SELECT {selected} FROM {_read_parquet(paths)}"  # noqa: S608 - built from quoted names and literals


def _read_parquet(paths: Sequence[str]) -> str:
    listed = ", ".join(quote_literal(path) for path in paths)
    return f"read_parquet([{listed}], hive_partitioning = false, union_by_name = false)"


def _wanted_columns(session: Session, path: str, name: str, wanted: Sequence[str]) -> _Columns:
    """Find columns of a Parquet file, by their positions."""
    try:
        described = session.types(f"SELECT * FROM {_read_parquet([path])}")  # noqa: S608 - quoted literals
        names = _outer_columns(session, path)
    except InvalidSource:
        names, described = [], []
    if not names or len(names) != len(described):
        raise InvalidSource(f"'{name}' is not a readable Parquet file; it may be damaged or incomplete.")
    require_columns(wanted, names, where=f"'{name}'")
    found = [described[names.index(column)] for column in wanted]
    twins = len({column.lower() for column in names}) < len(names)
    return _Columns(tuple(column for column, _ in found), tuple(kind for _, kind in found), twins)


def _outer_columns(session: Session, path: str) -> list[str]:
    """Names of the columns as the file has them, without what lies inside of lists and structures."""
    sql = f"SELECT name, coalesce(num_children, 0) AS inside FROM parquet_schema({quote_literal(path)})"  # noqa: S608
    rows = [row for batch in session.batches(sql) for row in batch.to_pylist()]
    names, unfinished = [], 0
    for row in rows[1:]:  # the first is the root; what is inside of a column follows it
        if unfinished == 0:
            names.append(row["name"])
            unfinished = 1
        unfinished += row["inside"] - 1
    return names
