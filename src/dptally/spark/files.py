"""Files read by Spark, by the rules of one machine.

Parquet is read by Spark itself. CSV, TSV and JSON lines are parsed on the executors by the reader that one machine uses
(`dptally.sources`), whole files at a time: every value is text, nothing is guessed, and what is an error there is one
here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from dptally.errors import InvalidParameter
from dptally.sources.columns import count_expression
from dptally.sources.engine import Session
from dptally.sources.files import find_files, open_parquet
from dptally.sources.files import open_files as open_scan
from dptally.sources.rows import check_request
from dptally.spark.errors import marked
from dptally.spark.session import local_session
from dptally.spark.workers import map_in_arrow

__all__ = ["open_files"]


def open_files(
    paths: str | Sequence[str],
    *,
    key: str | Sequence[str],
    unit: str | None = None,
    count: str | None = None,
    format: str | None = None,  # noqa: A002 - the public name
    session: Any = None,
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

    Returns:
        pyspark.sql.DataFrame: the columns under their names; counts of text files as integers, null where they are
        none.

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
    scan = open_scan(patterns, wanted, format)
    files = [str(Path(name).absolute()) for name in find_files(patterns)]
    spark = session if session is not None else local_session()
    if not scan.text:
        open_parquet(files, wanted)
        frame = spark.read.option("recursiveFileLookup", "true").parquet(*(f"file://{name}" for name in files))
        positions = [frame.columns.index(name) for name in wanted]
        plain = frame.toDF(*(f"c{i}" for i in range(len(frame.columns))))
        return plain.select(*(plain[f"c{position}"] for position in positions)).toDF(*wanted)
    reader = _ReadFiles(tuple(wanted), format, count)
    tasks = min(len(files), 4 * spark.sparkContext.defaultParallelism)
    listed = spark.createDataFrame([(name,) for name in files], "path string").repartition(tasks)
    columns = [f"c{i} {'long' if name == count else 'string'}" for i, name in enumerate(wanted)]
    return map_in_arrow(listed, reader, ", ".join(columns)).toDF(*wanted)


class _ReadFiles:
    """Parses the files whose names it gets."""

    def __init__(self, wanted: tuple[str, ...], format_name: str | None, count: str | None) -> None:
        self._wanted, self._format, self._count = wanted, format_name, count

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        failure = None
        try:
            for batch in batches:
                for name in batch.column(0).to_pylist():
                    yield from self._read(name)
        except Exception as error:
            failure = marked(error)
        if failure is not None:
            raise failure

    def _read(self, name: str) -> Iterator[pa.RecordBatch]:
        scan = open_scan([name], self._wanted, self._format)
        session = Session(paths=scan.paths)
        try:
            columns = [
                f"{count_expression(f'c{i}', wanted, 'VARCHAR', text=True)} AS c{i}"
                if wanted == self._count
                else f"c{i}"
                for i, wanted in enumerate(self._wanted)
            ]
            sql = f"SELECT {', '.join(columns)} FROM ({scan.attach(session)})"  # noqa: S608 - no value of the data is in it
            kinds = [pa.int64() if wanted == self._count else pa.string() for wanted in self._wanted]
            schema = pa.schema([(f"c{i}", kind) for i, kind in enumerate(kinds)])
            for batch in session.batches(sql):
                yield from pa.Table.from_batches([batch]).cast(schema).to_batches()
        finally:
            session.close()
