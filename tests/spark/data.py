"""Tables that the tests of this folder publish."""

from __future__ import annotations

import datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

PRIVACY: dict[str, Any] = {"epsilon": 1, "delta": "1e-6"}


def visits(rows: int = 30_000) -> pa.Table:
    """Skewed words with nulls, small numbers, and units with several keys."""
    generator = np.random.default_rng(20_261_116)
    words = [None if word == 7 else f"wörd {word}" for word in generator.zipf(1.4, rows).clip(0, 10**6)]
    numbers = generator.integers(-3, 3, rows)
    return pa.table({
        "word": words,
        "number": pa.array(numbers, pa.int32()),
        "user": pa.array(generator.integers(0, rows // 5, rows)),
    })  # fmt: skip


def typed(rows: int = 6000) -> pa.Table:
    """A column of each type that a key may have, every value frequent, and nulls."""
    generator = np.random.default_rng(7)
    pick = generator.integers(0, 5, rows)
    moment = datetime.datetime(2024, 2, 29, 23, 59, 59, 999_999)
    zone = datetime.timezone(datetime.timedelta(hours=5, minutes=30))
    values: dict[str, tuple[pa.DataType, list[Any]]] = {
        "text": (pa.string(), ["", "a", "ä", "a much longer text than the others", None]),
        "bytes": (pa.binary(), [b"", b"\x00", b"\xff\x00", b"a", None]),
        "flag": (pa.bool_(), [True, False, True, False, None]),
        "byte": (pa.int8(), [-128, 0, 1, 127, None]),
        "short": (pa.int16(), [-32768, 0, 1, 32767, None]),
        "integer": (pa.int32(), [-(2**31), 0, 1, 2**31 - 1, None]),
        "long": (pa.int64(), [-(2**63), 0, 1, 2**63 - 1, None]),
        "single": (pa.float32(), [0.0, -0.0, 1.5, float("nan"), None]),
        "double": (pa.float64(), [0.0, -0.0, 1.5, float("nan"), None]),
        "decimal": (
            pa.decimal128(20, 3),
            [Decimal("-1.500"), Decimal(0), Decimal("99999999999999999.999"), None, None],
        ),
        "date": (pa.date32(), [datetime.date(1969, 12, 31), datetime.date(2024, 2, 29), None, None, None]),
        "local": (pa.timestamp("us"), [moment, datetime.datetime(1900, 1, 1), None, None, None]),
        "instant": (pa.timestamp("us", "UTC"), [moment.replace(tzinfo=zone), None, None, None, None]),
    }
    return pa.table({name: pa.array([choices[i] for i in pick], kind) for name, (kind, choices) in values.items()})


def as_frame(spark: Any, table: pa.Table, path: Any) -> Any:
    """The table as Spark reads it from two Parquet files."""
    path.mkdir()
    half = table.num_rows // 2
    pq.write_table(table.slice(0, half), path / "1.parquet")
    pq.write_table(table.slice(half), path / "2.parquet")
    return spark.read.parquet(str(path))
