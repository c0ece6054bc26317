"""What pure differential privacy costs: CPU seconds of whole releases.

    python benchmarks/pure.py --part sparse --keys 1000 10000 100000 1000000
    python benchmarks/pure.py --part strict --keep 10 30 100 300          # 300: about 15 s
    python benchmarks/pure.py --part compact --compact-keys 1000 10000 100000     # 100000: about two minutes
    python benchmarks/pure.py --part dense
    python benchmarks/pure.py --part errors                               # the table of docs/mechanisms/pure.md

Sparse: a universe of 2^64 numbers, of which n are in the data, with counts from a Zipf law; n keys are kept. Time is
that of the whole release: numbering keys, noise, order statistics of 2^64 - n draws, labels, and the sorted table.
Strict: the reference in strict time beside it at the sizes it can reach, the same data for both.
Compact: as many keys as the capacity, which is the most work there can be, at epsilon 1/10. "Build" has everything from
counts by key number to the release: law, judge, noise, interpolation.
Dense: draws alone, for keys of a list.
Errors: n distinct keys with counts from a Zipf law, capacity n. Stated errors at 5 %, exact from the law, beside those
of [BV19, Thm. 6.11] and the lower bound of [BV19, Thm. 7.2]; measured ones are the 95 % points of 20 seeded releases:
the largest error of all keys of the universe, and the error of one key of the frequency from which keys are released.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from pathlib import Path

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
    from tests.mechanisms import SparseHistogram

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
        largest = seconds(
            lambda size=size, law=mechanism.law: top_order_statistics(law.noise, 1 << 64, size + 1, bits), runs
        )
        growth = f"{whole / before:.1f}" if before else ""
        print(f"| {size:,} | {whole:.4f} | {growth} | {largest:.4f} | {rows:,} |", flush=True)
        before = whole


def strict(sizes: Sequence[int], runs: int) -> None:
    """The reference in strict time beside the exact one."""
    from tests.mechanisms import SparseHistogram, StrictSparseHistogram

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


def compact(sizes: Sequence[int], powers: Sequence[int], runs: int) -> None:
    """Building a compact release, one count, and as many counts as there were keys."""
    from tests.mechanisms import CompactHistogram

    from dptally.randomness import SystemBits
    from dptally.releases.compact_release import CompactRelease
    from dptally.universes import Bijection

    print("| keys | universe | field | build s | one count ms | all counts s | save s | load s | file MB |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- | --- |")
    generator = np.random.default_rng(7)
    for keys in sizes:
        for power in powers:
            universe = Bijection(2**power, index=lambda key: key, key=lambda index: index, type=pa.uint64())
            points = [int(high) << max(0, power - 64) for high in np.unique(generator.integers(0, 2**63, keys))]
            counts = {point: 1 + place % 1000 for place, point in enumerate(points)}
            made: list[CompactRelease] = []

            def build(universe=universe, counts=counts, made=made) -> None:  # type: ignore[no-untyped-def]
                mechanism = CompactHistogram("0.1", universe=universe, capacity=len(counts), beyond_capacity="refuse")
                made.append(mechanism.build(counts, SystemBits()))

            built = seconds(build, runs)
            release = made[-1]
            one = seconds(lambda release=release, key=points[0]: release.count(key), 20)
            many = seconds(lambda release=release, points=points: release.values(points), runs)
            with tempfile.TemporaryDirectory() as directory:
                file = Path(directory) / "release"
                save = seconds(lambda release=release, file=file: release.save(file, overwrite=True), runs)
                load = seconds(lambda file=file, universe=universe: CompactRelease.load(file, universe), runs)
                size = file.stat().st_size / 1e6
            print(
                f"| {keys:,} | 2^{power} | 2^{release.law.exponent}-1 | {built:.2f} | {1000 * one:.2f} "
                f"| {many:.2f} | {save:.2f} | {load:.2f} | {size:.2f} |",
                flush=True,
            )


def dense(bins: int, runs: int) -> None:
    """Draws of the dense histogram."""
    from dptally.laws.bounded_geometric import DyadicGeometric
    from dptally.randomness import SystemBits

    print("| epsilon | bins | draw, ns per bin |")
    print("| --- | --- | --- |")
    counts, bits = np.random.default_rng(1).zipf(1.3, bins).clip(0, 1 << 40).astype(np.int64), SystemBits()
    for epsilon in ("1", "0.1"):
        law = DyadicGeometric(epsilon, 1 << 40)
        law.draw(counts[:10], bits)
        taken = seconds(lambda law=law: law.draw(counts, bits), runs)
        print(f"| {epsilon} | {bins:,} | {1e9 * taken / bins:.1f} |", flush=True)


def errors(sizes: Sequence[int], powers: Sequence[int], releases: int) -> None:
    """Stated and measured errors of the sparse histogram."""
    from studies.sparse_printed import printed_errors
    from tests.mechanisms import SparseHistogram

    from dptally.laws.top_k_noise import least_possible_error
    from dptally.randomness import SeededBits
    from dptally.universes import IntegerRange

    beta = "0.05"
    print("| n | universe | all keys: printed | exact | measured | least possible | one key: printed, from count "
          "| exact, from count | measured | CPU s |")  # fmt: skip
    print("| --- " * 10 + "|")
    for size in sizes:
        for power in powers:
            mechanism = SparseHistogram(EPSILON, universe=IntegerRange(0, 2**power - 1), keep=size)
            law, printed = mechanism.law, printed_errors(EPSILON, 2**power, beta)
            from_count = law.reported_from(Fraction(beta) / 2)
            one = law.key_error(beta, from_count)
            random = np.random.default_rng(size + power)
            numbers = np.unique(random.integers(0, 2**power, size, dtype=np.uint64))
            counts = np.minimum(random.zipf(1.3, len(numbers)), 10**9).astype(np.int64)
            counts[0] = from_count
            worst, single, taken = [], [], []
            for seed in range(releases):
                bits, start = SeededBits(seed), time.process_time()
                keys, values = mechanism.draw_bins(numbers, counts, bits)
                taken.append(time.process_time() - start)
                released = np.zeros(len(numbers), dtype=np.int64)
                places = np.minimum(np.searchsorted(numbers, keys), len(numbers) - 1)
                inside = numbers[places] == keys
                released[places[inside]] = values[inside]
                worst.append(int(max(np.abs(released - counts).max(), values[~inside].max(initial=0))))
                single.append(int(abs(released[0] - counts[0])))
            print(
                f"| {size:,} | 2^{power} | {printed.simultaneous_error} | {law.simultaneous_error(beta)} "
                f"| {sorted(worst)[-max(1, releases // 20) - 1]} "
                f"| {least_possible_error(EPSILON, 2**power, size, beta):.1f} "
                f"| {printed.key_error}, {printed.from_count} | {one}, {from_count} "
                f"| {sorted(single)[-max(1, releases // 20) - 1]} | {statistics.median(taken):.4f} |",
                flush=True,
            )


def main() -> None:
    """Run the parts asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parts = ["sparse", "strict", "compact", "dense", "errors"]
    parser.add_argument("--part", nargs="+", choices=parts, default=parts)
    parser.add_argument("--keys", nargs="+", type=int, default=[10**3, 10**4, 10**5, 10**6])
    parser.add_argument("--compact-keys", nargs="+", type=int, default=[10**3, 10**4])
    parser.add_argument("--keep", nargs="+", type=int, default=[10, 30, 100])
    parser.add_argument("--runs", type=int, default=5)
    arguments = parser.parse_args()
    if "sparse" in arguments.part:
        sparse(arguments.keys, arguments.runs)
    if "strict" in arguments.part:
        strict(arguments.keep, 1)
    if "compact" in arguments.part:
        compact(arguments.compact_keys, [64, 120], 3)
    if "dense" in arguments.part:
        dense(10**7, arguments.runs)
    if "errors" in arguments.part:
        errors([10**3, 10**4, 10**5], [16, 32, 64], 20)


if __name__ == "__main__":
    main()
