"""Real pages in Debian's Chromium, driven by playwright-core and judged by axe-core, both from the npm registry.

Where Chromium, Node.js or the registry are missing, tests that need them are skipped with the reason.
"""

from __future__ import annotations

import atexit
import functools
import json
import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import pytest

__all__ = ["look_at"]

_PACKAGES = ("playwright-core@1.64.1", "axe-core@4.14.0")
_SCRIPT = Path(__file__).with_name("checks.mjs")


def look_at(pages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What a browser sees on pages.

    Args:
        pages: see `checks.mjs`.

    Returns:
        list[dict[str, Any]]: for each page `load` (ms), `violations`, `console`, `requests`, `overflow`, `answers`,
        `focused`; `text` without scripts.
    """
    chromium = os.environ.get("DPTALLY_TEST_CHROMIUM") or shutil.which("chromium")
    node = shutil.which("node")
    if chromium is None:
        pytest.skip("needs Chromium: apt-get install chromium")
    folder = _driver()
    if folder is None or node is None:
        pytest.skip(f"needs Node.js, and {' and '.join(_PACKAGES)} from the npm registry")
    asked = {"chromium": chromium, "axe": str(folder / "node_modules/axe-core/axe.min.js"), "pages": pages}
    command = [node, str(folder / _SCRIPT.name)]
    seen = subprocess.run(
        command, cwd=folder, input=json.dumps(asked), capture_output=True, text=True, timeout=240, check=False
    )
    assert seen.returncode == 0, seen.stderr[-2000:]
    found: list[dict[str, Any]] = json.loads(seen.stdout)
    return found


@functools.cache
def _driver() -> Path | None:
    """A directory with the script and its packages, for this process; None where they cannot be had."""
    npm = shutil.which("npm")
    if npm is None:
        return None
    folder = Path(tempfile.mkdtemp(prefix="dptally-browser-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    install = [npm, "install", "--no-audit", "--no-fund", "--silent", "--ignore-scripts", *_PACKAGES]
    done = subprocess.run(install, cwd=folder, capture_output=True, timeout=120, check=False)
    if done.returncode:
        return None
    (folder / _SCRIPT.name).write_text(_SCRIPT.read_text())
    return folder
