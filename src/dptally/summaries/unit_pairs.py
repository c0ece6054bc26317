"""Which keys each unit has, on disk: read once, asked in every stage of a release in rounds.

Distinct keys are numbered and written to a file, rows are sorted by unit, and two more files keep how many distinct
keys each unit has and their numbers, four bytes for each. The engine is closed then. A stage reads files from beginning
to end, so memory grows with distinct keys (nine bytes for each) and not with units or rows, and time is linear in both.
The files are in a private directory that is removed with the rest.

Why it is stable: which keys of a unit are kept depends on the unit's own keys, on what was released before, and on
random words for it alone; see `dptally.contributions`. Units never influence each other.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, closing, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dptally._core import add_weights, choose_smallest_tags
from dptally.contributions import HashCollision, changes
from dptally.errors import attempt
from dptally.exact.integer_columns import integers
from dptally.sources.engine import OutOfMemory
from dptally.sources.temporary import PrivateDirectory
from dptally.summaries.counting import MOST_PARTS, Counting, check_text
from dptally.summaries.pair_values import (
    KeyStatistics,
    PairValues,
    close_file,
    columns_of,
    no_room,
    part_of,
    write_numbers,
)

if TYPE_CHECKING:
    from dptally.laws.spec import Question
    from dptally.laws.statistics_law import StatisticsLaw
    from dptally.randomness import BitSource
    from dptally.sources import Rows
    from dptally.sources.engine import Session
    from dptally.summaries.counting import Progress

__all__ = ["KeySums", "UnitPairs", "UnitSizes"]

_CHUNK = 1 << 18  # pairs at a time, or one unit
Integers = NDArray[np.int64]
Places = NDArray[np.int32]


@dataclass(frozen=True, repr=False)
class UnitSizes:
    """How many units have how many keys. Private."""

    counts: Integers


class KeySums:
    """Keys with the sum of what units add to them, once; private. Keys of sum 0 are left out unless all are asked for.

    Attributes:
        key: names of the key columns.
        unit: the column that identifies the unit.
        max_keys_per_unit: how many keys of a unit were kept at most.
    """

    scheme = None

    def __init__(self, pairs: UnitPairs, sums: Integers, *, kept: int, among: NDArray[np.bool_] | None = None) -> None:
        self.key, self.unit, self.max_keys_per_unit = pairs.key, pairs.unit, kept
        self._pairs, self._sums, self._wanted = pairs, sums, (sums > 0) if among is None else among

    def batches(self) -> Iterator[tuple[pa.RecordBatch, Integers]]:
        """Distinct keys and their sums."""
        yield from self._pairs.keys_of(self._wanted, self._sums)


class UnitPairs(Counting):
    """The distinct keys of every unit, numbered and on disk. Private: nothing of the data shows in its `repr`."""

    def __init__(
        self,
        rows: Rows,
        *,
        bits: BitSource,
        memory_limit: str | None,
        progress: Progress | None,
        every_row: bool = False,
    ) -> None:
        super().__init__(rows, bits=bits, memory_limit=memory_limit, progress=progress)
        self.unit = rows.unit
        self._directory = PrivateDirectory()
        self._distinct = 0
        self._values = PairValues(self._directory.path / "all", len(rows.clipped)) if every_row else None
        self._all, self._keys = _Pairs(self._directory.path / "all"), self._directory.path / "keys"
        try:
            self._read()
        except BaseException:  # also Ctrl-C: nobody else has this object yet, to close it
            self.close()
            raise
        self._left, self._found, self._generation = self._all, np.zeros(self._distinct, dtype=bool), 0

    def close(self) -> None:
        """Remove everything. May be called again."""
        super().close()
        self._directory.close()

    # ---- reading ----

    def _read(self) -> None:
        session, keys = self._open(share=1.0), self._columns
        if not self._rows.repeatable:
            self._wait(session, f"CREATE TEMP TABLE raw AS {self._rows.select(session)}", "reading rows")
        self._distinguish(session)
        # Secret words do not care for an order; a seed must find the same keys in the same places.
        order = "" if self._bits.private else f"ORDER BY {keys}"
        numbered = f"SELECT {keys}, CAST(row_number() OVER ({order}) - 1 AS INTEGER) AS i FROM different"  # noqa: S608
        found = self._run(session, "SELECT * FROM keys", "numbering keys", f"CREATE TEMP TABLE keys AS {numbered}")
        first = next(found)
        with pa.OSFile(str(self._keys), "wb") as file, pa.ipc.new_stream(file, first.schema) as writer:
            for batch in itertools.chain([first], found):
                attempt(functools.partial(writer.write_batch, batch), no_room, OSError)
                self._distinct += batch.num_rows
        session.execute("DROP TABLE different")
        if self.unit is None:
            self._sort(session, hashed=False)
        else:
            [(_, kind)] = session.types(f"SELECT u FROM ({self._select(session)})")  # noqa: S608
            try:
                self._sort(session, hashed="INT" not in kind)
            except HashCollision:
                self._sort(session, hashed=False)
        if self._rows.repeatable:
            self._rows.check_unchanged()
        self._stop()

    def _select(self, session: Session) -> str:
        """SQL for the rows, attached again for each statement: what comes as a stream can be read by one."""
        return self._rows.select(session) if self._rows.repeatable else "SELECT * FROM raw"

    def _distinguish(self, session: Session) -> None:
        """A table of the distinct keys: at once if memory allows, else those of a quarter of all hashes, and so on.

        DuckDB spills rows, but needs memory for the keys of a group-by.
        """
        keys, parts = self._columns, [(1, 0)]
        session.execute(f"CREATE TEMP TABLE different AS SELECT {keys} FROM ({self._select(session)}) LIMIT 0")  # noqa: S608
        while parts:
            modulus, rest = parts.pop()
            where = f"WHERE hash({keys}) % {modulus} = {rest}" if modulus > 1 else ""
            try:
                statement = f"INSERT INTO different SELECT DISTINCT {keys} FROM ({self._select(session)}) {where}"  # noqa: S608
                self._wait(session, statement, "finding distinct keys")
            except OutOfMemory:
                if modulus >= MOST_PARTS:
                    raise
                parts += [(4 * modulus, rest + modulus * part) for part in range(4)]

    def _wait(self, session: Session, statement: str, stage: str) -> None:
        for _ in self._run(session, "SELECT 1 AS done", stage, statement):
            pass

    def _sort(self, session: Session, *, hashed: bool) -> None:
        """Sort by unit and key: numbers as they are, and other units by a hash, which takes half of the time."""
        same = " AND ".join(f"r.k{i} IS NOT DISTINCT FROM keys.k{i}" for i in range(len(self.key)))
        units, values = self.unit is not None, self._values
        columns = [] if values is None else columns_of(self._rows.clipped, grouped=units)
        wanted = ", ".join([*["u"] * units, "i", *columns, *["hash(u) AS h"] * hashed])
        numbered = f"SELECT {wanted} FROM ({self._select(session)}) AS r JOIN keys ON {same}"  # noqa: S608
        grouped = " GROUP BY u, i" if units and values is not None else ""
        ordered = f"{numbered}{grouped}" + f" ORDER BY {'h' if hashed else 'u'}, i" * units
        stated = nullcontext() if values is None else values.writing()
        with stated, self._all.writing() as writer, closing(self._run(session, ordered, "sorting units")) as batches:
            for batch in batches:
                keys = integers(batch.column(int(units)).cast(pa.int64()))
                if units:
                    writer.add(batch.column(0), keys, batch.column(batch.num_columns - 1) if hashed else None)
                else:  # every row is a unit with one key
                    writer.write(np.ones(len(keys), dtype=np.int64), keys.astype(np.int32))
                if values is not None:
                    values.add(batch.select(range(1 + units, 1 + units + len(columns))))

    # ---- stages ----

    def summarise(self, question: Question, bits: BitSource) -> AbstractContextManager[Any]:
        """What a question of a release in rounds asks for."""
        parameters = question.parameters
        self._drop(parameters["found"])
        if question.summary == "unit_sizes":
            pairs, only = (self._all, self._found) if parameters["of_found"] else (self._left, None)
            return nullcontext(UnitSizes(_histogram(pairs, parameters["ends"], only)))
        if question.summary == "unit_weights":
            weights = question.law.weights
            sums = self._sums(self._left, weights.of_keys, None, bits)
            return nullcontext(KeySums(self, sums, kept=weights.high))
        kept = question.max_keys_per_unit
        if question.summary == "found_statistics":
            return nullcontext(self._statistics(question.law.statistics, kept, bits))
        counted = self._sums(self._all, np.array([0, *[1] * kept]), self._found, bits)
        return nullcontext(KeySums(self, counted, kept=kept, among=self._found))

    def _drop(self, found: pa.Table | None) -> None:
        """Leave out the keys that were found; they are public."""
        if found is None or found.num_rows == int(self._found.sum()):
            return
        columns = [f"k{i}" for i in range(len(self.key))]
        same = " AND ".join(f"found.{name} IS NOT DISTINCT FROM keys.{name}" for name in columns)
        with pa.OSFile(str(self._keys)) as file, pa.ipc.open_stream(file) as keys:
            session = self._open(share=1.0)
            session.register("found", found.select(list(self.key)).rename_columns(columns))
            session.register("keys", keys)
            for batch in session.batches(f"SELECT i FROM keys SEMI JOIN found ON {same}"):  # noqa: S608
                self._found[integers(batch.column(0).cast(pa.int64()))] = True
            self._stop()
        self._generation += 1
        before, self._left = self._left, _Pairs(self._directory.path / f"left-{self._generation}")
        with self._left.writing() as writer:
            for sizes, keys in before.chunks():
                kept = ~self._found[keys]
                writer.write(_sizes_of(sizes, kept), keys[kept])
        if before is not self._all:
            before.remove()

    def _sums(self, pairs: _Pairs, weights: Integers, only: NDArray[np.bool_] | None, bits: BitSource) -> Integers:
        """The sum of weights of every key; a unit with more keys than weights keeps a uniform random choice."""
        sums, limit = np.zeros(self._distinct, dtype=np.int64), len(weights) - 1
        for sizes, keys in pairs.chunks():
            if only is not None:
                chosen = only[keys]
                sizes, keys = _sizes_of(sizes, chosen), keys[chosen]
            if int(sizes.max(initial=0)) > limit:
                sizes, keys = _keep(sizes, keys, limit, bits)
            add_weights(sizes, keys, weights, sums)
        return sums

    def _statistics(self, law: StatisticsLaw, kept: int, bits: BitSource) -> KeyStatistics:
        """The exact sums of all parts; a unit adds to at most `kept` found keys, the same for all parts."""
        found, limit = int(self._found.sum()), {part.kind: part.limit for part in law.of_all}
        place_of = np.cumsum(self._found) - 1
        sums = {part.name: np.zeros(found, dtype=np.int64) for part in law.of_keys}
        units = others = pairs = 0
        for sizes, keys in self._all.chunks():
            values = [] if self._values is None else self._values.read(pairs, len(keys))
            among = self._found[keys]
            theirs = _sizes_of(sizes, among)
            units, pairs = units + len(sizes), pairs + len(keys)
            others += int(np.minimum(sizes - theirs, limit.get("other", 0)).sum())
            chosen = np.flatnonzero(among)
            if int(theirs.max(initial=0)) > kept:
                chosen = chosen[_kept(theirs, kept, bits)]
            places = place_of[keys[chosen]]
            for part in law.of_keys:
                # Doubles hold these sums exactly: a chunk has at most 2^18 units, and a unit adds at most 2^30.
                added = np.bincount(places, weights=part_of(part, values, chosen), minlength=found)
                sums[part.name] += added.astype(np.int64)
        whole = {"all_units": units, "other": others}
        sums |= {part.name: np.array([whole[part.kind]], dtype=np.int64) for part in law.of_all}
        batches = [keys for keys, _ in self.keys_of(self._found, place_of)]
        return KeyStatistics(self.key, self.unit, kept, pa.Table.from_batches(batches), sums)

    def keys_of(self, wanted: NDArray[np.bool_], sums: Integers) -> Iterator[tuple[pa.RecordBatch, Integers]]:
        """The wanted keys with their sums."""
        width = len(self.key)
        with pa.OSFile(str(self._keys)) as file, pa.ipc.open_stream(file) as batches:
            for batch in batches:
                places = integers(batch.column(width).cast(pa.int64()))
                keys = batch.select(range(width)).rename_columns(list(self.key)).filter(pa.array(wanted[places]))
                check_text(keys)
                yield keys, sums[places[wanted[places]]]


def _histogram(pairs: _Pairs, ends: Sequence[int], only: NDArray[np.bool_] | None) -> Integers:
    """How many units have a number of keys in each bin; units without any are in none."""
    counts = np.zeros(len(ends), dtype=np.int64)
    for sizes, keys in pairs.chunks():
        found = sizes if only is None else _sizes_of(sizes, only[keys])
        bins = np.searchsorted(np.array(ends), np.minimum(found[found > 0], ends[-1]))
        counts += np.bincount(bins, minlength=len(ends))
    return counts


def _sizes_of(sizes: Integers, kept: NDArray[np.bool_]) -> Integers:
    """How many of each unit's keys are kept."""
    reached = np.concatenate([[0], np.cumsum(kept)])
    ends = np.cumsum(sizes)
    found: Integers = reached[ends] - reached[ends - sizes]
    return found


