"""Processes that die in the middle of an add, two of them at once, and a disk that is full."""

from __future__ import annotations

import random
import resource
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import polars as pl
import pytest

from dptally import DptallyError, InvalidParameter, Series
from dptally.series.state import State

ADD = """
import sys
from dptally import Series
series = Series.open(sys.argv[1])
print("ready", flush=True)
sys.stdin.readline()
release = series.add(sys.argv[2], period=int(sys.argv[3]))
release.save(sys.argv[4], overwrite=True)
print("done", flush=True)
"""


def start(*arguments: object) -> subprocess.Popen[str]:
    """An add in a process of its own, which waits for a line before it begins."""
    command = [sys.executable, "-c", ADD, *map(str, arguments)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


def go(process: subprocess.Popen[str]) -> None:
    """Let it begin."""
    assert process.stdin is not None
    process.stdin.write("\n")
    process.stdin.flush()


@pytest.fixture
def series(tmp_path: Path) -> Path:
    """A series with one period, rows of the next one in a file, and a twin of both."""
    place = tmp_path / "s"
    made = Series.create(place, key="word", unit="user", max_keys_per_unit=3, epsilon=4, delta="1e-3", periods=9)
    first = pl.DataFrame({"word": [f"w{n % 40}" for n in range(20_000)], "user": [n % 5000 for n in range(20_000)]})
    made.add(first, period=1)
    made.close()
    first.with_columns(pl.col("user") + 2500).write_parquet(tmp_path / "rows.parquet")
    for suffix in ("", "-head"):
        shutil.copy2(tmp_path / f"s{suffix}", tmp_path / f"twin{suffix}")
    return place


def killed_at_random(place: Path, times: int) -> None:
    """Adds that are killed at random moments; after each, an add gives what an add that was not killed gives."""
    folder = place.parent
    original = {suffix: (folder / f"s{suffix}").read_bytes() for suffix in ("", "-head")}
    expected = Series.open(folder / "twin").add(folder / "rows.parquet", period=2).table()
    moments = random.Random(7)  # noqa: S311
    for _ in range(times):
        process = start(place, folder / "rows.parquet", 2, folder / "out.parquet")
        go(process)
        time.sleep(moments.uniform(0, 0.6))
        process.kill()
        process.wait()
        again = Series.open(place)
        assert again.periods in (["1"], ["1", "2"])
        try:
            found = again.add(folder / "rows.parquet", period=2)
        except InvalidParameter as error:  # it was complete, and handed out
            assert "was added already" in str(error)
            found = again.release(2)
        assert found.table().equals(expected)
        assert again.periods == ["1", "2"]
        again.close()
        (folder / "s-journal").unlink(missing_ok=True)
        for suffix, body in original.items():  # the whole place as it was: state and note
            (folder / f"s{suffix}").write_bytes(body)


def test_an_add_that_is_killed_changes_nothing_or_is_complete(series: Path) -> None:
    """A few moments; the numbers of the next add are the same in any case."""
    killed_at_random(series, 4)


@pytest.mark.slow
def test_an_add_that_is_killed_at_three_hundred_moments(series: Path) -> None:
    """As above."""
    killed_at_random(series, 300)


def test_two_adds_of_one_period_add_it_once(series: Path) -> None:
    """The second waits for the first and is refused; nothing is drawn twice."""
    folder = series.parent
    processes = [start(series, folder / "rows.parquet", 2, folder / f"{n}.parquet") for n in range(2)]
    for process in processes:
        go(process)
    outcomes = sorted(process.wait() for process in processes)
    assert outcomes == [0, 1]
    assert Series.open(series).periods == ["1", "2"]


def test_an_add_waits_no_longer_than_it_may(series: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """While another process writes, an add is refused after some time."""
    monkeypatch.setattr("dptally.series.state._WAIT", 0.2)
    other, mine = State(series), Series.open(series)
    with other.writing(), pytest.raises(InvalidParameter, match="in use by another process"):
        mine.add(series.parent / "rows.parquet", period=2)


def test_a_full_disk_leaves_the_state_as_it_was(series: Path) -> None:
    """The largest size of a file stands for the disk; afterwards the same add has the numbers of its twin."""
    folder = series.parent
    expected = Series.open(folder / "twin").add(folder / "rows.parquet", period=2).table()
    mine, before = Series.open(series), series.read_bytes()
    limits, old = resource.getrlimit(resource.RLIMIT_FSIZE), signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (series.stat().st_size + 4096, limits[1]))
        with pytest.raises(DptallyError, match="nothing was added"):
            mine.add(folder / "rows.parquet", period=2)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, old)
    assert series.read_bytes() == before
    assert mine.add(folder / "rows.parquet", period=2).table().equals(expected)


def test_a_damaged_state_is_found(series: Path) -> None:
    """Every table of the state has a hash that is compared when it is read."""
    body = bytearray(series.read_bytes())
    place = body.find(b"ARROW") if b"ARROW" in body else len(body) // 2
    body[place + 2000] ^= 1
    body[len(body) // 2] ^= 1
    series.write_bytes(body)
    with pytest.raises((DptallyError, InvalidParameter)):
        Series.open(series).add(series.parent / "rows.parquet", period=2)
