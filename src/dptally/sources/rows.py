"""Rows with named key, unit and count columns, from any supported source."""

from __future__ import annotations

import functools
import glob
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from pathlib import Path, PurePath
from typing import Any, Literal

import pyarrow as pa

from dptally.errors import InvalidParameter, InvalidSource, attempt
from dptally.laws.statistics import FINE, Clipped
from dptally.sources import frames, in_memory
from dptally.sources.columns import canonical, count_expression, fine_expression
from dptally.sources.databases import kind_of_url, open_database
from dptally.sources.engine import Session, describe
from dptally.sources.engine_choice import check_engine_for, scan_by_polars
from dptally.sources.files import open_files
from dptally.sources.filters import Filter
from dptally.sources.requests import check_request, kind_of_source
from dptally.sources.scan import Scan
from dptally.sources.selection import selection_of
from dptally.sources.stated_types import read_as, read_types
from dptally.sources.undeclared import define_functions, json_expression


def _states(paths: Iterable[str]) -> list[tuple[int, int, int] | None]:
    """What tells whether files were changed."""
    found: list[tuple[int, int, int] | None] = []
    for path in paths:
        try:
            state = Path(path).stat()
            found.append((state.st_ino, state.st_size, state.st_mtime_ns))
        except OSError:
            found.append(None)
    return found


