"""What a run keeps on disk, to be resumed: spending and released counts, nothing that is not public."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

from dptally.errors import InvalidParameter, InvalidSource
from dptally.files import check_target, complete_or_absent, sync_directory
from dptally.privacy.guarantee import Record
from dptally.privacy.stored_facts import DAMAGE, read_fraction, read_json

_FORMAT = 1
Released = tuple[dict[bytes, int], bool]
"""What a round released, none below its threshold, and whether all coins were secret."""


@dataclass(frozen=True)
class Attempt:
    """One attempt at a round. It is paid for from the moment it is asked, finished or not."""

    number: int  # of the round
    name: bytes  # of the attempt
    epsilon: Fraction
    delta: Fraction
    finished: bool = False  # whether its counts were released


@dataclass
class RunState:
    """The public state of a run; on disk, if it has a path, before any method returns."""

    path: Path | None  # the file, mode 0600; None to keep nothing
    task: dict[str, Any]  # its name and parameters
    run: bytes  # name of the run
    attempts: list[Attempt] = field(default_factory=list)
    finished: list[Released] = field(default_factory=list)
    paid: Record | None = None  # where a ledger has what the whole run spends

    @classmethod
    def open(cls, path: Path | None, task: dict[str, Any], *, run: bytes) -> RunState:
        """Resume from a file, or begin."""
        task = json.loads(json.dumps(task))  # as a file gives it back
        if path is None or not path.exists():
            if path is not None:
                check_target(path, overwrite=False)
            return cls(path, task, run)
        try:
            data = read_json(path.read_bytes())
            found = cls(
                path,
                data["task"],
                bytes.fromhex(data["run"]),
                [_attempt(part) for part in data["attempts"]],
                [_finished(part) for part in data["finished"]],
                Record.read(data.get("paid")),
            )
            known = data["format"] == _FORMAT
        except DAMAGE:
            known = False
        if not known:
            raise damaged(path)
        if found.task != task:
            raise InvalidParameter(f"{path} is the state of another task or of other parameters.")
        return found

    def spend(self, attempt: Attempt) -> None:
        """Record an attempt, before anybody is asked."""
        self.attempts.append(attempt)
        self._write()

    def finish(self, number: int, name: bytes, counts: Mapping[bytes, int], *, private: bool) -> None:
        """Record what an attempt released."""
        self.attempts = [
            replace(part, finished=part.finished or (part.number, part.name) == (number, name))
            for part in self.attempts
        ]
        self.finished.append((dict(counts), private))
        self._write()

    def _write(self) -> None:
        if self.path is None:
            return
        data = {
            "format": _FORMAT,
            "run": self.run.hex(),
            "task": self.task,
            "attempts": [
                {**vars(part), "name": part.name.hex(), "epsilon": str(part.epsilon), "delta": str(part.delta)}
                for part in self.attempts
            ],
            "finished": [
                {"counts": {vote.hex(): count for vote, count in counts.items()}, "private": private}
                for counts, private in self.finished
            ],
            "paid": None if self.paid is None else self.paid.facts(),
        }
        with complete_or_absent(self.path, overwrite=True) as file:
            os.fchmod(file.fileno(), 0o600)
            file.write(json.dumps(data, indent=1).encode())
        # The new name must be on disk too before anybody is asked.
        sync_directory(self.path.parent)


def damaged(path: Path | None) -> InvalidSource:
    """What to raise for a file that no run has written."""
    return InvalidSource(f"{path} is not the state of a run, or is damaged.")


def _attempt(data: Mapping[str, Any]) -> Attempt:
    return Attempt(
        int(data["number"]),
        bytes.fromhex(data["name"]),
        read_fraction(data["epsilon"]),
        read_fraction(data["delta"]),
        bool(data["finished"]),
    )


def _finished(data: Mapping[str, Any]) -> Released:
    return {bytes.fromhex(vote): int(count) for vote, count in data["counts"].items()}, bool(data["private"])
