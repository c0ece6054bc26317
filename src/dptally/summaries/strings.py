"""Values as text of a domain, with the number of units that have each: what heavy hitters are found in."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from dptally.errors import InvalidParameter, InvalidSource
from dptally.summaries.frequencies import Frequencies
from dptally.universes.prefixes import Domain

if TYPE_CHECKING:
    import polars as pl


def strings_of(frequencies: Frequencies, domain: Domain) -> pl.DataFrame:
    """Values as text of the domain, "text", and how many units have each, "units".

    Raises InvalidParameter for several key columns, several keys per unit, or a sample, InvalidSource for values that
    are not of the domain.
    """
    import polars as pl

    if len(frequencies.key) != 1:
        raise InvalidParameter("heavy hitters need one key column: the strings.")
    if frequencies.max_keys_per_unit != 1:
        raise InvalidParameter("heavy hitters need `max_keys_per_unit=1`: a unit has one value.")
    if frequencies.scheme is not None:
        raise InvalidParameter("heavy hitters need all units, not a sample of keys.")
    parts = [
        pl.DataFrame({"text": pl.Series(keys.column(0)), "units": counts})
        for keys, counts in frequencies.batches()
        if len(counts)
    ]
    if not parts:
        return pl.DataFrame(schema={"text": pl.String, "units": pl.Int64})
    return _as_text(pl.concat(parts).drop_nulls(), domain)


def check_type(kind: pa.DataType, domain: Domain) -> None:
    """Refuse a key column whose type the domain does not take, before a row of it is read."""
    import polars as pl

    keys = pl.Series(pa.array([], kind))
    _as_text(pl.DataFrame({"text": keys, "units": pl.Series([], dtype=pl.Int64)}), domain)


def _as_text(whole: pl.DataFrame, domain: Domain) -> pl.DataFrame:
    import polars as pl

    kind = whole.schema["text"]
    if domain.name == "bits":
        return _bits(whole, domain)
    if kind == pl.Binary and domain.name == "utf8":
        return whole.with_columns(text=pl.col("text").bin.encode("hex"))
    if kind in (pl.Categorical, pl.Enum):
        whole, kind = whole.with_columns(text=pl.col("text").cast(pl.String)), pl.String()
    if kind != pl.String:
        raise InvalidSource(f"the key column must hold text for the domain {domain.name!r}.")
    if domain.name == "utf8":
        return whole.with_columns(text=pl.col("text").cast(pl.Binary).bin.encode("hex"))
    return whole


def _bits(whole: pl.DataFrame, domain: Domain) -> pl.DataFrame:
    """Numbers as text; those that the domain does not have are left out, as a refusal would tell of one."""
    import polars as pl

    if not whole.schema["text"].is_integer():
        raise InvalidSource("the key column must hold whole numbers for the domain 'bits'.")
    most = (1 << (domain.width or 0)) - 1
    inside = [0 <= number <= most for number in whole.get_column("text").to_list()]
    kept = whole.filter(pl.Series(inside, dtype=pl.Boolean))
    texts = [domain.text(number) for number in kept.get_column("text").to_list()]
    return kept.with_columns(text=pl.Series(texts, dtype=pl.String))
