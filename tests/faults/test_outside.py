"""What looks from outside must see what is wrong: every invariant, violated on purpose, is noticed."""

from __future__ import annotations

import json
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from studies.reliability.outside import left_in, read_release, read_sketch
from studies.reliability.scenes import Scene, make_scene

from dptally.cli import main
from dptally.files import complete_or_absent
from dptally.ledger import Ledger
from dptally.sketches import MisraGriesSketch


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    """One release that was paid for."""
    made = make_scene(tmp_path, "scene")
    assert main(made.job().arguments) == 0
    return made


def altered(scene: Scene, sql: str) -> list[str]:
    """What is found after plain SQL has changed the ledger."""
    with closing(sqlite3.connect(scene.ledger)) as connection:
        connection.executescript("DROP TRIGGER never_changed; DROP TRIGGER never_removed;" + sql)
    return scene.books().violations


def test_all_is_well(scene: Scene) -> None:
    """A release that was paid for violates nothing, and is counted."""
    books, found = scene.after_a_kill()
    assert found == [] == scene.after_a_start(0, "") and books.states() == ["published"]
    assert read_release(scene.target, books, scene.rare)[1] == 5


def test_a_release_without_spending(scene: Scene) -> None:
    """A release of which another ledger, or an earlier copy, knows nothing is noticed."""
    other = make_scene(scene.scratch, "other")
    shutil.copyfile(scene.target, other.target)
    assert "no spending for it" in other.after_a_kill()[1][0]


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("DELETE FROM history WHERE sequence = 3", "second table"),
        ("DELETE FROM history WHERE sequence = 2", "row 2 does not follow"),
        ("UPDATE history SET state = 'void' WHERE sequence = 2", "row 2 does not follow"),
        ("DELETE FROM history WHERE sequence > 1; UPDATE head SET sequence = 1, hash = (SELECT hash FROM history "
         "WHERE sequence = 1)", "the note names another row"),
    ],
)  # fmt: skip
def test_a_history_that_was_changed(scene: Scene, sql: str, message: str) -> None:
    """Rows edited or missing are noticed without the library."""
    assert any(message in violation for violation in altered(scene, sql))


@pytest.mark.parametrize(("content", "message"), [(None, "the note is missing"), (b"", "the note is not readable")])
def test_a_note_that_is_lost(scene: Scene, content: bytes | None, message: str) -> None:
    """A ledger without a readable note beside it is noticed."""
    note = scene.ledger.with_name(scene.ledger.name + "-head")
    note.unlink()
    if content is not None:
        note.write_bytes(content)
    assert scene.books().violations == [message]


def test_a_release_that_counts(scene: Scene) -> None:
    """A release that names the number of its entry is noticed."""
    table = pq.read_table(scene.target)
    facts = json.loads(table.schema.metadata[b"dptally"])
    facts["guarantee"]["record"]["entry"] = 1
    pq.write_table(table.replace_schema_metadata({b"dptally": json.dumps(facts)}), scene.target)
    assert any("tells how many entries" in violation for violation in scene.after_a_kill()[1])


def test_too_much(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A ledger that lets through more than its budget is noticed."""
    scene = make_scene(tmp_path, "small", releases=1)
    monkeypatch.setattr(Ledger, "_refuse", lambda *_: None)
    for _ in range(2):
        assert main(scene.job().arguments) == 0
    assert scene.books().violations == ["more was spent than the budget holds"]


def test_half_a_file(scene: Scene) -> None:
    """Half a release is none."""
    scene.target.write_bytes(scene.target.read_bytes()[:-100])
    assert "half a file" in scene.after_a_kill()[1][0]


def test_the_rare_key(scene: Scene) -> None:
    """A release, a temporary file or a message with the rare key is noticed."""
    table = pq.read_table(scene.target)
    keys = pa.array([scene.rare, *table.column("key").to_pylist()[1:]], table.schema.field("key").type)
    pq.write_table(table.set_column(0, table.schema.field("key"), keys), scene.target, compression="zstd")
    assert scene.after_a_kill()[1] == ["release.parquet has the rare key"]
    (scene.temporary / "spill").write_text(scene.rare)
    assert "rare key among them" in left_in(scene.temporary, scene.rare)[0]
    assert "the rare key was printed" in scene.after_a_start(1, f"dptally: {scene.rare}")


def test_a_hidden_name(scene: Scene) -> None:
    """What is left of a file under a hidden name is noticed after a start that wrote that file, not another one."""
    (scene.output / f".{scene.target.name}.{'0' * 16}").write_bytes(b"")
    assert scene.after_a_start(0, "") == ["1 hidden files were left"]
    assert scene.after_a_start(0, "", scene.output / "other.parquet") == []


def test_half_a_sketch(tmp_path: Path) -> None:
    """A sketch that is cut, or that others may read, is noticed."""
    sketch = MisraGriesSketch(4)
    sketch.update(["a", "b"])
    path = tmp_path / "a.sketch"
    sketch.save(path)
    assert read_sketch(path) == []
    path.chmod(0o644)
    assert "by others" in read_sketch(path)[0]
    path.write_bytes(path.read_bytes()[:-1])
    assert "half a sketch" in read_sketch(path)[0]


def test_what_a_killed_process_left_is_removed(tmp_path: Path) -> None:
    """A hidden file that no process holds goes with the next write of its path; held ones and others stay."""
    target = tmp_path / "release.parquet"
    left = tmp_path / ".release.parquet.0123456789abcdef"
    others = [tmp_path / name for name in (".release.parquet.backup", ".other.0123456789abcdef", "release.parquet.0")]
    for path in (left, *others):
        path.write_bytes(b"left")
    with complete_or_absent(target, overwrite=True) as file:
        file.write(b"new")
        with complete_or_absent(target, overwrite=True) as second:
            second.write(b"newer")
    assert target.read_bytes() == b"new" and not left.exists()
    assert all(path.exists() for path in others) and len(list(tmp_path.iterdir())) == 4


def test_a_file_in_the_making_is_left_alone(tmp_path: Path) -> None:
    """The hidden file of a process that lives is locked, and nobody else removes it."""
    import fcntl

    held = tmp_path / ".a.0123456789abcdef"
    with held.open("wb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        with complete_or_absent(tmp_path / "a", overwrite=False) as other:
            other.write(b"whole")
        assert held.exists()
