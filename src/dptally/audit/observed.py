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
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from dptally.audit.events import Neighbours, Sample
from dptally.audit.subjects import law_of
from dptally.laws.sampling_schemes import Ppswor, Scheme

if TYPE_CHECKING:
    from dptally.laws.spec import Mechanism
    from dptally.randomness import BitSource

__all__ = ["Observer", "observe_keys", "observe_order", "observe_ranges", "observe_sampled", "observe_sketch",
           "observe_tree", "observe_universe"]  # fmt: skip

Observer = Callable[..., list[Neighbours]]
Found = tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]
_CLASS = 10_000_000  # keys of one class of frequencies are numbered from a multiple of this on
_BETWEEN = 8  # frequencies between those that are reported half of the time and those that nearly always are
_AT_ONCE = 40_000  # copies of each class in one run


def observe_keys(
    mechanism: type[Mechanism],
    epsilon: Fraction,
    delta: Fraction,
    runs: int,
    bits: BitSource,
    place: Path,
    sampling: Scheme | None = None,
) -> list[Neighbours]:
    """Mechanisms that report keys of the data, each by itself: many copies of keys of some frequencies."""
    law = law_of(mechanism, epsilon, delta, sampling=sampling)

    def release(source: Path) -> Any:
        return _publish(source, mechanism(), epsilon, delta, bits, sampling=sampling)

    return _copies(_frequencies(law, delta), runs, place, release)


def observe_sampled(
    mechanism: type[Mechanism], epsilon: Fraction, delta: Fraction, runs: int, bits: BitSource, place: Path
) -> list[Neighbours]:
    """The same, of a sample of the keys."""
    return observe_keys(mechanism, epsilon, delta, runs, bits, place, Ppswor("0.3"))


def observe_universe(
    mechanism: type[Mechanism], epsilon: Fraction, delta: Fraction, runs: int, bits: BitSource, place: Path
) -> list[Neighbours]:
    """A value for every key of a universe, of which some have more occurrences than others.

    Where a release holds only so many keys, that is as many as there are: then every key is by itself. Keys that are
    not in the data may be drawn another way than those that are: frequencies 1 and 0 compare the two.
    """
    import dptally

    del delta
    audits = mechanism.audits
    at_once = min(runs, audits.copies)
    keys = len(audits.frequencies) * at_once

    def release(source: Path) -> Any:
        return _publish(source, mechanism(**audits.options(keys)), epsilon, None, bits)

    def values(saved: Path) -> Found:
        if mechanism.kind == "table":
            return _read_release(saved)
        found = dptally.load(saved, dptally.CompactRelease)
        return np.arange(keys), np.array(found.values(range(keys)))

    return _copies(audits.frequencies, runs, place, release, at_once=at_once, spacing=at_once, read=values)


def _publish(
    source: Path, mechanism: Mechanism, epsilon: Fraction, delta: Fraction | None, bits: BitSource, **options: Any
) -> Any:
    import dptally

    options |= {"key": "key", "count": "count", "randomness": bits, "progress": False}
    return dptally.publish(source, mechanism=mechanism, epsilon=epsilon, delta=delta, **options)


def observe_ranges(
    mechanism: type[Mechanism], epsilon: Fraction, delta: Fraction, runs: int, bits: BitSource, place: Path
) -> list[Neighbours]:
    """Trees of counts: leaves of one tree, each of which is drawn by itself. A unit is also in the nodes above."""
    import dptally

    at_once = min(runs, 340)  # as many bins as one level may have
    frequencies = _frequencies(law_of(mechanism, epsilon, delta), delta)[:3]

    def release(source: Path) -> Any:
        return dptally.publish_quantiles(
            source,
            value="key",
            count="count",
            low=0,
            high=len(frequencies) * at_once - 1,
            resolution=len(frequencies) * at_once,
            branching=len(frequencies) * at_once,
            epsilon=epsilon,
            delta=delta,
            mechanism=mechanism.name,
            randomness=bits,
            progress=False,
        )

    def values(saved: Path) -> Found:
        nodes = dptally.load_ranges(saved).nodes().to_pydict()
        last = max(nodes["level"], default=0)
        found = [(node, value) for level, node, value in zip(nodes["level"], nodes["node"], nodes["value"], strict=True)
                 if level == last and value]  # fmt: skip
        return np.array([node for node, _ in found], dtype=np.int64), np.array([value for _, value in found])

    return _copies(frequencies, runs, place, release, at_once=at_once, spacing=at_once, read=values)


def observe_tree(
    mechanism: type[Mechanism], epsilon: Fraction, delta: Fraction, runs: int, bits: BitSource, place: Path
) -> list[Neighbours]:
    """Heavy hitters: many values, found round by round."""
    from dptally.heavy_hitters import publish_heavy_hitters
    from dptally.laws.round_parameters import choose_round_law
    from dptally.releases.prefix_tree import PrefixTree
    from dptally.releases.release_file import load_release

    law = choose_round_law(epsilon, delta, 2, "exact")
    frequencies = (law.threshold, law.threshold + 1, round(law.threshold / law.rate))

    def release(source: Path) -> Any:
        return publish_heavy_hitters(
            source,
            key="key",
            count="count",
            epsilon=epsilon,
            delta=delta,
            levels=[32, 64],
            domain="bits",
            width=64,
            randomness=bits,
            progress=False,
        )

    def values(saved: Path) -> Found:
        found = load_release(saved, PrefixTree).frequencies()
        numbers = np.array([int(key) >> 32 for key in found], dtype=np.int64)
        return numbers, np.array(list(found.values()), dtype=np.int64)

    # Values differ in their first half, so that every value has a prefix of its own in both rounds.
    at_once = min(runs, 5000)
    return _copies(frequencies, runs, place, release, at_once=at_once, spacing=at_once, read=values, shift=32)


