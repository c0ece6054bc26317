"""DuckDB as a locked room: our own database, its own spill directory, no network, no files but those named.

Errors of DuckDB quote rows. They stop here: `explain` turns each into a fixed sentence, and the original is
dropped, not chained.
"""

from __future__ import annotations

import contextlib
import functools
import re
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import duckdb
import pyarrow as pa
from duckdb.func import FunctionNullHandling, PythonUDFType

from dptally.errors import DptallyError, InvalidParameter, InvalidSource, attempt
from dptally.sources.columns import quote_identifier, quote_literal
from dptally.sources.temporary import PrivateDirectory, remove_stale_directories

BATCH_ROWS = 1 << 17
OPEN_FILES = "/dev/fd/"  # where Linux and macOS have what a process has open, such as the pipe of standard input
_MEMORY = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([KMGT]i?B|B|bytes)\s*", re.IGNORECASE)
_LINE = re.compile(r"\A[^\n]*?CSV Error on Line: (\d+)")
_OF_THE_QUERY = re.compile(r"(?!IO Error|Invalid Error|Invalid Input Error: Failed to read)[A-Z][A-Za-z ]* Error: ")


class OutOfMemory(InvalidSource):
    """The engine may not take as much memory as the work needs."""


class Session:
    """One DuckDB database that reads nothing but the files it is told and leaves nothing behind.

    DuckDB spills to disk beyond `memory_limit`, such as "4GB"; None takes four fifths of what DuckDB would take by
    itself (that is four fifths of the machine). `share` is the part of it, and of the free disk, that belongs to this
    session. Only files in `paths` are read. With `in_order`, rows come in the order of the files, which costs some
    speed.
    """

    def __init__(
        self, *, memory_limit: str | None = None, share: float = 1.0, paths: Sequence[str] = (), in_order: bool = False
    ) -> None:
        remove_stale_directories()
        self._directory = PrivateDirectory()
        self.in_order = in_order
        self._paths = tuple(paths)
        self._failure: DptallyError | None = None
        self._readers: list[Any] = []
        self._defined: set[str] = set()
        self._connection = duckdb.connect()
        free = shutil.disk_usage(self._directory.path).free
        self._watch_progress()
        limit = _scaled(memory_limit or self._setting("memory_limit"), share * (1.0 if memory_limit else 0.8))
        allowed = ", ".join(quote_literal(path) for path in paths)
        for setting in (
            f"memory_limit = {quote_literal(limit)}",
            f"temp_directory = {quote_literal(str(self._directory.path))}",
            f"max_temp_directory_size = '{int(free * 0.8 * share)}B'",
            f"preserve_insertion_order = {'true' if in_order else 'false'}",
            "arrow_large_buffer_size = true",
            "TimeZone = 'UTC'",
            "autoinstall_known_extensions = false",
            "autoload_known_extensions = false",
            "allow_community_extensions = false",
            "python_enable_replacements = false",
            f"allowed_paths = [{allowed}]",
            "enable_external_access = false",
            "lock_configuration = true",
        ):
            self._connection.execute(f"SET {setting}")

    def _watch_progress(self) -> None:
        """Have DuckDB know how far a query is, without showing it.

        In a Jupyter kernel it shows progress by ipywidgets alone. Where those are not installed it has no progress bar
        and refuses every setting of one: nothing is shown then, and `progress` is not known.
        """
        with contextlib.suppress(duckdb.InvalidInputException):
            self._connection.execute("SET enable_progress_bar_print = false")
            self._connection.execute("SET progress_bar_time = 0")

    def _setting(self, name: str) -> str:
        row = self._connection.execute(f"SELECT current_setting('{name}')").fetchone()
        return str(row[0]) if row else "1GB"

    def execute(self, sql: str) -> None:
        """Run a statement that returns nothing."""
        attempt(lambda: self._connection.execute(sql), self._explained, duckdb.Error)

    def _explained(self, error: BaseException) -> DptallyError:
        """What was raised in a stream or function of ours, or else what DuckDB's error says."""
        return self._failure or explain(error, self._paths)

    def attach(self, path: str, name: str) -> None:
        """Make the tables of a DuckDB file readable under a name; it must be among the session's paths, as its log."""

        def explained(error: Exception) -> InvalidSource:
            if "not a valid DuckDB" in str(error):
                return InvalidSource(f"'{path}' is not a DuckDB database.")
            why = "another connection may be writing to it, or a newer version has written it"
            return InvalidSource(f"'{path}' cannot be opened: {why}.")

        sql = f"ATTACH IF NOT EXISTS {quote_literal(path)} AS {name} (TYPE DUCKDB, READ_ONLY)"
        attempt(lambda: self._connection.execute(sql), explained, duckdb.Error)

    def register(self, name: str, table: object) -> None:
        """Make an Arrow or Polars table readable under a name."""
        self._connection.register(name, table)

    def register_stream(self, name: str, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> None:
        """Make a stream of batches readable, once, under a name; an error in it surfaces as it was raised."""
        self.register(name, pa.RecordBatchReader.from_batches(schema, self._watched(batches)))

    def define(self, name: str, function: Callable[..., pa.Array], parameters: list[Any], result: str) -> None:
        """Make a function of Arrow columns callable in SQL, once; an error in it surfaces as it was raised."""
        if name in self._defined:
            return
        self._defined.add(name)

        @functools.wraps(function)  # DuckDB counts the parameters
        def watched(*columns: pa.Array) -> pa.Array:
            try:
                return function(*columns)
            except DptallyError as error:
                self._failure = error
                raise

        columns, nulls = PythonUDFType.ARROW, FunctionNullHandling.SPECIAL
        self._connection.create_function(name, watched, parameters, result, type=columns, null_handling=nulls)

    def keep(self, reader: object) -> None:
        """Close `reader` together with the session."""
        self._readers.append(reader)

    def _watched(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        try:
            yield from batches
        except DptallyError as error:
            self._failure = error
        except Exception as error:
            self._failure = InvalidSource(f"the source raised {type(error).__name__} while it was read.")
        if self._failure is not None:
            raise self._failure

    def types(self, sql: str) -> list[tuple[str, str]]:
        """Return the name and type of each column of a query, without running it."""
        relation = attempt(lambda: self._connection.sql(sql), lambda error: explain(error, self._paths), duckdb.Error)
        return list(zip(relation.columns, map(str, relation.types), strict=True))

    def schema(self, sql: str) -> pa.Schema:
        """Return the Arrow schema of a query's result, without running it."""
        nulls = ", ".join(f"CAST(NULL AS {kind}) AS {quote_identifier(name)}" for name, kind in self.types(sql))
        return self._connection.sql(f"SELECT {nulls} LIMIT 0").to_arrow_reader(1).schema

    def batches(self, sql: str, *, also_nothing: bool = False) -> Iterator[pa.RecordBatch]:
        """Run a query and yield its rows as they come; errors carry nothing of the data.

        With `also_nothing`, no rows are a batch without rows: it has the columns and their types.
        """
        failure: DptallyError | None = None
        try:
            reader = self._connection.sql(sql).to_arrow_reader(BATCH_ROWS)
            empty = also_nothing
            for batch in reader:
                if batch.num_rows:
                    empty = False
                    yield batch
            if empty:
                yield pa.RecordBatch.from_pylist([], reader.schema)
        except (duckdb.Error, pa.ArrowException, OSError, RuntimeError) as error:
            failure = self._explained(error)
        if failure:
            raise failure

    def progress(self) -> float | None:
        """Return how much of the running query is done, between 0 and 1, if DuckDB knows."""
        percentage = float(self._connection.query_progress())
        return percentage / 100 if percentage >= 0 else None

    def interrupt(self) -> None:
        """Stop the running query, from any thread, also where it waits for input that may never come."""
        for reader in self._readers:
            if hasattr(reader, "cancel"):
                reader.cancel()
        with contextlib.suppress(duckdb.Error):  # already closed: nothing runs
            self._connection.interrupt()

    def close(self) -> None:
        """Drop the database and its files. May be called again."""
        for reader in self._readers:
            with contextlib.suppress(pa.ArrowException, duckdb.Error, OSError):
                reader.close()
        self._readers.clear()
        self._connection.close()
        self._directory.close()


def describe(schema: pa.Schema) -> list[str]:
    """Return the DuckDB types of an Arrow schema's columns, "unknown" where it has none."""
    known = {"arrow.uuid", "arrow.bool8", "arrow.json"}
    with duckdb.connect() as connection:
        types = []
        for field in schema:
            foreign = isinstance(field.type, pa.BaseExtensionType) and field.type.extension_name not in known
            try:
                if foreign:
                    raise NotImplementedError
                connection.register("one", pa.schema([field]).empty_table())
                types.append(str(connection.sql("SELECT * FROM one").types[0]))
            except (duckdb.Error, pa.ArrowException, NotImplementedError):
                types.append("unknown")
        return types


def explain(error: BaseException, paths: Sequence[str] = ()) -> DptallyError:
    """Turn an engine's error into a sentence that holds nothing of the data."""
    text = str(error)
    if isinstance(error, duckdb.OutOfMemoryException | duckdb.FatalException | MemoryError):
        if "temp_directory" not in text and "No space left" not in text:
            return OutOfMemory("the work needs more memory than it may take; raise `memory_limit`.")
        text = "No space left"
    if "No space left" in text:
        return InvalidSource("the work needs more temporary disk space than is free; set TMPDIR to a larger disk.")
    name = _file_named_in(text, paths)
    if found := _LINE.match(text):
        reason = "cannot be read as CSV"
        if "Expected Number of Columns" in text:
            reason = "does not have as many fields as the header"
        elif "unicode" in text:
            reason = "is not UTF-8 text"
        elif "unterminated quote" in text:
            reason = "has a quote that does not close or a line end unlike the header's"
        return InvalidSource(f"line {found[1]} of {name} {reason}.")
    if "CSV Parser state machine" in text:
        return InvalidSource(f"{name} mixes line ends or quotes in a way that is not CSV.")
    if "Malformed JSON" in text:
        return InvalidSource(f"{name} must hold one JSON object a line; at least one line is none.")
    if text.startswith("Invalid Input Error: File is encrypted"):
        return InvalidSource(f"{name} has encrypted columns, which cannot be read; decrypt the file first.")
    damaged = InvalidSource(f"{name} could not be read to its end; it may be damaged or incomplete.")
    if isinstance(error, duckdb.IOException):
        return damaged
    if "unicode" in text.lower() or "utf" in text.lower():
        return InvalidSource(f"{name} holds text that is not valid UTF-8.")
    if paths and all(path.lower().endswith(".parquet") for path in paths) and not _OF_THE_QUERY.match(text):
        return damaged
    return InvalidSource(f"{name} could not be read as asked.")


def _file_named_in(text: str, paths: Sequence[str]) -> str:
    if len(paths) == 1:
        return "standard input" if paths[0].startswith(OPEN_FILES) else f"'{paths[0]}'"
    for path in paths:
        if f"file = {path}" in text or f'"{path}"' in text or text.rstrip().endswith(path):
            return f"'{path}'"
    return "the source"


def check_memory_limit(memory_limit: str | None) -> None:
    """Refuse a memory limit that is not a positive number with a unit."""
    if memory_limit is None:
        return
    found = _MEMORY.fullmatch(memory_limit) if isinstance(memory_limit, str) else None
    if not found or float(found[1]) == 0:
        raise InvalidParameter(f"memory_limit must be an amount such as '4GB', got {memory_limit!r}.")


def _scaled(amount: str, factor: float) -> str:
    found = _MEMORY.fullmatch(amount)
    if not found:
        return amount
    unit = found[2].lower()
    base, power = 1024 if "i" in unit else 1000, "bkmgt".index(unit[0])
    return f"{int(float(found[1]) * base**power * factor)}B"
