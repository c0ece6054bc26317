"""Ledgers that somebody made to be looked at: refused before anything in them is asked, in bounded time and memory."""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import closing
from fractions import Fraction
from pathlib import Path

import pytest

import dptally
from dptally import Ledger
from dptally.errors import UnreadableLedger
from dptally.ledger import schema
from dptally.privacy.spending import Spending

MEMORY = 3 << 30  # of addresses: the interpreter and its libraries reserve more than they use
ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n) SELECT"


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A ledger with a few rows; nobody has it open."""
    ledger = Ledger(tmp_path / "budget.db", epsilon=1, delta="1e-6")
    for _ in range(3):
        ledger.reserve(Spending("stability", Fraction(1, 4), Fraction(1, 10**7))).published()
    ledger.disconnect()
    return ledger.path


def _sql(*statements: str) -> Callable[[Path], None]:
    def craft(place: Path) -> None:
        with closing(sqlite3.connect(place, isolation_level=None)) as connection:
            for statement in statements:
                connection.execute(statement)

    return craft


COLUMNS = (
    "sequence, time, latest, state, entry, who, source, unit, partitioning, part, spending, release_id, note, hash"
)
TEN = ", ".join(["''"] * 9)
CRAFTED = {
    "an endless view": _sql(
        "DROP TABLE history",
        f"CREATE VIEW history({COLUMNS}) AS {ENDLESS} i, '', '', 'reserved', i, {TEN} FROM n",
    ),
    "an endless sort": _sql(
        "DROP TABLE history",
        f"CREATE VIEW history({COLUMNS}) AS {ENDLESS} -i, '', '', 'reserved', i, {TEN} FROM n ORDER BY hex(i)",
    ),
    "a view of gigabytes": _sql(
        "DROP TABLE history",
        f"CREATE VIEW history({COLUMNS}) AS {ENDLESS} i, hex(zeroblob(400000000)), '', 'reserved', i, {TEN} FROM n "
        "LIMIT 20",
    ),
    "an endless head": _sql(
        "DROP TABLE head", f"CREATE VIEW head(one, sequence, hash) AS {ENDLESS} 1, i, '' FROM n WHERE i < 0"
    ),
    "one more table": _sql("CREATE TABLE more (x)"),
    "one more index": _sql("CREATE INDEX more ON history (hash)"),
    "one more trigger": _sql("CREATE TRIGGER more AFTER INSERT ON history BEGIN DELETE FROM head; END"),
    "a trigger less": _sql("DROP TRIGGER never_removed"),
    "a generated column": _sql("ALTER TABLE history ADD COLUMN more TEXT GENERATED ALWAYS AS (hex(hash)) VIRTUAL"),
    "another trigger of the same name": _sql(
        "DROP TRIGGER never_removed",
        "CREATE TRIGGER never_removed BEFORE DELETE ON history BEGIN SELECT RAISE(ABORT, 'append-only'); END",
    ),
}


def command(*arguments: object, memory: int = MEMORY) -> subprocess.CompletedProcess[str]:
    """A command in a process that may take no more memory, and not for ever."""

    def limits() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
        resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 30, 1 << 30))

    return subprocess.run(
        [sys.executable, "-m", "dptally", *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        preexec_fn=limits,
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1", "POLARS_MAX_THREADS": "1"},
    )


@pytest.mark.parametrize("kind", CRAFTED)
def test_a_database_with_anything_else_in_it_is_refused(place: Path, kind: str) -> None:
    """Before any row is asked for, in every way to open it, also for spending."""
    CRAFTED[kind](place)
    for read_only in (True, False):
        with pytest.raises(UnreadableLedger, match="its tables are not those of one"):
            Ledger(place, read_only=read_only)


@pytest.mark.parametrize("kind", ["an endless view", "a view of gigabytes"])
def test_the_commands_end_soon_and_stay_small(place: Path, tmp_path: Path, kind: str) -> None:
    """``ledger show`` and ``verify --ledger`` of such a file end with a sentence."""
    release = tmp_path / "r.parquet"
    dptally.publish({"a": 500}, epsilon="1/8", delta="1e-7", ledger=place).save(release)
    CRAFTED[kind](place)
    for words in (("ledger", "show", place), ("verify", release, "--ledger", place)):
        done = command(*words)
        assert (done.returncode, done.stdout) == (1, "" if words[0] == "ledger" else done.stdout)
        assert done.stderr == f"dptally: {place} is not a readable ledger: its tables are not those of one.\n"


def test_values_of_megabytes_are_refused(place: Path) -> None:
    """A text that no ledger writes is not read into memory."""
    with closing(sqlite3.connect(place, isolation_level=None)) as connection:
        row = connection.execute("SELECT * FROM history WHERE sequence = 9").fetchone()
        connection.execute(
            f"INSERT INTO history VALUES ({', '.join('?' * 14)})",  # noqa: S608
            (10, *row[1:12], "x" * 10**7, row[13]),
        )
    with pytest.raises(UnreadableLedger, match="it holds more than a ledger can"):
        Ledger(place)


def test_rows_are_checked_as_they_come(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A table that goes on for ever, as a damaged tree of pages can, ends at the first row that does not follow."""
    from dptally.ledger.storage import Storage

    real, asked = Storage.rows, []

    def endless(self: Storage, start: int) -> object:
        found = list(real(self, start))
        while True:
            asked.append(1)
            yield from found

    monkeypatch.setattr(Storage, "rows", endless)
    with pytest.raises(UnreadableLedger, match="does not follow"):
        Ledger(place)
    assert len(asked) == 2