class Rows:
    """Private rows of a source, not read yet: which columns are keys, and whose they are."""

    def __init__(
        self,
        scan: Scan,
        *,
        key: Sequence[str],
        unit: str | None,
        count: str | None,
        nulls: Literal["drop", "keep"],
        types: Mapping[str, str] | None = None,
        assumed: Mapping[int, str] | None = None,
        clipped: Sequence[Clipped] = (),
        where: Filter | None = None,
    ) -> None:
        self.key = tuple(key)
        self.unit = unit  # the column that says whose row it is, or None when every row is its own unit
        self.count = count  # the column of counts, or None when every row counts once
        self.nulls = nulls  # "drop" leaves out rows with a null in a key column, "keep" makes null a key of its own
        self.once, self.paths = scan.once, scan.paths
        self.where = where  # which rows are read; their columns come after all others
        self.counted_at_source = scan.attach_counted is not None  # as a database does
        self.unordered = scan.unordered  # rows come in no particular order, as those of a database or of a query do
        self._scan = scan
        self._taken = False
        self._files = _states(self.paths)
        width = len(self.key)
        stated, assumed = types or {}, assumed or {}
        read_as_stated = [stated.get(name) or assumed.get(i) or "VARCHAR" for i, name in enumerate(self.key)]
        self._key_types = tuple(
            read_as_stated[i] if self._is_open(i) else kind for i, kind in enumerate(scan.types[:width])
        )
        self._keys = [self._form(i, name, stated.get(name), assumed.get(i)) for i, name in enumerate(self.key)]
        self._unit = self._form(width, unit, stated.get(unit), None, of_unit=True) if unit is not None else None
        self._unit_stated = unit in stated
        self._count = None
        if count is not None:
            kind, column = scan.types[width], f"c{width}"
            if kind == "JSON":
                column = json_expression(f"CAST({column} AS VARCHAR)", identities=False)
            self._count = count_expression(column, count, kind, text=self._is_open(width))
        self.clipped = tuple(clipped)  # columns whose values are summed, with their ranges
        first = width + (unit is not None or count is not None)
        places = {name: first + i for i, name in enumerate(value_columns(clipped))}
        self._values = [self._fine(places[each.column], each, stated.get(each.column)) for each in self.clipped]
        self._filter = None if where is None else self._filter_of(where, stated)

    def _is_open(self, position: int) -> bool:
        """Whether a column has no declared type; JSON holds values of any."""
        return position in self._scan.undeclared or self._scan.types[position] == "JSON"

    def _form(self, position: int, name: str, stated: str | None, assumed: str | None, *, of_unit: bool = False) -> str:
        """SQL for the canonical form of a key, or of the unit."""
        column, declared = f"c{position}", self._scan.types[position]
        if not self._is_open(position):
            if stated not in (None, declared):
                raise _declared_otherwise(name)
            return canonical(column, name, declared)
        wanted = stated or assumed
        if declared == "JSON":
            column = json_expression(f"CAST({column} AS VARCHAR)", identities=of_unit and wanted is None)
        return column if wanted is None else canonical(read_as(column, wanted), name, wanted)

    def _fine(self, position: int, clipped: Clipped, stated: str | None) -> str:
        """SQL for the values of a column in fine steps; text of a source without types is read as numbers."""
        column, kind = f"c{position}", self._scan.types[position]
        if not self._is_open(position):
            if stated not in (None, kind):
                raise _declared_otherwise(clipped.column)
        else:
            if kind == "JSON":
                column = json_expression(f"CAST({column} AS VARCHAR)", identities=False)
            kind = stated or "DOUBLE"
            column = read_as(column, kind)
        return fine_expression(column, clipped.column, kind, float(FINE / clipped.reach))

    def _filter_of(self, where: Filter, stated: Mapping[str, str]) -> tuple[str, str]:
        """SQL for the columns of a filter as f0, f1, ..., and for the filter."""
        first = len(self._scan.types) - len(where.columns)
        forms = [self._form(first + i, name, stated.get(name), None) for i, name in enumerate(where.columns)]
        columns = ", ".join(f"{form} AS f{i}" for i, form in enumerate(forms))
        with closing(Session()) as session:
            self._prepare(session)
            typed = f"SELECT {columns} FROM (SELECT {self._nothing()})"  # noqa: S608 - no value of the data is in it
            condition = where.sql([kind for _, kind in session.types(typed)])
            said = "where does not fit the types of its columns; text is compared after CAST(... AS DATE) or --type."
            attempt(
                lambda: session.types(f"SELECT {condition} FROM ({typed})"),  # noqa: S608
                lambda _: InvalidParameter(said),
                InvalidSource,
            )
        return columns, condition

    def _nothing(self) -> str:
        """SQL for a row of nulls of the columns' types."""
        return ", ".join(f"CAST(NULL AS {kind}) AS c{i}" for i, kind in enumerate(self._scan.types))

    def _filtered(self, source: str) -> str:
        """SQL for the rows that are read."""
        if self._filter is None:
            return source
        columns, condition = self._filter
        return f"SELECT * FROM (SELECT *, {columns} FROM ({source})) WHERE {condition}"  # noqa: S608

    def _prepare(self, session: Session) -> None:
        if "JSON" in self._scan.types:
            define_functions(session)

    @functools.cached_property
    def key_schema(self) -> pa.Schema:
        """Names and Arrow types of the key columns as they are released, from declarations alone: no row is read."""
        keys = ", ".join(f"{expression} AS k{i}" for i, expression in enumerate(self._keys))
        with closing(Session()) as session:
            self._prepare(session)
            found = session.schema(f"SELECT {keys} FROM (SELECT {self._nothing()})")  # noqa: S608 - no value of the data is in it
        return pa.schema([pa.field(name, column.type) for name, column in zip(self.key, found, strict=True)])

    @functools.cached_property
    def unit_type(self) -> str:
        """The type in which units are told apart, from declarations alone; text where every row is its own unit."""
        nothing = ", ".join(f"CAST(NULL AS {kind}) AS c{i}" for i, kind in enumerate(self._scan.types))
        with closing(Session()) as session:
            self._prepare(session)
            return session.types(f"SELECT {self._unit or 'NULL'} AS u FROM (SELECT {nothing})")[0][1]  # noqa: S608

    @property
    def unit_identity(self) -> str:
        """How units are told apart over several sources: by their type, and whether texts have a tag (`undeclared`)."""
        place = len(self.key)
        tagged = self._is_open(place) and not self._unit_stated
        tagged = tagged and not (self._scan.text and self._scan.types[place] != "JSON")  # CSV has texts alone
        return f"{self.unit_type} with tags" if tagged else self.unit_type

    @property
    def key_types(self) -> tuple[str, ...]:
        """DuckDB types of the key columns: as declared, or else as stated; text where they are neither."""
        return self._key_types

    @property
    def repeatable(self) -> bool:
        """Whether every reading finds the same rows: a row that changes from one key to another counts for both."""
        return not self.once and not self.unordered

    def check_unchanged(self) -> None:
        """Refuse files that were written to since they were opened."""
        if _states(self.paths) != self._files:
            raise InvalidSource("a file was changed while it was read; publish again when it is complete.")

    def select(self, session: Session) -> str:
        """Attach the source to a session and return SQL for its rows.

        The columns are k0, k1, ... (canonical keys), then u (the canonical unit, never null) or n (the
        count, null where it is none) if there is one, then v0, v1, ... (values in fine steps, or null).
        """
        if self._taken and self.once:
            raise InvalidParameter("this source can be read only once and has been read; open it again.")
        self._taken = True
        self._prepare(session)
        columns = [f"{expression} AS k{i}" for i, expression in enumerate(self._keys)]
        if self._unit is not None:
            columns.append(f"{self._unit} AS u")
        if self._count is not None:
            columns.append(f"{self._count} AS n")
        columns += [f"{expression} AS v{i}" for i, expression in enumerate(self._values)]
        return self._with_values(columns, self._filtered(self._scan.attach(session)))

    def select_counted(self, session: Session) -> str | None:
        """SQL for keys that the source has counted: k0, k1, ... and the number of rows as w.

        A key may come more than once, where two of the source's values have one canonical form. None for a source that
        does not count, and for rows with a unit or counts of their own.
        """
        if self._scan.attach_counted is None or self.unit is not None or self.count is not None:
            return None
        self._prepare(session)
        columns = [f"{expression} AS k{i}" for i, expression in enumerate(self._keys)]
        return self._with_values([*columns, "w"], self._filtered(self._scan.attach_counted(session)))

    def _with_values(self, columns: Sequence[str], source: str) -> str:
        """SQL for columns of the rows that count: those with a unit and, unless nulls are keys, with a key."""
        needed = [(i, f"k{i}") for i in range(len(self.key)) if self.nulls == "drop"]
        if self.unit is not None:
            needed.append((len(self.key), "u"))
        # A declared column is null exactly where its canonical form is, and a filter on it is one for the reader.
        inner = [f"c{i} IS NOT NULL" for i, _ in needed if not self._is_open(i)]
        outer = [f"{name} IS NOT NULL" for i, name in needed if self._is_open(i)]
        where = f" WHERE {' AND '.join(inner)}" if inner else ""
        sql = f"SELECT {', '.join(columns)} FROM ({source}){where}"  # noqa: S608 - no value of the data is in it
        return f"SELECT * FROM ({sql}) WHERE {' AND '.join(outer)}" if outer else sql  # noqa: S608

    def select_numbered(self, session: Session) -> str | None:
        """SQL for the keys of Parquet files with the number of the file as f and of the row in it as r.

        Null keys are among them: a filter on the key would make DuckDB read the whole column first. None for any other
        source, and with a filter.
        """
        if not self.paths or self.unordered or self.where is not None:
            return None
        self._prepare(session)
        source = self._scan.attach(session)
        numbered = f"SELECT file_index AS f, file_row_number AS r, {source.removeprefix('SELECT ')}"
        try:
            session.types(numbered)
        except InvalidSource:
            return None  # no such columns: not Parquet
        columns = ", ".join(f"{expression} AS k{i}" for i, expression in enumerate(self._keys))
        return f"SELECT f, r, {columns} FROM ({numbered})"  # noqa: S608

    def __repr__(self) -> str:
        return f"Rows(key={self.key!r}, unit={self.unit!r}, count={self.count!r}, nulls={self.nulls!r})"


