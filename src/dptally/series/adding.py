"""One period of a series: noise for every key, the test of hidden keys, and what is kept.

Every key of the state is tested in every period that is added, whether it has rows in it or not: testing only keys with
new rows would publish a key near its threshold because one unit came. A key has noise in every period from the first
one of the series on, also before it was seen, so nothing tells since when it is there. A period that was left out
counts as empty: its noise is drawn with the next period, and nothing is published in it.

Noise of a key and a period is a function of the seed, the key, the period and the digests of the bounded rows of this
period and all before it, periods that were left out included. A period that was interrupted has the same noise again if
its rows are the same. Two copies of a state share noise up to the first period in which their rows differ, and none
from there on: differences of what they release would have no noise otherwise.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dptally.randomness.keyed import KeyedWords, WordsOfBlocks
from dptally.series.bounding import Counted, Used

if TYPE_CHECKING:
    from dptally.laws.series import SeriesLaw
    from dptally.series.state import State

__all__ = ["EMPTY", "Noise", "add_period", "keyed_words", "known_blocks", "published_history", "used_pairs"]

EMPTY = hashlib.sha256(b"no rows").digest()
Integers = NDArray[np.int64]


def keyed_words(seed: bytes, *, private: bool) -> KeyedWords:
    """Identities of units and keys, and the choices of units' keys."""
    return KeyedWords(hmac.digest(seed, b"identities", "sha256"), private=private)


