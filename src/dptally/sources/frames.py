"""Tables in memory and tables of other engines, handed to DuckDB as Arrow with only the wanted columns."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from dptally.errors import InvalidSource
from dptally.sources.columns import quote_identifier, require_columns
from dptally.sources.engine import BATCH_ROWS, Session, describe
from dptally.sources.files import refuse_same_files
from dptally.sources.scan import Scan
from dptally.sources.undeclared import texts

__all__ = [
    "LazyAttachment",
    "is_declared",
    "open_arrow",
    "open_dataset",
    "open_pandas",
    "open_polars",
    "open_reader",
    "open_relation",
    "pandas_array",
    "pandas_table",
    "polars_columns",
]


def _positional(count: int) -> list[str]:
    return [f"c{i}" for i in range(count)]


def open_arrow(table: Any, wanted: Sequence[str]) -> Scan:
    """Open an Arrow table or record batch."""
    require_columns(wanted, table.schema.names)
    chosen = pa.table([table[name] for name in wanted], names=_positional(len(wanted)))
    return _scan_of_table(chosen, describe(chosen.schema))


def _scan_of_table(table: Any, types: Sequence[str], undeclared: frozenset[int] = frozenset()) -> Scan:
    def attach(session: Session) -> str:
        session.register("source", table)
        return "SELECT * FROM source"

    return Scan(types=tuple(types), attach=attach, undeclared=undeclared)


def _scan_of_stream(schema: pa.Schema, batches: Iterator[pa.RecordBatch], reader: object) -> Scan:
    def attach(session: Session) -> str:
        if reader is not None:
            session.keep(reader)
        session.register_stream("source", schema, batches)
        return "SELECT * FROM source"

    return Scan(types=tuple(describe(schema)), attach=attach, once=True)


def open_reader(reader: Any, wanted: Sequence[str]) -> Scan:
    """Open an Arrow stream, which can be read once."""
    require_columns(wanted, reader.schema.names)
    names = _positional(len(wanted))
    schema = pa.schema([reader.schema.field(name).with_name(new) for name, new in zip(wanted, names, strict=True)])
    batches = (pa.RecordBatch.from_arrays([batch.column(name) for name in wanted], schema=schema) for batch in reader)
    return _scan_of_stream(schema, batches, None)


def open_dataset(dataset: Any, wanted: Sequence[str]) -> Scan:
    """Open an Arrow dataset; only the wanted columns are read from it."""
    require_columns(wanted, dataset.schema.names)
    refuse_same_files(_local_files(dataset))
    names = _positional(len(wanted))
    schema = pa.schema([dataset.schema.field(name).with_name(new) for name, new in zip(wanted, names, strict=True)])

    def attach(session: Session) -> str:
        reader = dataset.scanner(columns=list(wanted), batch_size=BATCH_ROWS).to_reader()
        session.keep(reader)
        renamed = (pa.RecordBatch.from_arrays(batch.columns, schema=schema) for batch in reader)
        session.register_stream("source", schema, renamed)
        return "SELECT * FROM source"

    return Scan(types=tuple(describe(schema)), attach=attach)


def _local_files(dataset: Any) -> list[str]:
    """The files on this machine that a dataset reads, with those of the datasets it is put together from."""
    children = [name for child in getattr(dataset, "children", ()) for name in _local_files(child)]
    local = type(getattr(dataset, "filesystem", None)).__name__ == "LocalFileSystem"
    return [*children, *(dataset.files if local else ())]


def open_polars(frame: Any, wanted: Sequence[str]) -> Scan:
    """Open a Polars DataFrame, or a LazyFrame, which is run by the streaming engine and never held whole."""
    import polars as pl

    columns, schema = polars_columns(frame, wanted)
    types = describe(schema)
    if isinstance(frame, pl.DataFrame):
        return _scan_of_table(columns if "unknown" not in types else frame, types)
    return Scan(types=tuple(types), attach=LazyAttachment(columns, schema), unordered=True)


def polars_columns(frame: Any, wanted: Sequence[str]) -> tuple[Any, pa.Schema]:
    """The wanted columns of a Polars frame as c0, c1, ..., and their Arrow types; labels become text.

    A column that Arrow does not know gets a type that no key has.
    """
    import polars as pl

    try:
        schema = frame.collect_schema()
    except (pl.exceptions.PolarsError, OSError):
        schema = None
    if schema is None:
        raise InvalidSource("the columns of the LazyFrame cannot be found; it may name missing files or columns.")
    require_columns(wanted, schema.names())
    labels = (pl.Categorical, pl.Enum)
    columns = [
        (pl.col(name).cast(pl.String) if isinstance(schema[name], labels) else pl.col(name)).alias(f"c{i}")
        for i, name in enumerate(wanted)
    ]
    arrow_schema = []
    for name, column in zip(wanted, columns, strict=True):
        try:
            if schema[name] == pl.Object:
                raise TypeError
            field = pl.DataFrame(schema={name: schema[name]}).select(column).to_arrow().schema.field(0)
        except (pl.exceptions.PolarsError, pa.ArrowException, NotImplementedError, TypeError):
            field = pa.field("unknown", pa.list_(pa.null()))
        arrow_schema.append(field)
    return frame.select(columns), pa.schema(arrow_schema)


class LazyAttachment:
    """Runs a LazyFrame each time it is attached."""

    def __init__(self, frame: Any, schema: pa.Schema) -> None:
        self._frame = frame
        self._schema = schema

    def __call__(self, session: Session) -> str:
        """Register what the plan yields as the table "source"."""
        session.register_stream("source", self._schema, self._batches(session.in_order))
        return "SELECT * FROM source"

    def _batches(self, in_order: bool) -> Iterator[pa.RecordBatch]:
        parts = self._frame.collect_batches(
            chunk_size=BATCH_ROWS, maintain_order=in_order, lazy=True, engine="streaming"
        )
        for part in parts:
            yield from part.to_arrow().cast(self._schema).to_batches()


def open_pandas(frame: Any, wanted: Sequence[str], identified: str | None = None) -> Scan:
    """Open a pandas DataFrame; columns of Python objects become text, that of `identified` tells units apart."""
    require_columns(wanted, [str(name) for name in frame.columns])
    table = pandas_table(frame, wanted, identified).rename_columns(_positional(len(wanted)))
    undeclared = frozenset(i for i, name in enumerate(wanted) if not is_declared(frame[name]))
    return _scan_of_table(table, describe(table.schema), undeclared)


def pandas_table(frame: Any, wanted: Sequence[str], identified: str | None) -> pa.Table:
    """Turn columns of a pandas DataFrame into Arrow; see `pandas_array`."""
    arrays = [pandas_array(frame[name], f"column '{name}'", identities=name == identified) for name in wanted]
    return pa.table(arrays, names=list(wanted))


def is_declared(series: Any) -> bool:
    """Whether the dtype of a pandas series says what its values are; "object", or labels that are objects, does not."""
    import pandas as pd

    dtype = series.dtype
    return not pd.api.types.is_object_dtype(dtype.categories if isinstance(dtype, pd.CategoricalDtype) else dtype)


def pandas_array(series: Any, what: str, *, identities: bool = False) -> pa.Array:
    """Turn a pandas series into Arrow, of the type of its dtype; objects become text, each by itself.

    Args:
        series: a series or an index.
        what: its name, for the error.
        identities: whether texts of objects must tell units apart.

    Raises:
        InvalidSource: Arrow does not know the dtype.
    """
    import pandas as pd

    if not is_declared(series):
        if isinstance(series.dtype, pd.CategoricalDtype):
            codes = pa.array(series.cat.codes if hasattr(series, "cat") else series.codes, pa.int32())
            labels = texts(list(series.dtype.categories), identities=identities)
            return labels.take(pc.if_else(pc.greater_equal(codes, 0), codes, pa.scalar(None, pa.int32())))
        return _array_of_objects(series, identities=identities)
    array = None
    try:
        kind = pa.Array.from_pandas(series[:0]).type
        array = pa.Array.from_pandas(series, type=kind)
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        array = None
    if array is None and pd.api.types.is_string_dtype(series.dtype):  # some of it is not valid Unicode
        array = texts([None if value is pd.NA else value for value in series])
    if array is None:
        raise InvalidSource(f"{what} has a dtype that cannot be read; convert it first.")
    return array


def _array_of_objects(series: Any, *, identities: bool) -> pa.Array:
    if not identities and set(map(type, series)) <= {str, float, type(None)}:
        with contextlib.suppress(pa.ArrowException, UnicodeError):  # numbers among the text, or text that is none
            return pa.Array.from_pandas(series, type=pa.large_string())
    return texts(list(series), identities=identities)


def open_relation(relation: Any, wanted: Sequence[str]) -> Scan:
    """Open a DuckDB relation, which runs on its own connection; that connection is free again afterwards."""
    require_columns(wanted, relation.columns)
    known = dict(zip(relation.columns, map(str, relation.types), strict=True))
    columns = []
    for i, name in enumerate(wanted):
        quoted = quote_identifier(name)
        is_label = known[name].startswith("ENUM")
        columns.append(f"{f'CAST({quoted} AS VARCHAR)' if is_label else quoted} AS c{i}")

    def attach(session: Session) -> str:
        import duckdb

        reader = None
        try:
            reader = relation.project(", ".join(columns)).to_arrow_reader(BATCH_ROWS)
        except duckdb.Error:
            reader = None
        if reader is None:
            raise InvalidSource("the DuckDB relation could not be run.")
        session.keep(reader)
        session.register_stream("source", reader.schema, iter(reader))
        return "SELECT * FROM source"

    return Scan(types=tuple(known[name] for name in wanted), attach=attach, unordered=True)
