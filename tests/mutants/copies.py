"""Copies of the package with a fault in them, and tests that are run against such a copy."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import dptally._core
from tests.mutants.fault import Fault

__all__ = ["Outcome", "applied", "copy_package", "inject", "run_tests"]

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "dptally"
_SUPPORT = Path(__file__).parent / "inside_copy"
_LONGEST = 300  # seconds for the tests of one fault; one that makes a loop endless is not caught by an assertion
_BY_ASSERTION = {"AssertionError", "Failed", "PrivacyViolation"}  # Failed: pytest.raises that saw nothing raised


@dataclass(frozen=True)
class Outcome:
    """What the tests said about a copy.

    Attributes:
        passed: whether all of them passed.
        failed: the first test that failed, or nothing.
        reason: the type of what it raised, or why the tests did not run.
        seconds: how long they took, with the start of Python.
    """

    passed: bool
    failed: str
    reason: str
    seconds: float

    @property
    def caught(self) -> bool:
        """Whether a test failed because something it states does not hold: not by a broken import or a lost name."""
        return bool(self.failed) and self.reason in _BY_ASSERTION


def copy_package(place: Path) -> Path:
    """Copy the package's source into a new folder, with the compiled part of the one that is installed."""
    place.mkdir(parents=True)
    shutil.copytree(SOURCE, place / "dptally", ignore=shutil.ignore_patterns("__pycache__", "_core*.so"))
    shutil.copy2(str(dptally._core.__file__), place / "dptally")
    shutil.copytree(ROOT / "studies", place / "studies", ignore=shutil.ignore_patterns("__pycache__"))
    for file in _SUPPORT.glob("*.py"):
        shutil.copy2(file, place)
    return place


def applied(fault: Fault) -> str:
    """The source file with the fault in it.

    Raises:
        LookupError: if the text that the fault replaces does not occur exactly once.
    """
    file = (ROOT if fault.file.startswith("studies/") else SOURCE) / fault.file
    text = file.read_text() if file.is_file() else ""
    if text.count(fault.old) != 1 or fault.old == fault.new:
        raise LookupError(f"{fault.name}: its text occurs {text.count(fault.old)} times in {fault.file}, not once")
    return text.replace(fault.old, fault.new)


def inject(fault: Fault, original: Path, place: Path) -> Path:
    """Copy a copy of the package, compiled files and all, and put the fault into it."""
    shutil.copytree(original, place)
    changed = place / fault.file if fault.file.startswith("studies/") else place / "dptally" / fault.file
    for compiled in (changed.parent / "__pycache__").glob(f"{changed.stem}.*.pyc"):
        compiled.unlink()  # they are trusted by time and size alone
    changed.write_text(applied(fault))
    return place


def run_tests(place: Path, tests: Sequence[str]) -> Outcome:
    """Run tests of this repository against the copy in a folder, up to the first that fails."""
    record = place / "outcome.json"
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    environment["PYTHONPATH"] = os.pathsep.join([str(place), str(ROOT)])  # the copy of studies before ours
    environment["DPTALLY_COPY"] = str(place)
    options = ["-x", "-q", "-m", "not slow", "-W", "ignore"]
    options += ["-p", "record_outcome", "-p", "no:xdist", "-p", "no:cacheprovider"]
    start = time.monotonic()
    try:
        done = subprocess.run([sys.executable, "-P", "-m", "pytest", *options, *tests], cwd=ROOT, env=environment,
                              capture_output=True, text=True, timeout=_LONGEST, check=False)  # fmt: skip
    except subprocess.TimeoutExpired:
        return Outcome(False, "", f"no end within {_LONGEST} s", time.monotonic() - start)
    seconds = time.monotonic() - start
    if not record.exists():
        return Outcome(False, "", f"pytest did not run: {done.stdout[-2000:]}{done.stderr[-2000:]}", seconds)
    found = json.loads(record.read_text())
    if done.returncode == 0 and not found["number"]:
        return Outcome(False, "", "every test was skipped", seconds)
    if done.returncode and not found["failed"]:
        return Outcome(False, "", f"pytest ended with {done.returncode}: {done.stdout[-2000:]}", seconds)
    return Outcome(done.returncode == 0, found["failed"], found["reason"], seconds)
