"""One ledger, one name, one note: what was moved, copied, linked or mounted without the rest is refused."""

from __future__ import annotations

import errno
import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

import dptally
from dptally import Ledger
from dptally.cli import main
from dptally.errors import DptallyError, InvalidParameter, UnreadableLedger
from dptally.ledger.note import Turn
from dptally.privacy.spending import Spending

WHOLE = Spending("dense", Fraction(1), Fraction(0))
QUARTER = Spending("dense", Fraction(1, 4), Fraction(0))
PUBLISH_ALL = """
import sys, dptally
try:
    dptally.publish({"a": 500}, epsilon=1, mechanism="dense", universe=["a"], ledger=sys.argv[1])
    print("published")
except dptally.DptallyError as error:
    print("refused:", error)
"""


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A ledger with one published entry; nobody has it open."""
    directory = tmp_path / "home"
    directory.mkdir()
    ledger = Ledger(directory / "budget.db", epsilon=1, delta=0)
    ledger.reserve(QUARTER).published()
    ledger.disconnect()
    return ledger.path


def note_of(place: Path) -> Path:
    """The note beside a ledger."""
    return place.with_name(place.name + "-head")


def refused(place: Path, words: str) -> None:
    """Opening for whatever purpose is refused: spending, looking, and verifying."""
    for read_only in (False, True):
        with pytest.raises((UnreadableLedger, DptallyError), match=words):
            Ledger(place, read_only=read_only)
    assert main(["ledger", "verify", str(place)]) in (1, 2)


# ---- two names ----


def test_two_hard_links_are_refused(place: Path, tmp_path: Path) -> None:
    """Also for processes that hold it open already; with one name less all is well again."""
    held = Ledger(place)
    other = tmp_path / "other.db"
    os.link(place, other)
    shutil.copy(note_of(place), note_of(other))
    for name in (place, other):
        refused(name, r"has 2 names \(hard links\)")
    with pytest.raises(UnreadableLedger, match=r"has 2 names \(hard links\)"):
        held.reserve(QUARTER)
    other.unlink()
    held.reserve(QUARTER)
    assert len(Ledger(place).history()) == 2


def test_processes_under_two_names_publish_nothing(tmp_path: Path) -> None:
    """Two live processes, each with a name of its own for one ledger, do not each publish all of the budget."""
    place, other = tmp_path / "a.db", tmp_path / "b.db"
    Ledger(place, epsilon=1, delta=0).disconnect()
    os.link(place, other)
    running = [
        subprocess.Popen([sys.executable, "-c", PUBLISH_ALL, str(name)], stdout=subprocess.PIPE, text=True)
        for name in (place, other)
    ]
    said = [process.communicate(timeout=120)[0] for process in running]
    assert all(words.startswith("refused:") for words in said), said


def test_a_symbolic_link_is_the_same_ledger(place: Path, tmp_path: Path) -> None:
    """The note is beside the file that it leads to."""
    link = tmp_path / "link.db"
    link.symlink_to(place)
    Ledger(link).reserve(QUARTER)
    assert len(Ledger(place).history()) == 2 and sorted(file.name for file in tmp_path.iterdir()) == ["home", "link.db"]


def _mounted(place: Path, other: Path, *lines: str) -> str:
    """What a program says in a namespace where the file of a ledger alone is mounted under another name."""
    unshare = shutil.which("unshare")
    if unshare is None:
        pytest.skip("there is no unshare(1) here")
    program = f"mount --bind '{place}' '{other}' || exit 77\n" + "\n".join(lines)
    private = [unshare, "--mount", *([] if os.getuid() == 0 else ["--map-root-user"])]
    done = subprocess.run([*private, "sh", "-c", program], capture_output=True, text=True, timeout=120, check=False)
    if done.returncode == 77 or "unshare" in done.stderr:
        pytest.skip("nothing can be mounted here, not even in a namespace of its own")
    return done.stdout


def test_a_file_mounted_alone_is_refused(place: Path, tmp_path: Path) -> None:
    """A container that sees the file without its note spends nothing; with an old copy of the note neither."""
    other = tmp_path / "inside.db"
    other.touch()
    spend = f"'{sys.executable}' -c '{PUBLISH_ALL.replace('epsilon=1,', 'epsilon=0.25,')}' '{other}'"
    assert "has no readable note (inside.db-head) beside it" in _mounted(place, other, spend)
    shutil.copy(note_of(place), note_of(other))
    Ledger(place).reserve(QUARTER)
    assert "has rows that inside.db-head knows nothing of" in _mounted(place, other, spend)
    assert len(Ledger(place).history()) == 2
    # Both files mounted are the ledger: it is spent from under both names, and never twice.
    program = f"touch '{note_of(other)}'; mount --bind '{note_of(place)}' '{note_of(other)}' && {spend}"
    assert "published" in _mounted(place, other, program)
    assert len(Ledger(place).history()) == 3


# ---- parts that are missing ----


def _missing(note: Path) -> None:
    note.unlink()


def _empty(note: Path) -> None:
    note.write_bytes(b"")


def _garbled(note: Path) -> None:
    note.write_bytes(os.urandom(4608))


def _half(note: Path) -> None:
    note.write_bytes(note.read_bytes()[:100])


NO_NOTE = [_missing, _empty, _garbled, _half]


@pytest.mark.parametrize("damage", NO_NOTE)
def test_a_note_that_was_written_must_be_there(place: Path, damage: Callable[[Path], None], tmp_path: Path) -> None:
    """Missing, empty or garbled: refused by spending, by looking, and by the verification of a release."""
    release = tmp_path / "r.parquet"
    dptally.publish({"a": 5}, epsilon="1/4", mechanism="dense", universe=["a"], ledger=place).save(release)
    held = Ledger(place)
    damage(note_of(place))
    refused(place, r"has no readable note \(budget.db-head\) beside it")
    with pytest.raises(UnreadableLedger, match="has no readable note"):
        held.reserve(QUARTER)
    assert main(["verify", str(release), "--ledger", str(place)]) == 1
    assert note_of(place).exists() == (damage is not _missing)  # nothing is mended in silence


def test_a_note_cannot_be_a_link(place: Path, tmp_path: Path) -> None:
    """What a symbolic or hard link leads to is neither believed nor written to."""
    precious = tmp_path / "precious.txt"
    precious.write_text("precious" * 100)
    for link in (lambda: note_of(place).symlink_to(precious), lambda: os.link(precious, note_of(place))):
        note_of(place).unlink(missing_ok=True)
        link()
        refused(place, "is a symbolic link|must be a regular file with one name")
        with pytest.raises(UnreadableLedger):
            Ledger.restore_note(place, reason="try")
        assert precious.read_text() == "precious" * 100
    note_of(place).unlink()
    note_of(place).symlink_to(tmp_path / "nowhere")
    refused(place, "is a symbolic link")
    assert not (tmp_path / "nowhere").exists()


def test_a_new_ledger_writes_through_no_link(tmp_path: Path) -> None:
    """Making a ledger does not follow a link where its note goes."""
    precious = tmp_path / "precious.txt"
    precious.write_text("precious")
    (tmp_path / "new.db-head").symlink_to(precious)
    with pytest.raises(UnreadableLedger, match="is a symbolic link"):
        Ledger(tmp_path / "new.db", epsilon=1, delta=0)
    assert precious.read_text() == "precious" and not (tmp_path / "new.db").exists()


def test_a_note_that_cannot_be_written_stops_spending(place: Path) -> None:
    """A directory in its place: one sentence, and nothing is spent."""
    note = note_of(place)
    kept = note.read_bytes()
    note.unlink()
    note.mkdir()
    refused(place, r"budget\.db-head (cannot be opened: Is a directory|must be a regular file)")
    note.rmdir()
    note.write_bytes(kept)
    assert len(Ledger(place).history()) == 1


def test_a_note_without_its_ledger_is_no_new_budget(place: Path) -> None:
    """Who removes a ledger and makes one of the same name is told that there was one."""
    place.unlink()
    with pytest.raises(InvalidParameter, match="is there without its ledger"):
        Ledger(place, epsilon=1, delta=0)
    assert not place.exists()
    note_of(place).unlink()
    assert Ledger(place, epsilon=1, delta=0).history() == []


def test_an_older_copy_is_refused_and_a_newer_one_too(place: Path, tmp_path: Path) -> None:
    """The database without its last rows, and the database with rows that the note has never seen."""
    for name in (place, note_of(place)):
        shutil.copy(name, tmp_path / name.name)
    ledger = Ledger(place)
    ledger.reserve(QUARTER)
    ledger.disconnect()
    shutil.copy(note_of(place), tmp_path / "newer-note")
    shutil.copy(tmp_path / note_of(place).name, note_of(place))
    refused(place, "has rows that budget.db-head knows nothing of; the ledger was used under another name")
    shutil.copy(tmp_path / "newer-note", note_of(place))
    shutil.copy(tmp_path / place.name, place)
    refused(
        place, "ends before, or differs from, what budget.db-head has noted; rows were lost, or it is an older copy"
    )


# ---- the owner's word ----


@pytest.mark.parametrize("damage", NO_NOTE)
def test_an_owner_can_accept_a_ledger_and_has_to_say_why(
    place: Path, damage: Callable[[Path], None], capsys: pytest.CaptureFixture[str]
) -> None:
    """It works again, and the reason is in the history and in what is shown."""
    with pytest.raises(InvalidParameter, match="there is nothing to restore"):
        Ledger.restore_note(place, reason="to be sure")
    damage(note_of(place))
    with pytest.raises(InvalidParameter, match="reason must say why"):
        Ledger.restore_note(place, reason=" ")
    assert main(["ledger", "restore-note", str(place), "--reason", "a new disk", "--who", "ada"]) == 0
    assert "Its note was restored on 2" in capsys.readouterr().out
    ledger = Ledger(place)
    ledger.reserve(QUARTER)
    assert [(one.reason, one.who) for one in ledger.restored] == [("a new disk", "ada")]
    assert len(ledger.history()) == 2
    assert main(["ledger", "show", str(place), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["notes_restored"][0]["reason"] == "a new disk"


def test_what_an_owner_accepts_is_kept(place: Path, tmp_path: Path) -> None:
    """Where rows were lost the history says what the note had said."""
    shutil.copy(place, tmp_path / "yesterday.db")
    ledger = Ledger(place)
    ledger.reserve(QUARTER)
    lost = ledger.head
    ledger.disconnect()
    shutil.copy(tmp_path / "yesterday.db", place)
    Ledger.restore_note(place, reason="the disk failed")
    row = list(Ledger(place)._storage.rows(0))[-1][0]
    assert row.facts() == {"noted": {"sequence": lost[0], "hash": lost[1]}}
    with pytest.raises(InvalidParameter, match="does not exist"):
        Ledger.restore_note(tmp_path / "none.db", reason="x")


def test_one_name_at_a_time(place: Path, tmp_path: Path) -> None:
    """A copy whose note was restored is a ledger of its own: the first one goes on as if there were none."""
    other = tmp_path / "copy.db"
    shutil.copy(place, other)
    refused(other, "has no readable note")
    Ledger.restore_note(other, reason="for a look").reserve(QUARTER)
    assert len(Ledger(other).history()) == 2 and len(Ledger(place).history()) == 1


# ---- crashes ----


KILLED = {
    "before the note": (1, False),
    "after the note, before the commit": (1, True),
    "after the commit, before the note": (2, False),
    "after both": (2, True),
}


@pytest.mark.parametrize("moment", KILLED)
@pytest.mark.parametrize("state", ["reserved", "drawn"])
def test_a_process_killed_around_the_note_leaves_a_ledger_that_opens(
    place: Path, moment: str, state: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever was committed stays, whatever was not is not there, and the next process goes on."""
    ledger = Ledger(place)
    reservation = ledger.reserve(QUARTER) if state == "drawn" else None
    number, after = KILLED[moment]
    child = os.fork()
    if child == 0:
        real, calls = Turn.write, []

        def write(self: Turn, *arguments: object, **options: Any) -> None:
            calls.append(1)
            if len(calls) == number and not after:
                os.kill(os.getpid(), signal.SIGKILL)
            real(self, *arguments, **options)  # type: ignore[arg-type]
            if len(calls) == number:
                os.kill(os.getpid(), signal.SIGKILL)

        monkeypatch.setattr(Turn, "write", write)
        try:
            ledger.reserve(QUARTER) if reservation is None else reservation.drawn()
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
    committed = number == 2
    before = ["published"] if state == "reserved" else ["published", "reserved"]
    done = ["published", "reserved"] if state == "reserved" else ["published", "drawn"]
    for read_only in (True, False):
        again = Ledger(place, read_only=read_only)
        assert [entry.state for entry in again.history()] == (done if committed else before)
    again.reserve(QUARTER).published()
    assert again.verify() and len(Ledger(place).history()) == len(before) + (state == "reserved" and committed) + 1


