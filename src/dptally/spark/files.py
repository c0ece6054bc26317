"""Files read by Spark, by the rules of one machine.

Parquet is read by Spark itself. CSV, TSV and JSON lines are parsed on the executors by the reader that one machine uses
(`dptally.sources`), whole files at a time: every value is text or of the type that was stated, nothing is guessed, and
what is an error there is one here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from dptally.errors import InvalidParameter
from dptally.sources.engine import Session
from dptally.sources.files import find_files, open_parquet
from dptally.sources.files import open_files as open_scan
from dptally.sources.requests import check_request
from dptally.sources.rows import Rows
from dptally.sources.scan import Scan
from dptally.sources.stated_types import read_types
from dptally.spark.session import local_session
from dptally.spark.workers import map_in_arrow

__all__ = ["open_files"]

_SPARK_TYPES = {
    "VARCHAR": "string",
    "BIGINT": "long",
    "DOUBLE": "double",
    "BOOLEAN": "boolean",
    "DATE": "date",
    "TIMESTAMP": "timestamp_ntz",
    "TIMESTAMP WITH TIME ZONE": "timestamp",
    "BLOB": "binary",
}


def open_files(
    paths: str | Sequence[str],
    *,
    key: str | Sequence[str],
    unit: str | None = None,
    count: str | None = None,
    format: str | None = None,  # noqa: A002 - the public name
    session: Any = None,
    types: Mapping[str, str] | None = None,
) -> Any:
    """A Spark DataFrame of the wanted columns of files, for `publish`.

    The executors must see the files under the same names. Columns and types are checked here, before Spark reads.

    Args:
        paths: path, glob, or several, all of one format.
        key: name of the key column, or several.
        unit: column that says whose row it is.
        count: column of counts.
        format: "csv", "tsv", "jsonl" or "parquet", where the file names do not tell.
        session: the Spark session; None for the running one, or a new one on this machine.
        types: types of key and unit columns of text files, as in `dptally.publish`; text if left out.

    Returns:
        pyspark.sql.DataFrame: the columns under their names, each value in its canonical form; of text files without
        the rows that have no unit, and with counts as integers, null where they are none.

    Raises:
        InvalidParameter: a column is not there, or the formats differ.
        InvalidSource: a file is missing, empty or damaged.
        MissingDependency: Spark or Java is missing.
    """
    names = check_request(key, unit, count, "drop") or ()
    wanted = [*names, *(name for name in (unit, count) if name is not None)]
    patterns = [paths] if isinstance(paths, str | Path) else list(paths)
    patterns = [str(pattern) for pattern in patterns]
    if patterns == ["-"]:
        raise InvalidParameter("Spark cannot read standard input; give files.")
    stated = read_types(types, wanted if count is None else names)
    scan = open_scan(patterns, wanted, format)
    if not scan.text and "JSON" in scan.types:
        raise InvalidParameter("Spark does not read JSON columns of Parquet by the same rules; leave engine at 'auto'.")
    reader = _ReadFiles(names, unit, count, format, stated)
    reader.rows(scan)  # refuses types of columns that declare one
    columns = reader.columns()
    files = [str(Path(name).absolute()) for name in find_files(patterns)]
    spark = session if session is not None else local_session()
    if not scan.text:
        open_parquet(files, wanted)
        frame = spark.read.option("recursiveFileLookup", "true").parquet(*(f"file://{name}" for name in files))
        positions = [frame.columns.index(name) for name in wanted]
        plain = frame.toDF(*(f"c{i}" for i in range(len(frame.columns))))
        return plain.select(*(plain[f"c{position}"] for position in positions)).toDF(*wanted)
    tasks = min(len(files), 4 * spark.sparkContext.defaultParallelism)
    listed = spark.createDataFrame([(name,) for name in files], "path string").repartition(tasks)
    return map_in_arrow(listed, reader, columns).toDF(*wanted)


class _ReadFiles:
    """Parses the text files whose names it gets."""

    def __init__(
        self,
        key: tuple[str, ...],
        unit: str | None,
        count: str | None,
        format_name: str | None,
        stated: dict[str, str],
    ) -> None:
        self._key, self._unit, self._count = key, unit, count
        self._format, self._stated = format_name, stated
        self._wanted = [*key, *(name for name in (unit, count) if name is not None)]

    def rows(self, scan: Scan) -> Rows:
        """The rows of a file."""
        return Rows(scan, key=self._key, unit=self._unit, count=self._count, nulls="keep", types=self._stated)

    def columns(self) -> str:
        """The columns c0, c1, ... with their types, as Spark writes them."""
        kinds = [self._kind(name) for name in self._wanted]
        for name, kind in zip(self._wanted, kinds, strict=True):
            if kind not in _SPARK_TYPES and not kind.startswith("DECIMAL"):
                raise InvalidParameter(f"Spark has no type for column '{name}' as stated; leave engine at 'auto'.")
        return ", ".join(f"c{i} {_SPARK_TYPES.get(kind, kind.lower())}" for i, kind in enumerate(kinds))

    def _kind(self, name: str) -> str:
        return "BIGINT" if name == self._count else self._stated.get(name, "VARCHAR")

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for name in batch.column(0).to_pylist():
                yield from self._read(name)

    def _read(self, name: str) -> Iterator[pa.RecordBatch]:
        scan = open_scan([name], self._wanted, self._format)
        session = Session(paths=scan.paths)
        try:
            for batch in session.batches(self.rows(scan).select(session)):
                columns = [_small(column) for column in batch.columns]
                yield pa.RecordBatch.from_arrays(columns, names=[f"c{i}" for i in range(len(columns))])
        finally:
            session.close()


def _small(column: pa.Array) -> pa.Array:
    """The column in the layout that Spark expects."""
    layouts = {pa.large_string(): pa.string(), pa.large_binary(): pa.binary()}
    return column.cast(layouts.get(column.type, column.type))
