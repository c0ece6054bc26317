"""What is asked for, read and checked once: parameters of `publish`, before any source is opened."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from dptally.errors import InvalidParameter, InvalidSource
from dptally.exact import as_count, as_epsilon, as_fraction
from dptally.laws.sampling_schemes import Scheme
from dptally.laws.spec import Mechanism, Request
from dptally.laws.statistics import read_statistics
from dptally.privacy.composition import LARGEST_UNIT
from dptally.universes import read_universe
from dptally.universes.listed_keys import LARGEST_LIST, ListedKeys

if TYPE_CHECKING:
    from dptally.laws.statistics import Statistics
    from dptally.universes import Universe

__all__ = ["check_engine", "read_request", "with_listed_keys"]


def read_request(
    *,
    epsilon: object,
    delta: object = None,
    max_keys_per_unit: int | None = None,
    key: str | Sequence[str] | None = None,
    unit: str | None = None,
    values: bool = True,
    sampling: object = None,
    nulls: Literal["drop", "keep"] = "drop",
    merged: bool = False,
    **statistics: Any,
) -> Request:
    """Numbers as exact fractions, names as tuples; refuses what no mechanism takes.

    `statistics` are the arguments of `dptally.laws.statistics.read_statistics`.

    Raises:
        InvalidParameter: says which parameter, and what it must be.
    """
    measured = max_keys_per_unit is None and unit is not None
    keys = as_count("max_keys_per_unit", 1 if max_keys_per_unit is None else max_keys_per_unit, largest=LARGEST_UNIT)
    if unit is None and keys > 1:
        raise InvalidParameter("max_keys_per_unit needs a `unit`: without one, every row is its own unit with one key.")
    if sampling is not None and not isinstance(sampling, Scheme):
        raise InvalidParameter(
            f"sampling must be a scheme such as dptally.Ppswor(rate), got {type(sampling).__name__}."
        )
    names = None if key is None else (key,) if isinstance(key, str) else tuple(key)
    taken = (*(names or ()), *(() if unit is None else (unit,)))
    return Request(
        as_epsilon(epsilon),
        None if delta is None else as_fraction("delta", delta),
        keys,
        key=names,
        unit=unit,
        values=bool(values),
        sampling=sampling,
        nulls=nulls,
        merged=merged,
        measured=measured,
        statistics=read_statistics(unit=unit, taken=taken, **statistics),
    )


def check_engine(
    source: object,
    mechanism: Mechanism,
    engine: str,
    memory_limit: str | None,
    format_name: str | None,
    collect: bool,
    *,
    filtered: bool = False,
    statistics: Statistics | None = None,
) -> bool:
    """Whether Spark reads the source; refuses what only goes there, and what does not."""
    from dptally.laws.registry import mechanism_class, mechanism_names
    from dptally.sources.engine_choice import check_engine as check
    from dptally.spark import is_spark_frame

    check(engine, memory_limit=memory_limit)
    if not is_spark_frame(source) and engine != "spark":
        if not collect:
            raise InvalidParameter("collect=False is for Spark DataFrames; this source is read on one machine.")
        return False
    if statistics is not None:
        raise InvalidParameter("sums, means, totals and count='rows' are not computed on Spark yet.")
    if filtered:
        raise InvalidParameter(
            "where, since and until are for one machine; filter the Spark DataFrame first, by columns of the row alone."
        )
    if mechanism.cluster is None:
        others = [repr(name) for name in mechanism_names() if mechanism_class(name).cluster is not None]
        raise InvalidParameter(
            f"the mechanism {mechanism.name!r} does not run on Spark; use {', '.join(others[:-1])} or {others[-1]}."
        )
    if mechanism.cluster == "sketch":
        from dptally.spark.sketching import check_capacity

        check_capacity(getattr(mechanism, "capacity", None) or 1)
    if mechanism.cluster == "sketch" and not collect:
        raise InvalidParameter("a sketch is released by the driver; leave `collect` at True.")
    if engine not in ("auto", "spark"):
        raise InvalidParameter(f"a Spark DataFrame is read by Spark; leave engine at 'auto', got {engine!r}.")
    if memory_limit is not None:
        raise InvalidParameter("memory_limit is for one machine; Spark's memory is set where its session starts.")
    if format_name is not None and is_spark_frame(source):
        raise InvalidParameter("format is for files; this source is not a path.")
    return True


# ---- keys that are listed ----


def with_listed_keys(mechanism: Mechanism, request: Request) -> Mechanism:
    """The mechanism with its public list of keys read, where it takes one.

    Args:
        mechanism: whose `universe` may be a universe or its name; a path of a file with the key columns, or of a text
            file (.txt) with a key on each line; or keys in any form that `publish` takes as a source.
        request: with the names of the key columns.

    Raises:
        InvalidParameter: if there is no such universe or file, or it has too many keys.
        InvalidSource: if a file cannot be read as asked.
    """
    universe = getattr(mechanism, "universe", None)
    if not mechanism.listed or universe is None or isinstance(universe, ListedKeys):
        return mechanism
    named = _named_universe(universe)
    if named is not None:
        return replace(mechanism, universe=named)  # type: ignore[call-arg]  # it has one
    source = _lines(universe) if _is_text_file(universe) else universe
    return replace(mechanism, universe=_listed_keys(source, request))  # type: ignore[call-arg]


def _named_universe(universe: object) -> Universe | None:
    """A universe, or None for a file or a list of keys."""
    if isinstance(universe, str | Path):
        if Path(universe).is_file():
            return None
        try:
            return read_universe(str(universe))
        except InvalidParameter as error:
            told = str(error).replace("; the names are", ", and there is no such file; the names are", 1)
            raise InvalidParameter(told) from None
    return read_universe(universe) if hasattr(universe, "indices") and hasattr(universe, "keys") else None


def _is_text_file(universe: object) -> bool:
    return isinstance(universe, str | Path) and Path(universe).suffix.lower() == ".txt"


def _lines(path: Any) -> list[str]:
    try:
        return [line for line in Path(path).read_text(encoding="utf-8").split("\n") if line]
    except (OSError, UnicodeDecodeError):
        raise InvalidSource(f"{path} cannot be read as UTF-8 text.") from None


def _listed_keys(universe: Any, request: Request) -> ListedKeys:
    """Distinct keys, read the way a source is, so that keys of both are written alike."""
    import pyarrow as pa

    from dptally.randomness import SystemBits
    from dptally.sources import open_rows
    from dptally.summaries.frequencies import count_keys

    # An iterator: keys of a list may be written like names of files, and those of a mapping come without counts.
    source = iter(universe) if isinstance(universe, list | tuple | set | frozenset | Mapping) else universe
    key = request.key if request.key is None or len(request.key) > 1 else request.key[0]
    try:
        rows = open_rows(source, key=key, unit=None, nulls=request.nulls, infer=True)
    except InvalidParameter as error:
        raise InvalidParameter(str(error).replace("in the source", "in the universe", 1)) from None  # files are named
    with count_keys(rows, max_keys_per_unit=1, bits=SystemBits()) as found:
        batches = [keys for keys, _ in found.batches()]
    table = pa.Table.from_batches(batches) if batches else None
    if table is None or not table.num_rows:
        raise InvalidParameter("universe must have at least one key.")
    if table.num_rows > LARGEST_LIST:
        raise InvalidParameter(f"mechanism 'dense' takes at most 2^22 keys, got {table.num_rows:,}.")
    return ListedKeys(table)
