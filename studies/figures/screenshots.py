"""The pictures of the README and of the page on reports: a release of `dptally example`, its report, the explore page.

Needs Chromium. The release is sampled again each time, so the pictures differ a little.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
import threading
from pathlib import Path

from dptally.cli.example import REQUEST, write_words
from dptally.errors import MissingDependency
from dptally.explore.server import ExploreServer
from dptally.publishing import publish

__all__ = ["take"]

_TIME = 20_000  # milliseconds that a page has for its curves


def take(output: Path) -> list[Path]:
    """Write release.png, report.png and explore.png."""
    browser = shutil.which("chromium")
    if browser is None:
        raise MissingDependency("screenshots need Chromium: apt-get install chromium.")
    places = [output / f"{name}.png" for name in ("release", "report", "explore")]
    with tempfile.TemporaryDirectory() as folder:
        data, file, page = (Path(folder) / name for name in ("hamlet.csv", "release.parquet", "report.html"))
        write_words(data)
        release = publish(str(data), **REQUEST)
        release.save(file)
        release.plot().save(places[0])
        release.report(page, title="Words of Shakespeare's Hamlet", file=file)
        _shoot(browser, page.as_uri(), places[1], (1100, 1180))
        with ExploreServer(release, name=file.name) as server:
            threading.Thread(target=server.serve_forever, daemon=True).start()
            _shoot(browser, server.url, places[2], (1100, 900))
            server.shutdown()
    return places


def _shoot(browser: str, address: str, place: Path, size: tuple[int, int]) -> None:
    wanted = [f"--screenshot={place.resolve()}", f"--window-size={size[0]},{size[1]}", f"--virtual-time-budget={_TIME}"]
    command = [browser, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", *wanted, address]
    subprocess.run(command, check=True, capture_output=True, timeout=120)
