"""Misra-Gries sketches beside hashing alone and beside Apache DataSketches, over the same Arrow data in the same run.

    python benchmarks/sketches.py --rows 10000000

Streams: Zipf(1.1) over a million keys, as strings ("item-00012345") and as 64-bit integers; the same with every row
another key, with one key alone, and an adversarial one that repeats 2 (capacity + 1) keys in turn: no key is there when
it comes, and counters are lowered as often as any stream can have them lowered, once in capacity + 1 rows.

"Hash only" reads every key and computes a hash of it, without a table: the table's own hash, and Polars'
`Series.hash()`, over the same Arrow data. DataSketches has no batch update: each key is a Python object first, and
making those is part of its time. Every figure is the best of the runs, in processor time, so that other work on the
machine counts little; ratios are what to look at. Memory is that of full sketches, keys of up to 16 bytes included.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa

from dptally.sketches import MisraGriesSketch
from dptally.summaries.sketch_keys import key_buffers, kind_of

UNIVERSE = 1_000_000


def best(runs: int, *works: Callable[[], Any]) -> list[float]:
    """Processor seconds of the fastest run of each; they take turns, so that a slow minute hits all alike."""
    found: list[list[float]] = [[] for _ in works]
    for _ in range(runs):
        for work, seconds in zip(works, found, strict=True):
            start = time.process_time()
            work()
            seconds.append(time.process_time() - start)
    return [min(seconds) for seconds in found]


def named(numbers: Any) -> pa.Array:
    """Strings for numbers below a hundred million."""
    digits = np.char.zfill(np.asarray(numbers).astype("U8"), 8)
    found = pa.array(np.char.add("item-", digits), pa.large_string())
    return found.combine_chunks() if isinstance(found, pa.ChunkedArray) else found


def zipf(rows: int, rng: np.random.Generator) -> Any:
    """Numbers of keys, the most frequent ones at random places in the order."""
    cumulative = np.cumsum(np.arange(1, UNIVERSE + 1) ** -1.1)
    ranks = np.searchsorted(cumulative, rng.random(rows) * cumulative[-1])
    return rng.permutation(UNIVERSE)[np.minimum(ranks, UNIVERSE - 1)]


def streams(rows: int, capacity: int, kind: str, zipf_numbers: Any, rng: np.random.Generator) -> dict[str, pa.Array]:
    """Each stream as Arrow."""
    names = named(np.arange(UNIVERSE))
    spread = rng.integers(-(2**63), 2**63 - 1, UNIVERSE)
    turns = np.arange(rows) % (2 * (capacity + 1))
    made = {"Zipf(1.1)": zipf_numbers, "one key": np.zeros(rows, dtype=np.int64), "adversarial": turns}
    if kind == "integer":
        found = {name: pa.array(spread[numbers]) for name, numbers in made.items()}
        return found | {"all distinct": pa.array(rng.permutation(rows).astype(np.int64))}
    found = {name: names.take(pa.array(numbers)) for name, numbers in made.items()}
    return found | {"all distinct": named(rng.permutation(rows))}


def hashing(array: pa.Array) -> tuple[Callable[[], Any], Callable[[], Any]]:
    """What hashes every key: with the table's hash, with Polars'."""
    pieces = list(key_buffers(array))
    sketch = MisraGriesSketch(1, kind=kind_of(array.type))

    def work() -> None:
        for piece in pieces:
            getattr(sketch._native, f"hash_{piece.layout}")(*piece.buffers)

    return work, pl.Series(array).hash


def datasketches_seconds(array: pa.Array, capacity: int) -> float | None:
    """Apache DataSketches' frequent items with at least as many counters, from the same Arrow data."""
    try:
        import datasketches
    except ImportError:
        return None
    text = pa.types.is_large_string(array.type)
    size = int(np.ceil(np.log2(capacity / 0.75)))

    def work() -> None:
        sketch = datasketches.frequent_strings_sketch(size) if text else datasketches.frequent_items_sketch(size)
        update = sketch.update
        for start in range(0, len(array), 1 << 17):
            for key in array.slice(start, 1 << 17).to_pylist():
                update(key)

    return best(1, work)[0]


def report_updates(rows: int, runs: int) -> None:
    """Print updates per second."""
    rng = np.random.default_rng(7)
    numbers = zipf(rows, rng)
    print("| keys | capacity | stream | M updates/s | of own hash | of Polars' | over DataSketches | bytes a counter |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    for kind in ("string", "integer"):
        for capacity in (1_000, 10_000, 100_000):
            for name, array in streams(rows, capacity, kind, numbers, rng).items():
                sketch = MisraGriesSketch(capacity)

                def work(array: pa.Array = array, capacity: int = capacity) -> None:
                    nonlocal sketch
                    sketch = MisraGriesSketch(capacity)
                    sketch.update(array)

                own, polars, seconds = best(runs, *hashing(array), work)
                piece = array.slice(0, max(rows // 10, 1))
                other = datasketches_seconds(piece, capacity) if name == "Zipf(1.1)" else None
                ratio = "" if other is None else f"{other / len(piece) / (seconds / rows):.1f}"
                size = f"{sketch.memory_bytes / capacity:.0f}" if len(sketch) == capacity else ""
                print(
                    f"| {kind} | {capacity:,} | {name} | {rows / seconds / 1e6:.1f} | {own / seconds:.2f} "
                    f"| {polars / seconds:.2f} | {ratio} | {size} |",
                    flush=True,
                )
                if name == "Zipf(1.1)":
                    print(f"| {kind} | | {name}, own hash only | {rows / own / 1e6:.0f} | 1.00 | | | |")
                    print(
                        f"| {kind} | | {name}, Polars' hash only | {rows / polars / 1e6:.0f} | | 1.00 | | |", flush=True
                    )


def report_merge(sketches: int, capacity: int) -> None:
    """Print how long many sketches take to merge."""
    rng = np.random.default_rng(8)
    names = named(np.arange(UNIVERSE))
    made = []
    for _ in range(sketches):
        sketch = MisraGriesSketch(capacity)
        sketch.update(names.take(pa.array(zipf(5 * capacity, rng))))
        made.append(sketch)
    seconds = best(1, lambda: made[0].merge(*made[1:]))[0]
    print(f"\nMerging {sketches:,} sketches of {capacity:,} string counters: {seconds:.2f} s.")


def main() -> None:
    """Measure, and print tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--sketches", type=int, default=1000)
    arguments = parser.parse_args()
    report_updates(arguments.rows, arguments.runs)
    report_merge(arguments.sketches, 10_000)


if __name__ == "__main__":
    main()
