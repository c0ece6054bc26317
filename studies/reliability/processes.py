"""Processes to be unkind to: from scratch, or forked from one that has imported everything but done nothing.

A kill must hit a real process that does real work. Starting Python takes longer than publishing a small table, so most
kills would hit imports; a process forked after them does all of the work and none of the imports.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

__all__ = ["Job", "Victim", "WarmStart", "fresh", "start_cold", "until"]

_PATIENCE = 120.0  # seconds until a process that does not end counts as hanging


@dataclass(frozen=True)
class Job:
    """What a process is to do.

    Attributes:
        arguments: of the command ``dptally``, or of the function.
        function: "module:name" to call instead of the command.
        temporary: its temporary directory.
        clock: what its clock says to the ledger, in ISO format; None for the machine's.
        largest_file: bytes that a file it writes may have; None for no limit.
        ordinary: whether to obey permissions also as root.
    """

    arguments: list[str]
    function: str | None = None
    temporary: str | None = None
    clock: str | None = None
    largest_file: int | None = None
    ordinary: bool = False


class Victim:
    """A running process."""

    def __init__(self, number: int, reap: Callable[[], tuple[int, str]]) -> None:
        self._number = number
        self._reap = reap
        self._handle = os.pidfd_open(number)  # whoever gets the number next is not killed by mistake

    def ended(self, seconds: float) -> bool:
        """Wait this long at most; whether it has ended."""
        return bool(select.select([self._handle], [], [], max(0.0, seconds))[0])

    def kill(self) -> tuple[bool, int, str]:
        """End it at once, by SIGKILL.

        Returns:
            Whether it was running until now; its exit status, negative for a signal; what it said on standard error.
        """
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._handle, signal.SIGKILL)
        status, said = self.wait()
        return status == -signal.SIGKILL, status, said

    def stop_when(self, condition: Callable[[], bool], moments: random.Random, *, tries: int) -> bool:
        """Stop it at random moments, and let it go on, until something is so while it stands still.

        That finds moments that last microseconds, where watching a running process comes too late.
        """
        for _ in range(tries):
            if self.ended(moments.uniform(0.0, 0.004)):
                return False
            signal.pidfd_send_signal(self._handle, signal.SIGSTOP)
            self.ended(0.0005)  # it stands still when the signal has arrived
            if condition():
                return True
            signal.pidfd_send_signal(self._handle, signal.SIGCONT)
        return False

    def wait(self) -> tuple[int, str]:
        """Wait for its end: exit status, and what it said."""
        if not self.ended(_PATIENCE):
            signal.pidfd_send_signal(self._handle, signal.SIGKILL)
        os.close(self._handle)
        return self._reap()


class WarmStart:
    """A process that forks others; see the module."""

    def __init__(self) -> None:
        command = [sys.executable, "-m", "studies.reliability.warm"]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def _ask(self, **question: Any) -> dict[str, Any]:
        to, back = self._process.stdin, self._process.stdout
        if to is None or back is None:
            raise RuntimeError("the process that forks others has no pipes.")
        to.write(json.dumps(question) + "\n")
        to.flush()
        answer: dict[str, Any] = json.loads(back.readline())
        return answer

    def start(self, job: Job) -> Victim:
        """Start a job in a process of its own."""
        number = int(self._ask(start=asdict(job))["process"])

        def reap() -> tuple[int, str]:
            answer = self._ask(reap=number)
            return int(answer["status"]), str(answer["said"])

        return Victim(number, reap)

    def run(self, job: Job) -> tuple[int, str]:
        """Start a job and wait for its end."""
        return self.start(job).wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._process.communicate(timeout=_PATIENCE)


def start_cold(job: Job) -> Victim:
    """Start the command from scratch, as a user does."""
    environment = {**os.environ, **({} if job.temporary is None else {"TMPDIR": job.temporary})}
    process = subprocess.Popen(
        [sys.executable, "-m", "dptally", *job.arguments],
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )

    def reap() -> tuple[int, str]:
        said = process.communicate(timeout=_PATIENCE)[1]
        return process.returncode, said

    return Victim(process.pid, reap)


def until(condition: Callable[[], bool], victim: Victim, *, seconds: float = 60.0) -> bool:
    """Look again and again until something is so; False if the process ended before, or time is up."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if condition():
            return True
        if victim.ended(0.0002):
            return condition()
    return False


def fresh(directory: Path, name: str) -> Path:
    """A new directory."""
    made = directory / name
    made.mkdir(parents=True)
    return made