WRITE_HALF = """
import os, signal, sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("PRAGMA cache_size = 1")
connection.execute("BEGIN IMMEDIATE")
row = connection.execute("SELECT * FROM history WHERE sequence = 1").fetchone()
for number in range(100, 1100):
    connection.execute(f"INSERT INTO history VALUES ({', '.join('?' * 14)})", (number, *row[1:]))
connection.execute("UPDATE head SET sequence = 1099")
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_transaction_cut_in_half_is_rolled_back(place: Path) -> None:
    """A process killed while pages are written leaves a journal, which the next one takes in, also to look only."""
    subprocess.run([sys.executable, "-c", WRITE_HALF, str(place)], timeout=60, check=False)
    assert place.with_name("budget.db-journal").stat().st_size > 0
    looked_at = Ledger(place, read_only=True)
    assert [entry.state for entry in looked_at.history()] == ["published"] and looked_at.verify()
    Ledger(place).reserve(QUARTER)
    assert len(Ledger(place).history()) == 2


def test_a_torn_database_without_its_journal_is_refused(place: Path, tmp_path: Path) -> None:
    """Whatever part of a transaction's pages is in the file: it has the old history, the new one, or is refused."""
    old, torn = place.read_bytes(), tmp_path / "torn.db"
    ledger = Ledger(place)
    ledger.reserve(QUARTER)
    ledger.disconnect()
    new, size = place.read_bytes(), 4096
    changed = [at for at in range(0, len(new), size) if old[at : at + size] != new[at : at + size]]
    outcomes = []
    for chosen in range(1 << len(changed)):
        pages = bytearray(old)
        for number, at in enumerate(changed):
            if chosen >> number & 1:
                pages[at : at + size] = new[at : at + size]
        torn.write_bytes(pages)
        # As the note is at that moment: the second slot, which says that both are done, was not written.
        note_of(torn).write_bytes(note_of(place).read_bytes())
        _forget_last(note_of(torn))
        try:
            outcomes.append(len(Ledger(torn).history()))
        except UnreadableLedger:
            outcomes.append(0)
    assert outcomes[0] == 1 and outcomes[-1] == 2 and 0 in outcomes and set(outcomes) == {0, 1, 2}


