"""Runs through the public interface: a file goes in, a release file comes out, and is read back.

Many copies in one run. The mechanisms here draw for every key by itself, so a data set with many keys of the same
frequency gives as many independent draws from the row of that frequency: what is seen of one key does not depend on
what other keys there are. So the key is audited as if it were alone, by a pair of data sets in which it has f or f - 1
occurrences. What this takes for granted, that keys do not influence each other, is itself looked at by
`observe_order` and by the mechanisms that are run once for each sample.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import dptally
from dptally.audit.events import Neighbours, Sample
from dptally.audit.subjects import law_of
from dptally.laws.round_parameters import choose_round_law
from dptally.laws.sampling_schemes import Ppswor, Scheme
from dptally.laws.spec import Mechanism
from dptally.randomness import BitSource

Observer = Callable[["Runs"], list[Neighbours]]
Found = tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]
_CLASS = 10_000_000  # keys of one class of frequencies are numbered from a multiple of this on
_BETWEEN = 8  # frequencies between those that are reported half of the time and those that nearly always are
_NODE = ("level", "node", "value")
_AT_ONCE = 40_000  # copies of each class in one run
_UNITS_AT_ONCE = 10_000  # the same, where every occurrence is a row


@dataclass(frozen=True)
class Runs:
    """What is run: a mechanism for epsilon and delta, so often on each data set, with files in a directory."""

    mechanism: type[Mechanism]
    epsilon: Fraction
    delta: Fraction
    number: int
    bits: BitSource
    place: Path

    def publish(self, source: Any, mechanism: Mechanism, **options: Any) -> Any:
        """A release of keys."""
        if not mechanism.pure:
            options["delta"] = self.delta
        options |= {"epsilon": self.epsilon, "randomness": self.bits, "progress": False}
        return dptally.publish(source, mechanism=mechanism, key="key", **options)

    def frequencies(self, **request: Any) -> tuple[int, ...]:
        """Those worth looking at: the first, and from where half are reported to where all are. Public knowledge."""
        law = law_of(self.mechanism, self.epsilon, self.delta, **request)
        half = law.first_frequency(Fraction(1, 2)) or 8
        sure = law.first_frequency(1 - self.delta / 4) or 2 * half
        first = 1 if law.rate is None else law.threshold - 1  # fewer units than the threshold are never reported
        steps = range(half, sure + 2, max(1, (sure - half) // _BETWEEN))
        return tuple(sorted({first, first + 1, half + 1, sure, sure + 1, *steps} - {0}))


def observe_keys(runs: Runs, sampling: Scheme | None = None) -> list[Neighbours]:
    """Mechanisms that report keys of the data, each by itself: many copies of keys of some frequencies."""

    def release(source: Path) -> Any:
        return runs.publish(source, runs.mechanism(), count="count", sampling=sampling)

    return _copies(runs, runs.frequencies(sampling=sampling), release)


def observe_units(runs: Runs) -> list[Neighbours]:
    """Mechanisms that need units: each occurrence of a key is a unit of its own, with this one key.

    All units are alike, so that a key is found and counted by the number of its units, whatever other keys there are.
    """
    law = law_of(runs.mechanism, runs.epsilon, runs.delta, unit="unit")
    half = law.first_frequency(Fraction(1, 2)) or 8
    sure = law.first_frequency(1 - runs.delta / 4) or 2 * half

    def release(source: Path) -> Any:
        counted = pq.read_table(source)
        keys = np.repeat(counted.column("key").to_numpy(), counted.column("count").to_numpy())
        rows = pa.table({"key": keys, "unit": np.arange(len(keys))})
        return runs.publish(rows, runs.mechanism(), unit="unit", max_keys_per_unit=1)

    return _copies(runs, (1, half, sure), release, at_once=min(runs.number, _UNITS_AT_ONCE))


def observe_sampled(runs: Runs) -> list[Neighbours]:
    """The same, of a sample of the keys."""
    return observe_keys(runs, Ppswor("0.3"))


def observe_universe(runs: Runs) -> list[Neighbours]:
    """A value for every key of a universe, of which some have more occurrences than others.

    Where a release holds only so many keys, that is as many as there are: then every key is by itself. Keys that are
    not in the data may be drawn another way than those that are: frequencies 1 and 0 compare the two.
    """
    audits = runs.mechanism.audits
    at_once = min(runs.number, audits.copies)
    keys = len(audits.frequencies) * at_once

    def release(source: Path) -> Any:
        return runs.publish(source, runs.mechanism(**audits.options(keys)), count="count")

    def values(saved: Path) -> Found:
        if runs.mechanism.kind == "table":
            return _read_release(saved)
        found = dptally.load(saved, dptally.CompactRelease)
        return np.arange(keys), np.array(found.values(range(keys)))

    return _copies(runs, audits.frequencies, release, at_once=at_once, spacing=at_once, read=values)


def observe_ranges(runs: Runs) -> list[Neighbours]:
    """Trees of counts: leaves of one tree, each of which is drawn by itself. A unit is also in the nodes above."""
    at_once = min(runs.number, 340)  # as many bins as one level may have
    frequencies = runs.frequencies()[:3]
    bins = len(frequencies) * at_once

    def release(source: Path) -> Any:
        return dptally.publish_quantiles(
            source,
            value="key",
            count="count",
            low=0,
            high=bins - 1,
            resolution=bins,
            branching=bins,
            epsilon=runs.epsilon,
            delta=runs.delta,
            mechanism=runs.mechanism.name,
            randomness=runs.bits,
            progress=False,
        )

    def values(saved: Path) -> Found:
        level, node, value = (dptally.load_ranges(saved).nodes().column(name).to_numpy() for name in _NODE)
        leaves = (level == level.max(initial=0)) & (value > 0)
        return node[leaves], value[leaves]

    return _copies(runs, frequencies, release, at_once=at_once, spacing=at_once, read=values)


def observe_tree(runs: Runs) -> list[Neighbours]:
    """Heavy hitters: many values, found round by round."""
    law = choose_round_law(runs.epsilon, runs.delta, 2, "exact")
    frequencies = (law.threshold, law.threshold + 1, round(law.threshold / law.rate))

    def release(source: Path) -> Any:
        return dptally.publish_heavy_hitters(
            source,
            key="key",
            count="count",
            epsilon=runs.epsilon,
            delta=runs.delta,
            levels=[32, 64],
            domain="bits",
            width=64,
            randomness=runs.bits,
            progress=False,
        )

    def values(saved: Path) -> Found:
        found = dptally.load(saved, dptally.PrefixTree).frequencies()
        numbers = np.array([int(key) >> 32 for key in found], dtype=np.int64)
        return numbers, np.array(list(found.values()), dtype=np.int64)

    # Values differ in their first half, so that every value has a prefix of its own in both rounds.
    at_once = min(runs.number, 5000)
    return _copies(runs, frequencies, release, at_once=at_once, spacing=at_once, read=values, shift=32)


def _copies(
    runs: Runs,
    frequencies: tuple[int, ...],
    release: Callable[[Path], Any],
    *,
    at_once: int = _AT_ONCE,
    spacing: int = _CLASS,
    read: Callable[[Path], Found] | None = None,
    shift: int = 0,
) -> list[Neighbours]:
    """Runs with many copies of keys of each frequency, and of each frequency less one."""
    counts: dict[tuple[int, int, int], Counter[Hashable]] = {
        (number, lower, half): Counter() for number in range(len(frequencies)) for lower in (0, 1) for half in (0, 1)
    }
    source, saved = runs.place / "data.parquet", runs.place / "release.parquet"
    for done in range(0, runs.number, at_once):
        copies = min(at_once, runs.number - done)
        for lower in (0, 1):
            _write_counts(source, [frequency - lower for frequency in frequencies], copies, spacing, shift)
            release(source).save(saved, overwrite=True)
            keys, values = _read_release(saved) if read is None else read(saved)
            for number in range(len(frequencies)):
                mine = (keys >= number * spacing) & (keys < number * spacing + copies)
                for half in (0, 1):
                    here = mine & ((keys - number * spacing) % 2 == half)
                    found, times = np.unique(values[here], return_counts=True)
                    counter = counts[number, lower, half]
                    counter.update(dict(zip(found.tolist(), times.tolist(), strict=True)))
                    counter[None] += (copies + 1 - half) // 2 - int(here.sum())
    return [
        Neighbours(
            f"a key of {frequency} or {frequency - 1} units",
            *(Sample(counts[number, lower, 0], counts[number, lower, 1]) for lower in (0, 1)),
        )
        for number, frequency in enumerate(frequencies)
    ]


def _write_counts(source: Path, frequencies: list[int], copies: int, spacing: int, shift: int) -> None:

    counts = np.array(frequencies, dtype=np.int64)
    present = np.flatnonzero(counts > 0)
    keys = (present[:, None] * spacing + np.arange(copies)).ravel() << shift
    pq.write_table(pa.table({"key": keys, "count": np.repeat(counts[present], copies)}), source)


def _read_release(saved: Path) -> Found:

    table = pq.read_table(saved, columns=["key", "value"])
    return table.column("key").to_numpy(), table.column("value").to_numpy()


def observe_sketch(runs: Runs) -> list[Neighbours]:
    """Sketches of one counter, of streams of which one has one element more; one sample for each release."""
    # After "b", "a" the counter of b is zero: one "a" more takes its place, and none leaves it there.
    streams = {"a new key": (["a"], ["b", "a"]), "a frequent key": (["b"], ["b"] * 20)}
    found = []
    for name, (more, shorter) in streams.items():
        samples = []
        for stream in (shorter + more, shorter):
            saved = runs.place / "stream.sketch"
            sketch = dptally.MisraGriesSketch(1, bits=runs.bits)
            sketch.update(stream)
            sketch.save(saved, overwrite=True)
            halves: tuple[Counter[Hashable], Counter[Hashable]] = (Counter(), Counter())
            for run in range(runs.number):
                read = dptally.load_sketch(saved)
                release = read.publish(runs.epsilon, runs.delta, shortfall=None, randomness=runs.bits)
                release.save(runs.place / "release.parquet", overwrite=True)
                keys, counts = _read_release(runs.place / "release.parquet")
                values = dict(zip(keys.tolist(), counts.tolist(), strict=True))
                halves[run % 2][values.get(more[0])] += 1
            samples.append(Sample(*halves))
        found.append(Neighbours(f"{name} in the stream or not", *samples))
    return found


def observe_order(runs: Runs) -> list[Neighbours]:
    """The order of two frequent keys in the release, where the first row of the data is there or not.

    The first row holds the later key. Without it, the earlier key comes first in the data. There are many such pairs of
    keys in one run; each is released in an order that depends on its own rows at most.
    """
    many = min(runs.number, 500)
    source, saved = runs.place / "data.parquet", runs.place / "release.parquet"
    samples: list[Sample] = []
    for lower in (0, 1):
        halves: tuple[Counter[Hashable], Counter[Hashable]] = (Counter(), Counter())
        for _ in range(0, runs.number, many):
            rows = [] if lower else [2 * pair + 1 for pair in range(many)]
            rows += [2 * pair + side for pair in range(many) for side in [0, 1] * 60]
            pq.write_table(pa.table({"key": pa.array(rows, pa.int64())}), source)
            runs.publish(source, runs.mechanism()).save(saved, overwrite=True)
            order = {key: at for at, key in enumerate(pq.read_table(saved).column("key").to_pylist())}
            for pair in range(many):
                both = 2 * pair in order and 2 * pair + 1 in order
                outcome = ("first" if order[2 * pair] < order[2 * pair + 1] else "second") if both else None
                halves[pair % 2][outcome] += 1
        samples.append(Sample(*halves))
    return [Neighbours("the first row of a data set or not", *samples)]
