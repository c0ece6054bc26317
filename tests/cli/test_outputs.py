"""What commands write: tried before anything is spent, never an input or the ledger, not lost once it is paid for."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

import dptally
from dptally import files as whole_files
from dptally import publishing
from dptally.errors import InvalidParameter
from tests.cli.conftest import PRIVACY, Run


@pytest.fixture
def ledger(tmp_path: Path) -> Path:
    """A ledger with a budget for two releases."""
    dptally.Ledger(tmp_path / "budget.db", epsilon=2, delta="2e-6")
    return tmp_path / "budget.db"


def unspent(ledger: Path) -> bool:
    """Whether nothing was paid from a ledger that is whole."""
    return dptally.Ledger(ledger).history() == []


def refused(run: Run, events: Path, ledger: Path, output: Path, sentence: str) -> None:
    """Publishing into a file is refused with one sentence, and nothing is spent."""
    done = run(
        "publish", events, "--key", "fruit", *PRIVACY, "--ledger", ledger, "-o", output, "--overwrite", "--quiet"
    )
    assert (done.status, done.out) == (2, "")
    assert sentence in done.err and done.err.count("\n") == 1
    assert unspent(ledger)


def test_a_dangling_link(events: Path, ledger: Path, run: Run, tmp_path: Path) -> None:
    """A symbolic link to a file that does not exist is refused, with and without --overwrite, and stays."""
    link = tmp_path / "link.parquet"
    link.symlink_to(tmp_path / "nowhere.parquet")
    refused(run, events, ledger, link, "is a symbolic link to a file that does not exist; name the file itself.")
    done = run("publish", events, "--key", "fruit", *PRIVACY, "--ledger", ledger, "-o", link)
    assert done.status == 2 and unspent(ledger)
    assert link.is_symlink()


@pytest.mark.parametrize("length", [237, 238, 244, 255])
@pytest.mark.parametrize("overwrite", [True, False])
@pytest.mark.parametrize("nameless", [True, False])
def test_long_names(tmp_path: Path, length: int, overwrite: bool, nameless: bool, monkeypatch: Any) -> None:
    """Every name that the file system takes can be written, also where another file is replaced."""
    if not nameless:
        monkeypatch.delattr(os, "O_TMPFILE", raising=False)
    path = tmp_path / ("é" + "r" * (length - 2))
    for content in (b"one", b"two") if overwrite else (b"one",):
        whole_files.check_target(path, overwrite=overwrite)
        with whole_files.complete_or_absent(path, overwrite=overwrite) as file:
            file.write(content)
        assert path.read_bytes() == content
    assert list(tmp_path.iterdir()) == [path]


def test_a_long_name_over_another_file(events: Path, ledger: Path, run: Run, tmp_path: Path) -> None:
    """A release of 244 characters replaces one of the same name."""
    output = tmp_path / ("r" * 236 + ".parquet")
    output.write_bytes(b"old")
    done = run("publish", events, "--key", "fruit", *PRIVACY, "--ledger", ledger, "-o", output, "--overwrite", "-q")
    assert (done.status, done.err) == (0, "")
    assert len(dptally.load(output).table()) == 3


def test_names_that_no_file_can_have(events: Path, ledger: Path, run: Run, tmp_path: Path) -> None:
    """A name that is too long is refused before anything is spent."""
    refused(run, events, ledger, tmp_path / ("r" * 248 + ".parquet"), "cannot be written: File name too long.")
    with pytest.raises(InvalidParameter, match="cannot be written: Invalid argument"):
        whole_files.check_target(tmp_path / "a\0b", overwrite=False)


def test_devices_are_not_replaced(events: Path, ledger: Path, run: Run, tmp_path: Path) -> None:
    """A pipe or a device is no place for a release, whatever its directory allows."""
    os.mkfifo(tmp_path / "pipe")
    refused(run, events, ledger, tmp_path / "pipe", "is not a regular file.")
    refused(run, events, ledger, Path(os.devnull), "is not a regular file.")


@pytest.mark.parametrize("name", ["budget.db", "budget.db-wal", "budget.db-head", "budget.db-journal"])
def test_the_ledger_is_not_replaced(events: Path, ledger: Path, run: Run, name: str) -> None:
    """A ledger and the files that belong to it are no outputs; it stays as it is."""
    refused(run, events, ledger, ledger.with_name(name), "what is written needs a file of its own.")


@pytest.mark.parametrize("link", [os.link, os.symlink])
def test_the_ledger_by_another_name(events: Path, ledger: Path, run: Run, tmp_path: Path, link: Any) -> None:
    """Neither does it help to call the ledger by another name, for the output or for the ledger."""
    other = tmp_path / "other.db"
    link(ledger, other)
    done = run("publish", events, "--key", "fruit", *PRIVACY, "--ledger", ledger, "-o", other, "--overwrite", "--quiet")
    # A ledger with two hard links is not used at all.
    assert done.status and done.out == "" and ("belongs to the ledger" in done.err or "2 names" in done.err)
    other.unlink()
    assert unspent(ledger)


def test_saving_over_a_ledger(ledger: Path, tmp_path: Path) -> None:
    """In Python, too, a database and the files beside it are not replaced, whatever is said."""
    release = dptally.publish({"a": 1000}, epsilon=1, delta="1e-6")
    for place in (ledger, ledger.with_name("budget.db-wal"), ledger.with_name("budget.db-head")):
        with pytest.raises(InvalidParameter, match=r"belongs to the database .*budget\.db, which may be a ledger"):
            release.save(place, overwrite=True)
    assert unspent(ledger)
    (tmp_path / "budget").write_bytes(b"no database")
    release.save(tmp_path / "budget-head", overwrite=True)


# Inputs. Each command is given an output that is one of its inputs, by a hard link.


@pytest.fixture
def sketch(tmp_path: Path, events: Path, run: Run) -> Path:
    """A sketch of `events`."""
    place = tmp_path / "a.sketch"
    assert run("sketch", "build", events, "--key", "fruit", "--capacity", 10, "-o", place, "-q").status == 0
    return place


COMMANDS: dict[str, tuple[str, ...]] = {
    "publish": ("publish", "EVENTS", "--key", "fruit", *PRIVACY),
    "sanitize": ("sanitize", "EVENTS", "--key", "fruit", "--count", "user", "--sampling", "ppswor:0.01", *PRIVACY),
    "heavy hitters": ("heavy-hitters", "EVENTS", "--key", "fruit", *PRIVACY),
    "quantile": ("quantile", "EVENTS", "--value", "user", "--low", "0", "--high", "9", *PRIVACY),
    "sketch build": ("sketch", "build", "EVENTS", "--key", "fruit", "--capacity", "10"),
    "sketch merge": ("sketch", "merge", "SKETCH", "SKETCH"),
    "sketch publish": ("sketch", "publish", "SKETCH", *PRIVACY),
    "combine": ("combine", "RELEASE", "RELEASE", "--units", "disjoint"),
    "report": ("report", "RELEASE"),
    "plot": ("plot", "RELEASE"),
}
ENDINGS = {"combine": ".csv", "report": ".html", "plot": ".svg"}


@pytest.mark.parametrize("command", COMMANDS)
def test_inputs_are_not_replaced(
    command: str, events: Path, sketch: Path, release: Path, run: Run, tmp_path: Path
) -> None:
    """An output that is an input, whatever its name, is refused before anything is read, and stays."""
    files = {"EVENTS": events, "SKETCH": sketch, "RELEASE": release}
    read = next(place for name, place in files.items() if name in COMMANDS[command])
    output = tmp_path / f"other{ENDINGS.get(command, '.parquet')}"
    output.hardlink_to(read)
    before = read.read_bytes()
    done = run(*(files.get(word, word) for word in COMMANDS[command]), "-o", output, "--overwrite")
    assert (done.status, done.out) == (2, "")
    assert done.err == f"dptally: {output} is also an input; what is written needs a file of its own.\n"
    assert read.read_bytes() == before and list(tmp_path.glob(".*")) == []


def test_inputs_named_by_a_glob_or_a_url(events: Path, ledger: Path, run: Run, tmp_path: Path) -> None:
    """Files that a glob finds, and the file of a database, are inputs, too."""
    output = tmp_path / "part-1.parquet"
    output.hardlink_to(events)
    for source in (tmp_path / "part-*.parquet", f"sqlite:///{output}"):
        done = run("publish", source, "--key", "fruit", *PRIVACY, "-o", output, "--overwrite")
        assert done.status == 2 and "is also an input" in done.err


def test_two_outputs_in_one_file(events: Path, run: Run, tmp_path: Path) -> None:
    """Two outputs of one command are two files."""
    place = tmp_path / "a.sketch"
    request = ("sketch", "build", events, "--key", "fruit", "--capacity", 10, "--checkpoint", place, "-o", place)
    done = run(*request)
    assert (done.status, done.err) == (2, f"dptally: {place} is named for two outputs; each needs a file of its own.\n")
    assert not place.exists()


# What happens between the trial and the writing.


def test_a_name_that_was_taken_meanwhile(events: Path, run: Run, tmp_path: Path, monkeypatch: Any) -> None:
    """A release that cannot have its name any more is written beside it, and the sentence says where."""
    output, whole = tmp_path / "r.parquet", publishing.publish

    def slowly(*arguments: Any, **options: Any) -> Any:
        release = whole(*arguments, **options)
        output.write_bytes(b"of another process")
        return release

    monkeypatch.setattr(publishing, "publish", slowly)
    done = run("publish", events, "--key", "fruit", *PRIVACY, "-o", output)
    assert done.status == 1 and output.read_bytes() == b"of another process"
    (kept,) = tmp_path.glob("r-*.parquet")
    assert done.err.endswith(f"What was to be written, which may have been paid for, is in {kept} instead.\n")
    assert len(dptally.load(kept).table()) == 3


def test_a_system_without_nameless_files_or_proc(tmp_path: Path, monkeypatch: Any) -> None:
    """Where files without a name cannot be given one, a hidden name is used, for the trial and for the file alike."""
    monkeypatch.setattr(whole_files, "_OPEN_FILES", tmp_path / "no proc")
    for overwrite in (False, True):
        whole_files.check_target(tmp_path / "a", overwrite=overwrite)
        with whole_files.complete_or_absent(tmp_path / "a", overwrite=overwrite) as file:
            hidden = [path.name for path in tmp_path.iterdir() if path.name.startswith(".a.")]
            assert len(hidden) == 1
            file.write(b"whole")
    assert [path.name for path in tmp_path.iterdir()] == ["a"]