def test_a_history_has_a_most_number_of_rows(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond it nothing is read, and before it nothing more is spent."""
    monkeypatch.setattr("dptally.ledger.ledger.MOST_ROWS", 12)
    ledger = Ledger(place)
    with pytest.raises(dptally.DptallyError, match="is full"):
        ledger.reserve(Spending("stability", Fraction(1, 8), Fraction(0)))
    monkeypatch.setattr("dptally.ledger.accounts.MOST_ROWS", 5)
    with pytest.raises(UnreadableLedger, match="more rows than a ledger can have"):
        Ledger(place)


def test_a_large_file_is_not_opened(place: Path) -> None:
    """A file of the size of a disk, made of nothing, is no ledger."""
    os.truncate(place, schema.LARGEST_FILE + 4096)
    with pytest.raises(UnreadableLedger, match="is larger than a ledger can be"):
        Ledger(place, read_only=True)


def test_steps_of_sqlite_are_counted(place: Path) -> None:
    """A definition table that goes on for ever ends too: by the number of steps."""
    with closing(sqlite3.connect(place, isolation_level=None)) as connection:
        schema.harden(connection)
        connection.set_progress_handler(schema._Steps(2), 1000)
        with pytest.raises(sqlite3.OperationalError, match="interrupted"):
            connection.execute(f"{ENDLESS} max(i) FROM n").fetchall()


def test_a_journal_that_names_another_file_is_refused(place: Path, tmp_path: Path) -> None:
    """Rolling it back would delete the file it names."""
    victim = tmp_path / "precious.txt"
    victim.write_text("precious")
    magic = bytes.fromhex("d9d505f920a163d7")
    name = str(victim).encode()
    checksum = sum(name).to_bytes(4, "big")
    header = magic + (0).to_bytes(4, "big") + bytes(4) + (3).to_bytes(4, "big") + (512).to_bytes(4, "big")
    header += (4096).to_bytes(4, "big")
    journal = place.with_name("budget.db-journal")
    journal.write_bytes(
        header.ljust(512, b"\0") + (1).to_bytes(4, "big") + name + len(name).to_bytes(4, "big") + checksum + magic
    )
    for read_only in (True, False):
        with pytest.raises(UnreadableLedger, match="is not the journal of"):
            Ledger(place, read_only=read_only)
    assert victim.read_text() == "precious"
    journal.unlink()
    os.mkfifo(journal)
    with pytest.raises(UnreadableLedger, match="is not the journal of"):
        Ledger(place)


def test_looking_changes_nothing(place: Path) -> None:
    """Commands that show something open the file for reading: not a byte of it changes, and it cannot be spent from."""
    place.chmod(0o400)
    before = {file.name: file.read_bytes() for file in place.parent.iterdir()}
    ledger = Ledger(place, read_only=True)
    assert len(ledger.history()) == 3 and ledger.verify()
    for write in (lambda: ledger.void(1, reason="x"), ledger.end_spending):
        with pytest.raises(dptally.DptallyError, match="was opened for reading only"):
            write()
    with pytest.raises(sqlite3.OperationalError, match="readonly"):
        ledger._storage._connect().execute("DELETE FROM head")
    assert {file.name: file.read_bytes() for file in place.parent.iterdir()} == before


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="what a process has open is looked up in /proc")
def test_sigterm_is_heard_while_a_ledger_is_read(place: Path) -> None:
    """A process that waits for a ledger that another one holds ends when it is asked to, long before its patience."""
    with closing(sqlite3.connect(place, isolation_level=None)) as connection:
        connection.execute("BEGIN EXCLUSIVE")
        process = subprocess.Popen([sys.executable, "-m", "dptally", "ledger", "show", str(place)])
        while not _has_open(process, place):
            assert process.poll() is None
            time.sleep(0.01)
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=30) == 143


def _has_open(process: subprocess.Popen[bytes], place: Path) -> bool:
    with contextlib.suppress(OSError):  # it may be opening or closing files
        return any(file.resolve() == place for file in Path(f"/proc/{process.pid}/fd").iterdir())
    return False
