"""Which engine reads and counts: DuckDB, Polars, or Spark.

What is counted, and the law of what is released, is the same with all of them. "auto" means DuckDB for everything but
Spark's own DataFrames: at 10^7 rows it took less processor time than Polars on files and on tables in memory (at 10^6
rows of a Polars DataFrame it took more, 0.17 s against 0.09), and it alone keeps to a memory limit. The choice never
depends on the rows.

With Polars, one plan of its streaming engine reads the source and counts the rows of each distinct key (or, with a
unit, finds the distinct pairs of unit and key). DuckDB then brings the keys, which are far fewer, into their canonical
form and adds up those that have become equal, by the expressions it uses for every other source.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa

from dptally.errors import InvalidParameter, InvalidSource
from dptally.sources import frames
from dptally.sources.engine import describe
from dptally.sources.scan import Scan

ENGINES = ("auto", "polars", "duckdb", "spark")


def check_engine(engine: object, *, memory_limit: str | None) -> None:
    """Refuse what is no engine, and limits that an engine does not keep to."""
    if engine not in ENGINES:
        raise InvalidParameter(f"engine must be one of {', '.join(map(repr, ENGINES))}, got {engine!r}.")
    if memory_limit is not None and engine == "polars":
        raise InvalidParameter("memory_limit needs the engine 'duckdb': Polars keeps to no limit.")
    if memory_limit is not None and engine == "spark":
        raise InvalidParameter("memory_limit needs the engine 'duckdb': Spark's memory is set in its session.")


def check_engine_for(engine: str, what: str) -> None:
    """Refuse Polars for sources that it does not read."""
    if engine == "polars":
        raise InvalidParameter(f"the engine 'polars' does not read {what}; leave engine at 'auto'.")


def scan_by_polars(
    source: Any,
    scan: Scan,
    wanted: Sequence[str],
    *,
    unit: str | None,
    count: str | None,
    identified: int | None,
    every_row: bool = False,
) -> Scan:
    """The same columns as `scan`, read and counted by Polars; columns that it reads in another type are refused."""
    import polars as pl

    if scan.text:
        raise InvalidParameter("the engine 'polars' reads CSV and JSON by rules of its own; leave engine at 'auto'.")
    if scan.once or type(source).__module__.split(".")[0] in ("duckdb", "_duckdb"):
        raise InvalidParameter("the engine 'polars' reads Parquet files and tables; leave engine at 'auto'.")
    selected, schema = frames.polars_columns(_lazy_frame(source, scan, wanted, identified), wanted)
    for i, (name, kind, read) in enumerate(zip(wanted, scan.types, describe(schema), strict=True)):
        if (kind, read) == ("TIMESTAMP", "TIMESTAMP_MS"):  # DuckDB reads milliseconds of Parquet as microseconds
            schema = schema.set(i, schema.field(i).with_type(pa.timestamp("us")))
        elif read != kind and not (kind.startswith("ENUM") and read == "VARCHAR"):
            raise InvalidParameter(
                f"the engine 'polars' reads column '{name}' in another type than 'duckdb' does; leave engine at 'auto'."
            )
    names = [f"c{i}" for i in range(len(wanted))]
    if every_row:
        return frames.scan_of_plan(selected, schema, tuple(describe(schema)), scan.undeclared)
    if unit is not None:
        selected = selected.filter(pl.col(names[-1]).is_not_null()).unique()
    types = tuple(describe(schema))
    plain = frames.scan_of_plan(selected, schema, types, scan.undeclared)
    if unit is not None or count is not None:
        return plain
    counted = selected.group_by(names).agg(pl.len().cast(pl.Int64).alias("w"))
    with_counts = frames.scan_of_plan(counted, schema.append(pa.field("w", pa.int64())), types)
    return replace(plain, attach_counted=with_counts.attach)


def _lazy_frame(source: Any, scan: Scan, wanted: Sequence[str], identified: int | None) -> Any:
    import polars as pl

    home = type(source).__module__.split(".")[0]
    frame: Any = None
    if home == "polars":
        return source.lazy()
    try:
        if scan.paths:
            return pl.scan_parquet(list(scan.paths), hive_partitioning=False, glob=False)
        if home == "pandas":
            frame = pl.from_arrow(frames.pandas_table(source, wanted, identified))
        elif type(source).__name__ in ("Table", "RecordBatch"):
            frame = pl.from_arrow(pa.table([source[name] for name in wanted], names=list(wanted)))
    except (pl.exceptions.PolarsError, pa.ArrowException, NotImplementedError, TypeError, ValueError) as error:
        if isinstance(error, InvalidSource):
            raise
    if frame is None:
        raise InvalidParameter("the engine 'polars' cannot read this table; leave engine at 'auto'.")
    return frame.lazy()