@dataclass(frozen=True)
class Noise:
    """Noise of any key in any period so far. Private."""

    law: SeriesLaw
    seed: bytes
    digests: Sequence[bytes]  # of the bounded rows of each period, from the first one on
    private: bool

    @cached_property
    def _up_to(self) -> list[bytes]:
        """For each period, a digest of the digests up to it: later periods do not change the noise of earlier ones."""
        return list(accumulate(self.digests, lambda before, new: hashlib.sha256(before + new).digest()))

    def of(self, blocks: NDArray[np.uint64], period: int) -> Integers:
        """The noise of keys, by their identities, in a period."""
        text = b"noise %d " % period + self._up_to[period - 1]
        words = WordsOfBlocks(hmac.digest(self.seed, text, "sha256"), blocks, private=self.private)
        return self.law.draw_noise(len(blocks) // 2, words)


def add_period(state: State, noise: Noise, counted: Counted, number: int, last: int, *, keep_units: bool) -> None:
    """Write what a period changes; inside a transaction, before the rows of periods.

    Args:
        state: of the series.
        noise: knows the digests of all periods up to this one.
        counted: the bounded rows.
        number: of the period.
        last: of the period that was added before, or 0.
        keep_units: whether units are bounded over periods.
    """
    law, width = noise.law, len(noise.law.decays)
    old = known_blocks(state)
    blocks = np.concatenate([old, counted.new_blocks])
    keys, before = len(blocks) // 2, len(old) // 2
    used = counted.used
    if counted.new_keys.num_rows or not before:
        words = counted.new_blocks.reshape(-1, 2)
        columns = counted.new_keys.append_column("_hi", pa.array(words[:, 0])).append_column(
            "_lo", pa.array(words[:, 1])
        )
        state.put("keys", number, columns)
    state.put("counts", number, pa.table({"gap": np.diff(used.keys, prepend=0), "count": used.counts}))
    if keep_units:
        pairs = used.units.reshape(-1, 2)
        columns = pa.table({"hi": np.ascontiguousarray(pairs[:, 0]), "lo": np.ascontiguousarray(pairs[:, 1])})
        state.put("units", number, columns, compressed=False)
    held = np.zeros((keys, width))
    for _, table in state.get("buffers"):
        held[:before] = _array(table.column("sum"), np.float64).reshape(before, width)
    decays, weights = (np.array([float(each) for each in part]) for part in (law.decays, law.weights))
    published = published_numbers(state)
    kept: list[Integers] = []
    for period in range(1, last + 1):  # new keys have a history of noise
        held[before:] *= decays
        held[before:] += noise.of(counted.new_blocks, period)[:, None]
    counts = list(_counts(state))
    for period in range(last + 1, number + 1):
        y = noise.of(blocks, period)
        for earlier, numbers, found in counts:
            if earlier <= period:
                y[numbers] += law.coefficients[period - earlier] * found
        held *= decays
        held += y[:, None]
        kept.append(y[published])
    tested = np.zeros(keys)
    for place in range(width):  # term by term, so that a key's test does not depend on how many others there are
        tested += weights[place] * held[:, place]
    passed = tested >= law.thresholds[number - 1]
    passed[published] = False
    newly = np.flatnonzero(passed)
    state.drop("buffers")
    state.put("buffers", number, pa.table({"sum": held.ravel()}), compressed=False)
    state.put("history", number, pa.table({"y": np.concatenate([*kept, np.empty(0, np.int64)])}))
    _publish(state, noise, number, newly, blocks.reshape(-1, 2)[newly].ravel())


def _publish(state: State, noise: Noise, number: int, newly: Integers, blocks: NDArray[np.uint64]) -> None:
    """Write keys that are published from now on, with their noisy numbers of all periods so far."""
    law, periods = noise.law, len(noise.digests)
    increments = np.zeros((len(newly), periods), dtype=np.int64)
    for period, numbers, counts in _counts(state):
        places = np.searchsorted(numbers, newly)
        there = places < len(numbers)
        there[there] = numbers[places[there]] == newly[there]
        increments[there, period - 1] = counts[places[there]]
    mixing = np.zeros((periods, periods), dtype=np.int64)  # C, transposed
    for period in range(periods):
        mixing[period, period:] = law.coefficients[: periods - period]
    y = increments @ mixing
    for period in range(1, periods + 1):
        y[:, period - 1] += noise.of(blocks, period)
    keys = pa.concat_tables([table.drop_columns(["_hi", "_lo"]) for _, table in state.get("keys")])
    state.put("published", number, keys.take(pa.array(newly)).combine_chunks())
    state.put("published_numbers", number, pa.table({"n": newly}))
    state.put("past", number, pa.table({"y": y.ravel()}))


def known_blocks(state: State) -> NDArray[np.uint64]:
    """Identities of the keys of the state, two words for each, in the order of their numbers."""
    parts = [
        np.column_stack([_array(table.column(name), np.uint64) for name in ("_hi", "_lo")]).ravel()
        for _, table in state.get("keys")
    ]
    return np.concatenate([np.empty(0, np.uint64), *parts])


def used_pairs(state: State) -> Iterator[Used]:
    """What has counted in each period, with identities of units."""
    units = dict(state.get("units"))
    for period, numbers, counts in _counts(state):
        if period in units:
            table = units[period]
            words = np.column_stack([_array(table.column(name), np.uint64) for name in ("hi", "lo")]).ravel()
            yield Used(numbers, counts, words)


def published_history(state: State) -> tuple[pa.Table, Integers, Integers]:
    """Published keys in the order in which they were published, since when each is, and y up to the last period."""
    keys, since, y, last = [], [np.empty(0, np.int64)], np.empty((0, 0), np.int64), 0
    later, past = dict(state.get("history")), dict(state.get("past"))
    for period, table in state.get("published"):
        grown = _array(later[period].column("y"), np.int64).reshape(period - last, len(y)).T
        new = _array(past[period].column("y"), np.int64).reshape(table.num_rows, period)
        y, last = np.concatenate([np.concatenate([y, grown], axis=1), new]), period
        keys.append(table)
        since.append(np.full(table.num_rows, period))
    return pa.concat_tables(keys).combine_chunks(), np.concatenate(since), y


def published_numbers(state: State) -> Integers:
    """Numbers of the published keys, in the order in which they were published."""
    parts = [_array(table.column("n"), np.int64) for _, table in state.get("published_numbers")]
    return np.concatenate([np.empty(0, np.int64), *parts])


def _counts(state: State) -> Iterator[tuple[int, Integers, Integers]]:
    """Periods with the numbers of the keys that count in them, increasing, and how often."""
    for period, table in state.get("counts"):
        yield period, np.cumsum(_array(table.column("gap"), np.int64)), _array(table.column("count"), np.int64)


def _array(column: pa.ChunkedArray, kind: type[np.generic]) -> NDArray[Any]:
    return np.array(column.combine_chunks(), dtype=kind) if len(column) else np.empty(0, dtype=kind)
