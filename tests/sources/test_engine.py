"""What runs underneath leaves nothing behind, stops when told, and says so when it cannot."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dptally.errors import DptallyError, InvalidParameter, InvalidSource
from dptally.randomness import SeededBits
from dptally.sources import open_rows
from dptally.sources.background import in_background
from dptally.sources.engine import OutOfMemory, Session, explain
from dptally.sources.temporary import PrivateDirectory, remove_stale_directories
from dptally.summaries import Frequencies, count_keys

ROOT = Path(__file__).parents[2]


@pytest.fixture
def spill(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A temporary directory of this test alone."""
    folder = tmp_path / "spill"
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three million rows, all keys different."""
    path = tmp_path_factory.mktemp("large") / "large.parquet"
    numbers = np.random.default_rng(1).permutation(3_000_000)
    text = pa.array(numbers).cast(pa.string())
    padding = pa.array(["x" * 40] * len(numbers))
    pq.write_table(pa.table({"k": pa.compute.binary_join_element_wise(text, padding, "-"), "u": numbers // 7}), path)
    return path


def counting(path: Path, **options: str) -> Frequencies:
    """Frequencies of the large file, by unit."""
    return count_keys(open_rows(path, key="k", unit="u"), max_keys_per_unit=3, bits=SeededBits(1), **options)  # type: ignore[arg-type]


def test_spilled_rows_are_removed(spill: Path, large: Path) -> None:
    """What does not fit in memory goes to a private directory, which is gone at the end."""
    seen: set[int] = set()
    with counting(large, memory_limit="250MB") as frequencies:
        total = 0
        for _, counts in frequencies.batches():
            total += int(counts.sum())
            seen |= {path.stat().st_mode & 0o777 for path in spill.iterdir()}
    assert total == (3_000_000 // 7) * 3 + min(3, 3_000_000 % 7)
    assert seen == {0o700}
    assert list(spill.iterdir()) == []


def test_keys_that_do_not_fit_in_memory_are_counted_in_parts(spill: Path, large: Path) -> None:
    """Three million keys in less memory than a group-by of all of them takes."""
    rows = open_rows(large, key="k", unit=None)
    with count_keys(rows, max_keys_per_unit=1, bits=SeededBits(1), memory_limit="60MB") as frequencies:
        keys: set[str] = set()
        for batch, counts in frequencies.batches():
            assert (counts == 1).all()
            keys.update(batch.column(0).to_pylist())
    assert len(keys) == 3_000_000
    assert list(spill.iterdir()) == []


def test_parts_are_split_until_they_fit(spill: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every key comes once, whichever parts turn out to be too large; where all are, the error is said."""
    tried: list[str] = []
    fits: tuple[str, ...] = ("% 4 = 1", "% 4 = 2", "% 16 = ")
    honest = Session.execute
    small = pa.table({"k": [f"key {number % 500}" for number in range(2000)]})

    def crowded(self: Session, sql: str) -> None:
        tried.append(sql)
        if not any(part in sql for part in fits):
            raise OutOfMemory("the work needs more memory than it may take; raise memory_limit.")
        honest(self, sql)

    def counted() -> dict[str, int]:
        rows = open_rows(small, key="k", unit=None)
        with count_keys(rows, max_keys_per_unit=1, bits=SeededBits(1), memory_limit="100MB") as frequencies:
            found: dict[str, int] = {}
            for batch, counts in frequencies.batches():
                assert not found.keys() & set(batch.column(0).to_pylist())
                found.update(zip(batch.column(0).to_pylist(), counts.tolist(), strict=True))
        return found

    monkeypatch.setattr(Session, "execute", crowded)
    assert counted() == {f"key {number}": 4 for number in range(500)}
    assert len(tried) == 1 + 4 + 8
    fits = ()
    with pytest.raises(InvalidSource, match="needs more memory"):
        counted()
    assert list(spill.iterdir()) == []


def test_nothing_is_left_when_counting_stops_early(spill: Path, large: Path) -> None:
    """Closing after the first batch stops the threads and removes the directories."""
    frequencies = counting(large)
    next(frequencies.batches())
    frequencies.close()
    frequencies.close()
    assert list(spill.iterdir()) == []
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("dptally")]
    with pytest.raises(InvalidParameter, match="have been read or closed"):
        next(frequencies.batches())


