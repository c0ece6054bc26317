"""Tables in memory and tables of other engines, handed to DuckDB as Arrow with only the wanted columns."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from dptally.errors import InvalidSource, attempt
from dptally.sources.columns import quote_identifier, require_columns
from dptally.sources.engine import BATCH_ROWS, Session, describe
from dptally.sources.files import refuse_same_files
from dptally.sources.scan import Scan, scan_of_stream, scan_of_table
from dptally.sources.undeclared import texts


def open_arrow(table: Any, wanted: Sequence[str]) -> Scan:
    """Open an Arrow table or record batch."""
    require_columns(wanted, table.schema.names)
    chosen = pa.table([table[name] for name in wanted], names=_positional(wanted))
    return scan_of_table(chosen, describe(chosen.schema))


def _positional(wanted: Sequence[str]) -> list[str]:
    return [f"c{i}" for i in range(len(wanted))]


def _chosen(schema: pa.Schema, wanted: Sequence[str]) -> pa.Schema:
    """The wanted columns of a schema, as c0, c1, ..."""
    require_columns(wanted, schema.names)
    return pa.schema([schema.field(name).with_name(f"c{i}") for i, name in enumerate(wanted)])


def _selected(batches: Any, wanted: Sequence[str], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    return (pa.RecordBatch.from_arrays([batch.column(name) for name in wanted], schema=schema) for batch in batches)


def open_reader(reader: Any, wanted: Sequence[str]) -> Scan:
    """Open an Arrow stream, which can be read once."""
    schema = _chosen(reader.schema, wanted)
    return scan_of_stream(schema, describe(schema), lambda _: _selected(reader, wanted, schema), once=True)


def open_dataset(dataset: Any, wanted: Sequence[str]) -> Scan:
    """Open an Arrow dataset; only the wanted columns are read from it."""
    schema = _chosen(dataset.schema, wanted)
    refuse_same_files(_local_files(dataset))

    def batches(session: Session) -> Iterator[pa.RecordBatch]:
        reader = dataset.scanner(columns=list(dict.fromkeys(wanted)), batch_size=BATCH_ROWS).to_reader()
        session.keep(reader)
        return _selected(reader, wanted, schema)

    return scan_of_stream(schema, describe(schema), batches)


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
        return scan_of_table(columns if "unknown" not in types else frame, types)
    return scan_of_plan(columns, schema, types)


def polars_columns(frame: Any, wanted: Sequence[str]) -> tuple[Any, pa.Schema]:
    """The wanted columns of a Polars frame as c0, c1, ..., and their Arrow types; labels become text.

    A column that Arrow does not know gets a type that no key has.
    """
    import polars as pl

    lost = "the columns of the LazyFrame cannot be found; it may name missing files or columns."
    schema = attempt(frame.collect_schema, lambda _: InvalidSource(lost), pl.exceptions.PolarsError, OSError)
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


def scan_of_plan(plan: Any, schema: pa.Schema, types: Sequence[str], undeclared: Iterable[int] = ()) -> Scan:
    """What a LazyFrame yields, run each time it is attached, by the streaming engine."""

    def batches(session: Session) -> Iterator[pa.RecordBatch]:
        parts = plan.collect_batches(
            chunk_size=BATCH_ROWS, maintain_order=session.in_order, lazy=True, engine="streaming"
        )
        return (batch for part in parts for batch in part.to_arrow().cast(schema).to_batches())

    return scan_of_stream(schema, types, batches, undeclared=undeclared, unordered=True)


def polars_array(series: Any, *, views: bool = False) -> pa.Array:
    """A Polars series as Arrow, labels as text; with `views`, text is not copied."""
    import polars as pl

    labels = isinstance(series.dtype, pl.Categorical | pl.Enum)
    level = pl.CompatLevel.newest() if views else None
    return attempt(
        lambda: (series.cast(pl.String) if labels else series).to_arrow(compat_level=level),
        lambda _: InvalidSource("the Polars series has a type that cannot be a key."),
        pl.exceptions.PolarsError,
        pa.ArrowException,
        NotImplementedError,
        TypeError,
    )


def open_pandas(frame: Any, wanted: Sequence[str], identified: int | None = None) -> Scan:
    """Open a pandas DataFrame; Python objects become text, at the position `identified` one that tells units apart."""
    require_columns(wanted, [str(name) for name in frame.columns])
    table = pandas_table(frame, wanted, identified).rename_columns(_positional(wanted))
    undeclared = [i for i, name in enumerate(wanted) if not is_declared(frame[name])]
    return scan_of_table(table, describe(table.schema), undeclared)


def pandas_table(frame: Any, wanted: Sequence[str], identified: int | None) -> pa.Table:
    """Turn columns of a pandas DataFrame into Arrow; see `pandas_array`."""
    arrays = [
        pandas_array(frame[name], f"column '{name}'", identities=i == identified) for i, name in enumerate(wanted)
    ]
    return pa.table(arrays, names=list(wanted))


def is_declared(series: Any) -> bool:
    """Whether the dtype of a pandas series says what its values are; "object", or labels that are objects, does not."""
    import pandas as pd

    dtype = series.dtype
    return not pd.api.types.is_object_dtype(dtype.categories if isinstance(dtype, pd.CategoricalDtype) else dtype)


def pandas_array(series: Any, what: str, *, identities: bool = False) -> pa.Array:
    """Turn a pandas series or index into Arrow, of the type of its dtype; objects become text, each by itself.

    With `identities`, texts of objects tell units apart; `what` is its name in an error.
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

        reader = attempt(
            lambda: relation.project(", ".join(columns)).to_arrow_reader(BATCH_ROWS),
            lambda _: InvalidSource("the DuckDB relation could not be run."),
            duckdb.Error,
        )
        session.keep(reader)
        session.register_stream("source", reader.schema, iter(reader))
        return "SELECT * FROM source"

    return Scan(types=tuple(known[name] for name in wanted), attach=attach, unordered=True)