def _forget_last(note: Path) -> None:
    """Take the last thing back that was written to a note."""
    content = bytearray(note.read_bytes())
    last = max((0, 4096), key=lambda at: content[at + 15 : at + 35])
    content[last : last + 512] = bytes(512)
    note.write_bytes(content)


PUBLISH_AND_DIE = """
import os, signal, sys, dptally
from dptally.ledger.ledger import Reservation
Reservation.published = lambda self: os.kill(os.getpid(), signal.SIGKILL)
dptally.publish({"a": 500}, epsilon="3/4", mechanism="dense", universe=["a"], ledger=sys.argv[1])
"""


def test_a_database_moved_after_a_kill_has_its_rows(place: Path, tmp_path: Path) -> None:
    """kill -9, then moving the database alone: what was drawn is in it; without its note it is refused."""
    killed = subprocess.run([sys.executable, "-c", PUBLISH_AND_DIE, str(place)], timeout=60, check=False)
    assert killed.returncode == -signal.SIGKILL
    moved = tmp_path / "moved.db"
    shutil.copy(place, moved)
    refused(moved, "has no readable note")
    with closing(sqlite3.connect(moved)) as connection:
        assert connection.execute("SELECT state FROM history WHERE sequence > 3").fetchall() == [
            ("reserved",),
            ("drawn",),
        ]
    shutil.copy(note_of(place), note_of(moved))
    with pytest.raises(InvalidParameter, match="Budget exceeded"):
        Ledger(moved).reserve(QUARTER)