def open_rows(
    source: Any,
    *,
    key: str | Sequence[str] | None,
    unit: str | None,
    count: str | None = None,
    nulls: Literal["drop", "keep"] = "drop",
    format: str | None = None,  # noqa: A002 - the public name
    table: str | None = None,
    query: str | None = None,
    engine: str = "auto",
    types: Mapping[str, str] | None = None,
    assumed: pa.Schema | None = None,
    infer: bool = False,
    where: Filter | None = None,
    clipped: Sequence[Clipped] = (),
    every_row: bool = False,
) -> Rows:
    """Check a source and its columns without reading its rows.

    How rows are read never depends on the rows, so that two data sets that differ in one person are read alike. The
    type of a column is the one it is declared with; a column without one is text, or what `types` says:

    - Parquet, Polars, Arrow, DuckDB, and pandas and NumPy with a dtype other than object, declare types, which are
      kept; dictionaries and enumerations become text, timestamps with a zone become UTC.
    - So do databases (a URL with `table` or `query`): text is compared by its bytes, whatever the collation, and
      numeric columns need a declared precision. A value of SQLite that has another type than its column is declared
      with is null; a column that is declared without one of INTEGER, REAL and TEXT has no declared type.
    - CSV and TSV (also .gz, .zst; "-" is standard input): UTF-8, first line is the header, fields separated
      by comma or tab, quoted by double quotes. Every field is text, so "007" stays "007". An empty field
      without quotes is null, a quoted empty field is the empty text. A row with more or fewer fields than
      the header is an error.
    - JSON lines (also .gz, .zst): one object a line. Wanted fields become text (1.50 becomes "1.5", true
      "true", nested values their JSON); a field that a row does not have is null, also where no row has it.
    - Python objects, and object columns of pandas and NumPy, become text: see `dptally.sources.undeclared`.
    - A mapping gives each key its count; an iterable or array gives one key an element. Where `key` names several
      columns, an element is a tuple with as many parts; any other is null in all of them.

    Two units are one exactly if their values are equal: numbers as numbers, however they are written, text by its
    bytes, and a text is never equal to a number.

    Args:
        source: path, glob, list of paths or of file names, "-", Polars DataFrame or LazyFrame, pandas DataFrame, Arrow
            table, reader or dataset, DuckDB relation, mapping key -> count, iterable, array or series of keys. A string
            is a path, or the URL of a database.
        key: name of the key column, or several; for mappings and iterables the names to give them (default: key).
        unit: column that says whose row it is; None when every row is its own unit.
        count: column of counts of a table that is aggregated already; only without `unit`.
        nulls: "drop" leaves out rows with a null key, "keep" counts null as a key. Rows with a null unit are
            left out.
        format: "csv", "tsv", "jsonl" or "parquet" when the file name does not tell.
        table: of a database: the name of a table, or "schema.table".
        query: of a database: one SELECT statement instead of a table.
        engine: "polars" has Polars read and count; see `dptally.sources.engine_choice`.
        types: types of key, unit and filter columns that are declared without one, such as {"age": "int64"}; see
            `dptally.sources.stated_types`. A value that is not written as one of its type is null.
        assumed: names and types of the key columns where neither the source nor `types` says them: those of a universe.
        where: which rows are read, see `dptally.sources.filters`; its columns are found by name.
        infer: for keys that are public, and for nothing else: Python objects get the type of their values.
        clipped: columns whose values are summed, with their ranges: numbers, or text that is read as such.
        every_row: whether equal rows of a unit count one by one, so that no source may leave them out.

    Raises:
        InvalidParameter: the request is contradictory or names a column that is not there.
        InvalidSource: a file is missing, empty or damaged, or a column has a type that cannot be used.
    """
    names = check_request(key, unit, count, nulls)
    place: dict[str, Any] = {"format_name": format, "table": table, "query": query, "filtered": where is not None}
    kind = kind_of_source(source, names, unit=unit, count=count, **place)
    if names is None:
        names = tuple(assumed.names) if assumed is not None else ("key",)
    if kind in ("database", "keys"):
        by_itself = "databases, which count by themselves"
        check_engine_for(engine, by_itself if kind == "database" else "keys and counts of Python")
    values = value_columns(clipped)
    if values and kind == "keys":
        raise InvalidParameter("sums and means name columns of a table; this source holds keys only.")
    also = () if where is None else where.columns
    stated = read_types(types, (*names, *(() if unit is None else (unit,)), *values, *also))
    # The position of the column whose texts tell units apart, if it has no type.
    identified = None if unit is None or unit in stated else len(names)
    wanted = [*names, *(name for name in (unit, count) if name is not None), *values, *also]
    if engine == "polars" and where is not None:
        raise InvalidParameter("the engine 'polars' takes no filter of rows; leave engine at 'auto', or filter first.")
    if kind == "database":
        kind_of_url(source)
        selection = selection_of(names, unit, count, table, query, values, also, every_row=every_row)
        scan = open_database(source, selection, identified=identified)
    elif kind == "keys":
        names, scan = _open_keys(source, names, infer=infer, named=key is not None)
        count = "count" if isinstance(source, Mapping) else None
    else:
        scan = _open_paths(source, wanted, format) if kind == "files" else _open_table(source, wanted, identified)
        if engine == "polars":
            roles: dict[str, Any] = {"unit": unit, "count": count, "identified": identified}
            scan = scan_by_polars(source, scan, wanted, **roles, every_row=every_row)
    read = _assumed_types(assumed, names)
    columns: dict[str, Any] = {"key": names, "unit": unit, "count": count, "clipped": clipped, "where": where}
    return Rows(scan, **columns, nulls=nulls, types=stated, assumed=read)


