"""Run the parts, and write the report: see the package."""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from studies.reliability.outcomes import Settings
from studies.reliability.parts import PARTS
from studies.reliability.report import facts_of, page, write

__all__ = ["main"]


def main(argv: Sequence[str] | None = None) -> int:
    """Run; the exit status is 1 if anything did not hold."""
    names, usual = [part.name for part in PARTS], Settings()
    parser = argparse.ArgumentParser(
        prog="python -m studies.reliability", description="What holds when things go wrong."
    )
    parser.add_argument("--parts", help=f"which, separated by commas (default: all): {', '.join(names)}")
    parser.add_argument("--kills", type=int, default=usual.kills, help="processes killed (default: %(default)s)")
    parser.add_argument("--writers", type=int, default=usual.writers, help="on one ledger (default: %(default)s)")
    parser.add_argument("--seconds", type=float, default=usual.seconds, help="they spend for (default: %(default)g)")
    parser.add_argument("--publishes", type=int, default=usual.publishes, help="measured (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=usual.seed, help="of the moments (default: %(default)s)")
    parser.add_argument("--directory", help="where to work, on the disk to be measured (default: the temporary one)")
    parser.add_argument("--report", type=Path, help="a Markdown page to put the tables into, and JSON beside it")
    given = parser.parse_args(argv)
    chosen = names if given.parts is None else given.parts.split(",")
    if unknown := [name for name in chosen if name not in names]:
        parser.error(f"there is no part {unknown[0]!r}; parts are {', '.join(names)}.")
    settings = Settings(given.kills, given.writers, given.seconds, given.publishes, given.seed)
    found = []
    for part in PARTS:
        if part.name in chosen:
            with tempfile.TemporaryDirectory(dir=given.directory, prefix=f"dptally-{part.name}-") as directory:
                began = time.monotonic()
                outcome = part.run(settings, Path(directory))
                found.append((part, outcome, time.monotonic() - began))
            said = "skipped" if outcome.skipped else f"{len(outcome.violations)} violations"
            sys.stderr.write(f"{part.name}: {said}, {found[-1][2]:.0f} s\n")
            sys.stderr.writelines(f"  {violation}\n" for violation in outcome.violations)
    facts = facts_of(settings, found)
    if given.report is not None:
        write(facts, given.report)
    sys.stdout.write(page(facts))
    return 1 if facts["violations"] else 0


if __name__ == "__main__":
    sys.exit(main())
