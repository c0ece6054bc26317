"""Fuzz one target, or all: ``python tests/abuse/fuzz/run.py --seconds 60 [TARGET ...]``.

Coverage-guided by atheris (``pip install 'dptally[fuzz]'``). Each target runs in a process of its own, since libFuzzer
ends it; a memory limit of 2 GB and 20 s for one input are part of the test. A finding is written to
``tests/abuse/regressions/TARGET-...``, from where ``test_regressions.py`` replays it ever after.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
REGRESSIONS = HERE.parent / "regressions"


def fuzz(name: str, seconds: int) -> None:
    """Fuzz a target in this process; does not return."""
    import atheris

    sys.path.insert(0, str(ROOT))
    with atheris.instrument_imports(include=["dptally"]):
        from tests.abuse.fuzz.targets import TARGETS, harmless

        target = TARGETS[name]()
        for seed in target.seeds:  # what is imported with the first use is instrumented too
            harmless(target, seed)
    with tempfile.TemporaryDirectory() as corpus:
        for number, seed in enumerate(target.seeds):
            (Path(corpus) / f"seed{number}").write_bytes(seed)
        options = [
            f"-max_total_time={seconds}", "-timeout=20", "-rss_limit_mb=2048", "-seed=1", "-max_len=8192",
            f"-artifact_prefix={REGRESSIONS}/{name}-", "-print_final_stats=1",
        ]  # fmt: skip
        atheris.Setup([sys.argv[0], *options, corpus], lambda content: harmless(target, content))
        atheris.Fuzz()


def main() -> int:
    """Run the targets one after the other, and print a table."""
    if sys.argv[1:2] == ["--one"]:  # before anything is imported that is to be instrumented
        fuzz(sys.argv[2], int(sys.argv[3]))
    sys.path.insert(0, str(ROOT))
    from tests.abuse.fuzz.targets import TARGETS

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=int, default=60, help="for each target")
    parser.add_argument("targets", nargs="*", metavar="TARGET", help=f"of {', '.join(TARGETS)} (default: all)")
    given = parser.parse_args()
    failed = 0
    print("| target | seconds | executions | coverage | finding |\n| --- | ---: | ---: | ---: | --- |")  # noqa: T201
    for name in given.targets or TARGETS:
        start = time.monotonic()
        command = [sys.executable, __file__, "--one", name, str(given.seconds)]
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", cwd=ROOT)
        runs = re.findall(r"stat::number_of_executed_units:\s*(\d+)", done.stderr) or re.findall(r"#(\d+)", done.stderr)
        covered = re.findall(r"cov: (\d+)", done.stderr)
        found = re.findall(r"Test unit written to (\S+)", done.stderr)
        failed += done.returncode != 0
        finding = found[0] if found else "none" if done.returncode == 0 else done.stderr.strip().splitlines()[-1]
        spent = f"{time.monotonic() - start:.0f}"
        cells = (name, spent, runs[-1] if runs else "?", covered[-1] if covered else "?", finding)
        print(f"| {' | '.join(cells)} |", flush=True)  # noqa: T201
        if found:
            print(done.stderr[-3000:], file=sys.stderr)  # noqa: T201
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
