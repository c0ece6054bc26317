"""Rows of a Spark DataFrame with named key, unit and count columns, each value in its one canonical form.

The forms are those of `dptally.sources.columns`, so that two engines agree on what one key is: text is compared by its
bytes, NaN is one key, -0.0 is 0.0, and timestamps are points in time.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from dptally.errors import InvalidParameter, InvalidSource
from dptally.sources.columns import MAXIMUM_COUNT, require_columns, unsupported
from dptally.sources.requests import check_request
from dptally.spark.jobs import guarded, is_stopped

__all__ = ["SparkRows", "open_frame", "require_running"]

_AS_THEY_ARE = (
    "BooleanType", "ByteType", "ShortType", "IntegerType", "LongType", "DateType", "TimestampType",
    "TimestampNTZType", "DecimalType", "BinaryType",
)  # fmt: skip
_INTEGERS = ("ByteType", "ShortType", "IntegerType", "LongType")


class SparkRows:
    """Private rows of a Spark DataFrame, not read yet.

    Attributes:
        frame: columns k0, k1, ... (canonical keys), then u (the unit, never null) or n (the count, null where it is
            none), if there is one; rows that are left out are gone.
        key: names of the key columns.
        unit: name of the column that says whose row it is, or None when every row is its own unit.
        count: name of the column of counts, or None when every row counts once.
        nulls: "drop" if rows without a key are gone, "keep" if null is a key like any other.
    """

    def __init__(
        self, frame: Any, *, key: tuple[str, ...], unit: str | None, count: str | None, nulls: str = "drop"
    ) -> None:
        self.frame = frame
        self.key, self.unit, self.count, self.nulls = key, unit, count, nulls

    def __repr__(self) -> str:
        return f"SparkRows(key={self.key!r}, unit={self.unit!r}, count={self.count!r})"


def require_running(frame: Any, *, streaming: bool = False) -> None:
    """Refuse a DataFrame whose session is gone, or that dptally cannot work on."""
    if type(frame).__module__.startswith("pyspark.sql.connect"):
        raise InvalidParameter("a DataFrame of Spark Connect cannot be published; run dptally in the driver itself.")
    if is_stopped(frame):
        raise InvalidSource("the Spark session of this DataFrame was stopped; start one and read the data again.")
    if frame.isStreaming and not streaming:
        raise InvalidParameter(
            "a streaming DataFrame cannot be published; keep a sketch of it (dptally.spark.SketchStream), or read the "
            "source as a batch."
        )
    if streaming and not frame.isStreaming:
        raise InvalidParameter("this needs a streaming DataFrame (spark.readStream), and this one is none.")


def open_frame(
    frame: Any,
    *,
    key: str | Sequence[str] | None,
    unit: str | None,
    count: str | None = None,
    nulls: Literal["drop", "keep"] = "drop",
    streaming: bool = False,
) -> SparkRows:
    """Check a DataFrame and its columns without reading its rows; the arguments are those of `publish`.

    With `streaming`, it must be a stream.
    """
    names = check_request(key, unit, count, nulls)
    if names is None:
        raise InvalidParameter("key must name the key column of a table.")
    require_running(frame, streaming=streaming)
    return guarded(frame, lambda: _select(frame, names, unit, count, nulls))


def _select(frame: Any, names: tuple[str, ...], unit: str | None, count: str | None, nulls: str) -> SparkRows:
    wanted = [*names, *(name for name in (unit, count) if name is not None)]
    present = frame.columns
    require_columns(wanted, present)
    from pyspark.sql import functions

    # By position: Spark takes names that differ in case only for one.
    positions = [present.index(name) for name in wanted]
    types = [frame.schema.fields[position].dataType for position in positions]
    plain = frame.toDF(*(f"c{position}" for position in range(len(present))))
    columns = [functions.col(f"c{position}") for position in positions]
    kept = plain
    for column in columns[: len(names)] if nulls == "drop" else []:
        kept = kept.where(column.isNotNull())
    forms = [
        _canonical(column, name, kind).alias(f"k{i}")
        for i, (column, name, kind) in enumerate(zip(columns, names, types, strict=False))
    ]
    if unit is not None:
        kept = kept.where(columns[-1].isNotNull())
        forms.append(_canonical(columns[-1], unit, types[-1]).alias("u"))
    if count is not None:
        forms.append(_count(columns[-1], count, types[-1]).alias("n"))
    return SparkRows(kept.select(*forms), key=names, unit=unit, count=count, nulls=nulls)


def _canonical(column: Any, name: str, kind: Any) -> Any:
    from pyspark.sql import functions

    family = type(kind).__name__
    if family in _AS_THEY_ARE:
        return column
    if family in ("StringType", "CharType", "VarcharType"):
        # Text of another collation would be compared otherwise than by its bytes.
        plain = getattr(kind, "collation", "UTF8_BINARY") == "UTF8_BINARY"
        return column if plain else functions.collate(column, "UTF8_BINARY")
    if family == "NullType":
        return column.cast("string")
    if family in ("FloatType", "DoubleType"):
        nan, zero = (functions.lit(value).cast(kind) for value in (float("nan"), 0.0))
        return functions.when(functions.isnan(column), nan).when(column == zero, zero).otherwise(column)
    raise unsupported(name, kind.simpleString())


def _count(column: Any, name: str, kind: Any) -> Any:
    """A column of counts: null where the value is none, capped just above `MAXIMUM_COUNT`."""
    from pyspark.sql import functions

    family = type(kind).__name__
    if family == "NullType":
        return column.cast("decimal(38,0)")
    if family not in _INTEGERS and not (family == "DecimalType" and kind.scale == 0):
        raise InvalidSource(f"column '{name}' must hold integers to be a count, not {kind.simpleString().upper()}.")
    number = column.cast("decimal(38,0)")
    largest = functions.lit(MAXIMUM_COUNT + 1).cast("decimal(38,0)")
    return functions.when(number >= 0, functions.least(number, largest))
