"""What the tests of the command line share: small inputs, a release, and two ways to run a command."""

from __future__ import annotations

import csv
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from dptally.cli import main

PRIVACY = ("--epsilon", "1", "--delta", "1e-6")
MARKER = "a-key-that-only-one-row-has"


@dataclass(frozen=True)
class Outcome:
    """What a command did."""

    status: int
    out: str
    err: str


Run = Callable[..., Outcome]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    """Run a command in this process."""

    def call(*arguments: object) -> Outcome:
        capsys.readouterr()
        status = main([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        return Outcome(status, captured.out, captured.err)

    return call


def start(*arguments: object, **options: Any) -> subprocess.Popen[bytes]:
    """Start a command as a process of its own."""
    return subprocess.Popen([sys.executable, "-m", "dptally", *(str(argument) for argument in arguments)], **options)


@pytest.fixture
def events(tmp_path: Path) -> Path:
    """1,200 rows: "apple" 500 times, "pear" 400, "plum" 299, and a key that only one row has."""
    place = tmp_path / "events.csv"
    keys = ["apple"] * 500 + ["pear"] * 400 + ["plum"] * 299 + [MARKER]
    with place.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(("user", "fruit"))
        writer.writerows(enumerate(keys))
    return place


@pytest.fixture
def release(tmp_path: Path, events: Path, run: Run) -> Path:
    """The release of `events`."""
    place = tmp_path / "release.parquet"
    assert run("publish", events, "--key", "fruit", *PRIVACY, "-o", place, "--quiet").status == 0
    return place


def on_terminal(*arguments: object, columns: int = 100) -> tuple[int, bytes]:
    """Run a command with a pseudo-terminal for output and errors; return its status and what it wrote."""
    reader, writer = os.openpty()
    environment = {**os.environ, "COLUMNS": str(columns), "TERM": "xterm"}
    process = start(*arguments, stdin=subprocess.DEVNULL, stdout=writer, stderr=writer, env=environment)
    os.close(writer)
    written = bytearray()
    while True:
        try:
            piece = os.read(reader, 65536)
        except OSError:  # the last writer is gone
            break
        if not piece:
            break
        written += piece
    os.close(reader)
    return process.wait(timeout=60), bytes(written)
