"""Requests for pure differential privacy: which mechanism, over which universe. Checked before data is read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from dptally.errors import InvalidParameter, InvalidSource
from dptally.exact import as_count, as_epsilon, as_fraction
from dptally.universes import Universe, read_universe

if TYPE_CHECKING:
    import pyarrow as pa

    from dptally.mechanisms.compact_histogram import CompactHistogram
    from dptally.mechanisms.dense_histogram import DenseHistogram
    from dptally.mechanisms.sparse_histogram import SparseHistogram
    from dptally.mechanisms.strict_sparse import StrictSparseHistogram
    from dptally.releases.compact_release import BeyondCapacity

__all__ = [
    "DEFAULT_CAPACITY",
    "check_pure",
    "dense_keys",
    "make_compact",
    "make_dense",
    "make_sparse",
]

DEFAULT_CAPACITY = 10_000
_STRICT_CAPACITY = 100
_STRICT_BOUND = 1000
_LARGEST_DENSE = 1 << 22
_LARGEST_BOUND = 1 << 62


def check_pure(mechanism: str, delta: object, *, values: bool, sampling: object) -> None:
    """Refuse what no pure mechanism takes."""
    if delta is not None and as_fraction("delta", delta) != 0:
        raise InvalidParameter(f"mechanism {mechanism!r} keeps delta = 0; leave delta out, got {delta}.")
    if not values:
        raise InvalidParameter(f"mechanism {mechanism!r} always releases values; leave values out.")
    if sampling is not None:
        raise InvalidParameter(f"sampling needs the mechanism 'weighted_sample', got {mechanism!r}.")


def make_dense(
    epsilon: object,
    *,
    universe: object,
    bound: int | None,
    key: str | Sequence[str] | None,
    nulls: Literal["drop", "keep"],
    max_keys_per_unit: int,
) -> DenseHistogram:
    """The dense histogram over the keys given; every draw of it takes a fixed number of bits, as strict time asks."""
    from dptally.mechanisms.dense_histogram import DEFAULT_BOUND, DenseHistogram

    return DenseHistogram(
        as_epsilon(epsilon),
        dense_keys(universe, key, nulls),
        max_keys_per_unit=max_keys_per_unit,
        bound=_bound(bound, DEFAULT_BOUND),
    )


def make_sparse(
    epsilon: object,
    *,
    universe: object,
    capacity: int | None,
    bound: int | None,
    strict_time: bool,
    max_keys_per_unit: int,
) -> SparseHistogram | StrictSparseHistogram:
    """The sparse histogram, or its reference in strict time."""
    from dptally.laws.top_k_noise import LARGEST_STRICT_KEEP
    from dptally.mechanisms.sparse_histogram import SparseHistogram
    from dptally.mechanisms.strict_sparse import StrictSparseHistogram

    keys = _numbered("sparse", universe)
    if not strict_time:
        return SparseHistogram(
            as_epsilon(epsilon),
            universe=keys,
            keep=as_count("capacity", DEFAULT_CAPACITY if capacity is None else capacity, largest=1 << 30),
            bound=_bound(bound, _LARGEST_BOUND),
            max_keys_per_unit=max_keys_per_unit,
        )
    wanted = as_count("capacity", _STRICT_CAPACITY if capacity is None else capacity, largest=1 << 30)
    if wanted > LARGEST_STRICT_KEEP:
        raise InvalidParameter(f"capacity must be at most {LARGEST_STRICT_KEEP} in strict time, got {wanted}.")
    return StrictSparseHistogram(
        as_epsilon(epsilon),
        universe=keys,
        keep=wanted,
        bound=_bound(bound, _STRICT_BOUND),
        max_keys_per_unit=max_keys_per_unit,
    )


def make_compact(
    epsilon: object,
    *,
    universe: object,
    capacity: int | None,
    bound: int | None,
    beyond_capacity: BeyondCapacity | None,
    max_keys_per_unit: int,
) -> CompactHistogram:
    """The compact histogram; its capacity counts occurrences, or distinct keys where more of them are refused."""
    from dptally.mechanisms.compact_histogram import LARGEST_CAPACITY, CompactHistogram

    return CompactHistogram(
        as_epsilon(epsilon),
        universe=_numbered("compact", universe),
        capacity=as_count("capacity", DEFAULT_CAPACITY if capacity is None else capacity, largest=LARGEST_CAPACITY),
        largest_count=None if bound is None else _bound(bound, 0),
        max_keys_per_unit=max_keys_per_unit,
        beyond_capacity="subsample" if beyond_capacity is None else beyond_capacity,
    )


def _bound(bound: int | None, usual: int) -> int:
    return usual if bound is None else as_count("bound", bound, largest=_LARGEST_BOUND)


def _numbered(mechanism: str, universe: object) -> Universe:
    """A universe, or the ready-made one of that name."""
    if universe is None:
        raise InvalidParameter(
            f"mechanism {mechanism!r} needs a universe: all keys there may be, such as 'ipv4', 'uint64' or 'words:12'."
        )
    return read_universe(universe)


def dense_keys(universe: object, key: str | Sequence[str] | None, nulls: Literal["drop", "keep"]) -> pa.Table:
    """The public set of keys of a dense histogram, each once, with the columns of the source's key.

    Args:
        universe: a universe or its name, with at most 2^22 keys; a path of a file with the key columns, or of a text
            file (.txt) with a key on each line; or keys in any form that `publish` takes as a source.
        key: names of the key columns; None where the source has none.
        nulls: whether null is a key.

    Raises:
        InvalidParameter: if there is no such universe or file, or it has too many keys.
        InvalidSource: if a file cannot be read as asked.
    """
    import pyarrow as pa

    if universe is None:
        raise InvalidParameter("mechanism 'dense' needs a universe: the keys to release, as a list, a table or a file.")
    named = _named_universe(universe)
    if named is not None:
        if named.size > _LARGEST_DENSE:
            raise InvalidParameter(
                f"mechanism 'dense' takes at most 2^22 keys, and the universe {named.name!r} has {named.size:,}; "
                "'sparse' and 'compact' take any universe."
            )
        names = ["key"] if key is None else [key] if isinstance(key, str) else list(key)
        if len(names) != 1:
            raise InvalidParameter(f"a universe numbers single keys, but there are {len(names)} key columns.")
        return pa.table({names[0]: named.keys(range(named.size))})
    return _listed_keys(_lines(universe) if _is_text_file(universe) else universe, key, nulls)


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


def _listed_keys(universe: Any, key: str | Sequence[str] | None, nulls: Literal["drop", "keep"]) -> pa.Table:
    """Distinct keys, read the way a source is, so that keys of both are written alike."""
    import pyarrow as pa

    from dptally.randomness import SystemBits
    from dptally.sources import open_rows
    from dptally.summaries.frequencies import count_keys

    # An iterator: keys of a list may be written like names of files, and those of a mapping come without counts.
    source = iter(universe) if isinstance(universe, list | tuple | set | frozenset | Mapping) else universe
    try:
        rows = open_rows(source, key=key, unit=None, nulls=nulls, infer=True)
    except InvalidParameter as error:
        raise InvalidParameter(str(error).replace("in the source", "in the universe", 1)) from None  # files are named
    with count_keys(rows, max_keys_per_unit=1, bits=SystemBits()) as found:
        batches = [keys for keys, _ in found.batches()]
    table = pa.Table.from_batches(batches) if batches else None
    if table is None or not table.num_rows:
        raise InvalidParameter("universe must have at least one key.")
    if table.num_rows > _LARGEST_DENSE:
        raise InvalidParameter(f"mechanism 'dense' takes at most 2^22 keys, got {table.num_rows:,}.")
    return table
