"""Keys that are Python objects, arrays or series.

Values must be of one kind. The kind is taken from the first keys; a later key of another kind is an error,
never a silent conversion. Keys are taken from the caller's iterable in the caller's thread, in pieces, into
a DuckDB table that spills to disk, so a long stream does not have to fit in memory.
"""

from __future__ import annotations

import datetime
import itertools
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from dptally.errors import DptallyError, InvalidParameter, InvalidSource
from dptally.sources.columns import MAXIMUM_COUNT
from dptally.sources.engine import Session, describe
from dptally.sources.scan import Scan

__all__ = ["open_keys", "open_mapping"]

_PIECE = 1 << 16
_KINDS: tuple[tuple[tuple[type, ...], Any], ...] = (  # first match wins: a bool is an int, a datetime is a date
    ((bool, np.bool_), pa.bool_()),
    ((int, np.integer), pa.int64()),
    ((str,), pa.large_string()),
    ((bytes,), pa.large_binary()),
    ((datetime.datetime,), pa.timestamp("us")),
    ((datetime.date,), pa.date32()),
    ((datetime.time,), pa.time64("us")),
    ((float, np.floating), pa.float64()),
)
_ALLOWED = "str, bytes, int, bool, float, date, datetime or time"


def open_mapping(source: Mapping[Any, Any], names: tuple[str, ...] | None) -> tuple[tuple[str, ...], Scan]:
    """Open a mapping of keys to counts.

    Raises:
        InvalidSource: a count is not an integer between 0 and 2^62, or the keys are of several kinds.
        InvalidParameter: `names` do not fit the keys.
    """
    counts = list(source.values())
    kinds = set(map(type, counts))
    if any(issubclass(kind, bool | np.bool_) or not issubclass(kind, int | np.integer) for kind in kinds):
        raise InvalidSource("the counts of a mapping must be integers.")
    if counts and (min(counts) < 0 or max(counts) > MAXIMUM_COUNT):
        raise InvalidSource("the counts of a mapping must be between 0 and 2^62.")
    names, columns = _columns_of(list(source.keys()), names)
    table = pa.table([*columns, pa.array(counts, pa.int64())], names=[f"c{i}" for i in range(len(columns) + 1)])

    def attach(session: Session) -> str:
        session.register("source", table)
        return "SELECT * FROM source"

    return names, Scan(types=tuple(describe(table.schema)), attach=attach)


def open_keys(source: Iterable[Any], names: tuple[str, ...] | None) -> tuple[tuple[str, ...], Scan]:
    """Open an array, a series or any iterable of keys.

    Raises:
        InvalidSource: the keys are of several kinds or of a kind that cannot be a key.
        InvalidParameter: `names` do not fit the keys.
    """
    array = _as_array(source)
    if array is not None:
        names = names or ("key",)
        if len(names) != 1:
            raise InvalidParameter(f"key names {len(names)} columns, but the source holds 1.")
        table = pa.table([array], names=["c0"])

        def attach_table(session: Session) -> str:
            session.register("source", table)
            return "SELECT * FROM source"

        return names, Scan(types=tuple(describe(table.schema)), attach=attach_table)
    return _open_iterable(source, names)


def _as_array(source: Any) -> Any:
    """Return the source as Arrow if it is an array or a series, else None."""
    home, name = type(source).__module__.split(".")[0], type(source).__name__
    if isinstance(source, pa.Array | pa.ChunkedArray):
        return source
    if home == "polars" and name == "Series":
        import polars as pl

        labels = isinstance(source.dtype, pl.Categorical | pl.Enum)
        array = None
        try:
            array = (source.cast(pl.String) if labels else source).to_arrow()
        except (pl.exceptions.PolarsError, pa.ArrowException, NotImplementedError, TypeError):
            array = None
        if array is None:
            raise InvalidSource("the Polars series has a type that cannot be a key.")
        return array
    if home == "pandas" and (name == "Series" or name.endswith("Index")):
        from dptally.sources.frames import pandas_array

        return pandas_array(source, "the pandas series")
    if isinstance(source, np.ndarray):
        if source.ndim != 1:
            raise InvalidParameter(f"an array of keys must have one dimension, got {source.ndim}.")
        if source.dtype != object:
            return _from_numpy(source)
    return None


