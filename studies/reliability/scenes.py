"""A small data set with a rare key, a ledger, and a command that publishes the one with the other."""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path

from dptally.ledger import Ledger
from studies.reliability.outside import (
    Books,
    hidden_files,
    left_in,
    read_books,
    read_release,
    written_files,
)
from studies.reliability.processes import Job, fresh

__all__ = ["DELTA", "EPSILON", "Scene", "make_scene"]

EPSILON, DELTA = Fraction(1), Fraction(1, 10**7)
_COMMON, _ROWS = 5, 400


@dataclass
class Scene:
    """Where a process publishes.

    Attributes:
        data: a CSV file with five common keys and one rare one.
        rare: that key: below every threshold, so it must never be seen outside.
        ledger: its path; the budget is for so many releases.
        output: the directory of releases.
        temporary: the temporary directory of processes.
        scratch: where ledgers are copied to, to be read.
    """

    data: Path
    rare: str
    ledger: Path
    output: Path
    temporary: Path
    scratch: Path
    releases: int
    target: Path = field(init=False)

    def __post_init__(self) -> None:
        self.target = self.output / "release.parquet"

    def job(self, *, overwrite: bool = True, target: Path | None = None, **more: str | int | None) -> Job:
        """The command that publishes."""
        arguments = [
            *("publish", str(self.data), "--key", "key", "--unit", "unit", "--quiet"),
            *("--mechanism", "stability", "--epsilon", str(EPSILON), "--delta", str(DELTA), "--no-progress"),
            *("--ledger", str(self.ledger), "-o", str(target or self.target), *(["--overwrite"] if overwrite else [])),
        ]
        return Job(arguments, temporary=str(self.temporary), **more)  # type: ignore[arg-type]

    def books(self) -> Books:
        """The ledger, read from outside."""
        return read_books(self.ledger, self.scratch)

    def opens(self) -> list[str]:
        """Whether the library opens and verifies the ledger as it was left (a copy of it)."""
        try:
            copy = Ledger(self.scratch / "copy.db")
            copy.verify()
            copy.disconnect()
        except Exception as error:
            return [f"the ledger does not open: {error}"]
        return []

    def after_a_kill(self) -> tuple[Books, list[str]]:
        """Everything that must hold at every moment."""
        books = self.books()
        found = [*books.violations, *self.opens()]
        for path in written_files(self.output):
            # A hidden one is on its way to replace another, and whole too: loaded by mistake, it is a release.
            found += read_release(path, books, self.rare)[0]
        return books, found

    def after_a_start(self, status: int, said: str, target: Path | None = None) -> list[str]:
        """What must hold in addition when a process has started and ended by itself.

        What a killed process has left of a file is removed by the next one that writes a file of that name.

        Args:
            status: it ended with.
            said: what it said.
            target: the file it wrote, if that is not the usual one.
        """
        name = (target or self.target).name
        hidden = [path for path in hidden_files(self.output) if path.name.startswith(f".{name}.")]
        found = [f"{len(hidden)} hidden files were left"] if hidden else []
        found += left_in(self.temporary, self.rare)
        if "Traceback" in said or "unexpected error" in said:
            found.append(f"it ended with status {status} and without a plain sentence")
        if self.rare in said:
            found.append("the rare key was printed")
        return found


def make_scene(directory: Path, name: str, *, releases: int = 20) -> Scene:
    """A scene with a new ledger for so many releases."""
    place = fresh(directory, name)
    rare = f"rare-{secrets.token_hex(8)}"
    data = place / "data.csv"
    rows = [f"common-{number % _COMMON},{number}\n" for number in range(_COMMON * _ROWS)]
    data.write_text("key,unit\n" + "".join([*rows, f"{rare},{len(rows)}\n"]))
    ledger = place / "budget.db"
    Ledger(ledger, epsilon=EPSILON * releases, delta=DELTA * releases).disconnect()
    output, temporary, scratch = (fresh(place, part) for part in ("output", "temporary", "scratch"))
    return Scene(data, rare, ledger, output, temporary, scratch, releases)
