"""Compact histograms: building them, asking for one count, and asking for as many as there were keys.

    python benchmarks/pure_compact.py --keys 1000 10000 100000

Data: random keys of the 2^64 numbers of 64 bits, each with its own count, as many as the capacity, which is the most
work there can be. Epsilon is 1/10 for adding or removing one unit. Every line is CPU time of one process, the median of
the runs. "Build" has everything from counts by key number to the release: law, judge, noise, interpolation. "Save" and
"load" go through a file. Peak memory is that of the process so far.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from dptally.compact_release import CompactRelease
from dptally.mechanisms.compact_histogram import CompactHistogram
from dptally.randomness import SystemBits


class Numbers:
    """The whole numbers below `size`, as keys of themselves."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.name = f"numbers below {size}"

    def indices(self, keys: Sequence[object]) -> list[int | None]:
        """The number itself."""
        return [key if isinstance(key, int) else None for key in keys]


def seconds(job: Callable[[], object], runs: int) -> float:
    """Median CPU time."""
    found = []
    for _ in range(runs):
        start = time.process_time()
        job()
        found.append(time.process_time() - start)
    return statistics.median(found)


def peak() -> float:
    """Peak memory of this process in MB."""
    status = Path("/proc/self/status").read_text()
    return int(next(line for line in status.splitlines() if line.startswith("VmHWM")).split()[1]) / 1024


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--keys", type=int, nargs="+", default=[1000, 10_000], help="numbers of distinct keys")
    parser.add_argument("--bits", type=int, nargs="+", default=[64, 120], help="sizes of the universe, as powers of 2")
    parser.add_argument("--epsilon", default="0.1")
    parser.add_argument("--runs", type=int, default=3)
    arguments = parser.parse_args()
    generator = np.random.default_rng(7)
    print("| keys | universe | field | build s | one count ms | all counts s | save s | load s | file MB | peak MB |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |")
    for keys in arguments.keys:
        for bits in arguments.bits:
            universe = Numbers(2**bits)
            points = [int(high) << max(0, bits - 64) for high in np.unique(generator.integers(0, 2**63, keys))]
            counts = {point: 1 + place % 1000 for place, point in enumerate(points)}
            made: list[CompactRelease] = []

            def build(
                universe: Numbers = universe, counts: dict[int, int] = counts, made: list[CompactRelease] = made
            ) -> None:
                mechanism = CompactHistogram(
                    arguments.epsilon, universe=universe, capacity=len(counts), beyond_capacity="refuse"
                )
                made.append(mechanism.build(counts, SystemBits()))

            build_time = seconds(build, arguments.runs)
            release = made[-1]
            one = seconds(lambda release=release, key=points[0]: release.count(key), 20)  # type: ignore[misc]
            many = seconds(lambda release=release, asked=points: release.values(asked), arguments.runs)  # type: ignore[misc]
            with tempfile.TemporaryDirectory() as directory:
                file = Path(directory) / "release"
                save = seconds(lambda release=release, file=file: release.save(file, overwrite=True), arguments.runs)  # type: ignore[misc]
                load = seconds(lambda file=file, keys=universe: CompactRelease.load(file, keys), arguments.runs)  # type: ignore[misc]
                size = file.stat().st_size / 1e6
            assert [release.count(point).value for point in points[:40]] == release.values(points[:40])
            print(
                f"| {keys:,} | 2^{bits} | 2^{release.law.exponent}-1 | {build_time:.2f} | {1000 * one:.2f} "
                f"| {many:.2f} | {save:.2f} | {load:.2f} | {size:.2f} | {peak():.0f} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