def _keep(sizes: Integers, keys: Places, limit: int, bits: BitSource) -> tuple[Integers, Places]:
    """At most `limit` keys of each unit, chosen uniformly."""
    return np.minimum(sizes, limit), keys[_kept(sizes, limit, bits)]


def _kept(sizes: Integers, limit: int, bits: BitSource) -> NDArray[np.bool_]:
    """Which pairs are among at most `limit` of each unit: those of the smallest random words."""
    large = sizes > limit
    among = np.repeat(large, sizes)
    keep = np.ones(int(sizes.sum()), dtype=bool)
    chosen = np.empty(int(among.sum()), dtype=np.uint8)
    starts = np.concatenate([[0], np.cumsum(sizes[large])]).astype(np.int64)
    choose_smallest_tags(starts, bits.words(len(chosen)), limit, chosen)
    keep[among] = chosen.view(bool)
    return keep


class _Pairs:
    """Two files: the number of keys of each unit, and the keys of all units one after the other."""

    def __init__(self, path: Path) -> None:
        self._sizes, self._keys = path.with_suffix(".sizes"), path.with_suffix(".keys")

    def writing(self) -> _Writer:
        return _Writer(self._sizes.open("wb"), self._keys.open("wb"))

    def remove(self) -> None:
        self._sizes.unlink()
        self._keys.unlink()

    def chunks(self) -> Iterator[tuple[Integers, Places]]:
        """Whole units, a quarter of a million pairs at a time."""
        with self._sizes.open("rb") as sizes_file, self._keys.open("rb") as keys_file:
            waiting = np.empty(0, dtype=np.int64)
            while True:
                more = np.fromfile(sizes_file, dtype=np.int32, count=_CHUNK).astype(np.int64)
                waiting = np.concatenate([waiting, more])
                if not len(waiting):
                    return
                while len(waiting):
                    units = max(1, int(np.searchsorted(np.cumsum(waiting), _CHUNK, side="right")))
                    sizes, waiting = waiting[:units], waiting[units:]
                    yield sizes, np.fromfile(keys_file, dtype=np.int32, count=int(sizes.sum()))


