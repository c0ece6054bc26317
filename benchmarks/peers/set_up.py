"""Make a virtual environment for each peer, with the versions pinned in `environments`.

    python benchmarks/peers/set_up.py [--environments DIR] [--python python3.11] [NAME ...]

Needs the network, about 1.5 GB of disk and four minutes; Tumult also needs Java 8, 11 or 17 at run time. An
environment that is there already is left as it is. What does not install is reported, and the comparison goes on
without it.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
from pathlib import Path

PINNED = Path(__file__).parent / "environments"
CACHE = Path.home() / ".cache" / "dptally-peers"


def set_up(name: str, directory: Path, python: str) -> str:
    """Make one environment; says what happened."""
    target = directory / name
    done = target / "installed.txt"
    pinned = PINNED / f"{name}.txt"
    if done.exists() and done.read_text() == pinned.read_text():
        return "there already"
    log = directory / f"{name}.log"
    with log.open("w") as output:
        for command in (
            [python, "-m", "venv", "--clear", str(target)],
            [str(target / "bin" / "pip"), "install", "--disable-pip-version-check", "--requirement", str(pinned)],
        ):
            if subprocess.run(command, stdout=output, stderr=subprocess.STDOUT, check=False).returncode:
                return f"did not install: see {log}"
    done.write_text(pinned.read_text())
    return "installed"


def main() -> int:
    """Set up what was asked for."""
    names = sorted(file.stem for file in PINNED.glob("*.txt"))
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(names)}; all of them if left out")
    parser.add_argument("--environments", type=Path, default=CACHE, help=f"where they go ({CACHE})")
    parser.add_argument("--python", default="python3.11", help="interpreter for the peers (python3.11)")
    asked = parser.parse_args()
    unknown = set(asked.names) - set(names)
    if unknown:
        parser.error(f"no environment is named {', '.join(sorted(unknown))}; there are {', '.join(names)}.")
    if shutil.which(asked.python) is None:
        parser.error(f"{asked.python} is not here; name an interpreter for the peers with --python.")
    asked.environments.mkdir(parents=True, exist_ok=True)
    failed = False
    for name in asked.names or names:
        found = set_up(name, asked.environments, asked.python)
        failed |= "not" in found
        print(f"{name}: {found}", flush=True)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
