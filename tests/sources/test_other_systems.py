"""Systems other than Linux: everything works without the names that only Linux has, and without /proc."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

# What Python's os, signal, fcntl and select have on Linux and not on macOS.
START = """
import fcntl, os, select, signal, sys

ONLY_LINUX = {
    os: (
        "setxattr getxattr listxattr removexattr memfd_create sched_getaffinity sched_setaffinity sched_getparam "
        "sched_setparam sched_getscheduler sched_setscheduler sched_rr_get_interval posix_fadvise posix_fallocate "
        "copy_file_range splice eventfd eventfd_read eventfd_write getrandom pidfd_open unshare setns getresuid "
        "getresgid setresuid setresgid fdatasync pipe2 waitid O_TMPFILE O_DIRECT O_PATH O_NOATIME O_LARGEFILE O_RSYNC"
    ),
    signal: "sigtimedwait sigwaitinfo pidfd_send_signal SIGRTMIN SIGRTMAX SIGSTKFLT SIGPWR SIGPOLL",
    fcntl: "F_GETPIPE_SZ F_SETPIPE_SZ F_ADD_SEALS F_GET_SEALS F_NOTIFY",
    select: "epoll",
}
for module, names in ONLY_LINUX.items():
    for name in names.split():
        if hasattr(module, name):
            delattr(module, name)

def watch(event, arguments):
    if any(os.fsdecode(name).startswith("/proc") for name in arguments if isinstance(name, (str, bytes, os.PathLike))):
        raise RuntimeError(f"{event} with a path below /proc")

sys.addaudithook(watch)

import dptally
from dptally.sources import open_rows

PRIVACY = {"epsilon": 1, "delta": "1e-6"}
"""

FLOW = """
import polars as pl

table = pl.DataFrame({"k": ["a"] * 1000 + ["b"] * 1000, "u": range(2000)})
table.write_parquet("t.parquet")
table.write_csv("t.csv")
table.write_ndjson("t.jsonl")
ledger = dptally.Ledger("budget.db", epsilon=20, delta="1e-4")
for source in (table, table.to_arrow(), "t.parquet", "t.csv", "t.jsonl"):
    assert len(dptally.publish(source, key="k", unit="u", **PRIVACY)) == 2
    for options in ({}, {"mechanism": "misra_gries", "capacity": 10}):
        release = dptally.publish(source, key="k", ledger=ledger, **PRIVACY, **options)
        assert len(release) == 2, (source, options)
dptally.publish("t.parquet", key="k", ledger=ledger, sampling=dptally.Ppswor("0.01"), **PRIVACY)
dptally.publish(["a"] * 1000, ledger=ledger, **PRIVACY)
for overwrite in (False, True):
    release.save("r.parquet", overwrite=overwrite)
    dptally.load("r.parquet").verify()
sketch = dptally.MisraGriesSketch(10)
sketch.update(["a"] * 100)
sketch.save("a.sketch")
ledger.verify()
assert len(ledger.history()) == 12
assert not [name for name in os.listdir() if name.startswith(".")]
"""

INPUT = """
rows = open_rows("-", key="k", unit=None, format=sys.argv[1])
assert not any(path.startswith("/proc") for path in rows.paths), rows.paths
del rows
"""

PUBLISHED = """
from dptally.cli import main

sys.exit(main(["publish", "-", "--format", sys.argv[1], "--key", "k", "--epsilon", "1", "--delta", "1e-6", "-q"]))
"""


def run(program: str, place: Path, *arguments: str, content: bytes = b"") -> str:
    """Run a program as on another system, and return what it printed."""
    done = subprocess.run(
        [sys.executable, "-c", START + program, *arguments], cwd=place, input=content, capture_output=True, timeout=120
    )
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout.decode()


def test_the_flow_without_linux(tmp_path: Path) -> None:
    """Sources, mechanisms, files and the ledger do without what only Linux has."""
    run(FLOW, tmp_path)


CONTENT = {
    "csv": b"k\n" + b"a\nb\n" * 50_000,
    "tsv": b"k\tj\n" + b"a\t1\nb\t2\n" * 50_000,
    "jsonl": b'{"k": "a"}\n{"k": "b"}\n' * 50_000,
}


@pytest.mark.parametrize("kind", CONTENT)
def test_standard_input_without_linux(tmp_path: Path, kind: str) -> None:
    """Standard input is read to its end, more than a pipe holds, and not by way of /proc."""
    run(INPUT, tmp_path, kind, content=CONTENT[kind])
    printed = run(PUBLISHED, tmp_path, kind, content=CONTENT[kind]).splitlines()
    assert [line.split(",")[0] for line in printed] == ["k", "a", "b"]


def test_a_bad_line_of_standard_input(tmp_path: Path) -> None:
    """An error names standard input, not the pipe it is read by."""
    program = [sys.executable, "-m", "dptally", "publish", "-", "--key", "k", "--epsilon", "1", "--delta", "1e-6"]
    done = subprocess.run(program, input=b"k,j\na,1\nb\n", capture_output=True, cwd=tmp_path, timeout=120)
    assert done.returncode == 1
    assert done.stderr == b"dptally: line 3 of standard input does not have as many fields as the header.\n"