def _from_numpy(source: Any) -> Any:
    array = None
    try:
        array = pa.array(source)
    except (pa.ArrowException, TypeError, ValueError):
        array = None
    if array is None:
        raise InvalidSource("the array holds values that cannot be keys.")
    return array


def _open_iterable(source: Iterable[Any], names: tuple[str, ...] | None) -> tuple[tuple[str, ...], Scan]:
    pieces = _pieces(source)
    first: list[Any] = []
    for piece in pieces:
        first.extend(piece)
        if any(key is not None for key in piece):
            break
    names, columns = _columns_of(first, names)
    schema = pa.schema([(f"c{i}", column.type) for i, column in enumerate(columns)])
    once = not isinstance(source, Collection)  # else nothing says that it would come again as it came

    def attach(session: Session) -> str:
        session.register("first", pa.table(columns, schema=schema))
        session.execute("CREATE TABLE source AS SELECT * FROM first")
        rest = pieces if once else itertools.islice(_pieces(source), -(-len(first) // _PIECE), None)
        for piece in rest:
            _, more = _columns_of(piece, names, schema)
            session.register("piece", pa.table(more, schema=schema))
            session.execute("INSERT INTO source SELECT * FROM piece")
        return "SELECT * FROM source"

    return names, Scan(types=tuple(describe(schema)), attach=attach, once=once)


def _pieces(source: Iterable[Any]) -> Iterator[list[Any]]:
    failure: DptallyError | None = None
    try:
        keys = iter(source)
        while piece := list(itertools.islice(keys, _PIECE)):
            yield piece
    except Exception as error:
        failure = InvalidSource(f"the source raised {type(error).__name__} while it was read.")
    if failure:
        raise failure


def _columns_of(
    keys: list[Any], names: tuple[str, ...] | None, schema: Any = None
) -> tuple[tuple[str, ...], list[Any]]:
    """Turn keys into Arrow columns, of the types in `schema` if given."""
    kinds = set(map(type, keys)) - {type(None)}
    tuples = {kind for kind in kinds if issubclass(kind, tuple)}
    if not tuples:
        width, columns = 1, [keys]
    elif tuples != kinds or None in keys:
        raise InvalidSource("some keys are tuples and some are not; all must have the same parts.")
    else:
        widths = set(map(len, keys))
        if len(widths) > 1 or 0 in widths:
            raise InvalidSource("keys that are tuples must all have the same number of parts, at least one.")
        width, columns = widths.pop(), [list(column) for column in zip(*keys, strict=True)]
    if names is None:
        names = tuple(f"key_{i}" for i in range(1, width + 1)) if tuples else ("key",)
    if len(names) != width and kinds:
        raise InvalidParameter(f"key names {len(names)} columns, but the keys have {width}.")
    columns += [keys] * (len(names) - len(columns))  # no keys, or nothing but None: names alone say how many
    types = [None] * len(names) if schema is None else schema.types
    return names, [_column(column, known) for column, known in zip(columns, types, strict=True)]


def _column(values: Sequence[Any], known: Any) -> Any:
    """Turn the values of one column into Arrow; `known` is its type if earlier values decided it."""
    found = {_kind(kind) for kind in set(map(type, values)) - {type(None)}}
    if len(found) > 1:
        raise InvalidSource("the keys are of several types; all must be of one.")
    kind = found.pop() if found else None
    if kind is not None and pa.types.is_timestamp(kind):
        zoned = {value.tzinfo is not None for value in values if value is not None}
        if len(zoned) > 1:
            raise InvalidSource("some keys have a time zone and some have not; all must be alike.")
        kind = pa.timestamp("us", "UTC") if zoned.pop() else kind
    if known is not None and kind is not None and kind != known:
        raise InvalidSource("the keys are of several types; all must be of one.")
    array = None
    try:
        array = pa.array(values, known or kind or pa.large_string())
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        array = None
    if array is None:
        raise InvalidSource("a key cannot be read: integers must fit in 64 bits, text must be valid Unicode.")
    return array


def _kind(kind: type) -> Any:
    for types, arrow_type in _KINDS:
        if issubclass(kind, types):
            return arrow_type
    raise InvalidSource(f"keys must be {_ALLOWED}, or tuples of these, not {kind.__name__}.")
