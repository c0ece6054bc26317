"""Which (unit, key) pairs of a period count, given what has counted before.

A unit counts for at most l distinct keys in the whole series, and for each in at most p periods (1: in the first one
alone). Of new keys in a period, which of them count is a uniform random choice; at most `most_new` of them do.

Why this is stable: the choice depends on the unit's own rows, of this period and before, and on words that belong to
the unit and the key (`KeyedWords.tags`). Take one unit away, and the others count for what they counted for before.
A key is in the state only if a pair of it has counted: that, too, is decided by bounded rows alone.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dptally.sources.engine import Session
from dptally.summaries.counting import check_text

if TYPE_CHECKING:
    from dptally.randomness.keyed import KeyedWords
    from dptally.sources import Rows

__all__ = ["Bounds", "Counted", "Used", "count_period"]

Words = NDArray[np.uint64]


@dataclass(frozen=True)
class Bounds:
    """How often a unit counts."""

    keys: int  # l, in the whole series
    periods: int  # p, for each key
    most_new: int  # new keys in one period


@dataclass(frozen=True)
class Used:
    """Pairs that have counted in one period, by key: how many there are of each, and the identities of the units."""

    keys: NDArray[np.int64]
    counts: NDArray[np.int64]
    units: Words  # two words for each


@dataclass(frozen=True)
class Counted:
    """What counts in a period."""

    new_keys: pa.Table  # key columns of keys that are new to the state, in the order of their numbers
    new_blocks: Words  # their identities, two words for each
    used: Used

    @property
    def digest(self) -> bytes:
        """Of the bounded rows: other rows have other noise."""
        found = hashlib.sha256(b"bounded rows")
        for part in (self.new_blocks, self.used.keys, self.used.counts, self.used.units):
            found.update(part.astype("<u8").tobytes())
            found.update(b";%d;" % len(part))
        return found.digest()


def count_period(
    rows: Rows,
    *,
    known: Words,
    used: Iterable[Used],
    bounds: Bounds,
    keyed: KeyedWords,
    memory_limit: str | None,
) -> Counted:
    """Read a period and bound its units.

    Args:
        rows: opened.
        known: identities of the keys in the state, two words for each, in the order of their numbers.
        used: what has counted before.
        bounds: how often a unit counts.
        keyed: identities and random words of units and keys.
        memory_limit: for the engine.
    """
    width = len(rows.key)
    names = [f"k{i}" for i in range(width)]
    with closing(Session(memory_limit=memory_limit, paths=rows.paths)) as session:
        selected = f"SELECT DISTINCT {', '.join(names)}, u FROM ({rows.select(session)})"  # noqa: S608
        session.execute(f"CREATE TEMP TABLE pairs AS {selected}")
        if rows.repeatable:
            rows.check_unchanged()
        found = _identified(session, names, keyed)
        session.register("found", found)
        session.register("known", _blocks_table(known, "k", n=np.arange(len(known) // 2)))
        session.register("used", _used_table(used))
        accepted = _accepted(session, bounds)
        new = accepted["n"] >= len(known) // 2
        places, renumbered = np.unique(accepted["n"][new], return_inverse=True)
        accepted["n"][new] = len(known) // 2 + renumbered
        session.register("places", pa.table({"j": places}))
        new_keys, new_blocks = _new_keys(session, names, rows.key, keyed)
    order = np.lexsort((accepted["ulo"], accepted["uhi"], accepted["n"]))
    numbers, starts = np.unique(accepted["n"][order], return_index=True)
    units = np.column_stack([accepted["uhi"][order], accepted["ulo"][order]]).ravel()
    counts = np.diff(np.append(starts, len(order)))
    return Counted(new_keys, new_blocks, Used(numbers, counts.astype(np.int64), units))


def _identified(session: Session, names: list[str], keyed: KeyedWords) -> pa.Table:
    """Identities of key and unit of every pair, and the word that decides which keys of a unit count."""
    parts = []
    for batch in session.batches(f"SELECT {', '.join(names)}, u FROM pairs", also_nothing=True):  # noqa: S608
        keys, unit = batch.columns[:-1], batch.columns[-1]
        check_text(batch)
        of_key, of_unit = keyed.words(keys).reshape(-1, 2), keyed.words([unit]).reshape(-1, 2)
        columns = {"khi": of_key[:, 0], "klo": of_key[:, 1], "uhi": of_unit[:, 0], "ulo": of_unit[:, 1]}
        parts.append(pa.table({**columns, "tag": keyed.tags(batch.columns)}))
    return pa.concat_tables(parts)


def _accepted(session: Session, bounds: Bounds) -> dict[str, NDArray[Any]]:
    """The pairs that count: identities of units, and numbers of keys; new keys are numbered for the moment."""
    session.execute(
        "CREATE TEMP TABLE numbered AS SELECT khi, klo, n FROM known SEMI JOIN found USING (khi, klo) UNION ALL "
        "SELECT khi, klo, (SELECT count(*) FROM known) + row_number() OVER (ORDER BY khi, klo) - 1 AS n FROM "
        "(SELECT DISTINCT khi, klo FROM found ANTI JOIN known USING (khi, klo))"
    )
    session.execute("CREATE TEMP TABLE c AS SELECT uhi, ulo, n, tag, khi FROM found JOIN numbered USING (khi, klo)")
    session.execute(
        "CREATE TEMP TABLE mine AS SELECT uhi, ulo, n, count(*) AS times FROM used SEMI JOIN c USING (uhi, ulo) "
        "GROUP BY ALL"
    )
    session.execute(
        "CREATE TEMP TABLE fresh AS WITH spent AS (SELECT uhi, ulo, count(*) AS keys FROM mine GROUP BY ALL), "
        "ranked AS (SELECT uhi, ulo, n, row_number() OVER (PARTITION BY uhi, ulo ORDER BY tag, khi) AS place "
        "FROM c ANTI JOIN mine USING (uhi, ulo, n)) "
        "SELECT uhi, ulo, n, place, coalesce(keys, 0) AS spent FROM ranked LEFT JOIN spent USING (uhi, ulo)"
    )
    sql = (
        f"SELECT uhi, ulo, n FROM fresh WHERE place <= least({bounds.keys} - spent, {bounds.most_new}) "  # noqa: S608
        f"UNION ALL SELECT uhi, ulo, n FROM c JOIN mine USING (uhi, ulo, n) WHERE times < {bounds.periods}"
    )
    table = pa.Table.from_batches(list(session.batches(sql, also_nothing=True)))
    return {name: _words(table.column(name)) for name in ("uhi", "ulo")} | {"n": _integers(table.column("n"))}


def _new_keys(session: Session, names: list[str], key: tuple[str, ...], keyed: KeyedWords) -> tuple[pa.Table, Words]:
    """Key columns and identities of the keys that are new to the state, in the order of their numbers."""
    sql = "SELECT khi, klo FROM numbered SEMI JOIN places ON n = j"
    wanted = pa.Table.from_batches(list(session.batches(sql, also_nothing=True)))
    blocks = np.column_stack([_words(wanted.column("khi")), _words(wanted.column("klo"))])
    parts, identities = [], [np.empty((0, 2), dtype=np.uint64)]
    for batch in session.batches(f"SELECT DISTINCT {', '.join(names)} FROM pairs", also_nothing=True):  # noqa: S608
        found = keyed.words(batch.columns).reshape(-1, 2)
        kept = np.isin(found[:, 0], blocks[:, 0]) & np.isin(found[:, 1], blocks[:, 1])
        parts.append(pa.Table.from_batches([batch]).filter(pa.array(kept, pa.bool_())))
        identities.append(found[kept])
    there = np.concatenate(identities)
    order = np.lexsort((there[:, 1], there[:, 0]))
    table = pa.concat_tables(parts).take(pa.array(order)).rename_columns(list(key)).combine_chunks()
    return table, there[order].ravel()


def _used_table(used: Iterable[Used]) -> pa.Table:
    parts = [_blocks_table(each.units, "u", n=np.repeat(each.keys, each.counts)) for each in used if len(each.units)]
    return pa.concat_tables(parts) if parts else _blocks_table(np.empty(0, np.uint64), "u", n=np.empty(0, np.int64))


def _blocks_table(blocks: Words, prefix: str, *, n: NDArray[np.int64]) -> pa.Table:
    pairs = blocks.reshape(-1, 2)
    columns = {f"{prefix}hi": np.ascontiguousarray(pairs[:, 0]), f"{prefix}lo": np.ascontiguousarray(pairs[:, 1])}
    return pa.table({**columns, "n": n.astype(np.int64)})


def _words(column: pa.ChunkedArray) -> Words:
    return np.array(column.combine_chunks(), dtype=np.uint64) if len(column) else np.empty(0, dtype=np.uint64)


def _integers(column: pa.ChunkedArray) -> NDArray[np.int64]:
    return np.array(column.combine_chunks(), dtype=np.int64) if len(column) else np.empty(0, dtype=np.int64)
