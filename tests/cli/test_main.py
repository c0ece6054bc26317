from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import dptally
from dptally import publishing
from tests.cli.conftest import MARKER, PRIVACY, Run, start

COMMANDS = ("publish", "show", "top", "sum", "verify", "combine", "plot", "plan", "example")
HEAVY = ("numpy", "polars", "pyarrow", "duckdb", "rich", "vl_convert", "pandas", "cryptography", "dptally.publishing")


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help_with_an_example(run: Run, command: str) -> None:
    """--help describes the command, its --json, and shows an example of it."""
    done = run(command, "--help")
    assert (done.status, done.err) == (0, "")
    assert "--json" in done.out
    assert f"example:\n  dptally {command}" in done.out


def test_help_names_every_command(run: Run) -> None:
    """The general help lists the commands."""
    done = run("--help")
    assert done.status == 0
    for command in COMMANDS:
        assert f"    {command} " in done.out


def test_version(run: Run) -> None:
    """--version prints the package's version."""
    assert run("--version").out == f"dptally {dptally.__version__}\n"


def test_no_command_is_a_bad_request(run: Run) -> None:
    """Without a command there is one sentence and status 2."""
    done = run()
    assert (done.status, done.out) == (2, "")
    assert done.err == "dptally: the following arguments are required: COMMAND; see dptally --help.\n"


def test_a_slip_of_the_pen_is_put_right(run: Run) -> None:
    """A command or a choice that is nearly right brings the right one to mind; others bring all."""
    assert (
        run("publsh").err
        == "dptally: argument COMMAND: invalid choice: 'publsh' (did you mean 'publish'?); see dptally --help.\n"
    )
    assert "(did you mean 'build'?)" in run("sketch", "biuld").err
    assert "(choose from" in run("bread").err


def test_help_is_cheap() -> None:
    """Help loads nothing heavy and takes less than 0.3 s of processor time, the interpreter included."""
    program = (
        "import sys, time; from dptally.cli import main; status = main(['publish', '--help']);"
        f"heavy = [name for name in {HEAVY!r} if name in sys.modules];"
        "print(heavy, time.process_time() < 0.3, status, file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert done.stderr == "[] True 0\n"


def test_unexpected_errors_hide_their_text(events: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """The text of an unexpected exception, which may quote data, is not shown."""

    def fail(*_: object, **__: Any) -> None:
        raise RuntimeError(f"could not convert {MARKER}")

    monkeypatch.delenv("DPTALLY_DEBUG", raising=False)
    monkeypatch.setattr(publishing, "publish", fail)
    done = run("publish", events, "--key", "fruit", *PRIVACY)
    assert (done.status, done.out) == (1, "")
    assert done.err == "dptally: unexpected error: RuntimeError; run with DPTALLY_DEBUG=1 for details.\n"


def test_debugging_shows_the_traceback(events: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """With DPTALLY_DEBUG=1 the one who runs the command sees it all."""

    def fail(*_: object, **__: Any) -> None:
        raise RuntimeError("the reason")

    monkeypatch.setenv("DPTALLY_DEBUG", "1")
    monkeypatch.setattr(publishing, "publish", fail)
    done = run("publish", events, "--key", "fruit", *PRIVACY)
    assert done.status == 1
    assert "RuntimeError: the reason" in done.err


def test_an_interrupt_has_status_130(events: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C ends with status 130 and no traceback."""

    def interrupt(*_: object, **__: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(publishing, "publish", interrupt)
    done = run("publish", events, "--key", "fruit", *PRIVACY)
    assert (done.status, done.err) == (130, "dptally: interrupted.\n")


def test_an_error_during_an_interruption_is_the_interruption(
    events: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What fails because of Ctrl-C is not reported as a failure."""

    def fail(*_: object, **__: Any) -> None:
        try:
            raise KeyboardInterrupt
        finally:
            raise RuntimeError

    monkeypatch.setattr(publishing, "publish", fail)
    done = run("publish", events, "--key", "fruit", *PRIVACY)
    assert (done.status, done.err) == (130, "dptally: interrupted.\n")


def test_an_interruption_that_an_engine_drops(events: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """DuckDB turns Ctrl-C into an error of its own; it is reported as what it was, and the handlers are as before."""

    def drop(*_: object, **__: Any) -> None:
        with contextlib.suppress(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)  # at once: still the same request
        raise RuntimeError("Query interrupted")

    monkeypatch.setattr(publishing, "publish", drop)
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    done = run("publish", events, "--key", "fruit", *PRIVACY)
    assert (done.status, done.err) == (130, "dptally: interrupted.\n")
    assert before == [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]


LOST = """
import signal
from dptally.cli import signals
signals._LOST_AFTER = 0.0
with signals.end_in_order() as heard:
    try:
        signal.raise_signal(signal.SIGINT)
    except KeyboardInterrupt:
        signal.raise_signal(signal.SIGTERM)  # while the first is handled
    assert heard() == signal.SIGINT
    try:
        signal.raise_signal(signal.SIGTERM)
    except signals.Stopped:
        print("stopped")
"""


def test_an_interruption_that_was_lost_can_be_repeated() -> None:
    """Ctrl-C that had no effect works the next time; in a process of its own, since signals may go to any thread."""
    done = subprocess.run([sys.executable, "-c", LOST], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "stopped\n", "")


@pytest.mark.parametrize("command", ["publish", "show", "--help"])
def test_a_reader_that_stops_is_no_error(tmp_path: Path, command: str) -> None:
    """When nobody reads the output any more, the command ends quietly."""
    many, release = tmp_path / "many.parquet", tmp_path / "r.parquet"
    keys = [f"key{number:05}" for number in range(20_000)]
    pl.DataFrame({"key": keys, "times": [100] * len(keys)}).write_parquet(many)
    request = ("publish", many, "--key", "key", "--count", "times", *PRIVACY, "--quiet")
    assert start(*request, "-o", release).wait(timeout=60) == 0
    reader, writer = os.pipe()
    os.close(reader)
    arguments = {"publish": request, "show": ("show", release, "-n", 20_000), "--help": ("--help",)}[command]
    process = start(*arguments, stdout=writer, stderr=subprocess.PIPE)
    os.close(writer)
    _, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (0, b"")


def test_a_full_disk_is_one_sentence(release: Path) -> None:
    """Output that cannot be written is a failure with one sentence."""
    with Path("/dev/full").open("wb") as full:
        process = start("top", release, stdout=full, stderr=subprocess.PIPE)
        _, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (1, b"dptally: No space left on device.\n")


def test_a_terminal_that_knows_only_ascii(tmp_path: Path) -> None:
    """A key that the output's encoding lacks is written out, not an error."""
    source = tmp_path / "source.parquet"
    pl.DataFrame({"key": ["café 😀"] * 100}).write_parquet(source)
    environment = {**os.environ, "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"}
    process = start("publish", source, "--key", "key", *PRIVACY, "-q", stdout=subprocess.PIPE, env=environment)
    out, _ = process.communicate(timeout=60)
    assert process.returncode == 0
    assert rb"caf\xe9 \U0001f600," in out
