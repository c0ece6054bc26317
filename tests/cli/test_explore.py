from __future__ import annotations

import json
import os
import signal
import subprocess
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from tests.cli.conftest import Run, start
from tests.report.releases import make


def _started(*arguments: object) -> tuple[subprocess.Popen[bytes], str]:
    """A running page, and its address."""
    process = start("explore", *arguments, "--no-browser", "--json", stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None
    lines = [process.stdout.readline() for _ in range(4)]
    found = json.loads(b"".join(lines))
    assert f":{found['port']}/" in found["url"]
    return process, found["url"]


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 0), (signal.SIGTERM, 128 + signal.SIGTERM)])
def test_explore_serves_until_it_is_stopped(release: Path, number: int, status: int) -> None:
    """The page is there at the address that was printed, and Ctrl-C ends it in order, without a traceback."""
    process, url = _started(release)
    try:
        with urllib.request.urlopen(url, timeout=20) as answer:  # noqa: S310 - our own server
            assert b"release.parquet" in answer.read()
        with pytest.raises(urllib.error.HTTPError, match="403"):
            urllib.request.urlopen(url.split("?")[0], timeout=20)  # noqa: S310
        os.kill(process.pid, number)
        _, err = process.communicate(timeout=20)
    finally:
        if process.poll() is None:
            process.kill()
    assert process.returncode == status
    assert b"Traceback" not in err


def test_explore_refuses_what_it_cannot_show(tmp_path: Path, run: Run) -> None:
    """Files that are no table of keys, and ports that are none, are refused in one sentence."""
    file = tmp_path / "file"
    for kind in ("compact", "ranges"):
        make(kind).save(file, overwrite=True)
        done = run("explore", file, "--no-browser")
        assert done.status == 2 and done.err.count("\n") == 1 and "dptally" in done.err
    assert run("explore", "--port", "99999", "--no-browser").status == 2
    assert run("explore", tmp_path / "none", "--no-browser").status == 1