def _frequencies(law: Any, delta: Fraction) -> tuple[int, ...]:
    """Frequencies worth looking at: the first, and from where half are reported to where all are. Public knowledge."""
    half = law.first_frequency(Fraction(1, 2)) or 8
    sure = law.first_frequency(1 - delta / 4) or 2 * half
    first = 1 if law.rate is None else law.threshold - 1  # fewer units than the threshold are never reported
    steps = range(half, sure + 2, max(1, (sure - half) // _BETWEEN))
    return tuple(sorted({first, first + 1, half + 1, sure, sure + 1, *steps} - {0}))


def _copies(
    frequencies: tuple[int, ...],
    runs: int,
    place: Path,
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
    done = 0
    while done < runs:
        copies = min(at_once, runs - done)
        for lower in (0, 1):
            source, saved = place / "data.parquet", place / "release.parquet"
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
        done += copies
    return [
        Neighbours(
            f"a key of {frequency} or {frequency - 1} units",
            *(Sample(counts[number, lower, 0], counts[number, lower, 1]) for lower in (0, 1)),
        )
        for number, frequency in enumerate(frequencies)
    ]


def _write_counts(source: Path, frequencies: list[int], copies: int, spacing: int, shift: int) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    present = [(number, frequency) for number, frequency in enumerate(frequencies) if frequency > 0]
    keys = [np.arange(number * spacing, number * spacing + copies, dtype=np.int64) << shift for number, _ in present]
    counts = [np.full(copies, frequency, dtype=np.int64) for _, frequency in present]
    empty = np.empty(0, dtype=np.int64)
    table = pa.table({"key": np.concatenate([empty, *keys]), "count": np.concatenate([empty, *counts])})
    pq.write_table(table, source)


def _read_release(saved: Path) -> Found:
    import pyarrow.parquet as pq

    table = pq.read_table(saved, columns=["key", "value"])
    return table.column("key").to_numpy(), table.column("value").to_numpy()


def observe_sketch(
    mechanism: type[Mechanism], epsilon: Fraction, delta: Fraction, runs: int, bits: BitSource, place: Path
) -> list[Neighbours]:
    """Sketches of one counter, of streams of which one has one element more; one sample for each release."""
    import pyarrow.parquet as pq

    import dptally

    # After "b", "a" the counter of b is zero: one "a" more takes its place, and none leaves it there.
    streams = {"a new key": (["a"], ["b", "a"]), "a frequent key": (["b"], ["b"] * 20)}
    found = []
    for name, (more, shorter) in streams.items():
        samples = []
        for stream in (shorter + more, shorter):
            saved = place / "stream.sketch"
            sketch = dptally.MisraGriesSketch(1, bits=bits)
            sketch.update(stream)
            sketch.save(saved, overwrite=True)
            halves: tuple[Counter[Hashable], Counter[Hashable]] = (Counter(), Counter())
            for run in range(runs):
                release = dptally.load_sketch(saved).publish(epsilon, delta, shortfall=None, randomness=bits)
                release.save(place / "release.parquet", overwrite=True)
                table = pq.read_table(place / "release.parquet", columns=["key", "value"]).to_pydict()
                values = dict(zip(table["key"], table["value"], strict=True))
                halves[run % 2][values.get(more[0])] += 1
            samples.append(Sample(*halves))
        found.append(Neighbours(f"{name} in the stream or not", *samples))
    return found


def observe_order(
    mechanism: type[Mechanism], epsilon: Fraction, delta: Fraction, runs: int, bits: BitSource, place: Path
) -> list[Neighbours]:
    """The order of two frequent keys in the release, where the first row of the data is there or not.

    The first row holds the later key. Without it, the earlier key comes first in the data. There are many such pairs of
    keys in one run; each is released in an order that depends on its own rows at most.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    import dptally

    many = min(runs, 500)
    samples: list[Sample] = []
    for lower in (0, 1):
        halves: tuple[Counter[Hashable], Counter[Hashable]] = (Counter(), Counter())
        done = 0
        while done < runs:
            source, saved = place / "data.parquet", place / "release.parquet"
            rows = [] if lower else [2 * pair + 1 for pair in range(many)]
            rows += [2 * pair + side for pair in range(many) for side in [0, 1] * 60]
            pq.write_table(pa.table({"key": pa.array(rows, pa.int64())}), source)
            release = dptally.publish(
                source, key="key", epsilon=epsilon, delta=delta, mechanism=mechanism(), randomness=bits, progress=False
            )
            release.save(saved, overwrite=True)
            order = {key: at for at, key in enumerate(pq.read_table(saved).column("key").to_pylist())}
            for pair in range(many):
                both = 2 * pair in order and 2 * pair + 1 in order
                outcome = ("first" if order[2 * pair] < order[2 * pair + 1] else "second") if both else None
                halves[pair % 2][outcome] += 1
            done += many
        samples.append(Sample(*halves))
    return [Neighbours("the first row of a data set or not", *samples)]
