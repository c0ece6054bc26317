"""What does not fit in memory: files that nobody else may read, and that no crash leaves behind for long."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import dptally

ROOT = Path(__file__).parents[2]
LARGEST_OVERHEAD = 300e6  # bytes of a process that has imported everything, and of batches on their way


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two million rows, all keys different, units of seven rows."""
    path = tmp_path_factory.mktemp("large") / "large.parquet"
    numbers = np.random.default_rng(1).permutation(2_000_000)
    text = pc.binary_join_element_wise(pa.array(numbers).cast(pa.string()), "x" * 40, "-")
    pq.write_table(pa.table({"k": text, "u": numbers // 7}), path)
    return path


def program(large: Path, limit: str, unit: str | None) -> list[str]:
    """A process that publishes with a memory limit, and prints its peak memory in kilobytes."""
    code = (
        "import re, sys, dptally\n"
        f"dptally.publish(sys.argv[1], key='k', unit={unit!r}, epsilon=1, delta='1e-6', memory_limit={limit!r})\n"
        "print(re.findall(r'VmHWM:\\s+(\\d+)', open('/proc/self/status').read())[0])\n"
    )
    return [sys.executable, "-c", code, str(large)]


def spilled(folder: Path) -> list[Path]:
    """What DuckDB has written so far."""
    return [path for path in folder.glob("dptally-spill-*/*") if path.name != "lock" and path.stat().st_size > 1 << 20]


def test_a_killed_process(large: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Spilled files have mode 0600; what a process leaves that is killed while it spills, the next start removes."""
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    process = subprocess.Popen(program(large, "200MB", "u"), cwd=ROOT, env=environment, stdout=subprocess.DEVNULL)
    deadline = time.monotonic() + 60
    while not spilled(tmp_path) and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.01)
    process.send_signal(signal.SIGSTOP)  # so that it does not end while we look
    found = spilled(tmp_path)
    modes = {path.stat().st_mode & 0o777 for path in tmp_path.glob("dptally-spill-*/*")}
    folders = {path.stat().st_mode & 0o777 for path in tmp_path.iterdir()}
    process.kill()
    assert process.wait() == -signal.SIGKILL
    assert found and modes == {0o600} and folders == {0o700}
    assert all(path.exists() for path in found)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    dptally.publish(pa.table({"k": ["a"]}), key="k", epsilon=1, delta="1e-6")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("unit", [None, "u"])
def test_peak_memory(large: Path, unit: str | None, tmp_path: Path) -> None:
    """The peak of the whole process stays within the limit and what any process of ours takes; the rest is spilled."""
    command = program(large, "200MB", unit)
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True, timeout=120)
    assert int(done.stdout) * 1024 < 200e6 + LARGEST_OVERHEAD
    assert list(tmp_path.iterdir()) == []
