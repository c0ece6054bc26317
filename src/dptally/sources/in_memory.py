"""Keys that are Python objects, arrays or series.

Python objects have no declared type: each becomes text by the rule of `dptally.sources.undeclared`. Keys are taken from
the caller's iterable in the caller's thread, in pieces, into a DuckDB table that spills to disk, so a long stream does
not have to fit in memory. Keys that are public, those of a universe, have the type of their values instead.
"""

from __future__ import annotations

import datetime
import itertools
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from dptally.errors import DptallyError, InvalidParameter, InvalidSource, attempt
from dptally.sources.columns import MAXIMUM_COUNT
from dptally.sources.engine import Session, describe
from dptally.sources.frames import is_declared, pandas_array, polars_array
from dptally.sources.scan import Scan, scan_of_table
from dptally.sources.undeclared import texts

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


def open_mapping(source: Mapping[Any, Any], width: int) -> Scan:
    """Open a mapping of keys to counts; a key of several columns is a tuple."""
    counts = list(source.values())
    kinds = set(map(type, counts))
    if any(issubclass(kind, bool | np.bool_) or not issubclass(kind, int | np.integer) for kind in kinds):
        raise InvalidSource("the counts of a mapping must be integers.")
    if counts and (min(counts) < 0 or max(counts) > MAXIMUM_COUNT):
        raise InvalidSource("the counts of a mapping must be between 0 and 2^62.")
    table = _table([*_columns_of_text(list(source), width), pa.array(counts, pa.int64())])
    return _scan(table, undeclared=width)


def open_keys(source: Iterable[Any], width: int) -> Scan:
    """Open an array, a series or any iterable of keys; a key of several columns is a tuple."""
    found = _as_array(source)
    if found is None:
        return _open_iterable(source, width)
    if width != 1:
        raise InvalidParameter(f"key names {width} columns, but the source holds 1.")
    array, declared = found
    return _scan(_table([array]), undeclared=0 if declared else 1)


def open_public_keys(source: Iterable[Any], names: tuple[str, ...] | None) -> tuple[tuple[str, ...], Scan]:
    """Open keys that are public, such as those of a universe: Python objects have the type of their values."""
    found = _as_array(source)
    if found is not None:
        return names or ("key",), open_keys(source, len(names or ("key",)))
    names, columns = _columns_of([key for piece in _pieces(source) for key in piece], names)
    return names, _scan(_table(columns), undeclared=0)


def _table(columns: Sequence[Any]) -> Any:
    return pa.table(columns, names=[f"c{i}" for i in range(len(columns))])


def _scan(table: Any, *, undeclared: int) -> Scan:
    return scan_of_table(table, describe(table.schema), range(undeclared))


def _as_array(source: Any) -> tuple[Any, bool] | None:
    """Return the source as Arrow, and whether its type is declared, if it is an array or a series; else None."""
    home, name = type(source).__module__.split(".")[0], type(source).__name__
    if isinstance(source, pa.Array | pa.ChunkedArray):
        return source, True
    if home == "polars" and name == "Series":
        return polars_array(source), True
    if home == "pandas" and (name == "Series" or name.endswith("Index")):
        return pandas_array(source, "the pandas series"), is_declared(source)
    if isinstance(source, np.ndarray):
        if source.ndim != 1:
            raise InvalidParameter(f"an array of keys must have one dimension, got {source.ndim}.")
        if source.dtype != object:
            return _from_numpy(source), True
    return None


def _from_numpy(source: Any) -> Any:
    try:
        return pa.array(source, pa.array(source[:0]).type)
    except (pa.ArrowException, TypeError, ValueError):
        pass
    if source.dtype.kind == "U":  # some of it is not valid Unicode
        return texts(source.tolist())
    raise InvalidSource("the array has a dtype that cannot be a key.")


def _open_iterable(source: Iterable[Any], width: int) -> Scan:
    once = not isinstance(source, Collection)  # else nothing says that it would come again as it came
    schema = pa.schema([(f"c{i}", pa.large_string()) for i in range(width)])

    def attach(session: Session) -> str:
        session.register("nothing", schema.empty_table())
        session.execute("CREATE TABLE source AS SELECT * FROM nothing")
        for piece in _pieces(source):
            session.register("piece", pa.table(_columns_of_text(piece, width), schema=schema))
            session.execute("INSERT INTO source SELECT * FROM piece")
        return "SELECT * FROM source"

    return Scan(types=("VARCHAR",) * width, attach=attach, once=once, undeclared=frozenset(range(width)))


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


def _columns_of_text(keys: list[Any], width: int) -> list[Any]:
    """The labels of keys, in as many columns as there are names: what is no tuple of that width is null in all."""
    if width == 1:
        return [texts(keys)]
    nothing = (None,) * width
    parts = [key if isinstance(key, tuple) and len(key) == width else nothing for key in keys]
    return [texts([part[i] for part in parts]) for i in range(width)]


def _columns_of(keys: list[Any], names: tuple[str, ...] | None) -> tuple[tuple[str, ...], list[Any]]:
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
    return names, [_column(column) for column in columns]


def _column(values: Sequence[Any]) -> Any:
    found = {_kind(kind) for kind in set(map(type, values)) - {type(None)}}
    if len(found) > 1:
        raise InvalidSource("the keys are of several types; all must be of one.")
    kind = found.pop() if found else None
    if kind is not None and pa.types.is_timestamp(kind):
        zoned = {value.tzinfo is not None for value in values if value is not None}
        if len(zoned) > 1:
            raise InvalidSource("some keys have a time zone and some have not; all must be alike.")
        kind = pa.timestamp("us", "UTC") if zoned.pop() else kind
    unreadable = InvalidSource("a key cannot be read: integers must fit in 64 bits, text must be valid Unicode.")
    errors = (pa.ArrowException, TypeError, ValueError, OverflowError)
    return attempt(lambda: pa.array(values, kind or pa.large_string()), lambda _: unreadable, *errors)


def _kind(kind: type) -> Any:
    for types, arrow_type in _KINDS:
        if issubclass(kind, types):
            return arrow_type
    raise InvalidSource(f"keys must be {_ALLOWED}, or tuples of these, not {kind.__name__}.")
