"""What it takes to build the law of a weighted sample: key probabilities, rows, certificates, draws.

    python benchmarks/sampled_law.py

Each line is a process of its own, so that its peak memory is its own. "All keys" lists the reporting probability of
every frequency up to saturation; "rows" makes and judges that many rows, spread over them, as a draw would.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from pathlib import Path

CASES = [
    # epsilon, delta, scheme, up to frequency, rows judged
    ("0.1", "1e-8", "priority:1e-6", 1_000_000, 2000),
    ("0.1", "1e-8", "ppswor:1e-6", 1_000_000_000_000, 2000),
    ("1", "1e-6", "priority:1e-4", 10_000, 2000),
    ("0.5", "1e-6", "ppswor:0.05:1/2", 20_000, 2000),
]


def run(case: int) -> None:
    """Build one law, and print what it took as JSON."""
    import numpy as np

    from dptally.laws.sampling_schemes import read_scheme
    from dptally.laws.weighted_sample import WeightedSample
    from dptally.randomness import SystemBits

    epsilon, delta, scheme, last, count = CASES[case]
    idle = _peak()
    law = WeightedSample(epsilon, delta, read_scheme(scheme))
    start = time.process_time()
    law.sampled_rows.reported(last, last)
    keys = time.process_time() - start
    start = time.process_time()
    law.certify()
    first_rows = time.process_time() - start
    frequencies = np.unique(np.linspace(1, last, count).astype(np.int64))
    start = time.process_time()
    law.draw(frequencies, SystemBits())
    rows = time.process_time() - start
    print(json.dumps({"keys": keys, "first": first_rows, "rows": rows, "peak": (_peak() - idle) / 1024}))


def _peak() -> int:
    """Peak memory of this process in KB; its parent's is not among it, as it would be in ru_maxrss."""
    return int(re.findall(r"VmHWM:\s+(\d+)", Path("/proc/self/status").read_text())[0])


def main() -> None:
    """Measure every case, and print a table."""
    if len(sys.argv) > 1:
        run(int(sys.argv[1]))
        return
    print("| epsilon, delta | scheme | up to frequency | all keys, CPU s | first 2048 rows judged, CPU s ", end="")
    print("| rows made, judged and drawn | CPU s | memory over idle, MB |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    for number, (epsilon, delta, scheme, last, count) in enumerate(CASES):
        done = subprocess.run([sys.executable, __file__, str(number)], capture_output=True, text=True, check=True)
        found = json.loads(done.stdout)
        print(
            f"| {epsilon}, {delta} | {scheme} | {last:,} | {found['keys']:.1f} | {found['first']:.1f} "
            f"| {count:,} | {found['rows']:.1f} | {found['peak']:.0f} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