def value_columns(clipped: Sequence[Clipped]) -> tuple[str, ...]:
    """The columns of the source that are summed, each once."""
    return tuple(dict.fromkeys(each.column for each in clipped))


def _declared_otherwise(name: str) -> InvalidParameter:
    return InvalidParameter(
        f"column '{name}' is declared with a type of its own; types is for columns without one: convert it in the "
        "source."
    )


def _open_keys(source: Any, names: tuple[str, ...], *, infer: bool, named: bool) -> tuple[tuple[str, ...], Scan]:
    if isinstance(source, Mapping):
        return names, in_memory.open_mapping(source, len(names))
    if not isinstance(source, Iterable) or isinstance(source, bytes | bytearray):
        raise InvalidParameter(
            "source must be a path, a table, a mapping of keys to counts, or an iterable of keys, "
            f"got {type(source).__name__}."
        )
    if infer:
        return in_memory.open_public_keys(source, names if named else None)
    return names, in_memory.open_keys(source, len(names))


def _assumed_types(assumed: pa.Schema | None, names: Sequence[str]) -> dict[int, str]:
    """DuckDB's types of the assumed columns, by position; text needs none."""
    if assumed is None or len(assumed) != len(names):
        return {}
    return {i: kind for i, kind in enumerate(describe(assumed)) if kind != "VARCHAR" and not kind.startswith("ENUM")}


def _open_paths(source: Any, wanted: Sequence[str], format_name: str | None) -> Scan:
    if isinstance(source, str | PurePath):
        return open_files([str(source)], wanted, format_name)
    for number, item in enumerate(source, start=1):  # by number: if these were keys after all, none may be shown
        if isinstance(item, str) and not glob.has_magic(item) and not Path(item).exists():
            raise InvalidSource(
                f"item {number} of the list is not a file; a list of names like 'a.csv' is read as files, "
                "to count such names as keys give an iterator over them."
            )
    return open_files([str(item) for item in source], wanted, format_name)


def _open_table(source: Any, wanted: Sequence[str], identified: int | None) -> Scan:
    home, name = type(source).__module__.split(".")[0], type(source).__name__
    if home == "pandas":
        return frames.open_pandas(source, wanted, identified)
    opened = {"polars": frames.open_polars, "duckdb": frames.open_relation, "_duckdb": frames.open_relation}.get(home)
    if opened is None:
        opened = frames.open_reader if name == "RecordBatchReader" else frames.open_arrow
        opened = frames.open_dataset if name.endswith("Dataset") else opened
    return opened(source, wanted)
