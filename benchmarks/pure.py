"""What pure differential privacy costs: CPU seconds of whole releases.

    python benchmarks/pure.py --part sparse --keys 1000 10000 100000 1000000
    python benchmarks/pure.py --part strict --keep 10 30 100 300          # 300: about 15 s

Sparse: a universe of 2^64 numbers, of which n are in the data, with counts from a Zipf law; n keys are kept. Time is
that of the whole release: numbering keys, noise, order statistics of 2^64 - n draws, labels, and the sorted table.
Strict: the reference in strict time beside it at the sizes it can reach, the same data for both.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

EPSILON = "1"


class Data:
    """Distinct random 64-bit keys with Zipf counts, as a mechanism reads them."""

    key = ("key",)
    unit = None
    scheme = None
    max_keys_per_unit = 1

    def __init__(self, keys: int) -> None:
        random = np.random.default_rng(keys)
        self._keys = np.unique(random.integers(0, 1 << 64, keys, dtype=np.uint64))
        self._counts = np.minimum(random.zipf(1.3, len(self._keys)), 10**9).astype(np.int64)

    def batches(self) -> Iterator[tuple[pa.RecordBatch, NDArray[np.int64]]]:
        """One batch."""
        yield pa.RecordBatch.from_arrays([pa.array(self._keys)], names=["key"]), self._counts


def seconds(job: Callable[[], object], runs: int) -> float:
    """Median CPU seconds of a job."""
    taken = []
    for _ in range(runs):
        start = time.process_time()
        job()
        taken.append(time.process_time() - start)
    return statistics.median(taken)


def sparse(sizes: Sequence[int], runs: int) -> None:
    """The exact sparse histogram, and its parts."""
    from dptally.mechanisms.sparse_histogram import SparseHistogram
    from dptally.randomness import SystemBits
    from dptally.randomness.order_statistics import top_order_statistics
    from dptally.universes import read_universe

    print("| n = keep | release, CPU s | times the one before | order statistics, CPU s | rows released |")
    print("| --- | --- | --- | --- | --- |")
    before, bits = None, SystemBits()
    for size in sizes:
        data = Data(size)
        mechanism = SparseHistogram(EPSILON, universe=read_universe("uint64"), keep=size)
        rows = mechanism.draw(data, bits).rows.num_rows
        whole = seconds(lambda data=data, mechanism=mechanism: mechanism.draw(data, bits), runs)
        largest = seconds(lambda size=size, law=mechanism.law: top_order_statistics(law, 1 << 64, size + 1, bits), runs)
        growth = f"{whole / before:.1f}" if before else ""
        print(f"| {size:,} | {whole:.4f} | {growth} | {largest:.4f} | {rows:,} |", flush=True)
        before = whole


def strict(sizes: Sequence[int], runs: int) -> None:
    """The reference in strict time beside the exact one."""
    from dptally.mechanisms.sparse_histogram import SparseHistogram
    from dptally.mechanisms.strict_sparse import StrictSparseHistogram
    from dptally.randomness import SystemBits
    from dptally.universes import read_universe

    print("| n = keep | bound | strict time, CPU s | exact, CPU s | ratio |")
    print("| --- | --- | --- | --- | --- |")
    universe, bits = read_universe("uint64"), SystemBits()
    for size in sizes:
        data, bound = Data(size), max(size, 100)
        slow = StrictSparseHistogram(EPSILON, universe=universe, keep=size, bound=bound)
        fast = SparseHistogram(EPSILON, universe=universe, keep=size, bound=bound)
        fast.draw(data, bits)
        taken = seconds(lambda slow=slow, data=data: slow.draw(data, bits), runs)
        exact = seconds(lambda fast=fast, data=data: fast.draw(data, bits), runs)
        print(f"| {size:,} | {bound} | {taken:.3f} | {exact:.4f} | {taken / exact:,.0f} |", flush=True)


def main() -> None:
    """Run the parts asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--part", nargs="+", choices=["sparse", "strict"], default=["sparse", "strict"])
    parser.add_argument("--keys", nargs="+", type=int, default=[10**3, 10**4, 10**5, 10**6])
    parser.add_argument("--keep", nargs="+", type=int, default=[10, 30, 100])
    parser.add_argument("--runs", type=int, default=5)
    arguments = parser.parse_args()
    if "sparse" in arguments.part:
        sparse(arguments.keys, arguments.runs)
    if "strict" in arguments.part:
        strict(arguments.keep, 1)


if __name__ == "__main__":
    main()