def test_too_little_memory_and_disk(spill: Path, large: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Running out of memory or of disk is one sentence each, and leaves nothing."""
    with pytest.raises(InvalidSource, match=r"memory|disk"), counting(large, memory_limit="8MB") as frequencies:
        list(frequencies.batches())
    assert list(spill.iterdir()) == []
    full = type("Usage", (), {"free": 1_000_000})
    monkeypatch.setattr("shutil.disk_usage", lambda _: full)
    with pytest.raises(InvalidSource, match="disk space"), counting(large, memory_limit="150MB") as frequencies:
        list(frequencies.batches())
    assert list(spill.iterdir()) == []


@pytest.mark.parametrize("unit", ["None", "'u'"])
def test_control_c_while_waiting_for_input(spill: Path, unit: str) -> None:
    """An interrupt ends the wait for input that does not come, and leaves nothing behind."""
    program = (
        "import sys, dptally.summaries as s, dptally.sources as o\n"
        "from dptally.randomness import SystemBits\n"
        f"rows = o.open_rows('-', key=['k', 'x'], unit={unit})\n"
        "def started(stage, done): print('started', flush=True)\n"
        "f = s.count_keys(rows, max_keys_per_unit=3, bits=SystemBits(), progress=started)\n"
        "for _ in f.batches(): pass\n"
    )
    reading, writing = os.pipe()  # input that never ends: the hardest wait to break off
    os.write(writing, b"k,x,u\n" + b"a,b,1\n" * 100)
    signals = lambda: signal.signal(signal.SIGINT, signal.default_int_handler)  # noqa: E731
    process = subprocess.Popen(
        [sys.executable, "-c", program],
        stdin=reading,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=ROOT,
        preexec_fn=signals,
    )
    assert process.stdout is not None and process.stdout.readline() == b"started\n"
    time.sleep(0.5)
    begin = time.monotonic()
    process.send_signal(signal.SIGINT)
    try:
        _, errors = process.communicate(timeout=20)
    finally:
        os.close(writing)
        os.close(reading)
        process.kill()
    assert b"KeyboardInterrupt" in errors and time.monotonic() - begin < 10
    assert [path for path in spill.iterdir() if path.name.startswith("dptally")] == []


@pytest.mark.parametrize("unit", ["None", "'u'"])
def test_control_c_while_duckdb_works(spill: Path, large: Path, unit: str) -> None:
    """An interrupt stops a query that would run for minutes, promptly, and leaves nothing behind."""
    program = (
        "import sys, duckdb, dptally.summaries as s, dptally.sources as o\n"  # noqa: S608
        "from dptally.randomness import SystemBits\n"
        "c = duckdb.connect()\n"
        "endless = c.sql('SELECT a.range AS k, b.range AS u FROM range(100000000) a, range(100000) b')\n"
        f"rows = o.open_rows(endless, key='k', unit={unit})\n"
        "def started(stage, done): print('started', flush=True)\n"
        "f = s.count_keys(rows, max_keys_per_unit=3, bits=SystemBits(), memory_limit='500MB', progress=started)\n"
        "for _ in f.batches(): pass\n"
    )
    signals = lambda: signal.signal(signal.SIGINT, signal.default_int_handler)  # noqa: E731
    process = subprocess.Popen(
        [sys.executable, "-c", program],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=ROOT,
        preexec_fn=signals,
    )
    assert process.stdout is not None and process.stdout.readline() == b"started\n"
    time.sleep(1.5)
    begin = time.monotonic()
    process.send_signal(signal.SIGINT)
    try:
        _, errors = process.communicate(timeout=20)
    finally:
        process.kill()
    assert b"KeyboardInterrupt" in errors and time.monotonic() - begin < 10
    assert [path for path in spill.iterdir() if path.name.startswith("dptally")] == []


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ('Invalid Input Error: Failed to read file "a.parquet": ZSTD', "may be damaged"),
        ("Failed to decompress GZIP block: data error", "may be damaged"),
        ("Invalid Error: Out of buffer", "may be damaged"),
        ("Conversion Error: Could not convert string 'SECRET' to INT32", "could not be read as asked"),
        ("Invalid Input Error: missing ): SECRET", "could not be read as asked"),
    ],
)
def test_damaged_pages_and_failed_queries_are_told_apart(text: str, sentence: str) -> None:
    """A Parquet file is called damaged where its pages cannot be unpacked, not where a condition on them fails."""
    assert sentence in str(explain(duckdb.Error(text), ["a.parquet"]))
    assert "could not be read as asked" in str(explain(duckdb.Error(text), ["a.jsonl"]))


def test_an_interrupted_wait_goes_on() -> None:
    """Ctrl-C while the reading thread is stopped is raised when that thread has ended, not before."""
    running, asked = threading.Event(), 0

    def slow() -> Iterator[pa.RecordBatch]:
        yield pa.RecordBatch.from_pydict({"a": [1]})
        running.set()
        time.sleep(0.3)
        running.clear()
        yield pa.RecordBatch.from_pydict({"a": [2]})

    def interrupt() -> None:
        nonlocal asked
        asked += 1
        if asked <= 2:
            raise KeyboardInterrupt

    batches = in_background(slow(), interrupt=interrupt, waiting=lambda: None)
    next(batches)
    assert running.wait(10)
    with pytest.raises(KeyboardInterrupt):
        batches.close()
    assert asked > 2 and not running.is_set()


def test_directories_of_dead_processes_are_removed(spill: Path) -> None:
    """A killed process leaves its directory; the next one removes it and touches no living one."""
    living = PrivateDirectory()
    program = (
        "import os; from dptally.sources.temporary import PrivateDirectory as P;"
        "d = P(); (d.path / 'rows').write_text('private'); os.kill(os.getpid(), 9)"
    )
    subprocess.run([sys.executable, "-c", program], cwd=ROOT, check=False)
    assert len(list(spill.iterdir())) == 2
    remove_stale_directories()
    assert list(spill.iterdir()) == [living.path]
    living.close()
    assert list(spill.iterdir()) == []


def test_a_forked_child_does_not_remove_the_directory(spill: Path) -> None:
    """The end of a child process leaves the parent's directory alone."""
    directory = PrivateDirectory()
    child = os.fork()
    if child == 0:
        directory.close()
        os._exit(0)
    os.waitpid(child, 0)
    assert directory.path.exists()
    directory.close()


def test_a_session_reads_no_other_files(tmp_path: Path) -> None:
    """Files that were not named, the network and settings are out of reach."""
    (tmp_path / "named.csv").write_text("k\na\n")
    (tmp_path / "other.csv").write_text("k\nsecret\n")
    session = Session(paths=[str(tmp_path / "named.csv")])
    try:
        assert session.types(f"SELECT * FROM read_csv('{tmp_path}/named.csv')")  # noqa: S608
        for statement in (
            f"SELECT * FROM read_csv('{tmp_path}/other.csv')",  # noqa: S608
            f"COPY (SELECT 1) TO '{tmp_path}/written.csv'",
            "SET enable_external_access = true",
            "INSTALL httpfs",
        ):
            with pytest.raises(DptallyError):
                session.execute(statement)
    finally:
        session.close()
    assert not (tmp_path / "written.csv").exists()


def test_progress_is_reported(large: Path) -> None:
    """The stage is named at once, and fractions lie between 0 and 1."""
    seen: list[tuple[str, float | None]] = []
    rows = open_rows(large, key="k", unit="u")
    with count_keys(rows, max_keys_per_unit=1, bits=SeededBits(1), progress=lambda s, f: seen.append((s, f))) as result:
        list(result.batches())
    assert seen[0] == ("bounding contributions", None)
    assert all(fraction is None or 0 <= fraction <= 1 for _, fraction in seen)


def test_an_interrupted_start_leaves_no_directory(spill: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C may come while a private directory is made."""

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("dptally.sources.temporary.fcntl.flock", interrupted)
    with pytest.raises(KeyboardInterrupt):
        PrivateDirectory()
    assert list(spill.iterdir()) == []


def test_only_what_stays_the_same_is_read_more_than_once(tmp_path: Path) -> None:
    """A row that moves from one key to another between two readings would count for both."""

    class Stream:
        def __iter__(self) -> Iterator[str]:
            return iter("abc")

    file = tmp_path / "a.parquet"
    pl.DataFrame({"k": ["a"]}).write_parquet(file)
    for source in (str(file), pl.DataFrame({"k": ["a"]}), pa.table({"k": ["a"]})):
        assert open_rows(source, key="k", unit=None).repeatable
    for source in (pl.scan_parquet(file), duckdb.connect().sql("SELECT random() AS k")):
        assert not open_rows(source, key="k", unit=None).repeatable
    assert open_rows(["a"], key=None, unit=None).repeatable
    for source in (iter(["a"]), Stream()):
        assert not open_rows(source, key=None, unit=None).repeatable
    rows = open_rows(str(file), key="k", unit=None)
    rows.check_unchanged()
    pl.DataFrame({"k": ["a", "b"]}).write_parquet(file)
    with pytest.raises(InvalidSource, match="was changed while it was read"):
        rows.check_unchanged()


def test_a_query_is_not_counted_in_parts() -> None:
    """It would be run again for each part, with other results."""
    relation = duckdb.connect().sql("SELECT i::VARCHAR || random()::VARCHAR AS k FROM range(1500000) r(i)")
    rows = open_rows(relation, key="k", unit=None)
    with count_keys(rows, max_keys_per_unit=1, bits=SeededBits(1), memory_limit="25MB") as frequencies:
        assert sum(int(counts.sum()) for _, counts in frequencies.batches()) == 1_500_000


@pytest.mark.parametrize("bad", ["much", "4", "-1GB", "0GB", 4])
def test_bad_memory_limits(bad: str) -> None:
    """A memory limit is an amount with a unit."""
    with pytest.raises(InvalidParameter, match="memory_limit must be an amount such as '4GB'"):
        count_keys(open_rows(["a"], key=None, unit=None), max_keys_per_unit=1, bits=SeededBits(1), memory_limit=bad)


def test_unknown_errors_are_not_quoted() -> None:
    """Whatever DuckDB says, none of it is passed on."""
    for kind in (duckdb.ConversionException, duckdb.IOException, duckdb.OutOfMemoryException, duckdb.Error):
        assert "SECRET" not in str(explain(kind("SECRET No unicode in SECRET")))