class _Writer:
    """Writes pairs, of rows that are sorted by unit and key, or as they are."""

    def __init__(self, sizes: IO[bytes], keys: IO[bytes]) -> None:
        self._sizes, self._keys = sizes, keys
        self._unit: pa.Array | None = None
        self._hash: pa.Array | None = None
        self._key, self._open = -1, 0  # of the last row, and how many keys its unit has so far

    def __enter__(self) -> _Writer:
        return self

    def __exit__(self, *error: object) -> None:
        if self._open:
            write_numbers(np.array([self._open]), self._sizes)
        for file in (self._sizes, self._keys):
            close_file(file)

    def write(self, sizes: Integers, keys: Places) -> None:
        """Whole units; those without keys are left out."""
        write_numbers(sizes[sizes > 0], self._sizes)
        write_numbers(keys, self._keys)

    def add(self, units: pa.Array, keys: Integers, hashes: pa.Array | None = None) -> None:
        """Rows in the order of units, or of hashes of them, and keys; equal ones next to each other.

        Raises HashCollision if two units have the same hash: two neighbours differ then. What was written is useless.
        """
        if not len(keys):
            return
        begins = changes(units, self._unit)
        if hashes is not None:
            if not np.array_equal(begins, changes(hashes, self._hash)):
                raise HashCollision("two units have the same hash.")
            self._hash = hashes.slice(len(hashes) - 1)
        new = begins.copy()
        new[1:] |= keys[1:] != keys[:-1]
        new[0] |= keys[0] != self._key
        starts = np.flatnonzero(begins)
        reached = np.concatenate([[0], np.cumsum(new)])
        ends = reached[np.append(starts, len(keys))]
        head = int(ends[0])  # keys of the unit that began before
        if len(starts):
            done = np.diff(ends)
            closed = [self._open + head] if self._open + head else []
            write_numbers(np.concatenate([closed, done[:-1]]), self._sizes)
            self._open = int(done[-1])
        else:
            self._open += int(reached[-1])
        write_numbers(keys[new], self._keys)
        self._unit, self._key = units.slice(len(units) - 1), int(keys[-1])