def test_a_ledger_that_was_being_made_can_be_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process killed between note and database leaves nothing that stands in the way of the next one."""
    place = tmp_path / "new.db"
    child = os.fork()
    if child == 0:
        monkeypatch.setattr(Path, "rename", lambda *_: os.kill(os.getpid(), signal.SIGKILL))
        try:
            Ledger(place, epsilon=1, delta=0)
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
    assert note_of(place).exists() and not place.exists()
    Ledger(place, epsilon=1, delta=0).reserve(WHOLE)


@pytest.mark.parametrize("step", ["pwrite", "fsync", "rename"])
def test_a_ledger_that_cannot_be_made_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    """No half note is left that would be taken for that of a ledger that is gone; the next attempt succeeds."""

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    place = tmp_path / "new.db"
    with monkeypatch.context() as patched:
        patched.setattr(Path if step == "rename" else os, step, full)
        with pytest.raises(DptallyError, match="No space left on device"):
            Ledger(place, epsilon=1, delta=0)
    assert list(tmp_path.iterdir()) == []
    Ledger(place, epsilon=1, delta=0).reserve(WHOLE)


def test_a_file_put_in_place_of_an_open_one_is_noticed(place: Path, tmp_path: Path) -> None:
    """A process that has the ledger open does not go on with a file that is no longer at its place."""
    held = Ledger(place)
    shutil.copy(place, tmp_path / "copy.db")
    (tmp_path / "copy.db").replace(place)
    with pytest.raises(UnreadableLedger, match="was replaced by another file while it was in use"):
        held.reserve(QUARTER)
