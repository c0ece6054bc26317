"""Signals at chosen moments: no import is broken off, and what is written stays written and counts as success.

Each command is a process of its own that sends itself the signal when it comes to a given step, told by Python's audit
events, so that no test depends on time.
"""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

import dptally
from tests.cli.conftest import PRIVACY

# Sends itself a signal at the first event of a kind that has an argument ending as told, then prints whether the
# module of that name, if it is one, was imported to its end.
CHILD = """
import atexit, os, runpy, signal, sys

event, name, number = sys.argv[1], sys.argv[2], int(sys.argv[3])
sys.argv = ["dptally", *sys.argv[4:]]
sent = []

def watch(found, arguments):
    if found == event and not sent and any(str(argument).endswith(name) for argument in arguments[:2]):
        sent.append(name)
        os.kill(os.getpid(), number)

def tell():
    if event == "atexit":
        os.kill(os.getpid(), number)
    os.write(2, b"whole\\n" if name in sys.modules else b"")

atexit.register(tell)
sys.addaudithook(watch)
runpy.run_module("dptally", run_name="__main__", alter_sys=True)
"""


def publish(
    events: Path, ledger: Path, event: str, name: str, number: int, *more: str
) -> subprocess.CompletedProcess[str]:
    """Publish into r.parquet, with a signal on the way."""
    request = ("publish", str(events), "--key", "fruit", *PRIVACY, "--ledger", str(ledger), "-o", "r.parquet", *more)
    return subprocess.run(
        [sys.executable, "-c", CHILD, event, name, str(number), *request],
        cwd=events.parent, capture_output=True, text=True, timeout=120,
    )  # fmt: skip


@pytest.fixture
def ledger(tmp_path: Path) -> Path:
    """A ledger with a budget for two releases."""
    dptally.Ledger(tmp_path / "budget.db", epsilon=2, delta="2e-6")
    return tmp_path / "budget.db"


def entries(ledger: Path) -> int:
    """How many entries a ledger has."""
    return len(list(dptally.Ledger(ledger).history()))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize(
    ("event", "name", "more"),
    [
        ("os.link", "r.parquet", []),
        ("os.rename", "r.parquet", ["--overwrite"]),
        ("import", "rich.console", []),
        ("atexit", "", []),
    ],
    ids=["name", "replace", "summary", "end"],
)
def test_a_signal_once_the_file_is_there(
    events: Path, ledger: Path, event: str, name: str, more: list[str], number: int
) -> None:
    """From the moment in which the file gets its name, a signal changes neither the file nor the exit status."""
    if more:
        (events.parent / "r.parquet").write_bytes(b"old")
    done = publish(events, ledger, event, name, number, *more)
    assert (done.returncode, "interrupted" in done.stderr) == (0, False), done.stderr
    assert len(dptally.load(events.parent / "r.parquet").table()) == 3
    assert entries(ledger) == 1


@pytest.mark.parametrize("name", ["numpy._core", "pyarrow.lib", "_duckdb", "dptally.request"])
def test_a_signal_during_an_import(events: Path, ledger: Path, name: str) -> None:
    """An import goes on to its end, and then the command ends as it does when interrupted; nothing is written."""
    done = publish(events, ledger, "import", name, signal.SIGINT)
    assert done.returncode == 128 + signal.SIGINT, done.stderr
    # Once the source is open, the budget stays spent, and the sentence says so.
    assert done.stderr.startswith("dptally: interrupted.") and done.stderr.endswith("\nwhole\n")
    assert not (events.parent / "r.parquet").exists()


def test_a_signal_while_python_starts(events: Path, ledger: Path) -> None:
    """Before the command line is there, Ctrl-C ends the process at once, without a word."""
    done = publish(events, ledger, "import", "dptally.cli.parser", signal.SIGINT)
    assert (done.returncode, done.stdout, done.stderr) == (-signal.SIGINT, "", "")


def test_a_signal_that_is_ignored_stays_ignored(events: Path, ledger: Path) -> None:
    """Under nohup and the like a command goes on to its end."""
    blocked = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        done = publish(events, ledger, "import", "dptally.cli.parser", signal.SIGINT)
    finally:
        signal.signal(signal.SIGINT, blocked)
    assert done.returncode == 0, done.stderr


# Streams that are closed.


def closed(streams: str, *arguments: object) -> subprocess.CompletedProcess[bytes]:
    """Run a command with some of its standard streams closed."""
    command = [sys.executable, "-m", "dptally", *map(str, arguments)]
    return subprocess.run(["/bin/sh", "-c", f'exec "$@" {streams}', "sh", *command], capture_output=True, timeout=120)


@pytest.mark.parametrize(
    ("streams", "form"), [(">&-", "--json"), (">&-", "--no-progress"), ("2>&-", "--json"), ("<&- >&- 2>&-", "--json")]
)
def test_closed_streams_and_a_file(events: Path, ledger: Path, streams: str, form: str) -> None:
    """With standard output or errors closed, the file is written and nothing is complained about."""
    output = events.parent / "r.parquet"
    request = ("publish", events, "--key", "fruit", *PRIVACY, "--ledger", ledger, "-o", output, form)
    done = closed(streams, *request)
    assert (done.returncode, done.stderr) == (0, b"")
    assert len(dptally.load(output).table()) == 3
    assert entries(ledger) == 1


def test_closed_output_and_no_file(events: Path, ledger: Path) -> None:
    """A release that could go nowhere is refused before anything is spent."""
    done = closed(">&-", "publish", events, "--key", "fruit", *PRIVACY, "--ledger", ledger)
    assert done.returncode == 2
    assert done.stderr == b"dptally: standard output is closed; give the file to write with -o.\n"
    assert entries(ledger) == 0


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full here")
def test_an_output_that_fails_after_the_file_was_written(events: Path, ledger: Path) -> None:
    """Where the summary cannot be printed, the sentence says that the file is there, so that nobody pays twice."""
    output = events.parent / "r.parquet"
    request = ("publish", events, "--key", "fruit", *PRIVACY, "--ledger", ledger, "-o", output)
    done = closed(">/dev/full", *request)
    assert done.returncode == 1
    sentence = "what was asked for is written, but something failed after that: No space left on device."
    assert done.stderr.decode() == f"dptally: {sentence}\n"
    assert len(dptally.load(output).table()) == 3
