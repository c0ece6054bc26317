"""The command ``python -m tests.mutants``: inject every fault, and say which test caught it.

With names, only those faults; ``-j`` runs several at a time. Exit status 1 if a fault survives, no longer applies, or
breaks its tests in another way than by an assertion, or if the named tests fail without any fault.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.mutants.catalogue import FAULTS
from tests.mutants.copies import Outcome, copy_package, inject, run_tests
from tests.mutants.fault import Fault


def main() -> int:
    """Run it."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="FAULT", help="start of a name; all if none is given")
    parser.add_argument("-j", type=int, default=2, dest="processes", help="how many at a time (default: 2)")
    parser.add_argument("--without-baseline", action="store_true", help="do not first run the tests without any fault")
    arguments = parser.parse_args()
    chosen = [fault for fault in FAULTS if not arguments.names or fault.name.startswith(tuple(arguments.names))]
    if not chosen:
        parser.error("no fault has such a name")
    with tempfile.TemporaryDirectory(prefix="dptally-mutants-") as folder:
        original = copy_package(Path(folder) / "original")
        if not arguments.without_baseline:
            baseline = run_tests(original, sorted({test for fault in chosen for test in fault.tests}))
            if not baseline.passed:
                _say(f"Without any fault {baseline.failed or 'the tests'} failed: {baseline.reason}")
                return 1
            _say(f"Without any fault the named tests pass ({baseline.seconds:.0f} s).\n")
        _say(f"| {'fault':<44} | {'breaks':<36} | caught by | seconds |")
        _say("| --- | --- | --- | --- |")

        def outcome(fault: Fault) -> Outcome:
            try:
                copy = inject(fault, original, Path(folder) / fault.name)
            except LookupError as error:
                return Outcome(False, "", str(error), 0)
            return run_tests(copy, fault.tests)

        survived = 0
        with ThreadPoolExecutor(arguments.processes) as workers:
            for fault, found in zip(chosen, workers.map(outcome, chosen), strict=True):
                survived += not found.caught
                verdict = found.failed if found.caught else f"**NOT CAUGHT** {found.failed} {found.reason}".strip()
                _say(f"| {fault.name:<44} | {'; '.join(fault.breaks):<36} | {verdict} | {found.seconds:.1f} |")
    _say(f"\n{len(chosen)} faults, {len(chosen) - survived} caught.")
    return 1 if survived else 0


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
